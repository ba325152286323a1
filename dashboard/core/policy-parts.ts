// The keys of a policy's conditions that are no fields, by type: which of them the form (policy-form.tsx) has a control
// for, and what has to stand there. What has another form is named in the form, and stays as it is in the JSON.
// Invariant: every key that the schema reserves is here, but for `payload_schema` (test/dashboard/policy-form.test.ts).
import type { PolicyType } from '../../schemas/closed-sets.ts';
import { elementsOf, membersOf, memberValue, shownValue, valuesOf, withValue, writtenValue } from './policy-form.ts';
import { meaningOf } from './tokens.ts';

/** Says of a JSON text whether the control can show it. */
type Shape = (value: string) => boolean;
export type Shapes = Readonly<Record<string, Shape>>;

export const isOne: Shape = (value) => value[0] !== '[' && valuesOf(value) !== undefined;
const isList: Shape = (value) => value[0] === '[' && valuesOf(value) !== undefined;
const isObject: Shape = (value) => value[0] === '{';
const areObjects: Shape = (value) => value[0] === '[' && elementsOf(value).every((one) => value[one.valueFrom] === '{');
const isText: Shape = (value) => value[0] === '"' && isOne(value);
const areTexts: Shape = (value) => valuesIn(value)?.every(([, one]) => isText(one)) ?? false;
const isOf =
  (shapes: Shapes): Shape =>
  (value) =>
    valuesIn(value)?.every(([key, one], i, all) => {
      return isShown(shapes)(key, one) && !all.some(([other], at) => at !== i && other === key);
    }) ?? false;
const isLimit: Shape = (value) => isText(value) || (isOf({ tokens: isOne, events: isOne })(value) && hasOne(value));

const OF_FILTER: Shapes = { patterns: isList, detectors: isList, regions: isList, fields: isList };
const SCORE: Shapes = { gt: isOne, gte: isOne, lt: isOne, lte: isOne };
const ALL: Shapes = { expression: isOne };

export const SHAPES: Record<PolicyType, Shapes> = {
  block_action: ALL,
  rate_limit: { threshold: isOne, window: isOne, per: isOne, ...ALL },
  data_filter: { ...OF_FILTER, redact: isOne, ...ALL },
  require_approval: { timeout: isOne, on_timeout: isOne, ...ALL },
  sequence: {
    ...{ within: isOne, after: areObjects, unless: isObject, per: isOne, same: areTexts, at_least: isOne },
    ...{ sum: isOf({ path: isOne, gt: isOne }), ...ALL },
  },
  external_check: {
    ...{ check: isOne, fields: isList, when: isOf({ score: isOf(SCORE), labels: isList }), mode: isOne, redact: isOne },
    ...{ on_timeout: isOne, on_error: isOne, on_overload: isOne, ...ALL },
  },
  budget: {
    ...{ limit: isLimit, window: isOne, zone: isOne, per: isOne, estimate: isOne, hold: isOne },
    ...{ warn_at: isList, unpriced: isOne, ...ALL },
  },
};
/** The keys of a step of a sequence. */
export const OF_STEP: Shapes = { ...OF_FILTER, outcome: isOne, ...ALL };

/** Words of these types are fields in no type. */
const OWNERS = [SHAPES.rate_limit, SHAPES.data_filter, SHAPES.require_approval].flatMap((one) => Object.keys(one));

export function reservedBy(shapes: Shapes): string[] {
  return [...new Set([...OWNERS, ...Object.keys(shapes), 'payload_schema'])];
}

export function isShown(shapes: Shapes): (key: string, value: string) => boolean {
  return (key, value) => Object.hasOwn(shapes, key) && shapes[key]!(value);
}

/** undefined: it is no object. */
function valuesIn(value: string): [key: string, value: string][] | undefined {
  return membersOf(value)?.map(({ key, valueFrom, to }) => [key, value.slice(valueFrom, to)]);
}

function hasOne(value: string): boolean {
  return valuesIn(value)?.length === 1;
}

/** Puts the object there; one without members is taken out. */
export function withObject(text: string, key: string, object: string): string {
  return withValue(text, key, membersOf(object)?.length === 0 ? undefined : object);
}

/** The amount that a budget may use up: `unit` is `tokens`, `events`, or a currency. */
export type Limit = { amount: string; unit: string };
const COUNTED = ['tokens', 'events'];

/** undefined: there is none. */
export function limitIn(text: string): Limit | undefined {
  const value = memberValue(text, 'limit');
  if (value === undefined) return undefined;
  const [counted] = valuesIn(value) ?? [];
  if (counted !== undefined) return { unit: counted[0], amount: shownValue(counted[1]) };
  const [, amount = '', unit = ''] = /^(.*?) ?([A-Z]{3})?$/.exec(meaningOf(value)) ?? [];
  return { amount, unit };
}

export function withLimit(text: string, { amount, unit }: Limit): string {
  if (!COUNTED.includes(unit)) return withValue(text, 'limit', JSON.stringify(`${amount} ${unit}`));
  const before = memberValue(text, 'limit');
  const isSame = before !== undefined && limitIn(text)?.unit === unit;
  return withValue(text, 'limit', withValue(isSame ? before : '{}', unit, writtenValue(amount)));
}
