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

/** Epoch ms, whole; digits past the millisecond are dropped. `null` as for `parseExactTime`. */
export function parseTime(text: string): number | null {
  return readTime(text)?.ms ?? null;
}

/**
 * Epoch ms with a fraction of whole microseconds, finer digits dropped. `null` if it is no date-time, has no offset, or
 * names a day that does not exist. 24:00:00 is the next day's beginning, and second 60 the beginning of the next
 * minute.
 */
export function parseExactTime(text: string): number | null {
  const read = readTime(text);
  return read === null ? null : exactTime(read.ms, read.micros);
}

function readTime(text: string): { ms: number; micros: number } | null {
  return readCommon(text) ?? readAny(text);
}

const [DASH, COLON, POINT, BIG_T, BIG_Z] = [0x2d, 0x3a, 0x2e, 0x54, 0x5a];

/**
 * `2026-11-25T01:00:00Z`, perhaps with a point and three or six digits, of days that every month has: what most callers
 * write, in a fifth of the time. null: to be read by the forms.
 */
function readCommon(text: string): { ms: number; micros: number } | null {
  const { length } = text;
  const isForm =
    (length === 20 || length === 24 || length === 27) &&
    text.charCodeAt(4) === DASH &&
    text.charCodeAt(7) === DASH &&
    text.charCodeAt(10) === BIG_T &&
    text.charCodeAt(13) === COLON &&
    text.charCodeAt(16) === COLON &&
    text.charCodeAt(length - 1) === BIG_Z &&
    (length === 20 || text.charCodeAt(19) === POINT);
  if (!isForm) return null;
  const [year, month, day] = [number(text, 0, 4), number(text, 5, 2), number(text, 8, 2)];
  const [hour, minute, second] = [number(text, 11, 2), number(text, 14, 2), number(text, 17, 2)];
  const ms = length === 20 ? 0 : number(text, 20, 3);
  const micros = length === 27 ? number(text, 23, 3) : 0;
  // What is no digit makes NaN, which no comparison takes.
  const isTime = year >= 100 && hour <= 23 && minute <= 59 && second <= 59 && ms >= 0 && micros >= 0;
  if (!(isTime && month >= 1 && month <= 12 && day >= 1 && day <= 28)) return null;
  return { ms: Date.UTC(year, month - 1, day, hour, minute, second, ms), micros };
}

function number(text: string, from: number, digits: number): number {
  let value = 0;
  for (let i = from; i < from + digits; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = 10 * value + digit;
  }
  return value;
}

function readAny(text: string): { ms: number; micros: number } | null {
  const m = FORMS[0]!.exec(text) ?? FORMS[1]!.exec(text);
  if (m === null) return null;
  const [year, month, day, hour, minute, second] = [+m[1]!, +m[2]!, +m[3]!, +m[4]!, +m[5]!, +(m[6] ?? 0)];
  if (hour > 24 || minute > 59 || second > 60 || month < 1 || month > 12 || day < 1) return null;
  if (hour === 24 && (minute > 0 || second > 0 || /[1-9]/.test(m[7] ?? ''))) return null;
  const offsetMinutes = m[8] === undefined ? 0 : (m[8] === '-' ? -1 : 1) * (+m[9]! * 60 + +(m[10] ?? 0));
  if (+(m[9] ?? 0) > 23 || +(m[10] ?? 0) > 59) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day); // Date.UTC would read years below 100 as 19xx
  if (date.getUTCMonth() !== month - 1) return null;
  date.setUTCHours(hour, minute, second);
  const seconds = date.getTime() - offsetMinutes * 60_000;
  if (m[7] === undefined) return { ms: seconds, micros: 0 };
  const micros = +m[7].padEnd(6, '0').slice(0, 6);
  return { ms: seconds + Math.floor(micros / 1000), micros: micros % 1000 };
}

/** Up to here, 2248, a double tells one microsecond from the next. No event is that late, only the end of a range. */
const EXACT_MS_MAX = 2 ** 43;

/** Epoch ms of a whole millisecond and the microseconds behind it. */
export function exactTime(ms: number, micros: number): number {
  return Math.abs(ms) < EXACT_MS_MAX ? ms + micros / 1000 : ms;
}

/** The microseconds of such a time after its whole millisecond: 0 to 999. */
export function microsOf(at: number): number {
  return Math.round((at - Math.floor(at)) * 1000);
}

const recent: { ms: number; iso: string }[] = [
  { ms: Number.NaN, iso: '' },
  { ms: Number.NaN, iso: '' },
];
/**
 * UTC with three digits; what is finer is dropped. Events of one tick have two times between them, so the last two
 * answers are kept.
 */
export function isoTime(ms: number): string {
  const [last, before] = recent as [{ ms: number; iso: string }, { ms: number; iso: string }];
  if (last.ms === ms) return last.iso;
  if (before.ms === ms) return before.iso;
  before.ms = ms;
  before.iso = new Date(ms).toISOString();
  recent.reverse();
  return before.iso;
}

/** UTC with three digits where there are no more, else with six. */
export function exactIsoTime(at: number): string {
  const ms = Math.floor(at);
  const iso = isoTime(ms);
  return at === ms ? iso : `${iso.slice(0, -1)}${String(microsOf(at)).padStart(3, '0')}Z`;
}

Format.Set('date-time', (text) => parseTime(text) !== null);
