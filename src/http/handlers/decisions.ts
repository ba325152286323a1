// Waits for the decisions of approvals, for reads that show outcomes, and only where it matters (read your own writes).
// A query calls `settle` when it has met a pending event or is to filter by outcome; all other reads do not wait for
// the journal.
// Invariant: one wait a request; `complete` is false only if there was one and it was not over in time.
import type { ReadBarrier } from '../../streams/read-barrier.ts';

export class Decisions {
  readonly #barrier: Pick<ReadBarrier, 'waitForJournal'>;
  readonly #account: string;
  #waiting: Promise<void> | undefined;
  complete = true;

  constructor(barrier: Pick<ReadBarrier, 'waitForJournal'>, account: string) {
    this.#barrier = barrier;
    this.#account = account;
  }

  readonly settle = (): Promise<void> => {
    this.#waiting ??= this.#barrier.waitForJournal(this.#account).then((complete) => {
      this.complete = complete;
    });
    return this.#waiting;
  };
}
