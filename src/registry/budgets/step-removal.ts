// Takes an erased agent out of what has occurred for the account's sequences (quotas/sequence-store.ts; called by the
// process that erases it). Idempotent.
import { SequenceStore } from '../../policy/quotas/sequence-store.ts';
import type { RegistryStore } from '../commit.ts';

export async function forgetStepsOf({ redis, keys }: RegistryStore, account: string, agent: string): Promise<void> {
  await new SequenceStore(redis, keys).forgetAgent(account, agent);
}
