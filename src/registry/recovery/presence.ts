// Is the registry there? (Asked at a start, once a second by every process, and before a caller gets the answer that a
// key is unknown.) A Redis that was emptied looks like a new one: no key is known and no policy stands, so an event
// would be let through unjudged. So a registry is founded: every shard of it gets a mark, which goes only with
// everything else that the shard held.
//   revision of each registry shard   commit.lua changes nothing in a shard without it
//   mark of each shard of the key index
//   mark of the whole                 written last, so a founding that was killed is begun again
// On a Redis Cluster these lie on all masters that hold a part of the registry, so one that came back empty is noticed.
// Invariant: marks are made by a founding in a Redis that no registry was lost from, and by a restore, behind what it
// restored.
import type { Keys } from '../../redis/keys.ts';
import type { RegistryStore } from '../commit.ts';

/** `lost`: marks that are missing. `empty`: there is none, and no account's name either. */
type Presence = { state: 'there' | 'partly' | 'empty'; lost: readonly string[] };

/** The name of this trouble for callers and operators. */
export const REGISTRY_MISSING = 'registry_missing';

export async function presenceOf(store: Pick<RegistryStore, 'redis' | 'keys'>): Promise<Presence> {
  const { redis, keys } = store;
  const marks = marksOf(keys);
  const [named, ...found] = await Promise.all([keys.accountNames(), ...marks].map((key) => redis.exists(key)));
  const lost = marks.filter((_, i) => found[i] === 0);
  if (lost.length === 0) return { state: 'there', lost };
  return { state: lost.length === marks.length && named === 0 ? 'empty' : 'partly', lost };
}

/**
 * Marks every shard, in a Redis in which there was never a registry, or to finish what was killed. Changes nothing
 * where it was done. `last`: what is to be there before the whole is marked.
 */
export async function foundRegistry(
  store: Pick<RegistryStore, 'redis' | 'keys' | 'now'>,
  last: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { redis, keys, now = Date.now } = store;
  await Promise.all(keys.ofShards(keys.revision).map((key) => redis.setnx(key, 0)));
  const at = new Date(now()).toISOString();
  await Promise.all(keys.apiKeyMarks().map((key) => redis.setnx(key, at)));
  await last();
  await redis.setnx(keys.registryMark(), at);
}

/** A registry whose founding was killed at its end gets what is missing. */
export async function adoptRegistry(store: Pick<RegistryStore, 'redis' | 'keys'>): Promise<boolean> {
  const { redis, keys } = store;
  const [marked, named] = await Promise.all([redis.exists(keys.registryMark()), redis.exists(keys.accountNames())]);
  if (marked === 1 || named === 0) return false;
  await foundRegistry(store);
  return true;
}

function marksOf(keys: Keys): string[] {
  return [keys.registryMark(), ...keys.ofShards(keys.revision), ...keys.apiKeyMarks()];
}
