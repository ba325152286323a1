// Reads the times that requests carry: any ISO 8601 date-time with an offset or `Z`.
// Also teaches typebox the format, so that a schema with `format: 'date-time'` and this parser never disagree.
import Format from 'typebox/format';

const FORM = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)$/;

/**
 * Epoch ms; digits past the millisecond are dropped. `null` if it is no date-time, has no offset, or names a day that
 * does not exist.
 */
export function parseTime(text: string): number | null {
  const m = FORM.exec(text);
  if (m === null) return null;
  const [year, month, day, hour, minute, second] = [+m[1]!, +m[2]!, +m[3]!, +m[4]!, +m[5]!, +(m[6] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || month < 1 || month > 12 || day < 1) return null;
  const offsetMinutes = m[8] === undefined ? 0 : (m[8] === '-' ? -1 : 1) * (+m[9]! * 60 + +(m[10] ?? 0));
  if (+(m[9] ?? 0) > 23 || +(m[10] ?? 0) > 59) return null;
  const ms = m[7] === undefined ? 0 : +m[7].padEnd(3, '0').slice(0, 3);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day); // Date.UTC would read years below 100 as 19xx
  if (date.getUTCMonth() !== month - 1) return null;
  date.setUTCHours(hour, minute, second, ms);
  return date.getTime() - offsetMinutes * 60_000;
}

const recent: { ms: number; iso: string }[] = [
  { ms: Number.NaN, iso: '' },
  { ms: Number.NaN, iso: '' },
];
/** UTC with milliseconds. Events of one tick have two times between them, so the last two answers are kept. */
export function isoTime(ms: number): string {
  const [last, before] = recent as [{ ms: number; iso: string }, { ms: number; iso: string }];
  if (last.ms === ms) return last.iso;
  if (before.ms === ms) return before.iso;
  before.ms = ms;
  before.iso = new Date(ms).toISOString();
  recent.reverse();
  return before.iso;
}

Format.Set('date-time', (text) => parseTime(text) !== null);
