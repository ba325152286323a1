// Monotonic time and timers behind one small interface, for what decides by time: a test moves the time itself
// (test/support/manual-clock.ts). Times are ms.

export type Clock = {
  /** Monotonic, from an arbitrary start. */
  now(): number;
  /** Runs `work` once. Returns what cancels it. */
  after(ms: number, work: () => void): () => void;
};

export const MONOTONIC_CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, work) => {
    const timer = setTimeout(work, ms);
    return () => clearTimeout(timer);
  },
};
