// A Redis that is put back to an older file while pipelines run, and while none does: what it has again is not stored
// twice, what it lacks stays stored, and the audit chain knows of both; what was counted is counted again.
import { cpSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type Slice, slicesSince, storedBetween } from '../../clickhouse/queries/chain-strays.ts';
import type { Policy } from '../../schemas/policy.ts';
import { compileRule } from '../../src/policy/compile.ts';
import type { BudgetTerms } from '../../src/policy/kinds/spend-budget.ts';
import { SpendStore } from '../../src/policy/quotas/spend-store.ts';
import { spendOf } from '../../src/policy/spends/spend-form.ts';
import { waitUntilReady } from '../../src/redis/client.ts';
import { StreamReader } from '../../src/streams/consume.ts';
import { EVENT_GROUPS } from '../../src/streams/groups.ts';
import { acquireLease } from '../../src/streams/lease.ts';
import { type AuditWorld, makeAuditWorld, newAccount, newAgent, settle, submit } from '../audit/harness.ts';
import { eventually } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { putBack, startRedis, type TestRedis } from '../support/redis.ts';
import { startPipelines, storedIds } from './harness.ts';

const clickhouse = await startClickHouse(t);
/** More than one write of the recovery chains. */
const MANY = 12_000;

type Case = { world: AuditWorld; redis: TestRedis; who: { account: string; agent: string } };

async function begin(t: Test): Promise<Case> {
  const redis = await startRedis(t, { single: true });
  const world = await makeAuditWorld(t, { redis, clickhouse, partitions: 1 });
  const account = newAccount();
  return { world, redis, who: { account, agent: await newAgent(world, account, 'one') } };
}

const ofAll = { agent_id: null, actions: ['block'], status: 'active', mode: 'enforce', revision: 1 };
const BUDGET = { id: 'pol_b', type: 'budget', conditions: { limit: { tokens: 100 }, window: '1d' }, ...ofAll };
const SEQUENCE = { id: 'pol_s', type: 'sequence', conditions: { after: [{ tool: 'x' }], within: '1h' }, ...ofAll };

/** A sequence, and a budget of which 5 are spent. Answers whether that is known, and how much of it. */
async function counts({ world, who: { account } }: Case): Promise<() => Promise<string[]>> {
  const { redis, keys } = world;
  for (const one of [BUDGET, SEQUENCE]) await redis.hset(keys.policies(account), one.id, JSON.stringify(one));
  const of = spendOf(BUDGET.id, compileRule(BUDGET as unknown as Policy).terms as BudgetTerms);
  const run = async (operation: Parameters<SpendStore['run']>[1][0]['operation']) =>
    (await new SpendStore(redis, keys).run(account, [{ of, operation }]))[0]!;
  const [life, part, at] = [86_400_000, Math.floor((Date.now() * 60) / 86_400_000), Date.now() + 60_000];
  const scoped = { ms: life, scope: 'agent', shown: '', life, part, at, limit: 100, warn: [] };
  await run({ op: 'begin', life });
  await run({ op: 'settle', ...scoped, amount: 5, target: '', stream: 's', place: [1, 0, 0] });
  await run({ op: 'known' });
  return async () => {
    const [known, , , spent = '0'] = await run({ op: 'read', ms: life, most: 10 });
    return [known!, spent];
  };
}

const filesOf = (redis: TestRedis) => path.join(redis.servers[0]!.folder, 'appendonlydir');

async function recovered({ clickhouse }: AuditWorld): Promise<{ chain: string; entries: number }[]> {
  const rows = await clickhouse.query<{ details: string }>(
    "SELECT details FROM audit_log FINAL WHERE action = 'chain.recovered' ORDER BY created_at",
  );
  return rows.map(({ details }) => JSON.parse(details) as { chain: string; entries: number });
}

for (const isRunning of [true, false]) {
  t.test(`put back ${isRunning ? 'under running pipelines' : 'while none runs'}`, async (t) => {
    const { world, redis, who } = await begin(t);
    const counted = await counts({ world, redis, who });
    const first = await startPipelines(t, world, { processName: 'first' });
    const a = await submit(world, who, [{}, {}, {}]);
    await settle(world, who.account);
    await first.pipelines.stop();
    const b = await submit(
      world,
      who,
      Array.from({ length: 50 }, () => ({})),
    );
    const kept = `${redis.servers[0]!.folder}/kept`;
    cpSync(filesOf(redis), kept, { recursive: true });
    const second = await startPipelines(t, world, { processName: 'second' });
    await settle(world, who.account);
    const c = await submit(world, who, [{}, {}, {}, {}, {}]);
    await settle(world, who.account);
    t.match(await world.verify(who.account), { valid: true, entries: 59 });
    if (!isRunning) await second.pipelines.stop();
    t.same(await counted(), ['1', '5']);
    await putBack(redis.servers[0]!, kept);
    await waitUntilReady(world.redis, 30_000);
    const last = isRunning ? second : await startPipelines(t, world, { processName: 'third' });
    t.ok(await eventually(async () => (await recovered(world)).length > 0));
    await settle(world, who.account);
    const d = await submit(world, who, [{}, {}]);
    await settle(world, who.account);
    t.same(await storedIds(world.clickhouse), [...a, ...b, ...c, ...d].sort(), 'each once');
    const [of] = await recovered(world);
    t.match(of, { chain: 'events-0', entries: c.length });
    t.same(await counted(), ['0', '0'], 'to be read from the rows');
    t.same(await world.redis.smembers(world.keys.activeSequences(who.account)), [SEQUENCE.id], 'as what occurred');
    t.equal(await last.count('gatehouse_recovered_total', { what: 'rows' }), c.length, 'an alarm can hear of it');
    const found = await world.verify(who.account);
    t.match(found, { valid: true, faults: 0, unchained: 0, recovered: c.length });
    t.match(found.first_recovered, { chain: 'events-0', entries: c.length });
    await world.clickhouse.command('DELETE FROM events WHERE id = {id:String}', { id: c[0]! });
    t.match(await world.verify(who.account), { valid: false, first_invalid: { kind: 'missing' } });
  });
}

