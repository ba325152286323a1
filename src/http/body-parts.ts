// An answer whose body comes in parts: exports and streams (between a handler and the transport).
// The handler writes, waits while the client takes no more, and ends. Memory is bounded by what is written before
// `ready` is awaited.
// Invariant: a body ends soundly only by `end`. `cut` closes the connection in the middle of the body, so that no
// client takes a part of it for the whole; that is what becomes of a handler that throws.
// The client that leaves, and the process that is about to end, are signalled by `signal`, with a reason.
import type { TransportResponse } from './transport/transport.ts';

/** Why a body must not continue. */
type BodyEnding = 'client_left' | 'draining' | 'too_slow';

export class BodyParts {
  readonly #res: TransportResponse;
  readonly #over = new AbortController();
  readonly #slowMs: number;
  #isGone = false;
  #waiting: (() => void) | undefined;

  /** `slowMs`: a client that takes nothing for so long is cut off. */
  constructor(res: TransportResponse, slowMs: number) {
    this.#res = res;
    this.#slowMs = slowMs;
    res.onWritable(() => {
      this.#waiting?.();
      return true;
    });
  }

  /** Its reason is an Ending. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** False: the client takes no more for now; what was given is kept, and `ready` says when to continue. */
  write(part: string | Uint8Array): boolean {
    if (this.#isGone) return true;
    let isTaken = true;
    this.#res.cork(() => {
      isTaken = this.#res.write(part);
    });
    return isTaken;
  }

  /** Writes, and waits until the client has taken it. Throws `signal.reason` where the body must not continue. */
  async put(part: string | Uint8Array): Promise<void> {
    this.signal.throwIfAborted();
    if (this.write(part)) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.abort('too_slow'), this.#slowMs);
      this.#waiting = () => {
        clearTimeout(timer);
        this.#waiting = undefined;
        resolve();
      };
    });
    this.signal.throwIfAborted();
  }

  end(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#res.cork(() => this.#res.end(''));
  }

  cut(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    try {
      this.#res.close();
    } catch {
      // It was closed already.
    }
  }

  /** The client has left: the response is not to be touched any more. */
  left(): void {
    this.#isGone = true;
    this.abort('client_left');
  }

  abort(why: BodyEnding): void {
    if (this.signal.aborted) return;
    this.#over.abort(why);
    this.#waiting?.();
  }
}
