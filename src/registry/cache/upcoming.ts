// What is to be done at moments of the clock on the wall, one a name (inside RegistryCache: when policies of an account
// begin). One timer, for the next of them; without any there is none.
// Invariant: each is done once, within LOOK_MS of its moment, also where the clock was set meanwhile or the machine
// slept. Bounded: over `max` names those are forgotten that `isNeeded` no longer.
import { type Clock, MONOTONIC_CLOCK } from '../../common/clock.ts';

/** A timer goes by another clock, which stands still while the machine sleeps. */
const LOOK_MS = 500;
const WALL_CLOCK: Clock = { ...MONOTONIC_CLOCK, now: Date.now };

type UpcomingOptions = {
  max: number;
  isNeeded: (name: string) => boolean;
  onDue: (name: string) => void;
  clock?: Clock;
};

export class Upcoming {
  readonly #options: UpcomingOptions;
  readonly #clock: Clock;
  readonly #moments = new Map<string, number>();
  #cancel: (() => void) | undefined;

  constructor(options: UpcomingOptions) {
    this.#options = options;
    this.#clock = options.clock ?? WALL_CLOCK;
  }

  /**
   * The earliest moment that was said of a name stands, since who says it may have read before another: done too early,
   * it is looked at again. undefined: nothing is to come.
   */
  add(name: string, atMs: number | undefined): void {
    if (atMs === undefined || atMs >= (this.#moments.get(name) ?? Number.POSITIVE_INFINITY)) return;
    this.#moments.set(name, atMs);
    if (this.#moments.size > this.#options.max)
      for (const one of this.#moments.keys())
        if (one !== name && !this.#options.isNeeded(one)) this.#moments.delete(one);
    this.#wait();
  }

  close(): void {
    this.#moments.clear();
    this.#cancel?.();
  }

  #wait(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#moments.size === 0) return;
    let next = Number.POSITIVE_INFINITY;
    for (const atMs of this.#moments.values()) next = Math.min(next, atMs);
    const ms = Math.min(LOOK_MS, Math.max(0, next - this.#clock.now()));
    this.#cancel = this.#clock.after(ms, () => this.#look());
  }

  #look(): void {
    this.#cancel = undefined;
    const nowMs = this.#clock.now();
    const due = [...this.#moments].filter(([, atMs]) => atMs <= nowMs).map(([name]) => name);
    for (const name of due) this.#moments.delete(name);
    for (const name of due) this.#options.onDue(name);
    this.#wait();
  }
}
