// Agents: registration by name, reads, updates, and deletion with all that belongs to them.
// Each agent is a key of its own, so that fronts can cache and invalidate each alone; names and lists lie beside it.
// Invariant: a name belongs to one agent of the account at most, also under concurrent registration; an id is never
// used again: deletion sets a tombstone that stays, which reads and pipelines honour at once.
// A deletion is one commit: the record, the name, the policies scoped to the agent, its alerts (which become inactive),
// the keys that are bound to it (which are revoked), the tombstone, the erasure that the store pipeline has yet to
// carry out, an audit entry with the bare id and one for each key.

import { type Agent, type AgentCreate, type AgentPatch, type AgentRecord, ownHeartbeat } from '../../schemas/agent.ts';
import type { Status } from '../../schemas/closed-sets.ts';
import type { ErasureReport } from '../../schemas/erasure.ts';

import { cut } from '../../schemas/paging.ts';
import type { Policy } from '../../schemas/policy.ts';
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../common/errors.ts';
import { isId, mintId } from '../common/ids.ts';
import type { Keys } from '../redis/keys.ts';
import { countQuotaOf, overCount } from './accounts/account-quota.ts';
import type { AccountRecord } from './accounts/accounts.ts';
import { type ApiKeyRecord, dropIndex, orphanDetails, revocationWrites } from './accounts/api-keys.ts';
import { holdOn, onHold } from './accounts/holds.ts';
import { type Actor, isWithin } from './accounts/principal.ts';
import { auditLog, changedFields, updateDetails } from './audit.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  type Change,
  type CommandArgs,
  commit,
  type Guard,
  inRounds,
  is,
  nowOf,
  type RegistryStore,
} from './commit.ts';
import { type Erasure, erasureReport } from './erasures.ts';
import { type Listed, type NamedFilter, type Page, pageOf, placeOf } from './lists.ts';
import { inactiveWrites } from './policies/active-policies.ts';

type Registered = { agent: Agent; created: boolean; differs: boolean };
/** Any of the names, and any of the states; `down`: an `agent_down` was raised, and it has not been heard since. */
export type AgentFilter = NamedFilter & {
  name?: readonly string[] | undefined;
  status?: readonly (Status | 'down')[] | undefined;
  /** Nothing but this agent. */
  only?: string | undefined;
};

/** One command for so many ids holds Redis up for less than a millisecond. */
const IDS_AT_ONCE = 1_000;

/** `revoked`: the keys that go with the agent. */
type Removal = Change & { guards: Guard[]; writes: CommandArgs[]; revoked: ApiKeyRecord[] };

