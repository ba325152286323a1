// A policy as Redis keeps it: JSON with the numbers of its conditions as they were sent.
import type { Policy } from '../../schemas/policy.ts';
import { parseExact } from '../common/exact-json.ts';

/** Those of before there were revisions are at their first, those of before there were shadows are in force. */
export function readPolicy(text: string): Policy {
  const { id, revision = 1, mode = 'enforce', ...rest } = parseExact(text) as unknown as Policy;
  return { id, revision, mode, ...rest };
}

/** Whether what agents do is judged by it: an active policy that is no shadow. */
export function isInForce({ status, mode }: Policy): boolean {
  return status === 'active' && mode === 'enforce';
}
