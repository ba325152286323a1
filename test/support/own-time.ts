// How long a thing took this process, and not the machine: turns of the event loop are counted, each for the 5 ms that
// it waits. A machine that stands still, or gives its time to others, adds one turn for all the while. So a promise of
// "at once" or "within a second" can be checked beside anything; what it is by the clock on the wall is measured in
// bench/.
export class OwnTime {
  readonly #timer: NodeJS.Timeout;
  #turns = 0;

  constructor() {
    this.#timer = setInterval(() => this.#turns++, TURN_MS);
    this.#timer.unref();
  }

  get ms(): number {
    return this.#turns * TURN_MS;
  }

  /** Stops the clock, and answers its ms. */
  stop(): number {
    clearInterval(this.#timer);
    return this.ms;
  }
}

const TURN_MS = 5;

/**
 * The result of `work` in a run that took less than `ms` by the clock: for what holds only so long, such as a place
 * before it is free again. A run in which the machine stood still is made again from its beginning, on things of its
 * own; the last of many stands.
 */
export async function undisturbed<T>(ms: number, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    const start = performance.now();
    const found = await work();
    if (performance.now() - start < ms || tries === TRIES_MAX) return found;
  }
}

const TRIES_MAX = 50;

/** The processor time of this process in a piece of work, ms. */
export function cpuMsOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
