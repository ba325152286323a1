// Browsers that are signed in: made, listed, ended (docs/keys.md). A session is its key by another name: every call
// with it goes through the key's own record (cache.ts), so what ends or confines the key does the same to its sessions,
// at once. Like a key a session lies in two slots: an index from its hash to `<account>/<session id>`, written first
// and worthless alone, and with its account the record, which is the truth. Only the SHA-256 of what the cookie holds
// is kept.
// Invariant: at most SESSIONS_A_KEY_MAX of a key; expired ones are removed at the next sign-in. Sessions
// are not in the journal's registry: a Redis that was restored has none, and people sign in again.
import { createHash, randomBytes } from 'node:crypto';
import type { ListedSession, Session } from '../../../schemas/session.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId, mintId } from '../../common/ids.ts';
import { SESSION_IDLE_MS, SESSION_MS_MAX, SESSIONS_A_KEY_MAX } from '../../common/limits.ts';
import { auditLog } from '../audit.ts';
import { AGAIN, answering, type CommandArgs, commit, inRounds, is, nowOf, type RegistryStore } from '../commit.ts';
import { type Listed, type Page, pageOf } from '../lists.ts';
import type { AccountRecord } from './accounts.ts';
import type { ApiKeyRecord } from './api-keys.ts';
import type { Actor, Principal } from './principal.ts';

/** As kept. */
export type SessionRecord = {
  id: string;
  key_id: string;
  sha256: string;
  created_at: string;
  /** At the latest. */
  expires_at: string;
  ip: string;
  user_agent: string;
};

/** `secret`: for the cookie, and nowhere kept. `expiresAt`: of the cookie as well. */
type SignedUp = { session: Session; secret: string; expiresAt: string };

const SECRET = /^[A-Za-z0-9_-]{43}$/;
const USER_AGENT_CHARACTERS_MAX = 300;

/** SHA-256 in hex of what a cookie holds. null: no session has such a secret. */
export function sessionHashOf(secret: string): string | null {
  return SECRET.test(secret) ? createHash('sha256').update(secret).digest('hex') : null;
}

export class Sessions {
  readonly #store: RegistryStore;

  constructor(store: RegistryStore) {
    this.#store = store;
  }

