// Makes what a measurement needs in a service: agents, policies, accounts. Through the API, but for accounts, which
// only the command line makes; those go through its own code, since a thousand processes would take minutes.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectCommands, waitUntilReady } from '../src/redis/client.ts';
import { Keys } from '../src/redis/keys.ts';
import { Accounts } from '../src/registry/accounts/accounts.ts';
import { HttpClient } from './http-client.ts';
import { progress } from './report.ts';
import type { BenchService } from './service.ts';
import type { PolicyOrder } from './workload.ts';

const AT_ONCE = 32;
/** Changes are in force within a second. */
const IN_FORCE_MS = 1_000;

export async function makeAgents(
  service: { url: string; key: string },
  count: number,
  name = 'bench',
): Promise<string[]> {
  const client = new HttpClient({ ...service, connections: AT_ONCE });
  try {
    return await inParallel(count, async (i) => {
      if (i > 0 && i % 10_000 === 0) progress(`${i} agents registered`);
      return (await client.json<{ id: string }>('POST', '/v1/agents', { name: `${name}-${i}` })).id;
    });
  } finally {
    client.close();
  }
}

/** The account then has these policies and no others. */
export async function setPolicies(
  service: { url: string; key: string },
  policies: readonly PolicyOrder[],
): Promise<void> {
  const client = new HttpClient({ ...service, connections: AT_ONCE });
  try {
    for (;;) {
      const { items } = await client.json<{ items: { id: string }[] }>('GET', '/v1/policies?limit=100');
      if (items.length === 0) break;
      await inParallel(items.length, (i) => client.send('DELETE', `/v1/policies/${items[i]!.id}`));
    }
    for (const policy of policies) await client.json('POST', '/v1/policies', policy);
  } finally {
    client.close();
  }
  await sleep(IN_FORCE_MS);
}

/** Admin keys of so many new accounts. */
export function makeAccounts(service: BenchService, count: number): Promise<string[]> {
  const by = { actor: 'system', requestId: 'bench' };
  return withAccounts(service, (accounts) =>
    inParallel(count, async (i) => (await accounts.create(`bench-${i}`, by)).firstKey),
  );
}

/** The id of the account that the service's key belongs to. */
export async function defaultAccount(service: BenchService): Promise<string> {
  return (await withAccounts(service, (accounts) => accounts.byName('default')))!.id;
}

async function withAccounts<T>(service: BenchService, use: (accounts: Accounts) => Promise<T>): Promise<T> {
  const { redisUrl, redisCluster } = await service.addresses();
  const redis = connectCommands({ url: redisUrl, cluster: redisCluster });
  try {
    await waitUntilReady(redis, 10_000);
    // Prefix and partitions as the service has them by default; an account's keys do not depend on the partitions.
    return await use(new Accounts({ redis, keys: new Keys({ prefix: 'gh-', partitions: 8 }) }));
  } finally {
    redis.disconnect();
  }
}

/** In order of the index, AT_ONCE at a time. */
export async function inParallel<T>(count: number, make: (i: number) => Promise<T>): Promise<T[]> {
  const made: T[] = new Array(count);
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const i = next++;
      made[i] = await make(i);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, worker));
  return made;
}
