// Compiles a policy into a rule (when a policy is created or changed, and when a front loads it).
// Everything that can be wrong is found here and named with its path; a rule that was compiled cannot fail on its own
// account. In `conditions` every key that is not reserved for the type is a field to match. Words that other types
// reserve are refused rather than taken for fields: `patterns` on a block_action would otherwise match nothing,
// silently. A payload field of that name is written `payload.timeout`.
// Costs up to some 60 ms for the largest policies: see prepare-rules.ts for whole sets.

import type { PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { unreachable } from '../common/errors.ts';
import { exactJson } from '../common/exact-json.ts';
import { isObject } from '../common/exact-number.ts';
import { CONDITIONS_BYTES_MAX } from '../common/limits.ts';
import { Expression, ExpressionError } from './conditions/expression.ts';
import { compileCondition, type FieldCondition } from './conditions/field-condition.ts';
import { findWhatNeverHolds } from './conditions/never-holds.ts';
import { parsePath } from './conditions/path.ts';
import { checkSchema, type PayloadSchema } from './conditions/payload-schema.ts';
import { type BlockActionTerms, blockAction } from './kinds/block-action.ts';
import { type DataFilterTerms, dataFilter } from './kinds/data-filter.ts';
import { type ExternalCheckTerms, externalCheck } from './kinds/external-check.ts';
import type { PolicyConditions, PolicyKind } from './kinds/policy-kind.ts';
import { type RateLimitTerms, rateLimit } from './kinds/rate-limit.ts';
import { type RequireApprovalTerms, requireApproval } from './kinds/require-approval.ts';
import { type SequenceTerms, STEPS_MAX, sequence } from './kinds/sequence.ts';
import { type BudgetTerms, budget } from './kinds/spend-budget.ts';
import { below, Mistakes, type PolicyReading } from './policy-error.ts';
import { PatternAllowance } from './text-search/pattern-allowance.ts';
import { type Pattern, PatternError } from './text-search/program.ts';

type Terms =
  | BlockActionTerms
  | RequireApprovalTerms
  | RateLimitTerms
  | DataFilterTerms
  | SequenceTerms
  | ExternalCheckTerms
  | BudgetTerms;

/** A policy in its compiled form. */
export type Rule = {
  policy: Policy;
  conditions: readonly FieldCondition[];
  expression: Expression | null;
  schema: PayloadSchema | null;
  terms: Terms;
  /** The steps of a sequence; empty for other types. */
  steps: readonly SequenceStep[];
};

/** An event that may have occurred before. `place`: in `after`, from 1; 0: it is `unless`. */
export type SequenceStep = Pick<Rule, 'conditions' | 'expression' | 'schema' | 'terms'> & {
  place: number;
  /** A blocked event is one, too. */
  isOfAnyOutcome: boolean;
};

const AT = '/conditions';
const RESERVED_IN_ALL = ['expression', 'payload_schema'];
const KINDS: { [T in PolicyType]: PolicyKind<Extract<Terms, { type: T }>> } = {
  block_action: blockAction,
  require_approval: requireApproval,
  rate_limit: rateLimit,
  data_filter: dataFilter,
  sequence,
  external_check: externalCheck,
  budget,
};
/** Words of these types are no bare names in policies of others. Those of the others came when such were in use. */
const OWNERS: readonly PolicyType[] = ['block_action', 'require_approval', 'rate_limit', 'data_filter'];
/** A step with one of them is what a data filter with them finds. */
const FILTER_KEYS = ['patterns', 'detectors', 'regions', 'fields'];

/** Throws PolicyError: a stored policy that does not compile any more was made by another version. */
export function compileRule(policy: Policy, compiled?: ReadonlyMap<string, Pattern>): Rule {
  return { policy, ...compileParts(policy.type, policy.conditions, compiled) };
}

/**
 * `actions` and `agent_id` are checked by the schema and the registry; they are here so that a whole policy can be
 * given.
 */
export type PolicyInput = {
  type: PolicyType;
  conditions: unknown;
  actions: PolicyAction | readonly PolicyAction[];
  agent_id?: string | null;
};

/** Checks everything about a policy that its schema cannot say. Throws PolicyError with every mistake. */
export function checkPolicy(input: PolicyInput): void {
  checkParts(input.type, input.conditions);
}

/**
 * Checks a policy that is to be created, also for conditions that could never hold. Throws PolicyError with every
 * mistake.
 */
export function checkParts(type: PolicyType, conditions: unknown): void {
  const mistakes = new Mistakes();
  const { conditions: fields, steps } = readRule(type, conditions, mistakes);
  const given = conditions as PolicyConditions;
  findIn(type, given, { fields, at: AT }, mistakes);
  for (const { place, terms, conditions: ofStep } of steps) {
    const at = stepAt(place);
    const step = place === 0 ? given['unless'] : (given['after'] as unknown[])[place - 1];
    const { outcome: _, ...own } = step as PolicyConditions;
    findIn(terms.type, own, { fields: ofStep, at }, mistakes);
  }
  mistakes.throwIfAny();
}

function findIn(
  type: PolicyType,
  given: PolicyConditions,
  of: { fields: readonly FieldCondition[]; at: string },
  mistakes: Mistakes,
): void {
  findWhatNeverHolds(given, { reserved: [...RESERVED_IN_ALL, ...kindOf(type).reserved], ...of }, mistakes);
}

/** Throws PolicyError with every mistake. */
function compileParts(
  type: PolicyType,
  conditions: unknown,
  compiled?: ReadonlyMap<string, Pattern>,
): Omit<Rule, 'policy'> {
  const mistakes = new Mistakes();
  const rule = readRule(type, conditions, mistakes, compiled);
  mistakes.throwIfAny();
  return { ...rule, terms: rule.terms! };
}

type RuleRead = Omit<Rule, 'policy' | 'terms' | 'steps'> & { terms: Terms | undefined };

/** Throws PolicyError where the conditions cannot be inspected, one by one. */
function readRule(
  type: PolicyType,
  conditions: unknown,
  mistakes: Mistakes,
  compiled?: ReadonlyMap<string, Pattern>,
): RuleRead & Pick<Rule, 'steps'> {
  if (!isObject(conditions)) mistakes.add(AT, 'must be an object');
  else if (Buffer.byteLength(exactJson(conditions)) > CONDITIONS_BYTES_MAX)
    mistakes.add(AT, `must have at most ${CONDITIONS_BYTES_MAX} bytes`);
  mistakes.throwIfAny();
  const given = conditions as PolicyConditions;
  const reading = { mistakes, patterns: new PatternAllowance(compiled) };
  const parts = readEach(type, given, AT, reading);
  return { ...parts, steps: type === 'sequence' ? readSteps(given, reading) : NO_STEPS };
}

function readEach(type: PolicyType, given: PolicyConditions, at: string, reading: PolicyReading): RuleRead {
  const fields = Object.keys(given).flatMap((key) => compileField(key, given[key], { type, at }, reading));
  const expression = compileExpression(given['expression'], at, reading);
  const schema =
    given['payload_schema'] === undefined
      ? null
      : checkSchema(given['payload_schema'], below(at, 'payload_schema'), reading);
  const terms = kindOf(type).compile(given, at, reading);
  return { conditions: fields, expression, schema: schema ?? null, terms };
}

const NO_STEPS: readonly SequenceStep[] = [];

function readSteps({ after, unless }: PolicyConditions, reading: PolicyReading): SequenceStep[] {
  const isList = Array.isArray(after) && after.length > 0 && after.length <= STEPS_MAX;
  if (after !== undefined && !isList)
    reading.mistakes.add(below(AT, 'after'), `must be an array of 1 to ${STEPS_MAX} objects of conditions`);
  const steps = isList ? after.flatMap((step, i) => readStep(step, i + 1, reading)) : [];
  return unless === undefined ? steps : [...steps, ...readStep(unless, 0, reading)];
}

function readStep(given: unknown, place: number, reading: PolicyReading): SequenceStep[] {
  const { mistakes } = reading;
  const at = stepAt(place);
  if (!isObject(given)) {
    mistakes.add(at, 'must be an object of conditions');
    return [];
  }
  const { outcome, ...conditions } = given;
  if (outcome !== undefined && outcome !== 'any')
    mistakes.add(below(at, 'outcome'), 'must be "any"; to match a field of the payload write payload.outcome');
  else if (outcome !== undefined && place === 0)
    mistakes.add(below(at, 'outcome'), 'is for steps of `after`: what was blocked has not been done');
  if (conditions['redact'] !== undefined)
    mistakes.add(below(at, 'redact'), 'is for data_filter: a step changes nothing of the event');
  const type = FILTER_KEYS.some((key) => conditions[key] !== undefined) ? 'data_filter' : 'block_action';
  const { terms, ...parts } = readEach(type, conditions, at, reading);
  return terms === undefined ? [] : [{ ...parts, terms, place, isOfAnyOutcome: outcome === 'any' }];
}

function stepAt(place: number): string {
  return place === 0 ? below(AT, 'unless') : below(below(AT, 'after'), place - 1);
}

function kindOf(type: PolicyType): PolicyKind<Terms> {
  return Object.hasOwn(KINDS, type) ? KINDS[type] : unreachable(type as never);
}

type Place = { type: PolicyType; at: string };

function compileField(key: string, value: unknown, of: Place, reading: PolicyReading): FieldCondition[] {
  const { mistakes } = reading;
  if (RESERVED_IN_ALL.includes(key) || KINDS[of.type].reserved.includes(key)) return [];
  const at = below(of.at, key);
  const owner = OWNERS.find((other) => KINDS[other].reserved.includes(key));
  if (owner !== undefined) {
    mistakes.add(at, `belongs to ${owner}; to match a field of the payload write payload.${key}`);
    return [];
  }
  const path = parsePath(key);
  if (typeof path === 'string') {
    mistakes.add(at, path);
    return [];
  }
  const condition = compileCondition({ key, path }, value, at, reading);
  return condition === undefined ? [] : [condition];
}

function compileExpression(source: unknown, at: string, { mistakes, patterns }: PolicyReading): Expression | null {
  if (source === undefined) return null;
  try {
    return new Expression(source, patterns);
  } catch (error) {
    if (!(error instanceof ExpressionError || error instanceof PatternError)) throw error;
    mistakes.add(below(at, 'expression'), error.message);
    return null;
  }
}
