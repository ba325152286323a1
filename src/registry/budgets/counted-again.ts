// What budgets and sequences count, of an account whose events Redis has lost again (called by who finds stored rows
// that it lacks, pipelines/store/chain-recovery.ts, or a chain that it lacks the end of, chain.ts): it lacks what these
// came to as well.
// Invariant: what is forgotten is read from the stored events again; until then it counts as unknown, which blocks.
// Failure: Redis away: rejects, and is called again. Idempotent.
import { inSlices } from '../../common/async.ts';
import { compileRule } from '../../policy/compile.ts';
import type { BudgetTerms } from '../../policy/kinds/spend-budget.ts';
import { type SpendRequest, SpendStore } from '../../policy/quotas/spend-store.ts';
import { spendOf } from '../../policy/spends/spend-form.ts';
import { acknowledging } from '../../redis/client.ts';
import type { CommandArgs, RegistryStore } from '../commit.ts';
import { readPolicy } from '../policies/policy-record.ts';
import { memoryWrites } from './sequence-memories.ts';

/** Forgets what budgets have counted; answers the writes that forget what sequences know. */
export async function countAgain({ redis, keys }: RegistryStore, account: string): Promise<CommandArgs[]> {
  const policies = await inSlices(await redis.hvals(keys.policies(account)), readPolicy);
  const budgets = policies.filter(({ type }) => type === 'budget');
  const forgotten = budgets.map(({ id, reset_at: resetAt, ...policy }): SpendRequest => {
    const terms = compileRule({ id, ...policy }).terms as BudgetTerms;
    return { of: spendOf(id, terms, resetAt), operation: { op: 'forget' } };
  });
  await new SpendStore(redis, keys).run(account, forgotten);
  return policies.flatMap((policy) => memoryWrites(keys, account, policy));
}

/** The same, with these writes. Killed in between it is to be called again. */
export async function countAgainNow(store: RegistryStore, account: string): Promise<void> {
  for (const [command, key, ...args] of await countAgain(store, account))
    await acknowledging(store.redis).call(command, key, ...args);
}
