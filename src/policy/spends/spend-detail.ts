// What an answer of the counters says of a prompt: the match of a budget into which it does not fit, or what is held
// for it (after the counters, before the decision). Pure.
import type { BudgetReserved } from '../../../schemas/event.ts';
import type { BudgetDetail } from '../../../schemas/match-detail.ts';
import { isoTime } from '../../../schemas/time.ts';
import { Budget, EXPLAIN_UNITS } from '../budget.ts';
import { conditionsHeld } from '../explain.ts';
import type { RuleMatch, SpendCheck } from '../judgement.ts';
import { type BudgetTerms, scopeText, spentText, windowText } from '../kinds/spend-budget.ts';
import type { SpendAnswer } from '../quotas/spend-store.ts';

/** `fits`: output tokens, -1: they do not matter. `resetsMs` 0: nothing is spent in a sliding window. */
export type Reserved = {
  word: 'yes' | 'no' | 'unknown';
  amount: number;
  left: number;
  fits: number;
  resetsMs: number;
  isKnown: boolean;
};

export function readReserved([word, amount, left, fits, resetsMs, isKnown]: SpendAnswer): Reserved {
  const read = { amount: Number(amount), left: Number(left), fits: Number(fits), resetsMs: Number(resetsMs) };
  return { word: word as Reserved['word'], isKnown: isKnown === '1', ...read };
}

/** `asked`: what the counters said; left out where they were not asked. */
export function budgetMatch(
  { entry, event, unevaluated }: SpendCheck,
  { asked, unknown, isSecret }: { asked?: Reserved; unknown?: BudgetDetail['unknown']; isSecret: boolean },
): RuleMatch {
  const terms = entry.rule.terms as BudgetTerms;
  const { limit } = terms;
  const detail: BudgetDetail = {
    limit: spentText(limit, limit.amount),
    window: windowText(terms.window),
    per: scopeText(terms),
  };
  if (asked !== undefined && unknown === undefined) {
    detail.needed = spentText(limit, asked.amount);
    detail.left = spentText(limit, asked.left);
    if (asked.fits >= 0) detail.max_tokens = asked.fits;
    if (asked.resetsMs > 0) detail.resets_at = isoTime(asked.resetsMs);
  }
  if (unknown !== undefined) detail.unknown = unknown;
  const held =
    unevaluated?.condition === undefined
      ? conditionsHeld(entry.rule, event, { budget: new Budget(EXPLAIN_UNITS), isSecret })
      : [];
  if (held.length > 0) detail.conditions = held;
  return { entry, detail: { ...detail, ...unevaluated } };
}

/** `saysMost`: the request says how much output it allows. */
export function budgetReserved({ entry }: SpendCheck, asked: Reserved, saysMost: boolean): BudgetReserved {
  const { limit } = entry.rule.terms as BudgetTerms;
  return {
    policy_id: entry.rule.policy.id,
    reserved: spentText(limit, asked.amount),
    left: spentText(limit, asked.left),
    resets_at: asked.resetsMs > 0 ? isoTime(asked.resetsMs) : null,
    ...(saysMost && asked.fits >= 0 ? { max_tokens: asked.fits } : {}),
  };
}
