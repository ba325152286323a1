// What is special about policies that are shadows, as records: what one may copy, and when it expires (inside
// policies.ts and policy-declaration.ts). Pure.
// Invariant: a shadow copies a policy that is no shadow, of its own type and scope, or none; it is judged until
// `expires_at`, by every front by itself.
import type { ErrorDetail } from '../../../schemas/error.ts';
import type { Policy, PolicyCreate } from '../../../schemas/policy.ts';
import { isoTime } from '../../../schemas/time.ts';
import { SHADOW_KEPT_MS } from '../../common/limits.ts';
import { parseDuration } from '../../policy/kinds/duration.ts';

/** `original`: the policy of that id; undefined: there is none. */
export function shadowMistakes(
  { mode = 'enforce', shadow_of: originalId, type, agent_id: agentId }: PolicyCreate,
  original: Policy | undefined,
): ErrorDetail[] {
  if (originalId === undefined) return [];
  const path = '/shadow_of';
  if (mode !== 'shadow') return [{ path, message: 'is for the mode `shadow` alone' }];
  if (original === undefined) return [{ path, message: 'no such policy' }];
  if (original.mode === 'shadow') return [{ path, message: 'is a shadow itself' }];
  if (original.type !== type) return [{ path, message: `is a ${original.type}, and a shadow of it must be one` }];
  if (agentId !== undefined && agentId !== original.agent_id)
    return [{ path: '/agent_id', message: `must be that of the policy that it copies, ${original.agent_id}` }];
  return [];
}

/** The fields that a new policy has by its mode. `original`: the policy that it copies. */
export function shadowFields(
  { mode = 'enforce', shadow_of: originalId }: PolicyCreate,
  nowMs: number,
  original: Policy | undefined,
): Pick<Policy, 'mode' | 'shadow_of' | 'shadow_of_revision' | 'expires_at'> {
  if (mode === 'enforce') return { mode };
  const copied = originalId === undefined ? {} : { shadow_of: originalId };
  const at = originalId === undefined || original === undefined ? {} : { shadow_of_revision: original.revision };
  return { mode, ...copied, ...at, expires_at: expiryFrom(nowMs) };
}

/** Is what agents do judged by it at `nowMs`? */
export function isTried(policy: Policy, nowMs: number): boolean {
  return policy.mode === 'shadow' && policy.status === 'active' && !isExpired(policy, nowMs);
}

/** The same policy, with a new time to expire where it was made active again. */
export function withExpiry(before: Policy, after: Policy, nowMs: number): Policy {
  const isKept = before.status === 'active' && !isExpired(before, nowMs);
  if (after.mode !== 'shadow' || after.status !== 'active' || isKept) return after;
  return { ...after, expires_at: expiryFrom(nowMs) };
}

export function isExpired({ mode, expires_at: expiresAt }: Policy, nowMs: number): boolean {
  return mode === 'shadow' && expiresAt !== undefined && Date.parse(expiresAt) <= nowMs;
}

/**
 * The window of a rate limit: its counters begin with none, and for so long say less than they would. 0: any other
 * policy.
 */
export function limitWindowMs({ type, conditions }: Policy): number {
  return type === 'rate_limit' ? (parseDuration(conditions['window']) ?? 0) * 1000 : 0;
}

function expiryFrom(nowMs: number): string {
  return isoTime(nowMs + SHADOW_KEPT_MS);
}
