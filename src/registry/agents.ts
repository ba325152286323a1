// Agents: registration by name, reads, updates, and deletion with all that belongs to them (spec 4.1-4.4, decisions 4).
// Each agent is a key of its own, so that fronts can cache and be told of each alone; names and lists lie beside it.
// Invariant: a name belongs to one agent of the account at most, whoever registers it at the same time; an id is never used
// again: deletion sets a tombstone that stays, which reads and pipelines honour at once.
// A deletion is one commit: the record, the name, the policies scoped to the agent, its alerts (which become inactive),
// the tombstone, the erasure that the store pipeline has yet to carry out, and one audit entry with the bare id.
import type { Agent, AgentCreate, AgentPatch, AgentRecord } from '../../schemas/agent.ts';
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Status } from '../../schemas/common.ts';
import type { Policy } from '../../schemas/policy.ts';
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../errors.ts';
import { isId, mintId } from '../ids.ts';
import type { Keys } from '../redis/keys.ts';
import { auditLog, changedFields, updateDetails } from './audit.ts';
import {
  AGAIN,
  absent,
  answering,
  type Change,
  commit,
  type Guard,
  inRounds,
  is,
  type RegistryStore,
  type Words,
} from './commit.ts';
import type { Listed, Page } from './lists.ts';
import type { Actor } from './principal.ts';

/** What lies in the erasures hash until the store pipeline is done with it. */
export type Erasure = { account: string; at: number };

