// For how long a receiver of an outgoing feed has taken nothing (shown by /metrics, and alerted on).
// While Redis is away the last figure stands.
import type { OutgoingFeedState } from '../../schemas/outgoing-feed.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import { redisTime } from '../../src/redis/time.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

/** Looked at of a shard: past it the figure is a lower bound. */
const FEEDS_MAX = 500;

export async function failingFeeds({ redis, keys }: RegistryStore, metrics: Pick<Metrics, 'set'>): Promise<void> {
  try {
    const now = await redisTime(redis);
    let since = now;
    for (let shard = 0; shard < REGISTRY_SHARDS; shard++)
      for (const member of await redis.zrange(keys.outgoingFeedTurns(shard), '0', String(FEEDS_MAX - 1))) {
        const [account, id] = member.split('/') as [string, string];
        const text = await redis.hget(keys.outgoingFeedStates(account), id);
        const { failingSince = null } = text === null ? {} : (JSON.parse(text) as OutgoingFeedState);
        since = Math.min(since, failingSince ?? now);
      }
    metrics.set('gatehouse_outgoing_feeds_failing_seconds', {}, (now - since) / 1000);
  } catch {
    // `gatehouse_dependency_up` says that Redis is away.
  }
}
