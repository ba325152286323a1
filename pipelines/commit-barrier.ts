// A barrier for one external step that several batches take together, each from a drain of its own (between their
// manifests and their acknowledgements). A batch that got its permit in a group (insert-coalescer.ts) finds the barrier
// on the permit, and either arrives with its part or leaves.
//
//   all arrive       the last one's `run` is carried out, once, with all parts; all learn its outcome
//   one leaves       nothing is carried out, and every member goes alone: what has not begun cannot be half done
//   one is missing   after ARRIVAL_MS_MAX the same: a shard that does not answer must not hold up the streams of the
//                    others
//
// Invariant: `run` is called at most once, and never after a member was released to insert alone. A member that arrives
// late learns the same outcome.
import { randomUUID } from 'node:crypto';
import type { SummarizedRow } from '../schemas/entry.ts';
import { MONOTONIC_CLOCK } from '../src/common/clock.ts';

/** Between the permits and the last arrival lie a check for deleted agents and a manifest: two round trips. */
export const ARRIVAL_MS_MAX = 2_000;

/** The part that one batch brings to the step. */
export type GroupPart = { rows: readonly SummarizedRow[]; ensureHeld: () => Promise<void> };
/** done: all parts. alone: no part, and nothing was tried. unknown: tried, with an unknown result. */
export type BarrierOutcome = 'done' | 'alone' | 'unknown';

export class CommitBarrier {
  /** Unique to this step. */
  readonly token = randomUUID();
  readonly outcome: Promise<BarrierOutcome>;
  readonly #size: number;
  readonly #parts: GroupPart[] = [];
  readonly #cancel: () => void;
  #begun = false;
  #resolve!: (outcome: BarrierOutcome) => void;

  constructor(size: number, clock = MONOTONIC_CLOCK) {
    this.#size = size;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#cancel = clock.after(ARRIVAL_MS_MAX, () => this.leave());
  }

  /** Resolves when the step has ended for all members. `run` must not reject. */
  async arrive(
    part: GroupPart,
    run: (parts: readonly GroupPart[]) => Promise<BarrierOutcome>,
  ): Promise<BarrierOutcome> {
    this.#parts.push(part);
    if (this.#parts.length === this.#size && !this.#begun) {
      this.#begin();
      this.#resolve(await run(this.#parts));
    }
    return this.outcome;
  }

  /** For a member that does not arrive. Has no effect once the step has begun. */
  leave(): void {
    if (this.#begun) return;
    this.#begin();
    this.#resolve('alone');
  }

  #begin(): void {
    this.#begun = true;
    this.#cancel();
  }
}
