// Flags every event that a policy blocked. The kill switch is an operator's act and flags nothing.
// One event, one anomaly: its id is the event's with another prefix, so a replay makes the same one.
import type { Anomaly } from '../../schemas/anomaly.ts';
import type { EventSummary } from '../../schemas/entry.ts';

export type Blocked = Pick<Anomaly, 'severity' | 'observed' | 'baseline' | 'score' | 'message'> & {
  kind: 'blocked_event';
};

export function blockedEvent(event: EventSummary): Blocked | null {
  if (event.outcome !== 'blocked' || event.reason !== 'policy') return null;
  const decisive = event.matches?.find((match) => match.policy_id === event.policyId);
  const policy = decisive === undefined ? 'a policy' : `the policy "${decisive.name}" (${decisive.type})`;
  return {
    kind: 'blocked_event',
    severity: decisive?.severity ?? 'high',
    observed: null,
    baseline: null,
    score: null,
    message: `A ${event.type} event was blocked by ${policy}.`,
  };
}
