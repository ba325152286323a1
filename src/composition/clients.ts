// Clients of Redis and ClickHouse for a process: built here from the settings, handed down, closed last.
// Used by the front, the pipelines and the commands. Nothing else makes a client.
// Invariant: no client sends a command twice by itself (redis/client.ts). Appends have a connection of their own.
// Failure: an address that is neither set nor to be found is named in the sentence that ends the command.
import { readFileSync } from 'node:fs';
import { ClickHouse, ClickHouseError } from '../../clickhouse/client.ts';
import type { KeptOf } from '../../clickhouse/kept-reads.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { registryRevisions } from '../../clickhouse/queries/registry-revisions.ts';
import { registrySnapshot } from '../../clickhouse/queries/registry-snapshot.ts';
import type { FairQueue } from '../common/fair-queue.ts';
import { isSentinelAddress } from '../common/sentinel-address.ts';
import { AddressMissing } from '../common/user-facing-error.ts';
import { type Config, ConfigError } from '../process/config.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import { refusedAccess } from '../redis/access.ts';
import {
  type Commands,
  connectCommands,
  connectErrorOf,
  connectWriter,
  type RedisAddress,
  waitUntilReady,
} from '../redis/client.ts';
import { Keys } from '../redis/keys.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { adoptRegistry, presenceOf } from '../registry/recovery/presence.ts';
import { bringForward, type KnownRegistry } from '../registry/recovery/recovery.ts';
import { clickhouseFault, isFinal, redisFault, StoreError, shownAddress } from '../stores/faults.ts';
import { installationIdOf, otherInstallation } from '../stores/installation.ts';
import { RedisWatch } from '../stores/redis-watch.ts';
import { waitForStore } from '../stores/waiting.ts';
import type { WorkerContext } from './worker-process.ts';

/** Engines that are being started, here or beside us, are waited for this long. */
export const STORES_READY_MS_MAX = 30_000;

export function makeKeys(config: Config): Keys {
  return new Keys({ prefix: config.redisPrefix, partitions: config.partitions });
}

/** `fair`, `keptOf`: for what is asked in the name of accounts. */
export function makeClickHouse(config: Config, asked: { fair?: FairQueue; keptOf?: KeptOf } = {}): ClickHouse {
  const { clickhouseUrl: url, clickhouseDatabase: database, queryTimeoutSeconds } = config;
  if (url === undefined) throw new AddressMissing('GATEHOUSE_CLICKHOUSE_URL is not set');
  return new ClickHouse({ url, database, queryTimeoutSeconds, ...asked });
}

/** Makes the client of appends alone, whose writes are answered once replicas have them. */
export function makeWriter(config: Config): Commands {
  return connectWriter(redisAddress(config));
}

/** Makes the client of everything else. */
export function makeCommands(config: Config): Commands {
  return connectCommands(redisAddress(config));
}

/** Throws AddressMissing, or ConfigError where a file of TLS cannot be read. */
export function redisAddress(config: Config): RedisAddress {
  const { redisUrl: url, redisCluster: cluster, redisReplicas, redisTlsCa, redisTlsCert, redisTlsKey } = config;
  if (url === undefined) throw new AddressMissing('GATEHOUSE_REDIS_URL is not set');
  const address = { url, cluster, replicas: redisReplicas };
  if (!url.startsWith('rediss:')) return address;
  const ca = textOf('GATEHOUSE_REDIS_TLS_CA', redisTlsCa);
  const cert = textOf('GATEHOUSE_REDIS_TLS_CERT', redisTlsCert);
  return { ...address, tls: { ca, cert, key: textOf('GATEHOUSE_REDIS_TLS_KEY', redisTlsKey) } };
}

function textOf(setting: string, file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new ConfigError(`${setting}: cannot read ${JSON.stringify(file)}`, { cause });
  }
}

type Waiting = { waitMs: number; say: (line: string) => void };

/** Throws StoreError when the time is over, or at once where user or password is refused. */
export async function redisReady(config: Config, client: Commands, { waitMs, say }: Waiting): Promise<void> {
  const store = {
    ...{ name: 'Redis', address: shownAddress(redisAddress(config).url), setting: 'GATEHOUSE_REDIS_URL' },
    ask: () => waitUntilReady(client, 0),
    faultOf: (cause: unknown) => redisFault((cause as Error).cause ?? cause, connectErrorOf(client)),
  };
  await waitForStore(store, waitMs, say);
  const refused = await refusedAccess(client, redisAddress(config), config.redisPrefix);
  if (refused.length > 0)
    throw new StoreError(`${refused.join('; ')}. docs/own-stores.md has the rules that a user of Redis needs.`);
}

/** The same for ClickHouse; its database need not be there yet. */
export async function clickhouseReady(config: Config, { waitMs, say }: Waiting): Promise<void> {
  const server = makeClickHouse({ ...config, clickhouseDatabase: 'default' });
  const store = {
    ...{ name: 'ClickHouse', address: shownAddress(config.clickhouseUrl!), setting: 'GATEHOUSE_CLICKHOUSE_URL' },
    ask: (signal: AbortSignal) => server.query('SELECT 1', {}, { signal }),
    faultOf: clickhouseFault,
  };
  try {
    await waitForStore(store, waitMs, say);
  } finally {
    await server.close();
  }
}

/**
 * The connections as the first part of a process. With `mayBeAway` it starts even while Redis is away: they come by
 * themselves as soon as it is there. Not so where the password is wrong.
 */
