// Deletes what is past the retention, of every table whose rows expire (run by the process that has the first shard of
// the registry, as is the cleaning of files).
//
//   rules    what is kept of each account now: the operator's days, its own, its holds
//   months   the oldest first: one in which nothing can be kept is dropped
//            of another what is past is counted, and deleted by one change of the table for each so many accounts
//   applied  nothing is left: noted with the time, which an alert watches
//
// Invariant: no row goes that could be read when the rules were read (kept-rows.ts), so what runs twice, or is killed
// and begun again, does the same. The engine finishes a change that it has begun. Bounded: one change at a time over
// all tables, none beside another's, and behind each a rest as long as it took; once a day, or when a rule changes.
// Failure: logged, and tried again at the next look. A change that fails is given up, or it would hold up all others.
import type { ClickHouse } from '../../clickhouse/client.ts';
import {
  countPast,
  deletePast,
  dropPartition,
  type ExpiringPartition,
  expiringPartitions,
  giveUpChange,
  pastConditions,
  pastWholeMs,
  runningChanges,
} from '../../clickhouse/queries/expired-rows.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { type KeptOfAll, keptOfAll, type RetentionSettings } from '../../src/registry/accounts/account-retention.ts';

/** Between two looks. */
const LOOK_MS = 10_000;
/** A process that has not been asked for so long has lost the shard. */
const ASKED_MS = 60_000;

type Options = {
  redis: Commands;
  keys: Keys;
  clickhouse: ClickHouse;
  metrics: Metrics;
  log: Log;
  retention: RetentionSettings;
  /** Left out: LOOK_MS. */
  lookMs?: number;
  /** For tests. */
  now?: () => number;
};

export class RowExpiry {
  readonly #options: Options;
  readonly #now: () => number;
  #lookAt = Number.NEGATIVE_INFINITY;
  #changingSince: number | undefined;
  /** The deletions that have nothing left to delete by the rules of `#rules`: table, partition and condition. */
  #done = new Set<string>();
  #rules = '';
  #busy: Promise<void> | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** Epoch ms at which nothing was left; undefined: not known here. */
  #appliedMs: number | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    options.metrics.sampleBy(() => this.#report());
  }

  /** Never rejects; one look at a time. */
  look(): Promise<void> {
    if (performance.now() - this.#askedAt > ASKED_MS) this.#appliedMs = undefined;
    this.#askedAt = performance.now();
    if (performance.now() < this.#lookAt) return Promise.resolve();
    this.#busy ??= this.#look()
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'retention.failed'))
      .finally(() => {
        this.#busy = undefined;
      });
    return this.#busy;
  }

  async #look(): Promise<void> {
    const { lookMs = LOOK_MS, clickhouse, retention } = this.#options;
    const nowMs = performance.now();
    this.#lookAt = nowMs + lookMs;
    await this.#readApplied();
    if (await this.#isChanging()) return;
    if (this.#changingSince !== undefined) {
      this.#lookAt = Math.max(this.#lookAt, nowMs + (nowMs - this.#changingSince));
      this.#changingSince = undefined;
      return;
    }
    const kept = await keptOfAll(this.#options, retention, this.#now());
    const rules = JSON.stringify([kept.others, ...kept.own]);
    if (rules !== this.#rules) this.#done = new Set();
    this.#rules = rules;
    for (const partition of await expiringPartitions(clickhouse)) if (await this.#expire(partition, kept)) return;
    await this.#noteApplied();
  }

  /** Is a change of these tables running, of ours or of another's? */
  async #isChanging(): Promise<boolean> {
    const { clickhouse, log } = this.#options;
    const running = await runningChanges(clickhouse);
    for (const one of running) {
      if (one.fault === '' || !one.isOurs) continue;
      log.warn({ table: one.table, fault: one.fault }, 'retention.change_failed');
      await giveUpChange(clickhouse, one);
    }
    return running.length > 0;
  }

  /** True: a change was begun. */
  async #expire(partition: ExpiringPartition, kept: KeptOfAll): Promise<boolean> {
    const { clickhouse, log, metrics } = this.#options;
    const { table, rows } = partition;
    if (partition.toMs <= pastWholeMs(kept)) {
      await dropPartition(clickhouse, partition);
      metrics.inc('gatehouse_expired_rows_total', { table }, rows);
      log.info({ table, month: partition.partition, rows }, 'retention.month_dropped');
      return false;
    }
    for (const [i, condition] of pastConditions(table, kept).entries()) {
      const name = `${table} ${partition.partition} ${i}`;
      if (this.#done.has(name)) continue;
      const past = await countPast(clickhouse, partition, condition);
      if (past > 0) {
        this.#changingSince = performance.now();
        await deletePast(clickhouse, partition, condition);
        metrics.inc('gatehouse_expired_rows_total', { table }, past);
        log.info({ table, month: partition.partition, rows: past }, 'retention.deleting');
        return true;
      }
      this.#done.add(name);
    }
    return false;
  }

  async #noteApplied(): Promise<void> {
    const { redis, keys } = this.#options;
    const nowMs = this.#now();
    await redis.set(keys.retentionApplied(), nowMs);
    this.#appliedMs = nowMs;
  }

  /** Counted from the first look of a service, so that one that never gets so far is late as well. */
  async #readApplied(): Promise<void> {
    const { redis, keys } = this.#options;
    if (this.#appliedMs !== undefined) return;
    await redis.setnx(keys.retentionApplied(), this.#now());
    this.#appliedMs = Number(await redis.get(keys.retentionApplied()));
  }

  #report(): void {
    const isOurs = performance.now() - this.#askedAt < ASKED_MS && this.#appliedMs !== undefined;
    const late = isOurs ? Math.max(0, this.#now() - this.#appliedMs!) / 1000 : 0;
    this.#options.metrics.set('gatehouse_retention_unapplied_seconds', {}, late);
  }
}
