// The event: as a caller submits it, as it is answered, and as it is listed (spec 2.3, 4.5-4.7, decisions 5).
// Invariant: `payload` is free and comes back token by token as it was sent; everything beside it is checked.
import Type from 'typebox';
import {
  EVENT_TYPES,
  FreeObject,
  OUTCOMES,
  POLICY_ACTIONS,
  POLICY_TYPES,
  RequestTime,
  ResponseTime,
  SEVERITIES,
} from './common.ts';

export const BATCH_EVENTS_MAX = 100; // spec 8

export const Submission = Type.Object(
  {
    type: Type.Enum([...EVENT_TYPES]),
    payload: FreeObject,
    trace_id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    timestamp: Type.Optional(RequestTime),
  },
  { additionalProperties: false },
);
export type Submission = Type.Static<typeof Submission>;

/** The reference form; a bare array of submissions is taken as well (spec 4.7). Elements are checked one by one. */
export const Batch = Type.Object(
  { events: Type.Array(Submission, { minItems: 1, maxItems: BATCH_EVENTS_MAX }) },
  { additionalProperties: false },
);

export const PolicyMatch = Type.Object({
  policy_id: Type.String(),
  name: Type.String(),
  type: Type.Enum([...POLICY_TYPES]),
  actions: Type.Array(Type.Enum([...POLICY_ACTIONS])),
  severity: Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]),
  detail: FreeObject,
});
export type PolicyMatch = Type.Static<typeof PolicyMatch>;

export const REASONS = ['policy', 'agent_inactive', 'approval'] as const;
export type Reason = (typeof REASONS)[number];

export const PolicyResult = Type.Object({
  outcome: Type.Enum([...OUTCOMES]),
  reason: Type.Union([Type.Enum([...REASONS]), Type.Null()]),
  policy_id: Type.Union([Type.String(), Type.Null()]),
  matches: Type.Array(PolicyMatch),
  approval_id: Type.Optional(Type.String()),
});
export type PolicyResult = Type.Static<typeof PolicyResult>;

export const Event = Type.Object({
  id: Type.String(),
  agent_id: Type.String(),
  type: Type.Enum([...EVENT_TYPES]),
  payload: FreeObject,
  trace_id: Type.Optional(Type.String()),
  timestamp: ResponseTime,
  received_at: ResponseTime,
  policy_result: PolicyResult,
});

export const EventError = Type.Object({
  error: Type.Object({
    code: Type.String(),
    message: Type.String(),
    details: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  }),
});

export const BatchResult = Type.Object({
  results: Type.Array(Type.Union([Event, EventError])),
  total: Type.Integer({ minimum: 0 }),
});

export const Trace = Type.Object({
  trace_id: Type.String(),
  started_at: ResponseTime,
  ended_at: ResponseTime,
  duration_ms: Type.Integer({ minimum: 0 }),
  event_count: Type.Integer({ minimum: 1 }),
  counts: Type.Record(Type.String(), Type.Integer()),
  outcomes: Type.Record(Type.String(), Type.Integer()),
  agents: Type.Array(Type.String()),
  tokens_used: Type.Integer({
    minimum: 0,
    description:
      "Of all its events together: payload's `tokens_used`, else what the provider's `usage`, `usageMetadata` or `usage_metadata` there says",
  }),
});
export type Trace = Type.Static<typeof Trace>;
/** One trace with its events in time order; a trace longer than `events` says so in `event_count`. */
export const TraceWithEvents = Type.Object({ ...Trace.properties, events: Type.Array(Event) });
