// The filters of events, as lists, counts and exports take them in their query.

import type { EventFilter } from '../../../clickhouse/queries/event-filter.ts';
import { EVENT_TYPES, OUTCOMES, REASONS, SEVERITIES } from '../../../schemas/closed-sets.ts';

import { anyOf, oneOf, type QueryOf, search, text, time } from '../reading/query.ts';

/** The filters of every list, count and export of events. */
export const eventFilters = {
  type: anyOf(oneOf('Only events of this type', EVENT_TYPES)),
  from: time('Events at or after this time (`timestamp`)'),
  to: time('Events at or before this time'),
  trace_id: anyOf(text('Only events of this trace')),
  outcome: anyOf(oneOf('Only events of this outcome, the final one where an approval was decided', OUTCOMES)),
  reason: anyOf(
    oneOf('Only events with this `policy_result.reason`, `approval` once an approval was decided', REASONS),
  ),
  policy_id: anyOf(text('Only events that this policy matched, whatever the outcome')),
  severity: anyOf(oneOf('Only events that a policy of this severity matched', SEVERITIES)),
  detector: anyOf(text('Only events in which this detector of a data filter found something')),
  model: anyOf(text('Only events whose `payload.model` is this', 1_000)),
  q: search('Words, or a quoted phrase, in the payload'),
};

/** Beside the others where events of all agents are asked for. */
export const agentFilter = { agent_id: anyOf(text('Only events of this agent')) };

/** The filter of a query. Other parameters are not inspected; `agent_id` is the handler's. */
export function filterOf(query: QueryOf<typeof eventFilters>): EventFilter {
  const {
    trace_id: traceId,
    policy_id: policyId,
    type,
    from,
    to,
    outcome,
    reason,
    severity,
    detector,
    model,
    q,
  } = query;
  return { traceId, policyId, type, from, to, outcome, reason, severity, detector, model, q };
}
