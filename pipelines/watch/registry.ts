// What the registry says of agents that the watch inspects: read when an agent is due, never for every event.
// Records of all accounts of a registry shard share a slot, so a look costs a command or two per shard, however many
// agents. An agent without a record is deleted; a record that cannot be read is a bug of ours and is logged, the others
// continue.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import type { AccountRecord } from '../../src/registry/accounts/accounts.ts';
import { heartbeatOf } from './silence.ts';

export type Watched = { account: string; agent: string };
/** An agent as the registry knows it; left out: it is deleted. */
export type KnownAgents = { name: string; isActive: boolean; heartbeatSeconds: number };

/** Agent id -> what is known of it. Throws what the client throws. */
export async function readRegistry(
  { redis, keys, log }: { redis: Commands; keys: Keys; log: Log },
  agents: readonly Watched[],
): Promise<Map<string, KnownAgents>> {
  const known = new Map<string, KnownAgents>();
  const read = async (shard: number, inShard: readonly Watched[]): Promise<void> => {
    const accounts = [...new Set(inShard.map(({ account }) => account))];
    const [records, settings] = await Promise.all([
      redis.mget(inShard.map(({ account, agent }) => keys.agent(account, agent))),
      redis.hmget(keys.accounts(shard), ...accounts),
    ]);
    const seconds = new Map(accounts.map((account, i) => [account, secondsOf(settings[i] ?? null, log)]));
    for (const [i, { account, agent }] of inShard.entries()) {
      const record = parsed<AgentRecord>(records[i] ?? null, log);
      if (record === null) continue;
      known.set(agent, {
        name: record.name,
        isActive: record.status === 'active',
        heartbeatSeconds: heartbeatOf(record, seconds.get(account) ?? null),
      });
    }
  };
  await Promise.all([...byShard(keys, agents)].map(([shard, inShard]) => read(shard, inShard)));
  return known;
}

function byShard(keys: Keys, agents: readonly Watched[]): Map<number, Watched[]> {
  const shards = new Map<number, Watched[]>();
  for (const watched of agents) {
    const shard = keys.shardOf(watched.account);
    const inShard = shards.get(shard);
    if (inShard === undefined) shards.set(shard, [watched]);
    else inShard.push(watched);
  }
  return shards;
}

function secondsOf(text: string | null, log: Log): number | null {
  return parsed<AccountRecord>(text, log)?.agent_down_seconds ?? null;
}

function parsed<T>(text: string | null, log: Log): T | null {
  if (text === null) return null;
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    log.error({ err: error }, 'watch.record_unreadable');
    return null;
  }
}
