// What a call of a model may use, by its prompt, and what it used, by its completion: in the unit of a budget (for
// resolve-budgets.ts). Pure.
// Invariant: of `worst` nothing is too low: a token is a byte at least, input is priced as what costs most, and output
// is what the call or the price table allows. What cannot be known is said to be unknown, never 0.
import type { JsonObject } from '../../schemas/common.ts';
import type { PriceList, TokenParts } from '../common/prices/price-list.ts';
import type { EventView } from '../policy/judgement.ts';
import type { BudgetTerms } from '../policy/kinds/spend-budget.ts';
import type { SpendAmounts } from '../policy/replay/replayed-budget.ts';
import type { Spending } from './codec.ts';
import { eventCost, eventTokens, modelOf, outputTokens } from './event-cost.ts';
import { countOrNull } from './token-usage.ts';

/** The amount that is reserved: `fixed`, and `rate` a million output tokens; `output` are allowed (-1: not said). */
type Estimate = { fixed: number; rate: number; output: number };
type PricedBy = { prices: PriceList | undefined; nowMs: number };

/** Output tokens of a call that says no bound, before those of its agent and model are known. */
export const OUTPUT_GUESS = 1_000;
/** Bytes of ordinary text for a token. */
const BYTES_A_TOKEN = 4;
const MILLION = 1_000_000;
const NOTHING: TokenParts = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };
const INPUTS = ['input', 'cacheWrite', 'cacheWrite1h'] as const satisfies (keyof TokenParts)[];
/** How requests say how much output they allow. */
const MOST = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'maxOutputTokens', 'maxTokens'];

/** null: the prompt does not say it. */
export function mostOutput(payload: JsonObject): number | null {
  for (const name of MOST) {
    const said = countOrNull(payload[name]);
    if (said !== null) return said;
  }
  return null;
}

/** The estimate of what a prompt may use; a word: it cannot be known. */
export function estimateOf(
  { payload, payloadText }: EventView,
  { limit, estimate }: BudgetTerms,
  { prices, nowMs }: PricedBy,
): Estimate | 'unpriced' | 'no_ceiling' {
  if (limit.unit === 'events') return { fixed: 1, rate: 0, output: 0 };
  const isWorst = estimate === 'worst';
  const model = modelOf(payload) ?? '';
  const output = mostOutput(payload) ?? prices?.maxOutput(model, nowMs) ?? -1;
  if (isWorst && output < 0) return 'no_ceiling';
  const bytes = Buffer.byteLength(payloadText);
  const input = countOrNull(payload['token_count']) ?? (isWorst ? bytes : Math.ceil(bytes / BYTES_A_TOKEN));
  if (limit.unit === 'tokens') return { fixed: input, rate: MILLION, output };
  if (prices === undefined || prices.record.currency !== limit.currency) return 'unpriced';
  const priced = { model, atMs: nowMs, isBatch: payload['batch'] === true };
  const costs = (isWorst ? INPUTS : (['input'] as const)).map((part) =>
    prices.costOf({ ...NOTHING, [part]: input }, priced),
  );
  // Of output alone, at the tier of the input: the difference of two costs.
  const [of, withOutput] = [
    { ...NOTHING, input },
    { ...NOTHING, input, output: MILLION },
  ];
  const [without, with1m] = [prices.costOf(of, priced), prices.costOf(withOutput, priced)];
  if (costs.includes(null) || without === null || with1m === null) return 'unpriced';
  return { fixed: Math.max(...(costs as number[])), rate: with1m - without, output };
}

/** The amount that a completion used; -1: it does not say, or it is not known. */
export function usedOf(spending: Spending, { limit }: BudgetTerms, prices: PriceList | undefined): number {
  if (limit.unit === 'events') return 1;
  if (limit.unit === 'tokens') return eventTokens(spending) ?? -1;
  if (prices === undefined || prices.record.currency !== limit.currency) return -1;
  return eventCost(prices, spending) ?? -1;
}

/** For who replays a budget. */
export function spendAmounts(prices: PriceList | undefined): SpendAmounts {
  return {
    estimate: (event, terms, nowMs) => estimateOf(event, terms, { prices, nowMs }),
    used: ({ payload, atMs: occurredAt, isObserved }, terms) =>
      usedOf({ payload, occurredAt, isObserved }, terms, prices),
    output: ({ payload, isObserved }) => outputTokens({ payload, occurredAt: 0, isObserved }) ?? -1,
    model: (payload) => modelOf(payload) ?? '',
    guess: OUTPUT_GUESS,
  };
}
