// What time it is by the service's clock: times of the service are compared with no other one, for the browser's may be
// minutes off. Every answer says it (`Date`, in whole seconds).
// Invariant: a clock that is right as far as can be told is not moved.
// Failure: an answer without a date tells nothing; before the first one the browser's own clock counts.

/** How much the service's clock is ahead of the browser's: at least, at most, and as it is taken to be. */
let least = Number.NEGATIVE_INFINITY;
let most = Number.POSITIVE_INFINITY;
let aheadMs = 0;

/** It is cut to whole seconds, and the service makes it once a second. */
const GRAIN_MS = 2_000;

/** `date`: of an answer to what was asked at `sentMs` and had arrived at `arrivedMs`, by the browser's clock. */
export function noteDate(date: string | null, sentMs: number, arrivedMs: number): void {
  const at = Date.parse(date ?? '');
  if (Number.isNaN(at)) return;
  const [low, high] = [at - arrivedMs, at + GRAIN_MS - sentMs];
  const isContradiction = low > most || high < least; // one of the clocks was set
  least = isContradiction ? low : Math.max(least, low);
  most = isContradiction ? high : Math.min(most, high);
  aheadMs = least <= 0 && most >= 0 ? 0 : Math.round((least + most) / 2);
}

export function nowMs(): number {
  return Date.now() + aheadMs;
}
