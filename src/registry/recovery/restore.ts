// Rebuilds what a Redis has lost of its registry from what the journal brought to ClickHouse (`gatehouse registry
// restore`). Takes every resource at its newest revision, deleted ones too, in any order; makes the records, names,
// lists, scopes, key index and tombstones, and sets each shard's revision to the highest seen, so that later changes
// count as newer. Nothing is journalled: ClickHouse has it all. Deleted agents get their erasure again, since it may
// not have been finished. Shard by shard: what has its mark (presence.ts) is left alone, so that of a Redis Cluster the
// one lost master is restored, and an old copy never covers what is in force. Marks come last: a restore that broke off
// is begun again and finds all to be done. Refuses a Redis that has lost nothing (NotEmpty). The processes that wait
// for it continue by themselves.

import type { AgentRecord } from '../../../schemas/agent.ts';
import type { AlertRecord } from '../../../schemas/alert.ts';
import type { ConnectionRecord } from '../../../schemas/connection.ts';
import type { CheckRecord } from '../../../schemas/external-check.ts';
import type { JournalEntry } from '../../../schemas/journal.ts';
import type { OutgoingFeedRecord } from '../../../schemas/outgoing-feed.ts';
import type { Policy } from '../../../schemas/policy.ts';
import type { SavedView } from '../../../schemas/view.ts';
import { exactJson } from '../../common/exact-json.ts';
import { UserFacingError } from '../../common/user-facing-error.ts';
import { acknowledging } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import type { AccountRecord } from '../accounts/accounts.ts';
import type { ApiKeyRecord } from '../accounts/api-keys.ts';
import { outgoingTurn } from '../alerts/outgoing-feeds.ts';
import { answering, type CommandArgs, nowOf, type RegistryStore } from '../commit.ts';
import type { Erasure } from '../erasures.ts';
import { activeWrites } from '../policies/active-policies.ts';
import { adoptRegistry, foundRegistry, presenceOf } from './presence.ts';

export type RestoredRow = {
  account: string;
  kind: JournalEntry['changes'][number]['kind'];
  id: string;
  revision: number;
  /** null: deleted. */
  record: object | null;
};

export class NotEmpty extends UserFacingError {
  override name = 'NotEmpty';
}

/** Commands on their way at once. */
const COMMANDS_AT_ONCE = 500;

type RestoreOptions = {
  /** Restores more beside the registry before it is marked as there. `isLost`: of this account. */
  beside?: (isLost: (account: string) => boolean) => Promise<void>;
};

/** Returns how many living resources were restored, by kind. Throws NotEmpty, ServiceError unavailable. */
export function rebuildRegistry(
  rows: AsyncIterable<RestoredRow> | Iterable<RestoredRow>,
  store: RegistryStore,
  options: RestoreOptions = {},
): Promise<Record<RestoredRow['kind'], number>> {
  return answering(async () => {
    const lost = await lostTags(store);
    const { keys } = store;
    const isLost = (account: string) => lost.has(tagOf(keys.revision(keys.shardOf(account))));
    const newest = await newestOf(rows);
    const counts = {
      agent: 0,
      policy: 0,
      alert: 0,
      api_key: 0,
      account: 0,
      view: 0,
      connection: 0,
      check: 0,
      outgoing_feed: 0,
      prices: 0,
    };
    const revisions = new Map<number, number>();
    const names: CommandArgs[] = [];
    const now = nowOf(store);
    const writer = new Writer(store);
    for (const row of newest.values()) {
      const shard = keys.shardOf(row.account);
      revisions.set(shard, Math.max(revisions.get(shard) ?? 0, row.revision));
      if (row.record !== null && isLost(row.account)) counts[row.kind]++;
      const isLiving = (agent: string) => (newest.get(placeOf(row.account, 'agent', agent))?.record ?? null) !== null;
      const writes = writesOf(keys, row, isLiving, now);
      await writer.write(writes.filter(([, key]) => key !== keys.accountNames() && lost.has(tagOf(key))));
      names.push(...writes.filter(([, key]) => key === keys.accountNames()));
    }
    await writer.end();
    await options.beside?.(isLost);
    for (const [shard, revision] of revisions) {
      if (lost.has(tagOf(keys.revision(shard)))) await raiseRevision(store, shard, revision);
    }
    // The names of accounts last of all: with them a registry without marks is taken for one whose founding was killed
    // at its end.
    await foundRegistry(store, async () => {
      await writer.write(names.map(([, key, name, id]) => ['hsetnx', key, name!, id!]));
      await writer.end();
    });
    return counts;
  });
}

export async function raiseRevision({ redis, keys }: RegistryStore, shard: number, revision: number): Promise<void> {
  const key = keys.revision(shard);
  if (Number((await redis.get(key)) ?? -1) < revision) await acknowledging(redis).set(key, revision);
}

