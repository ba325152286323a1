// What a policy that need not exist would have matched of recorded events (POST /v1/policies/preview): those that the
// list has, judged by the replay of a backtest (policy-replay.ts), so that both say the same. Done in a front's judging
// thread (policy-work.ts). Pure.
// Invariant: no counter is asked or moved. Policies that ask what was before count and know these events alone, in the
// order of arrival; all others judge the newest first, so where time is up the newest have been judged.
// Failure: none of its own; what is not judged in PREVIEW_MS_MAX is left out of `events`.
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Policy } from '../../../schemas/policy.ts';
import type { RecordedEvent } from '../../../schemas/recorded-event.ts';
import { PREVIEW_MS_MAX, PREVIEW_SHOWN_MAX } from '../../common/limits.ts';
import { PriceList, type PriceTableRecord } from '../../common/prices/price-list.ts';
import { PolicyReplay } from './policy-replay.ts';
import { replayedEvent } from './recorded-event.ts';
import type { SpendAmounts } from './replayed-budget.ts';
import { TooManyCounters } from './replayed-counters.ts';

/**
 * `reason` is in what policies said of it; each event counts as a request of its own. `approvedMs`: of one that was
 * pending, as far as it matters; `cost`: in the currency of a budget.
 */
export type PreviewedEvent = Omit<RecordedEvent, 'reason' | 'requestId'> & {
  approvedMs?: number | undefined;
  cost?: number;
};
/** `events`: the newest first. `agents`: by id; events of others are left out. */
export type PreviewTrial = {
  policy: Policy;
  agents: Readonly<Record<string, AgentRecord>>;
  events: readonly PreviewedEvent[];
  /** By which a budget reckons calls. */
  prices?: PriceTableRecord | undefined;
};
/** `first`: ids of the newest that matched. */
export type Previewed = { events: number; matched: number; unknown: number; first: string[]; isWhole: boolean };

/** `pause`: gives others their turn, where it is time for it. */
export async function previewed(
  { policy, agents, events, prices }: PreviewTrial,
  pause: () => Promise<void> | undefined,
  amountsBy: (prices: PriceList | undefined) => SpendAmounts = notHere,
): Promise<Previewed> {
  const amounts =
    policy.type === 'budget' ? amountsBy(prices === undefined ? undefined : new PriceList(prices)) : undefined;
  const replay = new PolicyReplay({ tried: policy, replaces: policy.shadow_of ?? null, inForce: null, amounts });
  const isInOrder = isOfBefore(policy);
  const found: Previewed = { events: 0, matched: 0, unknown: 0, first: [], isWhole: true };
  const matched: string[] = [];
  const endMs = performance.now() + PREVIEW_MS_MAX;
  for (const row of isInOrder ? [...events].sort(byArrival) : events) {
    if (performance.now() > endMs) {
      found.isWhole = false;
      break;
    }
    const agent = agents[row.agentId];
    if (agent === undefined) continue;
    const event = replayedEvent({ ...row, reason: '', requestId: row.id });
    event.reason = event.result?.reason ?? '';
    Object.assign(event, { approvedMs: row.approvedMs, cost: row.cost });
    const verdict = verdictOf(() => replay.next(event, agent).matched);
    if (verdict === 'full') {
      found.isWhole = false;
      break;
    }
    found.events++;
    if (verdict === null) found.unknown++;
    if (verdict === true) matched.push(row.id);
    await pause();
  }
  found.matched = matched.length;
  found.first = isInOrder ? matched.slice(-PREVIEW_SHOWN_MAX).reverse() : matched.slice(0, PREVIEW_SHOWN_MAX);
  return found;
}

function notHere(): never {
  throw new Error('calls of models are reckoned in a front');
}

/** Is an event judged by what was before it? */
function isOfBefore({ type }: Policy): boolean {
  return type === 'rate_limit' || type === 'sequence' || type === 'budget';
}

/** `full`: the policy counts more values apart than are kept. */
function verdictOf(judge: () => boolean | null): boolean | null | 'full' {
  try {
    return judge();
  } catch (error) {
    if (error instanceof TooManyCounters) return 'full';
    throw error;
  }
}

function byArrival(a: PreviewedEvent, b: PreviewedEvent): number {
  return a.receivedMs - b.receivedMs || (a.id < b.id ? -1 : 1);
}
