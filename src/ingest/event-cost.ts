// What an event cost, by the price table of its account: reckoned from the tokens that its payload says, as it is kept,
// beside the row that says how many they are (encode.ts). Asked by ingest.ts, of accounts that have prices alone.
// Invariant: it follows from the payload, the event's time and the table's revision, which is kept with it, so it can
// be reckoned again. It never throws, and says nothing of an event without tokens.
import type { JsonObject } from '../../schemas/common.ts';
import type { CostElement } from '../../schemas/entry.ts';
import type { PriceList } from '../common/prices/price-list.ts';
import type { Decision } from '../policy/judgement.ts';
import type { DecodedBody, Spending } from './codec.ts';
import { MODEL_CHARACTERS_MAX } from './encode.ts';
import type { Decided } from './resolve-quotas.ts';
import { ownParts, partsOfUsage } from './token-parts.ts';
import { countOrNull, tokensUsed, usageOf } from './token-usage.ts';

/** JSON of what the events of a body cost, for the store pipeline (schemas/entry.ts); undefined: none says tokens. */
export function costElement(
  prices: PriceList,
  body: Pick<DecodedBody, 'spending'>,
  judged: readonly (Decided | null)[],
): string | undefined {
  const element: CostElement = { priced_by: prices.by, of: [] };
  let back = 0;
  for (let i = judged.length - 1; i >= 0; i--) {
    const decision = judged[i]?.decision;
    if (decision === undefined) continue;
    back++;
    const spending = body.spending(i);
    if (spending === undefined) continue;
    const cost = eventCost(prices, keptSpending(spending, decision));
    if (cost !== undefined) element.of.push([back, cost]);
  }
  return element.of.length === 0 ? undefined : JSON.stringify(element);
}

/** By its payload as it is kept. */
export function keptSpending(spending: Spending, { redacted }: Pick<Decision, 'redacted'>): Spending {
  return redacted === null ? spending : { ...spending, payload: JSON.parse(redacted.payloadText) as JsonObject };
}

/** null: it says none. */
export function eventTokens({ payload, isObserved }: Spending): number | null {
  return isObserved ? countOrNull(payload['tokens_used']) : tokensUsed(payload);
}

/** Output alone; null: it does not say. */
export function outputTokens(spending: Spending): number | null {
  return saidOf(spending).parts?.output ?? null;
}

/** The token counts of an event: its own come first. `found`: those of the provider's answer in it. */
function saidOf({ payload, isObserved }: Spending) {
  const found = isObserved ? undefined : usageOf(payload);
  return { found, parts: ownParts(payload) ?? (found === undefined ? null : partsOfUsage(found.usage, found.total)) };
}

/** In millionths. undefined: it says no tokens; null: what they cost is unknown. */
export function eventCost(prices: PriceList, spending: Spending): number | null | undefined {
  const { payload, occurredAt } = spending;
  if (eventTokens(spending) === null) return undefined;
  const { found, parts } = saidOf(spending);
  const model = modelOf(payload, found?.answer);
  const tier = payload['batch'] === true ? BATCH : (found?.usage['service_tier'] ?? found?.answer['service_tier']);
  if (parts === null || model === undefined || (typeof tier === 'string' && PRICED_APART.has(tier))) return null;
  return prices.costOf(parts, { model, atMs: occurredAt, isBatch: tier === BATCH });
}

const BATCH = 'batch';
/** The service tiers for which providers take more or less than their list prices: no table has these. */
const PRICED_APART: ReadonlySet<unknown> = new Set(['flex', 'priority', 'scale']);

/** The model that the event names, else that of the provider's answer in it. */
export function modelOf(payload: JsonObject, answer: JsonObject = payload): string | undefined {
  const said = [payload['model'], answer['model'], answer['modelVersion'], answer['model_version']];
  return said.find(
    (name): name is string => typeof name === 'string' && name !== '' && name.length <= MODEL_CHARACTERS_MAX,
  );
}
