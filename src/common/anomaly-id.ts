// The id of an anomaly follows from the event at which it was found and from its kind (made by the anomaly pipeline,
// made again by the feed, which finds an event's anomalies by it). Pure.
import type { AnomalyKind } from '../../schemas/closed-sets.ts';
import { derivedId, hashedId, momentOfId } from './ids.ts';

/** Ids of an event's anomalies differ by kind; each sorts as the event does. */
export function anomalyId(eventId: string, kind: AnomalyKind): string {
  if (kind === 'blocked_event') return derivedId('anomaly', eventId);
  return hashedId('anomaly', momentOfId(eventId), `${kind}/${eventId}`);
}
