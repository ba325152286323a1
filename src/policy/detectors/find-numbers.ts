// Finds payment cards, bank accounts and social security numbers, by their checksums (see detectors.ts for what holds
// for all).
import type { Budget } from '../budget.ts';
import {
  digitsOf,
  firstOf,
  isAlphanumeric,
  isDashNeighbour,
  isDecimalNeighbour,
  isDigit,
  type Span,
  TRY_UNITS,
} from './detector-search.ts';

/** 12-19 digits in one piece, or in the groups that are printed on cards, parted by one space or dash each. */
const CARD =
  /(?<![A-Za-z0-9])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?|\d{4}([ -])\d{6}\2\d{4,5}|\d{12,19})(?![A-Za-z0-9])/g;

export function findCard(text: string, from: number, budget: Budget): Span | null {
  return firstOf(CARD, text, from, budget, (found, start, end) => {
    if (isDecimalNeighbour(text, start, end) || isDashNeighbour(text, start, end)) return false;
    const digits = digitsOf(found);
    return isIssued(digits) && luhn(digits);
  });
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

/** Length of an IBAN by country (ISO 13616 register). */
const IBAN_LENGTHS: Record<string, number> = Object.fromEntries(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 ' +
    'FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ' +
    'ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ' +
    'ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))]),
);
const IBAN_START = /(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}/g;

export function findIban(text: string, from: number, budget: Budget): Span | null {
  IBAN_START.lastIndex = from;
  for (let m = IBAN_START.exec(text); m !== null; m = IBAN_START.exec(text)) {
    budget.spend(2 * TRY_UNITS);
    const end = ibanEnd(text, m.index);
    if (end > 0) return { start: m.index, end };
    IBAN_START.lastIndex = m.index + 1;
  }
  return null;
}

/** End of a valid IBAN that starts there, written in one piece or in groups of four; -1 if there is none. */
function ibanEnd(text: string, start: number): number {
  const length = IBAN_LENGTHS[text.slice(start, start + 2).toUpperCase()];
  if (length === undefined) return -1;
  let iban = '';
  let i = start;
  for (; iban.length < length; i++) {
    const unit = text.charCodeAt(i);
    if (isAlphanumeric(unit)) iban += text[i];
    else if (unit !== 32 || iban.length % 4 !== 0 || text.charCodeAt(i - 1) === 32) return -1;
  }
  return !isAlphanumeric(text.charCodeAt(i)) && mod97(iban.toUpperCase()) === 1 ? i : -1;
}

function mod97(iban: string): number {
  let rest = 0;
  for (let i = 0; i < iban.length; i++) {
    const unit = iban.charCodeAt((i + 4) % iban.length);
    rest = isDigit(unit) ? (rest * 10 + unit - 48) % 97 : (rest * 100 + unit - 55) % 97;
  }
  return rest;
}

const SSN_NAME = /(?:^|[^a-z])ssn(?:$|[^a-z])|social.?security/i;
const SSN_DIGITS = /^(?!000|666)[0-8]\d{2}(?!00)\d{2}(?!0000)\d{4}$/;

/** Nine digits are a social security number where their member is called so. */
export function isNamedSsn(digits: string, key: string): boolean {
  return digits.length === 9 && SSN_DIGITS.test(digits) && SSN_NAME.test(key.slice(0, NAME_CHARACTERS_MAX));
}

const NAME_CHARACTERS_MAX = 100;

/**
 * Areas 000, 666 and 900-999, group 00 and serial 0000 were never given out. Nine digits alone are an ordinary number.
 */
const SSN = /(?<!\w)(?!000|666)[0-8]\d{2}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?!\w)/g;

export function findSsn(text: string, from: number, budget: Budget): Span | null {
  return firstOf(SSN, text, from, budget, (_, start, end) => {
    return !isDashNeighbour(text, start, end) && !isDecimalNeighbour(text, start, end);
  });
}
