// Deleted agents (asked before a batch's manifest is written, by every pipeline that writes rows of agents).
// What is in flight when an agent is deleted must never appear later: an entry that was appended after the tombstone is
// always seen here, since it is read after it was appended; one that was written before is removed by the erasure,
// which waits until the streams have drained past the tombstone.
// If Redis cannot be asked this throws, and the batch waits: no answer is not "alive".
import type { EventSummary } from '../schemas/entry.ts';
import type { Commands } from '../src/redis/client.ts';
import type { Keys } from '../src/redis/keys.ts';

/** Ids of those agents in the summaries that have been deleted, sorted. */
export async function deletedAgents(redis: Commands, keys: Keys, summaries: Iterable<EventSummary>): Promise<string[]> {
  const agentsOf = new Map<string, Set<string>>();
  for (const { account, agent } of summaries) {
    const agents = agentsOf.get(account);
    if (agents === undefined) agentsOf.set(account, new Set([agent]));
    else agents.add(agent);
  }
  const deleted = await Promise.all(
    [...agentsOf].map(([account, agents]) => deletedOf(redis, keys, account, [...agents])),
  );
  return deleted.flat().sort();
}

async function deletedOf(redis: Commands, keys: Keys, account: string, agents: readonly string[]): Promise<string[]> {
  const flags = await redis.smismember(keys.tombstones(account), ...agents);
  return agents.filter((_, i) => flags[i] === 1);
}
