// A clock that moves only when a test moves it (see src/common/clock.ts). Timers run in the order of their times, each
// followed by what it caused.
import type { Clock } from '../../src/common/clock.ts';

export class ManualClock implements Clock {
  #now = 1_000;
  #timers: { at: number; work: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(ms: number, work: () => void): () => void {
    const timer = { at: this.#now + ms, work };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }

  /** Runs all timers that are due within `ms`, and what they cause. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      const next = this.#timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.#now = Math.max(this.#now, next.at);
      next.work();
      await settled();
    }
    this.#now = until;
    await settled();
  }
}

/** Promises that have nothing more to wait for have run. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
