// Further accounts of a service under test, made as `gatehouse account create` makes them
// (src/registry/accounts/accounts.ts), without a process for each: one takes longer to start than most tests to run.
// The command itself is tested in test/processes/cli.path.test.ts.

import { makeCommands, makeKeys } from '../../src/composition/clients.ts';
import { readConfig } from '../../src/process/config.ts';
import { waitUntilReady } from '../../src/redis/client.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import type { TestService } from './service.ts';

const ACTOR = { actor: 'system', requestId: 'test' };
const READY_MS_MAX = 60_000;

/** The first admin key of a new account. `limit`: of its requests. */
export async function keyOfNewAccount(
  service: Pick<TestService, 'addresses'>,
  name: string,
  limit?: { per_second: number; burst: number },
): Promise<string> {
  const { redisUrl, redisCluster } = await service.addresses();
  const config = readConfig({ GATEHOUSE_REDIS_URL: redisUrl, GATEHOUSE_REDIS_CLUSTER: String(redisCluster) });
  const redis = makeCommands(config);
  try {
    await waitUntilReady(redis, READY_MS_MAX);
    const accounts = new Accounts({ redis, keys: makeKeys(config) });
    const { account, firstKey } = await accounts.create(name, ACTOR);
    if (limit !== undefined) await accounts.setRequestLimit(account.id, limit, ACTOR);
    return firstKey;
  } finally {
    redis.disconnect();
  }
}
