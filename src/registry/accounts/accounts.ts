// Accounts: whose everything is. Made by operators, and one, `default`, by the first start.
// A name lies in a slot of its own and is reserved first; the account, its first admin key and the journal entry are
// then one commit. A kill between the two leaves a reserved name without an account, which the next caller of that name
// completes.
// Invariant: a name leads to one account, an account is made once however many processes start at once, and its first
// key's text is known to the one caller that made it.
import type { Account, AdminAccountPatch } from '../../../schemas/account.ts';
import type { AccountStatus } from '../../../schemas/closed-sets.ts';
import type { Hold } from '../../../schemas/hold.ts';
import { NO_QUOTAS, type Quotas } from '../../../schemas/quota.ts';
import type { OwnRetention } from '../../../schemas/retention.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { ID_PREFIXES, isId, mintId } from '../../common/ids.ts';
import { UserFacingError } from '../../common/user-facing-error.ts';
import { acknowledging } from '../../redis/client.ts';
import { REGISTRY_SHARDS } from '../../redis/keys.ts';
import { auditLog, changedFields, SYSTEM, updateDetails } from '../audit.ts';
import { AGAIN, absent, answering, commit, inRounds, is, nowOf, type RegistryStore } from '../commit.ts';
import { type Listed, type Page, pageOf } from '../lists.ts';
import { foundRegistry, presenceOf } from '../recovery/presence.ts';
import { mintApiKey, parseApiKey, sha256Of } from './api-key-text.ts';
import { type ApiKeyRecord, dropIndex, keyCreation, newApiKey, writeIndex } from './api-keys.ts';
import type { Actor } from './principal.ts';

export type AccountRecord = {
  id: string;
  name: string;
  /** Lacking: active. */
  status?: AccountStatus;
  /** Requests per second and burst of each of its keys; null: as the settings say. */
  request_limit: { per_second: number; burst: number } | null;
  /** Seconds for which its agents may be silent; null: the default. */
  agent_down_seconds: number | null;
  /** The quotas of all its keys together; lacking or null: as much as they can. */
  quotas?: Quotas | null;
  /** Lacking or null: as the operator says. */
  retention?: OwnRetention | null;
  /** The data that is kept whatever its age; lacking: none. */
  holds?: Hold[];
  created_at: string;
  updated_at: string;
};

/** The name of the account that every start makes where it is not there. */
export const DEFAULT_NAME = 'default';
const FIRST_KEY_LABEL = 'first admin key';
const BOOTSTRAP_LABEL = 'bootstrap key';
/** The beginning of the ids of bootstrap keys; those of others begin with a time. */
const BOOTSTRAP_IDS = `${ID_PREFIXES.apiKey}${'0'.repeat(10)}`;
const WAS_ENDED =
  'GATEHOUSE_BOOTSTRAP_KEY: this key was ended when a newer one took its place. Give the newer one, or a new one.';
const NOT_A_KEY =
  'GATEHOUSE_BOOTSTRAP_KEY: its value begins as a key of ours (gth_) and is none: a character is missing or changed. ' +
  'Give the whole key, or one of your own that begins otherwise.';

export class Accounts {
  readonly #store: RegistryStore;

  constructor(store: RegistryStore) {
    this.#store = store;
  }

