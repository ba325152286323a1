// The buckets of a histogram: lengths that a person reads off an axis, beginning where a person expects it.
// In a time zone those of three hours to a week begin where a clock of the zone shows a multiple of their length, so a
// day is a day there, of 23 or 25 hours where the clock is set; shorter and longer ones go by its offset at the
// beginning of the range.
import type { QueryParams } from '../client.ts';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;
/** Above the last: whole multiples of it. */
const WIDTHS = [1, 5, 10, 50, 100, 500, ...[1, 5, 10, 15, 30, 60, 300, 600, 900, 1_800].map((n) => n * SECOND)].concat(
  [1, 3, 6, 12].map((n) => n * HOUR),
  [1, 7, 30].map((n) => n * DAY),
);
const BY_THE_CLOCK = { from: 3 * HOUR, to: 7 * DAY };

/** Whole ms: buckets begin with one. The filter compares to the microsecond. */
export type CountedRange = { fromMs: number; toMs: number };
export type Buckets = {
  bucketMs: number;
  /** When each begins. */
  starts: number[];
  /** Which one `timestamp` is in. */
  slot: { sql: string; params: QueryParams };
};
/** From a time on: what is added to UTC. */
type Stretch = { fromMs: number; offsetMs: number };

const UTC: readonly Stretch[] = [{ fromMs: Number.NEGATIVE_INFINITY, offsetMs: 0 }];
const MS = 'toUnixTimestamp64Milli(timestamp)';

/**
 * As many as asked for at most, and one more where the first begins earlier than the range; each begins at a multiple
 * of its length. `zone`: an IANA name; left out: UTC.
 */
export function bucketsOf({ fromMs, toMs }: CountedRange, buckets: number, zone?: string): Buckets {
  const least = (toMs - fromMs + 1) / buckets;
  const widest = WIDTHS.at(-1)!;
  const bucketMs = WIDTHS.find((width) => width >= least) ?? Math.ceil(least / widest) * widest;
  const isByTheClock = bucketMs >= BY_THE_CLOCK.from && bucketMs <= BY_THE_CLOCK.to;
  const stretches = zone === undefined ? UTC : stretchesOf(zone, { fromMs, toMs: isByTheClock ? toMs : fromMs });
  const shown = (atMs: number) => atMs + stretches.findLast((one) => one.fromMs <= atMs)!.offsetMs;
  const start = Math.floor(shown(fromMs) / bucketMs) * bucketMs;
  const starts: number[] = [];
  for (let at = start; at <= shown(toMs); at += bucketMs) starts.push(instantOf(at, stretches));
  return { bucketMs, starts, slot: slotOf(start, bucketMs, stretches) };
}

function slotOf(start: number, width: number, stretches: readonly Stretch[]): Buckets['slot'] {
  const [first, ...later] = stretches;
  const params: QueryParams = { start: start - first!.offsetMs, width };
  // Beyond the offset of the first.
  let more = '';
  for (const [i, { fromMs, offsetMs }] of later.entries()) {
    more += ` + if(${MS} >= {set_${i}:Int64}, {by_${i}:Int64}, 0)`;
    params[`set_${i}`] = fromMs;
    params[`by_${i}`] = offsetMs - stretches[i]!.offsetMs;
  }
  return { sql: `intDiv(${MS}${more} - {start:Int64}, {width:Int64})`, params };
}

/** When a clock shows it for the first time; of what it leaves out, when it is set. */
function instantOf(shownMs: number, stretches: readonly Stretch[]): number {
  for (const [i, { fromMs, offsetMs }] of stretches.entries()) {
    const at = Math.max(fromMs, shownMs - offsetMs);
    if (at < (stretches[i + 1]?.fromMs ?? Number.POSITIVE_INFINITY)) return at;
  }
  throw new Error('unreachable: the last stretch has no end');
}

/**
 * Cuts a range of some years at most into stretches with one offset. Looks at each day, and then for the millisecond.
 */
function stretchesOf(zone: string, { fromMs, toMs }: CountedRange): Stretch[] {
  const offsetAt = offsetsOf(zone);
  const found: Stretch[] = [{ fromMs: Number.NEGATIVE_INFINITY, offsetMs: offsetAt(fromMs) }];
  for (let day = fromMs; day < toMs; day += DAY) {
    const before = found.at(-1)!.offsetMs;
    let [low, high] = [day, Math.min(day + DAY, toMs)];
    if (offsetAt(high) === before) continue;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (offsetAt(middle) === before) low = middle;
      else high = middle;
    }
    found.push({ fromMs: high, offsetMs: offsetAt(high) });
  }
  return found;
}

/** Throws RangeError for a zone that is not known. */
export function offsetsOf(zone: string): (atMs: number) => number {
  const format = new Intl.DateTimeFormat('en', { timeZone: zone, year: 'numeric', timeZoneName: 'longOffset' });
  return (atMs) => {
    const [, sign, hours = 0, minutes = 0, seconds = 0] =
      /([+-])(\d\d):(\d\d)(?::(\d\d))?/.exec(format.format(atMs)) ?? [];
    const ms = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * SECOND;
    return sign === '-' ? -ms : ms;
  };
}
