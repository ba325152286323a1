// The audit log entry: who did what to which resource, and when.

import Type from 'typebox';
import { AUDIT_ACTIONS, RESOURCE_TYPES } from './closed-sets.ts';
import { PAGE_FIELDS, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { SummaryOfEvent } from './event.ts';

export const AuditLog = Type.Object({
  id: about(Type.String(), 'Id of the entry.', exampleId('log')),
  action: about(Type.Enum([...AUDIT_ACTIONS]), 'What was done.', 'event.blocked'),
  actor: about(
    Type.String({
      description:
        '`agent:<agent_id>` for events, `key:<key_id>` or `connection:<connection_id>` for calls, `operator:<name>`, `system`',
    }),
    'Who did it: `agent:<agent_id>` for events, `key:<key_id>` or `connection:<connection_id>` for calls, `operator:<name>` for those who run the service, `system`.',
    `agent:${exampleId('agt')}`,
  ),
  resource_type: about(Type.Enum([...RESOURCE_TYPES]), 'The kind of resource that it was done to.', 'event'),
  resource_id: about(Type.String(), 'Id of that resource.', exampleId('evt')),
  details: about(
    Type.Record(Type.String(), Type.Unknown()),
    "What else there is to say, by the action: of an update `changed`, `before` and `after`, of a blocked event `policy_id` and `reason`; of a call its `request_id`, the caller's trace where it named one (`traceparent`), the address that it came from (`ip`) and the program (`user_agent`).",
    { policy_id: exampleId('pol'), reason: 'policy' },
  ),
  created_at: about(ResponseTime, 'When it was done.'),
});
export type AuditLog = Type.Static<typeof AuditLog>;

export const ListedAuditLog = Type.Object({ ...AuditLog.properties, summary: SummaryOfEvent });

/** The one list that is not called `items`. */
export const AuditLogPage = Type.Object({
  logs: about(Type.Array(ListedAuditLog), 'The entries of this page.'),
  ...PAGE_FIELDS,
});

/**
 * Agent that an entry of the audit log is about and with which it is erased; the column `about_agent` says the same.
 */
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
