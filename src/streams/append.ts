// Appends events to their partition's stream (after the encoding, before the reply).
// Everything that comes in one tick for one partition goes as one entry: 3-4 times the events per second of an entry
// each. At most APPENDS_IN_FLIGHT_MAX entries of a partition are on their way; what comes meanwhile makes the next
// entry larger, so entries grow by themselves under load and latency stays low without it. What goes to several
// partitions at once leaves in one write, and a little that comes while another write is on its way waits for that
// one's answer: each write wakes Redis, and each answer wakes us, which costs more than a small entry does.
// Order holds per agent, because the partition is a hash of the agent; nothing is promised across agents.
// An append resolves once Redis holds the entry, and is never sent twice: the writer's client neither queues nor
// repeats. Agents' last signs of life follow within LAST_SEEN_MS.
// If Redis refused, nothing was recorded; if its answer was lost, the outcome is unknown (`recorded: 'unknown'`).

import { BufferPool } from '../common/buffer-pool.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import {
  APPEND_BYTES_AT_ONCE,
  APPEND_WAIT_MS,
  APPENDS_IN_FLIGHT_MAX,
  ENTRY_BYTES_MAX,
  LAST_SEEN_MS,
  UNACKED_BYTES_MAX,
} from '../common/limits.ts';
import { type Commands, isDiskFull, sendTogether, toUnavailable, troubleOf, unknownSentence } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { EntryBuffer } from './entry-buffer.ts';
import type { PackedEntry } from './packing.ts';

/**
 * Events of one request, all of one agent: summaries as JSON texts, rows end to end in the same order. A text may hold
 * the summaries of several events, separated by commas; then `events` says how many there are. Bytes are copied at
 * once.
 */
export type Append = {
  account: string;
  agent: string;
  summaries: readonly (string | Buffer)[];
  rows: Buffer;
  events?: number;
};

/** An entry that was packed elsewhere: it goes as it is, alone. */
export type PackedAppend = { account: string; agent: string; events: number; entry: PackedEntry };

/**
 * Who waits for an append. One of the two is called, once; `refused` perhaps before `appendFor` returns. Neither may
 * throw, for others wait behind it.
 */
export type AppendCaller = { appended(): void; refused(error: ServiceError): void };
/** The events that go to Redis as one entry, and their callers. */
type Entry = { buffer: EntryBuffer; callers: AppendCaller[]; events: number; lastEvents: number };
type Answered = { partition: Partition; entry: Entry; sentMs: number; error: ServiceError | undefined };

class Partition {
  readonly number: number;
  /** In order; the last one is being filled. */
  waiting: Entry[] = [];
  inFlight = 0;
  /**
   * The size of the last entry that was sent: the next one will probably hold as much, so that it need not grow to it
   * step by step.
   */
  lastBytes = 0;
  /** Agent -> its account: agents with events since the last report to Redis. */
  seen = new Map<string, string>();
  /** Monotonic ms of the last report to Redis. */
  seenWrittenMs = Number.NEGATIVE_INFINITY;
  reporting: NodeJS.Timeout | undefined;

  constructor(number: number) {
    this.number = number;
  }
}

/** A usual summary has this size. */
const SUMMARY_BYTES = 130;

/** The result of the append of one entry. */
export type Appended = { events: number; seconds: number; ok: boolean };

export class Appender {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #partitions: Partition[];
  readonly #bytesMax: number;
  readonly #buffers: BufferPool;
  #bytes = 0;
  /** The bytes of those that Redis has not answered yet; and how many entries they are. */
  #bytesInFlight = 0;
  #inFlight = 0;
  #callers = 0;
  #scheduled = false;
  #late: NodeJS.Timeout | undefined;
  /** The answered of this tick. */
  #answered: Answered[] = [];
  #closed = false;
  #onEmpty: (() => void) | undefined;
  readonly #onAppended: (appended: Appended) => void;

  /** `redis` must be a writer's client. `bytesMax`: of all appends that wait for Redis. `onAppended`: for metrics. */
  constructor(options: {
    redis: Commands;
    keys: Keys;
    bytesMax?: number;
    onAppended?: (appended: Appended) => void;
    buffers?: BufferPool;
  }) {
    this.#buffers = options.buffers ?? new BufferPool();
    this.#onAppended = options.onAppended ?? (() => undefined);
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#bytesMax = options.bytesMax ?? UNACKED_BYTES_MAX;
    this.#partitions = Array.from({ length: options.keys.partitions }, (_, number) => new Partition(number));
  }

