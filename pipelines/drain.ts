// Drains one stream for one pipeline, as long as its lease is held: the loop that every pipeline shares.
//
//   collect   read entries until the batch is full, or enough time has gone since the last one and its turn has come
//   plan      what must be remembered about this batch, so that anybody would write the same rows
//   manifest  first id, last id, plan: kept in Redis before anything is written elsewhere
//   apply     the pipeline's effect, tried for ever while the other side is away
//   ack       dead letters, the pipeline's own writes, acknowledgement, watermark, end of the manifest: one step
//
// Invariant: one unacknowledged batch a stream, a contiguous range of its entries. A new owner that finds a manifest makes
// the very same batch of it with the very same plan; what lies behind the manifest was never written by anybody.
// Contiguous, because each read begins right behind the last entry in hand, and that place is kept nowhere: it is read off what is
// in hand (`#place`). A batch that has not as many entries as its manifest says is trusted no further than what ClickHouse has.
// Nothing is held twice: entries stay in the stream until the ack, and here is at most one batch and one read.
// Failure: a lost lease ends the drain and drops what it holds; anything else is waited out.
import { setTimeout as sleep } from 'node:timers/promises';
import { ENTRY_FIELD } from '../schemas/entry.ts';
import {
  BATCH_ENTRIES_MAX,
  INSERT_ROWS_MAX,
  READ_POLL_MS,
  RETRY_MS_MAX,
  RETRY_MS_MIN,
  TOKEN_TRUST_MS,
} from '../src/common/limits.ts';
import type { Log } from '../src/process/log.ts';
import type { BinaryCommandArgs, DeadLetterFields, KeptManifest, StreamReader } from '../src/streams/consume.ts';
import { deadLetterFields } from '../src/streams/dead-letters.ts';
import { type Lease, LeaseLost } from '../src/streams/lease.ts';
import { compareIds } from '../src/streams/stream-id.ts';
import type { StreamPoller } from '../src/streams/stream-poller.ts';
import type { StreamEntry, WindowRead } from '../src/streams/window.ts';
import type { CommitBarrier } from './commit-barrier.ts';
import type { Permit, Permits } from './semaphore.ts';

const NOTHING: WindowRead = { entries: [], isEnd: true };

/** A stream entry as a pipeline understands it. */
export type Decoded<T> = { value: T; rows: number /** Epoch ms at which its oldest part arrived. */; oldestMs: number };

export type Batch<T> = {
  stream: string;
  /** Ids of its first and last entry. */
  first: string;
  last: string;
  values: T[];
  plan: unknown;
  /** Part of it may have been written already, and no token can be trusted to tell. */
  suspect: boolean;
  /** An earlier try may have reached the other side, and nobody has heard what became of it. */
  tried: boolean;
  /** At the first try: the others that have a place with it. */
  barrier: CommitBarrier<unknown> | undefined;
  /** Keeps another plan in the manifest. To be called before an effect that depends on it. */
  replan(plan: unknown): Promise<void>;
  /** Throws LeaseLost. To be called right before each effect. */
  ensureHeld(): Promise<void>;
  /** Writes to keys of the stream's slot that are made with the acknowledgement, or not at all. `apply` sets them anew each time. */
  writes: BinaryCommandArgs[];
};

/** What a pipeline does with a batch. */
export interface Work<T> {
  /** A drain begins under this lease: what was remembered under an earlier one is stale. Only for works that have one drain. */
  begin?(lease: Lease): void;
  /** The drain has ended, its lease is not let go yet. Must not reject. */
  end?(): Promise<void>;
  /** Whatever it throws dead-letters the entry with the error's message for a reason. */
  decode(entry: StreamEntry): Decoded<T>;
  /**
   * Whether these values lead to anything outside Redis; else the batch is just acknowledged. `plan`: of the manifest, if an
   * earlier owner left one. Whatever it throws is tried again.
   */
  hasEffect(values: readonly T[], plan?: unknown): boolean | Promise<boolean>;
  /** JSON; the same for ever once it is in the manifest. `barrier`: of the batch. */
  plan(values: readonly T[], barrier?: CommitBarrier<unknown>): Promise<unknown>;
  /** Idempotent for the same batch and plan. Returns what cannot be processed. Whatever it throws is tried again. */
  apply(batch: Batch<T>): Promise<DeadLetterFields[]>;
  /** After the ack: for metrics. */
  settled(batch: Batch<T>, deadLetters: DeadLettered): void;
}

