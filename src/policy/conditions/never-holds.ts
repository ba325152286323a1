// Finds conditions that could never hold, by a slip of their author (when a policy is created or changed, after it has
// been compiled). Such a policy would be kept, be in the list, and never do anything.
// Refused are: a bare key that is one edit away from a reserved key of the type, a value of `type` or `outcome` outside
// of its closed set, operators that no value of `type`, `trace_id` or `agent_id` satisfies, ranges that hold no number,
// paths and patterns in a notation of others, and equality with what looks like a wildcard, a pattern or a permission.
// What is written with its prefix (`payload.windows`) or operator (`{"eq": …}`) is taken as what it says.
// Policies that were kept before are not asked: an account's events must not wait on this.
import { EVENT_TYPES, OUTCOMES } from '../../../schemas/closed-sets.ts';
import { compareNumbers, type ExactNumber } from '../../common/exact-number.ts';
import { isId } from '../../common/ids.ts';
import { Budget, fieldUnits } from '../budget.ts';
import { below, type Mistakes } from '../policy-error.ts';
import { isOneEditAway, meant, shownValue } from './did-you-mean.ts';
import type { FieldCondition } from './field-condition.ts';
import { pathMistake } from './path.ts';

/**
 * `reserved`: keys that are no fields in policies of this type. `fields`: the conditions that compiled; what is wrong
 * with others is known already. `at`: the pointer of `conditions`.
 */
export function findWhatNeverHolds(
  conditions: object,
  { reserved, fields, at }: { reserved: readonly string[]; fields: readonly FieldCondition[]; at: string },
  mistakes: Mistakes,
): void {
  for (const key of Object.keys(conditions)) {
    if (reserved.includes(key)) continue;
    const near = reserved.find((other) => isOneEditAway(other, key));
    if (near !== undefined)
      mistakes.add(below(at, key), `did you mean \`${near}\`? To match a field of the payload write payload.${key}`);
    addPathMistake(key, below(at, key), mistakes);
  }
  const { fields: paths, per, patterns } = conditions as { fields?: unknown; per?: unknown; patterns?: unknown };
  if (reserved.includes('fields') && Array.isArray(paths))
    paths.forEach((path, i) => {
      addPathMistake(path, below(below(at, 'fields'), i), mistakes);
    });
  if (reserved.includes('per')) addPathMistake(per, below(at, 'per'), mistakes);
  if (reserved.includes('patterns') && Array.isArray(patterns))
    patterns.forEach((source, i) => {
      addFlagsMistake(source, below(below(at, 'patterns'), i), mistakes);
    });
  for (const field of fields) {
    const place = below(at, field.key);
    const found = field.path.root === 'payload' ? inPayload(field, place) : inEvent(field, place);
    for (const { path, message } of [...found, ...looksOtherwise(field, place)]) mistakes.add(path, message);
    const matches = field.operators.get('matches');
    if (matches !== undefined) addFlagsMistake(matches, below(place, 'matches'), mistakes);
  }
}

function addPathMistake(path: unknown, at: string, mistakes: Mistakes): void {
  const sentence = typeof path === 'string' ? pathMistake(path) : null;
  if (sentence !== null) mistakes.add(at, sentence);
}

/** `/…/i`: RE2 has no slashes around a pattern, so they would have to be in the text. */
function addFlagsMistake(source: unknown, at: string, mistakes: Mistakes): void {
  const found = typeof source === 'string' ? /^\/(.+)\/([gimsuy]+)$/s.exec(source) : null;
  if (found === null) return;
  const flags = found[2]!.replaceAll(/[^ims]/g, '');
  mistakes.add(at, `has slashes and flags of another notation; write ${flags === '' ? '' : `(?${flags})`}${found[1]}`);
}

/** Equality with a text that its author means as something else. Operators take it as it is. */
function looksOtherwise(field: FieldCondition, at: string): Contradiction[] {
  if (!field.isShort || field.path.root === 'type' || field.path.root === 'agent_id') return [];
  return valuesAskedFor(field, at).flatMap(({ value, path }) => {
    const meantAs = typeof value === 'string' ? otherMeaning(value) : null;
    return meantAs === null
      ? []
      : [
          {
            path,
            message: `did you mean ${meantAs}? To match the text as it stands write {"eq": ${shownValue(value)}}`,
          },
        ];
  });
}

function otherMeaning(text: string): string | null {
  const pattern = /^\/(.+)\/[gimsuy]*$/s.exec(text);
  if (pattern !== null) return `{"matches": ${shownValue(pattern[1])}}`;
  const permission = /^([A-Za-z_][\w.-]*)\((.*)\)$/s.exec(text);
  if (permission !== null) return `${shownValue(permission[1])}, with a condition on its arguments`;
  return text.includes('*') ? `{"glob": ${shownValue(text)}}` : null;
}

