// Reads a request's body into one buffer (after scope and request limit; the bytes may come earlier and wait).
// Reading begins inside the handler, since uWS drops data without a listener; the verdict is taken when its turn comes,
// so that a caller without a key hears 401 and not 413.
// The bytes are copied once, from uWS's memory into a buffer that goes back when the handler has settled (`release`),
// or when the exchange ends before a handler got them.
// Invariant: no more than `bytesMax` are held for a request, no more than BODY_BYTES_HELD_MAX by the process, and no
// account's large bodies take the room of the others'. A body that is too large is refused at its Content-Length or at
// the chunk that crosses the bound; the rest is dropped as it comes. A client that leaves, stalls or drips is ended by
// uWS (10 s, 16 KB/s); what it had sent is dropped then.

import { BufferPool, sharedMemory } from '../../common/buffer-pool.ts';
import { notRecorded, ServiceError } from '../../common/errors.ts';
import { BODY_BYTES_HELD_MAX } from '../../common/limits.ts';
import type { BodySink, Exchange } from '../exchange.ts';

/**
 * Bytes of bodies that this process holds, from their arrival to the answer. The first half is for any account; in the
 * other half an account may hold large bodies up to an even share of a half among those that hold some, so one that
 * lets many of them trickle in leaves room for the others. Small bodies are counted in the sum alone.
 */
export class BodyBudget {
  readonly #bytesMax: number;
  readonly #large = new Map<string, number>();
  #held = 0;

  constructor(bytesMax = BODY_BYTES_HELD_MAX) {
    this.#bytesMax = bytesMax;
  }

  get held(): number {
    return this.#held;
  }

  /** `account`: of a large body; '' where it is not known yet. */
  take(bytes: number, account?: string): boolean {
    const held = this.#held + bytes;
    if (held > this.#bytesMax || (account !== undefined && !this.#takeShare(bytes, account, held))) return false;
    this.#held = held;
    return true;
  }

  /** As they were taken. */
  give(bytes: number, account?: string): void {
    this.#held -= bytes;
    if (account === undefined) return;
    const left = (this.#large.get(account) ?? 0) - bytes;
    if (left > 0) this.#large.set(account, left);
    else this.#large.delete(account);
  }

  #takeShare(bytes: number, account: string, held: number): boolean {
    const own = this.#large.get(account) ?? 0;
    const accounts = this.#large.size + (this.#large.has(account) ? 0 : 1);
    const half = this.#bytesMax / 2;
    if (held > half && own + bytes > half / accounts) return false;
    this.#large.set(account, own + bytes);
    return true;
  }
}

type BodyOptions = {
  /** As the head says. */
  contentLength: number;
  bytesMax: number;
  budget: BodyBudget;
  buffers: BufferPool;
};

/**
 * Taken ahead of what has arrived, at most: a Content-Length is a claim, and memory is for bytes that are here. It
 * grows.
 */
const AHEAD_BYTES_MAX = 64 * 1024;
/**
 * From here on a body is judged in the judging thread in any case, and lies in memory that it sees: copying 8 MB takes
 * up to 50 ms.
 */
export const SHARED_BYTES_MIN = 256 * 1024;
/** Unused memory of eight bodies. */
const SHARED_KEPT_BYTES_MAX = 64 * 1024 * 1024;
export const sharedBuffers = new BufferPool(SHARED_KEPT_BYTES_MAX, sharedMemory);
/** From here on a body counts for its account. */
const LARGE_BYTES = 64 * 1024;

/**
 * Begins to read. What does not fit is refused with `payload_too_large` or `unavailable`. No callback runs when the
 * client leaves.
 */
export class BodyReader implements BodySink {
  readonly #exchange: Exchange;
  readonly #options: BodyOptions;
  readonly #buffers: BufferPool;
  #buffer: Buffer | undefined;
  #bytes = 0;
  /** For whom they are held; undefined: a small body, or none of it is here. */
  #account: string | undefined;
  #body: Buffer | undefined;
  /** Has a handler got the whole body? It may read it even when the exchange is over. */
  #isRead = false;
  #refusal: ServiceError | undefined;
  #onWhole: ((body: Buffer) => void) | undefined;
  #onArrived: (() => void) | undefined;

