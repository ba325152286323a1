// The end of an attempt to reach a target: its own time is over, or the caller has cancelled it (used by
// everything that connects outwards).
// Invariant: `signal` fires once, and its reason is the word for it; after `end` nothing is left behind, no timer and
// no listener.

export type DeadlineEnding = 'timeout' | 'aborted';

export class Deadline {
  readonly #over = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #outer: AbortSignal;

  constructor(timeoutMs: number, outer: AbortSignal) {
    this.#outer = outer;
    this.#timer = setTimeout(() => this.#over.abort('timeout' satisfies DeadlineEnding), timeoutMs);
    outer.addEventListener('abort', this.#leave, { once: true });
    if (outer.aborted) this.#leave();
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** undefined: it has not come. */
  get ending(): DeadlineEnding | undefined {
    return this.signal.aborted ? this.signal.reason : undefined;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener('abort', this.#leave);
  }

  readonly #leave = (): void => {
    const { reason } = this.#outer;
    const isLate = reason === 'timeout' || (reason instanceof Error && reason.name === 'TimeoutError');
    this.#over.abort((isLate ? 'timeout' : 'aborted') satisfies DeadlineEnding);
  };
}
