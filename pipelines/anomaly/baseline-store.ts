// The baselines of one partition's agents: in memory while its stream is drained here, in Redis for the process that
// drains it next.
//
//   begin    a lease is taken: what was remembered under an earlier one is stale, and forgotten
//   load     baselines of a batch's agents that are not in memory: one pipelined read for all of them
//   flush    changed baselines, each at most once a second, at most FLUSH_MAX at once; never in the middle of a batch
//   save     those of flagged agents, awaited, before their batch is acknowledged
//   end      what is left to be flushed
// Invariant: in the middle of a batch (from its first look to its acknowledgement) nothing of it is flushed: a baseline
// that includes a finding whose manifest was never written would make a new owner pass over it.
// Failure: a flush that fails is tried again a second later and holds up nothing; a load or save that fails holds up
// the batch.

import { BASELINE_KEPT_MS, BASELINES_MAX } from '../../src/common/limits.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Script } from '../../src/redis/script.ts';
import type { Lease } from '../../src/streams/lease.ts';
import { Baseline, decodeBaseline, encodeBaseline } from './baseline.ts';

// A baseline in Redis says which entry it includes last, so a new owner that reads entries again counts none twice. It
// may be a second older than what was acknowledged: then a second of history is missing from it, and no finding, since
// `save` comes after the manifest that names the findings and before the acknowledgement.
// Bounded: BASELINES_MAX in memory, the longest unused go first; in Redis BASELINE_BYTES an agent, BASELINE_KEPT_MS
// long.

const FLUSH_MS = 1_000;
/** Half a megabyte and a millisecond of Redis. */
const FLUSH_MAX = 1_000;
const LOAD_MAX = 500;

const saveScript = new Script<number | null>('baselines-save', readAsset('src/redis/baselines-save.lua'));

/** A baseline in memory. */
export type CachedBaseline = {
  agent: string;
  baseline: Baseline;
  /** Monotonic ms of its last flush. */
  flushedAt: number;
};

export class BaselineStore {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #partition: number;
  readonly #kept = new Map<string, CachedBaseline>();
  /** Changed since they were written, longest waiting first. */
  readonly #dirty = new Set<CachedBaseline>();
  /** To be flushed without waiting for their second. */
  readonly #urgent = new Set<CachedBaseline>();
  #lease: Lease | undefined;
  #inBatch = false;
  #flushing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { redis: Commands; keys: Keys; partition: number }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#partition = options.partition;
  }

  /** Baselines in memory. */
  get size(): number {
    return this.#kept.size;
  }

  begin(lease: Lease): void {
    this.#lease = lease;
    this.#inBatch = false;
    this.#kept.clear();
    this.#dirty.clear();
    this.#urgent.clear();
  }

  /** Writes what is left, if that may be done. Never throws. */
  async end(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#flushing;
    if (this.#inBatch) return;
    try {
      while (this.#dirty.size > 0) await this.#write([...this.#dirty].slice(0, FLUSH_MAX));
    } catch {
      // A second of history is lost, as with any death.
    }
  }

  /** Before a batch's first event is counted. Whatever it throws has changed nothing. */
  async load(agents: ReadonlySet<string>): Promise<void> {
    this.#inBatch = true;
    const missing: string[] = [];
    for (const agent of agents) {
      const kept = this.#kept.get(agent);
      if (kept === undefined) missing.push(agent);
      else {
        // The order of the map is the order of last use.
        this.#kept.delete(agent);
        this.#kept.set(agent, kept);
      }
    }
    const parts: string[][] = [];
    for (let at = 0; at < missing.length; at += LOAD_MAX) parts.push(missing.slice(at, at + LOAD_MAX));
    const records = await Promise.all(
      parts.map((part) => this.#redis.mgetBuffer(part.map((agent) => this.#key(agent)))),
    );
    parts.forEach((part, i) => {
      part.forEach((agent, j) => {
        const record = records[i]![j];
        const baseline = (record ? decodeBaseline(record) : null) ?? new Baseline();
        this.#kept.set(agent, { agent, baseline, flushedAt: Number.NEGATIVE_INFINITY });
      });
    });
  }

  get(agent: string): CachedBaseline | undefined {
    return this.#kept.get(agent);
  }

  changed(kept: CachedBaseline): void {
    this.#dirty.add(kept);
  }

  /** An episode has ended: to be known to a new owner soon. */
  hurry(kept: CachedBaseline): void {
    this.#urgent.add(kept);
  }

  /** Throws LeaseLost. */
  async save(agents: Iterable<string>): Promise<void> {
    // Redis gets them in the order in which they were sent; an older record must not come last.
    await this.#flushing;
    const found = [...new Set(agents)].flatMap((agent) => this.#kept.get(agent) ?? []);
    for (let at = 0; at < found.length; at += FLUSH_MAX) {
      if (!(await this.#write(found.slice(at, at + FLUSH_MAX)))) throw this.#lease!.lose();
    }
  }

  /** After a batch was acknowledged. */
  settled(): void {
    this.#inBatch = false;
    this.#flush();
    this.#evict();
  }

  #flush(): void {
    if (this.#flushing !== undefined || this.#inBatch) return;
    const now = performance.now();
    const due = [...this.#urgent];
    for (const kept of this.#dirty) {
      if (due.length >= FLUSH_MAX) break;
      if (now - kept.flushedAt >= FLUSH_MS && !this.#urgent.has(kept)) due.push(kept);
    }
    if (due.length === 0) {
      this.#later();
      return;
    }
    this.#flushing = this.#write(due)
      .catch(() => {
        for (const kept of due) if (this.#kept.get(kept.agent) === kept) this.#dirty.add(kept);
      })
      .then(() => {
        this.#flushing = undefined;
        this.#later();
      });
  }

  /** Flushes a second later the baselines that are not due yet, if no batch does it before. */
  #later(): void {
    if (this.#timer !== undefined || this.#dirty.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
      this.#evict();
    }, FLUSH_MS).unref();
  }

  /** False: the lease is lost. */
  async #write(all: readonly CachedBaseline[]): Promise<boolean> {
    const now = performance.now();
    const lease = this.#lease!;
    const records = all.map((kept) => {
      kept.flushedAt = now;
      this.#dirty.delete(kept);
      this.#urgent.delete(kept);
      return encodeBaseline(kept.baseline);
    });
    const names = all.map(({ agent }) => this.#key(agent));
    const written = await saveScript.run(
      this.#redis,
      [lease.key, ...names],
      [lease.text, BASELINE_KEPT_MS, ...records],
    );
    return written !== null;
  }

  /**
   * Unchanged ones go; changed ones only where Redis has not taken them for so long that memory would not be bounded.
   */
  #evict(): void {
    if (this.#inBatch || this.#kept.size <= BASELINES_MAX) return;
    for (const [agent, kept] of this.#kept) {
      if (this.#kept.size <= BASELINES_MAX) return;
      const isDirty = this.#dirty.has(kept);
      if (isDirty && this.#kept.size <= 2 * BASELINES_MAX) continue;
      this.#kept.delete(agent);
      this.#dirty.delete(kept);
      this.#urgent.delete(kept);
    }
  }

  #key(agent: string): string {
    return this.#keys.baseline(this.#partition, agent);
  }
}
