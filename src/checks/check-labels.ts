// How metrics name checks (in a front, beside check-calls.ts). Invariant: at most so many have series of their own; the
// calls of all others are counted under `other`, so that nothing is left out and nothing grows without bound.

export class CheckLabels {
  readonly #max: number;
  readonly #known = new Set<string>();
  readonly #open = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  of(id: string): string {
    if (this.#known.has(id)) return id;
    if (this.#known.size >= this.#max) return 'other';
    this.#known.add(id);
    return id;
  }

  /** How many breakers are open. */
  breaker(id: string, isOpen: boolean): number {
    if (isOpen) this.#open.add(id);
    else this.#open.delete(id);
    return this.#open.size;
  }
}
