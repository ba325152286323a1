// Who is calling, and may they (key -> principal, rights, request limit; 401, 403, 429).
// Keys are looked up by their hash in the cache that Redis invalidates; most requests are settled without waiting.
// Invariant: a missing, malformed, unknown, expired or revoked key gets the very same answer, so the answer does not
// apart, and so does a session that has ended in whatever way;
// what a route needs and a key does not have is refused, and the answer names it. Whose things a key that is bound to
// an agent may touch is inspected where they are known: request.ts, admission.ts.
// Redis away and the key not cached: 503, no caller is admitted unchecked.
import type { Permission } from '../../../schemas/closed-sets.ts';
import { ServiceError } from '../../common/errors.ts';
import { KEY_CACHE_MAX, SESSION_IDLE_MS } from '../../common/limits.ts';
import { remember } from '../../common/maps.ts';
import { parseApiKey } from '../../registry/accounts/api-key-text.ts';
import { type Principal, RIGHTS } from '../../registry/accounts/principal.ts';
import type { Refused, RequestLimiter } from '../../registry/accounts/request-limit.ts';
import { sessionHashOf } from '../../registry/accounts/sessions.ts';
import type { RegistryCache } from '../../registry/cache/cache.ts';
import type { Need } from '../route-needs.ts';

/**
 * Hashing a key costs 4 µs, a quarter of what a bare request costs. So the hash of a key that was let in is remembered
 * under the header it came in, in this process's memory alone; whether the key is still good is asked of the cache
 * every time.
 */
export type KnownCaller = Pick<RegistryCache, 'principal' | 'session' | 'sessionUse'>;

export class Authenticator {
  readonly #cache: KnownCaller;
  readonly #hashes = new Map<string, string>();

  constructor(cache: KnownCaller) {
    this.#cache = cache;
  }

  /** A plain value where the cache knows the key. Throws or rejects with `invalid_token`, or `unavailable`. */
  principalOf(authorization: string, nowMs: number): Principal | Promise<Principal> {
    const sha256 = this.#hashes.get(authorization) ?? hashOf(authorization);
    if (sha256 === undefined) throw invalidToken();
    const found = this.#cache.principal(sha256);
    if (found instanceof Promise)
      return found.then((principal) => this.#valid(principal, { authorization, sha256, nowMs }));
    return this.#valid(found, { authorization, sha256, nowMs });
  }

  /**
   * Finds the principal of the secret in a session's cookie. `isUse`: false where it is only asked whether the session
   * goes on, which keeps none from ending. Rejects with `invalid_token`, or `unavailable`.
   */
  async ofSession(secret: string, nowMs: number, { isUse = true } = {}): Promise<Principal> {
    const sha256 = sessionHashOf(secret);
    const found = sha256 === null ? null : await this.#cache.session(sha256);
    if (found === null || found.principal.expiresAtMs! <= nowMs) throw sessionEnded();
    const { principal } = found;
    // Another front may have seen it meanwhile.
    if (found.usedMs + SESSION_IDLE_MS <= nowMs)
      found.usedMs = await this.#cache.sessionUse(principal.account, principal.sessionId!);
    if (found.usedMs + SESSION_IDLE_MS <= nowMs) throw sessionEnded();
    if (isUse) found.usedMs = nowMs;
    return principal;
  }

  #valid(principal: Principal | null, asked: { authorization: string; sha256: string; nowMs: number }): Principal {
    if (principal === null || (principal.expiresAtMs !== null && principal.expiresAtMs <= asked.nowMs)) {
      this.#hashes.delete(asked.authorization);
      throw invalidToken();
    }
    if (!this.#hashes.has(asked.authorization))
      remember(this.#hashes, asked.authorization, asked.sha256, KEY_CACHE_MAX);
    return principal;
  }
}

type Needs = { needs: Need | 'operator' | null; besides?: Permission | undefined };

/** The rights that a key must have to come in here: the sum of RIGHTS, made once for a route. */
export function rightsFor({ needs, besides, bound }: Needs & { bound?: unknown }): number {
  const own = needs === null || needs === 'any' || needs === 'operator' ? 0 : RIGHTS[needs];
  return (
    RIGHTS.active | own | (besides === undefined ? 0 : RIGHTS[besides]) | (bound === 'refused' ? RIGHTS.account : 0)
  );
}

/** `rights`: `rightsFor` the route. Throws ServiceError account_suspended, insufficient_scope. */
export function authorize(principal: Principal, rights: number, route: Needs): void {
  if ((principal.rights & rights) === rights) return;
  if ((principal.rights & RIGHTS.active) === 0) throw new ServiceError('account_suspended', SUSPENDED);
  throw new ServiceError('insufficient_scope', whatIsMissing(principal, rights & ~principal.rights, route));
}

function whatIsMissing({ scope, permissions, agentId }: Principal, missing: number, { needs, besides }: Needs) {
  if ((missing & RIGHTS.admin) !== 0) return `This needs a key with the scope admin; this one has ${scope}.`;
  if ((missing & RIGHTS.account) === missing)
    return `This concerns the whole account; this key is bound to the agent ${agentId}.`;
  const permission = besides !== undefined && (missing & ~RIGHTS.account) === RIGHTS[besides] ? besides : needs;
  return `This needs the permission ${permission}; this key has the scope ${scope} with ${permissions.join(', ')}.`;
}

const SUSPENDED =
  'The account is suspended by those who run the service: no call with a key of it is taken until they let it in again.';

/** undefined: continue. */
export function admit(limiter: Pick<RequestLimiter, 'admit'>, principal: Principal): undefined | Promise<void> {
  const verdict = limiter.admit(principal);
  if (verdict === true) return undefined;
  if (verdict instanceof Promise) return verdict.then(within);
  within(verdict);
  return undefined;
}

function within(verdict: true | Refused): void {
  if (verdict === true) return;
  const { limit, retryAfterSeconds } = verdict;
  const { perSecond, burst } = limit;
  const message = `The request limit of this key is reached: ${perSecond} a second, ${burst} at once. "gatehouse account limit" changes it.`;
  throw new ServiceError('rate_limited', message, { retryAfterSeconds, rateLimit: limit, recorded: false });
}

/** The scheme in any case, one or more spaces, and the key. undefined: no key can look like this. */
function hashOf(authorization: string): string | undefined {
  const key = bearerOf(authorization);
  return key === undefined ? undefined : parseApiKey(key)?.sha256;
}

export function bearerOf(authorization: string): string | undefined {
  // Claude Code's exporter sends what OTEL_EXPORTER_OTLP_HEADERS has as it stands, where others decode the %20.
  return /^bearer(?: +|%20)(\S+)$/i.exec(authorization)?.[1];
}

function sessionEnded(): ServiceError {
  return new ServiceError('invalid_token', 'This session has ended: sign in again.');
}

export function invalidToken(): ServiceError {
  return new ServiceError('invalid_token', 'The API key is missing, malformed, unknown, expired or revoked.');
}
