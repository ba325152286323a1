// What tests of pipelines share: one engine and one Redis a file, a world of keys and tables a test, and counters read
// by name.
import type { Test } from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { type Migration, migrate } from '../../clickhouse/migrate.ts';
import { type AnyDrain, Drain } from '../../pipelines/drain.ts';
import { Pipelines, type PipelinesOptions } from '../../pipelines/pipelines.ts';
import type { Permits } from '../../pipelines/semaphore.ts';
import { EventStore } from '../../pipelines/store/pipeline.ts';
import { INSERT_BYTES_MAX } from '../../src/common/limits.ts';
import { type MetricName, Metrics } from '../../src/metrics/metrics.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Script } from '../../src/redis/script.ts';
import { foundRegistry } from '../../src/registry/recovery/presence.ts';
import { Appender } from '../../src/streams/append.ts';
import { StreamReader } from '../../src/streams/consume.ts';
import { EVENT_GROUPS } from '../../src/streams/groups.ts';
import { acquireLease, type Lease } from '../../src/streams/lease.ts';
import { positionOf } from '../../src/streams/read-barrier.ts';
import { withRun } from '../../src/streams/redis-run.ts';
import { StreamPoller } from '../../src/streams/stream-poller.ts';
import { connect, eventually, freshKeys, silent } from '../streams/harness.ts';
import type { TestClickHouse } from '../support/clickhouse.ts';
import type { TestRedis } from '../support/redis.ts';

export type World = { redis: Commands; keys: Keys; clickhouse: ClickHouse; appender: Appender };

export async function makeWorld(
  t: Test,
  servers: { redis: TestRedis; clickhouse: TestClickHouse; partitions?: number; migrations?: Migration[] },
): Promise<World> {
  const redis = await connect(t, servers.redis.address);
  const keys = freshKeys(servers.partitions ?? 2);
  const clickhouse = servers.clickhouse.makeDatabase();
  const { migrations } = servers;
  const options = { retentionDays: 3_650, ...(migrations && { migrations }) };
  await Promise.all([migrate(clickhouse, options), foundRegistry({ redis, keys })]);
  return { redis, keys, clickhouse, appender: new Appender({ redis, keys }) };
}

/** As if these groups had worked with this run of Redis before: nothing need be compared. */
export async function knowRedis({ redis, keys }: Pick<World, 'redis' | 'keys'>): Promise<void> {
  const script = new Script<string>('run', withRun('#!lua\nreturn redis_run()'));
  for (let partition = 0; partition < keys.partitions; partition++) {
    const stream = keys.events(partition);
    const run = await script.run(redis, [stream], []);
    for (const group of EVENT_GROUPS) await redis.set(keys.run(stream, group), run);
  }
}

type Running = {
  pipelines: Pipelines;
  count: (name: MetricName, labels?: Record<string, string>) => Promise<number>;
};

/** Starts pipelines; they are stopped with the test. */
export async function startPipelines(t: Test, world: World, options: Partial<PipelinesOptions> = {}): Promise<Running> {
  const metrics = new Metrics({ processName: 'test' });
  const pipelines = new Pipelines({ ...world, metrics, log: silent, lingerMs: 20, ...options });
  t.teardown(() => pipelines.stop());
  await pipelines.start();
  const count = async (name: MetricName, labels: Record<string, string> = {}) => {
    const set = (await metrics.collect()).find((metric) => metric.name === name);
    const matching = (set?.values ?? []).filter((sample) =>
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
    return matching.reduce((sum, sample) => sum + sample.value, 0);
  };
  return { pipelines, count };
}

/** Ids in the events table, sorted, each as often as it is there. */
export async function storedIds(clickhouse: ClickHouse): Promise<string[]> {
  return (await clickhouse.query<{ id: string }>('SELECT id FROM events ORDER BY id')).map(({ id }) => id);
}

/**
 * A column that cannot be computed at insert for payloads that hold a word: ClickHouse refuses such rows as bad data.
 */
export function pickyAbout(word: string): string {
  return `ALTER TABLE events ADD COLUMN picky Int64 MATERIALIZED toInt64(if(position(payload, '${word}') > 0, 'x', '1'))`;
}

export type StoreOwner = { lease: Lease; drain: AnyDrain };

/** The owner of an event stream from now on, for the store. */
export async function ownerOf(
  world: World,
  { partition = 0, owner = 'owner', permits }: { partition?: number; owner?: string; permits: Permits },
): Promise<StoreOwner> {
  const { redis, keys } = world;
  const stream = keys.events(partition);
  const leaseKeys = { lease: keys.lease(stream, 'store'), fence: keys.fence(stream, 'store') };
  const lease = (await acquireLease(redis, leaseKeys, { owner, retake: true }))!;
  const metrics = new Metrics({ processName: 'test' });
  const drain = new Drain({
    reader: new StreamReader(
      { redis, keys, stream, dead: keys.dead(partition), group: 'store', groups: EVENT_GROUPS },
      lease,
    ),
    lease,
    work: new EventStore({ ...world, metrics, log: silent }),
    permits,
    bytesMax: INSERT_BYTES_MAX,
    lingerMs: 20,
    quietLingerMs: 20,
    log: silent,
    poller: new StreamPoller(redis),
    trim: () => Promise.resolve(true),
  });
  return { lease, drain };
}

/** Until the store has acknowledged everything in its stream. */
export async function whenDrained(world: World, partition = 0): Promise<void> {
  const done = await eventually(async () => {
    const { watermark, last } = await positionOf(world.redis, world.keys, world.keys.events(partition), 'store');
    return watermark === last && last !== '0-0';
  });
  if (!done) throw new Error(`partition ${partition} did not drain`);
}