export function connectionsPart(
  options: Waiting & {
    config: Config;
    redis: readonly Commands[];
    clickhouse: ClickHouse;
    mayBeAway: boolean;
    log: Log;
  },
): Part {
  const { config, redis, clickhouse, waitMs, mayBeAway, say, log } = options;
  return {
    name: 'connections',
    async start() {
      const waits = redis.map((client, i) =>
        redisReady(config, client, { waitMs, say: i === 0 ? say : () => undefined }),
      );
      try {
        await Promise.all(waits);
      } catch (error) {
        await Promise.allSettled(waits);
        const mayComeBack = error instanceof StoreError && !isFinal(redisFault(error.cause, connectErrorOf(redis[0]!)));
        if (!mayBeAway || !mayComeBack) throw error;
        log.warn({ err: error }, 'redis.away_at_start');
      }
    },
    async stop() {
      for (const client of redis) client.disconnect();
      await clickhouse.close();
    },
  };
}

/** For a process that works with Redis; `onRestored`: its registry is there again. */
export function makeRedisWatch(
  { config, log, metrics, isSupervised }: Pick<WorkerContext, 'config' | 'log' | 'metrics' | 'isSupervised'>,
  stores: { redis: Commands; clickhouse: ClickHouse },
  onRestored: () => void = () => undefined,
): RedisWatch {
  return new RedisWatch({
    ...{ redis: stores.redis, keys: makeKeys(config), metrics, log: log.child({ part: 'redis' }), onRestored },
    ...{ allowUnsafe: config.allowUnsafeRedis, mayStartUnsafe: isSupervised, hasReplicas: hasReplicas(config) },
    hadRegistry: () => hadRegistry(stores.clickhouse),
    otherInstallation: () => otherInstallation({ ...stores, keys: makeKeys(config) }, { mayTakeOver: false }),
    recover: (onBehind) =>
      bringForward({ redis: stores.redis, keys: makeKeys(config) }, knownRegistry(stores.clickhouse), onBehind),
  });
}

/** By the settings, or as a Redis Cluster and Sentinels are for. */
function hasReplicas({ redisReplicas, redisCluster, redisUrl = '' }: Config): boolean {
  return (redisReplicas ?? (redisCluster || isSentinelAddress(redisUrl) ? 1 : 0)) > 0;
}

/** The registry as ClickHouse has it. */
export function knownRegistry(clickhouse: ClickHouse): KnownRegistry {
  return { revisions: () => registryRevisions(clickhouse), rows: () => registrySnapshot(clickhouse) };
}

/** Does ClickHouse know an account? Where it has no tables yet it knows none. */
async function hadRegistry(clickhouse: ClickHouse): Promise<boolean> {
  try {
    const rows = await clickhouse.query(
      "SELECT id FROM registry FINAL WHERE kind = 'account' AND record != '' LIMIT 1",
    );
    return rows.length > 0;
  } catch (error) {
    if (error instanceof ClickHouseError && error.isNotMigrated) return false;
    throw error;
  }
}

/**
 * Throws StoreError where a registry was there and is there no more: an account that is made in such a Redis would hide
 * the loss. Answers whether there is one.
 */
export async function refuseLostRegistry(config: Config, redis: Commands): Promise<boolean> {
  const store = { redis, keys: makeKeys(config) };
  await adoptRegistry(store);
  if ((await presenceOf(store)).state === 'there') return true;
  const clickhouse = makeClickHouse(config);
  try {
    if (!(await hadRegistry(clickhouse))) return false;
  } finally {
    await clickhouse.close();
  }
  throw new StoreError(
    'Redis holds no registry, but ClickHouse does: Redis has lost its data, or is another one. ' +
      '"gatehouse registry restore" makes the registry again from ClickHouse.',
  );
}

/**
 * The tables up to date, and the account `default`, which is made in a new registry. Answers the files of tables that
 * were applied, and the first admin key where one was made. Throws StoreError where Redis, ClickHouse and the settings
 * do not belong together, or Redis has lost its registry.
 */
export async function prepareStores(
  config: Config,
  redis: Commands,
  say: (line: string) => void,
): Promise<{ applied: string[]; isNew: boolean; key?: string | undefined }> {
  const applied = await migrateTables(config, { redis, say });
  await refuseOtherInstallation(config, redis);
  const isNew = !(await refuseLostRegistry(config, redis));
  const { key } = await new Accounts({ redis, keys: makeKeys(config) }).ensureDefault(config.bootstrapKey);
  return { applied, isNew, key };
}

/** Throws StoreError where the settings, Redis and ClickHouse do not belong together. */
async function refuseOtherInstallation(config: Config, redis: Commands): Promise<void> {
  const clickhouse = makeClickHouse(config);
  try {
    const other = await otherInstallation({ redis, keys: makeKeys(config), clickhouse }, { mayTakeOver: true });
    if (other !== undefined) throw new StoreError(other);
  } finally {
    await clickhouse.close();
  }
}

/**
 * Brings the tables up to date; waits for a ClickHouse that is still starting. Answers the names of what was applied.
 * New tables belong at once to the installation that `redis` belongs to: a running service may write into them from
 * the first moment on. Throws StoreError.
 */
export async function migrateTables(
  config: Config,
  { redis, say }: { redis: Commands | undefined; say: (line: string) => void },
): Promise<string[]> {
  const id = redis && (await installationIdOf(redis, makeKeys(config)));
  await clickhouseReady(config, { waitMs: STORES_READY_MS_MAX, say });
  const clickhouse = makeClickHouse(config);
  try {
    const { clickhouseCluster: cluster, partitions, redisPrefix: prefix } = config;
    const installation = { id, partitions, prefix };
    const retentionDays = mostRetentionDays(config);
    return await migrate(clickhouse, { retentionDays, installation, ...(cluster === undefined ? {} : { cluster }) });
  } finally {
    await clickhouse.close();
  }
}

/** The longest retention that any account may have. */
export function mostRetentionDays({ retentionDays, retentionMaxDays }: Config): number {
  return retentionMaxDays ?? retentionDays;
}
