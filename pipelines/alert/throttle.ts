// An alert's throttle window, as a state and its two steps (used by dispatch.ts and summaries.ts). Pure.
//
//   closed    no window: a signal is notified at once, and where `throttle_seconds` is over 0 opens a window
//   open      further signals are counted, and the newest is kept
//   over      at its end: nothing counted, closed. Something counted: one summary for all of it, and a new window opens
//
// Where too many notifications wait for the alert's host already (`isSaturated`), a window opens without notifying of
// anything: what would only lengthen the queue is counted, and sent in one summary a minute once there is room. So
// nothing is lost.
// Invariant: every signal is notified at once or counted, and every counted one is in exactly one summary.
import type { Signal } from '../../schemas/signal.ts';

/** `signal`: the newest that was counted; null where `count` is 0. Times are epoch ms by Redis's clock. */
export type Window = { until: number; count: number; signal: Signal | null };

/** Least window of an alert whose host is isSaturated. */
export const SATURATED_WINDOW_MS = 60_000;

type Throttling = { windowMs: number; isSaturated: boolean; now: number };

/** A signal arrives. `isNotified`: it is notified at once; else it was counted. */
export function take(
  window: Window | undefined,
  signal: Signal,
  { windowMs, isSaturated, now }: Throttling,
): { isNotified: boolean; window: Window | undefined } {
  // One that is over and has something counted is about to be summarized; what comes meanwhile joins it.
  if (window !== undefined && (now < window.until || window.count > 0))
    return { isNotified: false, window: { ...window, count: window.count + 1, signal } };
  if (isSaturated)
    return { isNotified: false, window: { until: now + Math.max(windowMs, SATURATED_WINDOW_MS), count: 1, signal } };
  return { isNotified: true, window: opened(windowMs, now) };
}

/** A window that has something counted is over. `summary`: what to send now; undefined: later. */
export function close(
  window: Window,
  { windowMs, isSaturated, now }: Throttling,
): { summary?: { signal: Signal; count: number }; window: Window | undefined } {
  if (isSaturated) return { window: { ...window, until: now + SATURATED_WINDOW_MS } };
  return { summary: { signal: window.signal!, count: window.count }, window: opened(windowMs, now) };
}

function opened(windowMs: number, now: number): Window | undefined {
  return windowMs === 0 ? undefined : { until: now + windowMs, count: 0, signal: null };
}
