// Judges an event by an account's policies (after the agent is known, before the event is encoded).
// judge() is pure and synchronous: which rules match, and which counters have to be asked. Between it and decide() the
// caller asks the counters; decide() makes the one decision, with the text of `policy_result`.
// Invariant: every rule of the account that can concern an event is judged on it. Rules are indexed by agent, event
// type and tool, so that those that cannot cost nothing. Where nothing matches nothing is allocated: shared constants
// are answered.
import { EVENT_TYPES, type EventType } from '../../schemas/closed-sets.ts';
import { CONDITIONS_OF_EVENT_MAX, type DataFilterDetail, type RateLimitDetail } from '../../schemas/match-detail.ts';
import type { Policy } from '../../schemas/policy.ts';
import type { PriceList } from '../common/prices/price-list.ts';
import { atOnce, type Stepped, type Steps, Turns } from '../common/steps.ts';
import { type Allowed, TOO_LONG, TooLong } from './allowance.ts';
import { Budget, EXPLAIN_UNITS, expressionUnits, fieldUnits, OverBudget } from './budget.ts';
import { compileRule, type Rule } from './compile.ts';
import type { Unjudged } from './conditions/field-condition.ts';
import type { Path } from './conditions/path.ts';
import { conditionsDetail, conditionsHeld, shownCondition } from './explain.ts';
import type { Filter } from './filter.ts';
import {
  byOrder,
  type Closer,
  type Detail,
  type EntryCheck,
  type EventView,
  type IndexedRule,
  isFilter,
  type Judgement,
  type RateCheck,
  type RuleMatch,
  type SequencePart,
  type Shadows,
  type SpendCheck,
  type Unevaluated,
} from './judgement.ts';
import { type DataFilterTerms, needleDetail } from './kinds/data-filter.ts';
import { outsideAsks, outsideDetail, outsideUnits } from './kinds/external-check.ts';
import { counterOf, counterValue, type RateLimitTerms } from './kinds/rate-limit.ts';
import { type BudgetTerms, settles } from './kinds/spend-budget.ts';
import { lookAt, NOTHING, Places } from './look.ts';
import { type RedactedCopy, redact } from './redaction/redact-payload.ts';
import type { Redaction } from './redaction/redaction.ts';
import {
  entriesOf,
  type Plan,
  planOf,
  redactionsOf,
  rulesOfTool,
  shareScanner,
  toolOf,
  weightOf,
} from './rule-index.ts';
import { type Noted, sequencePart } from './sequences/sequence-part.ts';
import { Sought } from './sought.ts';
import { FOUND } from './text-search/scanner.ts';
import type { TextView } from './text-view.ts';

// What the absence of each thing does (fail closed, loudly):
//   Redis away         the counters cannot be asked: the caller refuses the submission (503); nothing is decided here
//   an expression that errors on the event      counts as a match, detail.reason `expression_error`
//   work of a policy over its budget (budget.ts)        counts as a match, detail.reason `budget`
//   a text that begins like JSON and cannot be read     counts as a match where a policy leads into it, `not_json`
//   a rule that throws what it should not       counts as a match, detail.reason `error`, and onRuleError is called
//   a stored policy that does not compile       the set cannot be made: the caller refuses the account's submissions
// The one state kept between events is what automata have learned, which changes no judgement.
const NO_CHECKS: readonly RateCheck[] = Object.freeze([]);

/** Throws TooLong where there is an allowance and it is not enough. */
export function judge(rules: RuleSet, event: EventView, allowance?: Allowed, closer?: Closer): Judgement {
  return atOnce(rules.judging(event, allowance, closer));
}

export type RuleSetOptions = {
  /** Called for errors inside rules that should not happen. */
  onRuleError?: (policyId: string, error: unknown) => void;
  /** Rules that are compiled already, by policy id. */
  compiled?: ReadonlyMap<string, Rule>;
  /** The account's last set: what it has learned is kept where it fits. */
  previous?: RuleSet | undefined;
  /** By which ids of traces become tokens. Left out where nothing is recorded. */
  traceKey?: string | undefined;
  /** The signs and paths that are looked for in any case, by number: those of the set begin with them. */
  sought?: Sought;
  /** Only which rules match is asked: not why, and not what would be redacted. */
  verdictsOnly?: true;
};

