// The quotas of an account over all its keys (after the request limit of the key, before the body): requests, recorded
// events and bytes a second, each a token bucket held in Redis that all fronts share, and how many events are stored.
//   reserve   before it is known what a request brings: a request, the most events that it can hold, the bytes that it
//             says it has. Where the bucket has less, 429
//   charge    what was recorded, wherever it was judged
//   release   what was reserved of events and bytes, when the request is over
// A front leases tokens in blocks, so most requests need no trip; an account without quotas costs a comparison.
// Invariant: nothing is let in without tokens from Redis. Redis away: ServiceError unavailable.
import { NO_QUOTAS, type Quotas, RATE_QUOTAS, type RateQuota } from '../../../schemas/quota.ts';
import { notRecorded, ServiceError } from '../../common/errors.ts';
import { KEY_CACHE_MAX } from '../../common/limits.ts';
import { type Commands, RedisUnavailable, troubleOf } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import type { RegistryStore } from '../commit.ts';
import { gcra } from './gcra.ts';
import type { RequestLimit } from './principal.ts';

// A block is a twentieth of a second's worth. Bound: in s seconds N fronts together record at most
// burst + s * rate + N * (block + what is reserved at once), and what is recorded beyond a reserve (spans) is owed: it
// is taken off what comes next. Unused tokens are lost with their lease: at most a block a front and second.

/** The events and bytes that a request may bring. */
export type QuotaNeed = { events: number; bytes: number };
export type Release = () => void;
type Wanted = { kind: RateQuota; lease: Lease; limit: RequestLimit; tokens: number };

const LEASE_MS = 1_000;
const BLOCKS_PER_SECOND = 20;
/** Tries of a caller who finds too little each time because another has been faster. */
const TRIES_MAX = 5;
/** A refusal is remembered no longer: tokens may be given back. */
const REFUSED_MS_MAX = 250;
/** How many events are stored is known as of so long ago. */
const COUNTED_MS = 30_000;
const COUNT_AGAIN_SECONDS = 60;

/** The tokens that this process has leased of one quota of one account. Times are by `performance.now()`. */
class Lease {
  readonly key: string;
  /** Below 0: owed. */
  tokens = 0;
  expiresAt = 0;
  refusedUntil = 0;
  asking: Promise<void> | undefined;

  constructor(key: string) {
    this.key = key;
  }
}

type QuotaOptions = {
  redis: Commands;
  keys: Keys;
  /** How many events are stored of an account. */
  countRows: (account: string) => Promise<number>;
  onRefused: (quota: RefusingQuota) => void;
};
type Counted = { rows: number; atMs: number; isCounting: boolean };

export class AccountQuotas {
  readonly #options: QuotaOptions;
  /** By the key of the bucket; the one that was made first goes first. Bounded. */
  readonly #leases = new Map<string, Lease>();
  readonly #counted = new Map<string, Counted>();

  constructor(options: QuotaOptions) {
    this.#options = options;
  }

  /** undefined: nothing was reserved. Throws or rejects with ServiceError rate_limited, quota_exceeded, unavailable. */
  reserve(account: string, quotas: Quotas, need: QuotaNeed): Release | undefined | Promise<Release> {
    if (need.events > 0 && quotas.stored_rows !== null) this.#checkRows(account, quotas.stored_rows);
    const wanted = this.#wantedOf(account, quotas, need);
    if (wanted.length === 0) return undefined;
    const nowMs = performance.now();
    if (wanted.some(({ lease, tokens }) => held(lease, nowMs) < tokens)) return this.#reserveFromRedis(wanted);
    for (const { lease, tokens } of wanted) lease.tokens -= tokens;
    return releasing(wanted);
  }

  /** Charges what was recorded. */
  charge(account: string, kind: 'events' | 'bytes', tokens: number): void {
    const lease = this.#leases.get(this.#options.keys.quota(account, kind));
    if (lease !== undefined) lease.tokens -= tokens;
  }

