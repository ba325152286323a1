// Finds payment cards, bank accounts and social security numbers, by their checksums (see detectors.ts for what holds
// for all).
import type { Budget } from '../budget.ts';
import {
  digitsOf,
  firstOf,
  isAlphanumeric,
  isBorderBefore,
  isDashNeighbour,
  isDecimalNeighbour,
  isDigit,
  type Span,
  TRY_UNITS,
} from './detector-search.ts';

/** Between the groups of a card. Commas, bars and ends of lines are left out: those part the numbers of a list. */
const CARD_SEPARATOR = '(?: {1,3}| [-/] |[-./_:+·•]|%20)';
/** Where a row of groups must begin that can be a card; in the syntax of both. */
export const CARD_CANDIDATE = `[0-9]{12}|[0-9]{4}${CARD_SEPARATOR}[0-9]{4}(?:[0-9]{2})?${CARD_SEPARATOR}[0-9]{4}`;

/** 12-19 digits in one piece, or in the groups that are printed on cards or that people write. */
const CARD = new RegExp(
  `(?:\\d{4}(${CARD_SEPARATOR})\\d{4}\\1\\d{4}\\1\\d{3,4}(?:\\1\\d{1,3})?|` +
    `\\d{4}(${CARD_SEPARATOR})\\d{6}\\2\\d{4,5}|\\d{12,19})(?![A-Za-z0-9])`,
  'g',
);
/** The fraction of zeros that a spreadsheet writes behind a whole number. */
const NO_FRACTION = /^\.0{1,4}(?![\w.])/;

export function findCard(text: string, from: number, budget: Budget): Span | null {
  return firstOf(CARD, text, from, budget, (found, start, end) => {
    const behind = NO_FRACTION.exec(text.slice(end, end + 8))?.[0].length ?? 0;
    if (isDecimalNeighbour(text, start, end + behind) || isDashNeighbour(text, start, end)) return false;
    const digits = digitsOf(found.replaceAll('%20', ''));
    return isIssued(digits) && luhn(digits) && !isRow(text, start, end);
  });
}

/** Two further groups of four before or behind it: a row of a table. One may be a date of expiry. */
const GROUPS_BEFORE = new RegExp(`(?:\\d{4}${CARD_SEPARATOR}){2}$`);
const GROUPS_BEHIND = new RegExp(`^(?:${CARD_SEPARATOR}\\d{4}){2}(?!\\d)`);
const GROUPS_CHARACTERS = 15;

function isRow(text: string, start: number, end: number): boolean {
  return (
    GROUPS_BEFORE.test(text.slice(Math.max(0, start - GROUPS_CHARACTERS), start)) ||
    GROUPS_BEHIND.test(text.slice(end, end + GROUPS_CHARACTERS))
  );
}

/** A card as a whole number: a shorter one of 12 digits is too often something else. */
export function isCardNumber(digits: string): boolean {
  return digits.length >= 13 && isIssued(digits) && luhn(digits);
}

/** Do prefix and length belong to a network? */
function isIssued(digits: string): boolean {
  const { length } = digits;
  const two = Number(digits.slice(0, 2));
  const three = Number(digits.slice(0, 3));
  const four = Number(digits.slice(0, 4));
  if (digits[0] === '4') return length === 13 || length === 16 || length === 19; // Visa
  if (two >= 51 && two <= 55) return length === 16; // Mastercard
  if (four >= 2221 && four <= 2720) return length === 16; // Mastercard
  if (two === 34 || two === 37) return length === 15; // American Express
  if (two === 36 || two === 38 || two === 39 || (three >= 300 && three <= 305)) return length === 14; // Diners Club
  if (four === 6011 || two === 65 || (three >= 644 && three <= 649)) return length >= 16; // Discover
  if (four >= 3528 && four <= 3589) return length >= 16; // JCB
  if (two === 62) return length >= 16; // UnionPay
  return [5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763].includes(four); // Maestro, 12-19
}

function luhn(digits: string): boolean {
  let sum = 0;
  for (let i = digits.length - 1, double = false; i >= 0; i--, double = !double) {
    const digit = digits.charCodeAt(i) - 48;
    sum += double ? (digit > 4 ? 2 * digit - 9 : 2 * digit) : digit;
  }
  return sum % 10 === 0 && /[1-9]/.test(digits);
}