/** The active policies of an account, ready to judge. One event at a time: judge() does not nest. */
export class RuleSet {
  readonly size: number;
  readonly traceKey: string | undefined;
  /** The turns of judgements that are not made at once; all sets of the account that share filters have the same. */
  readonly turns: Turns;
  /** Policies that are tried beside these. Set before the first judgement, if at all. */
  shadows: Shadows | undefined;
  /** The prices of the account's tokens. Set as `shadows` is. */
  prices: PriceList | undefined;
  readonly hasBudgets: boolean;
  /** Steps of sequences stand last. */
  readonly #entries: IndexedRule[];
  readonly #onRuleError: (policyId: string, error: unknown) => void;
  /** Agents that have policies of their own, and for each, and for all others under '', the plan of each event type. */
  readonly #agents: ReadonlySet<string>;
  readonly #plans = new Map<string, (Plan | undefined)[]>();
  readonly #counted = new Map<string, Plan['counted']>();
  /** The agent that was asked for last: a request's events are all of one. */
  #lastAgent: string | undefined;
  #lastPlans: (Plan | undefined)[] = [];
  /** The signs and paths in the demands of the rules: to be looked for in an event's text before `look`. */
  readonly sought: Sought;
  readonly #places: Places;
  readonly #byText: Parameters<typeof lookAt>[2];
  /** All data filters that inspect the whole payload share one scanner, so that its strings are walked once. */
  readonly #filter: Filter | null;
  /** With those of single fields. */
  readonly #filters: readonly Filter[];
  /** Laying the patterns of its filters out would hold up the loop that answers. */
  readonly #isLarge: boolean;
  readonly #verdictsOnly: boolean;
  /** Whether some policy asks a check outside, and whether some asks after the reply. */
  readonly outside: Readonly<{ asks: boolean; watches: boolean }>;

  // State of one judgement.
  /** Units that all rules have taken, and what they may take; over it TooLong is thrown. */
  #spent = 0;
  #most = 0;
  /** On the loop that answers. */
  #isHere = false;
  /** The units that each rule may take, and the budgets of the one at hand. */
  #fieldUnits = 0;
  #expressionUnits = 0;
  readonly #fieldBudget = new Budget(0);
  readonly #expressionBudget = new Budget(0);
  /** `detail` null: there is nothing beyond the conditions. */
  #found: { entry: IndexedRule; detail: Detail | null }[] = [];
  #checks: EntryCheck[] = [];
  #spends: SpendCheck[] = [];
  #redactions: Redaction[] = [];
  /** Steps, and sequences whose own conditions are met. */
  #sequences: Noted[] = [];
  #outside: IndexedRule[] = [];
  /** Rules of which a condition counts as met for what it cannot judge, and why. */
  readonly #unjudged = new Map<IndexedRule, Unjudged>();
  readonly #live: IndexedRule[] = [];
  #absent: Closer['absent'] | undefined;
  /** The condition that was asked last, should it fail. */
  #asked = '';

  /** Throws PolicyError if a policy does not compile. */
  constructor(policies: readonly Policy[], options: RuleSetOptions = {}) {
    const sorted = [...policies].sort((a, b) => (a.id < b.id ? -1 : 1));
    this.size = sorted.length;
    this.traceKey = options.traceKey;
    this.#onRuleError = options.onRuleError ?? (() => undefined);
    this.sought = new Sought(options.sought);
    const rules = sorted.map((policy) => options.compiled?.get(policy.id) ?? compileRule(policy));
    this.hasBudgets = rules.some(({ terms }) => terms.type === 'budget');
    this.#entries = entriesOf(rules, this.sought);
    this.#places = new Places(this.sought, this.#entries);
    this.#byText = { places: this.#places, checkOf: (entry, event) => this.#checkOf(entry, event) };
    this.#agents = new Set(sorted.flatMap((policy) => policy.agent_id ?? []));
    this.#filter = shareScanner(this.#entries, options.previous === undefined ? null : options.previous.#filter);
    this.#filters = [...new Set(this.#entries.flatMap(({ filter }) => filter ?? []))];
    this.turns = options.previous === undefined ? new Turns() : options.previous.turns;
    this.#verdictsOnly = options.verdictsOnly ?? false;
    this.outside = outsideAsks(rules);
    this.#isLarge = weightOf(this.#entries) > LAID_OUT_INSTRUCTIONS_MAX;
  }

