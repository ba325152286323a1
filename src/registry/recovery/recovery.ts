// Brings a Redis forward that was put back to an earlier state: a cut append-only file, a backup of yesterday, a
// replica that was behind. In it revoked keys are valid again, deleted agents answer and policies are gone; but every
// change went to ClickHouse, with its revision. Asked at the start and whenever Redis comes back
// (stores/redis-watch.ts), while no request is served; `gatehouse registry restore` does the same. The other way round,
// a ClickHouse that knows nothing at all of a registry is given it again (history.ts). A shard is behind where
// ClickHouse has a higher revision of it. What is newer is put back in the order of revisions, each with an entry
// `registry.recovered` in the audit log, and the shard's revision goes past the highest seen, so that later changes
// count as newer.
// Invariant: safe to break off anywhere: each record is one commit, and until the revision stands the shard is still
// behind. One process does it; others wait. Failure: Redis or ClickHouse away: it rejects, and is asked for again.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { ResourceType } from '../../../schemas/closed-sets.ts';
import { readAsset } from '../../process/assets.ts';
import { acknowledging } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { Script } from '../../redis/script.ts';
import type { ApiKeyRecord } from '../accounts/api-keys.ts';
import { auditLog, SYSTEM } from '../audit.ts';
import { type CommandArgs, commit, nowOf, type RegistryStore } from '../commit.ts';
import type { Named } from '../named-records.ts';
import { inactiveWrites } from '../policies/active-policies.ts';
import { isHistoryExpected, rewriteHistory } from './history.ts';
import { type RestoredRow, raiseRevision, tagOf, writesOf } from './restore.ts';

/** The registry as ClickHouse knows it. */
export type KnownRegistry = {
  revisions: () => Promise<Map<string, number>>;
  rows: () => AsyncIterable<RestoredRow> | Iterable<RestoredRow>;
};
/** Shards of the registry, and how many changes each is behind. */
export type Behind = ReadonlyMap<number, number>;

const release = new Script<number>('lease-release', readAsset('src/redis/lease-release.lua'));
/** A process that dies over it is waited for so long. */
const LOCK_MS = 60_000;
const WAIT_MS = 300;
/** Beyond it the caller stops and asks again. */
const WAIT_MS_MAX = 120_000;

export async function behindShards(
  { redis, keys }: RegistryStore,
  revisions: ReadonlyMap<string, number>,
): Promise<Behind> {
  const newest = new Map<number, number>();
  for (const [account, revision] of revisions) {
    const shard = keys.shardOf(account);
    newest.set(shard, Math.max(newest.get(shard) ?? 0, revision));
  }
  const behind = new Map<number, number>();
  await Promise.all(
    [...newest].map(async ([shard, revision]) => {
      const here = await redis.get(keys.revision(shard));
      // Without one the shard was lost, which is another trouble (presence.ts).
      if (here !== null && Number(here) < revision) behind.set(shard, revision - Number(here));
    }),
  );
  return behind;
}

/**
 * Resolves when no shard is behind, with how many records were put back here. `onBehind`: called before anything is
 * changed.
 */
export async function bringForward(
  store: RegistryStore,
  known: KnownRegistry,
  onBehind: (behind: Behind) => void = () => undefined,
): Promise<number> {
  const { redis, keys } = store;
  const token = randomBytes(12).toString('base64url');
  let recovered = 0;
  for (const untilMs = performance.now() + WAIT_MS_MAX; ; ) {
    const revisions = await known.revisions();
    const behind = await behindShards(store, revisions);
    const isGone = revisions.size === 0 && (await isHistoryExpected(store));
    if (behind.size === 0 && !isGone) return recovered;
    if (!isGone) onBehind(behind);
    if ((await redis.set(keys.recoveryLock(), token, 'PX', LOCK_MS, 'NX')) !== null) {
      try {
        if (isGone) await rewriteHistory(store);
        else recovered += await recover(store, known, behind);
      } finally {
        await release.run(redis, [keys.recoveryLock()], [token]).catch(() => undefined);
      }
    } else await sleep(WAIT_MS);
    if (performance.now() > untilMs) throw new Error('the registry is still behind');
  }
}

async function recover(store: RegistryStore, known: KnownRegistry, behind: Behind): Promise<number> {
  const { redis, keys } = store;
  const newer: RestoredRow[] = [];
  const newest = new Map<number, number>();
  const living = new Set<string>();
  const here = new Map<number, number>();
  for (const shard of behind.keys()) here.set(shard, Number(await redis.get(keys.revision(shard))));
  for await (const row of known.rows()) {
    const shard = keys.shardOf(row.account);
    if (row.kind === 'agent' && row.record !== null) living.add(`${row.account}/${row.id}`);
    if (!behind.has(shard)) continue;
    newest.set(shard, Math.max(newest.get(shard) ?? 0, row.revision));
    if (row.revision > here.get(shard)!) newer.push(row);
  }
  newer.sort((a, b) => a.revision - b.revision);
  for (const row of newer) await putBack(store, row, (agent) => living.has(`${row.account}/${agent}`));
  for (const [shard, revision] of newest) await raiseRevision(store, shard, revision);
  return newer.length;
}