/** Numbers of what was dead-lettered: returned by `apply`, and entries that could not be decoded. */
export type DeadLettered = { refused: number; unreadable: number };

type DrainOptions<T> = {
  reader: StreamReader;
  lease: Lease;
  work: Work<T>;
  permits: Permits;
  /** Bytes after which a batch is full. */
  bytesMax: number;
  /** Between two batches of a stream lies this much at least: a lone event goes at once, under load batches grow this long. */
  lingerMs: number;
  /**
   * The same after a batch without effect: under load events come in small entries without end, and each read and acknowledgement costs
   * as much as the events of one.
   */
  quietLingerMs: number;
  log: Log;
  poller: StreamPoller;
  /** Trims the stream; false: not now. */
  trim: () => Promise<boolean>;
};

/** Entries on their way to becoming a batch. */
class Taken<T> {
  readonly ids: string[] = [];
  readonly values: T[] = [];
  readonly deadLetters: DeadLetterFields[] = [];
  rows = 0;
  bytes = 0;
  oldestMs = Number.POSITIVE_INFINITY;
  retried = false;
}

export class Drain<T> {
  readonly #options: DrainOptions<T>;
  readonly #stop = new AbortController();
  /** Entries read beyond the batch that is being made. */
  #ahead: StreamEntry[] = [];
  /** The last entry that this group has acknowledged. */
  #acknowledged = '0-0';
  #taken: Taken<T> | undefined;
  #askingSince: number | undefined;
  /** Monotonic ms before which no batch is closed that is not full. */
  #dueAt = Number.NEGATIVE_INFINITY;
  /** Something was acknowledged since the last trim; true at first, since an earlier owner may have died before its own. */
  #untrimmed = true;
  #failingSince: number | undefined;

  constructor(options: DrainOptions<T>) {
    this.#options = options;
  }

  /** Resolves after `stop`, rejects with LeaseLost. */
  async run(): Promise<void> {
    this.#options.work.begin?.(this.#options.lease);
    try {
      const kept = await this.#retryForever(() => this.#options.reader.manifest());
      this.#acknowledged = await this.#retryForever(() => this.#options.reader.place());
      if (kept !== null) await this.#recover(kept);
      while (!this.#stop.signal.aborted) await this.#round();
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    } finally {
      this.#options.reader.close();
      await this.#options.work.end?.();
    }
  }

  /** Ends the drain after the insert that is running; a batch that is only collected stays in the stream. */
  stop(): void {
    this.#stop.abort();
  }

  /** Epoch ms of the oldest event in hand, or null. */
  get oldestMs(): number | null {
    const oldest = this.#taken?.oldestMs ?? Number.POSITIVE_INFINITY;
    return Number.isFinite(oldest) ? oldest : null;
  }

  /** ms since a step of Redis was begun that has not succeeded yet, or 0. */
  get silentMs(): number {
    return this.#askingSince === undefined ? 0 : performance.now() - this.#askingSince;
  }

  /** ms since the batch in hand first failed, or 0. */
  get failingMs(): number {
    return this.#failingSince === undefined ? 0 : performance.now() - this.#failingSince;
  }

  async #round(): Promise<void> {
    const taken = new Taken<T>();
    this.#taken = taken;
    try {
      await this.#collect(taken);
      if (taken.ids.length > 0) await this.#write(taken, null);
      if (this.#untrimmed && (await this.#options.trim())) this.#untrimmed = false;
    } finally {
      this.#taken = undefined;
    }
  }

  /** The batch of an earlier owner: its entries lead the history. */
  async #recover(kept: KeptManifest): Promise<void> {
    const taken = new Taken<T>();
    this.#taken = taken;
    const { first, last, entries: count } = kept.manifest;
    while (taken.ids.at(-1) !== last) {
      const { entries } = await this.#read(taken);
      const beyond = entries.findIndex(({ id }) => compareIds(id, last) > 0);
      this.#take(taken, beyond < 0 ? entries : entries.slice(0, beyond));
      if (beyond >= 0) this.#ahead = entries.slice(beyond);
      if (beyond >= 0 || entries.length === 0) break;
    }
    const same =
      taken.ids[0] === first && taken.ids.at(-1) === last && taken.ids.length === (count ?? taken.ids.length);
    const { attempts } = kept.manifest;
    this.#options.log.info({ first, last, entries: taken.ids.length, attempts, ageMs: kept.ageMs }, 'batch.recovered');
    if (!same) {
      // Somebody removed entries or the group by hand. What is left is written as if nothing were known about it.
      this.#options.log.error({ first, last, entries: count, found: taken.ids.length }, 'manifest.dangling');
      kept = { ...kept, ageMs: Number.POSITIVE_INFINITY };
    }
    if (taken.ids.length > 0) await this.#write(taken, kept);
    this.#taken = undefined;
  }

