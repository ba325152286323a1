// What budgets hold for an event that waits for an approval (src/redis/spend.lua notes it): it ends when the event is
// denied, in the commit that denies it, so it is held and pending, or neither, whatever process dies.
// It ends with an erasure of its agent, too, whatever was decided.
// Invariant: what ends is let go by the next step of the counter, as what has outlived its hold. Where a completion
// came all the same, what is held is what that used, and stays until it is charged.
import { absent, type CommandArgs, type Guard, type RegistryStore } from '../commit.ts';

/** `guards`: no completion comes meanwhile. */
export async function deniedReservations(
  { redis, keys }: RegistryStore,
  account: string,
  event: string,
): Promise<{ guards: Guard[]; writes: CommandArgs[] }> {
  const [guards, writes]: [Guard[], CommandArgs[]] = [[], []];
  for (const names of await redis.smembers(keys.budgetsWaiting(account, event))) {
    const [reservation, ends, open] = JSON.parse(names) as [string, string, string];
    if ((await redis.hget(reservation, 'by')) !== null) continue;
    guards.push(absent('used', ['hget', reservation, 'by']));
    writes.push(['zadd', ends, 'XX', 0, event], ['zrem', open, event], ['del', reservation]);
  }
  return { guards, writes };
}

/**
 * The same for an agent that is erased: no completion comes any more. What one has used stays until it is charged.
 * Idempotent.
 */
export async function dropReservations(store: RegistryStore, account: string, event: string): Promise<void> {
  const { redis, keys } = store;
  const { writes } = await deniedReservations(store, account, event);
  for (const [command, ...args] of writes) await redis.call(command, ...args);
  await redis.del(keys.budgetsWaiting(account, event));
}
