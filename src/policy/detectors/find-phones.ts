// Finds telephone numbers (see detectors.ts for what holds for all): international ones, North American ones, and those
// of the countries that a policy names in `regions` as they are dialled there.
import type { Budget } from '../budget.ts';
import {
  digitsOf,
  type Find,
  firstOf,
  isAlphanumeric,
  isBorderBefore,
  isDashNeighbour,
  isDecimalNeighbour,
  isDigit,
  type Span,
  TRY_UNITS,
} from './detector-search.ts';
import { isInternationalNumber, isNationalNumber } from './numbering-plans.ts';

/**
 * North American, with its separators. Digits alone are an ordinary number; area codes 200, 300 and 400 are not given.
 */
const LOCAL_PHONE = /(?:1[ .-])?(?:\([2-9]\d{2}\)[ .-]?|(?![234]00)[2-9]\d{2}[.-])[2-9]\d{2}[ .-]\d{4}(?![A-Za-z0-9])/g;
const DIGITS_MIN = 7;
/** Any number has so many digits at most, with its country's code. */
const DIGITS_MAX = 15;
/** Asking a numbering plan, about 500 ns. */
const PLAN_UNITS = 200;
const ZERO = 48;

export function findLocalPhone(text: string, from: number, budget: Budget): Span | null {
  return firstOf(LOCAL_PHONE, text, from, budget, (_, start, end) => {
    return !isDecimalNeighbour(text, start, end) && !isDashNeighbour(text, start, end);
  });
}

/** `+`, also as a percent code, or `00` before groups: without a separator it is an ordinary number. */
const INTERNATIONAL = /\+|%2[Bb]|(?<![A-Za-z0-9.,-])0(?=0[1-9]\d{0,3}[ ().-])/g;

export function findInternationalPhone(text: string, from: number, budget: Budget): Span | null {
  INTERNATIONAL.lastIndex = from;
  for (let m = INTERNATIONAL.exec(text); m !== null; m = INTERNATIONAL.exec(text)) {
    budget.spend(TRY_UNITS);
    const start = m.index;
    const end = isAlphanumeric(text.charCodeAt(start - 1))
      ? -1
      : internationalEnd(text, start + (m[0] === '+' ? 0 : m[0].length === 3 ? 2 : 1), budget);
    if (end > 0) return { start, end };
  }
  return null;
}

/**
 * The longest row of groups behind a `+` that can be a number; what follows it may be something else. It begins right
 * there, or in a bracket: `a + 41…` is arithmetic.
 */
function internationalEnd(text: string, plus: number, budget: Budget): number {
  const first = text.charCodeAt(text[plus + 1] === '(' ? plus + 2 : plus + 1);
  if (!isDigit(first) || first === ZERO) return -1;
  let digits = '';
  let end = -1;
  for (let i = plus + 1; digits.length <= DIGITS_MAX; i++) {
    const unit = text.charCodeAt(i);
    if (isDigit(unit)) {
      digits += text[i];
      continue;
    }
    if (digits.length >= DIGITS_MIN && isDigit(text.charCodeAt(i - 1)) && !isAlphanumeric(unit)) {
      budget.spend(PLAN_UNITS);
      if (isInternationalNumber(digits)) end = i;
    }
    if (WIDE_SEPARATORS.includes(text.slice(i, i + 3)) && isDigit(text.charCodeAt(i + 3))) i += 2;
    else if (!isPhoneSeparator(text, i) || DATE_NEXT.test(text.slice(i, i + 9))) break;
  }
  return end;
}

/** The separators of three characters; `%20` is a blank in an address. */
const WIDE_SEPARATORS = [' / ', ' - ', '%20'];
/** A date behind a number is none of its groups. */
const DATE_NEXT = /^[ .-]\d{4}-\d{2}-/;

/** One separator between digits, or one beside a bracket. */
function isPhoneSeparator(text: string, i: number): boolean {
  const here = text[i];
  if (here === '(' || here === ')') return text[i + 1] !== here;
  if (here === '/' || here === '_') return isDigit(text.charCodeAt(i + 1));
  return (here === ' ' || here === '.' || here === '-') && (isDigit(text.charCodeAt(i + 1)) || text[i + 1] === '(');
}

/** Every national number holds this: digits with at most two separators between them. */
export const NATIONAL_CANDIDATE = '[0-9](?:[ ()./-]{0,2}[0-9]){6}';
/** A whole row of digits and separators: of a longer one no part is a number. */
const ROW = /\(?\d(?:[ ()./-]{0,2}\d)*/g;
const GROUP = /\d+/g;
/** Addresses, dates and years in the forms that some plan takes for a number. */
const NO_PHONE =
  /^(?:\d{1,3}(?:\.\d{1,3}){3}|\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4}|\d+\.\d+|(?:19|20)\d\d[-/ ](?:19|20)\d\d)$/;

const DATE_BEHIND = /[ .-]\d{4}-\d{2}-\d{2}$/;

/** As it is dialled inside one of these countries. */
export function nationalPhoneFinder(regions: readonly string[]): Find {
  return (text, from, budget) => {
    ROW.lastIndex = from;
    for (let m = ROW.exec(text); m !== null; m = ROW.exec(text)) {
      if (m[0].length < DIGITS_MIN) continue;
      budget.spend(TRY_UNITS);
      const row = m[0].replace(DATE_BEHIND, '');
      const start = m.index;
      const end = start + row.length;
      if (!looksDialled(row) || !standsAlone(text, start, end)) continue;
      const digits = digitsOf(row);
      budget.spend(PLAN_UNITS * regions.length);
      if (regions.some((region) => isNationalNumber(digits, region))) return { start, end };
    }
    return null;
  };
}

/** One piece is an ordinary number, unless it begins with `0`; and no number is written digit by digit. */
function looksDialled(row: string): boolean {
  const groups = row.match(GROUP)!;
  const digits = groups.reduce((sum, group) => sum + group.length, 0);
  if (digits < DIGITS_MIN || digits > DIGITS_MAX || NO_PHONE.test(row)) return false;
  if (groups.length === 1) return row.length === digits && /^0[1-9]/.test(row);
  return groups.slice(1).every((group) => group.length > 1);
}

function standsAlone(text: string, start: number, end: number): boolean {
  if (!isBorderBefore(text, start) || isAlphanumeric(text.charCodeAt(end))) return false;
  const isPartOfNumber =
    /[+.,_-]/.test(text[start - 1] ?? '') && /[\d+]/.test(text.slice(Math.max(0, start - 2), start));
  return !isPartOfNumber && !/^[,.]\d/.test(text.slice(end, end + 2)) && !isDashNeighbour(text, start, end);
}
