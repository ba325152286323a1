// Lets approvals expire when their time is up, and forgets decisions that ClickHouse has kept for long (a ticker of
// each pipelines process, beside the pipelines).
// No lease: an expiry is a commit that holds only while the approval is still pending, so any number of processes may
// inspect the same ones. Each poll takes the oldest deadlines of each shard, so a flood of them is worked off in order.
// A decision is forgotten in Redis an hour after it was made, and only once its shard's journal has been stored past
// it. Anything that fails is tried again at the next poll; a Redis that is away makes approvals expire later, never
// twice.
import { Periodic } from '../../src/common/async.ts';
import { APPROVAL_EXPIRY_POLL_MS, APPROVAL_KEPT_MS, APPROVALS_AT_ONCE } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import { dueMembers } from '../../src/redis/many-keys.ts';
import { Approvals, type ApprovalsOptions } from '../../src/registry/approvals/approvals.ts';
import { positionOf } from '../../src/streams/read-barrier.ts';
import { compareIds } from '../../src/streams/stream-id.ts';

type ApprovalExpiryOptions = ApprovalsOptions & { metrics: Pick<Metrics, 'inc'>; log: Log };

const SHARDS = Array.from({ length: REGISTRY_SHARDS }, (_, shard) => shard);
/** Forgetting is in no hurry. */
const FORGET_POLL_MS = 30_000;
/** Stream ids are Redis's time, decisions the clock of the process that decided. */
const CLOCKS_APART_MS = 60_000;

export class ApprovalExpiry {
  readonly #options: ApprovalExpiryOptions;
  readonly #approvals: Approvals;
  readonly #now: () => number;
  readonly #ticks = new Periodic(APPROVAL_EXPIRY_POLL_MS, () => this.#tick());
  #forgottenAt = performance.now();
  #stopping = false;

  constructor(options: ApprovalExpiryOptions) {
    this.#options = options;
    this.#approvals = new Approvals(options);
    this.#now = options.now ?? Date.now;
  }

  start(): void {
    this.#ticks.start();
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#ticks.stop();
  }

  /** Lets everything that is due expire. Rejects where Redis cannot be asked. */
  async look(): Promise<void> {
    const { redis, keys } = this.#options;
    const due = await dueMembers(redis, keys.ofShards(keys.approvalDeadlines), { now: this.#now(), max: 1 });
    await Promise.all(SHARDS.filter((shard) => due[shard]!.length > 0).map((shard) => this.#expire(shard)));
  }

  /** Forgets what has been decided for an hour and is stored. Rejects where Redis cannot be asked. */
  async forget(): Promise<number> {
    const { redis, keys } = this.#options;
    let forgotten = 0;
    for (const shard of SHARDS) {
      const dueMs = this.#now() - APPROVAL_KEPT_MS;
      if ((await redis.zcount(keys.approvalDecisions(shard), '-inf', dueMs)) === 0) continue;
      const { watermark, last } = await positionOf(redis, keys, keys.journal(shard), 'store');
      const isStored = compareIds(watermark, last) >= 0;
      const storedMs = isStored ? dueMs : Number(watermark.split('-')[0]) - CLOCKS_APART_MS;
      for (;;) {
        const count = await this.#approvals.forget(shard, Math.min(dueMs, storedMs));
        forgotten += count;
        if (count < APPROVALS_AT_ONCE || this.#stopping) break;
      }
    }
    return forgotten;
  }

  async #tick(): Promise<void> {
    try {
      await this.look();
      if (performance.now() - this.#forgottenAt < FORGET_POLL_MS) return;
      this.#forgottenAt = performance.now();
      await this.forget();
    } catch (error) {
      this.#options.log.warn({ err: error }, 'approvals.look_failed');
    }
  }

  async #expire(shard: number): Promise<void> {
    for (;;) {
      const { looked, expired } = await this.#approvals.expireDue(shard);
      if (expired.length > 0) {
        this.#options.metrics.inc('gatehouse_approvals_total', { result: 'expired' }, expired.length);
        this.#options.log.debug({ shard, expired: expired.length }, 'approvals.expired');
      }
      if (looked < APPROVALS_AT_ONCE || this.#stopping) return;
    }
  }
}
