// What an account's sequences know of what occurred, as far as the registry has to do with it (in the commit of each
// change of a policy, beside active-policies.ts). Pure.
//   forgotten   a sequence that is switched off hears of nothing, so what it knew holds no longer
//   wanted      one that is made, changed or switched on is to be made known (pipelines/sequences)
// Invariant: both are in the commit of the change, so no front asks a memory that misses something. A change that
// leaves the steps as they are leaves what is known.
import type { Policy } from '../../../schemas/policy.ts';
import { SEQUENCES_ACTIVE_MAX } from '../../common/limits.ts';
import { memoryName } from '../../policy/kinds/sequence.ts';
import type { Keys } from '../../redis/keys.ts';
import { below, type CommandArgs, type Guard } from '../commit.ts';

/** `before`: left out, it is new. */
export function memoryWrites(keys: Keys, account: string, after: Policy, before?: Policy): CommandArgs[] {
  if (after.type !== 'sequence') return [];
  const names = [after, ...(before === undefined ? [] : [before])].map(memoryName);
  const forgotten: CommandArgs = ['hdel', keys.sequences(account), ...new Set(names)];
  if (after.status !== 'active') return [...memoryGone(keys, account, after.id), forgotten];
  if (before?.status === 'active' && names[0] === names[1]) return [];
  const wanted = keys.sequencesWanted(keys.shardOf(account));
  return [forgotten, ['sadd', keys.activeSequences(account), after.id], ['sadd', wanted, `${account}/${after.id}`]];
}

/** The writes of any policy that is inactive, or gone, in what is kept of sequences. */
export function memoryGone(keys: Keys, account: string, id: string): CommandArgs[] {
  return [
    ['srem', keys.activeSequences(account), id],
    ['srem', keys.sequencesWanted(keys.shardOf(account)), `${account}/${id}`],
  ];
}

/** Whether there is room for so many more. */
export function roomForSequences(keys: Keys, account: string, more: number): Guard[] {
  return more > 0
    ? [below('sequences', ['scard', keys.activeSequences(account)], SEQUENCES_ACTIVE_MAX - more + 1)]
    : [];
}

export function isActiveSequence(policy: Policy | null | undefined): boolean {
  return policy?.type === 'sequence' && policy.status === 'active';
}
