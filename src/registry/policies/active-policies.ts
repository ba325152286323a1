// What keeps count of an account's policies in force and of its active shadows, and knows when these expire (in the
// commit of each change of a policy, on commit.ts). Pure.
// Invariant: a policy is in the set of its mode while it is active, and in no other; a shadow is among the expiries
// while it is active. The bounds are guards of the commit, so they hold whatever comes at once.

import type { Policy } from '../../../schemas/policy.ts';
import { POLICIES_ACTIVE_MAX, SHADOWS_ACTIVE_MAX } from '../../common/limits.ts';
import type { Keys } from '../../redis/keys.ts';
import { type Actor, shareOf } from '../accounts/principal.ts';
import { memoryGone, memoryWrites } from '../budgets/sequence-memories.ts';
import { below, type CommandArgs, type Guard } from '../commit.ts';

/** The name of the guard that does not hold where there are too many of them. */
type RoomGuard = 'active' | 'shadows';

/** Puts a policy where its mode and status say. `before`: what it was; left out, it is new. */
export function activeWrites(keys: Keys, account: string, policy: Policy, before?: Policy): CommandArgs[] {
  const { id, mode, status, expires_at: expiresAt } = policy;
  const gone = [...goneWrites(keys, account, id), ...memoryWrites(keys, account, policy, before)];
  if (status !== 'active') return gone;
  if (mode !== 'shadow') return [...gone, ['sadd', keys.activePolicies(account), id]];
  const expiry: CommandArgs[] =
    expiresAt === undefined
      ? []
      : [['zadd', keys.shadowExpiries(keys.shardOf(account)), Date.parse(expiresAt), `${account}/${id}`]];
  return [...gone, ['sadd', keys.activeShadows(account), id], ...expiry];
}

/** The writes of a policy that is inactive, or gone. */
export function inactiveWrites(keys: Keys, account: string, id: string): CommandArgs[] {
  return [...goneWrites(keys, account, id), ...memoryGone(keys, account, id)];
}

function goneWrites(keys: Keys, account: string, id: string): CommandArgs[] {
  return [
    ['srem', keys.activePolicies(account), id],
    ['srem', keys.activeShadows(account), id],
    ['zrem', keys.shadowExpiries(keys.shardOf(account)), `${account}/${id}`],
  ];
}

/** Whether there is room for so many more active ones, for this actor. */
export function roomFor(keys: Keys, account: string, { mode }: Pick<Policy, 'mode'>, actor: Actor, more = 1): Guard {
  const [name, set, max]: [RoomGuard, string, number] =
    mode === 'shadow'
      ? ['shadows', keys.activeShadows(account), SHADOWS_ACTIVE_MAX]
      : ['active', keys.activePolicies(account), POLICIES_ACTIVE_MAX];
  return below(name, ['scard', set], shareOf(actor, max) - more + 1);
}