  get hasSequences(): boolean {
    return this.#entries.length > this.size;
  }

  /** In the order of their ids. */
  get policies(): Policy[] {
    return this.entries.map(({ rule }) => rule.policy);
  }

  /** In the order of their ids, each at its `order`. */
  get entries(): readonly IndexedRule[] {
    return this.#entries.slice(0, this.size);
  }

  get rules(): ReadonlyMap<string, Rule> {
    return new Map(this.entries.map(({ rule }) => [rule.policy.id, rule]));
  }

  /**
   * Throws TooLong where there is an allowance and it is not enough. `closer`: what `look` said of the event. One event
   * at a time: steps that are not done at once belong in `turns`.
   */
  judging(event: EventView, allowance?: Allowed, closer?: Closer): Stepped<Judgement> {
    return this.size === 0 ? NOTHING : this.#judging(event, allowance, closer);
  }

  *#judging(event: EventView, allowance?: Allowed, closer?: Closer): Steps<Judgement> {
    try {
      this.#begin(event, allowance, closer);
      let stepAt = STEP_UNITS;
      for (const entry of closer?.entries ?? this.concerned(event)) {
        this.#consider(entry, event);
        if (this.#spent < stepAt) continue;
        stepAt = this.#spent + STEP_UNITS;
        yield;
      }
      for (const filter of this.#liveFilters()) {
        let failure = this.#walkFirst(filter, event);
        while (failure === undefined && !filter.scanner.isDone()) {
          yield;
          failure = this.#walk(filter, event);
        }
        this.#noteFilter(filter, failure);
      }
      const judgement = this.#judgement(event);
      if (this.#unjudged.size === 0 && this.#sequences.every(isSure)) closer?.keep?.(judgement, this.#spent);
      return judgement;
    } finally {
      this.#end();
      allowance?.spend(this.#spent);
    }
  }

  /** The rules that can concern the event. */
  concerned(event: EventView): readonly IndexedRule[] {
    const plan = this.#plan(event);
    return plan.byTool === null ? plan.always : [...plan.always, ...rulesOfTool(plan, toolOf(event.payload))];
  }

  /** The same as far as the text says it. */
  concernedByText(event: TextView): readonly IndexedRule[] {
    const plan = this.#plan(event);
    return plan.byTool === null ? plan.always : [...plan.always, ...rulesOfTool(plan, this.#places.toolOf(event))];
  }

  #begin(event: EventView, allowance: Allowed | undefined, closer: Closer | undefined): void {
    this.#spent = 0;
    if (allowance?.isSpent === true) throw TOO_LONG;
    this.#isHere = allowance?.isHere === true;
    this.#absent = closer?.absent;
    this.#most = allowance === undefined ? Number.POSITIVE_INFINITY : allowance.left;
    this.#fieldUnits = fieldUnits(event.payloadText.length);
    this.#expressionUnits = expressionUnits(event.payloadText.length);
  }

  #end(): void {
    this.#live.length = 0;
    if (this.#found.length > 0) this.#found = [];
    if (this.#checks.length > 0) this.#checks = [];
    if (this.#spends.length > 0) this.#spends = [];
    if (this.#redactions.length > 0) this.#redactions = [];
    if (this.#sequences.length + this.#outside.length > 0) [this.#sequences, this.#outside] = [[], []];
    if (this.#unjudged.size > 0) this.#unjudged.clear();
  }

  #judgement(event: EventView): Judgement {
    const limits = this.#checks.length + this.#spends.length;
    if (limits + this.#found.length + this.#sequences.length + this.#outside.length === 0) return NOTHING;
    this.#charge(outsideUnits(this.#outside, event));
    return {
      rateChecks: this.#checks.length === 0 ? NO_CHECKS : this.#checks,
      found: this.#explained(event).sort(byOrder),
      sequences: this.#sequences.length === 0 ? null : this.#sequencePart(event),
      redacted: this.#redacted(event),
      ...(this.#outside.length === 0 ? {} : { outside: { entries: this.#outside, event } }),
      ...(this.#spends.length === 0 ? {} : { spends: this.#spends }),
    };
  }

  #sequencePart(event: EventView): SequencePart {
    return sequencePart(this.#sequences, event, {
      key: this.traceKey ?? '',
      isSecret: this.#isSecret(),
      isTold: !this.#verdictsOnly,
      reasonOf: (entry) => this.#reasonOfUnjudged(entry),
      charge: (units) => this.#charge(units),
    });
  }

  #isSecret(): boolean {
    return this.#found.some(isFilter) || this.#sequences.some(isFilter);
  }

  #redacted(event: EventView): RedactedCopy | null {
    if (this.#redactions.length === 0 || this.#verdictsOnly) return null;
    const copy = redact(event, this.#redactions, this.#most - this.#spent);
    this.#charge(copy.worked);
    return copy;
  }

  #reasonOfUnjudged(entry: IndexedRule): { reason: Unjudged } | undefined {
    const reason = this.#unjudged.get(entry);
    return reason && { reason };
  }

  #charge(units: number): void {
    this.#spent += units;
    if (this.#spent > this.#most) throw TOO_LONG;
  }

  /** Only what matched is explained. */
  #explained(event: EventView): RuleMatch[] {
    if (this.#verdictsOnly) return this.#found.map(({ entry }) => ({ entry, detail: NO_DETAIL }));
    const isSecret = this.#isSecret();
    let shown = 0;
    return this.#found.map(({ entry, detail }): RuleMatch => {
      this.#charge(MATCH_UNITS);
      if (detail !== null && 'reason' in detail && !('path' in detail)) return { entry, detail };
      const budget = new Budget(EXPLAIN_UNITS);
      const held = conditionsHeld(entry.rule, event, { budget, isSecret });
      this.#charge(budget.worked);
      const reason = this.#reasonOfUnjudged(entry);
      shown += held.length;
      const isListed = shown <= CONDITIONS_OF_EVENT_MAX;
      if (detail === null) return { entry, detail: { ...conditionsDetail(held, isListed), ...reason } };
      if (held.length === 0 || !isListed) return { entry, detail };
      return { entry, detail: { ...detail, conditions: held, ...('reason' in detail ? {} : reason) } };
    });
  }

  /**
   * Judges by what is known without making values of the event; where that is not enough: what `judge` has to look at.
   */
  look(event: TextView): Judgement | Closer {
    return this.size === 0 ? NOTHING : lookAt(this.#plan(event), event, this.#byText);
  }

  #plan({ agent_id: agent, type }: Pick<EventView, 'agent_id' | 'type'>): Plan {
    const plans = agent === this.#lastAgent ? this.#lastPlans : this.#plansOf(agent);
    const index = EVENT_TYPES.indexOf(type);
    plans[index] ??= this.#planOf(this.#agents.has(agent) ? agent : '', type);
    return plans[index];
  }

  /** Plans with the same limits share what they count. */
  #planOf(agent: string, type: EventType): Plan {
    const plan = planOf(this.#entries, agent, type);
    const name = plan.limits.map(({ order }) => order).join();
    const counted = this.#counted.get(name) ?? plan.counted;
    this.#counted.set(name, counted);
    return { ...plan, counted };
  }

  #plansOf(agent: string): (Plan | undefined)[] {
    const key = this.#agents.has(agent) ? agent : '';
    let plans = this.#plans.get(key);
    if (plans === undefined) {
      if (this.#plans.size >= PLANNED_AGENTS_MAX) {
        this.#plans.clear();
        this.#counted.clear();
      }
      plans = [];
      this.#plans.set(key, plans);
    }
    [this.#lastAgent, this.#lastPlans] = [agent, plans];
    return plans;
  }

  /** Notes what a rule makes of the event, or puts a data filter among those that have to inspect the payload. */
  #consider(entry: IndexedRule, event: EventView): void {
    const { rule } = entry;
    const here = this.#most - this.#spent;
    this.#fieldBudget.begin(this.#fieldUnits, here);
    this.#expressionBudget.begin(this.#expressionUnits, here);
    let detail: Unevaluated | undefined;
    let holds = true;
    try {
      holds = this.#applies(rule, event);
      if (!holds && !(rule.terms.type === 'budget' && settles(event))) return;
      const unjudged = rule.conditions.find((condition) => condition.unjudged !== undefined)?.unjudged;
      if (unjudged !== undefined) this.#unjudged.set(entry, unjudged);
    } catch (error) {
      // An expression passes over errors of its parts.
      if (this.#fieldBudget.here < 0 || this.#expressionBudget.here < 0) throw TOO_LONG;
      detail = { reason: this.#reasonOf(error, rule), condition: shownCondition(this.#asked) };
    } finally {
      this.#spent += this.#fieldBudget.worked + this.#expressionBudget.worked;
    }
    if (rule.terms.type === 'rate_limit')
      this.#checks.push({ ...this.#checkOf(entry, event), ...(detail && { unevaluated: detail }) });
    else if (rule.terms.type === 'budget') this.#spends.push(this.#spendOf(entry, event, { holds, detail }));
    else if (rule.terms.type === 'data_filter' && detail === undefined) this.#live.push(entry);
    else this.#note(entry, detail ?? null);
  }

  /** `found`: by needle, where all was looked through. */
  #note(entry: IndexedRule, detail: Detail | null, found?: Uint8Array): void {
    const { terms } = entry.rule;
    if (entry.step !== null || terms.type === 'sequence') this.#sequences.push({ entry, detail });
    else if (terms.type === 'external_check' && detail === null) this.#outside.push(entry);
    else this.#found.push({ entry, detail: outsideDetail(terms, detail) });
    if ('redact' in terms && terms.redact)
      this.#redactions.push(...redactionsOf(entry, { detail, found }, this.traceKey));
  }

  #spendOf(
    entry: IndexedRule,
    event: EventView,
    { holds, detail }: { holds: boolean; detail: Unevaluated | undefined },
  ): SpendCheck {
    const { per } = entry.rule.terms as BudgetTerms;
    const unevaluated = detail ?? this.#reasonOfUnjudged(entry);
    let scope = event.agent_id;
    if (per === 'account') scope = 'all';
    // Leaving the trace out resets nothing.
    else if (per === 'trace') scope = event.trace_id === undefined ? event.agent_id : `trace ${event.trace_id}`;
    else if (typeof per !== 'string') scope = this.#counterValue(entry, per, event);
    return { entry, event, holds, scope, ...(unevaluated && { unevaluated }) };
  }

  #applies(rule: Rule, event: EventView): boolean {
    for (const condition of rule.conditions) {
      if (condition.path.root === 'type' && rule.terms.type === 'budget') continue;
      this.#asked = condition.key;
      if (!condition.test(event, this.#fieldBudget)) return false;
    }
    this.#asked = 'payload_schema';
    if (rule.schema !== null && !rule.schema.test(event, this.#expressionBudget)) return false;
    this.#asked = 'expression';
    return rule.expression === null || this.#expressionHolds(rule, event);
  }

  #expressionHolds(rule: Rule, event: EventView): boolean {
    try {
      return rule.expression!.test(event, this.#expressionBudget);
    } catch (error) {
      if (error instanceof OverBudget) throw error;
      throw new ExpressionFailed();
    }
  }

  #reasonOf(error: unknown, rule: Rule): NonNullable<RateLimitDetail['reason']> {
    if (error instanceof OverBudget) return 'budget';
    if (error instanceof ExpressionFailed) return 'expression_error';
    this.#onRuleError(rule.policy.id, error);
    return 'error';
  }

  /** By its text an event is known only where the limit has no conditions but on `type`. */
  #checkOf(entry: IndexedRule, event: EventView | TextView): EntryCheck {
    const terms = entry.rule.terms as RateLimitTerms;
    const { per } = terms;
    const unevaluated = this.#reasonOfUnjudged(entry);
    return {
      entry,
      event: 'payload' in event ? event : null,
      ...(unevaluated && { unevaluated }),
      rule: entry.rule,
      policyId: entry.rule.policy.id,
      counterScope: typeof per === 'string' ? per : 'value',
      counterValue: typeof per === 'string' ? '' : this.#counterValue(entry, per, event),
      threshold: terms.threshold,
      windowMs: terms.windowSeconds * 1000,
      countsWhenOver: !entry.rule.policy.actions.includes('block'),
    };
  }

  #counterValue(entry: IndexedRule, per: Path, event: EventView | TextView): string {
    try {
      if ('payload' in event) return counterValue(per, event, new Budget(this.#fieldUnits));
      return counterOf(this.#places.counterAt(per, event), new Budget(fieldUnits(event.bytes)));
    } catch (error) {
      this.#reasonOf(error, entry.rule);
      return '';
    }
  }

  /** The live data filters: one for those that inspect the whole payload, others for those of single fields. */
  #liveFilters(): readonly Filter[] {
    if (this.#live.length === 0) return NO_FILTERS;
    if (this.#isHere && this.#isLarge) throw TOO_LONG;
    if (this.#filters.length === 1) return this.#filters;
    return this.#filters.filter((filter) => this.#live.some((entry) => entry.filter === filter));
  }

  /** The first pass of a scanner, for all live rules that have it. */
  #walkFirst(filter: Filter, event: EventView): DataFilterDetail | undefined {
    const { scanner, walker, wanted } = filter;
    wanted.fill(0);
    for (const entry of this.#live) {
      if (entry.filter !== filter) continue;
      const absent = this.#absent?.get(entry);
      for (const needle of entry.needles) if (absent?.has(needle) !== true) wanted[needle] = 1;
    }
    scanner.begin(wanted, event.payloadText.length, this.#most - this.#spent);
    walker.begin(event.payloadText);
    return this.#walk(filter, event);
  }

  #walk(filter: Filter, event: EventView): DataFilterDetail | undefined {
    try {
      if (filter.fields === null) filter.walker.walk(event.payload);
      else for (const path of filter.fields) filter.walker.walkPath(event.payload, path);
      if (filter.trace && event.trace_id !== undefined) filter.walker.walkTrace(event.trace_id);
      return undefined;
    } catch (error) {
      if (error instanceof TooLong) throw error;
      return { reason: this.#reasonOf(error, this.#live.find((entry) => entry.filter === filter)!.rule) };
    }
  }

  #noteFilter(filter: Filter, failure: DataFilterDetail | undefined): void {
    for (const entry of this.#live) if (entry.filter === filter) this.#noteMatch(entry, filter, failure);
    this.#charge(filter.scanner.worked);
  }

  #noteMatch(entry: IndexedRule, { scanner, walker }: Filter, failure: DataFilterDetail | undefined): void {
    const terms = entry.rule.terms as DataFilterTerms;
    let index = entry.needles.findIndex((needle) => scanner.found[needle] === FOUND.yes);
    const isFound = index >= 0;
    if (!isFound) index = entry.needles.findIndex((needle) => scanner.found[needle] === FOUND.over);
    if (index < 0 && failure === undefined && walker.unreadable === undefined) return;
    let detail = failure ?? ({ path: walker.unreadable!, reason: 'not_json' } satisfies DataFilterDetail);
    if (index >= 0) {
      const { path, isKey } = walker.places[entry.needles[index]!]!;
      detail = {
        ...needleDetail(terms, index),
        ...(path === undefined ? { field: 'trace_id' } : { path }),
        ...(isKey ? { key: true } : {}),
        ...(isFound ? {} : { reason: 'budget' }),
      };
    }
    this.#note(entry, detail, failure === undefined ? scanner.found : undefined);
  }
}

const NO_FILTERS: readonly Filter[] = [];
/** Agents whose plans are kept: with 1,000 policies some 100 KB each. */
const PLANNED_AGENTS_MAX = 200;
/** The units of a match beside those of its explanation: a microsecond. */
const MATCH_UNITS = 400;
/** Between two steps: some 25 us, besides a microsecond for each rule that is asked. */
const STEP_UNITS = 10_000;
const NO_DETAIL: Detail = Object.freeze({});
/** 20 ms, once a set. */
const LAID_OUT_INSTRUCTIONS_MAX = 12_000;

const isSure = ({ detail }: Noted) => detail === null;

class ExpressionFailed extends Error {}
