// A counting semaphore for inserts that run at once, over all streams of a process (between a batch and its insert).
// Order: first come, first served. A stream that has released its permit queues behind the others, so a busy one cannot
// starve them.
// Invariant: at most `count` permits are acquired. Releasing a permit that was never acquired frees nothing.
import type { CommitBarrier } from './commit-barrier.ts';

/** The batch that waits for a permit. */
export type Load = {
  rows: number;
  bytes: number;
  isFull: boolean;
  /** It shares no insert with others. */
  alone: boolean;
};

export interface Permits {
  /**
   * Queues for a permit: `isAcquired` is its state, `acquired` resolves. Every permit must be released. `load` is read
   * when the group starts, since a batch may grow meanwhile.
   */
  acquire(load: () => Load): Permit;
}

export class Semaphore implements Permits {
  #free: number;
  readonly #queue: Permit[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  acquire(): Permit {
    const permit = new Permit(this.#release);
    this.#queue.push(permit);
    this.#grant();
    return permit;
  }

  readonly #release = (permit: Permit): void => {
    if (permit.isAcquired) this.#free++;
    else this.#queue.splice(this.#queue.indexOf(permit), 1);
    this.#grant();
  };

  #grant(): void {
    while (this.#free > 0 && this.#queue.length > 0) {
      this.#free--;
      this.#queue.shift()!.grant();
    }
  }
}

export class Permit {
  readonly acquired: Promise<void>;
  isAcquired = false;
  /** The barrier of a group whose members commit together. */
  barrier?: CommitBarrier;
  #resolve!: () => void;
  #isReleased = false;
  readonly #onRelease: (permit: Permit) => void;

  constructor(onRelease: (permit: Permit) => void) {
    this.#onRelease = onRelease;
    this.acquired = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  grant(barrier?: CommitBarrier): void {
    this.isAcquired = true;
    if (barrier !== undefined) this.barrier = barrier;
    this.#resolve();
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#onRelease(this);
  }
}
