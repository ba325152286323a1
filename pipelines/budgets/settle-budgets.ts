// Charges budgets what stored events have used (in the alert pipeline, which reads the summaries of all events).
// What was held for a call is let go in the same step (src/redis/spend.lua).
// Invariant: an event charges a budget once, whatever of a batch is replayed: each counter knows the place of its last
// settlement in each stream. The amount is the one that is in the event's row, and the part of the window follows from
// when it arrived, so the sum can be read again from the rows.
// Failure: Redis away, the batch is tried again.
import type { EventSettled, EventSummary } from '../../schemas/entry.ts';
import type { Policy } from '../../schemas/policy.ts';
import type { Signal } from '../../schemas/signal.ts';
import { type Settle, type SpendRequest, SpendStore } from '../../src/policy/quotas/spend-store.ts';
import { partOfWindow } from '../../src/policy/spends/budget-window.ts';
import { hashed, windowArgument } from '../../src/policy/spends/spend-form.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';

type Stores = { redis: Commands; keys: Keys };
/** `place`: in the stream, as the signals of events have one. */
type PlacedWarning = { signal: Signal; place: string };
type EntryEvents = { id: string; held: readonly EventSummary[] };
type ToSettle = { event: EventSummary; settled: EventSettled; place: string; request: SpendRequest };

/** `entries`: in the order of the stream. Answers what is to be notified of shares of limits that were reached. */
export function budgetSettling(
  stores: Stores,
): (stream: string, entries: readonly EntryEvents[]) => Promise<PlacedWarning[]> {
  const spends = new SpendStore(stores.redis, stores.keys);
  return (stream, entries) => settleBudgets({ ...stores, spends }, stream, entries);
}

async function settleBudgets(
  { spends, redis, keys }: Stores & { spends: SpendStore },
  stream: string,
  entries: readonly EntryEvents[],
): Promise<PlacedWarning[]> {
  const accounts = new Map<string, ToSettle[]>();
  for (const { id, held } of entries)
    for (const [i, event] of held.entries())
      for (const [k, settled] of (event.settled ?? []).entries()) {
        const number = i * BUDGETS_OF_EVENT_MAX + k;
        const request = {
          of: { policyId: settled.by.policy, form: settled.by.form },
          operation: settleOf(stream, event, { settled, id, number }),
        };
        const toSettle = { event, settled, place: `${id}/${SIGNAL_NUMBERS + number}`, request };
        accounts.set(event.account, [...(accounts.get(event.account) ?? []), toSettle]);
      }
  const signals: PlacedWarning[] = [];
  for (const [account, all] of accounts) {
    const answers = await spends.run(
      account,
      all.map(({ request }) => request),
    );
    for (const [i, [, ...shares]] of answers.entries())
      for (const share of shares) {
        const text = await redis.hget(keys.policies(account), all[i]!.settled.by.policy);
        if (text !== null) signals.push(warningOf(all[i]!, JSON.parse(text) as Policy, Number(share)));
      }
  }
  return signals;
}

/** As many policies as can be in force. */
const BUDGETS_OF_EVENT_MAX = 10_000;
/** Behind the signals that events raise by themselves. */
const SIGNAL_NUMBERS = 1_000_000;

function settleOf(
  stream: string,
  { receivedAt }: EventSummary,
  { settled, id, number }: { settled: EventSettled; id: string; number: number },
): Settle {
  const { by, scope, shown, amount, target } = settled;
  const [ms, sequence] = id.split('-').map(Number) as [number, number];
  return {
    op: 'settle',
    ...windowArgument(by.window, Date.now()),
    ...{ scope, shown, amount, target, limit: by.limit, warn: by.warn, life: by.life },
    ...{ part: partOfWindow(by.window, receivedAt), at: receivedAt },
    ...{ stream: hashed(stream), place: [ms, sequence, number] },
  };
}

function warningOf({ event, settled, place }: ToSettle, policy: Policy, share: number): PlacedWarning {
  const { id, name, type, severity } = policy;
  return {
    place,
    signal: {
      id: `budget_warning/${event.id}/${id}/${share}`,
      trigger: 'budget_warning',
      account: event.account,
      agent: event.agent,
      severity: severity ?? 'medium',
      at: event.receivedAt,
      message: `${Math.round(share * 1000) / 10} % of budget "${name.slice(0, 100)}" are spent${settled.shown === '' ? '' : ` for ${settled.shown}`}.`,
      event: { id: event.id, type: event.type, occurredAt: event.occurredAt, outcome: event.outcome },
      policies: [{ id, name, type, severity }],
      share,
    },
  };
}
