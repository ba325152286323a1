// What is written of an anomaly: its row and its signal (between the plan and the insert). Pure.
// Everything in them comes from the event and what was found at it, their ids and times too: a process that makes them
// again makes the same ones. Ids of an event's anomalies differ by kind.
import type { Anomaly } from '../../schemas/anomaly.ts';
import type { EventSummary } from '../../schemas/entry.ts';
import { SIGNAL_POLICIES_MAX, type Signal } from '../../schemas/signal.ts';
import { anomalyId } from '../../src/common/anomaly-id.ts';
import type { Blocked } from './blocked-event.ts';
import { descriptionOf, type Finding, severityOf } from './finding.ts';
import { countsAt } from './observe.ts';

type AnomalyInsertRow = Omit<Anomaly, 'timestamp' | 'created_at'> & {
  account_id: string;
  timestamp: string;
  created_at: string;
};
export type Anomalous = { row: AnomalyInsertRow; month: string; event: EventSummary };

export function toAnomalous(event: EventSummary, found: Finding | Blocked): Anomalous {
  const isRate = found.kind === 'error_rate' || found.kind === 'volume_spike';
  const fields = found.kind === 'blocked_event' ? found : described(found);
  const row: AnomalyInsertRow = {
    account_id: event.account,
    id: anomalyId(event.id, found.kind),
    agent_id: event.agent,
    // A rate is not one event's doing.
    event_id: isRate ? null : event.id,
    policy_id: (found.kind === 'blocked_event' && event.policyId) || null,
    kind: found.kind,
    ...fields,
    // Rates are of arrivals; what one event did happened when its caller says.
    timestamp: sqlTime(isRate ? countsAt(event) : event.occurredAt),
    created_at: sqlTime(event.receivedAt),
  };
  return { row, month: row.created_at.slice(0, 7), event };
}

export function signalOf({ row, event }: Anomalous): Signal {
  const matches = row.kind === 'blocked_event' ? (event.matches ?? []).slice(0, SIGNAL_POLICIES_MAX) : [];
  const policies = matches.map(({ policy_id: id, name, type, severity }) => ({ id, name, type, severity }));
  const { id: eventId, type, occurredAt, traceId } = event;
  return {
    id: `anomaly_detected/${row.id}`,
    trigger: 'anomaly_detected',
    account: event.account,
    agent: event.agent,
    severity: row.severity,
    at: event.receivedAt,
    message: row.message,
    ...(row.event_id === null
      ? {}
      : { event: { id: eventId, type, occurredAt, ...(traceId === undefined ? {} : { traceId }) } }),
    ...(policies.length === 0 ? {} : { policies }),
    anomaly: { id: row.id, kind: row.kind, observed: row.observed, baseline: row.baseline, score: row.score },
  };
}

function described(finding: Finding) {
  const { observed, baseline, score } = finding;
  return { severity: severityOf(finding), observed, baseline, score, message: descriptionOf(finding) };
}

/** `2026-11-20 17:28:00.123`, UTC. */
function sqlTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace('T', ' ').slice(0, -1);
}