  /** Rejects with ServiceError `unavailable`, and with nothing else. */
  append(append: Append): Promise<void> {
    return new Promise((appended, refused) => this.appendFor(append, { appended, refused }));
  }

  /** The same without a promise, which each event that comes alone would pay for. */
  appendFor(append: Append, caller: AppendCaller): void {
    if (append.summaries.length === 0) {
      caller.appended();
      return;
    }
    const events = append.events ?? append.summaries.length;
    const bytes = append.rows.length + SUMMARY_BYTES * events;
    const partition = this.#admit(append, bytes, caller);
    if (partition === undefined) return;
    const entry = this.#entryFor(partition, bytes);
    const before = entry.buffer.length;
    entry.buffer.add(append.rows, append.summaries);
    entry.events += events;
    entry.lastEvents = events;
    this.#added(entry, entry.buffer.length - before, caller);
  }

  /**
   * Takes an append back that nothing has followed and that Redis has not been sent: its caller is not called. False:
   * it is too late. What comes of a request and is noticed in the same turn of the loop, as that its connection was
   * closed, comes in time.
   */
  takeBack({ account, agent }: { account: string; agent: string }, caller: AppendCaller): boolean {
    const partition = this.#partitions[this.#keys.partitionOf(account, agent)]!;
    const entry = partition.waiting.at(-1);
    const isLast = entry?.buffer.isOpen === true && entry.lastEvents > 0 && entry.callers.at(-1) === caller;
    if (entry === undefined || !isLast) return false;
    const before = entry.buffer.length;
    entry.buffer.takeBack();
    this.#bytes += entry.buffer.length - before;
    entry.callers.pop();
    this.#callers--;
    entry.events -= entry.lastEvents;
    entry.lastEvents = 0;
    if (entry.callers.length === 0) {
      partition.waiting.pop();
      entry.buffer.release();
    }
    return true;
  }

  /** Rejects with ServiceError `unavailable`, and with nothing else. */
  appendPacked(append: PackedAppend): Promise<void> {
    const { entry: packed, events } = append;
    return new Promise((appended, refused) => {
      const caller = { appended, refused };
      const partition = this.#admit(append, packed.rows.length + packed.summaries.length, caller);
      if (partition === undefined) return;
      const buffer = EntryBuffer.ofPacked(this.#buffers, this.#keys.events(partition.number), packed);
      const entry = { buffer, callers: [], events, lastEvents: events };
      partition.waiting.push(entry);
      this.#added(entry, buffer.length, caller);
    });
  }

  /** undefined: there is no room, and the caller has that answer. */
  #admit(
    { account, agent }: { account: string; agent: string },
    bytes: number,
    caller: AppendCaller,
  ): Partition | undefined {
    // A lone append always has room, however large: admission bounds it.
    const isFull = this.#bytes + bytes > this.#bytesMax && this.#bytes > 0;
    if (this.#closed || isFull) {
      caller.refused(notRecorded(this.#closed ? 'The process is stopping' : 'Too much is waiting to be recorded'));
      return undefined;
    }
    const partition = this.#partitions[this.#keys.partitionOf(account, agent)]!;
    partition.seen.set(agent, account);
    return partition;
  }

  #added(entry: Entry, bytes: number, caller: AppendCaller): void {
    this.#bytes += bytes;
    this.#callers++;
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#flushSoon);
    }
    entry.callers.push(caller);
  }

