// Says why a rule matched: which conditions held, where, and with which operator (after the judgement, for rules that
// matched alone; an event that nothing matches never comes here). The text of a match's `detail` is made of it. And why
// a rule did not match, for an evaluation (policy-work.ts).
// A secret that a data filter found must not be repeated in another match's path: keys of the payload that the
// policy does not name are left out then (`isSecret`).
// Work is counted against the given budget; a path that it does not reach is left out, and the match stands.
import type { Operator } from '../../schemas/condition.ts';
import {
  CONDITIONS_SHOWN_MAX,
  type ConditionHeld,
  type ConditionsDetail,
  type ConditionUnmet,
} from '../../schemas/match-detail.ts';
import { Budget, expressionUnits, fieldUnits, withinBudget } from './budget.ts';
import type { Rule } from './compile.ts';
import { FieldCondition } from './conditions/field-condition.ts';
import { pointerOf } from './conditions/pointer.ts';
import type { EventView } from './judgement.ts';
import { PatternAllowance } from './text-search/pattern-allowance.ts';

const CONDITION_CHARACTERS_MAX = 200;

type Explaining = { budget: Budget; isSecret: boolean };

/**
 * The conditions of a rule that matched, at most CONDITIONS_SHOWN_MAX. `event` null: it has no conditions but on
 * `type`.
 */
export function conditionsHeld(rule: Rule, event: EventView | null, how: Explaining): ConditionHeld[] {
  const held: ConditionHeld[] = [];
  for (const condition of rule.conditions) {
    if (held.length >= CONDITIONS_SHOWN_MAX) break;
    held.push(...fieldHeld(condition, event, how));
  }
  if (rule.schema !== null) held.push({ condition: 'payload_schema', ...schemaFailure(rule, event!, how) });
  if (rule.expression !== null) held.push({ condition: 'expression' });
  return held.slice(0, CONDITIONS_SHOWN_MAX);
}

/** The detail of a match. On top the last condition that has a path, which completed it. `isListed`: all below it. */
export function conditionsDetail(held: ConditionHeld[], isListed = true): ConditionsDetail {
  const deciding = held.findLast(({ path }) => path !== undefined) ?? held.at(-1);
  if (deciding === undefined) return { every_event: true };
  return held.length === 1 || !isListed ? deciding : { ...deciding, conditions: held };
}

/** One entry an operator. */
function fieldHeld(field: FieldCondition, event: EventView | null, how: Explaining): ConditionHeld[] {
  const condition = shownCondition(field.key);
  const isInPayload = field.path.root === 'payload';
  const at = event === null ? undefined : withinBudget(() => field.place(event, how.budget), undefined);
  return [...field.operators.keys()].map((operator): ConditionHeld => {
    const entry: ConditionHeld = { condition, operator };
    if (at === undefined) return entry;
    if (at === null)
      return { ...entry, ...(isInPayload ? { path: pointerOf(field.path.segments) } : {}), absent: true };
    if (!isInPayload) return entry;
    const inside = how.isSecret
      ? []
      : withinBudget(() => field.placeInside(operator, event!.payload, at, how.budget), []);
    const met = field.entryMet(operator);
    const which = met === undefined ? {} : { entry: met };
    return { ...entry, path: pointerOf([...at, ...inside]), ...which };
  });
}

/**
 * The conditions of a rule for which it did not match, at most CONDITIONS_SHOWN_MAX. What cannot be evaluated counts as
 * met; none: all of them do.
 */
export function conditionsUnmet(rule: Rule, event: EventView): ConditionUnmet[] {
  const budget = new Budget(fieldUnits(event.payloadText.length));
  const unmet = rule.conditions.flatMap((field) => withinBudget(() => fieldUnmet(field, event, budget), []));
  const isMet = (test: (budget: Budget) => boolean) => {
    try {
      return test(new Budget(expressionUnits(event.payloadText.length)));
    } catch {
      return true;
    }
  };
  const { schema, expression, terms } = rule;
  if (schema !== null && !isMet((units) => schema.test(event, units))) unmet.push({ condition: 'payload_schema' });
  if (expression !== null && !isMet((units) => expression.test(event, units))) unmet.push({ condition: 'expression' });
  // The conditions hold, and still nothing matched: so nothing was found.
  if (unmet.length === 0 && terms.type === 'data_filter') {
    if (terms.patterns > 0) unmet.push({ condition: 'patterns' });
    if (terms.patterns < terms.needles.length) unmet.push({ condition: 'detectors' });
  }
  if (unmet.length === 0 && terms.type === 'sequence') unmet.push({ condition: terms.steps > 0 ? 'after' : 'unless' });
  return unmet.slice(0, CONDITIONS_SHOWN_MAX);
}

/** One entry an operator that holds for no value by itself; where each does, and only not together, one without. */
function fieldUnmet(field: FieldCondition, event: EventView, budget: Budget): ConditionUnmet[] {
  if (field.test(event, budget)) return [];
  const { path, operators } = field;
  const holds = (operator: Operator, operand: unknown) => {
    const alone = { key: field.key, path, operators: new Map([[operator, operand]]), isShort: false };
    return new FieldCondition(alone, new PatternAllowance()).test(event, budget);
  };
  const condition = shownCondition(field.key);
  const absent = holds('exists', true) ? {} : { absent: true as const };
  const failing = [...operators].filter(([operator, operand]) => operators.size === 1 || !holds(operator, operand));
  if (failing.length === 0) return [{ condition, ...absent }];
  return failing.map(([operator]) => ({ condition, operator, ...absent }));
}

/** A key of `conditions` as it is shown: cut. */
export function shownCondition(key: string): string {
  return key.slice(0, CONDITION_CHARACTERS_MAX).toWellFormed();
}

function schemaFailure({ schema }: Rule, event: EventView, { budget, isSecret }: Explaining): Partial<ConditionHeld> {
  const failure = withinBudget(() => schema!.failure(event, budget), null);
  if (failure === null) return {};
  const { steps, keyword } = failure;
  return isSecret ? { keyword } : { path: pointerOf(steps), keyword };
}