t.test('what was counted since is counted again, where the chain of it is in ClickHouse', async (t) => {
  const { world, redis, who } = await begin(t);
  const counted = await counts({ world, redis, who });
  const { redis: client, keys } = world;
  const flushed = async () => (await client.xlen(keys.chainPending(keys.events(0)))) === 0;
  await startPipelines(t, world, { processName: 'first' });
  await submit(world, who, [{}, {}, {}]);
  await settle(world, who.account);
  t.ok(await eventually(flushed));
  t.same(await counted(), ['1', '5']);
  const kept = `${redis.servers[0]!.folder}/kept`;
  cpSync(filesOf(redis), kept, { recursive: true });
  await submit(world, who, [{}, {}]);
  await settle(world, who.account);
  t.ok(await eventually(flushed));
  t.same(await counted(), ['1', '5'], 'and is known in the older file, too');
  await putBack(redis.servers[0]!, kept);
  await waitUntilReady(world.redis, 30_000);
  await submit(world, who, [{}]);
  await settle(world, who.account);
  t.ok(await eventually(async () => (await counted()).join() === '0,0'), 'to be read from the rows');
  t.same(await client.smembers(keys.activeSequences(who.account)), [SEQUENCE.id], 'as what occurred');
  t.same(await recovered(world), [], 'no row was unknown to the chain');
});

t.test('what was stored since is chained again in slices, however much it is', async (t) => {
  const { world, redis, who } = await begin(t);
  const first = await startPipelines(t, world, { processName: 'first' });
  await submit(world, who, [{}]);
  await settle(world, who.account);
  const kept = `${redis.servers[0]!.folder}/kept`;
  cpSync(filesOf(redis), kept, { recursive: true });
  for (let i = 0; i < MANY / 500; i++)
    await submit(
      world,
      who,
      Array.from({ length: 500 }, () => ({})),
    );
  await settle(world, who.account);
  await first.pipelines.stop();

  const slices: Slice[] = [];
  let rows = 0;
  for await (const slice of slicesSince(world.clickhouse, { table: 'events', fromMs: 0, rowsMax: 1 })) {
    slices.push(slice);
    rows += (await storedBetween(world.clickhouse, 'events', slice)).length;
  }
  t.equal(rows, MANY + 1, 'the slices hold each row once');
  t.ok(slices.every(({ fromMs, toMs }, i) => fromMs < toMs && (i === 0 || slices[i - 1]!.toMs <= fromMs)));

  await putBack(redis.servers[0]!, kept);
  await waitUntilReady(world.redis, 30_000);
  await startPipelines(t, world, { processName: 'second' });
  const count = async () => (await recovered(world)).reduce((sum, { entries }) => sum + entries, 0);
  t.ok(await eventually(async () => (await count()) === MANY), 'in several writes');
  t.ok((await recovered(world)).length > 1);
  await submit(world, who, [{}]);
  await settle(world, who.account);
  t.match(await world.verify(who.account), { valid: true, faults: 0, unchained: 0, recovered: MANY });
});

t.test('what an owner had begun to compare, the next one compares from the same place', async (t) => {
  const { world, redis, who } = await begin(t);
  const { redis: client, keys } = world;
  const first = await startPipelines(t, world, { processName: 'first' });
  await submit(world, who, [{}]);
  await settle(world, who.account);
  const kept = `${redis.servers[0]!.folder}/kept`;
  cpSync(filesOf(redis), kept, { recursive: true });
  const lost = await submit(world, who, [{}, {}, {}]);
  await settle(world, who.account);
  await first.pipelines.stop();
  await putBack(redis.servers[0]!, kept);
  await waitUntilReady(client, 30_000);
  const stream = keys.events(0);
  const leaseKeys = { lease: keys.lease(stream, 'store'), fence: keys.fence(stream, 'store') };
  const lease = (await eventually(() => acquireLease(client, leaseKeys, { owner: 'stopped', retake: true })))!;
  const of = { redis: client, keys, stream, dead: keys.dead(0), group: 'store', groups: EVENT_GROUPS };
  const reader = new StreamReader(of, lease);
  const { position } = await reader.begin();
  // As if its batches had gone on for two minutes before it was stopped.
  await reader.ack(`${Number(position.split('-')[0]) + 120_000}-0`, []);
  await lease.release();
  await startPipelines(t, world, { processName: 'second' });
  t.ok(await eventually(async () => (await recovered(world)).length > 0, 20_000));
  t.match((await recovered(world))[0], { chain: 'events-0', entries: lost.length });
  t.match(await world.verify(who.account), { valid: true, faults: 0, recovered: lost.length });
  t.equal(await client.exists(keys.comparedFrom(stream, 'store')), 0, 'and then forgets it');
});