  /** Throws ServiceError invalid_token where the key was revoked meanwhile, unavailable. */
  create(principal: Principal, actor: Actor): Promise<SignedUp> {
    return inRounds(async () => {
      const { account, keyId } = principal;
      const { keys, redis } = this.#store;
      const at = nowOf(this.#store);
      const keyText = await redis.hget(keys.apiKeys(account), keyId);
      if (keyText === null) throw new ServiceError('invalid_token', 'The key was revoked.');
      const secret = randomBytes(32).toString('base64url');
      const record = recordOf(keyId, { secret, at, keyEndsMs: principal.expiresAtMs, actor });
      const gone = await this.#ended(account, keyId, at);
      await redis.set(keys.sessionIndex(record.sha256), `${account}/${record.id}`, 'PX', SESSION_MS_MAX);
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards: [is('key', ['hget', keys.apiKeys(account), keyId], keyText)],
        writes: [
          ['hset', keys.sessions(account), record.id, JSON.stringify(record)],
          ['hset', keys.sessionUses(account), record.id, at],
          ...gone.flatMap((id) => this.#removal(account, id)),
        ],
        changes: [],
        audit: [auditLog({ action: 'session.created', type: 'session', id: record.id }, actor, at)],
      });
      if (refused !== undefined) return AGAIN;
      return { session: await this.#shown(principal, record), secret, expiresAt: record.expires_at };
    });
  }

  /** Who calls, by a session or by a key alone. */
  async of(principal: Principal): Promise<Session> {
    return answering(async () => {
      const { account, sessionId, expiresAtMs } = principal;
      const { redis, keys } = this.#store;
      const text = sessionId === null ? null : await redis.hget(keys.sessions(account), sessionId);
      if (text !== null) return this.#shown(principal, JSON.parse(text) as SessionRecord);
      const expires_at = expiresAtMs === null ? null : isoTime(expiresAtMs);
      return this.#shown(principal, { id: null, created_at: null, expires_at });
    });
  }

  /** Newest first; those that have ended by time, or with their key, are none. */
  list(account: string, page: Page): Promise<Listed<ListedSession>> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const [texts, uses, keyTexts] = await Promise.all([
        redis.hvals(keys.sessions(account)),
        redis.hgetall(keys.sessionUses(account)),
        redis.hvals(keys.apiKeys(account)),
      ]);
      const keysById = new Map(keyTexts.map((text) => JSON.parse(text) as ApiKeyRecord).map((key) => [key.id, key]));
      const nowMs = nowOf(this.#store);
      const listed = texts.flatMap((text): ListedSession[] => {
        const { id, key_id, created_at, expires_at, ip, user_agent } = JSON.parse(text) as SessionRecord;
        const key = keysById.get(key_id);
        const usedMs = Number(uses[id] ?? Date.parse(created_at));
        if (key === undefined || hasEnded(expires_at, usedMs, nowMs)) return [];
        const { label: key_label, scope } = key;
        return [
          { id, key_id, key_label, scope, created_at, last_used_at: isoTime(usedMs), expires_at, ip, user_agent },
        ];
      });
      return pageOf(listed, page);
    });
  }

  /** false: no such session. Throws ServiceError unavailable. */
  end(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const { redis, keys } = this.#store;
      const text = isId('session', id) ? await redis.hget(keys.sessions(account), id) : null;
      if (text === null) return false;
      const at = nowOf(this.#store);
      const { sha256, key_id } = JSON.parse(text) as SessionRecord;
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards: [is('session', ['hget', keys.sessions(account), id], text)],
        writes: this.#removal(account, id),
        changes: [],
        audit: [auditLog({ action: 'session.ended', type: 'session', id, details: { key_id } }, actor, at)],
      });
      if (refused !== undefined) return AGAIN;
      await redis.del(keys.sessionIndex(sha256)).catch(() => undefined);
      return true;
    });
  }

  /** Notes last uses: session id -> epoch ms. In the background; throws ServiceError unavailable. */
  touch(account: string, uses: ReadonlyMap<string, number>): Promise<void> {
    return answering(async () => {
      if (uses.size > 0) await this.#store.redis.hset(this.#store.keys.sessionUses(account), new Map(uses));
    });
  }

  /**
   * Finds the account's sessions that have ended: those that are over by time, what is left of others, and the oldest
   * of this key where it has as many as it may.
   */
  async #ended(account: string, keyId: string, nowMs: number): Promise<string[]> {
    const { redis, keys } = this.#store;
    const [texts, uses] = await Promise.all([
      redis.hvals(keys.sessions(account)),
      redis.hgetall(keys.sessionUses(account)),
    ]);
    const records = texts.map((text) => JSON.parse(text) as SessionRecord);
    const isOver = ({ id, expires_at, created_at }: SessionRecord) =>
      hasEnded(expires_at, Number(uses[id] ?? Date.parse(created_at)), nowMs);
    const over = records.filter(isOver).map(({ id }) => id);
    const own = records.filter((record) => record.key_id === keyId && !isOver(record)).map(({ id }) => id);
    // A use that was noted as its session ended.
    const known = new Set(records.map(({ id }) => id));
    const left = Object.keys(uses).filter((id) => !known.has(id));
    return [...over, ...left, ...own.sort().slice(0, Math.max(0, own.length - SESSIONS_A_KEY_MAX + 1))];
  }

  #removal(account: string, id: string): CommandArgs[] {
    const { keys } = this.#store;
    return [
      ['hdel', keys.sessions(account), id],
      ['hdel', keys.sessionUses(account), id],
    ];
  }

  async #shown(principal: Principal, record: Pick<Session, 'id' | 'created_at' | 'expires_at'>): Promise<Session> {
    const { account, keyId, scope, permissions, agentId } = principal;
    const { redis, keys } = this.#store;
    const [accountText, keyText] = await Promise.all([
      redis.hget(keys.accounts(keys.shardOf(account)), account),
      redis.hget(keys.apiKeys(account), keyId),
    ]);
    return {
      id: record.id,
      account_id: account,
      account_name: accountText === null ? '' : (JSON.parse(accountText) as AccountRecord).name,
      key_id: keyId,
      key_label: keyText === null ? '' : (JSON.parse(keyText) as ApiKeyRecord).label,
      scope,
      permissions: [...permissions],
      agent_id: agentId,
      created_at: record.created_at,
      expires_at: record.expires_at,
    };
  }
}

function recordOf(
  keyId: string,
  { secret, at, keyEndsMs, actor }: { secret: string; at: number; keyEndsMs: number | null; actor: Actor },
): SessionRecord {
  return {
    id: mintId('session', at),
    key_id: keyId,
    sha256: sessionHashOf(secret)!,
    created_at: isoTime(at),
    expires_at: isoTime(Math.min(at + SESSION_MS_MAX, keyEndsMs ?? Number.POSITIVE_INFINITY)),
    ip: actor.ip ?? '',
    user_agent: (actor.userAgent ?? '').slice(0, USER_AGENT_CHARACTERS_MAX),
  };
}

function hasEnded(expiresAt: string, usedMs: number, nowMs: number): boolean {
  return Date.parse(expiresAt) <= nowMs || usedMs + SESSION_IDLE_MS <= nowMs;
}