  #wantedOf(account: string, quotas: Quotas, { events, bytes }: QuotaNeed): Wanted[] {
    const needs: Record<RateQuota, number> = { requests: 1, events, bytes };
    return RATE_QUOTAS.flatMap((kind) => {
      const quota = quotas[kind];
      if (quota === null || needs[kind] === 0) return [];
      const limit = { perSecond: quota.per_second, burst: quota.burst };
      // More than a full bucket never comes together; what is recorded beyond it is owed.
      const tokens = Math.min(needs[kind], limit.burst);
      return [{ kind, limit, tokens, lease: this.#lease(this.#options.keys.quota(account, kind)) }];
    });
  }

  async #reserveFromRedis(wanted: readonly Wanted[]): Promise<Release> {
    const taken: Wanted[] = [];
    for (const one of wanted) {
      const waitMs = await this.#fill(one).catch((error: unknown) => {
        releasing(taken)();
        throw error instanceof RedisUnavailable ? notRecorded(troubleOf(error), error) : error;
      });
      if (waitMs > 0) {
        releasing(taken)();
        this.#options.onRefused(one.kind);
        throw overRate(one, waitMs);
      }
      taken.push(one);
    }
    return releasing(taken);
  }

  /** 0: its tokens were taken; else ms until there may be enough. */
  async #fill({ lease, limit, tokens }: Wanted): Promise<number> {
    for (let tries = 0; ; tries++) {
      const nowMs = performance.now();
      if (held(lease, nowMs) >= tokens) {
        lease.tokens -= tokens;
        return 0;
      }
      const missingMs = ((tokens - lease.tokens) / limit.perSecond) * 1000;
      if (nowMs < lease.refusedUntil || tries === TRIES_MAX) return Math.max(1, missingMs);
      lease.asking ??= this.#ask(lease, limit, tokens).finally(() => {
        lease.asking = undefined;
      });
      await lease.asking;
    }
  }

  async #ask(lease: Lease, limit: RequestLimit, tokens: number): Promise<void> {
    const wanted = Math.ceil(Math.max(tokens - lease.tokens, limit.perSecond / BLOCKS_PER_SECOND));
    const [taken, untilNextUs] = await gcra.run(
      this.#options.redis,
      [lease.key],
      [limit.perSecond, limit.burst, wanted],
    );
    const nowMs = performance.now();
    lease.tokens += taken;
    lease.expiresAt = nowMs + LEASE_MS;
    const missing = tokens - lease.tokens;
    if (missing <= 0) return;
    const untilMs = untilNextUs / 1000 + ((missing - 1) / limit.perSecond) * 1000;
    lease.refusedUntil = nowMs + Math.min(untilMs, REFUSED_MS_MAX);
  }

  #lease(key: string): Lease {
    let lease = this.#leases.get(key);
    if (lease === undefined) {
      if (this.#leases.size >= KEY_CACHE_MAX) this.#leases.delete(this.#leases.keys().next().value!);
      lease = new Lease(key);
      this.#leases.set(key, lease);
    }
    return lease;
  }

  /** Until it has been counted once there is no bound. */
  #checkRows(account: string, max: number): void {
    const counted = this.#counted.get(account) ?? { rows: 0, atMs: Number.NEGATIVE_INFINITY, isCounting: false };
    if (!counted.isCounting && performance.now() - counted.atMs > COUNTED_MS) this.#count(account, counted);
    if (counted.rows < max) return;
    this.#options.onRefused('stored_rows');
    const message = `The account has as many stored events as it may have: ${counted.rows} of ${max}. A shorter retention makes room, and "gatehouse account limit" changes it.`;
    throw new ServiceError('quota_exceeded', message, { retryAfterSeconds: COUNT_AGAIN_SECONDS, recorded: false });
  }

  #count(account: string, counted: Counted): void {
    counted.isCounting = true;
    if (this.#counted.size >= KEY_CACHE_MAX) this.#counted.delete(this.#counted.keys().next().value!);
    this.#counted.set(account, counted);
    const done = (rows: number) => Object.assign(counted, { rows, atMs: performance.now(), isCounting: false });
    // What cannot be counted now is as it was.
    this.#options.countRows(account).then(done, () => done(counted.rows));
  }
}

export type RefusingQuota = RateQuota | 'stored_rows';

/** Tokens that may be used. */
function held(lease: Lease, nowMs: number): number {
  if (lease.tokens > 0 && nowMs >= lease.expiresAt) lease.tokens = 0;
  return lease.tokens;
}

/** Requests are made, whatever became of them. */
function releasing(taken: readonly Wanted[]): Release {
  return () => {
    for (const { kind, lease, tokens } of taken) if (kind !== 'requests') lease.tokens += tokens;
  };
}

function overRate({ kind, limit }: Wanted, waitMs: number): ServiceError {
  const { perSecond, burst } = limit;
  const message = `The account's quota of ${kind} is reached: ${perSecond} a second, ${burst} at once, over all its keys. "gatehouse account limit" changes it.`;
  const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000));
  const rateLimit = { ...limit, name: `account-${kind}` };
  return new ServiceError('rate_limited', message, { retryAfterSeconds, rateLimit, recorded: false });
}

/** undefined: the account has none. */
export function quotasOf(quotas: Partial<Quotas> | null | undefined): Quotas | null {
  if (quotas === null || quotas === undefined || Object.values(quotas).every((one) => one === null)) return null;
  return { ...NO_QUOTAS, ...quotas };
}

/** How many there may be; Infinity: no bound. */
export async function countQuotaOf(
  { redis, keys }: RegistryStore,
  account: string,
  quota: 'keys' | 'agents',
): Promise<number> {
  const text = await redis.hget(keys.accounts(keys.shardOf(account)), account);
  return (
    (text === null ? null : (JSON.parse(text) as { quotas?: Quotas | null }).quotas?.[quota]) ??
    Number.POSITIVE_INFINITY
  );
}

export function overCount(quota: 'keys' | 'agents', max: number): ServiceError {
  const message = `The account has as many ${quota} as it may have: ${max}. "gatehouse account limit" changes it.`;
  return new ServiceError('quota_exceeded', message, { retryAfterSeconds: COUNT_AGAIN_SECONDS, recorded: false });
}
