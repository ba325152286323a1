// Lays an account's rules out so that an event meets only those that can concern it (used by engine.ts, made once per
// set). By agent, event type and tool: what a rule demands of these by plain equality. All data filters that inspect
// the whole payload share one scanner, so that its strings are walked once however many filters there are.
// Invariant: a rule is left out of a plan only if its own conditions could not hold for any event of that plan.

import type { EventType, Outcome, PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import { mayHoldJson } from '../common/inner-json.ts';
import type { Rule } from './compile.ts';
import { Filter } from './filter.ts';
import type { IndexedRule, Judgement, LiteralBits, TextView } from './judgement.ts';
import type { DataFilterTerms } from './kinds/data-filter.ts';
import { isDryRun } from './kinds/policy-kind.ts';
import { Redaction } from './redaction/redaction.ts';
import { type Clause, prefilterOf } from './text-search/literal-prefilter.ts';
import type { Needle } from './text-search/scanner.ts';

/** The rules that can concern events of one type of one agent. `byTool` are those that demand one of some tools. */
export type Plan = {
  always: IndexedRule[];
  /**
   * Those of `always` that have a prefilter; and is there another whose match cannot be decided without reading the
   * payload?
   */
  prefiltered: IndexedRule[];
  hasUnfiltered: boolean;
  byTool: Map<string, IndexedRule[]> | null;
  withTool: IndexedRule[];
  /** What an event meets that no rule can match: the limits that count all. Made when first asked for. */
  counted?: Judgement;
};

export function entryOf(rule: Rule, order: number): IndexedRule {
  const { id, revision, name, type, actions, severity } = rule.policy;
  const match = { policy_id: id, revision, name, type, actions, severity };
  return {
    rule,
    order,
    outcome: outcomeOfMatch(type, actions),
    match,
    json: `${JSON.stringify(match).slice(0, -1)},"detail":`,
    needles: [],
    filter: null,
    prefilter: null,
  };
}

/** What a match of a policy makes of an event. */
export function outcomeOfMatch(type: PolicyType, actions: readonly PolicyAction[]): Outcome {
  if (isDryRun(actions)) return 'allowed';
  if (type === 'require_approval') return 'pending';
  return actions.includes('block') ? 'blocked' : 'allowed';
}

const filters = new WeakMap<DataFilterTerms, Filter>();

/** Of a data filter that inspects fields: kept as long as its policy is not changed. */
function filterOf(terms: DataFilterTerms): Filter {
  let filter = filters.get(terms);
  if (filter === undefined) {
    filter = new Filter(terms.needles, terms);
    filters.set(terms, filter);
  }
  return filter;
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

/** Literals of a set: as many as have a bit in what the search for them answers (ingest/wasm/layout.ts). */
export const LITERALS_MAX = 512;

/**
 * Gives every entry its prefilter. Returns the literals that the prefilters speak of, by number. `before`: those that
 * have the first numbers.
 */
export function numberLiterals(entries: readonly IndexedRule[], before: readonly string[] = []): readonly string[] {
  const numbers = new Map(before.map((literal, number) => [literal, number]));
  for (const entry of entries) {
    const prefilter = prefilterOfRule(entry.rule);
    if (prefilter === null) continue;
    const fresh = new Set(prefilter.flat().filter((literal) => !numbers.has(literal)));
    if (numbers.size + fresh.size > LITERALS_MAX) continue;
    for (const literal of fresh) numbers.set(literal, numbers.size);
    entry.prefilter = prefilter.map((clause) => bitsOf(clause.map((literal) => numbers.get(literal)!)));
  }
  return numbers.size === before.length && before.length > 0 ? before : [...numbers.keys()];
}

export function prefilterOfRule({ conditions, terms, expression, schema }: Rule): readonly Clause[] | null {
  // An expression or a schema that cannot be evaluated is a match whether or not a needle is there.
  const needles = terms.type === 'data_filter' && expression === null && schema === null ? terms.needles : null;
  return prefilterOf({ conditions, needles });
}

function bitsOf(numbers: readonly number[]): LiteralBits[] {
  const masks = new Map<number, number>();
  for (const number of numbers) masks.set(number >> 5, (masks.get(number >> 5) ?? 0) | (1 << (number & 31)));
  return [...masks].map(([word, mask]) => ({ word, mask }));
}

const redactions = new WeakMap<DataFilterTerms, Redaction>();

/** Kept as long as the policy is not changed. `traceKey`: of its account. */
export function redactionOf(terms: DataFilterTerms, traceKey = ''): Redaction {
  let redaction = redactions.get(terms);
  if (redaction?.traceKey !== traceKey) {
    redaction = new Redaction(terms.needles, { fields: terms.fields, trace: terms.trace, traceKey });
    redactions.set(terms, redaction);
  }
  return redaction;
}

export function planOf(entries: readonly IndexedRule[], agent: string, type: EventType): Plan {
  const plan: Plan = { always: [], prefiltered: [], hasUnfiltered: false, byTool: null, withTool: [] };
  for (const entry of entries) {
    const { policy, conditions } = entry.rule;
    if (policy.agent_id !== null && policy.agent_id !== agent) continue;
    if (!(typesOf(entry.rule)?.includes(type) ?? true)) continue;
    const tools = conditions.find(
      ({ path, texts }) =>
        texts !== null && path.root === 'payload' && path.segments.length === 1 && path.segments[0] === 'tool',
    )?.texts;
    if (tools === null || tools === undefined) {
      plan.always.push(entry);
      if (entry.prefilter !== null) plan.prefiltered.push(entry);
      else if (!countsAll(entry)) plan.hasUnfiltered = true;
      continue;
    }
    plan.byTool ??= new Map();
    plan.withTool.push(entry);
    for (const tool of new Set(tools)) plan.byTool.set(tool, [...(plan.byTool.get(tool) ?? []), entry]);
  }
  return plan;
}

/** The types of events of which the rule demands one; null: it can match any. */
export function typesOf({ conditions }: Rule): readonly string[] | null {
  return conditions.find(({ path, texts }) => path.root === 'type' && texts !== null)?.texts ?? null;
}

/** A rate limit without conditions whose counter needs nothing of the payload. */
export function countsAll({ rule }: { rule: Rule }): boolean {
  const { terms, conditions, schema, expression } = rule;
  if (terms.type !== 'rate_limit' || typeof terms.per !== 'string') return false;
  return (
    schema === null &&
    expression === null &&
    conditions.every(({ path, texts }) => path.root === 'type' && texts !== null)
  );
}

const NO_ENTRIES: readonly IndexedRule[] = Object.freeze([]);

/**
 * A tool that is no plain text (an array, or text that holds one: any element will do) is inspected by every rule that
 * names tools.
 */
export function rulesOfTool(plan: Plan, tool: unknown): readonly IndexedRule[] {
  if (typeof tool === 'string' && !mayHoldJson(tool)) return plan.byTool!.get(tool) ?? NO_ENTRIES;
  return typeof tool === 'string' || Array.isArray(tool) ? plan.withTool : NO_ENTRIES;
}

/** Whether a rule could match an event of which only the literals are known. What counts all is no match. */
export function mayMatch(entry: IndexedRule, event: TextView): boolean {
  if (entry.prefilter === null) return !countsAll(entry);
  for (const clause of entry.prefilter) if (!isMet(clause, event)) return false;
  return true;
}

function isMet(clause: readonly LiteralBits[], event: TextView): boolean {
  for (const { word, mask } of clause) if (event.hasAny(word, mask)) return true;
  return false;
}
