// Finds e-mail addresses, telephone numbers and IP addresses (see detectors.ts for what holds for all).
import type { Budget } from '../budget.ts';
import {
  firstOf,
  isAlphanumeric,
  isDashNeighbour,
  isDecimalNeighbour,
  isDigit,
  isHex,
  isWordOrDash,
  type Span,
  TRY_UNITS,
  touchesWord,
} from './detector-search.ts';

const LOCAL_CHARACTERS_MAX = 64;
const DOMAIN_CHARACTERS_MAX = 253;
/** Endings of file names that follow an `@` (`logo@2x.png`). */
const FILE_ENDINGS = new Set([
  'png',
  'jpg',
  'jpeg',
  'gif',
  'svg',
  'webp',
  'css',
  'js',
  'mjs',
  'ts',
  'json',
  'html',
  'py',
]);

export function findEmail(text: string, from: number, budget: Budget): Span | null {
  for (let at = text.indexOf('@', from); at >= 0; at = text.indexOf('@', at + 1)) {
    budget.spend(TRY_UNITS / 4);
    const start = localStart(text, at, from);
    const end = start < at && isAlphanumeric(text.charCodeAt(at + 1)) ? domainEnd(text, at + 1, budget) : -1;
    if (end > 0) return { start, end };
  }
  return null;
}

function localStart(text: string, at: number, from: number): number {
  let start = at;
  const min = Math.max(from, at - LOCAL_CHARACTERS_MAX);
  while (start > min && isLocal(text.charCodeAt(start - 1))) start--;
  while (start < at && !isWordOrDash(text.charCodeAt(start)) && text[start] !== '+') start++;
  return text[at - 1] === '.' ? at : start;
}

function domainEnd(text: string, start: number, budget: Budget): number {
  const labels: number[] = [start];
  const max = Math.min(text.length, start + DOMAIN_CHARACTERS_MAX);
  let i = start;
  while (i < max && (isWordOrDash(text.charCodeAt(i)) || (text[i] === '.' && isAlphanumeric(text.charCodeAt(i + 1))))) {
    if (text[i] === '.') labels.push(i + 1);
    i++;
  }
  while (i > start && text[i - 1] === '-') i--;
  // The last label that can be a top-level domain ends the address: what follows it is the sentence's.
  for (let last = labels.length - 1, end = i; last > 0; last--) {
    budget.spend(TRY_UNITS / 4);
    const top = text.slice(labels[last], end);
    if (/^(?:[A-Za-z]{2,63}|xn--[A-Za-z0-9-]{2,59})$/.test(top)) {
      return FILE_ENDINGS.has(top.toLowerCase()) && isDigit(text.charCodeAt(start)) ? -1 : end;
    }
    end = labels[last]! - 1;
  }
  return -1;
}

function isLocal(unit: number): boolean {
  return isAlphanumeric(unit) || (unit < 128 && "._%+-'".includes(String.fromCharCode(unit)));
}

/** North American, with its separators. Digits alone are an ordinary number. */
const LOCAL_PHONE = /(?<!\w)(?:1[ .-])?(?:\([2-9]\d{2}\)[ .-]?|[2-9]\d{2}[.-])[2-9]\d{2}[ .-]\d{4}(?!\w)/g;
const PHONE_DIGITS_MIN = 8;
const PHONE_DIGITS_MAX = 15;
const ZERO = 48;

export function findLocalPhone(text: string, from: number, budget: Budget): Span | null {
  return firstOf(LOCAL_PHONE, text, from, budget, (_, start, end) => {
    return !isDecimalNeighbour(text, start, end) && !isDashNeighbour(text, start, end);
  });
}

export function findInternationalPhone(text: string, from: number, budget: Budget): Span | null {
  for (let plus = text.indexOf('+', from); plus >= 0; plus = text.indexOf('+', plus + 1)) {
    budget.spend(TRY_UNITS);
    const end = isAlphanumeric(text.charCodeAt(plus - 1)) ? -1 : internationalEnd(text, plus);
    if (end > 0) return { start: plus, end };
  }
  return null;
}

