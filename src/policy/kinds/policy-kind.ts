// What the four policy types have in common: the keys they reserve in `conditions`, how they read them, and what a
// match does. One file per type fills this in; compile.ts reads conditions with it, engine.ts judges with it.

import type { PolicyAction } from '../../../schemas/closed-sets.ts';
import type { PolicyReading } from '../policy-error.ts';

export type PolicyConditions = Readonly<Record<string, unknown>>;

export type PolicyKind<Terms> = {
  /** Keys of `conditions` that are not fields to match. */
  reserved: readonly string[];
  /**
   * Reads the reserved keys; what is wrong goes to `mistakes`, and then nothing is answered. `at` is the pointer of
   * `conditions`.
   */
  compile(conditions: PolicyConditions, at: string, reading: PolicyReading): Terms | undefined;
};

/** A match whose actions are `log` alone never interrupts, whatever the type: the dry run. */
export function isDryRun(actions: readonly PolicyAction[]): boolean {
  return actions.every((action) => action === 'log');
}
