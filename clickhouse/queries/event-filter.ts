// Which events are asked for: the filters of lists, counts and exports, as conditions (GET /v1/events and what is
// under it). Outcomes and reasons are final ones, which event rows do not say: the caller adds them
// (final-outcome.ts).

import type { ClickHouseSettings } from '@clickhouse/client';
import type { EventType, Outcome, Reason, Severity } from '../../schemas/closed-sets.ts';

import { type AnyOf, type Excluded, QueryConditions, valuesOf } from './conditions.ts';
import { type PayloadCondition, parseSearch, payloadCondition } from './search.ts';

/** A filter with several values takes any of them. */
export type EventFilter = Excluded & {
  agentId?: AnyOf<string> | undefined;
  type?: AnyOf<EventType> | undefined;
  /** Epoch ms to the microsecond, inclusive; of the event's own `timestamp`. */
  from?: number | undefined;
  to?: number | undefined;
  traceId?: AnyOf<string> | undefined;
  outcome?: AnyOf<Outcome> | undefined;
  reason?: AnyOf<Reason> | undefined;
  model?: AnyOf<string> | undefined;
  /** A policy of any of the event's matches; so are the two below. */
  policyId?: AnyOf<string> | undefined;
  severity?: AnyOf<Severity> | undefined;
  detector?: AnyOf<string> | undefined;
  q?: string | undefined;
};

/** All of a filter. */
export function conditionsOf(account: string, filter: EventFilter): QueryConditions {
  const where = filtersOf(account, filter);
  const search = searchOf(filter);
  return search === undefined ? where : where.and(search.sql, search.params);
}

/** undefined: nothing is searched for. */
export function searchOf({ q }: EventFilter): PayloadCondition | undefined {
  return q === undefined ? undefined : payloadCondition(parseSearch(q));
}

/** All but the search. */
export function filtersOf(account: string, filter: EventFilter): QueryConditions {
  const where = new QueryConditions(account)
    .equal('agent_id', filter.agentId)
    .exclude('agent_id', filter.excludeAgents)
    .equal('type', filter.type)
    .happenedBetween(filter.from, filter.to)
    .equal('trace_id', filter.traceId)
    .equal('model', filter.model);
  matchedBy(where, 'policy', filter.policyId);
  matchedBy(where, 'severity', filter.severity);
  matchedBy(where, 'detector', filter.detector);
  return where;
}

/** Terms of the column `matched` (001_events.sql). */
function matchedBy(
  where: QueryConditions,
  of: 'policy' | 'severity' | 'detector',
  filter: AnyOf<string> | undefined,
): void {
  if (filter === undefined) return;
  where.and(`hasAny(matched, {${of}_terms:Array(String)})`, {
    [`${of}_terms`]: valuesOf(filter).map((value) => `${of}:${value}`),
  });
}

/** The projection that holds an account's events in the order of lists (001_events.sql). */
export const BY_TIME = 'by_time';

export function isByMatch({ policyId, severity, detector, reason }: EventFilter): boolean {
  return [policyId, severity, detector, reason].some((filter) => filter !== undefined);
}

/** How the engine finds such rows with the least reading. */
export function settingsOf(filter: EventFilter): ClickHouseSettings {
  const { agentId, q, traceId } = filter;
  // The filter that the engine derives from ORDER BY … LIMIT would make it read payloads instead of answering from the
  // text index: 540 ms for 130.
  if (q !== undefined) return { optimize_use_projections: 0, use_top_k_dynamic_filtering: 0 } as ClickHouseSettings;
  if (agentId !== undefined || traceId !== undefined || isByMatch(filter)) return { optimize_use_projections: 0 };
  return { preferred_optimize_projection_name: BY_TIME };
}
