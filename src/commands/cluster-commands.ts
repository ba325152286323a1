// `gatehouse cluster status`: which processes share the work, who owns which stream and how far it is behind, and where
// in Redis the keys of streams and accounts lie. One JSON line each, so that other programs can read it. Only reads.
// Failure: as of any command that asks Redis; a stream without an owner has `owner` null, which is no error by itself.
import { MEMBER_MS } from '../common/limits.ts';
import { type Commands, isCluster } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { redisTime } from '../redis/time.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { positionOf } from '../streams/read-barrier.ts';
import { readersOf } from '../streams/stored-so-far.ts';
import type { Command } from './context.ts';
import { withRedis } from './with-redis.ts';

type Stores = { redis: Commands; keys: Keys };
/** `slot` null: Redis is no Cluster. `node`: host and port of the master. */
type Place = { slot: number | null; node: string };
type Range = { from: number; to: number; node: string };

/** Agents whose partitions are named; an account with more has events in all of them. */
const AGENTS_MAX = 10_000;

export const clusterStatus: Command = async (context) => {
  await withRedis(context, async (stores) => {
    const placeOf = await places(stores.redis);
    const lines = [await processes(stores), await streams(stores, placeOf), await accounts(stores, placeOf)].flat();
    for (const line of lines) context.print(JSON.stringify(line));
  });
};

/** The processes of the pipelines: fronts share nothing and sign in nowhere. */
async function processes({ redis, keys }: Stores): Promise<object[]> {
  const [fields, now] = await Promise.all([redis.hgetall(keys.members()), redisTime(redis)]);
  const found = new Map<string, { shares: string[]; seenMs: number }>();
  for (const [field, at] of Object.entries(fields).sort()) {
    const slash = field.indexOf('/');
    const name = field.slice(slash + 1);
    const one = found.get(name) ?? { shares: [], seenMs: 0 };
    found.set(name, { shares: [...one.shares, field.slice(0, slash)], seenMs: Math.max(one.seenMs, Number(at)) });
  }
  return [...found].map(([process, { shares, seenMs }]) => ({
    ...{ process, shares, seen_ms_ago: now - seenMs, alive: now - seenMs < MEMBER_MS },
  }));
}

async function streams({ redis, keys }: Stores, placeOf: (key: string) => Promise<Place>): Promise<object[]> {
  const { events, signals, journal } = readersOf(keys);
  const lines = [...events, ...signals, ...journal].map(async ({ stream, group }) => {
    const [lease, position, place] = await Promise.all([
      redis.get(keys.lease(stream, group)),
      positionOf(redis, keys, stream, group),
      placeOf(stream),
    ]);
    const owner = lease === null ? null : lease.slice(0, lease.lastIndexOf(':'));
    return { stream, group, owner, behind_ms: behindMs(position), ...place };
  });
  return Promise.all(lines);
}

async function accounts({ redis, keys }: Stores, placeOf: (key: string) => Promise<Place>): Promise<object[]> {
  const list = await new Accounts({ redis, keys }).list();
  const lines = list.map(async ({ id, name }) => {
    const [agents, place] = await Promise.all([
      redis.zrange(keys.agentIds(id, 'all'), '0', String(AGENTS_MAX - 1)),
      placeOf(keys.apiKeys(id)),
    ]);
    const partitions = [...new Set(agents.map((agent) => keys.partitionOf(id, agent)))].sort((a, b) => a - b);
    const found = await Promise.all(partitions.map((partition) => placeOf(keys.events(partition))));
    const nodes = [...new Set([place, ...found].map(({ node }) => node))].sort();
    return { account: id, name, shard: keys.shardOf(id), ...place, partitions, nodes };
  });
  return Promise.all(lines);
}

/** From what is done to the newest entry; null: there are entries, and nothing of them is done yet. */
function behindMs({ watermark, last }: { watermark: string; last: string }): number | null {
  if (watermark === last) return 0;
  return msOf(watermark) === 0 ? null : msOf(last) - msOf(watermark);
}

/** A stream's id begins with the time of its entry. */
function msOf(id: string): number {
  return Number(id.split('-')[0]);
}

async function places(redis: Commands): Promise<(key: string) => Promise<Place>> {
  if (!isCluster(redis)) {
    const { host, port, path } = redis.options;
    const place = { slot: null, node: path ?? `${host}:${port}` };
    return async () => place;
  }
  const slots = await redis.cluster('SLOTS');
  const ranges = slots.map(([from, to, [host, port] = ['none', 0]]): Range => ({ from, to, node: `${host}:${port}` }));
  return async (key) => {
    const slot = Number(await redis.cluster('KEYSLOT', key));
    return { slot, node: ranges.find(({ from, to }) => from <= slot && slot <= to)?.node ?? 'none' };
  };
}
