// Drains one stream for one pipeline, as long as its lease is held: the loop that every pipeline shares.
//
//   collecting   reads entries until the batch is full, or enough time has gone since the last one
//   waiting      for a permit to write; the batch may grow meanwhile
//   planning     what must be remembered about this batch, so that every owner would write the same rows: the manifest
//                in Redis (first id, last id, plan), before anything is written elsewhere
//   applying     the pipeline's effect; while it fails, waits for another permit and applies again
//   committing   dead letters, the pipeline's own writes, acknowledgement, watermark, end of the manifest: one step
// Invariant: one unacknowledged batch a stream, a contiguous range of its entries. A new owner that finds a manifest
// makes the very same batch of it with the very same plan; what lies behind the manifest was never written.
// Failure: a lost lease ends the drain and drops what it holds; anything else is waited out.
import assert from 'node:assert';
import { setTimeout as sleep } from 'node:timers/promises';
import { ENTRY_FIELD } from '../schemas/entry.ts';
import { backoffMs } from '../src/common/async.ts';
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
import { type Batch, OpenBatch } from './batch.ts';
import type { CommitBarrier } from './commit-barrier.ts';
import type { Permit, Permits } from './semaphore.ts';

// A batch without effect goes from collecting to committing. `recovering` reads the batch of an earlier owner's
// manifest; it continues as any other.
// Contiguous, because each read begins right behind the last entry in hand, and that position is kept nowhere: it is
// read off what is in hand (`#position`). A batch that has not as many entries as its manifest says is trusted no
// further than what ClickHouse has. Nothing is held twice: entries stay in the stream until the ack, and here is at
// most one batch and one read.
// Redis may have gone back, by a failover or an older file: it lacks acknowledgements and manifests of what was
// written, or entries. So each step is refused in another run of Redis than the drain began in, and a drain that
// begins in one that its group does not know writes what lies there up to that moment as untracked: compared by id with
// what is stored. When it is through, the work may look for what is stored and no longer in the stream (`compared`).

const NOTHING: WindowRead = { entries: [], isEnd: true };
const RETRY = { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX };
/** Events arrive a little before their entry is made, by the clock of another machine. */
const BEFORE_MS = 60_000;
const NO_EFFECT = { batch: undefined, applied: { deadLetters: [], writes: [] } };

/** A stream entry as a pipeline understands it. */
export type Decoded<T> = { value: T; rows: number /** Epoch ms at which its oldest part arrived. */; oldestMs: number };

/** The result of a batch: its dead letters, and further writes. */
export type Applied = {
  /** The parts of the batch that cannot be processed. */
  deadLetters: DeadLetterFields[];
  /** Writes to keys of the stream's slot that are made with the acknowledgement, or not at all. */
  writes: BinaryCommandArgs[];
};

/** `plan`: undefined where the batch had no effect. */
export type Committed<T, Plan> = {
  first: string;
  last: string;
  values: readonly T[];
  plan: Plan | undefined;
  deadLettered: DeadLettered;
};

/** The work of a pipeline on a batch. */
export interface Work<T, Plan> {
  /**
   * A drain begins under this lease: what was remembered under an earlier one is stale. Only for works that have one
   * drain.
   */
  begin?(lease: Lease): void;
  /** The drain has ended, its lease is not released yet. Must not reject. */
  end?(): Promise<void>;
  /**
   * The drain begins in a run of Redis that the group does not know: what is remembered of the stream may be wrong.
   */
  wentBack?(stream: string): void;
  /**
   * In a run of Redis that the group did not know, everything of the stream that may have been dealt with before has
   * been compared. `fromMs`: epoch ms before which nothing can have been lost; null: it is not known. The writes are
   * made one after the other, under the lease. Whatever it throws is tried again, from the beginning.
   */
  compared?(stream: string, fromMs: number | null): AsyncIterable<BinaryCommandArgs[]>;
  /** Whatever it throws dead-letters the entry with the error's message for a reason. */
  decode(entry: StreamEntry): Decoded<T>;
  /**
   * Takes note of these values, and returns whether they lead to anything outside Redis; else the batch is just
   * acknowledged. `plan`: of the manifest, if an earlier owner left one. Whatever it throws is tried again.
   */
  prepare(values: readonly T[], plan?: Plan): boolean | Promise<boolean>;
  /**
   * JSON; the same forever once it is in the manifest. The batch may have grown since `prepare`. `barrier`: of the
   * batch.
   */
  plan(values: readonly T[], barrier?: CommitBarrier): Promise<Plan>;
  /** Idempotent for the same batch and plan. Whatever it throws is tried again. */
  apply(batch: Batch<T, Plan>): Promise<Applied>;
  /** After the acknowledgement: for metrics. */
  committed(batch: Committed<T, Plan>): void;
}