export class Agents {
  readonly #store: RegistryStore;
  readonly #keys: Keys;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
  }

  /**
   * Idempotent by name: an agent that is there already is returned as it is; `differs`: that is not as `body` says.
   * Throws ServiceError insufficient_scope, unavailable.
   */
  register(account: string, body: AgentCreate, actor: Actor): Promise<Registered> {
    return inRounds(async () => {
      const existing = await this.#byName(account, body.name);
      if (existing === AGAIN) return AGAIN;
      if (existing !== null) return { agent: existing, created: false, differs: differs(existing, body) };
      if (actor.registersAgents === false) throw keptToAgents();
      const record = newRecord(body, nowOf(this.#store));
      const quota = await countQuotaOf(this.#store, account, 'agents');
      const change = this.#registration(account, record, actor);
      const full = below('full', ['zcard', this.#keys.agentIds(account, 'all')], quota);
      const guards = Number.isFinite(quota) ? [...change.guards, full] : change.guards;
      const { refused } = await commit(this.#store, { ...change, guards });
      if (refused === 'full') throw overCount('agents', quota);
      return refused === undefined
        ? { agent: { ...record, last_seen_at: null }, created: true, differs: false }
        : AGAIN;
    });
  }

  get(account: string, id: string): Promise<Agent | null> {
    return answering(async () => {
      const text = await this.#text(account, id);
      return text === null ? null : (await this.#withLastSeen(account, [JSON.parse(text) as AgentRecord]))[0]!;
    });
  }

  /** null: no agent of the account has this name. */
  byName(account: string, name: string): Promise<Agent | null> {
    return inRounds(() => this.#byName(account, name));
  }

  /** Newest first; `total` counts all that fit the filter. */
  list(account: string, { id, name, q, status, only, ...page }: AgentFilter & Page): Promise<Listed<Agent>> {
    return answering(async () => {
      const { redis } = this.#store;
      if ([id, name, q, only].some((filter) => filter !== undefined) || status?.includes('down'))
        return this.#listSome(account, { id, name, q, status, only }, page);
      const { limit, offset, after } = page;
      const ids = this.#keys.agentIds(account, status?.length === 1 ? (status[0] as Status) : 'all');
      const below = after === undefined ? '+' : `(${after.id}`;
      const [total, some] = await Promise.all([
        redis.zcard(ids),
        redis.zrevrangebylex(ids, below, '-', 'LIMIT', offset, limit + 1),
      ]);
      const { rows, next } = cut(some, limit, (id) => placeOf({ id }));
      const items = await this.#withLastSeen(account, await this.#records(account, rows));
      return { items, positions: items.map(placeOf), total, next };
    });
  }

  /**
   * null: no such agent. Throws ServiceError name_taken, and insufficient_scope where a key bound to the agent would
   * start it again.
   */
  patch(account: string, id: string, body: AgentPatch, actor: Actor): Promise<Agent | null> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return null;
      const before = JSON.parse(text) as AgentRecord;
      if (!isWithin(actor, id)) return null;
      if (actor.boundTo === id && before.status === 'inactive' && body.status === 'active') throw staysInactive();
      const after = { ...before, ...body };
      if (changedFields(before, after).length > 0) {
        const at = nowOf(this.#store);
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
      const keeping = await this.#notHeld(account, id);
      const change = await this.#removal(account, JSON.parse(text) as AgentRecord, text, actor);
      if (change === AGAIN) return AGAIN;
      const { refused } = await commit(this.#store, { ...change, guards: [...change.guards, ...keeping] });
      if (refused !== undefined) return AGAIN;
      for (const key of change.revoked) await dropIndex(this.#store, key);
      return true;
    });
  }

  /** Guards against a hold that is made meanwhile. Throws ServiceError on_hold. */
  async #notHeld(account: string, id: string): Promise<Guard[]> {
    const hash = this.#keys.accounts(this.#keys.shardOf(account));
    const text = await this.#store.redis.hget(hash, account);
    if (text === null) return [];
    const held = holdOn((JSON.parse(text) as AccountRecord).holds ?? [], id);
    if (held !== undefined) throw onHold(held);
    return [is('account', ['hget', hash, account], text)];
  }

  /** How far the erasure of a deleted agent has come. null: none was deleted, or long ago. */
  erasure(account: string, id: string): Promise<ErasureReport | null> {
    return erasureReport(this.#store, account, id);
  }

  /** Agents of the account that were deleted and whose rows may not be gone yet: lists must leave them out. */
  erasing(account: string): Promise<string[]> {
    return answering(async () => {
      const erasures = await this.#store.redis.hgetall(this.#keys.erasures(this.#keys.shardOf(account)));
      const agents = Object.entries(erasures).filter(([, text]) => (JSON.parse(text) as Erasure).account === account);
      return agents.map(([id]) => id);
    });
  }

  /** Lists by filters that have no sorted set of their own: the agents that fit are gathered, then cut. */
  async #listSome(account: string, { id, name, q, status, only }: AgentFilter, page: Page): Promise<Listed<Agent>> {
    const { redis } = this.#store;
    const byName = name && (await redis.hmget(this.#keys.agentNames(account), ...name)).filter((one) => one !== null);
    const byWords = q === undefined ? undefined : await this.#called(account, q);
    const named = inAll([only === undefined ? undefined : [only], id, byName, byWords]);
    const fitting = new Set<string>(status === undefined ? await this.#inSet(account, 'all', named ?? []) : []);
    for (const one of status ?? []) {
      const among =
        named ?? (await redis.zrange(this.#keys.agentIds(account, one === 'down' ? 'all' : one), '0', '-1'));
      const of = one === 'down' ? await this.#down(account, among) : await this.#inSet(account, one, among);
      for (const id of of) fitting.add(id);
    }
    const { items: found, ...rest } = pageOf(
      [...fitting].map((id) => ({ id })),
      page,
    );
    const records = await this.#records(
      account,
      found.map(({ id }) => id),
    );
    const items = await this.#withLastSeen(account, records);
    return { ...rest, items, positions: items.map(placeOf) };
  }

  async #inSet(account: string, status: Status | 'all', ids: readonly string[]): Promise<string[]> {
    const found: string[] = [];
    for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
      const some = ids.slice(i, i + IDS_AT_ONCE);
      const scores = await this.#store.redis.zmscore(this.#keys.agentIds(account, status), ...some);
      found.push(...some.filter((_, k) => scores[k] !== null));
    }
    return found;
  }

  /** Ids of the agents with these characters in their names. One may come twice. */
  async #called(account: string, words: string): Promise<string[]> {
    const ids: string[] = [];
    const part = words.toLowerCase();
    for (let cursor: string | undefined = '0'; cursor !== undefined; ) {
      const [next, fields]: [string, string[]] = await this.#store.redis.hscan(
        this.#keys.agentNames(account),
        cursor,
        'COUNT',
        IDS_AT_ONCE,
      );
      for (let i = 0; i < fields.length; i += 2) if (fields[i]!.toLowerCase().includes(part)) ids.push(fields[i + 1]!);
      cursor = next === '0' ? undefined : next;
    }
    return ids;
  }

  /**
   * Agents that the watch has reported as silent, and that have not sent since (pipelines/watch/silence.ts).
   * Not those that have been stopped or whose watch has been switched off: their silence is expected.
   */
  async #down(account: string, ids: readonly string[]): Promise<string[]> {
    const { redis } = this.#store;
    const down: string[] = [];
    for (const [partition, own] of this.#byPartition(account, ids)) {
      for (let i = 0; i < own.length; i += IDS_AT_ONCE) {
        const some = own.slice(i, i + IDS_AT_ONCE);
        const [notes, seen] = await Promise.all([
          redis.hmget(this.#keys.watchNotes(partition), ...some),
          redis.hmget(this.#keys.lastSeen(partition), ...some),
        ]);
        const silent = some.filter((_, k) => notifiedSilenceOf(notes[k]) === Number.parseInt(seen[k] ?? '', 10));
        const watched = (await this.#records(account, silent)).filter(
          (record) => record.status === 'active' && ownHeartbeat(record) !== 0,
        );
        down.push(...watched.map(({ id }) => id));
      }
    }
    return down;
  }

  /** In this order; one that has been deleted meanwhile is left out. */
  async #records(account: string, ids: readonly string[]): Promise<AgentRecord[]> {
    const texts = ids.length === 0 ? [] : await this.#store.redis.mget(ids.map((id) => this.#keys.agent(account, id)));
    return texts.filter((text) => text !== null).map((text) => JSON.parse(text) as AgentRecord);
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
    const partitions = this.#byPartition(
      account,
      records.map(({ id }) => id),
    );
    const seen = new Map<string, string | null>();
    await Promise.all(
      [...partitions].map(async ([partition, ids]) => {
        const times = await this.#store.redis.hmget(this.#keys.lastSeen(partition), ...ids);
        for (const [i, id] of ids.entries()) seen.set(id, times[i] ?? null);
      }),
    );
    return records.map((record) => {
      const value = seen.get(record.id);
      // `<epoch ms>/<account>`.
      return { ...record, last_seen_at: value ? isoTime(Number.parseInt(value, 10)) : null };
    });
  }

  #byPartition(account: string, ids: readonly string[]): Map<number, string[]> {
    const partitions = new Map<number, string[]>();
    for (const id of ids) {
      const partition = this.#keys.partitionOf(account, id);
      const own = partitions.get(partition);
      if (own === undefined) partitions.set(partition, [id]);
      else own.push(id);
    }
    return partitions;
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
    const writes: CommandArgs[] = [['set', key, JSON.stringify(after)]];
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

  /**
   * The scope's size and each record in it are guarded, so nothing can be scoped to the agent meanwhile and be
   * overlooked.
   */
  async #removal(account: string, record: AgentRecord, text: string, actor: Actor): Promise<Removal | typeof AGAIN> {
    const { id, name, status } = record;
    const keys = this.#keys;
    const at = nowOf(this.#store);
    const scope = keys.agentScope(account, id);
    const scoped = await this.#store.redis.smembers(scope);
    const erasure: Erasure = { account, at };
    const change: Removal = {
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
      revoked: [],
    };
    for (const member of scoped) {
      const isGone = isId('apiKey', member)
        ? await this.#revoke(account, member, change, actor)
        : await this.#releaseScoped(account, member, change);
      if (isGone) return AGAIN;
    }
    return change;
  }

  /** A key that is bound to an agent goes with it. true: it is gone already. */
  async #revoke(account: string, id: string, change: Removal, actor: Actor): Promise<boolean> {
    const hash = this.#keys.apiKeys(account);
    const text = await this.#store.redis.hget(hash, id);
    if (text === null) return true;
    const record = JSON.parse(text) as ApiKeyRecord;
    const details = orphanDetails(record);
    change.guards.push(is('scoped', ['hget', hash, id], text));
    change.writes.push(...revocationWrites(this.#keys, account, id));
    change.changes.push({ kind: 'api_key', id, record: null });
    change.audit.push(auditLog({ action: 'api_key.revoked', type: 'api_key', id, details }, actor, change.at));
    change.revoked.push(record);
    return false;
  }

  /** Adds to the change what becomes of a policy, alert or connection whose agent goes. true: it is gone already. */
  async #releaseScoped(account: string, id: string, change: Removal): Promise<boolean> {
    const keys = this.#keys;
    const isPolicy = isId('policy', id);
    const kind = isId('connection', id) ? 'connection' : 'alert';
    const hash = isPolicy
      ? keys.policies(account)
      : kind === 'alert'
        ? keys.alerts(account)
        : keys.connections(account);
    const text = await this.#store.redis.hget(hash, id);
    if (text === null) return true;
    change.guards.push(is('scoped', ['hget', hash, id], text));
    if (isPolicy) {
      const { name } = JSON.parse(text) as Policy;
      change.writes.push(
        ['hdel', hash, id],
        ['hdel', keys.policyNames(account), name],
        ...inactiveWrites(keys, account, id),
      );
      change.changes.push({ kind: 'policy', id, record: null });
    } else {
      const record = { ...(JSON.parse(text) as object), status: 'inactive', updated_at: isoTime(change.at) };
      change.writes.push(['hset', hash, id, JSON.stringify(record)]);
      change.changes.push({ kind, id, record });
    }
    return false;
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

/** Does a registration say anything that the agent of its name is not? What is left out says nothing. */
function differs(agent: AgentRecord, { description, framework, metadata }: AgentCreate): boolean {
  if (description !== undefined && description !== agent.description) return true;
  if (framework !== undefined && framework !== agent.framework) return true;
  if (metadata === undefined) return false;
  const keys = Object.keys(metadata);
  return (
    keys.length !== Object.keys(agent.metadata).length ||
    keys.some((key) => !Object.hasOwn(agent.metadata, key) || agent.metadata[key] !== metadata[key])
  );
}

/** Reads from a note of the watch when the notified silence began, epoch ms; undefined: none was notified. */
function notifiedSilenceOf(note: string | null | undefined): number | undefined {
  const began = /^t(\d+)\//.exec(note ?? '')?.[1];
  return began === undefined ? undefined : Number(began);
}

/** The kill switch is the operator's: what the agent's own key may throw, it may not release. */
function staysInactive(): ServiceError {
  return new ServiceError('insufficient_scope', 'This agent was stopped; a key bound to it cannot start it again.', {
    recorded: false,
  });
}

function nameTaken(): ServiceError {
  return new ServiceError('name_taken', 'Another agent has this name.', { recorded: false });
}

export function keptToAgents(): ServiceError {
  return new ServiceError('insufficient_scope', 'There is no agent of this name, and this key registers none.', {
    recorded: false,
  });
}

/** The ids that are in all of the given lists. undefined: there is no list. */
function inAll(lists: readonly (readonly string[] | undefined)[]): readonly string[] | undefined {
  const [first, ...others] = lists.filter((list) => list !== undefined);
  const sets = others.map((list) => new Set(list));
  return first?.filter((id) => sets.every((set) => set.has(id)));
}
