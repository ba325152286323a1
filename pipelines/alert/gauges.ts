// How long the delivery queue is and how late (read by the worker now and then; shown by /metrics).
// Every process shows the whole queue, so its figures are to be compared and not added up.
import type { Metrics } from '../../src/metrics/metrics.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

/** A scrape is rarely more frequent. */
const INTERVAL_MS = 5_000;
/** Lanes inspected of a shard, the next ones first: beyond it length and lateness are lower bounds. */
const LANES_MAX = 500;

export class QueueGauges {
  readonly #options: RegistryStore & { metrics: Metrics };
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(options: RegistryStore & { metrics: Metrics }) {
    this.#options = options;
  }

  async look(now: number): Promise<void> {
    if (performance.now() - this.#lookedAt < INTERVAL_MS) return;
    this.#lookedAt = performance.now();
    const { redis, keys, metrics } = this.#options;
    let waiting = 0;
    let oldest = now;
    for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
      const lanes = await redis.zrangebyscore(keys.deliveryLanes(shard), '-inf', '+inf', 'LIMIT', 0, LANES_MAX);
      const found = await Promise.all(
        lanes.map(async (name) => {
          const [account, lane] = name.split('/') as [string, string];
          const key = keys.deliveryLane(account, lane);
          // The lane's own time may have been put off by a breaker; what is due in it is late all the same.
          return Promise.all([redis.zcard(key), redis.zrange(key, '0', '0', 'WITHSCORES')]);
        }),
      );
      for (const [count, first] of found) {
        waiting += count;
        if (first[1] !== undefined) oldest = Math.min(oldest, Number(first[1]));
      }
    }
    metrics.set('gatehouse_deliveries_waiting', {}, waiting);
    metrics.set('gatehouse_deliveries_late_seconds', {}, (now - oldest) / 1000);
  }
}
