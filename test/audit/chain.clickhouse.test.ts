// The chain over the real engines: what is stored is chained, honest work is never a fault, and what is done to the
// tables is found.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { chainPage, insertBlocks } from '../../clickhouse/queries/chain-blocks.ts';
import { storedRows } from '../../pipelines/store/stored-rows.ts';
import { AuditVerifier } from '../../src/audit/verifier.ts';
import { assetPath } from '../../src/process/assets.ts';
import { keptNow } from '../../src/registry/accounts/account-retention.ts';
import { startPipelines } from '../pipelines/harness.ts';
import type { VictimOptions } from '../pipelines/victim.ts';
import { makeEvent } from '../streams/harness.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';
import { SEED } from '../support/seed.ts';
import { countBlocks, makeAuditWorld, newAccount, newAgent, settle, submit } from './harness.ts';
import { workHonestly } from './honest.ts';
import { Random } from './tampering.ts';

const servers = { redis: await startRedis(t), clickhouse: await startClickHouse(t) };

const HOSTILE = [
  '{"a":"\\u0000\\ud800"}',
  `{"text":"${'\u0000'}"}`.replace('\u0000', '\\u0000'),
  `{"long":"${'x'.repeat(300_000)}"}`,
  '{"n":1e400,"m":12345678901234567890,"é":"\u{1f600}","tab":"\\t"}',
];

t.test('rows come back as the bytes that were chained, whatever is in them', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'hostile');
  const now = Date.now();
  const rows = [
    ...HOSTILE.map((payload) => ({ payload })),
    { payload: '{}', timestamp: 0 },
    { payload: '{}', timestamp: Date.parse('2000-01-01T00:00:00Z') },
    { payload: '{}', timestamp: Date.parse('2299-12-31T23:59:59.999Z') },
    { payload: '{}', token_count: 0, tokens_used: null },
    { payload: '{}', token_count: -(2 ** 53), tokens_used: 2 ** 53 },
    { payload: '{}', trace_id: '\u0000\u0001\u00ff\ufeff', request_id: '', model: 'm'.repeat(200) },
    { payload: '{}', request_id: 'a\u0000b\nc', reason: 'policy', policy_id: 'pol_x', outcome: 'blocked' as const },
    { payload: '{}', outcome: 'pending' as const, approval_id: 'apr_x', policy_result: '{"outcome":"pending"}' },
    { payload: '{}', received_at: now - 40 * 24 * 3_600_000 },
  ];
  await submit(world, { account, agent }, rows);
  await settle(world, account);
  const found = await world.verify(account);
  t.match(found, { valid: true, entries: rows.length + 1, erased: 0, unchained: 0, unsettled: 0, first_invalid: null });
  t.equal(found.chains.length, 2);
  const cut = await world.verify(account, { budgetMs: -1 });
  t.match(
    cut,
    { valid: null, truncated: true, faults: 0, continue_from: String },
    'what was not inspected is not valid',
  );
});

t.test('blocks wait in Redis, are copied, and verify the same before, while and after', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'one');
  for (let i = 0; i < 5; i++) {
    await submit(world, { account, agent }, [{}, {}, {}]);
    await settle(world, account);
    t.match(await world.verify(account), { valid: true, entries: 4 + 3 * i });
  }
  await world.flush();
  t.ok((await countBlocks(world.clickhouse)) >= 2, 'copied');
  const pending = world.keys.chainPending(world.keys.events(world.keys.partitionOf(account, agent)));
  t.equal(await world.redis.xlen(pending), 0, 'nothing waits any more');
  t.match(await world.verify(account), { valid: true, entries: 16 });
  t.equal((await world.verify(newAccount())).chains.length, 0, 'another account has no chain');
});

t.test(
  'honest work is never called a fault: changes, events, erasures, restarts, verified all the while',
  async (t) => {
    const world = await makeAuditWorld(t, servers);
    let running = await startPipelines(t, world, { processName: 'honest' });
    const result = await workHonestly(world, {
      ...{ operations: 240, accounts: 2, restartEvery: 80, random: new Random(SEED) },
      restart: async () => {
        await running.pipelines.stop();
        running = await startPipelines(t, world, { processName: 'honest' });
      },
    });
    t.same(result.alarms, [], `${result.verifications} verifications meanwhile, seed ${SEED}`);
    for (const found of result.last) t.match(found, { valid: true, unchained: 0, unsettled: 0 });
    t.ok((result.operations['erase'] ?? 0) > 0, JSON.stringify(result.operations));
  },
);