  /** The account of this name, without a key where this call made it. Throws ServiceError unavailable. */
  ensure(name: string, actor: Actor): Promise<{ account: AccountRecord; made: boolean }> {
    return answering(() => this.#make(name, undefined, actor));
  }

  /** Throws ServiceError name_taken, unavailable. */
  create(name: string, actor: Actor): Promise<{ account: AccountRecord; firstKey: string }> {
    return answering(async () => {
      const key = mintApiKey();
      const { account, made } = await this.#make(
        name,
        { id: mintId('apiKey', nowOf(this.#store)), label: FIRST_KEY_LABEL, key },
        actor,
      );
      if (!made) throw new ServiceError('name_taken', 'Another account has this name.', { recorded: false });
      return { account, firstKey: key };
    });
  }

  byName(name: string): Promise<AccountRecord | null> {
    return answering(async () => {
      const id = await this.#store.redis.hget(this.#store.keys.accountNames(), name);
      return id === null ? null : this.#get(id);
    });
  }

  /** By its id or its name. */
  find(nameOrId: string): Promise<AccountRecord | null> {
    return isId('account', nameOrId) ? answering(() => this.#get(nameOrId)) : this.byName(nameOrId);
  }

  /** By name. */
  list(): Promise<AccountRecord[]> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const shards = keys.ofShards(keys.accounts).map((hash) => redis.hvals(hash));
      const accounts = (await Promise.all(shards)).flat().map((text) => JSON.parse(text) as AccountRecord);
      return accounts.sort((a, b) => (a.name < b.name ? -1 : 1));
    });
  }

  /** Ids of at most `max` accounts, whichever. Throws ServiceError unavailable. */
  someIds(max: number): Promise<string[]> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const ids: string[] = [];
      for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
        let cursor = '0';
        do {
          if (ids.length >= max) return ids.slice(0, max);
          const [next, found] = await redis.hscan(keys.accounts(shard), cursor, 'COUNT', max);
          for (let i = 0; i < found.length; i += 2) ids.push(found[i]!);
          cursor = next;
        } while (cursor !== '0');
      }
      return ids.slice(0, max);
    });
  }

  /**
   * Makes the account `default` if it is not there; `key` is its first admin key, if this call made it.
   * A bootstrap key, also a later one, is made an admin key of the account instead, and ends the one that was there
   * before; it must be one that `parseApiKey` takes. Throws UserFacingError for one that was ended so.
   */
  ensureDefault(bootstrapKey?: string): Promise<{ account: string; key?: string }> {
    return answering(async () => {
      if (bootstrapKey === undefined) {
        const key = mintApiKey();
        const first = { id: mintId('apiKey', nowOf(this.#store)), label: FIRST_KEY_LABEL, key };
        const { account, made } = await this.#make(DEFAULT_NAME, first, SYSTEM);
        return made ? { account: account.id, key } : { account: account.id };
      }
      if (parseApiKey(bootstrapKey) === null) throw new UserFacingError(NOT_A_KEY);
      const first = { id: bootstrapId(bootstrapKey), label: BOOTSTRAP_LABEL, key: bootstrapKey };
      const { account, made } = await this.#make(DEFAULT_NAME, first, SYSTEM);
      if (!made) await this.#addKey(account.id, first);
      await this.#endFormerBootstrapKeys(account.id, first.id);
      return { account: account.id };
    });
  }

  /** null: no such account. */
  async get(id: string): Promise<Account | null> {
    const record = isId('account', id) ? await this.find(id) : null;
    return record === null ? null : shown(record);
  }

  /** Newest first. */
  async page(page: Page): Promise<Listed<Account>> {
    return pageOf((await this.list()).map(shown), page);
  }

  /** How many keys and agents there are. */
  counts(id: string): Promise<{ keys: number; agents: number }> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const [own, agents] = await Promise.all([redis.hlen(keys.apiKeys(id)), redis.zcard(keys.agentIds(id, 'all'))]);
      return { keys: own, agents };
    });
  }

  /** Its days are checked before, and who may set what. null: no such account. */
  async patch(id: string, body: AdminAccountPatch, actor: Actor): Promise<Account | null> {
    const { retention, quotas, ...rest } = body;
    const own = retention && { days: retention.days ?? null, days_by_type: retention.days_by_type ?? {} };
    const fields = { ...rest, ...(own !== undefined && { retention: own }) };
    const after = await this.#change(
      id,
      (before) => ({
        ...fields,
        ...(quotas !== undefined && { quotas: quotas && { ...NO_QUOTAS, ...before.quotas, ...quotas } }),
      }),
      actor,
    );
    return after === null ? null : shown(after);
  }

  /** null: no such account. */
  setRequestLimit(id: string, limit: AccountRecord['request_limit'], actor: Actor): Promise<AccountRecord | null> {
    return this.#change(id, () => ({ request_limit: limit }), actor);
  }

  /** null: no such account. */
  setQuotas(id: string, quotas: Quotas | null, actor: Actor): Promise<AccountRecord | null> {
    return this.#change(id, () => ({ quotas }), actor);
  }

  #change(
    id: string,
    fieldsOf: (before: AccountRecord) => Partial<AccountRecord>,
    actor: Actor,
  ): Promise<AccountRecord | null> {
    return inRounds(async () => {
      const { keys, redis } = this.#store;
      const hash = keys.accounts(keys.shardOf(id));
      const text = isId('account', id) ? await redis.hget(hash, id) : null;
      if (text === null) return null;
      const before = JSON.parse(text) as AccountRecord;
      const after: AccountRecord = { ...before, ...fieldsOf(before) };
      const [old, fresh] = [shown(before), shown(after)];
      if (changedFields(old, fresh).length === 0) return before;
      const at = nowOf(this.#store);
      after.updated_at = isoTime(at);
      const details = updateDetails(old, fresh);
      const { refused } = await commit(this.#store, {
        account: id,
        at,
        guards: [is('record', ['hget', hash, id], text)],
        writes: [['hset', hash, id, JSON.stringify(after)]],
        changes: [{ kind: 'account', id, record: after }],
        audit: [auditLog({ action: 'account.updated', type: 'account', id, details }, actor, at)],
      });
      return refused === undefined ? after : AGAIN;
    });
  }

  async #get(id: string): Promise<AccountRecord | null> {
    const { keys, redis } = this.#store;
    const text = await redis.hget(keys.accounts(keys.shardOf(id)), id);
    return text === null ? null : (JSON.parse(text) as AccountRecord);
  }

  /** `made`: by this very call, with this first key; undefined: with none. */
  async #make(
    name: string,
    first: FirstKey | undefined,
    actor: Actor,
  ): Promise<{ account: AccountRecord; made: boolean }> {
    const { keys } = this.#store;
    // A service that may have lost its registry is refused before this (composition/clients.ts).
    if ((await presenceOf(this.#store)).state !== 'there') await foundRegistry(this.#store);
    const id = await this.#reserve(name);
    const existing = await this.#get(id);
    if (existing !== null) return { account: existing, made: false };
    const at = nowOf(this.#store);
    const account: AccountRecord = {
      ...{ id, name, request_limit: null, agent_down_seconds: null },
      ...{ created_at: isoTime(at), updated_at: isoTime(at) },
    };
    const record = first && adminKey(first, at);
    if (record !== undefined) await writeIndex(this.#store, id, record);
    const creation = record && keyCreation(keys, id, record, actor, at);
    const hash = keys.accounts(keys.shardOf(id));
    const { refused } = await commit(this.#store, {
      ...{ account: id, at },
      guards: [absent('account', ['hget', hash, id]), ...(creation?.guards ?? [])],
      writes: [['hset', hash, id, JSON.stringify(account)], ...(creation?.writes ?? [])],
      changes: [{ kind: 'account', id, record: account }, ...(creation?.changes ?? [])],
      audit: [
        auditLog({ action: 'account.created', type: 'account', id, details: { name } }, actor, at),
        ...(creation?.audit ?? []),
      ],
    });
    if (refused === undefined) return { account, made: true };
    // A bootstrap key's index is the same for all who try; only one of our own making is of no more use.
    if (record !== undefined && first?.label !== BOOTSTRAP_LABEL) await dropIndex(this.#store, record);
    return { account: (await this.#get(id))!, made: false };
  }

  /** The id that the name leads to, from now on forever. */
  async #reserve(name: string): Promise<string> {
    const { redis, keys } = this.#store;
    const id = await redis.hget(keys.accountNames(), name);
    if (id !== null) return id;
    await acknowledging(redis).hsetnx(keys.accountNames(), name, mintId('account', nowOf(this.#store)));
    return (await redis.hget(keys.accountNames(), name))!;
  }

  async #addKey(account: string, first: FirstKey): Promise<void> {
    const { redis, keys } = this.#store;
    const at = nowOf(this.#store);
    const text = await redis.hget(keys.apiKeys(account), first.id);
    if (text !== null && !hasEnded(JSON.parse(text) as ApiKeyRecord, at)) return;
    if (text !== null) throw new UserFacingError(WAS_ENDED);
    const record = adminKey(first, at);
    await writeIndex(this.#store, account, record);
    // Refused: another process added the very same key.
    await commit(this.#store, keyCreation(keys, account, record, SYSTEM, at));
  }

  /**
   * By the start that has a newer one. Their records stay, expired: a process that starts with the old key once more
   * must not bring it back. A key is ended by a younger one alone, so two starts cannot end each other's.
   */
  async #endFormerBootstrapKeys(account: string, own: string): Promise<void> {
    const { redis, keys } = this.#store;
    const hash = keys.apiKeys(account);
    const all = Object.entries(await redis.hgetall(hash)).map(([id, text]) => ({
      ...{ id, text, record: JSON.parse(text) as ApiKeyRecord },
    }));
    const since = all.find(({ id }) => id === own)?.record.created_at ?? '';
    for (const { id, text, record } of all) {
      const at = nowOf(this.#store);
      if (!id.startsWith(BOOTSTRAP_IDS) || record.created_at >= since || hasEnded(record, at)) continue;
      const ended = { ...record, expires_at: isoTime(at) };
      const details = { label: record.label, reason: 'bootstrap_key_replaced' };
      // Refused: another start, or an admin, was faster.
      const { refused } = await commit(this.#store, {
        ...{ account, at, guards: [is('record', ['hget', hash, id], text)] },
        writes: [['hset', hash, id, JSON.stringify(ended)]],
        changes: [{ kind: 'api_key', id, record: ended }],
        audit: [auditLog({ action: 'api_key.revoked', type: 'api_key', id, details }, SYSTEM, at)],
      });
      if (refused === undefined) await dropIndex(this.#store, record);
    }
  }
}

type FirstKey = { id: string; label: string; key: string };

function adminKey({ id, label, key }: FirstKey, at: number): ApiKeyRecord {
  return newApiKey({ id, label, scope: 'admin', agentId: null, permissions: null, expiresAtMs: null }, key, at);
}

/**
 * Made of the key, so that all processes that start with it mean the same record. 16 characters of hex are 64 bits of
 * it.
 */
function bootstrapId(key: string): string {
  return `${BOOTSTRAP_IDS}${sha256Of(key).slice(0, 16)}`;
}

function hasEnded({ expires_at: until }: ApiKeyRecord, nowMs: number): boolean {
  return until !== null && Date.parse(until) <= nowMs;
}

/** As the API and the audit log show it: the limit's numbers are fields of their own. */
function shown(record: AccountRecord): Account {
  const { id, name, request_limit, agent_down_seconds, quotas, retention, created_at, updated_at } = record;
  return {
    id,
    name,
    status: record.status ?? 'active',
    agent_down_seconds,
    requests_per_second: request_limit?.per_second ?? null,
    requests_burst: request_limit?.burst ?? null,
    quotas: { ...NO_QUOTAS, ...quotas },
    retention: retention ?? null,
    created_at,
    updated_at,
  };
}
