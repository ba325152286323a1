// Compiles a policy into a rule (when a policy is created or changed, and when a front loads it).
// Everything that can be wrong is found here and named with its path; a rule that was compiled cannot fail on its own
// account. In `conditions` every key that is not reserved for the type is a field to match. Words that other types
// reserve are refused rather than taken for fields: `patterns` on a block_action would otherwise match nothing,
// silently. A payload field of that name is written `payload.timeout`.
// Costs up to some 60 ms for the largest policies: see prepare-rules.ts for whole sets.

import type { PolicyType } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { unreachable } from '../common/errors.ts';
import { exactJson } from '../common/exact-json.ts';
import { isNumber } from '../common/exact-number.ts';
import { CONDITIONS_BYTES_MAX } from '../common/limits.ts';
import { Expression, ExpressionError } from './conditions/expression.ts';
import { compileCondition, type FieldCondition } from './conditions/field-condition.ts';
import { findWhatNeverHolds } from './conditions/never-holds.ts';
import { parsePath } from './conditions/path.ts';
import { checkSchema, type PayloadSchema } from './conditions/payload-schema.ts';
import { type BlockActionTerms, blockAction } from './kinds/block-action.ts';
import { type DataFilterTerms, dataFilter } from './kinds/data-filter.ts';
import type { PolicyConditions, PolicyKind } from './kinds/policy-kind.ts';
import { type RateLimitTerms, rateLimit } from './kinds/rate-limit.ts';
import { type RequireApprovalTerms, requireApproval } from './kinds/require-approval.ts';
import { below, Mistakes, type PolicyReading } from './policy-error.ts';
import { PatternAllowance } from './text-search/pattern-allowance.ts';
import { type Pattern, PatternError } from './text-search/program.ts';

type Terms = BlockActionTerms | RequireApprovalTerms | RateLimitTerms | DataFilterTerms;

/** A policy in its compiled form. */
export type Rule = {
  policy: Policy;
  conditions: readonly FieldCondition[];
  expression: Expression | null;
  schema: PayloadSchema | null;
  terms: Terms;
};

const AT = '/conditions';
const RESERVED_IN_ALL = ['expression', 'payload_schema'];
const KINDS: { [T in PolicyType]: PolicyKind<Extract<Terms, { type: T }>> } = {
  block_action: blockAction,
  require_approval: requireApproval,
  rate_limit: rateLimit,
  data_filter: dataFilter,
};

/** Throws PolicyError: a stored policy that does not compile any more was made by another version. */
export function compileRule(policy: Policy, compiled?: ReadonlyMap<string, Pattern>): Rule {
  return { policy, ...compileParts(policy.type, policy.conditions, compiled) };
}

/**
 * Checks a policy that is to be created, also for conditions that could never hold. Throws PolicyError with every
 * mistake.
 */
export function checkParts(type: PolicyType, conditions: unknown): void {
  const mistakes = new Mistakes();
  const { conditions: fields } = readParts(type, conditions, mistakes);
  const reserved = [...RESERVED_IN_ALL, ...kindOf(type).reserved];
  findWhatNeverHolds(conditions as PolicyConditions, { reserved, fields, at: AT }, mistakes);
  mistakes.throwIfAny();
}

/** Throws PolicyError with every mistake. */
function compileParts(
  type: PolicyType,
  conditions: unknown,
  compiled?: ReadonlyMap<string, Pattern>,
): Omit<Rule, 'policy'> {
  const mistakes = new Mistakes();
  const parts = readParts(type, conditions, mistakes, compiled);
  mistakes.throwIfAny();
  return { ...parts, terms: parts.terms! };
}

type Parts = Omit<Rule, 'policy' | 'terms'> & { terms: Terms | undefined };

/** Throws PolicyError where the conditions cannot be inspected, one by one. */
function readParts(
  type: PolicyType,
  conditions: unknown,
  mistakes: Mistakes,
  compiled?: ReadonlyMap<string, Pattern>,
): Parts {
  if (!isConditions(conditions)) mistakes.add(AT, 'must be an object');
  else if (Buffer.byteLength(exactJson(conditions)) > CONDITIONS_BYTES_MAX)
    mistakes.add(AT, `must have at most ${CONDITIONS_BYTES_MAX} bytes`);
  mistakes.throwIfAny();
  const given = conditions as PolicyConditions;
  return readEach(type, given, { mistakes, patterns: new PatternAllowance(compiled) });
}

function readEach(type: PolicyType, given: PolicyConditions, reading: PolicyReading): Parts {
  const fields = Object.keys(given).flatMap((key) => compileField(key, given[key], type, reading));
  const expression = compileExpression(given['expression'], reading);
  const schema =
    given['payload_schema'] === undefined
      ? null
      : checkSchema(given['payload_schema'], below(AT, 'payload_schema'), reading);
  const terms = kindOf(type).compile(given, AT, reading);
  return { conditions: fields, expression, schema: schema ?? null, terms };
}

function kindOf(type: PolicyType): PolicyKind<Terms> {
  return Object.hasOwn(KINDS, type) ? KINDS[type] : unreachable(type as never);
}

function compileField(key: string, value: unknown, type: PolicyType, reading: PolicyReading): FieldCondition[] {
  const { mistakes } = reading;
  if (RESERVED_IN_ALL.includes(key) || KINDS[type].reserved.includes(key)) return [];
  const at = below(AT, key);
  const owner = (Object.keys(KINDS) as PolicyType[]).find((other) => KINDS[other].reserved.includes(key));
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

function compileExpression(source: unknown, { mistakes, patterns }: PolicyReading): Expression | null {
  if (source === undefined) return null;
  try {
    return new Expression(source, patterns);
  } catch (error) {
    if (!(error instanceof ExpressionError || error instanceof PatternError)) throw error;
    mistakes.add(below(AT, 'expression'), error.message);
    return null;
  }
}

function isConditions(value: unknown): value is PolicyConditions {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isNumber(value);
}
