// Amounts that a sequence adds up (`sum`): exact decimals of up to 18 digits before the point and 12 behind it, as
// whole numbers of the last place. Redis counts in doubles, so they go there in parts that doubles add exactly.
// Invariant: a total is never too small. What has more digits is rounded up; what is less than nothing takes nothing
// away; what is no number counts as more than any limit.
import { isNumber, LongNumber, numberOfText } from '../../common/exact-number.ts';
import { type Budget, withinBudget } from '../budget.ts';
import type { Fields } from '../conditions/field-condition.ts';
import { type Path, visitPath } from '../conditions/path.ts';

const WHOLE_DIGITS = 18;
export const FRACTION_DIGITS = 12;
const PART_DIGITS = 6;
const PARTS = (WHOLE_DIGITS + FRACTION_DIGITS) / PART_DIGITS;
const PART = 10n ** BigInt(PART_DIGITS);
const MOST = 10n ** BigInt(WHOLE_DIGITS + FRACTION_DIGITS) - 1n;

/** The parts of an amount, the lowest first. In sums they may be larger. */
export type Amount = readonly number[];

export const ZERO: Amount = Object.freeze(Array<number>(PARTS).fill(0));
const TOO_MUCH = partsOf(MOST);

/** All numbers at the path, a list's and a text's among them. */
export function amountAt(path: Path, fields: Fields, budget: Budget): Amount {
  const root = fields[path.root];
  if (root === undefined) return ZERO;
  let units = 0n;
  const visit = (value: unknown): boolean => {
    if (Array.isArray(value)) return value.some(visit);
    const number = typeof value === 'string' ? numberOfText(value) : value;
    if (!isNumber(number)) return true;
    const text = String(number);
    budget.spend(4 * text.length);
    units += unitsOf(text);
    return false;
  };
  const isUnknown = withinBudget(() => visitPath(root, path, { budget, visit, unreadable: () => true }), true);
  return isUnknown || units > MOST ? TOO_MUCH : partsOf(units);
}

/** The amount of a limit, which is a number of the policy. undefined: it has more digits. */
export function limitOf(value: unknown): Amount | undefined {
  if (!isNumber(value)) return undefined;
  const { isNegative, digits, point } = new LongNumber(String(value)).decimal;
  if (isNegative || point > WHOLE_DIGITS || digits.length - point > FRACTION_DIGITS) return undefined;
  return partsOf(unitsOf(String(value)));
}

export function added(a: Amount, b: Amount): Amount {
  return a.map((part, i) => part + b[i]!);
}

export function isMore(sum: Amount, limit: Amount): boolean {
  return wholeOf(sum) > wholeOf(limit);
}

function unitsOf(text: string): bigint {
  const { isNegative, digits, point } = new LongNumber(text).decimal;
  if (isNegative || digits === '') return 0n;
  if (point > WHOLE_DIGITS) return MOST;
  const shift = point - digits.length + FRACTION_DIGITS;
  if (shift >= 0) return BigInt(digits) * 10n ** BigInt(shift);
  const kept = digits.slice(0, Math.max(0, digits.length + shift));
  return BigInt(kept === '' ? '0' : kept) + 1n;
}

function partsOf(units: bigint): number[] {
  return Array.from({ length: PARTS }, (_, i) => Number((units / PART ** BigInt(i)) % PART));
}

function wholeOf(parts: Amount): bigint {
  return parts.reduceRight((whole, part) => whole * PART + BigInt(part), 0n);
}
