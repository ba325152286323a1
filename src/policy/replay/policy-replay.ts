// Replays one policy over recorded events, one after the other: what each would have become with it (of a backtest;
// pure, the worker in pipelines/backtest reads the events and counts).
//
//   others   what the recorded matches of all other policies make of the event
//   verdict  what this policy says of it: by the engine, and by what was before, replayed (replayed-*.ts)
//   now      the stronger of the two, blocked before pending before allowed
//
// The policy stands in place of its own recorded match, if it has one. What stays as it was: an event of an agent that
// was switched off is blocked; one that reports what was decided of an earlier event keeps its outcome. An event that
// was reported after the fact is counted by no rate limit, and is blocked where it would have had to ask (observed.ts).
// Invariant: where nothing was redacted the verdict is the engine's on the very event. What was redacted is judged in
// three values; `unknown` is said only where the outcome depends on it.
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Outcome, PolicyType, Reason, UnknownReason } from '../../../schemas/closed-sets.ts';
import type { PolicyMatch, PolicyResult } from '../../../schemas/event.ts';
import type { ConditionUnmet } from '../../../schemas/match-detail.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { Budget, fieldUnits, withinBudget } from '../budget.ts';
import type { Rule } from '../compile.ts';
import { decide } from '../decide.ts';
import { literalsOfRule } from '../demands.ts';
import { judge, RuleSet } from '../engine.ts';
import { conditionsUnmet } from '../explain.ts';
import type { Detail, EventView } from '../judgement.ts';
import type { DataFilterTerms } from '../kinds/data-filter.ts';
import type { BudgetTerms } from '../kinds/spend-budget.ts';
import { matchThen } from '../outside.ts';
import { countsAll, outcomeOfMatch, outcomeThen, typesOf } from '../rule-index.ts';
import { longestMs } from '../spends/budget-window.ts';
import { RedactedPlaces } from './redacted-places.ts';
import { type KeptBudget, ReplayedBudget, type SpendAmounts } from './replayed-budget.ts';
import { type KeptCounters, ReplayedCounters } from './replayed-counters.ts';
import { type KeptSequence, ReplayedSequence } from './replayed-sequence.ts';

/** The policy that is tried, the one that it replaces, and when just this was in force, epoch ms. */
type TriedRevision = {
  tried: Policy;
  replaces: string | null;
  /** By which values of `same` are hashed. */
  traceKey?: string;
  /** How a budget reckons calls; left out: it cannot be tried. */
  amounts?: SpendAmounts | undefined;
  inForce: { fromMs: number; untilMs: number } | null;
};

/** An event as it was stored. Times are epoch ms. */
export type ReplayedEvent = {
  id: string;
  agentId: string;
  /** The id of the request that it came with. */
  requestId: string;
  receivedMs: number;
  outcome: Outcome;
  reason: Reason | '';
  /** null: allowed without a match. */
  result: PolicyResult | null;
  /** When it was approved, where it waited for that. */
  approvedMs?: number | undefined;
  /** The cost of the event, in the currency of the tried budget; -1, or left out: that was not stored. */
  cost?: number;
  /** As policies see it. `payload` is empty where `needs` says that it is not looked at. */
  view: Omit<EventView, 'agent'>;
};

export type Replayed = {
  was: Outcome;
  now: Outcome | 'unknown';
  /** null: not known. */
  matched: boolean | null;
  why?: UnknownReason;
  detail?: Detail;
  left?: 'decided_before';
  isObserved: boolean;
};

type Submission = Pick<ReplayedEvent, 'requestId' | 'agentId' | 'receivedMs'>;
/** As it is kept: JSON. */
export type KeptReplay = {
  submission: Submission;
  counters: KeptCounters;
  sequence?: KeptSequence;
  budget?: KeptBudget;
};

/** The demands on an event that can match: of each clause a literal in its texts. null: none. */
type ReplayNeeds = { types: readonly string[] | null; clauses: readonly (readonly string[])[]; payload: boolean };

/** Events of one request are counted within this time; callers may use an id of theirs for several requests. */
const SUBMISSION_MS = 50;

/** Types that are asked with budgets, or behind them. */
const WITH_BUDGETS: readonly PolicyType[] = ['budget', 'sequence', 'external_check'];

type Verdict = Pick<Replayed, 'matched' | 'why' | 'detail'>;

const RANK: Record<Outcome, number> = { allowed: 0, pending: 1, blocked: 2 };
const NOT_MATCHED: Verdict = Object.freeze({ matched: false });
const HIDDEN_TEXT: Verdict = Object.freeze({ matched: null, why: 'redacted_text' });
const NOT_ASKED: Verdict = Object.freeze({ matched: null, why: 'not_asked' });
const HIDDEN_CONDITION: Verdict = Object.freeze({ matched: null, why: 'redacted_condition' });

