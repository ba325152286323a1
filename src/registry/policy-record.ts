// A policy as Redis keeps it: JSON with the numbers of its conditions as they were sent.
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../common/exact-json.ts';

export function readPolicy(text: string): Policy {
  return parseExact(text) as unknown as Policy;
}

/** Whether what agents do is judged by it: an active policy that is no shadow. */
export function isInForce({ status, mode }: Policy): boolean {
  return status === 'active' && mode === 'enforce';
}
