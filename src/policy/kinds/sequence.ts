// sequence: matches an event by what was before it: all steps of `after` occurred in their order, and `unless` did
// not, inside the window that ends with the event. The conditions are of the event at hand; each step has conditions of
// its own (compile.ts), and is judged with every event as a rule beside the others.
// What has occurred Redis alone knows: judge() says which steps an event is and what has to be asked (sequences/).
import { createHash } from 'node:crypto';
import { exactJson } from '../../common/exact-json.ts';
import { isObject } from '../../common/exact-number.ts';
import { type Path, parsePath, pathMistake } from '../conditions/path.ts';
import { below, type Mistakes } from '../policy-error.ts';
import { type Amount, FRACTION_DIGITS, limitOf } from '../sequences/summed-amount.ts';
import { DAY_SECONDS, parseDuration } from './duration.ts';
import type { PolicyConditions, PolicyKind } from './policy-kind.ts';

export type SequenceTerms = {
  type: 'sequence';
  /** By which what has occurred is kept: another meaning of the policy does not know it. */
  meaning: string;
  /** How many `after` has. */
  steps: number;
  hasUnless: boolean;
  atLeast: number;
  /** Numbers of the last step, and of the event at hand, that are added up. */
  sum: { path: Path; gt: Amount } | null;
  windowMs: number;
  per: 'trace' | 'agent' | 'account' | Path;
  /** Values that must be equal in the event at hand and in each step. */
  same: readonly { now: Path; before: Path }[];
};

type Sum = SequenceTerms['sum'];

export const STEPS_MAX = 3;
const SAME_MAX = 3;
/** As many times are kept for each scope and value. */
const AT_LEAST_MAX = 100;
/** The keys of the conditions that decide what is remembered. */
const REMEMBERED = ['within', 'after', 'unless', 'per', 'same', 'at_least', 'sum'];

export const sequence: PolicyKind<SequenceTerms> = {
  reserved: REMEMBERED,
  compile(conditions, at, { mistakes }) {
    const known = mistakes.details.length;
    const { after, unless, within, at_least: atLeast = 1, per = 'agent' } = conditions;
    if (after === undefined && unless === undefined)
      mistakes.add(at, 'must have `after` or `unless`: without either it would look at nothing that was before');
    const seconds = parseDuration(within);
    if (seconds === null || seconds > DAY_SECONDS) {
      const form = 'must be whole seconds or a duration like "30s", "5m", "1h", "1d", at most 1 day';
      mistakes.add(below(at, 'within'), within === undefined ? 'is required' : form);
    }
    if (!Number.isSafeInteger(atLeast) || (atLeast as number) < 1 || (atLeast as number) > AT_LEAST_MAX)
      mistakes.add(below(at, 'at_least'), `must be an integer from 1 to ${AT_LEAST_MAX}`);
    else if (conditions['at_least'] !== undefined && after === undefined)
      mistakes.add(below(at, 'at_least'), 'needs `after`: it counts the last step of that');
    const sum = readSum(conditions, at, mistakes);
    const scope = readPer(per, below(at, 'per'), mistakes);
    const same = readSame(conditions['same'], below(at, 'same'), mistakes);
    if (mistakes.details.length > known) return undefined;
    return {
      type: 'sequence',
      meaning: meaningOf(conditions),
      steps: Array.isArray(after) ? after.length : 0,
      hasUnless: unless !== undefined,
      atLeast: atLeast as number,
      sum,
      windowMs: seconds! * 1000,
      per: scope!,
      same,
    };
  },
};

function readPer(per: unknown, at: string, mistakes: Mistakes): SequenceTerms['per'] | undefined {
  if (per === 'trace' || per === 'agent' || per === 'account') return per;
  const path = typeof per === 'string' ? pathOf(per) : 'must be trace, agent, account or a path';
  if (typeof path === 'object') return path;
  mistakes.add(at, path);
  return undefined;
}

/** The path, or what is wrong with it. */
function pathOf(text: unknown): Path | string {
  if (typeof text !== 'string') return 'must be a path';
  return pathMistake(text) ?? parsePath(text);
}

function readSum({ sum, after, at_least: atLeast }: PolicyConditions, above: string, mistakes: Mistakes): Sum {
  if (sum === undefined) return null;
  const at = below(above, 'sum');
  const { path: text, gt: limit, ...others }: PolicyConditions = isObject(sum) ? sum : {};
  if (!isObject(sum) || Object.keys(others).length > 0) mistakes.add(at, 'must be an object of `path` and `gt`');
  if (after === undefined) mistakes.add(at, 'needs `after`: it adds up numbers of the last step of that');
  if (atLeast !== undefined) mistakes.add(at, 'cannot stand beside `at_least`: one or the other says what is too much');
  const path = pathOf(text);
  if (typeof path === 'string') mistakes.add(below(at, 'path'), path);
  const gt = limitOf(limit);
  const form = `must be a number from 0 with at most 18 digits before the point and ${FRACTION_DIGITS} behind it`;
  if (gt === undefined) mistakes.add(below(at, 'gt'), form);
  return typeof path === 'string' || gt === undefined ? null : { path, gt };
}

function readSame(value: unknown, at: string, mistakes: Mistakes): SequenceTerms['same'] {
  if (value === undefined) return [];
  const pairs = isObject(value) ? Object.entries(value) : [];
  if (pairs.length === 0 || pairs.length > SAME_MAX) {
    mistakes.add(at, `must be an object of 1 to ${SAME_MAX} paths now, each with the path of before`);
    return [];
  }
  return pairs.flatMap(([key, other]) => {
    const [now, before] = [pathOf(key), pathOf(other)];
    if (typeof now === 'object' && typeof before === 'object') return [{ now, before }];
    if (typeof now === 'string') mistakes.add(below(at, key), now);
    else mistakes.add(below(at, key), before as string);
    return [];
  });
}

/** The name of its memory: of another meaning it is another. */
export function memoryName({ id, conditions }: { id: string; conditions: object }): string {
  return `${id}/${meaningOf(conditions as PolicyConditions)}`;
}

function meaningOf(conditions: PolicyConditions): string {
  const parts = REMEMBERED.map((key) => conditions[key] ?? null);
  return createHash('sha256').update(exactJson(parts)).digest('base64url').slice(0, 16);
}