  /** Fills `taken`; leaves it empty if there is nothing to read. */
  async #collect(taken: Taken<T>): Promise<void> {
    this.#take(taken, this.#ahead);
    this.#ahead = [];
    while (!this.#full(taken)) {
      const { entries, isEnd } = await this.#read(taken);
      this.#take(taken, entries);
      if (taken.ids.length === 0) return this.#options.poller.wait(this.#options.reader.stream, this.#stop.signal);
      // More lies behind it: a backlog is drained in full batches.
      if (!isEnd) continue;
      const leftMs = this.#dueAt - performance.now();
      if (leftMs <= 0) return;
      // What comes meanwhile is read at once when it is time: a look every now and then would cost a round trip each.
      await this.#pause(leftMs);
    }
  }

  #full(taken: Taken<T>): boolean {
    return (
      taken.rows >= INSERT_ROWS_MAX || taken.bytes >= this.#options.bytesMax || taken.ids.length >= BATCH_ENTRIES_MAX
    );
  }

  /** What comes behind all that is in hand. */
  #read(taken: Taken<T>): Promise<WindowRead> {
    const place = this.#place(taken);
    return this.#retryForever(() => this.#options.reader.read(place));
  }

  #place(taken: Taken<T>): string {
    return this.#ahead.at(-1)?.id ?? taken.ids.at(-1) ?? this.#acknowledged;
  }

  #take(taken: Taken<T>, entries: readonly StreamEntry[]): void {
    for (const entry of entries) {
      taken.ids.push(entry.id);
      // A dead letter that was re-queued is for the group that had given up it; for the others it is old.
      const retryOf = entry.fields.get(ENTRY_FIELD.group)?.toString();
      if (retryOf !== undefined && retryOf !== this.#options.reader.group) continue;
      for (const value of entry.fields.values()) taken.bytes += value.length;
      taken.retried ||= retryOf !== undefined;
      this.#decode(taken, entry);
    }
  }

  #decode(taken: Taken<T>, entry: StreamEntry): void {
    try {
      const { value, rows, oldestMs } = this.#options.work.decode(entry);
      taken.values.push(value);
      taken.rows += rows;
      taken.oldestMs = Math.min(taken.oldestMs, oldestMs);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.log.error({ id: entry.id, reason }, 'entry.dead_lettered');
      taken.deadLetters.push(
        deadLetterFields({ fields: entry.fields, group: this.#options.reader.group, from: entry.id, reason }),
      );
    }
  }

  async #write(taken: Taken<T>, kept: KeptManifest | null): Promise<void> {
    const { work, reader } = this.#options;
    const batch = this.#batch(taken);
    let refused: DeadLetterFields[] = [];
    if (await this.#retryForever(async () => work.hasEffect(taken.values, kept?.manifest.plan))) {
      const permit = await this.#permit(taken, kept === null);
      try {
        // It may have grown while it waited.
        batch.last = taken.ids.at(-1)!;
        batch.suspect = taken.retried;
        // What came in while the place was given may be old.
        if (taken.retried) permit.barrier?.leave();
        else batch.barrier = permit.barrier;
        refused = await this.#apply(batch, taken, kept, permit);
      } finally {
        permit.release();
        this.#dueAt = performance.now() + this.#options.lingerMs;
      }
    } else this.#dueAt = performance.now() + this.#options.quietLingerMs;
    await this.#retryForever(() => reader.ack(taken.ids.at(-1)!, [...refused, ...taken.deadLetters], batch.writes));
    this.#acknowledged = taken.ids.at(-1)!;
    this.#untrimmed = true;
    work.settled(batch, { refused: refused.length, unreadable: taken.deadLetters.length });
  }

  #batch(taken: Taken<T>): Batch<T> {
    return {
      stream: this.#options.reader.stream,
      first: taken.ids[0]!,
      last: taken.ids.at(-1)!,
      values: taken.values,
      plan: undefined,
      suspect: taken.retried,
      tried: false,
      barrier: undefined,
      replan: () => Promise.resolve(),
      ensureHeld: () => this.#options.lease.ensureHeld(),
      writes: [],
    };
  }

  /** Waits for a place among the inserts; a batch that may still grow does so meanwhile, and may get it with others. */
  async #permit(taken: Taken<T>, mayGrow: boolean): Promise<Permit> {
    const permit = this.#options.permits.acquire(() => ({
      rows: taken.rows,
      bytes: taken.bytes,
      isFull: this.#full(taken),
      alone: !mayGrow || taken.retried,
    }));
    try {
      while (!permit.isAcquired) {
        const grows = mayGrow && !this.#full(taken);
        const { entries, isEnd } = grows ? await this.#read(taken) : NOTHING;
        this.#take(taken, entries);
        if (isEnd) await Promise.race([permit.acquired, this.#pause(READ_POLL_MS)]);
      }
      return permit;
    } catch (error) {
      permit.release();
      throw error;
    }
  }

  async #apply(
    batch: Batch<T>,
    taken: Taken<T>,
    kept: KeptManifest | null,
    first: Permit,
  ): Promise<DeadLetterFields[]> {
    const { work, reader, log } = this.#options;
    const attemptsBefore = kept?.manifest.attempts ?? 0;
    const entries = taken.ids.length;
    const startedAt = performance.now() - (kept?.ageMs ?? 0);
    batch.tried = kept !== null;
    batch.plan = kept?.manifest.plan ?? (await this.#retryForever(() => work.plan(taken.values, batch.barrier)));
    batch.replan = async (plan) => {
      batch.plan = plan;
      await this.#retryForever(() =>
        reader.keepManifest({ first: batch.first, last: batch.last, entries, attempts: attemptsBefore + 1, plan }),
      );
    };
    await batch.replan(batch.plan);
    let permit = first;
    for (let attempt = 1; ; attempt++) {
      try {
        batch.suspect ||= performance.now() - startedAt > TOKEN_TRUST_MS;
        const deadLetters = await work.apply(batch);
        this.#failingSince = undefined;
        return deadLetters;
      } catch (error) {
        if (error instanceof LeaseLost || error instanceof Stopped) throw error;
        batch.tried = true;
        batch.barrier = undefined;
        this.#failingSince ??= performance.now();
        log.warn({ err: error, first: batch.first, last: batch.last, attempt }, 'batch.failed');
      } finally {
        // Others go on while this batch waits.
        permit.release();
      }
      await this.#pause(backoffMs(attempt));
      permit = await this.#permit(taken, false);
    }
  }

  /** Does a step of Redis until it succeeds, the lease is lost or the drain is stopped. */
  async #retryForever<R>(step: () => Promise<R>): Promise<R> {
    this.#askingSince = performance.now();
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await step();
        this.#askingSince = undefined;
        return result;
      } catch (error) {
        if (error instanceof LeaseLost) throw error;
        if (attempt === 1) this.#options.log.warn({ err: error }, 'redis.step_failed');
      }
      await this.#pause(backoffMs(attempt));
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#stop.signal.aborted) throw new Stopped();
    try {
      await sleep(ms, undefined, { signal: this.#stop.signal });
    } catch {
      throw new Stopped();
    }
  }
}

/** The drain was asked to stop while it waited. */
class Stopped extends Error {
  override name = 'Stopped';
}

function backoffMs(attempt: number): number {
  return Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(attempt - 1, 10)) * (0.75 + Math.random() / 2);
}
