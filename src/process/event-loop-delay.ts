// How long work waits for the event loop of this process, over the last minute (shown by metrics.ts).
// Node's own histogram of a timer's delays; every ten seconds what it holds is kept as one value for a minute, whether
// a metric is read or not. Nothing here can fail. Neither timer keeps the process running.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { RecentMax } from '../common/recent-max.ts';

/** The resolution; 50 wake-ups a second cost nothing measurable. */
const RESOLUTION_MS = 20;
const WINDOW_MS = 10_000;

export function watchEventLoop(): { maxSeconds(): number; p99Seconds(): number } {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const longest = new RecentMax();
  const high = new RecentMax();
  const note = () => {
    const nowMs = performance.now();
    longest.note(beyondResolution(delays.max), nowMs);
    high.note(beyondResolution(delays.percentile(99)), nowMs);
  };
  delays.enable();
  setInterval(() => {
    note();
    delays.reset();
  }, WINDOW_MS).unref();
  const read = (of: RecentMax) => () => {
    note();
    return of.max(performance.now());
  };
  return { maxSeconds: read(longest), p99Seconds: read(high) };
}

/** The histogram holds nanoseconds from one tick of its timer to the next. */
function beyondResolution(ns: number): number {
  return Math.max(0, ns / 1e9 - RESOLUTION_MS / 1e3);
}
