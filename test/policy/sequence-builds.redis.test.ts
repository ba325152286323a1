// Making what occurred known, step by step as a process does it that may be killed at any of them, against what a
// memory says that was known from the beginning. And when that is asked for.
import t, { type Test } from 'tap';
import type { Policy } from '../../schemas/policy.ts';
import { mintId } from '../../src/common/ids.ts';
import { type PastEvent, SequenceStore } from '../../src/policy/quotas/sequence-store.ts';
import type { Memory, SequenceEvent, SequenceMatch } from '../../src/policy/sequences/sequence-answer.ts';
import { laterMarks } from '../../src/policy/sequences/sequence-memory.ts';
import { ZERO } from '../../src/policy/sequences/summed-amount.ts';
import { type Commands, connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { activeWrites } from '../../src/registry/policies/active-policies.ts';
import { writesOf } from '../../src/registry/recovery/restore.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';
import { randomFrom, SEED } from '../support/seed.ts';

const server = await startRedis(t);
const keys = new Keys({ prefix: 'builds-', partitions: 2 });
const BEGIN = Date.UTC(2026, 10, 20);
const WINDOW_MS = 600_000;
const POLICY = { id: 'pol_1', text: '{"revision":1}' };
const MEMORY: Memory = {
  ...{ name: 'pol_1/m', windowMs: WINDOW_MS, steps: 2, atLeast: 2, hasUnless: true, most: null },
};

function connect(t: Test): Promise<Commands> {
  return opened(t, untilConnected(connectCommands(server.address)));
}

/** An event: the places of its steps (0: `unless`), and whether it is asked about. */
function event(atMs: number, agent: string, places: readonly number[], asks = false): SequenceEvent {
  const of = { memory: MEMORY, scope: { own: `agent ${agent}`, agent: null }, value: '', amount: ZERO };
  const sorted = [...places].sort((a, b) => b - a).map((place) => ({ place, path: '/x', isOfAnyOutcome: false }));
  const marks = sorted.length === 0 ? [] : [{ ...of, places: sorted }];
  return {
    ...{ id: mintId('event', atMs), agent, outcome: 'allowed', marks, later: laterMarks(marks, 'allowed') },
    ...{ asks: asks ? [{ ...of, effect: 'blocked' as const }] : [], waitMs: WINDOW_MS },
  };
}

class World {
  readonly account = mintId('account', 0);
  readonly store: SequenceStore;
  readonly redis: Commands;

  constructor(redis: Commands) {
    this.redis = redis;
    this.store = new SequenceStore(redis, keys);
  }

  /** As a front does. */
  async count(one: SequenceEvent, atMs: number): Promise<SequenceMatch | null | undefined> {
    const { answers } = await this.store.count(this.account, { events: [one], submission: one.id }, atMs);
    if (one.later.length > 0) await this.store.settle(this.account, [one.id], atMs);
    return answers[0]![0];
  }

  async ask(agent: string, atMs: number) {
    return this.count(event(atMs, agent, [], true), atMs);
  }

  async wanted(): Promise<void> {
    await this.redis.hset(keys.policies(this.account), POLICY.id, POLICY.text);
    await this.redis.sadd(keys.sequencesWanted(keys.shardOf(this.account)), `${this.account}/${POLICY.id}`);
  }

  build(token: string, past: readonly PastEvent[], read = 0, ends = false) {
    return this.store.build(this.account, { memory: MEMORY, token, read, ends, policy: POLICY }, past);
  }
}

const pastOf = (one: SequenceEvent, atMs: number): PastEvent => ({ event: one, atMs, isRecorded: true });

t.test('what is stored and what is in the log make the memory that was there all along', async (t) => {
  const redis = await connect(t);
  const random = randomFrom(SEED);
  let matched = 0;
  for (let run = 0; run < 40; run++) {
    const [whole, built] = [new World(redis), new World(redis)];
    await redis.hset(keys.sequences(whole.account), MEMORY.name, '1');
    await built.wanted();
    const past: PastEvent[] = [];
    let atMs = Date.now() - WINDOW_MS / 4;
    const next = () => {
      atMs += Math.floor(random() * 5_000);
      const places = [0, 1, 2].filter((place) => random() < (place === 0 ? 0.03 : 0.4));
      return event(atMs, random() < 0.5 ? 'one' : 'two', places);
    };
    for (let i = 0; i < 20; i++) {
      const one = next();
      await whole.count(one, atMs);
      past.push(pastOf(one, atMs));
    }
    for (let i = 0; i < 10; i++) {
      const one = next();
      await whole.count(one, atMs);
      await built.count(one, atMs);
    }
    // The script works off what was recorded with the next call.
    t.match(await built.ask('one', atMs), { reason: 'state_unknown' });
    const token = (await built.store.begin(built.account, MEMORY))!;
    const upTo = Math.floor(random() * 20);
    await built.build(token, past.slice(0, upTo));
    if (random() < 0.3) {
      // Killed, and another takes over.
      await built.store.release(built.account, MEMORY, token);
      await built.store.begin(built.account, MEMORY);
      t.equal(await built.build(token, past), 'lost');
      await redis.del(keys.sequenceLease(built.account, MEMORY.name));
      const again = (await built.store.begin(built.account, MEMORY))!;
      await finish(built, again, past);
    } else await finish(built, token, past.slice(upTo));
    for (const agent of ['one', 'two']) {
      const [is, wanted] = [await built.ask(agent, atMs), await whole.ask(agent, atMs)];
      if (wanted !== null) matched++;
      t.same(is, wanted);
    }
    t.equal(await redis.scard(keys.sequencesWanted(keys.shardOf(built.account))), 0, 'not wanted any more');
  }
  t.ok(matched > 0 && matched < 80, `both occur: ${matched}`);
});

async function finish(world: World, token: string, past: readonly PastEvent[]): Promise<void> {
  await world.build(token, past);
  const logged = (await world.store.logged(world.account, MEMORY, 0))!;
  t.equal(await world.build(token, [], 0, true), logged.length > 0 ? 'more' : 'known', 'what the log has is missing');
  const entries = logged.map((one): PastEvent => ({ logged: one, atMs: one.atMs, isRecorded: one.isRecorded }));
  t.equal(await world.build(token, entries, logged.length, true), 'known');
}

t.test('what is missing keeps it from being known', async (t) => {
  const world = new World(await connect(t));
  const { redis, account, store } = world;
  const log = keys.sequenceLog(account, MEMORY.name);
  await world.wanted();
  const token = (await store.begin(account, MEMORY))!;
  t.equal(await store.begin(account, MEMORY), null, 'one at a time');
  await redis.hset(keys.policies(account), POLICY.id, '{"revision":2}');
  t.equal(await world.build(token, [], 0, true), 'changed');
  await redis.hset(keys.policies(account), POLICY.id, POLICY.text);

  const one = event(BEGIN, 'one', [1]);
  await redis.rpush(log, ...Array.from({ length: 20_000 }, () => '{}'));
  await world.count(one, BEGIN);
  t.equal(await redis.llen(log), 20_000, 'the log has a bound');
  t.equal(await store.logged(account, MEMORY, 0), null, 'and says that it lost something');
  t.equal(await world.build(token, [], 20_000, true), 'more');
  await store.release(account, MEMORY, token);
  const again = (await store.begin(account, MEMORY))!;
  t.same(await store.logged(account, MEMORY, 0), [], 'it begins again');
  t.equal(await world.build(again, [], 0, true), 'known');
  t.equal(await redis.exists(log), 0);
  await store.release(account, MEMORY, again);
  await world.count(one, BEGIN);
  t.equal(await store.begin(account, MEMORY), null, 'what is known is not removed');
  t.equal(await redis.exists(keys.sequenceScope(account, MEMORY.name, 'agent one')), 1);
  t.equal(await redis.exists(keys.sequenceLease(account, MEMORY.name)), 0);
  await redis.del(keys.sequenceScopes(account, MEMORY.name));

  await store.dropUnused(account, new Set([MEMORY.name]));
  t.equal(await redis.hget(keys.sequences(account), MEMORY.name), '1');
  await store.dropUnused(account, new Set());
  t.equal(await redis.exists(keys.sequences(account)), 0, 'the name of a policy that is gone goes');
});

t.test('a restored registry asks for it, a change of something else does not', async (t) => {
  const account = mintId('account', 0);
  const conditions = { after: [{ tool: 'read' }], within: '1h' };
  const policy = { id: 'pol_1', name: 'one', type: 'sequence', status: 'active', mode: 'enforce', agent_id: null };
  const record = { ...policy, conditions, revision: 3 } as unknown as Policy;
  const restored = writesOf(keys, { account, kind: 'policy', id: 'pol_1', revision: 3, record }, () => false, 0);
  const wanted = ['sadd', keys.sequencesWanted(keys.shardOf(account)), `${account}/pol_1`];
  const asks = (writes: readonly (readonly unknown[])[]) => ({
    wanted: writes.some((one) => JSON.stringify(one) === JSON.stringify(wanted)),
    forgotten: writes.filter(([command]) => command === 'hdel').flatMap((one) => one.slice(2)).length,
  });
  t.same(asks(restored), { wanted: true, forgotten: 1 });
  const after = (more: object) => asks(activeWrites(keys, account, { ...record, ...more }, record));
  t.same(after({ name: 'two', actions: ['log'] }), { wanted: false, forgotten: 0 });
  t.same(after({ conditions: { ...conditions, tool: 'pay' } }), { wanted: false, forgotten: 0 }, 'its own conditions');
  t.same(after({ conditions: { ...conditions, within: '2h' } }), { wanted: true, forgotten: 2 });
  t.same(after({ status: 'inactive' }), { wanted: false, forgotten: 1 });
});

t.test('an agent that is erased is in no log', async (t) => {
  const world = new World(await connect(t));
  const { redis, account, store } = world;
  await world.wanted();
  const gone = mintId('agent', 1);
  const one = event(BEGIN, gone, [1]);
  await world.count(one, BEGIN);
  const other = event(BEGIN, 'two', [1]);
  await world.count(other, BEGIN);
  const text = async () => (await redis.lrange(keys.sequenceLog(account, MEMORY.name), 0, -1)).join();
  t.match(await text(), gone);
  await store.forgetAgent(account, gone);
  t.notMatch(await text(), gone);
  t.notMatch(await text(), one.id);
  t.match(await text(), other.id);
  t.equal((await store.logged(account, MEMORY, 0))!.length, 2, 'who reads it loses no count');
});
