// Reads and writes JSON without changing a number: what a double cannot hold as it is written is a LongNumber in the
// value. JSON.parse does the work. Long numbers go through it as strings that begin with a mark of this process, which
// no one else can write. Before it: the text has been found to be JSON, or is ours. Failure: SyntaxError, as of
// JSON.parse.
import { randomBytes } from 'node:crypto';
import type { Json } from '../../schemas/common.ts';
import { exactNumber, LongNumber } from './exact-number.ts';

const MARK = `${randomBytes(18).toString('base64url')}:`;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;

/** A text without this has no long number. */
const MAY_BE_LONG = /\d[\d.]{15}|\d[eE][+-]?\d{3}/;

export function mayHoldLongNumber(text: string): boolean {
  return MAY_BE_LONG.test(text);
}

/** As JSON.parse, with a LongNumber for what a double does not hold. */
export function parseExact(text: string): Json {
  const marked = mayHoldLongNumber(text) ? withMarks(text) : null;
  return marked === null ? (JSON.parse(text) as Json) : (withNumbers(JSON.parse(marked)) as Json);
}

/** The same JSON in one line: ends of lines stand between its tokens alone, as they were sent. */
export function onOneLine(json: string): string {
  return json.includes('\n') || json.includes('\r') ? json.replaceAll(/[\r\n]+/g, ' ') : json;
}

/** As JSON.stringify, with long numbers as they were written. */
export function exactJson(value: unknown): string {
  const { writing } = LongNumber;
  let isMarked = false;
  LongNumber.writing = ({ text }) => {
    isMarked = true;
    return MARK + text;
  };
  try {
    const text = JSON.stringify(value);
    return isMarked ? text.replaceAll(WRITTEN, '$1') : text;
  } finally {
    LongNumber.writing = writing;
  }
}

const WRITTEN = new RegExp(`"${MARK}([^"]*)"`, 'g');

/** A number of JSON. Any other form is left for JSON.parse to refuse. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** null: it holds no long number. */
function withMarks(text: string): string | null {
  const parts: string[] = [];
  let copied = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = stringEnd(text, i);
    else if (isDigit(unit) || unit === MINUS) {
      const end = numberEnd(text, i);
      const number = text.slice(i, end);
      if (mayHoldLongNumber(number) && NUMBER.test(number) && exactNumber(number) instanceof LongNumber) {
        parts.push(text.slice(copied, i), `"${MARK}${number}"`);
        copied = end;
      }
      i = end - 1;
    }
  }
  if (copied === 0) return null;
  parts.push(text.slice(copied));
  return parts.join('');
}

function withNumbers(value: unknown): unknown {
  if (typeof value === 'string') return value.startsWith(MARK) ? exactNumber(value.slice(MARK.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) value[i] = withNumbers(value[i]);
    return value;
  }
  for (const key of Object.keys(value)) {
    if (key.startsWith(MARK)) throw new SyntaxError('a number stands for a key');
    const item = (value as Record<string, unknown>)[key];
    if (typeof item !== 'string' && typeof item !== 'object') continue;
    const read = withNumbers(item);
    // Only what changed: `__proto__` is an own property here, which an assignment would not change.
    if (read !== item)
      Object.defineProperty(value, key, { value: read, writable: true, enumerable: true, configurable: true });
  }
  return value;
}

/** Index of the quote that closes the string opened at `open`, of the same kind; the text's length: none does. */
export function stringEnd(text: string, open: number): number {
  const quote = text.charAt(open);
  for (let from = open + 1; ; ) {
    const end = text.indexOf(quote, from);
    if (end < 0 || from > text.length) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
    from = end + 1;
  }
}

export function numberEnd(text: string, start: number): number {
  let end = start + 1;
  while (end < text.length && isPartOfNumber(text.charCodeAt(end))) end++;
  return end;
}

function isDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

/** Digits, `.`, `e`, `E`, `+`, `-`. */
function isPartOfNumber(unit: number): boolean {
  return isDigit(unit) || unit === 0x2e || unit === 0x65 || unit === 0x45 || unit === 0x2b || unit === MINUS;
}
