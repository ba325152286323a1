// Watches over the Redis that a process works with (front and pipelines; a part that starts behind the connections).
// Once a second: is the registry there (presence.ts)? At the start, after each reconnect and now and then: does Redis keep what
// it acknowledges (durability.ts)? On a Redis Cluster every master is asked.
//   registry missing   every call with a key is 503, `/readyz` is 503 and says `registry_missing`, pipelines rest, until
//                      `gatehouse registry restore`; then all go on by themselves
//   not durable        a start ends with the settings' names; in a running process writes are 503 and `/readyz` says
//                      `redis_not_durable`. With GATEHOUSE_ALLOW_UNSAFE_REDIS it is a warning, and `/readyz` says `degraded`
// Invariant: what is refused was not recorded. Between two looks the marks themselves protect: without one nothing is known
// to the cache (registry/cache.ts) and nothing is changed in the registry (redis/commit.lua).
// Failure: a Redis that cannot be asked leaves the last answer standing; whoever needs it finds out by himself.
import { Cluster } from 'ioredis';
import { ServiceError } from '../errors.ts';
import { DURABILITY_LOOK_MS, REGISTRY_LOOK_MS } from '../limits.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Commands } from '../redis/client.ts';
import { readDurability } from '../redis/durability.ts';
import type { Keys } from '../redis/keys.ts';
import { adoptRegistry, presenceOf, REGISTRY_MISSING, registryMissing } from '../registry/presence.ts';
import { StoreError } from './faults.ts';

export const REDIS_NOT_DURABLE = 'redis_not_durable';
export type Trouble = typeof REGISTRY_MISSING | typeof REDIS_NOT_DURABLE;

export type RedisWatchOptions = {
  redis: Commands;
  keys: Keys;
  allowUnsafe: boolean;
  /** Does ClickHouse know a registry? Asked only where Redis has none and this process has seen none. */
  hadRegistry: () => Promise<boolean>;
  /** Under a supervisor, which has looked before: the start goes on, calls are refused. */
  mayStartUnsafe: boolean;
  /** The registry is there again. */
  onRestored?: () => void;
  log: Log;
  metrics: Metrics;
};

export class RedisWatch {
  readonly #options: RedisWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #missing = false;
  #seen = false;
  #unsafe: readonly string[] = [];
  #said = '';
  /** Monotonic ms at which durability is to be read next. */
  #durabilityAt = 0;

  constructor(options: RedisWatchOptions) {
    this.#options = options;
    const { redis } = options;
    const again = () => {
      this.#durabilityAt = 0;
    };
    redis.on('ready', again);
    if (redis instanceof Cluster) redis.on('+node', (node) => (node as typeof redis).on('ready', again));
  }

  /** Throws StoreError where Redis would lose what it acknowledges and nobody has allowed that. */
  async start(): Promise<void> {
    await this.look();
    if (this.#unsafe.length > 0 && !this.#options.allowUnsafe && !this.#options.mayStartUnsafe)
      throw new StoreError(unsafeSentence(this.#unsafe));
    this.#timer = setInterval(() => void this.look(), REGISTRY_LOOK_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** What stands against work with this Redis. */
  get trouble(): Trouble | undefined {
    if (this.#missing) return REGISTRY_MISSING;
    return this.#unsafe.length > 0 && !this.#options.allowUnsafe ? REDIS_NOT_DURABLE : undefined;
  }

  /** What was allowed and is said all the same. */
  get degraded(): typeof REDIS_NOT_DURABLE | undefined {
    return this.#unsafe.length > 0 && this.#options.allowUnsafe ? REDIS_NOT_DURABLE : undefined;
  }

  /** A sentence about the trouble, for `/readyz`. */
  get reason(): string {
    if (this.#missing)
      return 'Redis holds no registry, it was emptied; "gatehouse registry restore" makes it again from ClickHouse';
    return this.#unsafe.join('; ');
  }

  /** undefined: go on. Asked for every call with a key. */
  refusal(writes: boolean): ServiceError | undefined {
    if (this.#missing) return registryMissing();
    if (!writes || this.#unsafe.length === 0 || this.#options.allowUnsafe) return undefined;
    return new ServiceError('unavailable', 'Redis would not keep it (redis_not_durable); nothing was recorded.', {
      recorded: false,
      retryAfterSeconds: 5,
    });
  }

  /** Never rejects; one look at a time. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    const nowMs = performance.now();
    try {
      if (nowMs >= this.#durabilityAt) {
        this.#durabilityAt = nowMs + DURABILITY_LOOK_MS;
        await this.#lookAtDurability();
      }
      this.#tell(await this.#isMissing());
    } catch {
      this.#durabilityAt = 0;
    }
  }

  async #isMissing(): Promise<boolean> {
    if ((await presenceOf(this.#options)).state === 'there' || (await adoptRegistry(this.#options))) {
      this.#seen = true;
      return false;
    }
    // A new installation has none yet.
    return this.#seen || this.#missing || (await this.#options.hadRegistry());
  }

  #tell(missing: boolean): void {
    const { log, metrics, onRestored } = this.#options;
    metrics.set('gatehouse_registry_missing', {}, missing ? 1 : 0);
    if (missing === this.#missing) return;
    this.#missing = missing;
    if (missing) {
      log.error({ reason: this.reason }, 'registry.missing');
    } else {
      onRestored?.();
      log.info({}, 'registry.there_again');
    }
  }

  async #lookAtDurability(): Promise<void> {
    const { redis, metrics, log, allowUnsafe, mayStartUnsafe: isSupervised } = this.#options;
    const { unsafe, unread, ...less } = await readDurability(redis);
    const weak = isSupervised ? [] : less.weak;
    this.#unsafe = unsafe;
    metrics.set('gatehouse_redis_not_durable', {}, unsafe.length > 0 ? 1 : 0);
    const said = [...unsafe, ...weak, ...unread].join('; ');
    if (said === this.#said) return;
    this.#said = said;
    if (said === '') log.info({}, 'redis.durable_again');
    if (unsafe.length > 0) log[allowUnsafe ? 'warn' : 'error']({ unsafe, allowed: allowUnsafe }, 'redis.not_durable');
    if (weak.length > 0) log.warn({ weak }, 'redis.less_durable');
    if (unread.length > 0) log.warn({ unread }, 'redis.settings_unread');
  }
}

/** What ends a start. */
export function unsafeSentence(unsafe: readonly string[]): string {
  return `${unsafe.join('; ')}. GATEHOUSE_ALLOW_UNSAFE_REDIS=1 allows it for data that may be lost.`;
}
