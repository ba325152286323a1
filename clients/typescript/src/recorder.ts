// Events that are recorded and not asked about: gathered in batches, sent in the background.
// Bounds: EVENTS_MAX and BYTES_MAX wait; what comes on top is dropped and counted. A timer that waits holds no process:
// a program that is about to end calls `flush`.
// Invariants: an event is the text that it was when it came. Each is counted once: sent, failed (refused, or not to be
// delivered within the deadline) or dropped. Events leave in the order in which they came.
// Failure: a batch that is refused for its size or its form is halved until the one that is wrong is alone; where the
// service is away it is sent again.
import { ApiError, UnavailableError } from './errors.ts';
import { pause } from './transport.ts';

const BATCH_EVENTS_MAX = 100;
/** Half of what a service takes that is not set otherwise. */
const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const LINGER_MS = 1_000;
/** One attempt takes so long at most: a program that ends while one is under way waits no longer. */
const ATTEMPT_MS = 2_000;
const RETRY_MS = 100;
const RETRY_MS_MAX = 2_000;
/** A service that wants more is asked so often nevertheless: nothing else says that it is back. */
const RETRY_AFTER_MS_MAX = 60_000;
const EVENTS_MAX = 1_000;
/** Four batches, or a hundred events of 160 KB. */
const BYTES_MAX = 16 * 1024 * 1024;

/** Since the client was made. */
export type Counts = { sent: number; failed: number; dropped: number };
type How = { timeoutMs: number; idempotencyKey: string; isBackground: boolean; signal: AbortSignal };
/** Resolves with how many of a batch were refused. Rejects where it could not be delivered. */
type Send = (texts: readonly string[], how: How) => Promise<number>;

type Waiting = { text: string; bytes: number };

export class Recorder {
  readonly counts: Counts = { sent: 0, failed: 0, dropped: 0 };
  readonly #send: Send;
  readonly #queue: Waiting[] = [];
  #inFlight: readonly Waiting[] = [];
  /** The bytes of the queue and of what is in flight. */
  #bytes = 0;
  /** Events that came, and of them those that are sent or have failed: the first ones, since order is kept. */
  #added = 0;
  #settled = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSending = false;
  /** Ends what is in flight when it has been counted as failed. */
  #given = new AbortController();
  /** Ends a pause before the next attempt when a flush begins. */
  #wake = new AbortController();
  /** Those who wait: up to which event, until when. */
  readonly #flushes = new Set<{ target: number; until: number; done: () => void }>();

  constructor(send: Send) {
    this.#send = send;
  }

  /** undefined: there is no text of it. false: it was dropped. */
  add(text: string | undefined): boolean {
    const bytes = text === undefined ? 0 : utf8Bytes(text);
    if (text === undefined || this.#added - this.#settled >= EVENTS_MAX || this.#bytes + bytes > BYTES_MAX) {
      this.counts.dropped++;
      return false;
    }
    this.#queue.push({ text, bytes });
    this.#added++;
    this.#bytes += bytes;
    if (this.#queue.length >= BATCH_EVENTS_MAX || this.#flushes.size > 0) this.#begin();
    else this.#later();
    return true;
  }

  /** Resolves when all that came before is sent, or has failed after `timeoutMs`. */
  async flush(timeoutMs: number): Promise<Counts> {
    if (this.#settled < this.#added) {
      const over = new AbortController();
      const flush = { target: this.#added, until: performance.now() + timeoutMs, done: () => over.abort() };
      this.#flushes.add(flush);
      this.#wake.abort();
      this.#begin();
      await pause(timeoutMs, false, over.signal);
      this.#flushes.delete(flush);
      const isLast = [...this.#flushes].every(({ until }) => until <= flush.until);
      if (isLast) this.#fail(flush.target - this.#settled);
    }
    return { ...this.counts };
  }

  #later(): void {
    if (this.#timer !== undefined || this.#isSending) return;
    this.#timer = setTimeout(() => this.#begin(), LINGER_MS);
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#isSending) void this.#drain();
  }

  async #drain(): Promise<void> {
    this.#isSending = true;
    do {
      this.#inFlight = this.#next();
      await this.#deliver(this.#inFlight, this.#given.signal);
    } while (this.#queue.length >= BATCH_EVENTS_MAX || (this.#flushes.size > 0 && this.#queue.length > 0));
    this.#isSending = false;
    if (this.#queue.length > 0) this.#later();
  }

  #next(): Waiting[] {
    let bytes = 0;
    let count = 0;
    while (count < BATCH_EVENTS_MAX && count < this.#queue.length) {
      bytes += this.#queue[count]!.bytes + 1;
      if (count > 0 && bytes > BATCH_BYTES_MAX) break;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  async #deliver(batch: readonly Waiting[], given: AbortSignal): Promise<void> {
    const texts = batch.map(({ text }) => text);
    const idempotencyKey = crypto.randomUUID();
    for (let retryMs = RETRY_MS; !given.aborted && batch.length > 0; retryMs = Math.min(RETRY_MS_MAX, 2 * retryMs)) {
      const isBackground = this.#flushes.size === 0;
      try {
        const refused = await this.#send(texts, { timeoutMs: ATTEMPT_MS, idempotencyKey, isBackground, signal: given });
        if (!given.aborted) this.#settle(batch, refused);
        return;
      } catch (error) {
        if (error instanceof UnavailableError) {
          // The bounds of the queue hold meanwhile.
          this.#wake = new AbortController();
          const waitMs = isBackground ? Math.max(retryMs, Math.min(error.retryAfterMs, RETRY_AFTER_MS_MAX)) : RETRY_MS;
          await pause(waitMs, isBackground, given, this.#wake.signal);
        } else if (batch.length > 1 && error instanceof ApiError && (error.status === 413 || error.status === 400)) {
          const half = batch.length >> 1;
          await this.#deliver(batch.slice(0, half), given);
          return this.#deliver(batch.slice(half), given);
        } else if (!given.aborted) return this.#settle(batch, batch.length);
      }
    }
  }

  /** The first `count` of those that are not settled. */
  #fail(count: number): void {
    if (count <= 0) return;
    const begun = this.#inFlight;
    this.#given.abort();
    this.#given = new AbortController();
    if (begun.length > 0) this.#settle(begun, begun.length);
    const left = this.#queue.splice(0, count - begun.length);
    this.#settle(left, left.length);
  }

  #settle(batch: readonly Waiting[], failed: number): void {
    this.counts.failed += failed;
    this.counts.sent += batch.length - failed;
    this.#settled += batch.length;
    this.#bytes -= batch.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#inFlight = this.#inFlight.slice(batch.length);
    for (const { target, done } of this.#flushes) if (target <= this.#settled) done();
  }
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}
