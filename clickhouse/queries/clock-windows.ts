// A window of time and the same time of the clock some days before, in a zone (under GET /v1/overview). Where a clock
// was set in between, the times that it shows are the same, not the hours that passed.
// Invariant: a time that the clock leaves out is the moment at which it is set forward; of a time that comes twice it
// is the first.
import { offsetsOf } from './time-buckets.ts';

const DAY_MS = 86_400_000;

/** When the day of `atMs` began by the zone's clock; epoch ms. Throws RangeError for a zone that is not known. */
export function beginningOfDay(zone: string, atMs: number): number {
  const offsetAt = offsetsOf(zone);
  const shown = atMs + offsetAt(atMs);
  return instantShowing(Math.floor(shown / DAY_MS) * DAY_MS, offsetAt);
}

/** The moment `days` before at which the zone's clock shows the same; epoch ms. */
export function daysBefore(zone: string, atMs: number, days: number): number {
  const offsetAt = offsetsOf(zone);
  return instantShowing(atMs + offsetAt(atMs) - days * DAY_MS, offsetAt);
}

/** `shownMs`: what the clock shows, as if it were UTC. */
function instantShowing(shownMs: number, offsetAt: (atMs: number) => number): number {
  // The offsets of a day around it: at most one change lies between.
  const [before, after] = [offsetAt(shownMs - DAY_MS), offsetAt(shownMs + DAY_MS)];
  const found = [shownMs - before, shownMs - after].filter((at) => at + offsetAt(at) === shownMs);
  if (found.length > 0) return Math.min(...found);
  // Left out: the clock was set forward over it. Between both readings lies the moment of that.
  let [low, high] = [shownMs - after, shownMs - before];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle) === before) low = middle;
    else high = middle;
  }
  return high;
}
