// What is wrong with the operators of a condition and their operands (part of compiling a policy; field-condition.ts
// runs those that are sound). A mistake says what the author may have meant: the policy would otherwise be refused, or
// worse kept, for a slip.
import { OPERATORS, type Operator } from '../../../schemas/condition.ts';
import { entryOf } from '../../common/entry.ts';
import { type ExactNumber, isNumber } from '../../common/exact-number.ts';
import type { PatternAllowance } from '../text-search/pattern-allowance.ts';
import { meant, shownValue } from './did-you-mean.ts';

export type Scalar = string | ExactNumber | boolean | null;

/** The mistake in one operator of a condition; null: none. `field`: the condition's key, for the sentence. */
export function mistakeIn(
  name: string,
  operand: unknown,
  { field, isAlone, patterns }: { field: string; isAlone: boolean; patterns: PatternAllowance },
): string | null {
  switch (name as Operator) {
    case 'eq':
    case 'ne':
      if (isScalar(operand)) return null;
      return `must be a string, a finite number, a boolean or null${Array.isArray(operand) ? hint(name === 'eq' ? '`in`' : '`not_in`') : ''}`;
    case 'in':
    case 'not_in':
      if (Array.isArray(operand) && operand.length > 0)
        return operand.every(isScalar) ? null : 'must hold strings, finite numbers, booleans or null only';
      return `must be an array of at least one value${isScalar(operand) ? hint(shownValue([operand])) : ''}`;
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return isNumber(operand) ? null : `must be a finite number${number(operand)}`;
    case 'contains':
    case 'starts_with':
    case 'ends_with':
      if (typeof operand === 'string' && operand !== '') return null;
      return `must be a string that is not empty${inQuotes(operand)}`;
    case 'matches': {
      const pattern = patterns.read(operand);
      return typeof pattern === 'string' ? `${pattern}${inQuotes(operand)}` : null;
    }
    case 'glob': {
      if (typeof operand !== 'string' || operand === '')
        return `must be a string that is not empty${inQuotes(operand)}`;
      const pattern = patterns.read(globPattern(operand));
      return typeof pattern === 'string' ? pattern : null;
    }
    case 'exists':
      if (typeof operand !== 'boolean') return `must be true or false${truth(operand)}`;
      return operand || isAlone ? null : 'must stand alone: nothing else can hold for a field that is not there';
    default:
      return unknownOperator(name, operand, field);
  }
}

/** An RE2 pattern for a whole text: `*` any characters, `?` one. */
export function globPattern(glob: string): string {
  const escaped = glob.replaceAll(/[\\^$.|+()[\]{}]/g, '\\$&');
  return `(?s)^${escaped.replaceAll(/\*+/g, '.*').replaceAll('?', '.')}$`;
}

export function isScalar(value: unknown): value is Scalar {
  return value === null || typeof value === 'string' || typeof value === 'boolean' || isNumber(value);
}

/** How other systems call the operators, in the form that `inOurForm` makes. */
const OTHER_NAMES: Record<string, Operator> = {
  ...{ '=': 'eq', '==': 'eq', '===': 'eq', equals: 'eq', equal: 'eq', is: 'eq', '!=': 'ne', '<>': 'ne', neq: 'ne' },
  ...{ not: 'ne', not_equals: 'ne', not_equal: 'ne', any_of: 'in', one_of: 'in', any: 'in', nin: 'not_in' },
  ...{ none_of: 'not_in', '>': 'gt', greater_than: 'gt', above: 'gt', '>=': 'gte', ge: 'gte', min: 'gte' },
  ...{ '<': 'lt', less_than: 'lt', below: 'lt', '<=': 'lte', le: 'lte', max: 'lte', includes: 'contains' },
  ...{ has: 'contains', like: 'contains', substring: 'contains', prefix: 'starts_with', begins_with: 'starts_with' },
  ...{
    suffix: 'ends_with',
    regex: 'matches',
    wildcard: 'glob',
    regexp: 'matches',
    pattern: 'matches',
    matches_regex: 'matches',
  },
  ...{ present: 'exists', is_present: 'exists', exist: 'exists' },
};

function unknownOperator(name: string, operand: unknown, field: string): string {
  const other = entryOf(OTHER_NAMES, inOurForm(name));
  const suggested = other ?? meant(name, OPERATORS);
  const sentence = `unknown operator; must be one of ${OPERATORS.join(', ')}`;
  if (suggested !== undefined) return `${sentence}${hint(`\`${suggested}\``)}`;
  const isNested = typeof operand === 'object' && operand !== null;
  return isNested ? `${sentence}${hint(`the path \`${field}.${name}\``)}` : sentence;
}

/** `$startsWith` -> `starts_with`. */
function inOurForm(name: string): string {
  return name
    .replace(/^\$/, '')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toLowerCase()
    .replaceAll(/[\s-]+/g, '_');
}

function number(operand: unknown): string {
  if (typeof operand !== 'string') return '';
  const read = operand.trim() === '' ? Number.NaN : Number(operand);
  return Number.isFinite(read) ? hint(operand.trim()) : `, is the text ${shownValue(operand)}${hint('`eq`')}`;
}

function inQuotes(operand: unknown): string {
  return isNumber(operand) || typeof operand === 'boolean' ? hint(`"${operand}"`) : '';
}

function truth(operand: unknown): string {
  const word = String(operand).toLowerCase();
  if (['true', '1', 'yes'].includes(word)) return hint('true');
  return ['false', '0', 'no'].includes(word) ? hint('false') : '';
}

function hint(what: string): string {
  return `; did you mean ${what}?`;
}

/** Operators that hold where there is no value at all. */
export const HOLD_FOR_NOTHING: ReadonlySet<string> = new Set(['ne', 'not_in']);
