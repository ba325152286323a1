// Lets a JSON Schema compare numbers as they are written: ajv reads them as doubles, for which 19.99 is no multiple
// of 0.01.
// The keywords that compare are handed to ajv under names of our own and answered here; ajv is given the payload with
// doubles, and for each object and array this side remembers the one with the numbers as they were sent.
// Used by payload-schema.ts alone. Invariant: a schema and a payload without long numbers are judged as ever, but for
// `multipleOf`.
import type { Ajv2020 } from 'ajv/dist/2020.js';
import { compareNumbers, type ExactNumber, isMultiple, isNumber, LongNumber } from '../../common/exact-number.ts';
import { Budget, OVER_BUDGET } from '../budget.ts';

/** Keywords whose value is one schema, a list of schemas, or schemas by name. */
export const SUBSCHEMAS = {
  one: new Set([
    ...['additionalProperties', 'propertyNames', 'unevaluatedProperties', 'items', 'contains', 'unevaluatedItems'],
    ...['not', 'if', 'then', 'else'],
  ]),
  list: new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']),
  named: new Set(['properties', 'patternProperties', 'dependentSchemas']),
};

type Compares = (value: unknown, wanted: unknown, budget: Budget) => boolean;
const ordered =
  (holds: (order: number) => boolean): Compares =>
  (value, wanted) =>
    !isNumber(value) || holds(compareNumbers(value, wanted as ExactNumber));

const COMPARES: Record<string, Compares> = {
  minimum: ordered((order) => order >= 0),
  exclusiveMinimum: ordered((order) => order > 0),
  maximum: ordered((order) => order <= 0),
  exclusiveMaximum: ordered((order) => order < 0),
  multipleOf(value, wanted, budget) {
    if (!isNumber(value)) return true;
    if (Number.isSafeInteger(value) && Number.isSafeInteger(wanted))
      return (value as number) % (wanted as number) === 0;
    budget.spend(DIVISION_UNITS + DIVIDED_DIGIT_UNITS * String(value).length);
    const answer = isMultiple(value, wanted as ExactNumber);
    if (answer === undefined) throw OVER_BUDGET;
    return answer;
  },
  const: (value, wanted) => isSame(value, wanted),
  enum: (value, wanted) => (wanted as unknown[]).some((one) => isSame(value, one)),
};
const PREFIX = 'exact-';
/** About 1.5 µs, and what long numbers take beyond. */
const DIVISION_UNITS = 600;
const DIVIDED_DIGIT_UNITS = 50;

/** Does it compare numbers of any length? */
export function isExactKeyword(keyword: string): boolean {
  return Object.hasOwn(COMPARES, keyword);
}

/** A keyword of ajv's as the schema has it. */
export function keywordOf(name: string): string {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
}

/** The schema for ajv: what compares numbers goes by the names of `addExactKeywords`. */
export function exactForm(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]): [string, unknown] => {
      if (SUBSCHEMAS.one.has(keyword)) return [keyword, exactForm(value)];
      if (SUBSCHEMAS.list.has(keyword)) return [keyword, (value as unknown[]).map(exactForm)];
      if (SUBSCHEMAS.named.has(keyword)) {
        const named = Object.entries(value as object).map(([key, one]) => [key, exactForm(one)]);
        return [keyword, Object.fromEntries(named)];
      }
      const isExact = isExactKeyword(keyword) && holdsNumber(value);
      return isExact ? [PREFIX + keyword, value] : [keyword, rounded(value)];
    }),
  );
}

/** Keywords that compare the payload at hand as it was sent. */
export class SentNumbers {
  /** The budget of the event at hand. */
  budget = new Budget(0);
  /**
   * For each object and array of the copy with doubles the one that it was made of; empty where the payload has no long
   * numbers.
   */
  sent: ReadonlyMap<object, object> = new Map();

  /** Adds the keywords that ask it. */
  addKeywords(ajv: Ajv2020): void {
    for (const [keyword, compares] of Object.entries(COMPARES)) {
      ajv.addKeyword({
        keyword: PREFIX + keyword,
        errors: false,
        validate: (wanted: unknown, data: unknown, _schema: unknown, at?: At) =>
          compares(this.#asSent(data, at), wanted, this.budget),
      });
    }
  }

  #asSent(data: unknown, at: At | undefined): unknown {
    if (this.sent.size === 0) return data;
    if (typeof data === 'object' && data !== null) return this.sent.get(data) ?? data;
    if (typeof data !== 'number' || at === undefined) return data;
    const holder = this.sent.get(at.parentData as object);
    return holder === undefined ? data : (holder as Record<string | number, unknown>)[at.parentDataProperty];
  }
}

type At = { parentData: unknown; parentDataProperty: string | number };

/**
 * With the nearest doubles for long numbers. `sent` takes for each object and array of the copy the one that it was
 * made of.
 */
export function rounded(value: unknown, sent?: Map<object, object>): unknown {
  if (value instanceof LongNumber) return Number(value.text);
  if (typeof value !== 'object' || value === null) return value;
  const copy = Array.isArray(value)
    ? value.map((item) => rounded(item, sent))
    : Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rounded(item, sent)]));
  sent?.set(copy, value);
  return copy;
}

function holdsNumber(value: unknown): boolean {
  if (isNumber(value)) return true;
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsNumber);
}

function isSame(a: unknown, b: unknown): boolean {
  if (isNumber(a) && isNumber(b)) return compareNumbers(a, b) === 0;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (isNumber(a) || isNumber(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  const [keysA, keysB] = [Object.keys(a), Object.keys(b)];
  const [membersA, membersB] = [a as Record<string, unknown>, b as Record<string, unknown>];
  return (
    keysA.length === keysB.length && keysA.every((key) => Object.hasOwn(b, key) && isSame(membersA[key], membersB[key]))
  );
}
