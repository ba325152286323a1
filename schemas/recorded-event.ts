// A stored event that policies are tried on again: read by clickhouse/queries/replayed-events.ts, judged by
// src/policy/replay.
import type { EventType, Outcome, Reason } from './closed-sets.ts';

/** Texts are '' for none; times epoch ms. */
export type RecordedEvent = {
  id: string;
  agentId: string;
  type: EventType;
  traceId: string;
  /** To the microsecond. */
  occurredMs: number;
  receivedMs: number;
  outcome: Outcome;
  reason: Reason | '';
  requestId: string;
  /** JSON. */
  policyResult: string;
  /** JSON; '' also where the policy does not look at it. */
  payload: string;
};
