// How long the delivery queue is and how late (read by the worker now and then; shown by /metrics).
// Every process shows the whole queue, so its figures are to be compared and not added up.
import type { Metrics } from '../../src/metrics.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

/** A scrape is rarely more frequent. */
const INTERVAL_MS = 5_000;
/** Lanes counted of a shard: beyond it the length is a lower bound. */
const LANES_MAX = 1_000;

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
      const lanes = await redis.zrangebyscore(
        keys.deliveryLanes(shard),
        '-inf',
        '+inf',
        'WITHSCORES',
        'LIMIT',
        0,
        LANES_MAX,
      );
      for (let i = 0; i < lanes.length; i += 2) {
        const [account, lane] = lanes[i]!.split('/') as [string, string];
        waiting += await redis.zcard(keys.deliveryLane(account, lane));
        oldest = Math.min(oldest, Number(lanes[i + 1]));
      }
    }
    metrics.set('gatehouse_deliveries_waiting', {}, waiting);
    metrics.set('gatehouse_deliveries_late_seconds', {}, (now - oldest) / 1000);
  }
}