/** One record as ClickHouse has it, in place of what Redis has. */
async function putBack(store: RegistryStore, row: RestoredRow, isLiving: (agent: string) => boolean): Promise<void> {
  const { redis, keys } = store;
  const at = nowOf(store);
  const { account, kind, id, revision, record } = row;
  const before = await recordOf(store, row);
  const all = [...removalOf(keys, row, before), ...writesOf(keys, row, isLiving, at)];
  const shardTag = tagOf(keys.revision(keys.shardOf(account)));
  const elsewhere = all.filter(([, key]) => tagOf(key) !== shardTag);
  // What points to a record comes before it and goes behind it.
  for (const [command, key, ...args] of elsewhere)
    if (command !== 'del') await acknowledging(redis).call(command, key, ...args);
  const details = { kind, revision, deleted: record === null, ...ofAgent(record ?? before) };
  await commit(store, {
    ...{ account, at, guards: [], changes: [], whenFull: true },
    writes: all.filter(([, key]) => tagOf(key) === shardTag),
    audit: [auditLog({ action: 'registry.recovered', type: kind as ResourceType, id, details }, SYSTEM, at)],
  });
  const pointed = new Set(elsewhere.flatMap(([command, key]) => (command === 'del' ? [] : [key])));
  for (const [command, key] of elsewhere) if (command === 'del' && !pointed.has(key)) await redis.del(key);
}

async function recordOf({ redis, keys }: RegistryStore, { account, kind, id }: RestoredRow): Promise<object | null> {
  const text = await {
    account: () => redis.hget(keys.accounts(keys.shardOf(account)), id),
    agent: () => redis.get(keys.agent(account, id)),
    policy: () => redis.hget(keys.policies(account), id),
    alert: () => redis.hget(keys.alerts(account), id),
    view: () => redis.hget(keys.views(account), id),
    connection: () => redis.hget(keys.connections(account), id),
    check: () => redis.hget(keys.checks(account), id),
    outgoing_feed: () => redis.hget(keys.outgoingFeeds(account), id),
    prices: () => redis.get(keys.prices(account)),
    api_key: () => redis.hget(keys.apiKeys(account), id),
  }[kind]();
  return text === null ? null : (JSON.parse(text) as object);
}

/** Takes away what Redis has of it: names and scopes may be others by now. */
function removalOf(keys: Keys, { account, kind, id }: RestoredRow, before: object | null): CommandArgs[] {
  if (before === null) return [];
  const unscoped = (agent: string | null): CommandArgs[] =>
    agent === null ? [] : [['srem', keys.agentScope(account, agent), id]];
  const named = (hash: string, names: string): CommandArgs[] => {
    const { name, agent_id = null } = before as Named;
    return [['hdel', hash, id], ['hdel', names, name], ...unscoped(agent_id)];
  };
  switch (kind) {
    case 'account':
      return [['hdel', keys.accounts(keys.shardOf(id)), id]];
    case 'agent': {
      const { name } = before as AgentRecord;
      return [
        ['del', keys.agent(account, id)],
        ['hdel', keys.agentNames(account), name],
        ...(['all', 'active', 'inactive'] as const).map(
          (set): CommandArgs => ['zrem', keys.agentIds(account, set), id],
        ),
      ];
    }
    case 'policy':
      return [...named(keys.policies(account), keys.policyNames(account)), ...inactiveWrites(keys, account, id)];
    case 'alert':
      return named(keys.alerts(account), keys.alertNames(account));
    case 'view':
      return named(keys.views(account), keys.viewNames(account));
    case 'connection': {
      const gone = named(keys.connections(account), keys.connectionNames(account));
      return [...gone, ['hdel', keys.connectionAccounts(keys.shardOf(id)), id]];
    }
    case 'check':
      return named(keys.checks(account), keys.checkNames(account));
    case 'outgoing_feed':
      return [
        ...named(keys.outgoingFeeds(account), keys.outgoingFeedNames(account)),
        ['zrem', keys.outgoingFeedTurns(keys.shardOf(account)), `${account}/${id}`],
      ];
    case 'prices':
      return [['del', keys.prices(account)]];
    default: {
      const { sha256, agent_id = null } = before as ApiKeyRecord;
      return [['hdel', keys.apiKeys(account), id], ['del', keys.apiKeyIndex(sha256)], ...unscoped(agent_id)];
    }
  }
}

function ofAgent(record: object | null): { agent_id?: string } {
  const agent = (record as { agent_id?: string | null } | null)?.agent_id;
  return agent === null || agent === undefined ? {} : { agent_id: agent };
}
