// API keys as resources: made, listed, revoked. What their text looks like: api-key-text.ts; what they
// may: principal.ts. A key that is bound to an agent is part of its scope, so the agent's deletion revokes it
// (agents.ts). A key lies in two slots: an index from its hash to `<account>/<key id>`, and with its account the
// record, which is the truth.
// Order of a creation: index, then the record with its journal entry. Order of a revocation: the record with its
// journal entry, then the index. So a kill in between leaves an index that leads nowhere, and never a key that works
// unrecorded.
// Invariant: only the SHA-256 of a key is kept; its text is in the answer that created it and nowhere else.

import type { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../../schemas/api-key.ts';
import type { Permission, Scope } from '../../../schemas/closed-sets.ts';

import type { ErrorDetail } from '../../../schemas/error.ts';
import { isoTime, parseTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId, mintId } from '../../common/ids.ts';
import { API_KEYS_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { acknowledging } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { auditLog } from '../audit.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  type Change,
  type CommandArgs,
  commit,
  inRounds,
  is,
  nowOf,
  present,
  type RegistryStore,
} from '../commit.ts';
import { type Listed, type Page, pageOf } from '../lists.ts';
import { ofAgent } from '../named-records.ts';
import { countQuotaOf, overCount } from './account-quota.ts';
import { hintOf, mintApiKey, sha256Of } from './api-key-text.ts';
import { type Actor, PERMISSIONS_OF } from './principal.ts';

/** As kept. */
export type ApiKeyRecord = {
  id: string;
  label: string;
  scope: Scope;
  /** The agent that the key is bound to; null: none. */
  agent_id: string | null;
  /** null: all of the scope. */
  permissions: Permission[] | null;
  /** Left out: true. */
  registers_agents?: boolean;
  created_at: string;
  expires_at: string | null;
  hint: string;
  sha256: string;
};

export class ApiKeys {
  readonly #store: RegistryStore;
  readonly #keys: Keys;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
  }

  /** Throws ServiceError validation_failed, unavailable. */
  create(account: string, body: ApiKeyCreate, actor: Actor): Promise<ApiKeyCreated> {
    return answering(async () => {
      const at = nowOf(this.#store);
      const { label, scope, agent_id: agentId = null, permissions = null } = body;
      const registersAgents = body.registers_agents ?? true;
      const expiresAtMs = typeof body.expires_at === 'string' ? parseTime(body.expires_at) : null;
      const problems = rightsProblems(body);
      if (expiresAtMs !== null && expiresAtMs <= at)
        problems.push({ path: '/expires_at', message: 'must be in the future' });
      if (problems.length > 0) throw invalid(problems);
      const key = mintApiKey();
      const made = { id: mintId('apiKey', at), label, scope, agentId, permissions, registersAgents, expiresAtMs };
      const record = newApiKey(made, key, at);
      await writeIndex(this.#store, account, record);
      await this.#record(account, record, actor, at);
      const { hint: _hint, ...rest } = shown(record);
      return { ...rest, key };
    });
  }

  /** Newest first. */
  list(account: string, page: Page): Promise<Listed<ApiKey>> {
    return answering(async () => {
      const { redis } = this.#store;
      const [texts, uses] = await Promise.all([
        redis.hvals(this.#keys.apiKeys(account)),
        redis.hgetall(this.#keys.apiKeyUses(account)),
      ]);
      const listed = texts.map((text) => {
        const { hint, ...rest } = shown(JSON.parse(text) as ApiKeyRecord);
        const usedAt = uses[rest.id];
        return { ...rest, last_used_at: usedAt === undefined ? null : isoTime(Number(usedAt)), hint };
      });
      return pageOf(listed, page);
    });
  }

  /**
   * false: no such key. Throws ServiceError last_admin_key, unless `mayBeLast`: that is for the command line, which can
   * make another.
   */
  revoke(account: string, id: string, actor: Actor, { mayBeLast = false } = {}): Promise<boolean> {
    return inRounds(async () => {
      const { redis } = this.#store;
      const hash = this.#keys.apiKeys(account);
      const text = isId('apiKey', id) ? await redis.hget(hash, id) : null;
      if (text === null) return false;
      const record = JSON.parse(text) as ApiKeyRecord;
      const at = nowOf(this.#store);
      const guards = [is('record', ['hget', hash, id], text)];
      if (record.scope === 'admin' && !mayBeLast) {
        const other = await this.#otherAdmin(account, id, at);
        // It holds while this is done, also if other keys are revoked at the same time.
        guards.push(is('other', ['hget', hash, other.id], other.text));
      }
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards,
        writes: [...revocationWrites(this.#keys, account, id), ...scopeWrites(this.#keys, account, 'srem', record)],
        changes: [{ kind: 'api_key', id, record: null }],
        audit: [auditLog({ action: 'api_key.revoked', type: 'api_key', id, details: detailsOf(record) }, actor, at)],
      });
      if (refused !== undefined) return AGAIN;
      await dropIndex(this.#store, record);
      return true;
    });
  }

  async #otherAdmin(account: string, id: string, nowMs: number): Promise<{ id: string; text: string }> {
    for (const text of await this.#store.redis.hvals(this.#keys.apiKeys(account))) {
      const { id: other, scope, expires_at: expiresAt } = JSON.parse(text) as ApiKeyRecord;
      const lives = expiresAt === null || Date.parse(expiresAt) > nowMs;
      if (scope === 'admin' && other !== id && lives) return { id: other, text };
    }
    throw new ServiceError('last_admin_key', 'This is the last admin key of the account; make another before.', {
      recorded: false,
    });
  }

  /** Notes last uses: key id -> epoch ms. In the background; throws ServiceError unavailable. */
  touch(account: string, uses: ReadonlyMap<string, number>): Promise<void> {
    return answering(async () => {
      if (uses.size > 0) await this.#store.redis.hset(this.#keys.apiKeyUses(account), new Map(uses));
    });
  }

  async #record(account: string, record: ApiKeyRecord, actor: Actor, at: number): Promise<void> {
    const hash = this.#keys.apiKeys(account);
    const change = keyCreation(this.#keys, account, record, actor, at);
    try {
      const quota = await countQuotaOf(this.#store, account, 'keys');
      const guards = [...change.guards, below('full', ['hlen', hash], Math.min(API_KEYS_MAX, quota))];
      const { refused } = await commit(this.#store, { ...change, guards });
      if (refused === 'agent') throw invalid([{ path: '/agent_id', message: 'no such agent' }]);
      if (refused !== undefined && quota < API_KEYS_MAX) throw overCount('keys', quota);
      if (refused !== undefined) throw invalid([{ path: '/', message: `an account has at most ${API_KEYS_MAX} keys` }]);
    } catch (error) {
      if (!(error instanceof ServiceError && error.recorded === 'unknown')) await dropIndex(this.#store, record);
      throw error;
    }
  }
}

type NewApiKey = {
  id: string;
  label: string;
  scope: Scope;
  agentId: string | null;
  permissions: Permission[] | null;
  registersAgents?: boolean;
  expiresAtMs: number | null;
};

export function newApiKey(made: NewApiKey, key: string, nowMs: number): ApiKeyRecord {
  const { id, label, scope, agentId, permissions, registersAgents = true, expiresAtMs } = made;
  return {
    id,
    label,
    scope,
    agent_id: agentId,
    permissions,
    ...(registersAgents ? {} : { registers_agents: false }),
    created_at: isoTime(nowMs),
    expires_at: expiresAtMs === null ? null : isoTime(expiresAtMs),
    hint: hintOf(key),
    sha256: sha256Of(key),
  };
}

/** Worthless without the record, so it goes first. */
export async function writeIndex({ redis, keys }: RegistryStore, account: string, record: ApiKeyRecord): Promise<void> {
  await acknowledging(redis).set(keys.apiKeyIndex(record.sha256), `${account}/${record.id}`);
}

/** In the background of a revocation: an index that stays leads nowhere. */
export async function dropIndex({ redis, keys }: RegistryStore, { sha256 }: ApiKeyRecord): Promise<void> {
  await redis.del(keys.apiKeyIndex(sha256)).catch(() => undefined);
}

/** The writes of a revocation, but for the agent's scope. */
export function revocationWrites(keys: Keys, account: string, id: string): CommandArgs[] {
  return [
    ['hdel', keys.apiKeys(account), id],
    ['hdel', keys.apiKeyUses(account), id],
  ];
}

export function keyCreation(keys: Keys, account: string, record: ApiKeyRecord, actor: Actor, at: number): Change {
  const hash = keys.apiKeys(account);
  const { id, agent_id: agent } = record;
  const lives: Change['guards'] = agent === null ? [] : [present('agent', ['get', keys.agent(account, agent)])];
  return {
    account,
    at,
    guards: [absent('id', ['hget', hash, id]), ...lives],
    writes: [['hset', hash, id, JSON.stringify(record)], ...scopeWrites(keys, account, 'sadd', record)],
    changes: [{ kind: 'api_key', id, record }],
    audit: [auditLog({ action: 'api_key.created', type: 'api_key', id, details: detailsOf(record) }, actor, at)],
  };
}

/** The details of the audit entries. With `agent_id` they belong to the agent, and go with it. */
function detailsOf(record: ApiKeyRecord): Record<string, unknown> {
  const { id: _id, agent_id: _agent, created_at: _at, expires_at: _until, hint: _hint, ...rights } = shown(record);
  return { ...rights, ...ofAgent(record.agent_id) };
}

/**
 * The details of the audit entry of a key whose agent is deleted: the account's record that it was revoked, so it does
 * not go with the agent.
 */
export function orphanDetails(record: ApiKeyRecord): Record<string, unknown> {
  const { agent_id: _gone, ...rest } = detailsOf(record);
  return { ...rest, reason: 'agent_deleted' };
}

function scopeWrites(keys: Keys, account: string, command: 'sadd' | 'srem', record: ApiKeyRecord): CommandArgs[] {
  const { id, agent_id: agent } = record;
  return agent === null ? [] : [[command, keys.agentScope(account, agent), id]];
}

/** Without secret fields. */
function shown({ sha256: _sha256, agent_id, permissions, registers_agents, ...record }: ApiKeyRecord) {
  const { id, label, scope, created_at, expires_at, hint } = record;
  const all = permissions ?? [...PERMISSIONS_OF[scope]];
  const kept = registers_agents === false ? { registers_agents } : {};
  return { id, label, scope, agent_id, permissions: all, ...kept, created_at, expires_at, hint };
}

/** The contradictions between scope, agent and permissions. */
function rightsProblems({
  scope,
  agent_id: agent,
  permissions,
  registers_agents: registers,
}: ApiKeyCreate): ErrorDetail[] {
  if (scope === 'admin') {
    const problems: ErrorDetail[] = [];
    if (agent != null)
      problems.push({
        path: '/agent_id',
        message: 'an admin key is bound to no agent, since it could make itself a key that is not; use the scope write',
      });
    if (permissions != null)
      problems.push({ path: '/permissions', message: 'an admin key has all permissions; use the scope write' });
    if (registers === false)
      problems.push({
        path: '/registers_agents',
        message: 'an admin key may make itself any other; use the scope write',
      });
    return problems;
  }
  const problems: ErrorDetail[] = [];
  if (agent != null && !isId('agent', agent)) problems.push({ path: '/agent_id', message: 'no such agent' });
  for (const [i, permission] of (permissions ?? []).entries()) {
    if (PERMISSIONS_OF[scope].includes(permission)) continue;
    problems.push({ path: `/permissions/${i}`, message: `${permission} is more than the scope ${scope} has` });
  }
  return problems;
}

function invalid(details: ErrorDetail[]): ServiceError {
  return validationFailed('The key cannot be made.', details);
}
