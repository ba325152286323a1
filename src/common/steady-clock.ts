// The clock by which a process orders what comes in: the wall clock to the microsecond, never going back, and a
// *slot* of its millisecond for each identifier that is made (ids.ts writes both into it).
// Slots say how far a millisecond had gone, so identifiers rise also between processes of one machine, where a
// client that waited for one answer may be served by another front the next time.
// Invariant: slots that one clock hands out rise. Each thread has its own; what one has handed out goes with the
// work to the other (`notBefore`), so they also rise along a client's requests where the clock was set back in
// between.
// Failure: a clock that was set back by up to SET_BACK_MS_MAX runs at half its rate until the time has caught up. By
// more: it is followed, since the time was wrong before, and the order across that moment is lost.

/** A millisecond has so many: 15 bits, three characters of an identifier. */
export const SLOTS = 2 ** 15;
/** Those that follow from the time. The rest of a millisecond is for what is known to come behind them (ids.ts). */
export const SLOTS_BY_TIME = 30 * 1024;

/** Where an identifier belongs. `ms`: epoch ms, whole. */
export type Moment = { ms: number; slot: number };

type TimeSources = {
  /** Epoch ms, whole; may be set. */
  wallMs: () => number;
  /** Ms from some moment on, to the microsecond; never set. */
  monotonicMs: () => number;
  /** The epoch ms at which the other one was 0, as far as it is known. */
  originMs: number;
};

/** As clocks are set while machines run: a leap second, a step of NTP, a guest that was moved. */
const SET_BACK_MS_MAX = 60_000;
/** The two sources are read one after the other: between them a millisecond may have begun, or the process stood. */
const READS_MAX = 3;
/** The last moment of a millisecond that a number of this size can tell from the next one. */
const NEARLY_ONE = 1 - 2 ** -10;

// Looked up at each call: tests set the time.
const OF_THE_PROCESS: TimeSources = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  originMs: performance.timeOrigin,
};

export class SteadyClock {
  readonly #sources: TimeSources;
  #originMs: number;
  #now = 0;
  #nowMonotonic = 0;
  #ms = 0;
  #slot = 0;
  /** The last time that `takeOf` gave. */
  #lateMs = -1;
  #lateSlot = 0;

  constructor(sources = OF_THE_PROCESS) {
    this.#sources = sources;
    this.#originMs = sources.originMs;
  }

  /** Epoch ms with a fraction. Not before what was answered last. */
  now(): number {
    let wall = 0;
    let monotonic = 0;
    let now = Number.NaN;
    for (let reads = 0; reads < READS_MAX && !(now >= wall && now < wall + 1); reads++) {
      wall = this.#sources.wallMs();
      monotonic = this.#sources.monotonicMs();
      now = monotonic + this.#originMs;
    }
    if (!(now >= wall && now < wall + 1)) {
      // The nearest fraction that fits: what was wrong by little becomes right with the millisecond's next border.
      now = now > wall && now < wall + 2 ? wall + NEARLY_ONE : wall;
      this.#originMs = now - monotonic;
    }
    const last = this.#now;
    if (now < last && last - now <= SET_BACK_MS_MAX)
      now = last < wall + 1 ? last : last + (monotonic - this.#nowMonotonic) / 2;
    this.#now = now;
    this.#nowMonotonic = monotonic;
    return now;
  }

  /** Takes `count` slots, at most SLOTS, of the present or the next millisecond; answers the first. */
  take(count: number): Moment {
    const now = this.now();
    let ms = Math.floor(now);
    let slot = Math.floor((now - ms) * SLOTS_BY_TIME);
    const isBehind = ms < this.#ms || (ms === this.#ms && slot <= this.#slot);
    if (isBehind && this.#ms - ms <= SET_BACK_MS_MAX) {
      ms = this.#ms;
      slot = this.#slot + 1;
    }
    if (slot + count > SLOTS) {
      ms++;
      slot = 0;
    }
    this.#ms = ms;
    this.#slot = slot + count - 1;
    return { ms, slot };
  }

  /**
   * A moment of that very millisecond, epoch ms. Has it passed, then behind all that was taken in it, and behind all
   * that follows from the time: what was answered in it had its moment before this was begun.
   */
  takeOf(ms: number): Moment {
    const { last } = this;
    const present = this.take(1);
    if (present.ms === ms) return present;
    const before = ms === last.ms ? last.slot : 0;
    const behind = ms === this.#lateMs ? this.#lateSlot : Math.max(before, SLOTS_BY_TIME - 1);
    this.#lateSlot = Math.min(behind + 1, SLOTS - 1);
    this.#lateMs = ms;
    return { ms, slot: this.#lateSlot };
  }

  /** The moment that was taken last. */
  get last(): Moment {
    return { ms: this.#ms, slot: this.#slot };
  }

  /** Puts all moments that are taken from now on behind that. */
  notBefore({ ms, slot }: Moment): void {
    if (ms < this.#ms || (ms === this.#ms && slot <= this.#slot)) return;
    this.#ms = ms;
    this.#slot = slot;
    if (this.#now >= ms) return;
    this.#now = ms;
    this.#nowMonotonic = this.#sources.monotonicMs();
  }
}

/** The clock of this thread. */
export const STEADY_CLOCK = new SteadyClock();

/** Epoch ms, whole: for what is kept with an identifier of that time. */
export function steadyNow(): number {
  return Math.floor(STEADY_CLOCK.now());
}
