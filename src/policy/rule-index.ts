// Lays an account's rules out so that an event meets only those that can concern it (used by engine.ts, made once per
// set). By agent, event type and tool: what a rule demands of these by plain equality. All data filters that inspect
// the whole payload share one scanner, so that its strings are walked once however many filters there are.
// Invariant: a rule is left out of a plan only if its own conditions could not hold for any event of that plan.

import type { EventType, Outcome, PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { PolicyMatch } from '../../schemas/event.ts';
import { mayHoldJson } from '../common/inner-json.ts';
import { getOrMake } from '../common/maps.ts';
import type { Rule } from './compile.ts';
import type { FieldCondition } from './conditions/field-condition.ts';
import { otherKeys, type Path, parsePath } from './conditions/path.ts';
import { demandsOf } from './demands.ts';
import { Filter } from './filter.ts';
import type { IndexedRule, Judgement } from './judgement.ts';
import type { DataFilterTerms } from './kinds/data-filter.ts';
import type { ExternalCheckTerms } from './kinds/external-check.ts';
import { isDryRun } from './kinds/policy-kind.ts';
import type { RateLimitTerms } from './kinds/rate-limit.ts';
import { OutsideRedaction } from './redaction/outside-redaction.ts';
import { Redaction } from './redaction/redaction.ts';
import { ToldByText, toldBy } from './sequences/told-by-text.ts';
import { type Sought, UNKNOWN } from './sought.ts';
import { FOUND, type Needle } from './text-search/scanner.ts';
import { OPEN, QUOTE, STANDS, type TextView } from './text-view.ts';

/** The rules that can concern events of one type of one agent. `byTool` are those that demand one of some tools. */
export type Plan = {
  always: IndexedRule[];
  /** Those of `always` that are limits which count every event, and the others. */
  limits: IndexedRule[];
  asked: IndexedRule[];
  /** The other rules: by the bit that must show, by what must stand at a path, and those that are asked in any case. */
  byBit: Map<number, IndexedRule[]>;
  /** The words of 32 bits that have some of these. */
  words: number[];
  byPath: { what: number; path: number; rules: IndexedRule[] }[];
  unpivoted: IndexedRule[];
  byTool: Map<string, IndexedRule[]> | null;
  withTool: IndexedRule[];
  /** The judgements of events that no rule can match, by the value that limits count them by. */
  counted: Map<unknown, Judgement>;
  /** The same of events that are steps or sinks of sequences. */
  told: ToldByText;
};

/** A completion settles what was reserved for its prompt, whatever the conditions say of it. */
const ALWAYS_ASKED = { demands: [], pivot: null, types: null, needleDemands: [] };
const BUDGET_TYPES: readonly string[] = ['prompt', 'completion', 'error'] satisfies EventType[];

function entryOf(rule: Rule, order: number, sought: Sought): IndexedRule {
  const indexed = new Set(rule.conditions.filter(isIndexed));
  const { id, revision, name, type, actions, severity, description } = rule.policy;
  const match = { policy_id: id, revision, name, type, actions, severity };
  return {
    rule,
    step: null,
    order,
    outcome: outcomeOfMatch(type, actions),
    match,
    json: `${JSON.stringify(match).slice(0, -1)},"detail":`,
    descriptionJson: description ? `,"description":${JSON.stringify(description)}` : '',
    needles: [],
    filter: null,
    ...(rule.terms.type === 'budget' ? ALWAYS_ASKED : demandsOf(rule, indexed, sought)),
    told: toldBy(rule, rule, sought),
  };
}

/** In their order, and behind them the steps of sequences. `sought`: takes what their demands speak of. */
export function entriesOf(rules: readonly Rule[], sought: Sought): IndexedRule[] {
  const entries = rules.map((rule, order) => entryOf(rule, order, sought));
  const steps = entries.flatMap((of) => of.rule.steps.map((step) => ({ of, step })));
  return [
    ...entries,
    ...steps.map(({ of, step: { place, isOfAnyOutcome, ...parts } }, i) => {
      const rule: Rule = { policy: of.rule.policy, steps: [], ...parts };
      const step = { of, place, isOfAnyOutcome };
      return { ...entryOf(rule, entries.length + i, sought), step, told: toldBy(rule, of.rule, sought) };
    }),
  ];
}

/** The outcome that a recorded match gave its event. */
export function outcomeThen({ type, actions, detail }: PolicyMatch): Outcome {
  return 'pending' in detail ? 'pending' : outcomeOfMatch(type, actions);
}

/** The outcome that a match of a policy gives an event. */
export function outcomeOfMatch(type: PolicyType, actions: readonly PolicyAction[]): Outcome {
  if (isDryRun(actions)) return 'allowed';
  if (type === 'require_approval') return 'pending';
  return actions.includes('block') ? 'blocked' : 'allowed';
}

const filters = new WeakMap<DataFilterTerms, Filter>();

/** The filter of a data filter that inspects fields: kept as long as its policy is not changed. */
function filterOf(terms: DataFilterTerms): Filter {
  return getOrMake(filters, terms, () => new Filter(terms.needles, terms));
}

/**
 * Gives every data filter its scanner: one for all that inspect the whole payload, one each for those that inspect
 * fields. `before`: the shared one of the account's last set, which is kept if it searches for the same.
 */
export function shareScanner(entries: readonly IndexedRule[], before: Filter | null): Filter | null {
  const needles = new Map<string, { index: number; needle: Needle }>();
  const sharing: IndexedRule[] = [];
  for (const entry of entries) {
    const { terms } = entry.rule;
    if (terms.type !== 'data_filter') continue;
    if (terms.fields !== null) {
      entry.filter = filterOf(terms);
      entry.needles = terms.needles.map((_, i) => i);
      continue;
    }
    sharing.push(entry);
    for (const needle of terms.needles)
      if (!needles.has(needle.key)) needles.set(needle.key, { index: needles.size, needle });
    entry.needles = terms.needles.map((needle) => needles.get(needle.key)!.index);
  }
  if (sharing.length === 0) return null;
  const wanted = [...needles.values()].map(({ needle }) => needle);
  const where = { fields: null, trace: true };
  const filter = before?.isFor(wanted, where) ? before : new Filter(wanted, where);
  for (const entry of sharing) entry.filter = filter;
  return filter;
}

/** Instructions that would have to be laid out to search for all that the data filters search for. */
export function weightOf(entries: readonly IndexedRule[]): number {
  const filters = new Set(entries.map(({ filter }) => filter));
  let weight = 0;
  for (const filter of filters) if (filter !== null) weight += filter.weight;
  return weight;
}

const redactions = new WeakMap<DataFilterTerms, Redaction>();

/** Kept as long as the policy is not changed. `traceKey`: of its account. */
function redactionOf(terms: DataFilterTerms, traceKey = ''): Redaction {
  let redaction = redactions.get(terms);
  if (redaction?.traceKey !== traceKey) {
    redaction = new Redaction(terms.needles, { fields: terms.fields, trace: terms.trace, traceKey });
    redactions.set(terms, redaction);
  }
  return redaction;
}

/** The redactions of a match. A check that was not asked for an unevaluated condition: all that it would be sent. */
export function redactionsOf(
  { rule, needles, filter }: IndexedRule,
  { detail, found }: { detail: object | null; found: Uint8Array | undefined },
  traceKey: string | undefined,
): Redaction[] {
  const terms = rule.terms as DataFilterTerms | ExternalCheckTerms;
  if (terms.type === 'data_filter') {
    const redaction = redactionOf(terms, traceKey);
    if (found === undefined) return [redaction];
    const { wanted } = filter!;
    const isFound = Uint8Array.from(needles, (needle) => Number(found[needle] !== FOUND.no));
    return [
      redaction.among(
        isFound,
        Uint8Array.from(needles, (needle) => wanted[needle]!),
      ),
    ];
  }
  return detail === null ? [] : [new OutsideRedaction(terms.fields?.paths ?? null, [])];
}

/** `agent`: '' for those that have no policies of their own. */
export function planOf(entries: readonly IndexedRule[], agent: string, type: EventType): Plan {
  const plan: Plan = {
    always: [],
    limits: [],
    asked: [],
    byBit: new Map(),
    words: [],
    byPath: [],
    unpivoted: [],
    byTool: null,
    withTool: [],
    counted: new Map(),
    told: new ToldByText(),
  };
  for (const entry of entries) {
    const { policy, conditions } = entry.rule;
    if (policy.agent_id !== null && policy.agent_id !== agent) continue;
    if (!(typesOf(entry.rule)?.includes(type) ?? true)) continue;
    const tools = entry.rule.terms.type === 'budget' ? null : conditions.find(isOfTool)?.texts;
    if (tools === null || tools === undefined) {
      plan.always.push(entry);
      if (isLimitOfAll(entry)) plan.limits.push(entry);
      else if (entry.types?.includes(type) ?? true) addAsked(plan, entry);
      continue;
    }
    plan.byTool ??= new Map();
    plan.withTool.push(entry);
    for (const tool of new Set(tools)) getOrMake(plan.byTool, tool, () => []).push(entry);
  }
  return plan;
}

const NO_ENTRIES: readonly IndexedRule[] = Object.freeze([]);

function addAsked({ asked, byBit, words, byPath, unpivoted }: Plan, entry: IndexedRule): void {
  asked.push(entry);
  const { pivot } = entry;
  if (pivot === null) return void unpivoted.push(entry);
  for (const bit of new Set(pivot.bits)) {
    getOrMake(byBit, bit, () => []).push(entry);
    if (!words.includes(bit >> 5)) words.push(bit >> 5);
  }
  for (const { path, what } of pivot.stands) {
    const known = byPath.find((one) => one.path === path && one.what === what);
    if (known === undefined) byPath.push({ what, path, rules: [entry] });
    else known.rules.push(entry);
  }
}

/** The rules of `asked` whose pivot shows, in their order: their cost is that of what shows. */
export function pivoted({ asked, byBit, words, byPath, unpivoted }: Plan, event: TextView): readonly IndexedRule[] {
  if (asked.length <= unpivoted.length) return asked;
  if (words.length > 0 && event.isOdd) return asked;
  let shown: Set<IndexedRule> | undefined; // made for few events: most show nothing
  for (const word of words)
    for (let bits = event.shown(word); bits !== 0; bits &= bits - 1)
      for (const rule of byBit.get(32 * word + 31 - Math.clz32(bits & -bits)) ?? NO_ENTRIES) {
        shown ??= new Set();
        shown.add(rule);
      }
  for (const { what, path, rules } of byPath) {
    if (!stands(what, event, path)) continue;
    shown ??= new Set();
    for (const rule of rules) shown.add(rule);
  }
  return shown === undefined ? unpivoted : [...unpivoted, ...shown].sort(byOrder);
}

function stands(what: number, event: TextView, path: number): boolean {
  const first = event.firstAt(path);
  switch (what) {
    case STANDS.there:
      return first !== 0 || event.isElsewhere(path);
    case STANDS.notObject:
      return first !== OPEN;
    case STANDS.notText:
      return first !== QUOTE;
    default:
      return first !== 0 && first !== QUOTE;
  }
}

export function byOrder(a: IndexedRule, b: IndexedRule): number {
  return a.order - b.order;
}

/** The conditions by which rules are indexed. */
function isIndexed(condition: FieldCondition): boolean {
  return isOfType(condition) || isOfTool(condition);
}

function isOfType({ path, texts }: FieldCondition): boolean {
  return path.root === 'type' && texts !== null;
}

function isOfTool({ path, texts }: FieldCondition): boolean {
  return texts !== null && path.root === 'payload' && path.segments.length === 1 && path.segments[0] === 'tool';
}

export const TOOL = parsePath('tool') as Path;

/** The types of events of which the rule demands one; null: it can match any. */
export function typesOf({ conditions, terms }: Rule): readonly string[] | null {
  if (terms.type === 'budget') return BUDGET_TYPES;
  return conditions.find(isOfType)?.texts ?? null;
}

/** A rate limit without conditions whose counter needs nothing of the payload. */
export function countsAll(entry: Pick<IndexedRule, 'rule'>): boolean {
  const { terms } = entry.rule;
  return isLimitOfAll(entry) && typeof (terms as RateLimitTerms).per === 'string';
}

/** A rate limit that counts every event of its types. */
function isLimitOfAll({ rule }: Pick<IndexedRule, 'rule'>): boolean {
  const { terms, conditions, schema, expression } = rule;
  return terms.type === 'rate_limit' && schema === null && expression === null && conditions.every(isOfType);
}

/**
 * The rules that name the tool of an event; by what stands there, or UNKNOWN. One that is no plain text (an array, or
 * text that holds one: any element will do) is inspected by every rule that names tools.
 */
export function rulesOfTool({ byTool, withTool }: Plan, tool: unknown): readonly IndexedRule[] {
  if (byTool === null) return NO_ENTRIES;
  if (typeof tool === 'string' && !mayHoldJson(tool)) return byTool.get(tool) ?? NO_ENTRIES;
  return typeof tool === 'string' || tool === UNKNOWN || Array.isArray(tool) ? withTool : NO_ENTRIES;
}

/** The value at `tool` in a payload; UNKNOWN: other keys are folded to `tool`, too. */
export function toolOf(payload: JsonObject): unknown {
  return otherKeys(payload, TOOL, 0).length > 0 ? UNKNOWN : payload['tool'];
}
