// Watches over the Redis that a process works with (front and pipelines; a part that starts behind the connections).
// Once a second: is the registry there (presence.ts)? At the start, after each reconnect and now and then: does Redis
// keep what it acknowledges (durability.ts)? On a Redis Cluster every master is asked.
// Invariant: what is refused was not recorded. Between two polls the marks themselves protect: without one nothing is
// known to the cache (registry/cache/cache.ts) and nothing is changed in the registry (redis/commit.lua).
// Failure: a Redis that cannot be asked leaves the last answer in force; a caller that needs Redis finds out itself.

import { Cluster } from 'ioredis';
import { Periodic } from '../common/async.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { DURABILITY_LOOK_MS, REGISTRY_LOOK_MS } from '../common/limits.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Log } from '../process/log.ts';
import { type Commands, mastersOf } from '../redis/client.ts';
import { mastersWithoutReplica, readDurability } from '../redis/durability.ts';
import type { Keys } from '../redis/keys.ts';
import { adoptRegistry, presenceOf, REGISTRY_MISSING } from '../registry/recovery/presence.ts';
import type { Behind } from '../registry/recovery/recovery.ts';
import { registryMissing } from '../registry/recovery/registry-missing.ts';
import { StoreError } from './faults.ts';

//   registry missing   every call with a key is 503, `/readyz` is 503 and says `registry_missing`, pipelines rest,
//                      until `gatehouse registry restore`; then all continue by themselves
//   put back           Redis holds an earlier state of the registry than ClickHouse knows: calls are 503 and `/readyz`
//                      says `recovering` while it is brought forward (registry/recovery/). Looked for at the start
//                      and whenever Redis comes back; until then no request is served, unless ClickHouse cannot be
//                      asked
//   other installation the settings, this Redis and this ClickHouse do not belong together (installation.ts): a start
//                      ends, and in a running process every call is 503 and pipelines rest
//   history missing    ClickHouse knows nothing of the registry that Redis has: it is given it again, and `/readyz`
//                      says `history_missing` for a day
//   not durable        a start ends with the settings' names; in a running process writes are 503 and `/readyz` says
//                      `redis_not_durable`. With GATEHOUSE_ALLOW_UNSAFE_REDIS it is a warning, and `/readyz` says
//                      `degraded`

const REDIS_NOT_DURABLE = 'redis_not_durable';
const RECOVERING = 'recovering';
const HISTORY_MISSING = 'history_missing';
export const OTHER_INSTALLATION = 'other_installation';
type Trouble = typeof REGISTRY_MISSING | typeof OTHER_INSTALLATION | typeof REDIS_NOT_DURABLE | typeof RECOVERING;

export type RedisWatchOptions = {
  redis: Commands;
  keys: Keys;
  allowUnsafe: boolean;
  /** Does ClickHouse know a registry? Asked only where Redis has none and this process has seen none. */
  hadRegistry: () => Promise<boolean>;
  /** A sentence where this Redis belongs to another installation than the settings or ClickHouse. */
  otherInstallation: () => Promise<string | undefined>;
  /** Under a supervisor, which has looked before: the start continues, calls are refused. */
  mayStartUnsafe: boolean;
  /** Puts back what Redis has forgotten of the registry (bringForward). Rejects where ClickHouse cannot be asked. */
  recover: (onBehind: (behind: Behind) => void) => Promise<number>;
  /** Is each master to have a replica? */
  hasReplicas: boolean;
  /** The registry is there again. */
  onRestored?: () => void;
  log: Log;
  metrics: Metrics;
};

export class RedisWatch {
  readonly #options: RedisWatchOptions;
  readonly #looks = new Periodic(REGISTRY_LOOK_MS, () => this.#look());
  #missing = false;
  #seen = false;
  /** Redis came back, or was never compared: it may hold an earlier state. */
  #mayBeBehind = true;
  /** It came back a moment ago, and nothing is known of it yet. */
  #isUnknown = false;
  #isRecovering = false;
  #isHistoryMissing = false;
  #other: string | undefined;
  /** Addresses of the masters: a replica that is promoted had its connection before. */
  #masters = '';
  /** Which Redis, since when: what is still the same has not gone back. */
  #runs = '';
  #unsafe: readonly string[] = [];
  #said = '';
  /** Monotonic ms at which durability is to be read next. */
  #durabilityAt = 0;

