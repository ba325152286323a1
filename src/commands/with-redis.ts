// What most commands work with: Redis, found by the settings or by the data folder of a running service, ready, and
// closed behind them. Failure: as of `withAddresses` and `redisReady`, in words for a terminal, also where Redis
// goes away meanwhile.
import { UserFacingError } from '../common/user-facing-error.ts';
import { makeCommands, makeKeys, redisReady, STORES_READY_MS_MAX } from '../composition/clients.ts';
import type { Config } from '../process/config.ts';
import { writeToTerminal } from '../process/report-failure.ts';
import { type Commands, RedisUnavailable, redisError } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { type Context, withAddresses } from './context.ts';

/** `config`: the settings with the addresses of both stores. */
export async function withRedis(
  context: Context,
  use: (given: { redis: Commands; keys: Keys }, config: Config) => Promise<void>,
): Promise<void> {
  const config = withAddresses(context.config);
  const redis = makeCommands(config);
  try {
    await redisReady(config, redis, { waitMs: STORES_READY_MS_MAX, say: writeToTerminal });
    await use({ redis, keys: makeKeys(config) }, config);
  } catch (error) {
    const cause = redisError(error);
    if (error instanceof UserFacingError || !(cause instanceof RedisUnavailable)) throw error;
    throw new UserFacingError(`Redis went away (${cause.message}); the command ended before it was done`, { cause });
  } finally {
    redis.disconnect();
  }
}
