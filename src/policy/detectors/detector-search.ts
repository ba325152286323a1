// What the detectors' searches share: how a finding is reported, how tries are charged, and what may stand next to one.
import type { Budget } from '../budget.ts';
import { folded, foldedText } from '../texts/folded.ts';

/**
 * Where something was found, or null. `from` is where to begin. Charges the budget for every try; throws OverBudget.
 */
export type Find = (text: string, from: number, budget: Budget) => Span | null;
export type Span = { start: number; end: number };

/**
 * May a finding begin there? No letter or digit is before it, but the end of an escape (`\\n`, `\\u003c`) or of a
 * percent code (`%3D`). In code, since a look-behind at every position costs ten times as much.
 */
export function isBorderBefore(text: string, start: number): boolean {
  if (!isAlphanumeric(text.charCodeAt(start - 1))) return true;
  if (text[start - 3] === '%') return isHex(text.charCodeAt(start - 2)) && isHex(text.charCodeAt(start - 1));
  if (text[start - 2] === '\\' && 'bfnrt'.includes(text[start - 1]!)) return text[start - 3] !== '\\';
  return text[start - 5] === 'u' && UNICODE_ESCAPE.test(text.slice(Math.max(0, start - 7), start));
}

/**
 * The same in an expression whose findings have no bound: a start that is none must not be tried, since each try reads
 * to the end.
 */
export const BORDER_BEFORE = '(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=(?<!\\\\)\\\\(?:[bfnrt]|u[0-9A-Fa-f]{4})))';

const UNICODE_ESCAPE = /(?<!\\)\\u[0-9A-Fa-f]{4}$/;

/** The units of one try that finds nothing, up to about 600 ns; characters are charged by the scanner. */
export const TRY_UNITS = 200;

/** The first match of a global expression from a position on that may begin there and that `accept` takes. */
export function firstOf(
  expression: RegExp,
  text: string,
  from: number,
  budget: Budget,
  accept: (found: string, start: number, end: number) => boolean,
): Span | null {
  expression.lastIndex = from;
  for (let m = expression.exec(text); m !== null; m = expression.exec(text)) {
    budget.spend(TRY_UNITS);
    const start = m.index;
    const end = start + m[0].length;
    if (isBorderBefore(text, start) && accept(m[0], start, end)) return { start, end };
    // Not from `end`: a wrong start must not hide the right one behind it.
    expression.lastIndex = start + 1;
  }
  return null;
}

/** A decimal digit of another script than ours; in the syntax of both. */
export const FOREIGN_DIGIT = '[^\\P{Nd}0-9]';
const FOREIGN_DIGITS = new RegExp(FOREIGN_DIGIT, 'gu');
const DECIMAL_DIGIT = /\p{Nd}/u;
const digitValues = new Map<string, string>();
/** The units per character of a text whose digits are read as ours, about 40 ns. */
const READING_UNITS = 12;
/** Several detectors ask for the same text, one after the other. */
const last = { foreign: '', ours: '' };

/** The same search where digits may be those of any script of the basic plane, such as `٤١١١`. */
export function inAnyScript(find: Find): Find {
  return (text, from, budget) => {
    if (text !== last.foreign) {
      const ours = text.replace(FOREIGN_DIGITS, ourDigit);
      if (ours === text) return find(text, from, budget);
      budget.spend(READING_UNITS * text.length);
      last.foreign = text;
      last.ours = ours;
    }
    return find(last.ours, from, budget);
  };
}

type FindNamed = (name: string, value: string) => Span | null;

/** The same where name and value are folded. The place is that in the value as sent; longer ones are not asked for. */
export function inFolded(find: FindNamed): FindNamed {
  return (name, value) => {
    const found = find(name, value);
    if (found !== null || value.length > FOLDED_CHARACTERS_MAX || name.length > FOLDED_CHARACTERS_MAX) return found;
    const form = folded(value);
    const plain = foldedText(name);
    const span = form === undefined && plain === name ? null : find(plain, form?.text ?? value);
    if (span === null || form === undefined) return span;
    return { start: form.places.starts[span.start]!, end: form.places.ends[span.end - 1]! };
  };
}

const FOLDED_CHARACTERS_MAX = 1_000;

/** Unit for unit, so that places stay; the ten of a script follow one another, and no two scripts' do. */
export function ourDigit(digit: string): string {
  if (digit.length > 1) return digit;
  let value = digitValues.get(digit);
  if (value === undefined) {
    let before = 0;
    while (DECIMAL_DIGIT.test(String.fromCharCode(digit.charCodeAt(0) - before - 1))) before++;
    value = String(before);
    digitValues.set(digit, value);
  }
  return value;
}

export function digitsOf(text: string): string {
  return text.replace(/\D/g, '');
}

export function isDigit(unit: number): boolean {
  return unit >= 48 && unit <= 57;
}

export function isAlphanumeric(unit: number): boolean {
  return isDigit(unit) || (unit >= 65 && unit <= 90) || (unit >= 97 && unit <= 122);
}

export function isHex(unit: number): boolean {
  return isDigit(unit) || (unit >= 65 && unit <= 70) || (unit >= 97 && unit <= 102);
}

export function isWordOrDash(unit: number): boolean {
  return isAlphanumeric(unit) || unit === 45 || unit === 95;
}

function touchesLetterOrDigit(text: string, start: number, end: number): boolean {
  return isAlphanumeric(text.charCodeAt(start - 1)) || isAlphanumeric(text.charCodeAt(end));
}

export function touchesWord(text: string, start: number, end: number): boolean {
  return touchesLetterOrDigit(text, start, end) || text[start - 1] === '_' || text[end] === '_';
}

/** Part of `0.123…` or of a longer dotted row. */
export function isDecimalNeighbour(text: string, start: number, end: number): boolean {
  const before = text[start - 1] === '.' && isDigit(text.charCodeAt(start - 2));
  return before || (text[end] === '.' && isDigit(text.charCodeAt(end + 1)));
}

/** Part of a longer row parted by dashes, as in a UUID: a word without digits beside a dash is none. */
export function isDashNeighbour(text: string, start: number, end: number): boolean {
  return (
    (text[start - 1] === '-' && hasDigit(text, start - 2, -1)) || (text[end] === '-' && hasDigit(text, end + 1, 1))
  );
}

const NEIGHBOUR_CHARACTERS_MAX = 40;

/** In the letters and digits from `at` on, forwards or backwards. */
function hasDigit(text: string, at: number, step: 1 | -1): boolean {
  for (let i = 0; i < NEIGHBOUR_CHARACTERS_MAX && isAlphanumeric(text.charCodeAt(at)); i++, at += step)
    if (isDigit(text.charCodeAt(at))) return true;
  return false;
}
