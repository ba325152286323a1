// Places for inserts that run at once, over all streams of a process (between a batch and its insert).
// First come, first served: a stream that has had its turn queues up behind the others, so a busy one cannot starve them.
// Invariant: never more than `count` places are taken. A ticket that is given back before its turn frees nothing.
import type { Joint } from './joint.ts';

/** What waits for a place. */
export type Load = {
  rows: number;
  bytes: number;
  isFull: boolean;
  /** It goes with nobody. */
  alone: boolean;
};

export interface Places {
  /** Queues up; `ticket.granted` tells, `ticket.turn` waits. Every ticket must be given back. `load`: it may grow meanwhile. */
  queue(load: () => Load): Ticket;
}

export class Slots implements Places {
  #free: number;
  readonly #queue: Ticket[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  queue(): Ticket {
    const ticket = new Ticket(this.#giveBack);
    this.#queue.push(ticket);
    this.#grant();
    return ticket;
  }

  readonly #giveBack = (ticket: Ticket): void => {
    if (ticket.granted) this.#free++;
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

export class Ticket {
  readonly turn: Promise<void>;
  granted = false;
  /** Whoever got the place with others takes the step with them. */
  joint?: Joint<unknown>;
  #resolve!: () => void;
  #returned = false;
  readonly #giveBack: (ticket: Ticket) => void;

  constructor(giveBack: (ticket: Ticket) => void) {
    this.#giveBack = giveBack;
    this.turn = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  grant(joint?: Joint<unknown>): void {
    this.granted = true;
    if (joint !== undefined) this.joint = joint;
    this.#resolve();
  }

  giveBack(): void {
    if (this.#returned) return;
    this.#returned = true;
    this.#giveBack(this);
  }
}