/** Hash tags of what has no mark. */
async function lostTags(store: RegistryStore): Promise<Set<string>> {
  await adoptRegistry(store);
  const { state, lost } = await presenceOf(store);
  if (state === 'there') throw new NotEmpty('this Redis holds a registry; nothing of it was lost');
  return new Set(lost.map(tagOf));
}

export function tagOf(key: string): string {
  return key.slice(0, key.indexOf('}') + 1);
}

async function newestOf(rows: AsyncIterable<RestoredRow> | Iterable<RestoredRow>): Promise<Map<string, RestoredRow>> {
  const newest = new Map<string, RestoredRow>();
  for await (const row of rows) {
    const key = placeOf(row.account, row.kind, row.id);
    const known = newest.get(key);
    if (known === undefined || known.revision < row.revision) newest.set(key, row);
  }
  return newest;
}

/** The writes that make a resource in Redis. `isLiving`: does this agent of the account exist? */
export function writesOf(
  keys: Keys,
  row: RestoredRow,
  isLiving: (agent: string) => boolean,
  now: number,
): CommandArgs[] {
  const { account, id, kind } = row;
  if (row.record === null) return kind === 'agent' ? deletedAgent(keys, account, id, now) : [];
  const text = exactJson(row.record);
  const scope = (agent: string | null): CommandArgs[] =>
    agent !== null && isLiving(agent) ? [['sadd', keys.agentScope(account, agent), id]] : [];
  const named = (records: string, names: string, name: string): CommandArgs[] => [
    ['hset', records, id, text],
    ['hset', names, name, id],
  ];
  switch (kind) {
    case 'account':
      return named(keys.accounts(keys.shardOf(id)), keys.accountNames(), (row.record as AccountRecord).name);
    case 'agent': {
      const { name, status } = row.record as AgentRecord;
      return [
        ['set', keys.agent(account, id), text],
        ['hset', keys.agentNames(account), name, id],
        ['zadd', keys.agentIds(account, 'all'), 0, id],
        ['zadd', keys.agentIds(account, status), 0, id],
      ];
    }
    case 'policy': {
      const policy = row.record as Policy;
      const { name, agent_id } = policy;
      return [
        ...named(keys.policies(account), keys.policyNames(account), name),
        ...activeWrites(keys, account, policy),
        ...scope(agent_id),
      ];
    }
    case 'alert': {
      const { name, agent_id } = row.record as AlertRecord;
      return [...named(keys.alerts(account), keys.alertNames(account), name), ...scope(agent_id)];
    }
    case 'view':
      return named(keys.views(account), keys.viewNames(account), (row.record as SavedView).name);
    case 'connection': {
      const { name, agent_id } = row.record as ConnectionRecord;
      return [
        ...named(keys.connections(account), keys.connectionNames(account), name),
        ['hset', keys.connectionAccounts(keys.shardOf(id)), id, account],
        ...scope(agent_id),
      ];
    }
    case 'check':
      return named(keys.checks(account), keys.checkNames(account), (row.record as CheckRecord).name);
    case 'outgoing_feed': {
      const { name, status } = row.record as OutgoingFeedRecord;
      return [
        ...named(keys.outgoingFeeds(account), keys.outgoingFeedNames(account), name),
        ...outgoingTurn(keys, account, { id, status }),
      ];
    }
    case 'prices':
      return [['set', keys.prices(account), text]];
    case 'api_key': {
      const { sha256, agent_id = null } = row.record as ApiKeyRecord;
      return [
        ['set', keys.apiKeyIndex(sha256), `${account}/${id}`],
        ['hset', keys.apiKeys(account), id, text],
        ...scope(agent_id),
      ];
    }
    default:
      throw new Error(`unexpected kind ${String(kind)}`);
  }
}

function deletedAgent(keys: Keys, account: string, id: string, at: number): CommandArgs[] {
  const erasure: Erasure = { account, at };
  return [
    ['sadd', keys.tombstones(account), id],
    ['hset', keys.erasures(keys.shardOf(account)), id, JSON.stringify(erasure)],
  ];
}

function placeOf(account: string, kind: RestoredRow['kind'], id: string): string {
  return `${account}/${kind}/${id}`;
}

/** Sends commands as they come, some at once. */
class Writer {
  readonly #store: RegistryStore;
  #sent: Promise<unknown>[] = [];

  constructor(store: RegistryStore) {
    this.#store = store;
  }

  async write(commands: readonly CommandArgs[]): Promise<void> {
    for (const [command, key, ...args] of commands)
      this.#sent.push(acknowledging(this.#store.redis).call(command, key, ...args));
    if (this.#sent.length >= COMMANDS_AT_ONCE) await this.end();
  }

  async end(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    await Promise.all(sent);
  }
}
