// What was decided of some events, for spans that say which event was judged before they were done (POST /v1/traces).
import type { EventType, Outcome, Reason } from '../../schemas/closed-sets.ts';
import type { PolicyResult } from '../../schemas/event.ts';
import { isId } from '../../src/common/ids.ts';
import type { ClickHouse } from '../client.ts';
import type { EventRow } from './event-rows.ts';
import { getEvents } from './get-event.ts';

type DecidedEvent = {
  id: string;
  agentId: string;
  type: EventType;
  outcome: Outcome;
  reason: Reason | null;
  policyId: string | null;
  payloadText: string;
};

/**
 * Those that are stored, with their final outcome; ids that are none are left out, and what is behind `bytesMax` of
 * payloads.
 */
export async function decidedEvents(
  clickhouse: ClickHouse,
  account: string,
  ids: readonly string[],
  bytesMax: number,
): Promise<DecidedEvent[]> {
  const known = ids.filter((id) => isId('event', id));
  const rows: EventRow[] = [];
  let bytes = 0;
  for (let from = 0; from < known.length && bytes < bytesMax; ) {
    const { events, ids: count } = await getEvents(clickhouse, account, known.slice(from));
    rows.push(...events);
    bytes += events.reduce((sum, { payload }) => sum + payload.length, 0);
    from += count;
  }
  return rows.flatMap(({ id, agent_id: agentId, type, payload: payloadText, policy_result }) => {
    const result = policy_result === '' ? undefined : (JSON.parse(policy_result) as PolicyResult);
    // A span itself decides nothing: it is judged after the fact.
    if (result?.source === 'otlp') return [];
    const { outcome = 'allowed', reason = null, policy_id: policyId = null } = result ?? {};
    return [{ id, agentId, type: type as EventType, outcome, reason, policyId, payloadText }];
  });
}
