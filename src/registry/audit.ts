// Makes the audit log entries of registry changes (beside each change).
// An entry says who did what to which resource, with the request's id, address and program; of an update which fields
// changed, with their old and new values. Invariant: no secret and no address that may hold one (alert targets) is ever
// in it. `agent_id` is in the details of what belongs to an agent, so that the agent's erasure finds the entry.

import type { AuditLog } from '../../schemas/audit-log.ts';
import type { AuditAction, ResourceType } from '../../schemas/closed-sets.ts';
import { isoTime } from '../../schemas/time.ts';
import { exactJson } from '../common/exact-json.ts';
import { mintId } from '../common/ids.ts';
import type { Actor } from './accounts/principal.ts';

type Audited = { action: AuditAction; type: ResourceType; id: string; details?: Record<string, unknown> };

export const SYSTEM: Actor = { actor: 'system', requestId: '' };

/** Real ones have about 150; the rest of a longer one adds nothing. */
const USER_AGENT_CHARACTERS_MAX = 300;

/** Values of these fields never reach the log, only that they changed. */
const HIDDEN: ReadonlySet<string> = new Set(['target', 'url', 'secret', 'secrets', 'authorization', 'sha256']);
/** Say nothing that the entry itself does not. */
const UNTOLD: ReadonlySet<string> = new Set([
  'updated_at',
  'revision',
  'applied_revision',
  'retired',
  'place',
  'place_at',
]);

export function auditLog({ action, type, id, details }: Audited, actor: Actor, nowMs: number): AuditLog {
  return {
    id: mintId('auditLog', nowMs),
    action,
    actor: actor.actor,
    resource_type: type,
    resource_id: id,
    details: { ...details, ...callOf(actor) },
    created_at: isoTime(nowMs),
  };
}

/** The details of the call by which it was done; none of what no call did. */
function callOf({ requestId, ip = '', userAgent = '', traceparent = '' }: Actor): Record<string, string> {
  return {
    ...(requestId === '' ? {} : { request_id: requestId }),
    ...(traceparent === '' ? {} : { traceparent }),
    ...(ip === '' ? {} : { ip }),
    ...(userAgent === '' ? {} : { user_agent: userAgent.slice(0, USER_AGENT_CHARACTERS_MAX) }),
  };
}

/** Names of the fields in which two records differ. */
export function changedFields(before: object, after: object): string[] {
  const [old, fresh] = [before as Record<string, unknown>, after as Record<string, unknown>];
  return [...new Set([...Object.keys(old), ...Object.keys(fresh)])].filter(
    (field) => !UNTOLD.has(field) && exactJson(old[field]) !== exactJson(fresh[field]),
  );
}

/** The details of an update's entry: `changed` names every field, `before` and `after` hold their values. */
export function updateDetails(before: object, after: object): Record<string, unknown> {
  const changed = changedFields(before, after);
  return { changed, before: valuesOf(before, changed), after: valuesOf(after, changed) };
}

function valuesOf(record: object, fields: readonly string[]): Record<string, unknown> {
  const values = record as Record<string, unknown>;
  return Object.fromEntries(
    fields.filter((field) => !HIDDEN.has(field)).map((field) => [field, values[field] ?? null]),
  );
}
