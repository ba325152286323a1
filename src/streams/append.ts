// Appends events to their partition's stream (step 11 of the path: after the encoding, before the reply).
// Everything that comes in one tick for one partition goes as one entry: 3-4 times the events per second of an entry each.
// At most APPENDS_IN_FLIGHT_MAX entries of a partition are on their way; what comes meanwhile makes the next entry larger,
// so entries grow by themselves under load and latency stays low without it.
// Order holds per agent, because the partition is a hash of the agent; nothing is promised across agents.
// An append resolves once Redis holds the entry, and is never sent twice: the writer's client neither queues nor repeats.
// If Redis refused, nothing was recorded; if its answer was lost, nobody knows (`recorded: 'unknown'`).
import { ENTRY_FIELD, ENTRY_VERSION } from '../../schemas/entry.ts';
import { ServiceError } from '../errors.ts';
import { APPENDS_IN_FLIGHT_MAX, ENTRY_BYTES_MAX, UNACKED_BYTES_MAX } from '../limits.ts';
import { type Commands, toUnavailable } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';

/**
 * Events of one request, all of one agent: digests as JSON texts, rows end to end in the same order. A text may hold the
 * digests of several events, separated by commas; then `events` says how many there are.
 */
export type Append = {
  account: string;
  agent: string;
  digests: readonly (string | Buffer)[];
  rows: Buffer;
  events?: number;
};

type Caller = { append: Append; bytes: number; resolve: () => void; reject: (error: ServiceError) => void };

class Partition {
  readonly number: number;
  waiting: Caller[] = [];
  inFlight = 0;

  constructor(number: number) {
    this.number = number;
  }
}

const VERSION = String(ENTRY_VERSION);
/** Of a usual digest; what waits for Redis is bounded by it and the rows. */
const DIGEST_BYTES = 200;
const [OPEN, COMMA, CLOSE] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')];

/** What became of one entry. */
export type Appended = { events: number; seconds: number; ok: boolean };

export class Appender {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #partitions: Partition[];
  readonly #bytesMax: number;
  #bytes = 0;
  #callers = 0;
  #scheduled = false;
  #closed = false;
  #onEmpty: (() => void) | undefined;
  readonly #onAppended: (appended: Appended) => void;

  /** `redis` must be a writer's client. `bytesMax`: of all appends that wait for Redis. `onAppended`: for metrics. */
  constructor(options: {
    redis: Commands;
    keys: Keys;
    bytesMax?: number;
    onAppended?: (appended: Appended) => void;
  }) {
    this.#onAppended = options.onAppended ?? (() => undefined);
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#bytesMax = options.bytesMax ?? UNACKED_BYTES_MAX;
    this.#partitions = Array.from({ length: options.keys.partitions }, (_, number) => new Partition(number));
  }

  /** Rejects with ServiceError `unavailable`, and with nothing else. */
  append(append: Append): Promise<void> {
    if (append.digests.length === 0) return Promise.resolve();
    const bytes = append.rows.length + DIGEST_BYTES * countOf(append);
    if (this.#closed) return Promise.reject(refused('The process is stopping; nothing was recorded.'));
    // A lone append always has room, however large: the door bounds it.
    if (this.#bytes + bytes > this.#bytesMax && this.#bytes > 0)
      return Promise.reject(refused('Too much is waiting to be recorded; nothing was recorded.'));
    this.#bytes += bytes;
    this.#callers++;
    return new Promise((resolve, reject) => {
      const partition = this.#partitions[this.#keys.partitionOf(append.account, append.agent)]!;
      partition.waiting.push({ append, bytes, resolve, reject });
      if (!this.#scheduled) {
        this.#scheduled = true;
        setImmediate(this.#flushAll);
      }
    });
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
  }

  readonly #flushAll = (): void => {
    this.#scheduled = false;
    for (const partition of this.#partitions) {
      if (partition.waiting.length > 0) this.#flush(partition);
    }
  };

  #flush(partition: Partition): void {
    while (partition.waiting.length > 0 && partition.inFlight < APPENDS_IN_FLIGHT_MAX) {
      const callers = takeEntry(partition);
      partition.inFlight++;
      const sentMs = performance.now();
      const settled = (error: ServiceError | undefined) => {
        this.#done(partition, callers, error);
        const events = callers.reduce((sum, { append }) => sum + countOf(append), 0);
        this.#onAppended({ events, seconds: (performance.now() - sentMs) / 1000, ok: error === undefined });
      };
      this.#send(partition.number, callers).then(
        () => settled(undefined),
        (error: unknown) => settled(toServiceError(error)),
      );
    }
  }

  /** The entry and its agents' last sign of life, in one write: both keys share the partition's tag. */
  #send(partition: number, callers: readonly Caller[]): Promise<unknown> {
    const lastSeen = new Map<string, string>();
    const now = Date.now();
    for (const { append } of callers) lastSeen.set(append.agent, `${now}/${append.account}`);
    const digests = joined(callers.flatMap(({ append }) => append.digests));
    const rows =
      callers.length === 1 ? callers[0]!.append.rows : Buffer.concat(callers.map(({ append }) => append.rows));
    const sent = this.#redis.xadd(
      this.#keys.events(partition),
      '*',
      ENTRY_FIELD.version,
      VERSION,
      ENTRY_FIELD.digests,
      digests,
      ENTRY_FIELD.rows,
      rows,
    );
    // Worth nothing by itself: if it fails the events stand, and the next ones say it again.
    this.#redis.hset(this.#keys.lastSeen(partition), lastSeen).catch(() => undefined);
    return sent;
  }

  #done(partition: Partition, callers: readonly Caller[], error: ServiceError | undefined): void {
    partition.inFlight--;
    for (const caller of callers) {
      this.#bytes -= caller.bytes;
      if (error === undefined) caller.resolve();
      else caller.reject(error);
    }
    this.#callers -= callers.length;
    if (partition.waiting.length > 0) this.#flush(partition);
    if (this.#callers === 0) this.#onEmpty?.();
  }
}

function countOf({ digests, events }: Append): number {
  return events ?? digests.length;
}

/** A JSON array of all digests. Bytes stay bytes: they are the larger part. */
function joined(digests: readonly (string | Buffer)[]): Buffer {
  const parts: Buffer[] = [];
  for (const digest of digests) {
    parts.push(parts.length === 0 ? OPEN : COMMA, typeof digest === 'string' ? Buffer.from(digest) : digest);
  }
  return Buffer.concat([...parts, CLOSE]);
}

/** As many waiting callers as one entry holds, at least one. */
function takeEntry(partition: Partition): Caller[] {
  const { waiting } = partition;
  let count = 1;
  let bytes = waiting[0]!.bytes;
  while (count < waiting.length && bytes + waiting[count]!.bytes <= ENTRY_BYTES_MAX) bytes += waiting[count++]!.bytes;
  if (count === waiting.length) partition.waiting = [];
  else return waiting.splice(0, count);
  return waiting;
}

function refused(message: string): ServiceError {
  return new ServiceError('unavailable', message, { recorded: false, retryAfterSeconds: 1 });
}

export function toServiceError(cause: unknown): ServiceError {
  const { sent, message } = toUnavailable(cause);
  return sent
    ? new ServiceError('unavailable', 'Redis did not answer; whether anything was recorded is unknown.', {
        recorded: 'unknown',
        retryAfterSeconds: 1,
        internal: message,
        cause,
      })
    : new ServiceError('unavailable', 'Redis refused; nothing was recorded.', {
        recorded: false,
        retryAfterSeconds: 1,
        internal: message,
        cause,
      });
}
