// How long the delivery queue is and how late (read by the worker now and then; shown by /metrics).
// Every process shows the whole queue, so its figures are to be compared and not added up.
import type { Metrics } from '../../src/metrics.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

/** A scrape is rarely more frequent. */
const INTERVAL_MS = 5_000;
/** Lanes counted of a shard: beyond it the length is a lower bound. */
const LANES_MAX = 200;

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
      const range = ['-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, LANES_MAX] as const;
      const lanes = await redis.zrangebyscore(keys.deliveryLanes(shard), ...range);
      if (lanes.length > 0) oldest = Math.min(oldest, Number(lanes[1]));
      const names = lanes.filter((_, i) => i % 2 === 0).map((name) => name.split('/') as [string, string]);
      const counts = await Promise.all(names.map(([account, lane]) => redis.zcard(keys.deliveryLane(account, lane))));
      waiting += counts.reduce((sum, count) => sum + count, 0);
    }
    metrics.set('gatehouse_deliveries_waiting', {}, waiting);
    metrics.set('gatehouse_deliveries_late_seconds', {}, (now - oldest) / 1000);
  }
}