  constructor(exchange: Exchange, options: BodyOptions) {
    this.#exchange = exchange;
    this.#options = options;
    this.#buffers = options.contentLength > SHARED_BYTES_MIN ? sharedBuffers : options.buffers;
    if (options.contentLength > options.bytesMax) {
      this.#refuse(tooLarge(options.bytesMax));
      return;
    }
    exchange.readInto(this);
  }

  /** Does it not fit, as far as is known now? */
  get refusal(): ServiceError | undefined {
    return this.#refusal;
  }

  /**
   * Hands on the whole body, at once if it is there. What does not fit is thrown, or later answered by the exchange.
   */
  whole(onWhole: (body: Buffer) => void): void {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (this.#body !== undefined) onWhole(this.#read(this.#body));
    else this.#onWhole = onWhole;
  }

  /** Calls back, in a tick of its own, once the body is here or it is clear that it does not fit. */
  whenArrived(onArrived: () => void): void {
    this.#onArrived = () => setImmediate(onArrived);
    if (this.#refusal !== undefined || this.#body !== undefined) this.#onArrived();
  }

  #read(body: Buffer): Buffer {
    this.#isRead = true;
    return body;
  }

  /** The body is no longer read. The handler that got it calls this once. */
  release(): void {
    if (this.#isRead) this.#releaseBuffer();
  }

  /** The same before the exchange is over: another body has taken its place. */
  replaced(): void {
    this.#options.budget.give(this.#bytes, this.#account);
    this.#bytes = 0;
    this.#releaseBuffer();
  }

  take(chunk: Uint8Array, isLast: boolean): void {
    if (this.#refusal !== undefined || this.#body !== undefined) return;
    const { bytesMax, budget, contentLength } = this.#options;
    if (contentLength > LARGE_BYTES) this.#countFor(this.#exchange.account ?? '');
    if (this.#refusal !== undefined) return;
    if (this.#bytes + chunk.length > bytesMax) this.#refuse(tooLarge(bytesMax));
    else if (!budget.take(chunk.length, this.#account)) this.#refuse(noRoom());
    else this.#keep(chunk, isLast);
  }

  /** Who sends it is known from the moment on in which it is let in. */
  #countFor(account: string): void {
    if (account === this.#account) return;
    const { budget } = this.#options;
    budget.give(this.#bytes, this.#account);
    this.#account = account;
    if (!budget.take(this.#bytes, account)) {
      this.#bytes = 0;
      this.#refuse(noRoom());
    }
  }

  #keep(chunk: Uint8Array, isLast: boolean): void {
    const { contentLength } = this.#options;
    const end = this.#bytes + chunk.length;
    this.#buffer ??= this.#buffers.take(Math.max(end, Math.min(contentLength, AHEAD_BYTES_MAX)));
    if (end > this.#buffer.length) this.#buffer = this.#buffers.grow(this.#buffer, this.#bytes, end);
    this.#buffer.set(chunk, this.#bytes);
    this.#bytes = end;
    if (!isLast) return;
    this.#body = this.#buffer.subarray(0, end);
    this.#onWhole?.(this.#read(this.#body));
    this.#onArrived?.();
  }

  /** The rest of the body may be any size: the answer asks to close the connection. */
  #refuse(error: ServiceError): void {
    this.#refusal = error;
    this.#exchange.closing = true;
    this.end();
    if (this.#onWhole !== undefined) this.#exchange.fail(error);
    this.#onArrived?.();
  }

  /** A handler that got the whole body may still read it; before that it is free. */
  end(): void {
    this.#options.budget.give(this.#bytes, this.#account);
    this.#bytes = 0;
    if (this.#isRead) return;
    this.#releaseBuffer();
    this.#body = undefined;
  }

  #releaseBuffer(): void {
    if (this.#buffer !== undefined) this.#buffers.release(this.#buffer);
    this.#buffer = undefined;
  }
}

function tooLarge(bytesMax: number): ServiceError {
  return new ServiceError('payload_too_large', `The body is larger than ${bytesMax} bytes.`, { recorded: false });
}

export function noRoom(): ServiceError {
  return notRecorded('Too many bytes of requests are being read at once');
}
