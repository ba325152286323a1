// Whether a service that failed again and again is asked at all (in check-calls.ts, one for each check of a process).
// Half of the last 20 calls of 10 s failed: it is not asked for 5 s, and then by one call, whose end says whether the
// others may go on. Invariant: a service that answers is asked; one that is dead costs one call in 5 s.

const CALLS = 20;
const WITHIN_MS = 10_000;
const OPEN_MS = 5_000;

export class CircuitBreaker {
  readonly #onChange: (isOpen: boolean) => void;
  #ends: { atMs: number; failed: boolean }[] = [];
  /** undefined: it is closed. */
  #openUntilMs: number | undefined;
  #isTrying = false;

  constructor(onChange: (isOpen: boolean) => void) {
    this.#onChange = onChange;
  }

  get isOpen(): boolean {
    return this.#openUntilMs !== undefined;
  }

  /** undefined: it is not to be asked. Else to be called with the end of the call, once. */
  begin(nowMs: number): ((failed: boolean, endMs: number) => void) | undefined {
    if (this.#openUntilMs === undefined) return (failed, endMs) => this.#ended(failed, endMs);
    if (nowMs < this.#openUntilMs || this.#isTrying) return undefined;
    this.#isTrying = true;
    return (failed, endMs) => this.#tried(failed, endMs);
  }

  #ended(failed: boolean, atMs: number): void {
    // What had begun before it opened says nothing new.
    if (this.#openUntilMs !== undefined) return;
    this.#ends = [...this.#ends, { atMs, failed }].slice(-CALLS).filter((end) => end.atMs > atMs - WITHIN_MS);
    const failures = this.#ends.filter((end) => end.failed).length;
    if (this.#ends.length === CALLS && 2 * failures >= CALLS) this.#open(atMs);
  }

  #tried(failed: boolean, atMs: number): void {
    this.#isTrying = false;
    if (failed) {
      this.#openUntilMs = atMs + OPEN_MS;
      return;
    }
    this.#openUntilMs = undefined;
    this.#onChange(false);
  }

  #open(atMs: number): void {
    this.#ends = [];
    this.#openUntilMs = atMs + OPEN_MS;
    this.#onChange(true);
  }
}
