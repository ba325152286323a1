// What tests of policies send again and again: a policy that blocks one tool, and a change under `If-Match`.
import type { PolicyCreate } from '../../schemas/policy.ts';

let names = 0;

/** Its name and its tool are its own, unless `more` says otherwise. */
export function newBlock(more: Partial<PolicyCreate> = {}): PolicyCreate {
  const name = `policy-${++names}`;
  return { name, type: 'block_action', actions: ['block'], conditions: { tool: name }, ...more };
}

/** As options of a call. */
export function ifMatch(value: string): { headers: { 'If-Match': string } } {
  return { headers: { 'If-Match': value } };
}
