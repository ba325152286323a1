// Question: what does the watch over many agents cost, and how late does it notice that they all fell silent at once?
// Method: a Redis of its own, so many agents (half of them speak every 30 virtual seconds, the rest have long been
// silent and been notified), and one watcher under a driven clock, a tick a virtual second. After a round of warming
// up, the CPU of this process and of Redis over the ticks of two virtual minutes is what a watch costs per second. Then
// no agent sends any more: lateness is the virtual time from a silence's bound to its signal.

import { Watcher } from '../pipelines/watch/watcher.ts';
import { SIGNAL_FIELD, type SignalEntry } from '../schemas/signal.ts';
import { mintId } from '../src/common/ids.ts';
import { Metrics } from '../src/metrics/metrics.ts';
import { createLog } from '../src/process/log.ts';
import { type Commands, connectCommands, waitUntilReady } from '../src/redis/client.ts';
import { Keys } from '../src/redis/keys.ts';
import { IngestHeartbeat } from '../src/streams/ingest-heartbeat.ts';
import { startRedis } from '../test/support/redis.ts';

const SPEAK_EVERY_SECONDS = 30;
const MEASURED_SECONDS = 120;
const HEARTBEAT_SECONDS = 60;
const LATE_SECONDS_MAX = 30;

type Bench = { redis: Commands; keys: Keys; account: string; agents: string[]; clock: { now: number } };

export async function watch(options: { agents: number }): Promise<boolean> {
  const teardowns: (() => Promise<void> | void)[] = [];
  const owner = { teardown: (end: () => Promise<void> | void) => void teardowns.push(end) };
  const { address } = await startRedis(owner as unknown as Parameters<typeof startRedis>[0], { single: true });
  const redis = connectCommands(address);
  try {
    await waitUntilReady(redis, 10_000);
    return await measure(redis, options.agents);
  } finally {
    redis.disconnect();
    for (const end of teardowns) await end();
  }
}

async function measure(redis: Commands, count: number): Promise<boolean> {
  const clock = { now: 1_800_000_000_000 };
  const keys = new Keys({ prefix: 'bench-', partitions: 8 });
  const bench: Bench = { redis, keys, account: mintId('account', Date.now()), agents: [], clock };
  for (let i = 0; i < count; i++) bench.agents.push(mintId('agent', Date.now()));
  await register(bench);
  const log = createLog({ level: 'silent', processName: 'bench' });
  const metrics = new Metrics({ processName: 'bench' });
  const watcher = new Watcher({ redis, keys, metrics, log, now: () => clock.now });
  const heartbeat = new IngestHeartbeat({ redis, keys, isAccepting: () => true, now: () => clock.now });
  const tick = async () => {
    await heartbeat.mark();
    await watcher.tick();
  };
  await speak(bench, bench.agents);
  const half = bench.agents.slice(0, Math.floor(count / 2));
  await pass(bench, 2 * HEARTBEAT_SECONDS, half, tick);
  const before = await told(bench);
  const cost = await pass(bench, MEASURED_SECONDS, half, tick);
  const fellSilentAt = clock.now;
  const extra = HEARTBEAT_SECONDS + LATE_SECONDS_MAX + SPEAK_EVERY_SECONDS;
  await pass(bench, extra, [], tick);
  const after = await told(bench);
  const fresh = after.slice(before.length);
  const late = fresh.map(({ at, since }) => (at - since) / 1000 - HEARTBEAT_SECONDS);
  const latest = late.reduce((most, one) => Math.max(most, one), 0);
  const result = {
    line: 'watch',
    agents: count,
    nodeCpuMsPerSecond: round(cost.nodeMs / MEASURED_SECONDS),
    redisCpuMsPerSecond: round(cost.redisMs / MEASURED_SECONDS),
    slowestTickMs: round(cost.slowestMs),
    notifiedOnce: new Set(after.map(({ id }) => id)).size === after.length,
    fellSilent: half.length,
    told: fresh.length,
    latestSeconds: round(latest),
    secondsOfSilence: (clock.now - fellSilentAt) / 1000,
  };
  process.stdout.write(`${JSON.stringify(result)}\n`);
  return (
    result.notifiedOnce &&
    before.length === count - half.length &&
    fresh.length === half.length &&
    latest <= LATE_SECONDS_MAX
  );
}

async function register({ redis, keys, account, agents }: Bench): Promise<void> {
  const record = {
    name: 'agent of a bench',
    metadata: { heartbeat_seconds: String(HEARTBEAT_SECONDS) },
    status: 'active',
    created_at: '',
    updated_at: '',
  };
  for (let at = 0; at < agents.length; at += 1_000) {
    const pipe = redis.pipeline();
    for (const id of agents.slice(at, at + 1_000)) pipe.set(keys.agent(account, id), JSON.stringify({ id, ...record }));
    await pipe.exec();
  }
}

async function speak({ redis, keys, account, clock }: Bench, agents: readonly string[]): Promise<void> {
  const pipe = redis.pipeline();
  for (const id of agents) pipe.hset(keys.lastSeen(keys.partitionOf(account, id)), id, `${clock.now}/${account}`);
  await pipe.exec();
}

/** Virtual seconds; the speakers speak in turn. Answers what the ticks cost. */
async function pass(bench: Bench, seconds: number, speakers: readonly string[], tick: () => Promise<void>) {
  const total = { nodeMs: 0, redisMs: 0, slowestMs: 0 };
  for (let second = 0; second < seconds; second++) {
    bench.clock.now += 1_000;
    const turn = second % SPEAK_EVERY_SECONDS;
    const inTurn = speakers.filter((_, i) => i % SPEAK_EVERY_SECONDS === turn);
    if (inTurn.length > 0) await speak(bench, inTurn);
    const [node, redis, wall] = [process.cpuUsage(), await redisCpuMs(bench.redis), performance.now()];
    await tick();
    total.slowestMs = Math.max(total.slowestMs, performance.now() - wall);
    const { user, system } = process.cpuUsage(node);
    total.nodeMs += (user + system) / 1_000;
    total.redisMs += (await redisCpuMs(bench.redis)) - redis;
  }
  return total;
}

async function redisCpuMs(redis: Commands): Promise<number> {
  const info = await redis.info('cpu');
  const seconds = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
  return 1_000 * (seconds('used_cpu_user_main_thread') + seconds('used_cpu_sys_main_thread'));
}

/** Signals of all partitions, in the order of their times. */
async function told({ redis, keys }: Bench): Promise<{ id: string; at: number; since: number }[]> {
  const found: { id: string; at: number; since: number }[] = [];
  for (let partition = 0; partition < keys.partitions; partition++) {
    for (const [, fields] of await redis.xrange(keys.signals(partition), '-', '+')) {
      const { signals } = JSON.parse(fields[fields.indexOf(SIGNAL_FIELD) + 1]!) as SignalEntry;
      for (const { id, at, silence } of signals) found.push({ id, at, since: silence!.since });
    }
  }
  return found.sort((a, b) => a.at - b.at);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
