// Clients of Redis and ClickHouse for a process: built here from the settings, handed down, closed last.
// Stands under the front, the pipelines and the commands. Nothing else makes a client.
// Invariant: a writer's client never sends a command twice; commands that may be repeated have a connection of their own.
// Failure: an address that is neither set nor to be found is named in the sentence that ends the command.
import { ClickHouse } from '../clickhouse/client.ts';
import { migrate } from '../clickhouse/migrate.ts';
import type { Config } from './config.ts';
import type { Part } from './lifecycle.ts';
import type { Log } from './log.ts';
import { type Commands, connectCommands, connectWriter, RedisUnavailable, waitUntilReady } from './redis/client.ts';
import { Keys } from './redis/keys.ts';
import { AddressMissing } from './sentence.ts';

/** Engines that are being started, here or beside us, are waited for this long. */
export const STORES_READY_MS_MAX = 30_000;

export function makeKeys(config: Config): Keys {
  return new Keys({ prefix: config.redisPrefix, partitions: config.partitions });
}

export function makeClickHouse(config: Config): ClickHouse {
  const { clickhouseUrl: url, clickhouseDatabase: database, queryTimeoutSeconds } = config;
  if (url === undefined) throw new AddressMissing('GATEHOUSE_CLICKHOUSE_URL is not set');
  return new ClickHouse({ url, database, queryTimeoutSeconds });
}

/** For commands that must not be sent twice. */
export function makeWriter(config: Config): Commands {
  return connectWriter(redisAddress(config));
}

/** For commands that may be. */
export function makeCommands(config: Config): Commands {
  return connectCommands(redisAddress(config));
}

export function redisAddress(config: Config): { url: string; cluster: boolean } {
  if (config.redisUrl === undefined) throw new AddressMissing('GATEHOUSE_REDIS_URL is not set');
  return { url: config.redisUrl, cluster: config.redisCluster };
}

/**
 * The connections as the first part of a process. With `waitMs` short it starts even while Redis is away: they come by
 * themselves as soon as it is there.
 */
export function connectionsPart(options: {
  redis: readonly Commands[];
  clickhouse: ClickHouse;
  waitMs: number;
  mayBeAway: boolean;
  log: Log;
}): Part {
  const { redis, clickhouse, waitMs, mayBeAway, log } = options;
  return {
    name: 'connections',
    async start() {
      try {
        await Promise.all(redis.map((client) => waitUntilReady(client, waitMs)));
      } catch (error) {
        if (!mayBeAway || !(error instanceof RedisUnavailable)) throw error;
        log.warn({ err: error }, 'redis.away_at_start');
      }
    },
    async stop() {
      for (const client of redis) client.disconnect();
      await clickhouse.close();
    },
  };
}

/** What is away, by name; both are asked at once, and neither for longer than its own time limit. */
export async function whatIsAway(redis: Commands, clickhouse: ClickHouse): Promise<string[]> {
  const asked = { redis: waitUntilReady(redis, 0), clickhouse: clickhouse.ping() };
  const answers = await Promise.allSettled(Object.values(asked));
  return Object.keys(asked).filter((_, i) => answers[i]!.status === 'rejected');
}

/** Brings the tables up to date; waits for a ClickHouse that is still starting. Answers the names of what was applied. */
export async function migrateTables(config: Config): Promise<string[]> {
  const clickhouse = makeClickHouse(config);
  try {
    const { clickhouseCluster: cluster, retentionDays } = config;
    return await migrate(clickhouse, { retentionDays, ...(cluster === undefined ? {} : { cluster }) });
  } finally {
    await clickhouse.close();
  }
}
