// What must be so of an event for a rule to match, as far as that is known before the event has become values (made
// once a rule of a set; asked for each event by RuleSet.look). A demand is asked of a TextView: type, tool, what stands
// at the paths that the rules speak of, which texts occur. A value at a path is asked by the condition itself.
// Invariant: a demand that says no is right: the engine would not match the rule. One that says yes says nothing.
// What the engine does before it would come to a demand may end in a match by itself (work over a budget, an error), so
// a demand counts only behind what is sure not to (`unitsOf`).
import { Budget, OverBudget } from './budget.ts';
import type { Rule } from './compile.ts';
import type { FieldCondition } from './conditions/field-condition.ts';
import { signsOfDetector } from './detectors/detector-signs.ts';
import type { IndexedRule } from './judgement.ts';
import { isShown, type Sought, UNKNOWN } from './sought.ts';
import type { Needle } from './text-search/scanner.ts';
import { anySigns, literalsOf, type Sign, signsOfPattern } from './text-search/signs.ts';
import { type Demand, type Pivot, STANDS, type TextView } from './text-view.ts';

/** For one value of at most VALUE_BYTES_MAX: what takes more is asked again by the engine. */
const VALUE_UNITS = 20_000;
/** Units that a condition may take a character: of a hundred (budget.ts, `fieldUnits`). */
const TEXT_UNITS = 45;
const VALUE_CHARACTER_UNITS = 12;
const CHARACTER_UNITS_MAX = 100;
/** Operators whose work does not follow from the length of a text alone. */
const DEAR: ReadonlySet<string> = new Set(['matches', 'glob', 'shell', 'sql']);
const READ_TEXT: ReadonlySet<string> = new Set(['contains', 'starts_with', 'ends_with']);

type Demands = Pick<IndexedRule, 'demands' | 'needleDemands' | 'pivot' | 'types'>;

/** All of them must hold. `plan`: conditions by which the rule is indexed. */
export function demandsOf(rule: Rule, plan: ReadonlySet<FieldCondition>, sought: Sought): Demands {
  const demands: Demand[] = [];
  const known: Demands = { demands, pivot: null, types: null, needleDemands: [] };
  let units = 0;
  for (const condition of rule.conditions) {
    if (!plan.has(condition)) {
      demands.push(...ofCondition(condition, sought));
      known.pivot = pivotOf(condition, sought) ?? known.pivot;
    }
    units += unitsOf(condition);
    if (units > CHARACTER_UNITS_MAX) return known;
  }
  const { schema, expression, terms } = rule;
  if (schema !== null) demands.push(...schema.demands(sought));
  else if (expression !== null) {
    const { mayBeTrue, pivot, types } = expression.demands(sought);
    if (mayBeTrue !== null) demands.push(mayBeTrue);
    known.types = types;
    known.pivot ??= pivot;
  } else if (terms.type === 'data_filter') {
    const bits = terms.needles.map((needle) => sought.bitOf(signsOfNeedle(needle)));
    const needleDemands = bits.map((bit) => (bit === null ? null : isShown(bit)));
    known.needleDemands = needleDemands;
    if (bits.every((bit) => bit !== null)) {
      known.pivot ??= { bits, stands: [] };
      demands.push((event) => needleDemands.some((demand) => demand!(event)));
    }
  }
  return known;
}

/** The signs that must show, or the path that must be there, for a condition to hold; null: it may hold for nothing. */
function pivotOf({ path, signs }: FieldCondition, sought: Sought): Pivot | null {
  for (const some of signs.texts) {
    const bit = sought.bitOf(some);
    if (bit !== null) return { bits: [bit], stands: [] };
  }
  const place = signs.keys.length === 0 ? null : sought.path(path);
  return place === null ? null : { bits: [], stands: [{ path: place, what: STANDS.there }] };
}

/**
 * Lists texts. One text of each list must occur in an event for the rule to match it; whatever else would be asked
 * first.
 */
export function literalsOfRule({ conditions, terms, expression, schema }: Rule): readonly (readonly string[])[] {
  const signs = conditions.flatMap((condition) => [...condition.signs.keys, ...condition.signs.texts]);
  // An expression or a schema that cannot be evaluated is a match whether or not a needle is there.
  const isFound = terms.type === 'data_filter' && expression === null && schema === null;
  const ofNeedles = isFound ? anySigns(terms.needles.map(signsOfNeedle)) : null;
  const all = ofNeedles === null ? signs : [...signs, ofNeedles];
  return all.map(literalsOf).filter((literals) => literals !== null);
}

function signsOfNeedle({ pattern, detector }: Needle): readonly Sign[] | null {
  return pattern === null ? signsOfDetector(detector!) : signsOfPattern(pattern);
}

function unitsOf({ operators }: FieldCondition): number {
  let units = 0;
  for (const name of operators.keys()) {
    if (DEAR.has(name)) return Number.POSITIVE_INFINITY;
    units += READ_TEXT.has(name) ? TEXT_UNITS : VALUE_CHARACTER_UNITS;
  }
  return units;
}

function ofCondition(condition: FieldCondition, sought: Sought): Demand[] {
  const { path, signs } = condition;
  if (path.root !== 'payload')
    return [(event) => condition.test({ ...rootsOf(event), payload: NOTHING }, new Budget(VALUE_UNITS))];
  const place = sought.path(path);
  const demands: Demand[] = place === null ? [] : [(event) => mayHoldAt(condition, event, place)];
  for (const some of place === null ? [...signs.keys, ...signs.texts] : signs.texts) add(demands, sought.demand(some));
  return demands;
}

function add(demands: Demand[], demand: Demand | null): void {
  if (demand !== null) demands.push(demand);
}

const NOTHING = Object.freeze({});

function rootsOf({ type, trace_id, agent_id }: TextView): Pick<TextView, 'type' | 'trace_id' | 'agent_id'> {
  return { type, trace_id, agent_id };
}

const budget = new Budget(VALUE_UNITS);

function mayHoldAt(condition: FieldCondition, event: TextView, place: number): boolean {
  const value = event.isElsewhere(place) ? UNKNOWN : event.at(place);
  if (value === UNKNOWN) return true;
  budget.begin(VALUE_UNITS);
  try {
    return condition.testValue(value, budget);
  } catch (error) {
    if (error instanceof OverBudget) return true;
    throw error;
  }
}