export class Agents {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #now: () => number;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
    this.#now = store.now ?? Date.now;
  }

  /** Idempotent by name: an agent that is there already is returned unchanged. Throws ServiceError unavailable. */
  register(account: string, body: AgentCreate, actor: Actor): Promise<{ agent: Agent; created: boolean }> {
    return inRounds(async () => {
      const existing = await this.#byName(account, body.name);
      if (existing === AGAIN) return AGAIN;
      if (existing !== null) return { agent: existing, created: false };
      const record = newRecord(body, this.#now());
      const { refused } = await commit(this.#store, this.#registration(account, record, actor));
      return refused === undefined ? { agent: { ...record, last_seen_at: null }, created: true } : AGAIN;
    });
  }

  get(account: string, id: string): Promise<Agent | null> {
    return answering(async () => {
      const text = await this.#text(account, id);
      return text === null ? null : (await this.#withLastSeen(account, [JSON.parse(text) as AgentRecord]))[0]!;
    });
  }

  /** Newest first; `total` counts all that fit the filter. */
  list(account: string, { status, limit, offset }: Page & { status?: Status | undefined }): Promise<Listed<Agent>> {
    return answering(async () => {
      const { redis } = this.#store;
      const ids = this.#keys.agentIds(account, status ?? 'all');
      const [total, page] = await Promise.all([redis.zcard(ids), redis.zrevrange(ids, offset, offset + limit - 1)]);
      const texts = page.length === 0 ? [] : await redis.mget(page.map((id) => this.#keys.agent(account, id)));
      const records = texts.filter((text) => text !== null).map((text) => JSON.parse(text) as AgentRecord);
      return { items: await this.#withLastSeen(account, records), total };
    });
  }

  /** null: no such agent. Throws ServiceError name_taken. */
  patch(account: string, id: string, body: AgentPatch, actor: Actor): Promise<Agent | null> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return null;
      const before = JSON.parse(text) as AgentRecord;
      const after = { ...before, ...body };
      if (changedFields(before, after).length > 0) {
        const at = this.#now();
        after.updated_at = isoTime(at);
        const { refused } = await commit(this.#store, this.#update(account, { text, before, after, at }, actor));
        if (refused === 'name') throw nameTaken();
        if (refused !== undefined) return AGAIN;
      }
      return (await this.#withLastSeen(account, [after]))[0]!;
    });
  }

  /** false: no such agent. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return false;
      const change = await this.#removal(account, JSON.parse(text) as AgentRecord, text, actor);
      if (change === AGAIN) return AGAIN;
      const { refused } = await commit(this.#store, change);
      return refused === undefined ? true : AGAIN;
    });
  }

  /** Agents of the account that were deleted and whose rows may not be gone yet: lists must leave them out. */
  erasing(account: string): Promise<string[]> {
    return answering(async () => {
      const erasures = await this.#store.redis.hgetall(this.#keys.erasures(this.#keys.shardOf(account)));
      const agents = Object.entries(erasures).filter(([, text]) => (JSON.parse(text) as Erasure).account === account);
      return agents.map(([id]) => id);
    });
  }

  async #text(account: string, id: string): Promise<string | null> {
    return isId('agent', id) ? this.#store.redis.get(this.#keys.agent(account, id)) : null;
  }

  /** AGAIN: it was deleted between the two reads. */
  async #byName(account: string, name: string): Promise<Agent | null | typeof AGAIN> {
    const id = await this.#store.redis.hget(this.#keys.agentNames(account), name);
    if (id === null) return null;
    const text = await this.#text(account, id);
    return text === null ? AGAIN : (await this.#withLastSeen(account, [JSON.parse(text) as AgentRecord]))[0]!;
  }

  /** The time of the last event lies with the events' partition: a trip of its own. */
  async #withLastSeen(account: string, records: readonly AgentRecord[]): Promise<Agent[]> {
    const partitions = new Map<number, string[]>();
    for (const { id } of records) {
      const partition = this.#keys.partitionOf(account, id);
      const ids = partitions.get(partition);
      if (ids === undefined) partitions.set(partition, [id]);
      else ids.push(id);
    }
    const seen = new Map<string, string | null>();
    await Promise.all(
      [...partitions].map(async ([partition, ids]) => {
        const times = await this.#store.redis.hmget(this.#keys.lastSeen(partition), ...ids);
        for (const [i, id] of ids.entries()) seen.set(id, times[i] ?? null);
      }),
    );
    return records.map((record) => {
      const value = seen.get(record.id);
      // `<epoch ms>/<account>`; the time alone in a Redis that is older than the watch.
      return { ...record, last_seen_at: value ? isoTime(Number.parseInt(value, 10)) : null };
    });
  }

  #registration(account: string, record: AgentRecord, actor: Actor): Change {
    const at = Date.parse(record.created_at);
    const names = this.#keys.agentNames(account);
    return {
      account,
      at,
      guards: [absent('name', ['hget', names, record.name])],
      writes: [
        ['set', this.#keys.agent(account, record.id), JSON.stringify(record)],
        ['hset', names, record.name, record.id],
        ['zadd', this.#keys.agentIds(account, 'all'), 0, record.id],
        ['zadd', this.#keys.agentIds(account, record.status), 0, record.id],
      ],
      changes: [{ kind: 'agent', id: record.id, record }],
      audit: [
        auditLog(
          { action: 'agent.registered', type: 'agent', id: record.id, details: { name: record.name } },
          actor,
          at,
        ),
      ],
    };
  }

  #update(
    account: string,
    change: { text: string; before: AgentRecord; after: AgentRecord; at: number },
    actor: Actor,
  ): Change {
    const { text, before, after, at } = change;
    const { id } = before;
    const key = this.#keys.agent(account, id);
    const guards: Guard[] = [is('record', ['get', key], text)];
    const writes: Words[] = [['set', key, JSON.stringify(after)]];
    if (after.name !== before.name) {
      const names = this.#keys.agentNames(account);
      guards.push(absent('name', ['hget', names, after.name]));
      writes.push(['hdel', names, before.name], ['hset', names, after.name, id]);
    }
    if (after.status !== before.status) {
      writes.push(['zrem', this.#keys.agentIds(account, before.status), id]);
      writes.push(['zadd', this.#keys.agentIds(account, after.status), 0, id]);
    }
    const audit = auditLog(
      { action: 'agent.updated', type: 'agent', id, details: updateDetails(before, after) },
      actor,
      at,
    );
    return { account, at, guards, writes, changes: [{ kind: 'agent', id, record: after }], audit: [audit] };
  }

  /** The scope's size and each record in it are guarded, so nothing can be scoped to the agent meanwhile and be overlooked. */
  async #removal(account: string, record: AgentRecord, text: string, actor: Actor): Promise<Change | typeof AGAIN> {
    const { id, name, status } = record;
    const keys = this.#keys;
    const at = this.#now();
    const scope = keys.agentScope(account, id);
    const scoped = await this.#store.redis.smembers(scope);
    const erasure: Erasure = { account, at };
    const change: Change & { guards: Guard[]; writes: Words[] } = {
      account,
      at,
      guards: [
        is('record', ['get', keys.agent(account, id)], text),
        { name: 'scope', test: 'below', expected: scoped.length + 1, words: ['scard', scope] },
      ],
      writes: [
        ['del', keys.agent(account, id)],
        ['hdel', keys.agentNames(account), name],
        ['zrem', keys.agentIds(account, 'all'), id],
        ['zrem', keys.agentIds(account, status), id],
        ['sadd', keys.tombstones(account), id],
        ['del', scope],
        ['hset', keys.erasures(keys.shardOf(account)), id, JSON.stringify(erasure)],
        // Who waits for an approval of this agent is answered 404 at once.
        ['publish', keys.approvalNews(keys.shardOf(account)), `${account}/${id}`],
      ],
      changes: [{ kind: 'agent', id, record: null }],
      audit: [auditLog({ action: 'agent.deleted', type: 'agent', id }, actor, at)],
      erases: id,
    };
    for (const member of scoped) {
      if (!(await this.#releaseScoped(account, member, change))) return AGAIN;
    }
    return change;
  }

  /** What becomes of a policy or alert whose agent goes. false: it is gone already. */
  async #releaseScoped(
    account: string,
    id: string,
    change: Change & { guards: Guard[]; writes: Words[] },
  ): Promise<boolean> {
    const keys = this.#keys;
    const isPolicy = isId('policy', id);
    const hash = isPolicy ? keys.policies(account) : keys.alerts(account);
    const text = await this.#store.redis.hget(hash, id);
    if (text === null) return false;
    change.guards.push(is('scoped', ['hget', hash, id], text));
    if (isPolicy) {
      const { name } = JSON.parse(text) as Policy;
      change.writes.push(
        ['hdel', hash, id],
        ['hdel', keys.policyNames(account), name],
        ['srem', keys.activePolicies(account), id],
      );
      change.changes.push({ kind: 'policy', id, record: null });
    } else {
      const alert: AlertRecord = {
        ...(JSON.parse(text) as AlertRecord),
        status: 'inactive',
        updated_at: isoTime(change.at),
      };
      change.writes.push(['hset', hash, id, JSON.stringify(alert)]);
      change.changes.push({ kind: 'alert', id, record: alert });
    }
    return true;
  }
}

function newRecord(body: AgentCreate, nowMs: number): AgentRecord {
  const { name, description, framework, metadata } = body;
  return {
    id: mintId('agent', nowMs),
    name,
    ...(description === undefined ? {} : { description }),
    ...(framework === undefined ? {} : { framework }),
    metadata: metadata ?? {},
    status: 'active',
    created_at: isoTime(nowMs),
    updated_at: isoTime(nowMs),
  };
}

function nameTaken(): ServiceError {
  return new ServiceError('name_taken', 'Another agent has this name.', { recorded: false });
}
