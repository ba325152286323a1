// Places for inserts that run at once, over all streams of a process (between a batch and its insert).
// First come, first served: a stream that has had its turn queues up behind the others, so a busy one cannot starve them.
// Invariant: never more than `count` places are taken. A ticket that is given back before its turn frees nothing.
import type { CommitBarrier } from './commit-barrier.ts';

/** What waits for a place. */
export type Load = {
  rows: number;
  bytes: number;
  isFull: boolean;
  /** It goes with nobody. */
  alone: boolean;
};

export interface Permits {
  /** Queues up; `ticket.granted` tells, `ticket.turn` waits. Every ticket must be given back. `load`: it may grow meanwhile. */
  acquire(load: () => Load): Permit;
}

export class Semaphore implements Permits {
  #free: number;
  readonly #queue: Permit[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  acquire(): Permit {
    const ticket = new Permit(this.#release);
    this.#queue.push(ticket);
    this.#grant();
    return ticket;
  }

  readonly #release = (ticket: Permit): void => {
    if (ticket.isAcquired) this.#free++;
    else this.#queue.splice(this.#queue.indexOf(ticket), 1);
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
  /** Whoever got the place with others takes the step with them. */
  barrier?: CommitBarrier<unknown>;
  #resolve!: () => void;
  #returned = false;
  readonly #onRelease: (ticket: Permit) => void;

  constructor(giveBack: (ticket: Permit) => void) {
    this.#onRelease = giveBack;
    this.acquired = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  grant(joint?: CommitBarrier<unknown>): void {
    this.isAcquired = true;
    if (joint !== undefined) this.barrier = joint;
    this.#resolve();
  }

  release(): void {
    if (this.#returned) return;
    this.#returned = true;
    this.#onRelease(this);
  }
}
