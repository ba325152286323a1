// A stored event as a replay takes it (policy-replay.ts): of backtests, whose rows come by arrival, and of previews,
// whose rows are those of the list. Pure.
// Invariant: the payload is read by exact-json.ts, so policies see the numbers that were sent.
import type { JsonObject } from '../../../schemas/common.ts';
import type { PolicyResult } from '../../../schemas/event.ts';
import type { RecordedEvent } from '../../../schemas/recorded-event.ts';
import { exactIsoTime } from '../../../schemas/time.ts';
import { parseExact } from '../../common/exact-json.ts';
import type { ReplayedEvent } from './policy-replay.ts';

const NO_PAYLOAD: JsonObject = Object.freeze({});

export function replayedEvent(row: RecordedEvent): ReplayedEvent {
  const { id, agentId, requestId, receivedMs, outcome, reason } = row;
  const payloadText = row.payload === '' ? '{}' : row.payload;
  return {
    ...{ id, agentId, requestId, receivedMs, outcome, reason },
    result: row.policyResult === '' ? null : (JSON.parse(row.policyResult) as PolicyResult),
    view: {
      ...{ type: row.type, agent_id: agentId, payloadText },
      payload: row.payload === '' ? NO_PAYLOAD : (parseExact(payloadText) as JsonObject),
      trace_id: row.traceId === '' ? undefined : row.traceId,
      timestamp: exactIsoTime(row.occurredMs),
    },
  };
}