/** Numbers of what was dead-lettered: returned by `apply`, and entries that could not be decoded. */
export type DeadLettered = { refused: number; unreadable: number };

export type DrainOptions<T, Plan> = {
  reader: StreamReader;
  lease: Lease;
  work: Work<T, Plan>;
  permits: Permits;
  /** Bytes after which a batch is full. */
  bytesMax: number;
  /**
   * Between two batches of a stream lies this much at least: a lone event goes at once, under load batches grow this
   * long.
   */
  lingerMs: number;
  /**
   * The same after a batch without effect: under load events come in small entries without end, and each read and
   * acknowledgement costs as much as the events of one.
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
  /** Some of it may have been stored before, and no token says so. */
  isDoubtful = false;
}

type State = 'starting' | 'recovering' | 'collecting' | 'waiting' | 'planning' | 'applying' | 'committing' | 'ended';
/** Any state may end: a lost lease, a stop. */
const NEXT: Record<State, readonly State[]> = {
  starting: ['recovering', 'collecting', 'ended'],
  recovering: ['waiting', 'committing', 'collecting', 'ended'],
  collecting: ['collecting', 'waiting', 'committing', 'ended'],
  waiting: ['planning', 'applying', 'ended'],
  planning: ['applying', 'ended'],
  applying: ['waiting', 'committing', 'ended'],
  committing: ['collecting', 'ended'],
  ended: [],
};

/** A drain, whatever its pipeline. */
export type AnyDrain = Pick<Drain<unknown, unknown>, 'run' | 'stop' | 'oldestMs' | 'silentMs' | 'failingMs'>;

export class Drain<T, Plan> {
  readonly #options: DrainOptions<T, Plan>;
  readonly #stop = new AbortController();
  #state: State = 'starting';
  /** Entries read beyond the batch that is being made. */
  #ahead: StreamEntry[] = [];
  /** The last entry that this group has acknowledged. */
  #acknowledged = '0-0';
  /** Up to here entries may have been dealt with in another run of Redis. */
  #comparedTo = '0-0';
  #taken: Taken<T> | undefined;
  #askingSince: number | undefined;
  /** Monotonic ms before which no batch is closed that is not full. */
  #dueAt = Number.NEGATIVE_INFINITY;
  /**
   * Something was acknowledged since the last trim; true at first, since an earlier owner may have died before its own.
   */
  #untrimmed = true;
  #failingSince: number | undefined;

  constructor(options: DrainOptions<T, Plan>) {
    this.#options = options;
  }

