// The request limit of a key (after the scope, before the body): a token bucket held in Redis.
// A process leases tokens in blocks, so that a request with tokens at hand needs no trip and no wait.
// Bound: in any window of s seconds, N processes together let through at most  burst + s * rate + N * block,  where
// block = rate / 20, at least 1, at most 500 (and never more than the burst): a leased block counts when it is leased
// and may be used up to LEASE_MS later. At 1000/s and 4 processes that is 200 requests, a fifth of a second's worth.
// In the other direction unused tokens are lost with their lease: a process wastes at most one block a second.
// Invariant: nothing is let through without a token from Redis. Redis away: ServiceError `unavailable`.

import { notRecorded } from '../../common/errors.ts';
import { KEY_CACHE_MAX } from '../../common/limits.ts';
import { type Commands, RedisUnavailable, troubleOf } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { gcra } from './gcra.ts';
import type { Principal, RequestLimit } from './principal.ts';

/** The parts of a principal by which its requests are limited. */
export type Limited = Pick<Principal, 'account' | 'keyId' | 'requestLimit'>;
export type Refused = { retryAfterSeconds: number; limit: RequestLimit };

/** Unused tokens are given up after this long. */
const LEASE_MS = 1_000;
const BLOCKS_PER_SECOND = 20;
const BLOCK_MAX = 500;

type Waiter = { resolve: (verdict: true | Refused) => void; reject: (error: unknown) => void };

/** One key's state in this process. Times are by `performance.now()`: leases must not follow a clock that is set. */
class Lease {
  readonly key: string;
  readonly account: string;
  tokens = 0;
  expiresAt = 0;
  /** Until then Redis has said there are none. */
  refusedUntil = 0;
  asking = false;
  readonly waiting: Waiter[] = [];

  constructor(account: string, key: string) {
    this.account = account;
    this.key = key;
  }
}

export class RequestLimiter {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #limit: RequestLimit;
  readonly #onRefused: (account: string, key: string) => void;
  /** Least recently made first; bounded. */
  readonly #leases = new Map<string, Lease>();

  /**
   * `limit`: of keys whose account has none of its own. `onRefused`: called for each refusal, so it must cost next to
   * nothing.
   */
  constructor(options: {
    redis: Commands;
    keys: Keys;
    limit: RequestLimit;
    onRefused?: (account: string, key: string) => void;
  }) {
    this.#onRefused = options.onRefused ?? (() => undefined);
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#limit = options.limit;
  }

  /** A plain `true` while the process holds tokens. Rejects with ServiceError unavailable. */
  admit(principal: Limited): true | Refused | Promise<true | Refused> {
    const lease = this.#lease(principal);
    const now = performance.now();
    if (lease.tokens > 0 && now < lease.expiresAt && lease.waiting.length === 0) {
      lease.tokens--;
      return true;
    }
    if (now < lease.refusedUntil) return this.#refuse(lease, this.limitOf(principal), lease.refusedUntil - now);
    return new Promise((resolve, reject) => {
      lease.waiting.push({ resolve, reject });
      if (!lease.asking) void this.#ask(lease, this.limitOf(principal));
    });
  }

  /** In force for a key: its account's own, or that of the settings. */
  limitOf({ requestLimit }: Pick<Limited, 'requestLimit'>): RequestLimit {
    return requestLimit ?? this.#limit;
  }

  #lease({ account, keyId }: Limited): Lease {
    let lease = this.#leases.get(keyId);
    if (lease === undefined) {
      if (this.#leases.size >= KEY_CACHE_MAX) this.#forgetOne();
      lease = new Lease(account, keyId);
      this.#leases.set(keyId, lease);
    }
    return lease;
  }

  /** A lease that is being asked for has callers that wait on it. */
  #forgetOne(): void {
    for (const [key, lease] of this.#leases) {
      if (lease.asking) continue;
      this.#leases.delete(key);
      return;
    }
  }

  /** One trip for all who wait; those who came meanwhile, and get nothing from it, have the next. */
  async #ask(lease: Lease, limit: RequestLimit): Promise<void> {
    lease.asking = true;
    const wanted = Math.min(Math.max(lease.waiting.length, blockOf(limit)), limit.burst);
    try {
      const state = this.#keys.requestLimit(lease.account, lease.key);
      const [taken, untilNextUs] = await gcra.run(this.#redis, [state], [limit.perSecond, limit.burst, wanted]);
      this.#share(lease, { limit, taken, emptyForMs: taken < wanted ? untilNextUs / 1000 : undefined });
    } catch (error) {
      const refused = error instanceof RedisUnavailable ? notRecorded(troubleOf(error), error) : error;
      for (const waiter of lease.waiting.splice(0)) waiter.reject(refused);
    } finally {
      lease.asking = false;
    }
    if (lease.waiting.length > 0) await this.#ask(lease, limit);
  }

  /** `emptyForMs`: the bucket has no more, for so long. */
  #share(
    lease: Lease,
    { limit, taken: granted, emptyForMs }: { limit: RequestLimit; taken: number; emptyForMs: number | undefined },
  ): void {
    let taken = granted;
    const now = performance.now();
    for (const waiter of lease.waiting.splice(0, taken)) {
      taken--;
      waiter.resolve(true);
    }
    lease.tokens = taken;
    lease.expiresAt = now + LEASE_MS;
    if (emptyForMs === undefined) return;
    lease.refusedUntil = now + emptyForMs;
    for (const waiter of lease.waiting.splice(0)) waiter.resolve(this.#refuse(lease, limit, emptyForMs));
  }

  #refuse({ account, key }: Lease, limit: RequestLimit, ms: number): Refused {
    this.#onRefused(account, key);
    return { retryAfterSeconds: Math.max(1, Math.ceil(ms / 1000)), limit };
  }
}

function blockOf({ perSecond, burst }: RequestLimit): number {
  return Math.max(1, Math.min(Math.floor(perSecond / BLOCKS_PER_SECOND), BLOCK_MAX, burst));
}
