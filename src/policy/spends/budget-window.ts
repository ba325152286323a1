// The windows of budgets: rolling ones, in sixtieths as rate limits have them, and days, weeks and months of a time
// zone (between the terms of a policy, kinds/spend-budget.ts, and the counters, src/redis/spend.lua). Pure.
// The parts of a window are numbered: rolling ones by the sixtieth, calendar ones by the epoch ms of their beginning.
// Invariant: the part of a time follows from the time alone, so what was spent can be summed again from stored rows.
// A day begins with the first moment of its date in the zone, so it has 23 or 25 hours where clocks change.
import { remember } from '../../common/maps.ts';

export type BudgetWindow = { ms: number } | { calendar: Calendar; zone: string };
type Calendar = 'day' | 'week' | 'month';

export const CALENDARS: readonly string[] = ['day', 'week', 'month'] satisfies Calendar[];
const DAY_MS = 86_400_000;
/** The number of parts of a rolling window. */
const SIXTIETHS = 60;
/** No offset of a zone is larger. */
const OFFSET_MS_MAX = 15 * 3_600_000;

/** Canonical; undefined: there is no such zone. */
export function zoneOf(name: string): string | undefined {
  // Offsets such as +01:00 are no zones of the database: they know no change of the clock.
  if (/^[+-]/.test(name)) return undefined;
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}

/** The number of the part that a time belongs to. */
export function partOfWindow(window: BudgetWindow, atMs: number): number {
  return 'ms' in window ? Math.floor((atMs * SIXTIETHS) / window.ms) : boundsOf(window, atMs).from;
}

/** When calendar windows begin, epoch ms, rising: the one before, that of the time, and the two behind it. */
export function windowStarts(window: Extract<BudgetWindow, { calendar: string }>, atMs: number): number[] {
  const { from, until } = boundsOf(window, atMs);
  const before = boundsOf(window, from - 1).from;
  return [before, from, until, boundsOf(window, until).until];
}

/** How long what was counted in it is looked at, at the most. */
export function longestMs(window: BudgetWindow): number {
  if ('ms' in window) return Math.ceil((window.ms * (SIXTIETHS + 1)) / SIXTIETHS);
  return { day: 2, week: 8, month: 32 }[window.calendar] * DAY_MS;
}

type Bounds = { from: number; until: number };
/** The windows that were asked for last: one of each zone and calendar. */
const known = new Map<string, Bounds>();
const KNOWN_MAX = 1_000;

/** `from` inclusive, `until` exclusive. */
function boundsOf({ calendar, zone }: Extract<BudgetWindow, { calendar: string }>, atMs: number): Bounds {
  const name = `${calendar}/${zone}`;
  const last = known.get(name);
  if (last !== undefined && last.from <= atMs && atMs < last.until) return last;
  const [year, month, day] = dateOf(zone, atMs);
  const begin = {
    day: [year, month, day],
    week: [year, month, day - ((weekday(year, month, day) + 6) % 7)],
    month: [year, month, 1],
  }[calendar] as [number, number, number];
  const next = {
    day: [begin[0], begin[1], begin[2] + 1],
    week: [begin[0], begin[1], begin[2] + 7],
    month: [begin[0], begin[1] + 1, 1],
  }[calendar] as [number, number, number];
  const bounds = { from: firstMomentOf(zone, begin), until: firstMomentOf(zone, next) };
  return remember(known, name, bounds, KNOWN_MAX);
}

/** 0: Sunday. */
function weekday(year: number, month: number, day: number): number {
  return new Date(Date.UTC(year, month, day)).getUTCDay();
}

/** The first moment whose date in the zone is this one or a later one. Date.UTC takes days and months that are over. */
function firstMomentOf(zone: string, [year, month, day]: readonly [number, number, number]): number {
  const wanted = Date.UTC(year, month, day);
  let [before, from] = [wanted - OFFSET_MS_MAX - DAY_MS, wanted + OFFSET_MS_MAX];
  while (from - before > 1) {
    const middle = Math.floor((before + from) / 2);
    if (Date.UTC(...dateOf(zone, middle)) >= wanted) from = middle;
    else before = middle;
  }
  return from;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Year, month from 0, day. */
function dateOf(zone: string, atMs: number): [number, number, number] {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      ...{ timeZone: zone, calendar: 'gregory', numberingSystem: 'latn' },
      ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
    });
    formats.set(zone, format);
  }
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, Number(value)]));
  return [parts.get('year')!, parts.get('month')! - 1, parts.get('day')!];
}