  /** The partition's last entry if there is room for so many bytes, else a new one. */
  #entryFor(partition: Partition, bytes: number): Entry {
    const last = partition.waiting.at(-1);
    if (last?.buffer.isOpen && last.buffer.length + bytes <= ENTRY_BYTES_MAX) return last;
    const buffer = new EntryBuffer(
      this.#buffers,
      this.#keys.events(partition.number),
      Math.max(bytes, partition.lastBytes),
    );
    const entry = { buffer, callers: [], events: 0, lastEvents: 0 };
    partition.waiting.push(entry);
    return entry;
  }

  /** Bytes that wait for Redis. */
  get unackedBytes(): number {
    return this.#bytes;
  }

  /** Refuses what comes from now on; resolves when everything before has had its answer. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#callers > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
    }
    for (const partition of this.#partitions) {
      clearTimeout(partition.reporting);
      partition.reporting = undefined;
      partition.seenWrittenMs = Number.NEGATIVE_INFINITY;
      this.#reportSeen(partition, performance.now());
    }
  }

  /** A little waits for the answer that is due anyway, but not for long: that may be a stuck node's of a Cluster. */
  readonly #flushSoon = (): void => {
    this.#scheduled = false;
    const waits = this.#inFlight > 0 && this.#bytes - this.#bytesInFlight < APPEND_BYTES_AT_ONCE;
    if (!waits) this.#flushAll();
    else this.#late ??= setTimeout(this.#flushAll, APPEND_WAIT_MS);
  };

  readonly #flushAll = (): void => {
    clearTimeout(this.#late);
    this.#late = undefined;
    sendTogether(this.#redis, () => {
      for (const partition of this.#partitions) {
        if (partition.waiting.length > 0) this.#flush(partition);
      }
    });
  };

  #flush(partition: Partition): void {
    while (partition.waiting.length > 0 && partition.inFlight < APPENDS_IN_FLIGHT_MAX) {
      const entry = partition.waiting.shift()!;
      partition.inFlight++;
      this.#inFlight++;
      this.#bytesInFlight += entry.buffer.length;
      partition.lastBytes = Math.min(entry.buffer.length, ENTRY_BYTES_MAX);
      const sentMs = performance.now();
      const answered = (error: ServiceError | undefined) => this.#note({ partition, entry, sentMs, error });
      (this.#redis.sendCommand(entry.buffer.command()) as Promise<unknown>).then(
        () => answered(undefined),
        (error: unknown) => answered(toServiceError(error)),
      );
      this.#reportSeen(partition, sentMs);
    }
  }

  /**
   * Worth nothing by itself: if it fails the events stand, and the next ones say it again. So it need not go with each
   * entry.
   */
  #reportSeen(partition: Partition, nowMs: number): void {
    if (partition.reporting !== undefined) return;
    const early = partition.seenWrittenMs + LAST_SEEN_MS - nowMs;
    if (early > 0) {
      partition.reporting = setTimeout(() => {
        partition.reporting = undefined;
        this.#reportSeen(partition, performance.now());
      }, early).unref();
      return;
    }
    if (partition.seen.size === 0) return;
    const now = Date.now();
    const seen = new Map([...partition.seen].map(([agent, account]) => [agent, `${now}/${account}`]));
    this.#redis.hset(this.#keys.lastSeen(partition.number), seen).catch(() => undefined);
    partition.seen = new Map();
    partition.seenWrittenMs = nowMs;
  }

  /**
   * Answers that Redis sent together are dealt with together: a microtask comes after those of all answers that were
   * read.
   */
  #note(answered: Answered): void {
    if (this.#answered.push(answered) === 1) queueMicrotask(this.#afterAnswers);
  }

  readonly #afterAnswers = (): void => {
    const answered = this.#answered;
    const answeredMs = performance.now();
    this.#answered = [];
    for (const { partition, entry, error } of answered) {
      partition.inFlight--;
      this.#inFlight--;
      this.#bytesInFlight -= entry.buffer.length;
      this.#bytes -= entry.buffer.length;
      this.#callers -= entry.callers.length;
      if (error === undefined) entry.buffer.release();
    }
    // Redis first: it works while the callers are answered.
    if (this.#bytes > this.#bytesInFlight) this.#flushAll();
    for (const { entry, sentMs, error } of answered) {
      const { callers, events } = entry;
      if (error === undefined) for (const caller of callers) caller.appended();
      else for (const caller of callers) caller.refused(error);
      this.#onAppended({ events, seconds: (answeredMs - sentMs) / 1000, ok: error === undefined });
    }
    if (this.#callers === 0) this.#onEmpty?.();
  };
}

export function toServiceError(cause: unknown): ServiceError {
  const { sent, message: internal } = toUnavailable(cause);
  if (!sent) return notRecorded(isDiskFull(cause) ? troubleOf(cause) : 'Redis refused', cause);
  const options = { recorded: 'unknown', retryAfterSeconds: 1, internal, cause } as const;
  return new ServiceError('unavailable', unknownSentence(cause), options);
}
