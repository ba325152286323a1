// What the engine judges, and what it answers (types alone; between engine.ts, decide.ts and what calls them).
// An event goes in as an EventView, or as a TextView where only its text has been inspected. A Judgement comes out; a
// Decision is made of it once the rate limits have been asked.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { EventType, Outcome, Reason, ShadowSkip } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { PolicyMatch, ShadowJudged } from '../../schemas/event.ts';
import type { AskedCheck, BudgetDetail, ConditionHeld, RateLimitDetail } from '../../schemas/match-detail.ts';
import type { Policy } from '../../schemas/policy.ts';
import type { Stepped, Turns } from '../common/steps.ts';
import type { Allowed } from './allowance.ts';
import type { Rule, SequenceStep } from './compile.ts';
import type { Filter } from './filter.ts';
import type { RequireApprovalTerms } from './kinds/require-approval.ts';
import type { RedactedCopy } from './redaction/redact-payload.ts';
import type { SequenceAsk, SequenceMark } from './sequences/sequence-answer.ts';
import type { Sought } from './sought.ts';
import type { Demand, Pivot, TextView } from './text-view.ts';

/** A rule in its set. */
export type IndexedRule = {
  rule: Rule;
  /** The sequence that it is a step of; null: it is a policy of its own. */
  step: (Pick<SequenceStep, 'place' | 'isOfAnyOutcome'> & { of: IndexedRule }) | null;
  /** Place by creation, which is by id. */
  order: number;
  /** The outcome that a match of it gives the event. */
  outcome: Outcome;
  match: Omit<PolicyMatch, 'detail'>;
  /** The text of the match up to its detail. */
  json: string;
  /** The JSON behind the detail of its match where it decides; '' where the policy has no description. */
  descriptionJson: string;
  /** Where a data filter's needles are in its scanner. */
  needles: number[];
  filter: Filter | null;
  /** The tests that an event must pass for the rule to match, as far as its text says it. */
  demands: readonly Demand[];
  /** By which of them it is found among many rules; null: it is always asked. */
  pivot: Pivot | null;
  /** Types of which one the event must have by its expression; null: nothing is known. */
  types: readonly string[] | null;
  /** The same for each of its needles to be found; null: nothing is known. */
  needleDemands: readonly (Demand | null)[];
  /** The watched paths that say all of a step or a sequence (sequences/told-by-text.ts); null: more is read. */
  told: readonly number[] | null;
};
/** An event as policies see it. `payload` is what parseExact made of `payloadText`. */
export type EventView = {
  type: EventType;
  trace_id: string | undefined;
  agent_id: string;
  timestamp: string;
  payload: JsonObject;
  payloadText: string;
  agent: AgentRecord;
};
/**
 * The rules that may match an event, by its text, in the order in which the engine asks them. `absent`: needles of
 * theirs that cannot be found, by their places in the scanners.
 */
export type Closer = {
  readonly entries: readonly IndexedRule[];
  readonly absent: ReadonlyMap<IndexedRule, ReadonlySet<number>>;
  /** Called with what they come to, and the units that it took, unless something could not be evaluated. */
  readonly keep?: (judgement: Judgement, units: number) => void;
};
/**
 * One permit to request from one counter. `counterValue` distinguishes the counters of a `per` path; '' where there is
 * one only.
 */
export type RateCheck = {
  rule: Rule;
  policyId: string;
  counterScope: 'agent' | 'account' | 'value';
  counterValue: string;
  threshold: number;
  windowMs: number;
  /** Rules without `block`: every event counts, also one that is over. */
  countsWhenOver: boolean;
};

/**
 * A budget that an event concerns: a prompt reserves of it, a completion or an error settles. `scope`: whose budget,
 * '' where the event does not say. `holds`: the conditions hold, so it is charged also where it was not reserved for.
 */
export type SpendCheck = {
  entry: IndexedRule;
  event: EventView;
  scope: string;
  holds: boolean;
  unevaluated?: Pick<BudgetDetail, 'reason' | 'condition'>;
};

export type Detail = PolicyMatch['detail'];

/** `outcome`: where it is not what a match of the entry makes of an event. */
export type RuleMatch = { entry: IndexedRule; detail: Detail; outcome?: Outcome };

/** A sequence of which the event meets all that is asked of itself. */
export type SequenceSink = {
  ask: SequenceAsk;
  entry: IndexedRule;
  /** By which its own conditions are explained; null: `held` does. */
  event: EventView | null;
  held?: readonly ConditionHeld[];
  unevaluated: Detail | undefined;
};
export type SequencePart = {
  sinks: readonly SequenceSink[];
  marks: readonly SequenceMark[];
  /** A step looks for secrets and found one. */
  isSecret: boolean;
  /** It is judged after the fact: nothing waits for an approval. */
  isObserved?: true;
};