/**
 * The longest row of groups behind a `+` that can be a number; what follows it may be something else. It begins right
 * there, or in a bracket: `a + 41…` is arithmetic.
 */
function internationalEnd(text: string, plus: number): number {
  const first = text.charCodeAt(text[plus + 1] === '(' ? plus + 2 : plus + 1);
  if (!isDigit(first) || first === ZERO) return -1;
  let digits = '';
  let end = -1;
  for (let i = plus + 1; digits.length <= PHONE_DIGITS_MAX; i++) {
    const unit = text.charCodeAt(i);
    if (isDigit(unit)) {
      digits += text[i];
      continue;
    }
    if (
      digits.length >= PHONE_DIGITS_MIN &&
      hasCountryCode(digits) &&
      isDigit(text.charCodeAt(i - 1)) &&
      !isAlphanumeric(unit)
    )
      end = i;
    if (!isPhoneSeparator(text, i)) break;
  }
  return end;
}

/** One separator between digits, or one beside a bracket. */
function isPhoneSeparator(text: string, i: number): boolean {
  const here = text[i];
  if (here === '(' || here === ')') return text[i + 1] !== here;
  return (here === ' ' || here === '.' || here === '-') && (isDigit(text.charCodeAt(i + 1)) || text[i + 1] === '(');
}

/** Country codes that ITU has assigned: one digit (1, 7), two digits as listed, three digits for the rest. */
const COUNTRY_CODES_2 = new Set(
  '20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98'.split(
    ' ',
  ),
);
const COUNTRY_CODES_3 =
  /^(?:21[1-8]|2[2-6]\d|29[0-9]|35\d|37\d|38[0-79]|42[0-3]|50\d|59\d|67\d|68\d|69[0-2]|80[08]|85\d|87\d|88[0-8]|96\d|97\d|99[2-8])/;

function hasCountryCode(digits: string): boolean {
  if (digits[0] === '1') return digits.length === 11 && /^1[2-9]/.test(digits);
  return digits[0] === '7'
    ? digits.length === 11
    : COUNTRY_CODES_2.has(digits.slice(0, 2)) || COUNTRY_CODES_3.test(digits);
}

const IPV4 = /(?<!\w|\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)/g;
const IPV6_CHARACTERS_MAX = 45;

export function findIpv4(text: string, from: number, budget: Budget): Span | null {
  return firstOf(IPV4, text, from, budget, (found) => {
    return found.split('.').every((part) => Number(part) <= 255 && (part.length === 1 || part[0] !== '0'));
  });
}

/** Runs of hex digits, colons and dots, each inspected once. */
export function findIpv6(text: string, from: number, budget: Budget): Span | null {
  for (let colon = text.indexOf(':', from); colon >= 0; ) {
    budget.spend(TRY_UNITS);
    let start = colon;
    while (start > from && colon - start < 5 && isHex(text.charCodeAt(start - 1))) start--;
    let end = colon;
    while (
      end < text.length &&
      (isHex(text.charCodeAt(end)) || text[end] === ':' || (text[end] === '.' && isDigit(text.charCodeAt(end + 1))))
    )
      end++;
    const next = end;
    if (text[end - 1] === ':' && text[end - 2] !== ':') end--;
    if (end - start <= IPV6_CHARACTERS_MAX && !touchesWord(text, start, end) && isIpv6(text.slice(start, end)))
      return { start, end };
    colon = text.indexOf(':', next);
  }
  return null;
}

function isIpv6(address: string): boolean {
  const halves = address.split('::');
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  const last = groups.at(-1) ?? '';
  const embedded = last.includes('.');
  if (embedded && !/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.|$)){4}$/.test(`${last}`)) return false;
  const plain = embedded ? groups.slice(0, -1) : groups;
  if (!plain.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  const count = plain.length + (embedded ? 2 : 0);
  if (halves.length === 1) return count === 8;
  // `a::b`, `1::2`, `::` are names and slices of program text; an address has a group that looks like one.
  return (
    count < 8 && (embedded || address === '::1' || (groups.some((group) => group.length >= 3) && /\d/.test(address)))
  );
}
