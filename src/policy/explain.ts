// Says why a rule matched: which conditions held, where, and with which operator (after the judgement, for rules that
// matched alone; an event that nothing matches never comes here). The text of a match's `detail` is made of it.
// A secret that a data filter found must not be repeated in another match's path: keys of the payload that the
// policy does not name are left out then (`isSecret`).
// Work is counted against the given budget; a path that it does not reach is left out, and the match stands.
import { CONDITIONS_TOLD_MAX, type ConditionHeld, type ConditionsDetail } from '../../schemas/match-detail.ts';
import type { Budget } from './budget.ts';
import { OverBudget } from './budget.ts';
import type { Rule } from './compile.ts';
import type { FieldCondition } from './conditions/field-condition.ts';
import { pointerOf } from './conditions/pointer.ts';
import type { EventView } from './judgement.ts';

const CONDITION_CHARACTERS_MAX = 200;

type Explaining = { budget: Budget; isSecret: boolean };

/**
 * The conditions of a rule that matched, at most CONDITIONS_TOLD_MAX. `event` null: it has no conditions but on `type`.
 */
export function conditionsHeld(rule: Rule, event: EventView | null, how: Explaining): ConditionHeld[] {
  const held: ConditionHeld[] = [];
  for (const condition of rule.conditions) {
    if (held.length >= CONDITIONS_TOLD_MAX) break;
    held.push(...fieldHeld(condition, event, how));
  }
  if (rule.schema !== null) held.push({ condition: 'payload_schema', ...schemaFailure(rule, event!, how) });
  if (rule.expression !== null) held.push({ condition: 'expression' });
  return held.slice(0, CONDITIONS_TOLD_MAX);
}

/** What decided is on top: the last condition that has a path, which completed the match. */
export function conditionsDetail(held: ConditionHeld[]): ConditionsDetail {
  const deciding = held.findLast(({ path }) => path !== undefined) ?? held.at(-1);
  if (deciding === undefined) return { every_event: true };
  return held.length === 1 ? deciding : { ...deciding, conditions: held };
}

/** One entry an operator. */
function fieldHeld(field: FieldCondition, event: EventView | null, how: Explaining): ConditionHeld[] {
  const condition = shownCondition(field.key);
  const isInPayload = field.path.root === 'payload';
  const at = event === null ? undefined : tried(() => field.place(event, how.budget));
  return [...field.operators.keys()].map((operator): ConditionHeld => {
    const entry: ConditionHeld = { condition, operator };
    if (at === undefined) return entry;
    if (at === null)
      return { ...entry, ...(isInPayload ? { path: pointerOf(field.path.segments) } : {}), absent: true };
    if (!isInPayload) return entry;
    const inside = how.isSecret ? [] : tried(() => field.placeInside(operator, event!.payload, at, how.budget));
    return { ...entry, path: pointerOf([...at, ...(inside ?? [])]) };
  });
}

/** A key of `conditions` as it is shown: cut. */
export function shownCondition(key: string): string {
  return key.slice(0, CONDITION_CHARACTERS_MAX).toWellFormed();
}

function schemaFailure({ schema }: Rule, event: EventView, { budget, isSecret }: Explaining): Partial<ConditionHeld> {
  const failure = tried(() => schema!.failure(event, budget));
  if (failure === undefined || failure === null) return {};
  const { steps, keyword } = failure;
  return isSecret ? { keyword } : { path: pointerOf(steps), keyword };
}

/** undefined: it was too much work. */
function tried<T>(find: () => T): T | undefined {
  try {
    return find();
  } catch (error) {
    if (error instanceof OverBudget) return undefined;
    throw error;
  }
}
