// API keys as resources (decisions 3): made, listed, revoked. What their text looks like: api-key-text.ts.
// A key lies in two slots: an index from its hash to `<account>/<key id>`, and with its account the record, which is the truth.
// Order of a creation: index, then the record with its journal entry. Order of a revocation: the record with its journal
// entry, then the index. So a kill in between leaves an index that leads nowhere, and never a key that works unrecorded.
// Invariant: only the SHA-256 of a key is kept; its text is in the answer that created it and nowhere else.
import type { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../schemas/api-key.ts';
import type { Scope } from '../../schemas/common.ts';
import { isoTime, parseTime } from '../../schemas/time.ts';
import { ServiceError } from '../errors.ts';
import { isId, mintId } from '../ids.ts';
import { API_KEYS_MAX } from '../limits.ts';
import type { Keys } from '../redis/keys.ts';
import { validationFailed } from '../validation.ts';
import { hintOf, mintApiKey, sha256Of } from './api-key-text.ts';
import { auditLog } from './audit.ts';
import { AGAIN, absent, answering, below, type Change, commit, inRounds, is, type RegistryStore } from './commit.ts';
import { type Listed, type Page, pageOf } from './lists.ts';
import type { Actor } from './principal.ts';

/** As kept. */
export type ApiKeyRecord = {
  id: string;
  label: string;
  scope: Scope;
  created_at: string;
  expires_at: string | null;
  hint: string;
  sha256: string;
};

export class ApiKeys {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #now: () => number;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
    this.#now = store.now ?? Date.now;
  }

  /** Throws ServiceError validation_failed, unavailable. */
  create(account: string, body: ApiKeyCreate, actor: Actor): Promise<ApiKeyCreated> {
    return answering(async () => {
      const at = this.#now();
      const expiresAtMs = typeof body.expires_at === 'string' ? parseTime(body.expires_at) : null;
      if (expiresAtMs !== null && expiresAtMs <= at) throw invalid('/expires_at', 'must be in the future');
      const key = mintApiKey();
      const record = newApiKey(
        { id: mintId('apiKey', at), label: body.label, scope: body.scope, expiresAtMs },
        key,
        at,
      );
      await writeIndex(this.#store, account, record);
      await this.#record(account, record, actor, at);
      const { sha256: _sha256, hint: _hint, ...shown } = record;
      return { ...shown, key };
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
        const { sha256: _sha256, hint, ...shown } = JSON.parse(text) as ApiKeyRecord;
        const usedAt = uses[shown.id];
        return { ...shown, last_used_at: usedAt === undefined ? null : isoTime(Number(usedAt)), hint };
      });
      return pageOf(listed, page);
    });
  }

  /** false: no such key. */
  revoke(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const { redis } = this.#store;
      const hash = this.#keys.apiKeys(account);
      const text = isId('apiKey', id) ? await redis.hget(hash, id) : null;
      if (text === null) return false;
      const { label, scope, sha256 } = JSON.parse(text) as ApiKeyRecord;
      const at = this.#now();
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards: [is('record', ['hget', hash, id], text)],
        writes: [
          ['hdel', hash, id],
          ['hdel', this.#keys.apiKeyUses(account), id],
        ],
        changes: [{ kind: 'api_key', id, record: null }],
        audit: [auditLog({ action: 'api_key.revoked', type: 'api_key', id, details: { label, scope } }, actor, at)],
      });
      if (refused !== undefined) return AGAIN;
      await redis.del(this.#keys.apiKeyIndex(sha256)).catch(() => undefined);
      return true;
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
      const guards = [...change.guards, below('full', ['hlen', hash], API_KEYS_MAX)];
      const { refused } = await commit(this.#store, { ...change, guards });
      if (refused !== undefined) throw invalid('/', `an account has at most ${API_KEYS_MAX} keys`);
    } catch (error) {
      if (!(error instanceof ServiceError && error.recorded === 'unknown')) {
        await this.#store.redis.del(this.#keys.apiKeyIndex(record.sha256)).catch(() => undefined);
      }
      throw error;
    }
  }
}

export type NewApiKey = { id: string; label: string; scope: Scope; expiresAtMs: number | null };

export function newApiKey({ id, label, scope, expiresAtMs }: NewApiKey, key: string, nowMs: number): ApiKeyRecord {
  return {
    id,
    label,
    scope,
    created_at: isoTime(nowMs),
    expires_at: expiresAtMs === null ? null : isoTime(expiresAtMs),
    hint: hintOf(key),
    sha256: sha256Of(key),
  };
}

/** Worthless without the record, so it goes first. */
export async function writeIndex({ redis, keys }: RegistryStore, account: string, record: ApiKeyRecord): Promise<void> {
  await redis.set(keys.apiKeyIndex(record.sha256), `${account}/${record.id}`);
}

export function keyCreation(keys: Keys, account: string, record: ApiKeyRecord, actor: Actor, at: number): Change {
  const hash = keys.apiKeys(account);
  const { id, label, scope } = record;
  return {
    account,
    at,
    guards: [absent('id', ['hget', hash, id])],
    writes: [['hset', hash, id, JSON.stringify(record)]],
    changes: [{ kind: 'api_key', id, record }],
    audit: [auditLog({ action: 'api_key.created', type: 'api_key', id, details: { label, scope } }, actor, at)],
  };
}

function invalid(path: string, message: string): ServiceError {
  return validationFailed('The key cannot be made.', [{ path, message }]);
}
