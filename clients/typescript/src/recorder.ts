// Events that are recorded and not asked about: gathered in batches, sent in the background.
// Bounds: EVENTS_MAX and BYTES_MAX wait; what comes on top is dropped and counted. A timer that waits holds no process:
// a program that is about to end calls `flush`.
// Invariant: each event is counted once: sent, failed (refused, or not to be delivered within the deadline) or dropped.
// Events leave in the order in which they came.
import type { Submission } from './api.ts';
import { ApiError } from './errors.ts';

const BATCH_EVENTS_MAX = 100;
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const LINGER_MS = 1_000;
/** So often it is seen that somebody waits for the queue to be empty. */
const ATTEMPT_MS = 2_000;
const EVENTS_MAX = 1_000;
const BYTES_MAX = 4 * 1024 * 1024;

/** Since the client was made. */
export type Counts = { sent: number; failed: number; dropped: number };
/** Resolves with how many of a batch were refused. Rejects where it could not be delivered. */
type Send = (
  events: readonly Submission[],
  how: { timeoutMs: number; idempotencyKey: string; isBackground: boolean },
) => Promise<number>;

type Waiting = { event: Submission; bytes: number };

export class Recorder {
  readonly counts: Counts = { sent: 0, failed: 0, dropped: 0 };
  readonly #send: Send;
  readonly #timeoutMs: number;
  #queue: Waiting[] = [];
  /** Of the queue and of what is in flight. */
  #bytes = 0;
  #events = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> | undefined;
  /** Epoch ms; undefined: nobody waits for the queue to be empty. */
  #flushUntil: number | undefined;

  constructor(send: Send, timeoutMs: number) {
    this.#send = send;
    this.#timeoutMs = timeoutMs;
  }

  /** Never throws; false: it was dropped. */
  add(event: Submission): boolean {
    const bytes = sizeOf(event);
    if (bytes === undefined || this.#events >= EVENTS_MAX || this.#bytes + bytes > BYTES_MAX) {
      this.counts.dropped++;
      return false;
    }
    this.#queue.push({ event, bytes });
    this.#events++;
    this.#bytes += bytes;
    if (this.#queue.length >= BATCH_EVENTS_MAX) this.#begin();
    else this.#later();
    return true;
  }

  /** Resolves when nothing waits and nothing is in flight, at the latest after `timeoutMs`: what is left has failed. */
  async flush(timeoutMs: number): Promise<Counts> {
    this.#flushUntil = Date.now() + timeoutMs;
    // What was begun in the background holds no process, but who waits for it must not end.
    const holding = setInterval(() => undefined, LINGER_MS);
    try {
      while (this.#events > 0) {
        this.#begin();
        await this.#sending;
      }
    } finally {
      clearInterval(holding);
      this.#flushUntil = undefined;
    }
    return { ...this.counts };
  }

  #later(): void {
    if (this.#timer !== undefined || this.#sending !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#begin();
    }, LINGER_MS);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #begin(): void {
    if (this.#sending !== undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending = this.#drain().finally(() => {
      this.#sending = undefined;
      if (this.#queue.length > 0) this.#later();
    });
  }

  async #drain(): Promise<void> {
    do await this.#sendBatch(this.#next());
    while (this.#queue.length >= BATCH_EVENTS_MAX || (this.#flushUntil !== undefined && this.#queue.length > 0));
  }

  #next(): Waiting[] {
    let bytes = 0;
    let count = 0;
    while (count < BATCH_EVENTS_MAX && count < this.#queue.length) {
      bytes += this.#queue[count]!.bytes;
      if (count > 0 && bytes > BATCH_BYTES_MAX) break;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  async #sendBatch(batch: readonly Waiting[]): Promise<void> {
    if (batch.length === 0) return;
    const events = batch.map(({ event }) => event);
    const idempotencyKey = crypto.randomUUID();
    for (;;) {
      const leftMs = this.#flushUntil === undefined ? this.#timeoutMs : this.#flushUntil - Date.now();
      try {
        if (leftMs <= 0) throw new ApiError(0, 'deadline', 'the deadline of flush has passed');
        const isBackground = this.#flushUntil === undefined;
        const timeoutMs = Math.min(leftMs, this.#timeoutMs, ATTEMPT_MS);
        const refused = await this.#send(events, { timeoutMs, idempotencyKey, isBackground });
        this.counts.sent += events.length - refused;
        this.counts.failed += refused;
        break;
      } catch (error) {
        if (!(error instanceof ApiError)) continue; // it is away: the bounds of the queue hold meanwhile
        this.counts.failed += events.length;
        break;
      }
    }
    this.#events -= batch.length;
    this.#bytes -= batch.reduce((sum, { bytes }) => sum + bytes, 0);
  }
}

/** undefined: it has no JSON. */
function sizeOf(event: Submission): number | undefined {
  try {
    return JSON.stringify(event).length;
  } catch {
    return undefined;
  }
}
