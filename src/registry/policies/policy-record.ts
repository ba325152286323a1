// A policy as Redis keeps it: JSON with the numbers of its conditions as they were sent.
import type { Policy } from '../../../schemas/policy.ts';
import { parseExact } from '../../common/exact-json.ts';

export function readPolicy(text: string): Policy {
  return parseExact(text) as unknown as Policy;
}

/** Whether what agents do is judged by it at `nowMs`: an active policy that is no shadow, and has begun. */
export function isInForce(policy: Policy, nowMs: number): boolean {
  return policy.status === 'active' && policy.mode === 'enforce' && hasBegun(policy, nowMs);
}

export function hasBegun({ starts_at: startsAt }: Policy, nowMs: number): boolean {
  return startsAt === undefined || Date.parse(startsAt) <= nowMs;
}
