// How V8 keeps the memory of each kind of process (beside child.ts: they stand on the child's command line, the only
// place where Node takes all of them). Nothing but speed and memory depends on them.

/**
 * Young generation of what takes in much at once, MB: what passes through dies young, and at the default of 16
 * collecting it was 18 % of a front when strings of a batch still went through its heap.
 */
const LARGE_SEMI_SPACE = '--max-semi-space-size=32';

export const PIPELINES_V8 = [LARGE_SEMI_SPACE];
export const BACKTESTS_V8 = [LARGE_SEMI_SPACE];
export const CLICKHOUSE_V8 = [LARGE_SEMI_SPACE];

/**
 * A front answers within milliseconds, so its collections must be short.
 * - Young space of 8 MB, collected by the thread that waits for it: 0.4 to 0.5 ms each, at most 2. With 32 MB and
 *   helpers it took 1 to 2 ms, at most 7, since on a busy machine a helper that has begun may wait for a processor. It
 *   costs nothing (bodies and entries lie in buffers), and a front holds 140 MB instead of 190.
 * - Old space is collected when it has grown by half. Left to itself V8 lets it grow up to fourfold: a front that had
 *   met 100,000 agents held 330 MB, of which 79 were in use; so it holds 230, and an event costs the same. What the
 *   pipelines read is old before it goes: collected so often it cost them 3 us an event more.
 * - Everything is young at first. Left to itself V8 learns from the first requests, which outlive collections while
 *   much is new, to make some of their objects old at once. Those keep the rest of their request alive after its
 *   answer: collections of the young then took 4 to 10 ms, for as long as the process lived, and old space filled with
 *   what was dead.
 */
export const FRONT_V8 = [
  '--max-semi-space-size=8',
  '--no-parallel-scavenge',
  '--heap-growing-percent=50',
  '--no-allocation-site-pretenuring',
];