  constructor(options: RedisWatchOptions) {
    this.#options = options;
    const { redis } = options;
    const again = () => {
      this.#durabilityAt = 0;
      this.#mayBeBehind = true;
      this.#isUnknown = this.#looks.isStarted;
      if (this.#isUnknown) void this.look();
    };
    redis.on('ready', again);
    if (redis instanceof Cluster) redis.on('+node', (node) => (node as typeof redis).on('ready', again));
  }

  /**
   * Throws StoreError where Redis belongs to another installation, or would lose what it acknowledges and no setting
   * allows that.
   */
  async start(): Promise<void> {
    await this.look();
    if (this.#other !== undefined) throw new StoreError(this.#other);
    if (this.#unsafe.length > 0 && !this.#options.allowUnsafe && !this.#options.mayStartUnsafe)
      throw new StoreError(unsafeSentence(this.#unsafe));
    this.#looks.start();
  }

  stop(): Promise<void> {
    return this.#looks.stop();
  }

  /** The reason that prevents work with this Redis; undefined: there is none. */
  get trouble(): Trouble | undefined {
    if (this.#other !== undefined) return OTHER_INSTALLATION;
    if (this.#missing) return REGISTRY_MISSING;
    if (this.#isRecovering) return RECOVERING;
    return this.#unsafe.length > 0 && !this.#options.allowUnsafe ? REDIS_NOT_DURABLE : undefined;
  }

  /** The fault that was allowed, or cannot be helped, and is reported all the same. */
  get degraded(): typeof REDIS_NOT_DURABLE | typeof HISTORY_MISSING | undefined {
    if (this.#isHistoryMissing) return HISTORY_MISSING;
    return this.#unsafe.length > 0 && this.#options.allowUnsafe ? REDIS_NOT_DURABLE : undefined;
  }

  /** A sentence about the trouble, for `/readyz`. */
  get reason(): string {
    if (this.#other !== undefined) return this.#other;
    if (this.#missing)
      return 'Redis holds no registry, it was emptied; "gatehouse registry restore" makes it again from ClickHouse';
    if (this.#isRecovering)
      return 'Redis holds an earlier state of the registry; it is brought forward from ClickHouse ("gatehouse registry restore" does the same)';
    return this.#unsafe.join('; ');
  }

  /** undefined: continue. Asked for every call with a key. */
  refusal(writes: boolean): ServiceError | undefined {
    if (this.#other !== undefined) return isOther();
    if (this.#missing) return registryMissing();
    if (this.#isRecovering || this.#isUnknown) return isBack();
    if (!writes || this.#unsafe.length === 0 || this.#options.allowUnsafe) return undefined;
    return new ServiceError('unavailable', 'Redis would not keep it (redis_not_durable); nothing was recorded.', {
      recorded: false,
      retryAfterSeconds: 5,
    });
  }

  /** Never rejects; one poll at a time. */
  look(): Promise<void> {
    return this.#looks.run();
  }

  async #look(): Promise<void> {
    const nowMs = performance.now();
    const masters = mastersOf(this.#options.redis)
      .map(({ options: { host, port } }) => `${host}:${port}`)
      .sort()
      .join();
    if (masters !== this.#masters) this.#mayBeBehind = true;
    this.#masters = masters;
    try {
      if (nowMs >= this.#durabilityAt) {
        this.#durabilityAt = nowMs + DURABILITY_LOOK_MS;
        await this.#lookAtDurability();
      }
      if (this.#mayBeBehind) await this.#compareInstallation();
      const isMissing = await this.#isMissing();
      if (!isMissing && this.#mayBeBehind) await this.#compare();
      this.#notify(isMissing);
    } catch {
      this.#durabilityAt = 0;
    }
  }

  /**
   * Where ClickHouse cannot be asked work continues, as it does without ClickHouse at any time; it is asked again at
   * the next look.
   */
  async #compare(): Promise<void> {
    const { redis, log, recover, onRestored } = this.#options;
    const runs = await runsOf(redis);
    if (runs === this.#runs) {
      this.#mayBeBehind = this.#isUnknown = false;
      return;
    }
    this.#mayBeBehind = false;
    try {
      const recovered = await recover((behind) => {
        if (this.#isRecovering) return;
        this.#isRecovering = true;
        log.error({ behind: [...behind.values()].reduce((sum, changes) => sum + changes, 0) }, 'registry.behind');
      });
      this.#runs = runs;
      this.#options.metrics.inc('gatehouse_recovered_total', { what: 'records' }, recovered);
      await this.#lookAtHistory();
      if (this.#isRecovering) {
        onRestored?.();
        log.warn({ recovered }, 'registry.recovered');
      }
      this.#isRecovering = false;
    } catch (err) {
      this.#mayBeBehind = true;
      if (this.#isRecovering) log.error({ err }, 'registry.recovery_failed');
    } finally {
      this.#isUnknown = false;
    }
  }

  async #compareInstallation(): Promise<void> {
    const other = await this.#options.otherInstallation();
    if (other !== undefined && other !== this.#other)
      this.#options.log.error({ reason: other }, 'redis.other_installation');
    this.#other = other;
  }

  async #isMissing(): Promise<boolean> {
    if ((await presenceOf(this.#options)).state === 'there' || (await adoptRegistry(this.#options))) {
      this.#seen = true;
      return false;
    }
    // A new installation has none yet.
    return this.#seen || this.#missing || (await this.#options.hadRegistry());
  }

  #notify(missing: boolean): void {
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

  async #lookAtHistory(): Promise<void> {
    const { redis, keys, log } = this.#options;
    const since = await redis.get(keys.historyMissing());
    if (since !== null && !this.#isHistoryMissing) log.error({ since }, 'history.missing');
    this.#isHistoryMissing = since !== null;
  }

  async #lookAtDurability(): Promise<void> {
    const { redis, metrics, log, allowUnsafe, mayStartUnsafe: isSupervised, hasReplicas } = this.#options;
    await this.#lookAtHistory();
    metrics.set('gatehouse_redis_masters_without_replica', {}, hasReplicas ? await mastersWithoutReplica(redis) : 0);
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

/**
 * The run ids of all masters: they change with every start of a process. Where INFO is refused the text is new each
 * time, so a comparison always happens.
 */
async function runsOf(redis: Commands): Promise<string> {
  try {
    const infos = await Promise.all(mastersOf(redis).map((node) => node.info('server')));
    return infos
      .map((info) => /^run_id:(\w+)/m.exec(info)?.[1] ?? '')
      .sort()
      .join();
  } catch {
    return `${performance.now()}`;
  }
}

function isOther(): ServiceError {
  return new ServiceError(
    'unavailable',
    'Redis belongs to another installation (other_installation); nothing was recorded.',
    { recorded: false, retryAfterSeconds: 5 },
  );
}

function isBack(): ServiceError {
  return notRecorded('Redis has come back and is compared with what ClickHouse knows');
}

/** The sentence that ends a start where Redis is set in an unsafe way. */
export function unsafeSentence(unsafe: readonly string[]): string {
  return `${unsafe.join('; ')}. GATEHOUSE_ALLOW_UNSAFE_REDIS=1 allows it for data that may be lost.`;
}
