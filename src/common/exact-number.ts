// Numbers of JSON exactly as they are written. A double distinguishes decimals of up to 15 digits and keeps their
// order, so most numbers are doubles as ever. What has more digits, or lies where doubles run out, is a LongNumber,
// which keeps its text. Used where policies and events are read and compared; what is stored or sent is text and never
// comes here.
// Invariant: a LongNumber never equals a number, for whatever has a short form is read as a number.
import type { JsonObject } from '../../schemas/common.ts';

const NUMBER = /^(-?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/;
const DIGITS_EXACT = 15;
/** Doubles lose digits below 1e-307 and end at 1.8e308. */
const POINT_EXACT = 290;
/** Exponents beyond count as this. */
const EXPONENT_MAX = 1e15;

/** `0.DIGITS` times ten to the power of `point`, without zeros at either end. Zero has no digits. */
type Decimal = { isNegative: boolean; digits: string; point: number };

/** The value that JSON.stringify writes for one: see exact-json.ts. */
type Writing = (number: LongNumber) => unknown;

export class LongNumber {
  /** As JSON.stringify writes it unless exact-json.ts is at work: the nearest double. */
  static writing: Writing = (number) => Number(number.text);
  readonly #text: string;
  readonly #decimal: Decimal;

  constructor(text: string, decimal = decimalOf(text)) {
    this.#text = text;
    this.#decimal = decimal;
  }

  /** As it was written. */
  get text(): string {
    return this.#text;
  }

  get decimal(): Decimal {
    return this.#decimal;
  }

  /** The whole number that it is; undefined: it has a fraction, or more than `digitsMax` digits. */
  integer(digitsMax: number): bigint | undefined {
    const { isNegative, digits, point } = this.#decimal;
    if (point < digits.length || point > digitsMax) return undefined;
    const whole = BigInt(digits.padEnd(point, '0'));
    return isNegative ? -whole : whole;
  }

  /** The same text for equal numbers. */
  toString(): string {
    const { isNegative, digits, point } = this.#decimal;
    const isShort = point >= digits.length && point <= 40;
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : '';
    return (isNegative ? '-' : '') + (isShort ? digits.padEnd(point, '0') : `${digits[0]}${fraction}e${point - 1}`);
  }

  valueOf(): number {
    return Number(this.#text);
  }

  toJSON(): unknown {
    return LongNumber.writing(this);
  }
}

export type ExactNumber = number | LongNumber;

/** Is it an object of JSON? A long number is none. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof LongNumber);
}

export function isNumber(value: unknown): value is ExactNumber {
  return Number.isFinite(value) || value instanceof LongNumber;
}

/** `text`: a number as JSON writes it. */
export function exactNumber(text: string): ExactNumber {
  const decimal = decimalOf(text);
  return isLong(decimal) ? new LongNumber(text, decimal) : Number(text);
}

const NUMBER_TEXT = /^\s*\+?(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*$/;
const NUMBER_TEXT_CHARACTERS_MAX = 10_000;

/** The number that a text is; undefined: none. */
export function numberOfText(text: string): ExactNumber | undefined {
  if (text.length > NUMBER_TEXT_CHARACTERS_MAX) return undefined;
  const found = NUMBER_TEXT.exec(text);
  return found === null ? undefined : exactNumber(found[1]!);
}

/** Below 0: `a` is the lesser. 0: they are the same number. */
export function compareNumbers(a: ExactNumber, b: ExactNumber): number {
  if (typeof a === 'number' && typeof b === 'number') return a < b ? -1 : a > b ? 1 : 0;
  return compareDecimals(decimalOfNumber(a), decimalOfNumber(b));
}

/** Is `value` a whole multiple of `divisor`? undefined: one of them has too many digits to find out. */
export function isMultiple(value: ExactNumber, divisor: ExactNumber): boolean | undefined {
  const [dividend, by] = [decimalOfNumber(value), decimalOfNumber(divisor)];
  if (dividend.digits === '') return true;
  if (by.digits === '') return false;
  if (dividend.digits.length > DIVIDED_DIGITS_MAX || by.digits.length > DIVIDED_DIGITS_MAX) return undefined;
  const shift = dividend.point - dividend.digits.length - (by.point - by.digits.length);
  const [whole, divided] = [BigInt(dividend.digits), BigInt(by.digits)];
  if (shift >= 0) return (whole * powerModulo(10n, shift, divided)) % divided === 0n;
  // A number without zeros at its end is divided by ten fewer times than it has digits.
  return -shift <= dividend.digits.length && whole % (divided * 10n ** BigInt(-shift)) === 0n;
}

const DIVIDED_DIGITS_MAX = 1_000;

function powerModulo(base: bigint, exponent: number, modulus: bigint): bigint {
  let power = 1n % modulus;
  let square = base % modulus;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) power = (power * square) % modulus;
    square = (square * square) % modulus;
  }
  return power;
}

function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.isNegative !== b.isNegative) return a.isNegative ? -1 : 1;
  const sign = a.isNegative ? -1 : 1;
  if (a.digits === '' || b.digits === '') return sign * (Number(a.digits !== '') - Number(b.digits !== ''));
  if (a.point !== b.point) return a.point < b.point ? -sign : sign;
  return a.digits === b.digits ? 0 : a.digits < b.digits ? -sign : sign;
}

/** A double is the shortest text that comes to it, which is what was written where it has no more than 15 digits. */
function decimalOfNumber(value: ExactNumber): Decimal {
  return typeof value === 'number' ? decimalOf(String(value)) : value.decimal;
}

function decimalOf(text: string): Decimal {
  const [, sign, whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  const all = withoutZerosBehind(whole + fraction);
  const digits = all.replace(/^0+/, '');
  const shift = Math.max(-EXPONENT_MAX, Math.min(EXPONENT_MAX, Number(exponent)));
  const point = digits === '' ? 0 : whole.length + shift - (all.length - digits.length);
  return { isNegative: sign === '-' && digits !== '', digits, point };
}

/** By hand: `/0+$/` begins again at every zero of a long row. */
function withoutZerosBehind(digits: string): string {
  let end = digits.length;
  while (end > 0 && digits.charCodeAt(end - 1) === 0x30) end--;
  return digits.slice(0, end);
}

function isLong({ digits, point }: Decimal): boolean {
  return digits.length > DIGITS_EXACT || Math.abs(point) > POINT_EXACT;
}