t.test(
  'a store process killed around its inserts and its flushes, 3 times: the chain holds what is stored',
  async (t) => {
    const world = await makeAuditWorld(t, servers);
    const account = newAccount();
    const agents = await Promise.all(['a', 'b', 'c'].map((name) => newAgent(world, account, name)));
    let [on, sent] = [true, 0];
    const writing = agents.map(async (agent) => {
      while (on) {
        const ids = await submit(world, { account, agent }, [{}, {}, {}]);
        sent += ids.length;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    const { prefix, partitions } = world.keys;
    const options: VictimOptions = {
      redis: servers.redis.address,
      clickhouse: { url: servers.clickhouse.url, database: world.clickhouse.database },
      keys: { prefix, partitions },
      name: 'victim',
      die: { before: 0.1, after: 0.2 },
    };
    for (let kill = 0; kill < 3; kill++) {
      const child = fork(assetPath('build/test/pipelines/victim.js'), [JSON.stringify(options)]);
      t.teardown(() => child.kill('SIGKILL'));
      await once(child, 'exit');
    }
    on = false;
    await Promise.all(writing);
    await startPipelines(t, world, { processName: 'victim' });
    await settle(world, account);
    t.match(
      await world.verify(account),
      { valid: true, entries: sent + agents.length, unchained: 0 },
      `${sent} events`,
    );
  },
);

t.test('a Redis that lost its chains goes on behind what ClickHouse has, and says what may be unknown', async (t) => {
  const world = await makeAuditWorld(t, { ...servers, partitions: 1 });
  const { redis, keys } = world;
  const first = await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'one');
  const stream = keys.events(0);
  await submit(world, { account, agent }, [{}, {}, {}]);
  await settle(world, account);
  await world.flush();
  await submit(world, { account, agent }, [{}, {}]);
  await settle(world, account);
  await first.pipelines.stop();
  // On a machine that is slow enough they have been copied meanwhile, and nothing is lost with Redis.
  const lost = (await redis.xlen(keys.chainPending(stream))) === 0 ? 0 : 2;
  await redis.del(keys.chainHeads(stream), keys.chainPending(stream));
  if (lost > 0) t.match((await world.verify(account)).first_invalid, { kind: 'added' }, 'nothing excuses them yet');
  await startPipelines(t, world);
  await submit(world, { account, agent }, [{}, {}, {}, {}]);
  await settle(world, account);
  t.match(await world.verify(account), { valid: true, entries: 10 - lost, unchained: lost });
});

t.test('a row slipped in beside a chain is reported', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'young');
  await submit(world, { account, agent }, [{}]);
  await settle(world, account);
  t.match(await world.verify(account), { valid: true, entries: 2, markers: 0, unchained: 0 });
  const slipped = makeEvent({ account, agent }, { received_at: Date.now() - 1_800_000 });
  await world.clickhouse.insertEvents(await storedRows([slipped.row]), 'slipped');
  t.match(await world.verify(account), { valid: false, first_invalid: { kind: 'added' } });
});

t.test('a row that the retention may have taken is no fault, one of an agent that is held is', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const { clickhouse, redis, keys } = world;
  const account = newAccount();
  const [agent, held] = [await newAgent(world, account, 'of old'), await newAgent(world, account, 'held')];
  const old = Date.now() - 40 * 24 * 3_600_000;
  for (const one of [agent, held]) await submit(world, { account, agent: one }, [{ received_at: old }, {}]);
  await settle(world, account);
  const hold = { id: 'hld_1', reason: 'a case', agent_id: held, trace_id: null, created_at: '', created_by: 'system' };
  await redis.hset(keys.accounts(keys.shardOf(account)), account, JSON.stringify({ id: account, holds: [hold] }));
  const verifier = new AuditVerifier({
    ...{ ...world, retentionDays: 100 },
    keptOf: keptNow(world, { retentionDays: 30, retentionMinDays: 1, retentionMaxDays: 100 }),
  });
  const verify = () => verifier.verify(account, { budgetMs: 60_000, settle: async () => true });
  t.match(await verify(), { valid: true, entries: 6, intact: 6, expired: 0 }, 'what is there is compared');
  const drop = (one: string) =>
    clickhouse.command(
      `ALTER TABLE events DELETE WHERE agent_id = '${one}' AND received_at < now() - INTERVAL 1 DAY`,
      {},
      { mutations_sync: '2' },
    );
  await drop(agent);
  t.match(await verify(), { valid: true, entries: 6, intact: 5, expired: 1 });
  t.match(await world.verify(account), { valid: false, faults: 1 }, 'were it kept for longer, it would be missing');
  await drop(held);
  t.match(await verify(), { valid: false, faults: 1, first_invalid: { kind: 'missing' } });
});

t.test('the contents of old blocks of events expire, those of the registry never do', async (t) => {
  const world = await makeAuditWorld(t, servers);
  await startPipelines(t, world);
  const { clickhouse } = world;
  const account = newAccount();
  const agent = await newAgent(world, account, 'old');
  await submit(world, { account, agent }, [{ received_at: Date.now() - 40 * 24 * 3_600_000 }]);
  await settle(world, account);
  await world.flush();
  await migrate(clickhouse, { retentionDays: 1 });
  const contents = async () => {
    await clickhouse.command('OPTIMIZE TABLE audit_chain FINAL');
    return clickhouse.query<{ kind: string; leaves: number; ids: number }>(
      "SELECT if(chain = 'registry', chain, 'events') AS kind, length(leaves) AS leaves, length(ids) AS ids FROM audit_chain FINAL ORDER BY kind",
    );
  };
  const [events, registry] = await contents();
  t.match(events, { kind: 'events', leaves: 1, ids: 1 }, 'counted from when they were chained');
  t.match(registry, { kind: 'registry', leaves: 1, ids: 1 });
  const { keys } = world;
  const pages = ['registry', keys.chainOf(keys.events(keys.partitionOf(account, agent)))].map(async (chain) => {
    const [block] = await chainPage(clickhouse, { account, chain, fromN: 1 });
    return { ...block!, lastMs: block!.lastMs - 4 * 24 * 3_600_000 };
  });
  const older = await Promise.all(pages);
  await clickhouse.command('TRUNCATE TABLE audit_chain');
  await insertBlocks(clickhouse, older, 'four days later');
  const later = await contents();
  t.match(later, [
    { kind: 'events', leaves: 0, ids: 0 },
    { kind: 'registry', leaves: 1, ids: 1 },
  ]);
});