type Contradiction = { path: string; message: string };

/** A bare `outcome` is looked up in the payload like any other, but it is an outcome that its author has in mind. */
function inPayload(field: FieldCondition, at: string): Contradiction[] {
  if (field.key !== 'outcome') return leavesNoNumber(field, at);
  return valuesOutside(field, OUTCOMES, at).map(({ path, message }) => ({
    path,
    message: `${message}; to match a field of the payload write payload.outcome`,
  }));
}

function inEvent(field: FieldCondition, at: string): Contradiction[] {
  const { root } = field.path;
  const values = root === 'type' ? valuesOutside(field, EVENT_TYPES, at) : valuesThatAreNoText(field, at);
  const outside = [...values, ...comparesNoNumber(field, at), ...namesNoAgent(field, at)];
  if (outside.length > 0) return outside;
  const samples = root === 'type' ? EVENT_TYPES : [];
  if (samples.length > 0 && !samples.some((type) => holdsForType(field, type)))
    return [{ path: at, message: `can hold for no event: \`type\` is one of ${EVENT_TYPES.join(', ')}` }];
  if (root === 'agent_id' && field.operators.get('exists') === false)
    return [{ path: below(at, 'exists'), message: 'can hold for no event: each has an agent' }];
  return [];
}

function holdsForType(field: FieldCondition, type: string): boolean {
  return field.test({ type, trace_id: undefined, agent_id: '', payload: {} }, new Budget(fieldUnits(0)));
}

/** Values that a condition asks for or excludes, with the path of each in the request's body. */
function valuesAskedFor({ operators, isShort }: FieldCondition, at: string): { value: unknown; path: string }[] {
  return [...operators].flatMap(([name, operand]) => {
    const path = isShort ? at : below(at, name);
    if (name === 'eq' || name === 'ne') return [{ value: operand, path }];
    if (name !== 'in' && name !== 'not_in') return [];
    return (operand as unknown[]).map((value, i) => ({ value, path: below(path, i) }));
  });
}

function valuesOutside(field: FieldCondition, set: readonly string[], at: string): Contradiction[] {
  return valuesAskedFor(field, at)
    .filter(({ value }) => !set.includes(value as string))
    .map(({ value, path }) => {
      const near = typeof value === 'string' ? meant(value, set) : undefined;
      const hint = near === undefined ? '' : `; did you mean "${near}"?`;
      return { path, message: `must be one of ${set.join(', ')}, is ${shownValue(value)}${hint}` };
    });
}

const COMPARE_NUMBERS = ['gt', 'gte', 'lt', 'lte'] as const;
const RANGES = (['gt', 'gte'] as const).flatMap((low) => (['lt', 'lte'] as const).map((high) => [low, high] as const));

/** A number is asked for that lies above the one end of a range and below the other, which is no higher. */
function leavesNoNumber({ operators }: FieldCondition, at: string): Contradiction[] {
  const ends = RANGES.find(([low, high]) => {
    const [from, to] = [operators.get(low), operators.get(high)] as (ExactNumber | undefined)[];
    const order = from === undefined || to === undefined ? -1 : compareNumbers(from, to);
    return order > 0 || (order === 0 && `${low} ${high}` !== 'gte lte');
  });
  const [low, high] = (ends ?? []).map((name) => `\`${name}\` ${operators.get(name)}`);
  const message = `can hold for no number: none is ${low} and ${high}; swap the ends, or write two policies`;
  return ends === undefined ? [] : [{ path: at, message }];
}

/** `trace_id` and `agent_id` are text. A trace may be named by a number, so that may be compared with one. */
function valuesThatAreNoText(field: FieldCondition, at: string): Contradiction[] {
  const { root } = field.path;
  return valuesAskedFor(field, at)
    .filter(({ value }) => typeof value !== 'string')
    .map(({ value, path }) => {
      const hint = value === null && root === 'trace_id' ? '{"exists": false}' : `"${value}"`;
      return { path, message: `\`${root}\` is text; did you mean ${hint}?` };
    });
}

function namesNoAgent(field: FieldCondition, at: string): Contradiction[] {
  if (field.path.root !== 'agent_id') return [];
  return valuesAskedFor(field, at)
    .filter(({ value }) => typeof value === 'string' && !isId('agent', value))
    .map(({ value, path }) => ({ path, message: `must be the id of an agent (agt_…), is ${shownValue(value)}` }));
}

/** Finds comparisons of text with numbers. A value that is no number counts as met; here that would be every event. */
function comparesNoNumber({ path: { root }, operators }: FieldCondition, at: string): Contradiction[] {
  if (root === 'trace_id') return [];
  return COMPARE_NUMBERS.filter((name) => operators.has(name)).map((name) => ({
    path: below(at, name),
    message: `compares numbers, and \`${root}\` is text`,
  }));
}