export class PolicyReplay {
  readonly #of: TriedRevision;
  readonly #rules: RuleSet;
  readonly #rule: Rule;
  readonly #effect: Outcome;
  readonly #counters: ReplayedCounters;
  /** undefined: the policy is no sequence. */
  readonly #sequence: ReplayedSequence | undefined;
  /** undefined: it is no budget. */
  readonly #budget: ReplayedBudget | undefined;
  /** The submission of the last event. */
  #submission: Submission = { requestId: '', agentId: '', receivedMs: 0 };
  /** A data filter without its conditions. */
  #needlesAlone: RuleSet | undefined;

  /** `kept`: by an earlier run. Throws PolicyError where the policy does not compile. */
  constructor(of: TriedRevision, kept?: KeptReplay) {
    this.#of = of;
    if (kept !== undefined) this.#submission = kept.submission;
    this.#rules = new RuleSet([of.tried], { traceKey: of.traceKey });
    this.#rule = this.#rules.rules.get(of.tried.id)!;
    this.#effect = outcomeOfMatch(of.tried.type, of.tried.actions);
    this.#counters = new ReplayedCounters(kept?.counters);
    if (of.tried.type === 'sequence') this.#sequence = new ReplayedSequence(this.#rule, kept?.sequence);
    const { terms } = this.#rule;
    if (terms.type === 'budget') this.#budget = new ReplayedBudget(terms, of.amounts!, kept?.budget);
  }