  /** Resolves after `stop`, rejects with LeaseLost. */
  async run(): Promise<void> {
    this.#options.work.begin?.(this.#options.lease);
    try {
      const { position, comparedTo, comparedFrom } = await this.#retryForever(() => this.#options.reader.begin());
      const kept = await this.#retryForever(() => this.#options.reader.manifest<Plan>());
      this.#acknowledged = position;
      this.#comparedTo = comparedTo ?? '0-0';
      if (comparedTo !== null) this.#options.work.wentBack?.(this.#options.reader.stream);
      if (kept !== null) await this.#recover(kept);
      if (comparedTo !== null) await this.#compare(comparedFrom);
      while (!this.#stop.signal.aborted) await this.#round();
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    } finally {
      this.#enter('ended');
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

  #enter(state: State): void {
    assert(NEXT[this.#state].includes(state), `a drain went from ${this.#state} to ${state}`);
    this.#state = state;
  }

  async #round(): Promise<void> {
    this.#enter('collecting');
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
  async #recover(kept: KeptManifest<Plan>): Promise<void> {
    this.#enter('recovering');
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
    const same = taken.ids[0] === first && taken.ids.at(-1) === last && taken.ids.length === count;
    const { attempts } = kept.manifest;
    this.#options.log.info({ first, last, entries: taken.ids.length, attempts, ageMs: kept.ageMs }, 'batch.recovered');
    if (!same) {
      // Entries or the group were removed by hand. What is left is written as if nothing were known about it.
      this.#options.log.error({ first, last, entries: count, found: taken.ids.length }, 'manifest.dangling');
      kept = { ...kept, ageMs: Number.POSITIVE_INFINITY };
    }
    if (taken.ids.length > 0) await this.#write(taken, kept);
    this.#taken = undefined;
  }

  /** Deals with what was there when the drain began, and then with what was stored and is there no more. */
  async #compare(comparedFrom: string): Promise<void> {
    const comparedTo = this.#comparedTo;
    // A group at the start of its stream is new, as at the first start of a service: no reason to warn an operator.
    const isNew = comparedFrom === '0-0';
    if (isNew) countNew(this.#options.log);
    else if (comparedTo !== comparedFrom)
      this.#options.log.warn({ comparedFrom, comparedTo }, 'stream.may_have_gone_back');
    while (!this.#stop.signal.aborted && compareIds(this.#acknowledged, comparedTo) < 0) {
      const before = this.#acknowledged;
      await this.#round();
      // What was the last entry may have been removed.
      if (this.#acknowledged === before && this.#ahead.length === 0) break;
    }
    // What is left is compared by the next owner.
    if (this.#stop.signal.aborted) return;
    const { reader, work } = this.#options;
    const fromMs = isNew ? null : Number(comparedFrom.split('-')[0]) - BEFORE_MS;
    await this.#retryForever(async () => {
      for await (const writes of work.compared?.(reader.stream, fromMs) ?? []) await reader.write(writes);
      await reader.endCompared();
    });
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

  /** Reads the entries that follow all that is in hand. */
  #read(taken: Taken<T>): Promise<WindowRead> {
    const position = this.#position(taken);
    return this.#retryForever(() => this.#options.reader.read(position));
  }

  #position(taken: Taken<T>): string {
    return this.#ahead.at(-1)?.id ?? taken.ids.at(-1) ?? this.#acknowledged;
  }

  #take(taken: Taken<T>, entries: readonly StreamEntry[]): void {
    for (const entry of entries) {
      taken.ids.push(entry.id);
      // A dead letter that was re-queued is for the group that had given up it; for the others it is old.
      const retryOf = entry.fields.get(ENTRY_FIELD.group)?.toString();
      if (retryOf !== undefined && retryOf !== this.#options.reader.group) continue;
      for (const value of entry.fields.values()) taken.bytes += value.length;
      taken.isDoubtful ||= retryOf !== undefined || compareIds(entry.id, this.#comparedTo) <= 0;
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

  async #write(taken: Taken<T>, kept: KeptManifest<Plan> | null): Promise<void> {
    const { work, reader, lingerMs, quietLingerMs } = this.#options;
    const hasEffect = await this.#retryForever(async () => work.prepare(taken.values, kept?.manifest.plan));
    const { batch, applied } = hasEffect ? await this.#writeOutside(taken, kept) : NO_EFFECT;
    this.#enter('committing');
    this.#dueAt = performance.now() + (hasEffect ? lingerMs : quietLingerMs);
    const [first, last] = [taken.ids[0]!, taken.ids.at(-1)!];
    await this.#retryForever(() => reader.ack(last, [...applied.deadLetters, ...taken.deadLetters], applied.writes));
    this.#acknowledged = last;
    this.#untrimmed = true;
    const deadLettered = { refused: applied.deadLetters.length, unreadable: taken.deadLetters.length };
    work.committed({ first, last, values: taken.values, plan: batch?.plan, deadLettered });
  }

  async #writeOutside(
    taken: Taken<T>,
    kept: KeptManifest<Plan> | null,
  ): Promise<{ batch: OpenBatch<T, Plan>; applied: Applied }> {
    const permit = await this.#permit(taken, kept === null);
    try {
      const batch = await this.#plan(taken, kept, permit);
      return { batch, applied: await this.#apply(batch, taken, permit) };
    } finally {
      permit.release();
    }
  }

  /** From here on the batch no longer grows. */
  async #plan(taken: Taken<T>, kept: KeptManifest<Plan> | null, permit: Permit): Promise<OpenBatch<T, Plan>> {
    this.#enter('planning');
    const { work, reader, lease } = this.#options;
    // What came in while the permit was waited for may be a dead letter that was queued again.
    if (taken.isDoubtful) permit.barrier?.leave();
    const barrier = taken.isDoubtful ? undefined : permit.barrier;
    const plan = kept?.manifest.plan ?? (await this.#retryForever(() => work.plan(taken.values, barrier)));
    const [first, last, entries] = [taken.ids[0]!, taken.ids.at(-1)!, taken.ids.length];
    const attempts = (kept?.manifest.attempts ?? 0) + 1;
    const batch = new OpenBatch<T, Plan>({
      ...{ stream: reader.stream, first, last, values: taken.values, plan, barrier },
      startedAt: performance.now() - (kept?.ageMs ?? 0),
      ensureHeld: () => lease.ensureHeld(),
      keepPlan: (next) => this.#retryForever(() => reader.keepManifest({ first, last, entries, attempts, plan: next })),
    });
    if (kept !== null) batch.moveOn('repeated');
    if (taken.isDoubtful) batch.moveOn('untracked');
    await batch.replan(plan);
    return batch;
  }

  /** Waits for a permit to write; a batch that may still grow does so meanwhile, and may get it with others. */
  async #permit(taken: Taken<T>, mayGrow: boolean): Promise<Permit> {
    this.#enter('waiting');
    const permit = this.#options.permits.acquire(() => ({
      rows: taken.rows,
      bytes: taken.bytes,
      isFull: this.#full(taken),
      alone: !mayGrow || taken.isDoubtful,
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

  async #apply(batch: OpenBatch<T, Plan>, taken: Taken<T>, first: Permit): Promise<Applied> {
    let permit = first;
    for (let attempt = 1; ; attempt++) {
      this.#enter('applying');
      try {
        if (performance.now() - batch.startedAt > TOKEN_TRUST_MS) batch.moveOn('untracked');
        const applied = await this.#options.work.apply(batch);
        this.#failingSince = undefined;
        return applied;
      } catch (error) {
        if (error instanceof LeaseLost || error instanceof Stopped) throw error;
        batch.moveOn('repeated');
        this.#failingSince ??= performance.now();
        const { first, last } = batch;
        this.#options.log.warn({ err: error, first, last, attempt }, 'batch.failed');
      } finally {
        // Others continue while this batch waits.
        permit.release();
      }
      await this.#pause(backoffMs(attempt, RETRY));
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
      await this.#pause(backoffMs(attempt, RETRY));
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

/** At its first start a service has many new streams: one line says how many. */
const TOLD_AFTER_MS = 2_000;
let newStreams = 0;

function countNew(log: Log): void {
  newStreams++;
  if (newStreams > 1) return;
  const tell = () => {
    log.info({ streams: newStreams }, 'streams.compared_from_their_start');
    newStreams = 0;
  };
  setTimeout(tell, TOLD_AFTER_MS).unref();
}
