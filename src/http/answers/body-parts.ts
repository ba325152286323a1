// An answer whose body comes in parts: exports and streams (between a handler and the transport).
// The handler writes, waits while the client takes no more, and ends. Memory is bounded by what is written before
// `ready` is awaited.
// Before each part it is asked whether the reader would be let in now: a key that is revoked, a session that ended.
// Invariant: no part is handed out to one who would not; while that cannot be asked, none is. A body ends soundly only
// by `end`. `cut` closes the connection in the middle of the body, so that no
// client takes a part of it for the whole; that is what becomes of a handler that throws.
// The client that leaves, and the process that is about to end, are signalled by `signal`, with a reason.
import { setTimeout as sleep } from 'node:timers/promises';
import type { TransportResponse } from '../transport/transport.ts';

/** Why a body must not continue. */
type BodyEnding = 'client_left' | 'draining' | 'too_slow' | 'not_allowed';

/** Rejects while it cannot be said. */
export type PartsReader = { isStillAllowed(): Promise<boolean> };

const ASK_AGAIN_MS = 250;

export class BodyParts {
  readonly #res: TransportResponse;
  readonly #reader: PartsReader | undefined;
  readonly #over = new AbortController();
  readonly #slowMs: number;
  #isGone = false;
  #waiting: (() => void) | undefined;

  /**
   * `slowMs`: a client that takes nothing for so long is cut off, and so is one of whom nothing can be said for so
   * long.
   */
  constructor(res: TransportResponse, { reader, slowMs }: { reader: PartsReader | undefined; slowMs: number }) {
    this.#res = res;
    this.#reader = reader;
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

  /**
   * Writes, and waits until the client has taken it. '' writes nothing, and asks all the same. Throws `signal.reason`
   * where the body must not continue, and what the reader's question rejects with.
   */
  async put(part: string | Uint8Array): Promise<void> {
    this.signal.throwIfAborted();
    await this.#askReader();
    if (part.length === 0 || this.#write(part)) return;
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

  async #askReader(): Promise<void> {
    for (const untilMs = performance.now() + this.#slowMs; ; ) {
      try {
        if (await (this.#reader?.isStillAllowed() ?? true)) break;
        this.abort('not_allowed');
      } catch (error) {
        if (performance.now() > untilMs) throw error;
        await sleep(ASK_AGAIN_MS);
      }
      this.signal.throwIfAborted();
    }
    this.signal.throwIfAborted();
  }

  /** False: the client takes no more for now; what was given is kept. */
  #write(part: string | Uint8Array): boolean {
    let isTaken = true;
    this.#res.cork(() => {
      isTaken = this.#res.write(part);
    });
    return isTaken;
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
