// Baselines between memory and Redis: fenced by the lease, one read for a batch of agents, bounded, written while Redis
// is full, and at most once a second.
import t, { type Test } from 'tap';
import { BASELINE_BYTES } from '../../pipelines/anomaly/baseline.ts';
import { BaselineStore } from '../../pipelines/anomaly/baseline-store.ts';
import { forgetBaseline } from '../../pipelines/forget-baseline.ts';
import { BASELINE_KEPT_MS, BASELINES_MAX } from '../../src/common/limits.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { acquireLease, type Lease, LeaseLost } from '../../src/streams/lease.ts';
import { connect, eventually, freshAgent, freshKeys } from '../streams/harness.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';

const server = await startRedis(t);

type Setting = { redis: Commands; keys: Keys };

async function leaseOf({ redis, keys }: Setting, owner: string): Promise<Lease> {
  const stream = keys.events(0);
  const names = { lease: keys.lease(stream, 'anomaly'), fence: keys.fence(stream, 'anomaly') };
  return (await acquireLease(redis, names, { owner, retake: false }))!;
}

async function setting(
  t: Test,
  address = server.address,
): Promise<Setting & { baselines: BaselineStore; lease: Lease }> {
  const redis = await connect(t, address);
  const keys = freshKeys(1);
  const baselines = new BaselineStore({ redis, keys, partition: 0 });
  const lease = await leaseOf({ redis, keys }, 'one');
  baselines.begin(lease);
  t.teardown(() => baselines.end());
  return { redis, keys, baselines, lease };
}

async function count(baselines: BaselineStore, agents: readonly string[], by = 1): Promise<void> {
  await baselines.load(new Set(agents));
  for (const agent of agents) {
    baselines.get(agent)!.baseline.completions += by;
    baselines.changed(baselines.get(agent)!);
  }
}

t.test('a former owner overwrites nothing', async (t) => {
  const { redis, keys, baselines, lease } = await setting(t);
  await count(baselines, ['agt_a'], 5);
  await baselines.save(['agt_a']);
  await count(baselines, ['agt_a'], 1);
  await redis.del(lease.key);
  const second = new BaselineStore({ redis, keys, partition: 0 });
  second.begin(await leaseOf({ redis, keys }, 'two'));
  await count(second, ['agt_a'], 100);
  await second.save(['agt_a']);
  await t.rejects(baselines.save(['agt_a']), LeaseLost);
  baselines.settled();
  await baselines.end();
  const third = new BaselineStore({ redis, keys, partition: 0 });
  third.begin(lease);
  await third.load(new Set(['agt_a']));
  t.equal(third.get('agt_a')!.baseline.completions, 105);
});

t.test('nothing is written in the middle of a batch; after it at once, then once a second', async (t) => {
  const { redis, keys, baselines } = await setting(t);
  const key = keys.baseline(0, 'agt_b');
  await count(baselines, ['agt_b']);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  t.equal(await redis.exists(key), 0, 'its manifest may not be written yet');
  const flushedAt = performance.now();
  baselines.settled();
  t.ok(await eventually(async () => (await redis.strlen(key)) === BASELINE_BYTES));
  t.ok((await redis.pttl(key)) > BASELINE_KEPT_MS - 60_000);
  const first = await redis.getBuffer(key);
  await count(baselines, ['agt_b']);
  baselines.settled();
  // On a machine that stood still meanwhile it may be time already.
  const second = await redis.getBuffer(key);
  if (performance.now() - flushedAt < 1_000) t.same(second, first, 'not again within the second');
  t.ok(
    await eventually(async () => !(await redis.getBuffer(key))!.equals(first!)),
    'but after it, without another batch',
  );
});

t.test('5,000 agents of one batch are a handful of reads, and only so many stay in memory', async (t) => {
  const { redis, keys, lease } = await setting(t);
  let reads = 0;
  const counted = intercepted(redis, ({ name, go }) => {
    if (name === 'mgetBuffer') reads++;
    return go();
  });
  const baselines = new BaselineStore({ redis: counted, keys, partition: 0 });
  baselines.begin(lease);
  t.teardown(() => baselines.end());
  const agents = Array.from({ length: 5_000 }, () => freshAgent().agent);
  await count(baselines, agents);
  t.equal(reads, 10);
  baselines.settled();
  t.ok(await eventually(() => baselines.size <= BASELINES_MAX), `${baselines.size} in memory`);
  await baselines.end();
  const there = await redis.exists(...agents.map((agent) => keys.baseline(0, agent)));
  t.equal(there, 5_000, 'all in Redis');
  await count(baselines, agents.slice(0, 10), 1);
  t.equal(baselines.get(agents[0]!)!.baseline.completions, 2, 'read again when needed');
});

t.test('a full Redis takes baselines and marks; a mark is never overwritten', async (t) => {
  const own = await startRedis(t, { single: true });
  const { redis, keys, baselines } = await setting(t, own.address);
  await count(baselines, ['agt_c', 'agt_d']);
  await redis.config('SET', 'maxmemory', '1');
  await t.rejects(redis.set(keys.lastSeen(0), 'x'), /OOM/);
  await baselines.save(['agt_c', 'agt_d']);
  t.equal(await redis.strlen(keys.baseline(0, 'agt_c')), BASELINE_BYTES);
  await forgetBaseline(redis, keys, 'acc_1', 'agt_c');
  await baselines.save(['agt_c', 'agt_d']);
  t.equal(await redis.get(keys.baseline(0, 'agt_c')), '-');
  const other = new BaselineStore({ redis, keys, partition: 0 });
  other.begin(await leaseOf({ redis, keys }, 'one').catch(() => undefined as never));
  await other.load(new Set(['agt_c']));
  t.equal(other.get('agt_c')!.baseline.completions, 0, 'a mark is no baseline');
});
