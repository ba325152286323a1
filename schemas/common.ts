// The words every resource shares: identifiers, times, closed sets, and the form of a page.
// Stands before everything: all other folders import these, and schemas import typebox alone.
// Invariant: a closed set is written once, here, as a literal array; its type and its JSON Schema follow from it.
import Type from 'typebox';
import { about } from './described.ts';
import './time.ts';

export const EVENT_TYPES = ['prompt', 'completion', 'tool_call', 'error', 'custom'] as const;
/** What an agent may say it is built with: the contract's literals, then frameworks by the names they go by. */
export const FRAMEWORKS = [
  'provider_a',
  'library_b',
  'custom',
  'openai',
  'openai-agents',
  'anthropic',
  'claude-agent-sdk',
  'claude-code',
  'langchain',
  'langgraph',
  'llamaindex',
  'crewai',
  'autogen',
  'semantic-kernel',
  'pydantic-ai',
  'vercel-ai',
  'google-adk',
  'mastra',
  'smolagents',
  'haystack',
  'dspy',
  'strands',
  'agno',
  'mcp',
] as const;
export const STATUSES = ['active', 'inactive'] as const;
export const SEVERITIES = ['low', 'medium', 'high', 'critical'] as const;
export const OUTCOMES = ['allowed', 'blocked', 'pending'] as const;
export const SCOPES = ['read', 'write', 'admin'] as const;
export const PERMISSIONS = ['submit', 'read', 'decide', 'configure'] as const;
export const POLICY_TYPES = ['block_action', 'rate_limit', 'data_filter', 'require_approval'] as const;
export const POLICY_ACTIONS = ['block', 'alert', 'log'] as const;
export const TRIGGERS = ['policy_violation', 'anomaly_detected', 'agent_down', 'rate_limit_exceeded'] as const;
export const CHANNELS = ['email', 'chat_app', 'webhook'] as const;
/** How a mail goes: by an SMTP server, or as a file into the outbox. */
export const MAIL_TRANSPORTS = ['smtp', 'outbox'] as const;
export const ANOMALY_KINDS = ['token_spike', 'error_rate', 'volume_spike', 'blocked_event'] as const;
export const ORDERS = ['asc', 'desc'] as const;
/** How much of its payload an event is listed with (decisions 10.5). */
export const PAYLOAD_MODES = ['full', 'preview', 'none'] as const;

export type EventType = (typeof EVENT_TYPES)[number];
export type Framework = (typeof FRAMEWORKS)[number];
export type Status = (typeof STATUSES)[number];
export type Severity = (typeof SEVERITIES)[number];
export type Outcome = (typeof OUTCOMES)[number];
export type Scope = (typeof SCOPES)[number];
export type Permission = (typeof PERMISSIONS)[number];
export type PolicyType = (typeof POLICY_TYPES)[number];
export type PolicyAction = (typeof POLICY_ACTIONS)[number];
export type Trigger = (typeof TRIGGERS)[number];
export type Channel = (typeof CHANNELS)[number];
export type MailTransport = (typeof MAIL_TRANSPORTS)[number];
export type PayloadMode = (typeof PAYLOAD_MODES)[number];
export type AnomalyKind = (typeof ANOMALY_KINDS)[number];

/** Any JSON value as JSON.parse makes it. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** An ISO 8601 date-time with an offset or `Z`, as requests may send it (spec: decisions 1). */
export const RequestTime = Type.String({ format: 'date-time', maxLength: 40 });
/** UTC with milliseconds, the only form that responses use. */
export const ResponseTime = Type.String({ format: 'date-time', examples: ['2026-11-20T17:28:00.000Z'] });

export const Name = Type.String({ minLength: 1, maxLength: 200 });
export const Description = Type.String({ maxLength: 2000 });
/** String values only. Not Type.Record: its key pattern passes over keys that hold a line end, and with them their values. */
export const Metadata = Type.Unsafe<Record<string, string>>(
  Type.Object(
    {},
    {
      additionalProperties: Type.String({ maxLength: 2000 }),
      propertyNames: Type.String({ maxLength: 200 }),
      maxProperties: 100,
    },
  ),
);
/** Any JSON object, with nothing demanded of it. */
export const FreeObject = Type.Unsafe<Record<string, unknown>>(Type.Object({}, { additionalProperties: true }));

export const NextCursor = about(
  Type.Union([Type.String(), Type.Null()]),
  'Sent as `cursor`, with the same filters and order, it gives the items behind the last one. null: there are none.',
  null,
);

/** What stands beside a page's items. */
export const PAGE_FIELDS = {
  total: about(
    Type.Integer({ minimum: 0 }),
    'How many fit the filters, whatever the page. Behind a cursor: when the list began.',
    1,
  ),
  limit: about(Type.Integer(), 'How many items a page holds at most, as asked for or by default.', 20),
  offset: about(Type.Integer({ minimum: 0 }), 'How many items of the list come before this page.', 0),
  next_cursor: NextCursor,
};

/** The envelope of every list but the audit log's, which says `logs` for `items`. */
export function page<T extends Type.TSchema>(item: T) {
  return Type.Object({
    items: about(Type.Array(item), 'The items of this page.'),
    ...PAGE_FIELDS,
  });
}