/** The form of an IBAN behind country and check digits (ISO 13616 register): n digits, a letters, c either. */
const IBAN_FORMS: Record<string, { length: number; form: RegExp }> = Object.fromEntries(
  (
    'AD:8n12c AE:19n AL:8n16c AT:16n AZ:4a20c BA:16n BE:12n BG:4a6n8c BH:4a14c BI:23n BR:23n1a1c BY:4c4n16c CH:5n12c CR:18n CY:8n16c ' +
    'CZ:20n DE:18n DJ:23n DK:14n DO:4c20n EE:16n EG:25n ES:20n FI:14n FK:2a12n FO:14n FR:10n11c2n GB:4a14n GE:2a16n GI:4a15c GL:14n ' +
    'GR:7n16c GT:24c HN:4a20n HR:17n HU:24n IE:4a14n IL:19n IQ:4a15n IS:22n IT:1a10n12c JO:4a4n18c KW:4a22c KZ:3n13c LB:4n20c LC:4a24c ' +
    'LI:5n12c LT:16n LU:3n13c LV:4a13c LY:21n MC:10n11c2n MD:20c ME:18n MK:3n10c2n MN:16n MR:23n MT:4a5n18c MU:4a19n3a NI:4a20n NL:4a10n ' +
    'NO:11n OM:3n16c PK:4a16c PL:24n PS:4a21c PT:21n QA:4a21c RO:4a16c RS:18n RU:14n15c SA:2n18c SC:4a20n3a SD:14n SE:20n SI:15n SK:20n ' +
    'SM:1a10n12c SO:19n ST:21n SV:4a20n TL:19n TN:20n TR:6n16c UA:6n19c VA:18n VG:4a16n XK:16n YE:4a4n18c'
  )
    .split(' ')
    .map((entry) => {
      const parts = [...entry.slice(3).matchAll(/(\d+)([nac])/g)].map(([, count, kind]) => ({
        count: Number(count),
        kind,
      }));
      const form = parts.map(({ count, kind }) => `${{ n: '\\d', a: '[A-Z]', c: '[A-Z0-9]' }[kind as 'n']}{${count}}`);
      const length = parts.reduce((sum, { count }) => sum + count, 4);
      return [entry.slice(0, 2), { length, form: new RegExp(`^.{4}${form.join('')}$`) }];
    }),
);
/** Letters and digits of an IBAN, by its country. */
export const IBAN_LENGTHS: ReadonlyMap<string, number> = new Map(
  Object.entries(IBAN_FORMS).map(([country, { length }]) => [country, length]),
);
const IBAN_START = /[A-Za-z]{2}\d{2}|[A-Z]{2}[ -]\d{2}/g;
/** In the syntax of the scanner. */
export const IBAN_CANDIDATE = `(?:[A-Za-z]{2}|[A-Z]{2}[ -])[0-9]{2}(?: {1,2}|[-./_:·+]|%20)?[A-Za-z0-9]{2}`;

export function findIban(text: string, from: number, budget: Budget): Span | null {
  IBAN_START.lastIndex = from;
  for (let m = IBAN_START.exec(text); m !== null; m = IBAN_START.exec(text)) {
    budget.spend(2 * TRY_UNITS);
    const end = isBorderBefore(text, m.index) ? ibanEnd(text, m.index) : -1;
    if (end > 0) return { start: m.index, end };
    IBAN_START.lastIndex = m.index + 1;
  }
  return null;
}

/** Between the groups of an IBAN: one of these, the same each time between groups of four, or two blanks. */
const IBAN_SEPARATOR = /(?: {1,2}|[-./_:·+]|%20)/y;
const IBAN_SEPARATORS_MAX = 12;
/** Fewer digits, or small letters, in groups of other sizes: words. */
const IRREGULAR_DIGITS_MIN = 10;

