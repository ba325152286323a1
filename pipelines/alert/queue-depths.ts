// How many notifications wait already, per host and in all of an account (asked before more are enqueued).
// Read once per batch and counted on from there: pipelines that enqueue at the same moment may pass the bound by a
// batch.
import type { AlertRecord } from '../../schemas/alert.ts';
import { ACCOUNT_WAITING_MAX, LANE_WAITING_MAX, laneOf } from '../../src/registry/alerts/deliveries.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

export class QueueDepths {
  readonly #lanes: Map<string, number>;
  #all: number;

  private constructor(lanes: Map<string, number>, all: number) {
    this.#lanes = lanes;
    this.#all = all;
  }

  static async of(
    { redis, keys }: RegistryStore,
    account: string,
    alerts: readonly Pick<AlertRecord, 'channel' | 'target'>[],
  ): Promise<QueueDepths> {
    const lanes = [...new Set(alerts.map(({ channel, target }) => laneOf(channel, target)))];
    const [all, ...counts] = await Promise.all([
      redis.hlen(keys.deliveries(account)),
      ...lanes.map((lane) => redis.zcard(keys.deliveryLane(account, lane))),
    ]);
    return new QueueDepths(new Map(lanes.map((lane, i) => [lane, counts[i]!])), all);
  }

  isSaturated({ channel, target }: AlertRecord): boolean {
    return this.#all >= ACCOUNT_WAITING_MAX || (this.#lanes.get(laneOf(channel, target)) ?? 0) >= LANE_WAITING_MAX;
  }

  add({ channel, target }: AlertRecord): void {
    const lane = laneOf(channel, target);
    this.#lanes.set(lane, (this.#lanes.get(lane) ?? 0) + 1);
    this.#all++;
  }
}
