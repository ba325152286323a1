// The audit log entry (spec 2.6, decisions 8).
import Type from 'typebox';
import { ResponseTime } from './common.ts';

export const AUDIT_ACTIONS = [
  'agent.registered',
  'agent.updated',
  'agent.deleted',
  'policy.created',
  'policy.updated',
  'policy.deleted',
  'alert.created',
  'alert.updated',
  'alert.deleted',
  'event.submitted',
  'event.blocked',
  'event.pending',
  'approval.approved',
  'approval.denied',
  'approval.expired',
  'api_key.created',
  'api_key.revoked',
  'account.updated',
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

export const RESOURCE_TYPES = ['agent', 'event', 'policy', 'alert', 'api_key', 'approval', 'account'] as const;
export type ResourceType = (typeof RESOURCE_TYPES)[number];

export const AuditLog = Type.Object({
  id: Type.String(),
  action: Type.Enum([...AUDIT_ACTIONS]),
  actor: Type.String({ description: '`agent:<agent_id>` for events, `key:<key_id>` for calls, `system`' }),
  resource_type: Type.Enum([...RESOURCE_TYPES]),
  resource_id: Type.String(),
  details: Type.Record(Type.String(), Type.Unknown()),
  created_at: ResponseTime,
});
export type AuditLog = Type.Static<typeof AuditLog>;

/** The one list that is not called `items` (spec 4.14). */
export const AuditLogPage = Type.Object({
  logs: Type.Array(AuditLog),
  total: Type.Integer({ minimum: 0 }),
  limit: Type.Integer(),
  offset: Type.Integer(),
});

/** Agent that an entry of the audit log tells of and with which it is erased; the column `about_agent` says the same. */
export function agentOf(
  entry: { action: string; actor: string; resource_type: string; resource_id: string },
  details: Record<string, unknown>,
): string {
  // The record that a deletion was ordered outlives the agent.
  if (entry.action === 'agent.deleted') return '';
  if (entry.resource_type === 'agent') return entry.resource_id;
  if (entry.actor.startsWith('agent:')) return entry.actor.slice('agent:'.length);
  return typeof details['agent_id'] === 'string' ? details['agent_id'] : '';
}