  /** The state that a later run goes on from. Throws TooManyCounters. */
  kept(): KeptReplay {
    const sequence = this.#sequence?.kept();
    const budget = this.#budget?.kept();
    const counters = this.#counters.kept();
    return { submission: this.#submission, counters, ...(sequence && { sequence }), ...(budget && { budget }) };
  }

  /** Is it wanted when events were approved that waited for it? */
  get asksApprovals(): boolean {
    return this.#sequence !== undefined;
  }

  get needs(): ReplayNeeds {
    const types = this.#looked.map(typesOf);
    return {
      types: types.includes(null) ? null : [...new Set(types.flatMap((some) => some ?? []))],
      // Steps have texts of their own, and a budget looks at what prompts came to.
      clauses: this.#sequence === undefined && this.#budget === undefined ? literalsOfRule(this.#rule) : [],
      payload: !countsAll({ rule: this.#rule }),
    };
  }

  /** The currency in which costs are wanted; null: none are. */
  get currency(): string | null {
    const { terms } = this.#rule;
    return terms.type === 'budget' && terms.limit.unit === 'money' ? terms.limit.currency : null;
  }

  /** The policy, and what its steps are. */
  get #looked(): Rule[] {
    return [this.#rule, ...this.#rule.steps.map((step) => ({ ...this.#rule, steps: [], ...step }))];
  }

  /** How long before the first event a rate limit or a sequence has to be replayed, ms. */
  get warmUpMs(): number {
    const { terms } = this.#rule;
    if (terms.type === 'sequence') return terms.windowMs;
    if (terms.type === 'budget') return longestMs(terms.window);
    return terms.type === 'rate_limit' ? Math.ceil((terms.windowSeconds * 1000 * 61) / 60) : 0;
  }

  /** The next event, in the order of arrival. Throws TooManyCounters. */
  next(event: ReplayedEvent, agent: AgentRecord): Replayed {
    const { outcome: was, reason, result } = event;
    const isObserved = result?.source !== undefined;
    if (this.#budget !== undefined) this.#settle(this.#budget, event, agent);
    if (result?.decision_id !== undefined) return { was, now: was, matched: false, left: 'decided_before', isObserved };
    if (reason === 'agent_inactive') return { was, now: 'blocked', matched: false, isObserved };
    const others = this.#others(result, isObserved);
    const verdict = this.#verdict(event, agent, others);
    const made = verdict.detail !== undefined && 'pending' in verdict.detail ? 'pending' : this.#effect;
    const effect = isObserved && made === 'pending' ? 'blocked' : made;
    const withMatch = RANK[effect] > RANK[others] ? effect : others;
    if (verdict.matched !== null || withMatch === others)
      return { was, now: verdict.matched ? withMatch : others, isObserved, ...verdict };
    return { was, now: 'unknown', isObserved, ...verdict };
  }

  /** Why it does not match. */
  unmet(event: ReplayedEvent, agent: AgentRecord): ConditionUnmet[] {
    return conditionsUnmet(this.#rule, { ...event.view, agent });
  }

  #others(result: PolicyResult | null, isObserved: boolean): Outcome {
    let others: Outcome = 'allowed';
    for (const match of result?.matches ?? []) {
      if (match.policy_id === this.#of.replaces) continue;
      const outcome = outcomeThen(match);
      if (RANK[outcome] > RANK[others]) others = outcome;
    }
    return isObserved && others === 'pending' ? 'blocked' : others;
  }

  #verdict(event: ReplayedEvent, agent: AgentRecord, others: Outcome): Verdict {
    const { tried } = this.#of;
    if (tried.agent_id !== null && tried.agent_id !== event.agentId) return NOT_MATCHED;
    if (this.#budget !== undefined && event.view.type !== 'prompt') return NOT_MATCHED;
    if (tried.type === 'rate_limit') {
      if (event.result?.source !== undefined || this.#blocking(event, false)) return NOT_MATCHED;
      this.#newSubmission(event);
    }
    const view: EventView = { ...event.view, agent };
    // Only what a filter found something in is redacted.
    const isFiltered = event.result?.matches.some(({ type }) => type === 'data_filter') ?? false;
    const places = isFiltered ? RedactedPlaces.of(view) : null;
    if (this.#sequence !== undefined) return this.#ofSequence(event, view, { places, outcome: others });
    if (this.#budget !== undefined) return this.#ofBudget(this.#budget, event, view, { places, outcome: others });
    if (places === null) return this.#judged(event, view);
    const verdict = this.#judgedAround(event, view, places);
    return verdict.matched === null ? (this.#recorded(event) ?? verdict) : verdict;
  }

  /** Does another policy block it, a rate limit or one of the others? */
  #blocking({ result }: ReplayedEvent, isLimit: boolean): boolean {
    const { replaces } = this.#of;
    return (result?.matches ?? []).some(
      (match) =>
        match.policy_id !== replaces && (match.type === 'rate_limit') === isLimit && outcomeThen(match) === 'blocked',
    );
  }

  /** By what is asked before budgets are. */
  #isBlockedBefore({ result }: ReplayedEvent): boolean {
    return (result?.matches ?? []).some(
      (match) => !WITH_BUDGETS.includes(match.type) && outcomeThen(match) === 'blocked',
    );
  }

  /** Places that were taken for events that another limit blocks are given back behind their request. */
  #newSubmission({ requestId, agentId, receivedMs }: ReplayedEvent): void {
    const last = this.#submission;
    const isSame =
      requestId === last.requestId && agentId === last.agentId && receivedMs - last.receivedMs <= SUBMISSION_MS;
    if (!isSame) this.#counters.release();
    this.#submission = { requestId, agentId, receivedMs };
  }

  #judged(event: ReplayedEvent, view: EventView): Verdict {
    const judgement = judge(this.#rules, view);
    const [check] = judgement.rateChecks;
    if (check !== undefined) {
      const name = check.counterScope === 'agent' ? event.agentId : check.counterValue;
      const freeInMs = this.#counters.take(name, check, event.receivedMs, this.#blocking(event, true));
      if (freeInMs === 0) return NOT_MATCHED;
      const { matches } = decide(judgement, [Math.max(1, Math.ceil(freeInMs / 1000))], () => '');
      return { matched: true, detail: matches[0]!.detail };
    }
    const [asking] = judgement.outside?.entries ?? [];
    const found = asking === undefined ? judgement.found[0] : matchThen(asking, view, event.result?.checks ?? []);
    if (found === null) return this.#recorded(event) ?? NOT_ASKED;
    return found === undefined ? NOT_MATCHED : { matched: true, detail: found.detail };
  }

  /** A completion or an error says what a prompt came to, whatever became of it. */
  #settle(budget: ReplayedBudget, event: ReplayedEvent, agent: AgentRecord): void {
    if (event.view.type === 'prompt') return;
    const { agent_id: of } = this.#of.tried;
    if (of !== null && of !== event.agentId) return;
    const [check] = judge(this.#rules, { ...event.view, agent }).spends ?? [];
    if (check !== undefined) budget.settle(calledOf(event), check);
  }

  #ofBudget(
    budget: ReplayedBudget,
    event: ReplayedEvent,
    view: EventView,
    { places, outcome }: { places: RedactedPlaces | null; outcome: Outcome },
  ): Verdict {
    const { per } = this.#rule.terms as BudgetTerms;
    if (places !== null) {
      const seen = seenAround(this.#rule, view, places);
      if (seen === 'unmet') return NOT_MATCHED;
      if (seen === 'hidden' || (typeof per !== 'string' && places.concern(per)))
        return this.#recorded(event) ?? HIDDEN_CONDITION;
    }
    const [check] = judge(this.#rules, view).spends ?? [];
    if (check === undefined || this.#isBlockedBefore(event)) return NOT_MATCHED;
    const blocks = this.#effect === 'blocked';
    const detail = budget.prompt(calledOf(event), check, { isBlocked: outcome === 'blocked', blocks });
    return detail === false ? NOT_MATCHED : { matched: true, detail };
  }

  /** Judges an event by the sequence. A redacted part may make it a step, or be what the sequence asks for. */
  #ofSequence(
    event: ReplayedEvent,
    view: EventView,
    { places, outcome }: { places: RedactedPlaces | null; outcome: Outcome },
  ): Verdict {
    const [isHidden, ...areHidden] = this.#looked.map((rule) => places !== null && isHiddenIn(rule, view, places));
    const { sequences: part } = judge(this.#rules, view);
    const found = this.#sequence!.next({ event, view, part, outcome, isHidden: areHidden.includes(true) });
    const isUnknown = found === null || (isHidden && outcome !== 'blocked');
    if (isUnknown) return this.#recorded(event) ?? HIDDEN_CONDITION;
    return found === false ? NOT_MATCHED : { matched: true, detail: found };
  }

  /** Some places were redacted: what does not look at them decides, if it can. */
  #judgedAround(event: ReplayedEvent, view: EventView, places: RedactedPlaces): Verdict {
    const seen = seenAround(this.#rule, view, places);
    if (seen === 'unmet') return NOT_MATCHED;
    if (seen === 'hidden') return HIDDEN_CONDITION;
    const { terms } = this.#rule;
    if (terms.type === 'rate_limit' && typeof terms.per !== 'string' && places.concern(terms.per))
      return HIDDEN_CONDITION;
    if (terms.type !== 'data_filter' || !places.concernFilter(terms)) return this.#judged(event, view);
    return this.#foundAround(terms, view, places);
  }

  #foundAround(terms: DataFilterTerms, view: EventView, places: RedactedPlaces): Verdict {
    const mark = places.markFor(terms);
    if (mark !== undefined) return { matched: true, detail: mark };
    this.#needlesAlone ??= new RuleSet([needlesOf(this.#of.tried)]);
    const payload = places.rest();
    const trace_id = places.isTrace ? undefined : view.trace_id;
    const [found] = judge(this.#needlesAlone, { ...view, trace_id, payload }).found;
    return found === undefined ? HIDDEN_TEXT : { matched: true, detail: found.detail };
  }

  /** The verdict that was recorded while this very revision was in force; undefined: it was not. */
  #recorded({ result, receivedMs }: ReplayedEvent): Verdict | undefined {
    const { tried, inForce } = this.#of;
    if (inForce === null) return undefined;
    const match = result?.matches.find(
      ({ policy_id, revision }: PolicyMatch) => policy_id === tried.id && revision === tried.revision,
    );
    if (match !== undefined) return { matched: true, detail: match.detail };
    return receivedMs >= inForce.fromMs && receivedMs < inForce.untilMs ? NOT_MATCHED : undefined;
  }
}

function calledOf({ id, agentId, receivedMs, result, cost = -1 }: ReplayedEvent) {
  return { id, agentId, receivedMs, isObserved: result?.source !== undefined, cost };
}

/** `unmet`: by what was not redacted. `hidden`: what was decides. */
function seenAround(rule: Rule, view: EventView, places: RedactedPlaces): 'unmet' | 'hidden' | 'seen' {
  const { conditions, expression, schema } = rule;
  if (!(typesOf(rule)?.includes(view.type) ?? true)) return 'unmet';
  const hidden = conditions.filter(({ path }) => places.concern(path));
  if (conditions.some((condition) => !hidden.includes(condition) && !holds(condition, view))) return 'unmet';
  return hidden.length > 0 || expression !== null || schema !== null ? 'hidden' : 'seen';
}

/** May what was redacted make the rule match, or not? */
function isHiddenIn(rule: Rule, view: EventView, places: RedactedPlaces): boolean {
  const seen = seenAround(rule, view, places);
  const { terms } = rule;
  return seen === 'hidden' || (seen === 'seen' && terms.type === 'data_filter' && places.concernFilter(terms));
}

/** Says whether a condition holds. Too much work counts as met. */
function holds(condition: Rule['conditions'][number], view: EventView): boolean {
  return withinBudget(() => condition.test(view, new Budget(fieldUnits(view.payloadText.length))), true);
}

const OF_NEEDLES = ['patterns', 'detectors', 'regions', 'fields'];

function needlesOf(policy: Policy): Policy {
  const kept = Object.entries(policy.conditions).filter(([key]) => OF_NEEDLES.includes(key));
  return { ...policy, conditions: Object.fromEntries(kept) };
}