/** End of a valid IBAN that starts there, in one piece or in groups; -1: there is none. */
function ibanEnd(text: string, start: number): number {
  const country = IBAN_FORMS[text.slice(start, start + 2).toUpperCase()];
  if (country === undefined) return -1;
  let iban = '';
  let separators = 0;
  let first = '';
  let isRegular = true;
  let i = start;
  while (iban.length < country.length) {
    if (isAlphanumeric(text.charCodeAt(i))) {
      iban += text[i++];
      continue;
    }
    IBAN_SEPARATOR.lastIndex = i;
    const separator = IBAN_SEPARATOR.exec(text)?.[0];
    if (separator === undefined || iban.length < 2 || iban.length === 3 || ++separators > IBAN_SEPARATORS_MAX)
      return -1;
    first ||= separator;
    isRegular &&= separator === first && iban.length % 4 === 0;
    i += separator.length;
  }
  const upper = iban.toUpperCase();
  if (isAlphanumeric(text.charCodeAt(i)) || !country.form.test(upper) || mod97(upper) !== 1) return -1;
  return isRegular || (iban === upper && digitsOf(iban).length >= IRREGULAR_DIGITS_MIN) ? i : -1;
}

function mod97(iban: string): number {
  let rest = 0;
  for (let i = 0; i < iban.length; i++) {
    const unit = iban.charCodeAt((i + 4) % iban.length);
    rest = isDigit(unit) ? (rest * 10 + unit - 48) % 97 : (rest * 100 + unit - 55) % 97;
  }
  return rest;
}

const SSN_CALLED = 'ssn|soc(?:ial|\\.)?[ _.-]{0,2}sec(?:urity|\\.)?';
const SSN_NAME = new RegExp(`(?:^|[^a-z])(?:${SSN_CALLED})(?:$|[^a-z])|social.?security`, 'i');
const SSN_DIGITS = /^(?!000|666)[0-8]\d{2}(?!00)\d{2}(?!0000)\d{4}$/;

/** Nine digits are a social security number where their member is called so. */
export function isNamedSsn(digits: string, key: string): boolean {
  return digits.length === 9 && SSN_DIGITS.test(digits) && SSN_NAME.test(key.slice(0, NAME_CHARACTERS_MAX));
}

/** The same as a text. */
export function findSsnByName(name: string, value: string): Span | null {
  return isNamedSsn(value, name) ? { start: 0, end: value.length } : null;
}

const NAME_CHARACTERS_MAX = 100;

/** Between the parts, the same each time; in the syntax of both. */
const SSN_SEPARATORS = ['-', ' ', '\\.', '/', '_', ' - ', '%20', '·'];
export const SSN_CANDIDATE = `${SSN_SEPARATORS.map((s) => `[0-8][0-9]{2}${s}[0-9]{2}${s}[0-9]{4}`).join('|')}|(?i:ssn|soc.{0,6}sec)`;
/**
 * Areas 000, 666 and 900-999, group 00 and serial 0000 were never given out. Nine digits alone are an ordinary number.
 */
const SSN = new RegExp(
  `(?!000|666)[0-8]\\d{2}(${SSN_SEPARATORS.join('|')})(?!00)\\d{2}\\1(?!0000)\\d{4}(?![A-Za-z0-9])`,
  'g',
);
/** Nine digits right behind the name. */
const NAMED_SSN = new RegExp(
  `(?<![A-Za-z])(?:${SSN_CALLED})(?:.{0,3}(?:number|no\\.?|nr\\.?|#))?["'\\\\]{0,3}\\s{0,3}(?:[:=#,]|=>|is\\s|%3[ADad])?` +
    `\\s{0,3}["'\\\\]{0,3}((?!000|666)[0-8]\\d{2}(?!00)\\d{2}(?!0000)\\d{4})(?![A-Za-z0-9])`,
  'gi',
);

export function findNamedSsn(text: string, from: number, budget: Budget): Span | null {
  NAMED_SSN.lastIndex = from;
  const m = NAMED_SSN.exec(text);
  if (m === null) return null;
  budget.spend(TRY_UNITS);
  const end = m.index + m[0].length;
  return { start: end - m[1]!.length, end };
}

export function findSsn(text: string, from: number, budget: Budget): Span | null {
  return firstOf(SSN, text, from, budget, (_, start, end) => {
    return (
      !isDashNeighbour(text, start, end) && !isDecimalNeighbour(text, start, end) && !isSlashNeighbour(text, start, end)
    );
  });
}

/** Part of a path or of a longer row. */
function isSlashNeighbour(text: string, start: number, end: number): boolean {
  const separator = text[start + 3]!;
  if (separator !== '/' && separator !== '_') return false;
  const isBefore = text[start - 1] === separator && isDigit(text.charCodeAt(start - 2));
  return isBefore || (text[end] === separator && isDigit(text.charCodeAt(end + 1)));
}
