// One step outside that several batches take together, each from a drain of its own (between their manifests and their acknowledgements).
// Whoever got a place with others (insert-coalescer.ts) finds the joint on his ticket, and either joins with his part or leaves.
//
//   all have joined      the last one's `run` is carried out, once, with everybody's parts; all learn how it ended
//   one leaves           nothing is carried out, and everybody goes alone: what has not begun cannot be half done
//   one does not come    after JOIN_MS_MAX the same: a shard that does not answer must not hold up the streams of the others
//
// Invariant: `run` is called at most once, and never after anybody was told to go alone. Whoever comes late learns the same outcome.
import { randomUUID } from 'node:crypto';

/** Between the places' grant and the last one's joining lie a look at deleted agents and a manifest: two round trips. */
export const JOIN_MS_MAX = 2_000;

/** done: of all parts. alone: of none, and nobody has tried. unknown: tried, and of what has become of it nobody knows. */
export type BarrierOutcome = 'done' | 'alone' | 'unknown';

export class CommitBarrier<Part> {
  /** Names this one step; no other has the same. */
  readonly token = randomUUID();
  readonly outcome: Promise<BarrierOutcome>;
  readonly #size: number;
  readonly #parts: Part[] = [];
  readonly #timer: NodeJS.Timeout;
  #begun = false;
  #resolve!: (outcome: BarrierOutcome) => void;

  constructor(size: number, joinMsMax = JOIN_MS_MAX) {
    this.#size = size;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#timer = setTimeout(() => this.leave(), joinMsMax);
  }

  /** Resolves when it has ended for all. `run` must not reject. */
  async arrive(part: Part, run: (parts: readonly Part[]) => Promise<BarrierOutcome>): Promise<BarrierOutcome> {
    this.#parts.push(part);
    if (this.#parts.length === this.#size && !this.#begun) {
      this.#begin();
      this.#resolve(await run(this.#parts));
    }
    return this.outcome;
  }

  /** Of one that has not joined, or will not. Afterwards it changes nothing. */
  leave(): void {
    if (this.#begun) return;
    this.#begin();
    this.#resolve('alone');
  }

  #begin(): void {
    this.#begun = true;
    clearTimeout(this.#timer);
  }
}
