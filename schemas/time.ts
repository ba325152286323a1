// Reads the times that requests carry: an ISO 8601 date-time with an offset or `Z`, as standard libraries write it.
// Also teaches typebox the format, so that a schema with `format: 'date-time'` and this parser never disagree.
import Format from 'typebox/format';

const ZONE = '(?:[Zz]|([+-])(\\d\\d)(?::?(\\d\\d))?)';
const FRACTION = '(?:[.,](\\d+))?';
/** A blank for the `T` is Python's, and that of databases. */
const FORMS = [
  `(\\d{4})-(\\d\\d)-(\\d\\d)[Tt ](\\d\\d):(\\d\\d)(?::(\\d\\d)${FRACTION})?${ZONE}`,
  `(\\d{4})(\\d\\d)(\\d\\d)[Tt ](\\d\\d)(\\d\\d)(?:(\\d\\d)${FRACTION})?${ZONE}`,
].map((form) => new RegExp(`^${form}$`));

/**
 * Epoch ms; digits past the millisecond are dropped. `null` if it is no date-time, has no offset, or names a day that
 * does not exist. 24:00:00 is the next day's beginning, and second 60 the beginning of the next minute.
 */
export function parseTime(text: string): number | null {
  const m = FORMS[0]!.exec(text) ?? FORMS[1]!.exec(text);
  if (m === null) return null;
  const [year, month, day, hour, minute, second] = [+m[1]!, +m[2]!, +m[3]!, +m[4]!, +m[5]!, +(m[6] ?? 0)];
  const ms = m[7] === undefined ? 0 : +m[7].padEnd(3, '0').slice(0, 3);
  if (hour > 24 || minute > 59 || second > 60 || month < 1 || month > 12 || day < 1) return null;
  if (hour === 24 && (minute > 0 || second > 0 || /[1-9]/.test(m[7] ?? ''))) return null;
  const offsetMinutes = m[8] === undefined ? 0 : (m[8] === '-' ? -1 : 1) * (+m[9]! * 60 + +(m[10] ?? 0));
  if (+(m[9] ?? 0) > 23 || +(m[10] ?? 0) > 59) return null;
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