export type Judgement = {
  readonly rateChecks: readonly RateCheck[];
  readonly found: readonly RuleMatch[];
  /** null: it is no step of any sequence, and meets the conditions of none. */
  readonly sequences: SequencePart | null;
  /** The copy that is stored in place of the event; null: the event as it was sent. */
  readonly redacted: RedactedCopy | null;
  /** Policies whose checks are to be asked about the event (outside.ts); left out: there are none. */
  readonly outside?: { readonly entries: readonly IndexedRule[]; readonly event: EventView };
  /** Left out: no budget concerns it. */
  readonly spends?: readonly SpendCheck[];
};

export type ApprovalTerms = Pick<RequireApprovalTerms, 'timeoutSeconds' | 'onTimeout'>;

export type Decision = {
  readonly outcome: Outcome;
  readonly reason: Reason | null;
  readonly policyId: string | null;
  readonly approvalId?: string;
  /**
   * The terms of the policy that decided, where the outcome is pending: how long the event waits, and what becomes of
   * it then.
   */
  readonly approval?: ApprovalTerms;
  readonly matches: readonly PolicyMatch[];
  /** The exact JSON text of `policy_result`. */
  readonly resultJson: string;
  readonly redacted: RedactedCopy | null;
  /** It was made after the fact (observed.ts). */
  readonly observed?: true;
  /** The checks outside that were asked; left out where none was. */
  readonly checks?: readonly AskedCheck[];
  /** The rate limits that are over; left out where none is. */
  readonly limits?: readonly RateCheck[];
  /** The budgets that it does not fit into; left out where there is none. `counter`: which budget, as a hash. */
  readonly exhausted?: readonly { policyId: string; counter: string; windowMs: number }[];
};

/** The judgement of the shadows on an event, before counters are asked; null: it is not judged by them. */
export type ShadowJudgement = Judgement | { skipped: readonly IndexedRule[]; reason: ShadowSkip } | null;
/** The answer of a limit's counter about an event. */
export type LimitAnswer = 'free' | 'over' | 'unknown';
/** `limits[i]`: of `limitsOf(judgement, decision)[i]`. `later`: of sequences and budgets, those that are not free. */
export type ShadowAnswers = {
  limits: readonly LimitAnswer[];
  later: readonly (readonly [policyId: string, answer: Exclude<LimitAnswer, 'free'>])[];
};

/** The shadows of an account (shadows.ts). Nothing here throws. */
export interface Shadows {
  readonly policies: Policy[];
  readonly turns: Turns;
  /** The signs and paths to look for: first those of the policies in force, by the same numbers. */
  readonly sought: Sought;
  /** Where some shadow may match: what `judging` has to look at. */
  look(event: TextView): Judgement | Closer;
  judging(event: EventView, allowance: Allowed, closer?: Closer): Stepped<ShadowJudgement>;
  /** Where the allowance is spent: those that might concern the event are skipped, and its payload is not read. */
  skip(event: TextView): ShadowJudgement;
  /** The verdicts of the shadows on an event, in the order of their ids. */
  verdicts(
    judgement: ShadowJudgement,
    decision: Decision,
    answers: ShadowAnswers,
    nowMs: number,
  ): readonly ShadowJudged[];
}

export function isFilter({ entry }: { entry: IndexedRule }): boolean {
  return entry.rule.terms.type === 'data_filter';
}

export function byOrder(a: RuleMatch, b: RuleMatch): number {
  return a.entry.order - b.entry.order;
}

export const ALLOWED: Decision = Object.freeze({
  outcome: 'allowed',
  reason: null,
  policyId: null,
  matches: Object.freeze([]),
  resultJson: '{"outcome":"allowed","reason":null,"policy_id":null,"matches":[]}',
  redacted: null,
});

export type Unevaluated = Partial<Pick<RateLimitDetail, 'reason' | 'condition'>>;
/** `event`: by which the conditions are explained if the limit is over; null: by the policy alone. */
export type EntryCheck = RateCheck & {
  entry: IndexedRule;
  event: EventView | null;
  /** The condition that could not be evaluated, and the reason. */
  unevaluated?: Unevaluated;
};

/** A filter, or a step of a sequence, found a secret in the event. */
export function holdsSecret({ found, sequences }: Pick<Judgement, 'found' | 'sequences'>): boolean {
  return found.some(isFilter) || sequences?.isSecret === true;
}
