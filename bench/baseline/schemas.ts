// What the baseline takes: JSON Schemas for Fastify's own ajv, and the shapes that follow from them.

export const EVENT_SCHEMA = {
  type: 'object',
  required: ['type', 'payload'],
  additionalProperties: false,
  properties: {
    type: { enum: ['prompt', 'completion', 'tool_call', 'error', 'custom'] },
    payload: { type: 'object' },
    trace_id: { type: 'string', minLength: 1, maxLength: 200 },
    timestamp: { type: 'string', format: 'date-time', maxLength: 40 },
  },
} as const;

/** Elements are checked one by one, so that one that does not fit does not fail the others. */
export const BATCH_SCHEMA = {
  type: 'object',
  required: ['events'],
  additionalProperties: false,
  properties: { events: { type: 'array', minItems: 1, maxItems: 100 } },
} as const;

export type Event = {
  type: string;
  payload: Record<string, unknown>;
  trace_id?: string;
  timestamp?: string;
};

type PolicyType = 'block_action' | 'data_filter' | 'rate_limit';
export type Policy = {
  id: string;
  name: string;
  type: PolicyType;
  conditions: Record<string, unknown>;
  actions: string[];
};

export type Match = Pick<Policy, 'name' | 'type' | 'actions'> & { policy_id: string; severity: null; detail: object };
export type PolicyResult = {
  outcome: 'allowed' | 'blocked';
  reason: 'policy' | null;
  policy_id: string | null;
  matches: Match[];
};
