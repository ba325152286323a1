// What became of erasures: when an agent was deleted, its rows erased, and each store clean of its bytes (GET
// /v1/erasures/{agent_id}). Written by the eraser (pipelines/store/erase.ts), read by fronts. Invariant: a time
// stands only once it is true. Bounded: kept for 90 days, and at most KEPT_MAX of a shard, the oldest going first.
import type { ErasureReport } from '../../schemas/erasure.ts';
import { isoTime } from '../../schemas/time.ts';
import { REGISTRY_SHARDS } from '../redis/keys.ts';
import { answering, type RegistryStore } from './commit.ts';

/** Times are epoch ms; null: not yet. */
type Erased = Erasure & { erasedAt: number; clickhouseAt: number | null; redisAt: number | null };

const KEPT_MS = 90 * 24 * 60 * 60 * 1000;
const KEPT_MAX = 10_000;
/**
 * Redis rewrites its file once an hour at most, ClickHouse removes replaced parts after eight minutes; and a quarter of
 * an hour for the work.
 */
const CLEAN_WITHIN_MS = 85 * 60_000;

export async function noteErased(
  { redis, keys }: RegistryStore,
  agent: string,
  { account, at }: Erasure,
): Promise<void> {
  const record: Erased = { account, at, erasedAt: Date.now(), clickhouseAt: null, redisAt: null };
  await redis.hset(keys.erased(keys.shardOf(account)), agent, JSON.stringify(record));
}

/**
 * Milliseconds since the oldest erasure should have been over, by the promise of its report; 0: none is late.
 * `unclean`: those whose rows are erased.
 */
export async function erasureLateMs(
  { redis, keys }: RegistryStore,
  unclean: readonly { erased: Erasure }[],
  nowMs: number,
): Promise<number> {
  const ordered = await Promise.all(keys.ofShards(keys.erasures).map((hash) => redis.hvals(hash)));
  const times = ordered.flat().map((text) => (JSON.parse(text) as Erasure).at);
  for (const { erased } of unclean) times.push(erased.at);
  return times.reduce((late, at) => Math.max(late, nowMs - at - CLEAN_WITHIN_MS), 0);
}

/** Those of all shards of which a store is not clean yet. What is old is released. */
export async function uncleanErasures({
  redis,
  keys,
}: RegistryStore): Promise<{ shard: number; agent: string; erased: Erased }[]> {
  const found: { shard: number; agent: string; erased: Erased }[] = [];
  for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
    const all = Object.entries(await redis.hgetall(keys.erased(shard)))
      .map(([agent, text]) => ({ shard, agent, erased: JSON.parse(text) as Erased }))
      .sort((a, b) => b.erased.erasedAt - a.erased.erasedAt);
    const since = Date.now() - KEPT_MS;
    const kept = all.filter(({ erased }, i) => i < KEPT_MAX && erased.erasedAt >= since);
    const old = all.slice(kept.length); // newest first: what is dropped is the end
    if (old.length > 0) await redis.hdel(keys.erased(shard), ...old.map(({ agent }) => agent));
    found.push(...kept.filter(({ erased }) => erased.clickhouseAt === null || erased.redisAt === null));
  }
  return found;
}

export async function markClean(
  { redis, keys }: RegistryStore,
  { shard, agent, erased }: { shard: number; agent: string; erased: Erased },
  store: 'clickhouseAt' | 'redisAt',
  at: number,
): Promise<void> {
  erased[store] = at;
  await redis.hset(keys.erased(shard), agent, JSON.stringify(erased));
}

/** null: no agent of this id was deleted, or so long ago that nothing is kept of it. */
export function erasureReport(store: RegistryStore, account: string, agent: string): Promise<ErasureReport | null> {
  return answering(async () => {
    const { redis, keys } = store;
    const shard = keys.shardOf(account);
    const [ordered, done] = await Promise.all([
      redis.hget(keys.erasures(shard), agent),
      redis.hget(keys.erased(shard), agent),
    ]);
    const text = ordered ?? done;
    if (text === null) return null;
    const { at, erasedAt, clickhouseAt, redisAt, ...erased } = JSON.parse(text) as Erasure & Partial<Erased>;
    if (erased.account !== account) return null;
    const time = (ms: number | null | undefined) => (ms === null || ms === undefined ? null : isoTime(ms));
    return {
      agent_id: agent,
      ordered_at: isoTime(at),
      rows_erased_at: time(erasedAt),
      clickhouse_clean_at: time(clickhouseAt),
      redis_clean_at: time(redisAt),
      clean_by: isoTime(at + CLEAN_WITHIN_MS),
    };
  });
}

/** An entry of the erasures hash, which lies there until the store pipeline is done with it. */
export type Erasure = { account: string; at: number };
