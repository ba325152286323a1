// From a judgement and the answers of its counters to the one decision on an event: allowed, blocked or pending, with
// the text of `policy_result` (after the counters, before the event is encoded). Pure.
// Invariant: of all matches one decides, a block before a wait; matches are listed in the order of the policies.
import type { Outcome } from '../../schemas/closed-sets.ts';
import type { AskedCheck, ConditionHeld, RateLimitDetail } from '../../schemas/match-detail.ts';
import { Budget, EXPLAIN_UNITS } from './budget.ts';
import { conditionsHeld } from './explain.ts';
import {
  ALLOWED,
  type ApprovalTerms,
  byOrder,
  type Decision,
  type Detail,
  type EntryCheck,
  holdsSecret,
  type IndexedRule,
  type Judgement,
  type RateCheck,
  type RuleMatch,
} from './judgement.ts';
import { perText, type RateLimitTerms } from './kinds/rate-limit.ts';
import type { SequenceAnswers } from './sequences/sequence-answer.ts';
import { sequenceMatches } from './sequences/sequence-detail.ts';

const NO_CHECKS: readonly RateCheck[] = [];
const NOT_ASKED: readonly AskedCheck[] = [];

const AGENT_INACTIVE: Decision = Object.freeze({
  outcome: 'blocked',
  reason: 'agent_inactive',
  policyId: null,
  matches: Object.freeze([]),
  resultJson: '{"outcome":"blocked","reason":"agent_inactive","policy_id":null,"matches":[]}',
  redacted: null,
});

/**
 * The decision on an event of an inactive agent: the operator's kill switch. The copy that is kept is redacted like any
 * other.
 */
export function agentInactive({ redacted }: Judgement): Decision {
  return redacted === null ? AGENT_INACTIVE : { ...AGENT_INACTIVE, redacted };
}

/** The counters to ask: none for an event that is blocked anyway, which takes no permit. */
export function checksOf({ rateChecks, found }: Judgement): readonly RateCheck[] {
  return found.some(({ entry }) => entry.outcome === 'blocked') ? NO_CHECKS : rateChecks;
}

/**
 * `retryAfter[i]`: seconds until `checksOf(judgement)[i]` has room again; 0 or left out: it is not over. `sequences`:
 * what the memory of sequences answered, where any matches. `budgets`: matches of those that the event does not fit
 * into.
 */
export function decide(
  judgement: Judgement,
  retryAfter: readonly number[],
  mintApprovalId: () => string,
  { sequences, budgets = [] }: Later = {},
): Decision {
  const checks = checksOf(judgement);
  const isOver = checks.some((_, i) => retryAfter[i]);
  const limited = isOver ? withLimits(judgement, retryAfter) : judgement.found;
  const before = sequences === undefined ? limited : withSequences(judgement, limited, sequences);
  const found = budgets.length === 0 ? before : [...before, ...budgets].sort(byOrder);
  const limits = isOver ? checks.filter((_, i) => retryAfter[i]) : undefined;
  return decisionOf({ found, redacted: judgement.redacted, limits, checks: NOT_ASKED }, mintApprovalId);
}

type Later = { sequences?: SequenceAnswers | undefined; budgets?: readonly RuleMatch[] | undefined };

/** `found`: all matches, in the order of the policies. `checks`: those outside that were asked. */
type Outcomes = Pick<Decision, 'redacted'> & {
  limits: Decision['limits'] | undefined;
  found: readonly RuleMatch[];
  checks: readonly AskedCheck[];
};

export function decisionOf({ found, redacted, limits, checks }: Outcomes, mintApprovalId: () => string): Decision {
  if (found.length + checks.length === 0) return redacted === null ? ALLOWED : { ...ALLOWED, redacted };
  const deciding =
    found.find((match) => outcomeOf(match) === 'blocked') ?? found.find((match) => outcomeOf(match) === 'pending');
  const outcome = deciding === undefined ? 'allowed' : outcomeOf(deciding);
  const reason = deciding === undefined ? null : 'policy';
  const policyId = deciding?.entry.rule.policy.id ?? null;
  const approvalId = outcome === 'pending' ? mintApprovalId() : undefined;
  const head = `{"outcome":"${outcome}","reason":${reason === null ? 'null' : '"policy"'},"policy_id":${policyId === null ? 'null' : `"${policyId}"`}`;
  const askedJson = checks.length === 0 ? '' : `,"checks":${JSON.stringify(checks)}`;
  const matches = found.map(
    (match) =>
      `${match.entry.json}${JSON.stringify(match.detail)}${match === deciding ? match.entry.descriptionJson : ''}}`,
  );
  return {
    outcome,
    reason,
    policyId,
    ...(approvalId === undefined ? {} : { approvalId, approval: deciding!.entry.rule.terms as ApprovalTerms }),
    matches: found.map((match) => ({
      ...match.entry.match,
      detail: match.detail,
      ...(match === deciding ? descriptionOf(match.entry) : {}),
    })),
    resultJson: `${head},"matches":[${matches.join()}]${askedJson}${approvalId === undefined ? '' : `,"approval_id":"${approvalId}"`}}`,
    redacted,
    ...(checks.length === 0 ? {} : { checks }),
    ...(limits === undefined ? {} : { limits }),
  };
}

function outcomeOf({ outcome, entry }: RuleMatch): Outcome {
  return outcome ?? entry.outcome;
}

/** Once, in the match that decides: those of all policies could be larger than the event. */
function descriptionOf({ rule: { policy } }: IndexedRule): { description?: string } {
  return policy.description ? { description: policy.description } : {};
}

function withSequences(
  { sequences }: Judgement,
  found: readonly RuleMatch[],
  answers: SequenceAnswers,
): readonly RuleMatch[] {
  return sequences === null ? found : [...found, ...sequenceMatches(sequences, answers)].sort(byOrder);
}

/** The matches with those of the limits that are over, in the order of the policies. */
function withLimits({ rateChecks, found, sequences }: Judgement, retryAfter: readonly number[]): readonly RuleMatch[] {
  const all = [...found];
  const isSecret = holdsSecret({ found, sequences });
  rateChecks.forEach((check, i) => {
    const seconds = retryAfter[i] ?? 0;
    if (seconds === 0) return;
    const { entry, event, unevaluated } = check as EntryCheck;
    const budget = new Budget(EXPLAIN_UNITS);
    const held = unevaluated?.condition === undefined ? conditionsHeld(entry.rule, event, { budget, isSecret }) : [];
    all.push({ entry, detail: { ...limitDetail(check, seconds, { held, isSecret }), ...unevaluated } });
  });
  return all.sort(byOrder);
}

const VALUE_CHARACTERS_MAX = 100;

/** A counter is named by text of the payload; where a filter found a secret in it, the text is left out. */
function limitDetail(
  { rule, counterValue: value }: RateCheck,
  retryAfterSeconds: number,
  { held, isSecret }: { held: ConditionHeld[]; isSecret: boolean },
): Detail {
  const terms = rule.terms as RateLimitTerms;
  const detail: RateLimitDetail = {
    threshold: terms.threshold,
    window_seconds: terms.windowSeconds,
    per: perText(terms),
    retry_after_seconds: retryAfterSeconds,
  };
  if (value === '' && typeof terms.per !== 'string') detail.value = null;
  else if (value !== '' && !isSecret) {
    const text = value.startsWith('"') ? (JSON.parse(value) as string) : value;
    detail.value = text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
  }
  if (held.length > 0) detail.conditions = held;
  return detail;
}
