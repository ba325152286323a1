// What tests of policies send again and again: a policy that blocks one tool, those that clients are asked about, and a
// change under `If-Match`.
import type { PolicyCreate } from '../../schemas/policy.ts';
import type { Api } from './api.ts';

let names = 0;

/** Its name and its tool are its own, unless `more` says otherwise. */
export function newBlock(more: Partial<PolicyCreate> = {}): PolicyCreate {
  const name = `policy-${++names}`;
  return { name, type: 'block_action', actions: ['block'], conditions: { tool: name }, ...more };
}

/** `pay` is blocked, `refund` waits for a person, `wire` is blocked and says what to do instead. */
export async function guardPolicies(api: Api): Promise<void> {
  const block = { type: 'block_action', actions: ['block'] };
  const description = 'Send an invoice instead.';
  await api.post('/v1/policies', { ...block, name: 'no pay', conditions: { tool: 'pay' } });
  await api.post('/v1/policies', { ...block, name: 'no wires', conditions: { tool: 'wire' }, description });
  const conditions = { tool: 'refund' };
  await api.post('/v1/policies', { ...block, name: 'ask for refunds', type: 'require_approval', conditions });
}

/** As options of a call. */
export function ifMatch(value: string): { headers: { 'If-Match': string } } {
  return { headers: { 'If-Match': value } };
}
