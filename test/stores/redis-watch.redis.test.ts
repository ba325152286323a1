// What a process makes of the Redis that it works with: settings under which acknowledged events would be lost, and a
// registry that is gone, whole or on one master of a Cluster (GATEHOUSE_TEST_REDIS_CLUSTER=1), while everything runs.
import t, { type Test } from 'tap';
import { Metrics } from '../../src/metrics/metrics.ts';
import { connectCommands, mastersOf, waitUntilReady } from '../../src/redis/client.ts';
import { readDurability } from '../../src/redis/durability.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { sha256Of } from '../../src/registry/accounts/api-key-text.ts';
import { Agents } from '../../src/registry/agents.ts';
import { RegistryCache } from '../../src/registry/cache/cache.ts';
import { adoptRegistry, foundRegistry, presenceOf } from '../../src/registry/recovery/presence.ts';
import { NotEmpty, type RestoredRow, rebuildRegistry } from '../../src/registry/recovery/restore.ts';
import { RedisWatch, type RedisWatchOptions } from '../../src/stores/redis-watch.ts';
import { actor, connectStore, eventually, refusal, type Store, wholeJournal } from '../registry/harness.ts';
import { silent } from '../streams/harness.ts';
import { opened, startRedis } from '../support/redis.ts';

async function watching(t: Test, store: Store, options: Partial<RedisWatchOptions> = {}): Promise<RedisWatch> {
  const watch = new RedisWatch({
    ...store,
    ...{
      allowUnsafe: false,
      mayStartUnsafe: false,
      hasReplicas: false,
      hadRegistry: async () => false,
      recover: async () => 0,
    },
    ...{ otherInstallation: async () => undefined, log: silent, metrics: new Metrics({ processName: 'test' }) },
    ...options,
  });
  t.teardown(() => watch.stop());
  return watch;
}

t.test('settings under which Redis loses what it acknowledged are named, on every master', async (t) => {
  const { address, servers } = await startRedis(t);
  const store = await connectStore(t, address);
  const last = await connectStore(t, { url: `redis://127.0.0.1:${servers.at(-1)!.port}`, cluster: false }).catch(
    () => null,
  );
  const node = last?.redis ?? mastersOf(store.redis).find(({ options }) => options.port === servers.at(-1)!.port)!;
  t.match(await readDurability(store.redis), { unsafe: [], unread: [], weak: servers.map(() => /appendfsync no/) });

  await node.config('SET', 'appendonly', 'no');
  const [sentence, ...others] = (await readDurability(store.redis)).unsafe;
  t.match(sentence, `Redis at 127.0.0.1:${servers.at(-1)!.port} has "appendonly no"`);
  t.same(others, []);
  const watch = await watching(t, store);
  await t.rejects(watch.start(), { name: 'StoreError', message: /"appendonly no".*GATEHOUSE_ALLOW_UNSAFE_REDIS=1/ });
  t.equal(watch.trouble, 'redis_not_durable');
  t.match(watch.refusal(true), { code: 'unavailable', recorded: false, message: /redis_not_durable/ });
  t.equal(watch.refusal(false), undefined, 'reads go on');
  const allowed = await watching(t, store, { allowUnsafe: true });
  await allowed.start();
  t.match(allowed, { trouble: undefined, degraded: 'redis_not_durable' });

  await node.config('SET', 'appendonly', 'yes');
  await node.config('SET', 'maxmemory-policy', 'allkeys-lru');
  const evicting = await watching(t, store);
  await t.rejects(evicting.start(), { message: /"maxmemory-policy allkeys-lru"/ });
  await node.config('SET', 'maxmemory-policy', 'noeviction');
  // A connection that comes back asks again.
  for (const master of mastersOf(store.redis)) master.disconnect(true);
  await waitUntilReady(store.redis, 60_000);
  await eventually(async () => {
    await evicting.look();
    return evicting.trouble === undefined;
  });
});

t.test('a master that is to have a replica, and has none that lives, is counted', async (t) => {
  const { address, servers } = await startRedis(t, { single: true });
  const store = await connectStore(t, address);
  const counted = async (hasReplicas: boolean) => {
    const metrics = new Metrics({ processName: 'test' });
    await (await watching(t, store, { metrics, hasReplicas })).look();
    return /^gatehouse_redis_masters_without_replica\{[^}]*\} (\d)$/m.exec(await metrics.text())?.[1];
  };
  t.equal(await counted(true), '1');
  t.equal(await counted(false), '0', 'where there is to be none');
  const replica = await startRedis(t, { single: true, args: ['--replicaof', '127.0.0.1', String(servers[0]!.port)] });
  await eventually(async () => (await counted(true)) === '0');
  t.equal(await counted(true), '0');
  replica.servers[0]!.child.kill('SIGKILL');
  await eventually(async () => (await counted(true)) === '1');
  t.equal(await counted(true), '1', 'it died');
});

t.test('where CONFIG is forbidden INFO is read, and where both are it is said that nothing is known', async (t) => {
  const { servers } = await startRedis(t, { single: true, args: ['--maxmemory-policy', 'volatile-ttl'] });
  const at = (user: string) => ({ url: `redis://${user}127.0.0.1:${servers[0]!.port}`, cluster: false });
  const { redis } = await connectStore(t, at(''));
  await redis.acl('SETUSER', 'managed', 'on', '>secret', '~*', '&*', '+@all', '-config');
  await redis.acl('SETUSER', 'blind', 'on', '>secret', '~*', '&*', '+@all', '-config', '-info');
  const read = async (user: string) => {
    const client = await opened(t, connectCommands(at(`${user}:secret@`)));
    return readDurability(client);
  };
  t.match(await read('managed'), {
    nodes: [{ source: 'info', appendonly: true }],
    unsafe: [/volatile-ttl/],
    unread: [/CONFIG GET/],
  });
  await redis.config('SET', 'appendonly', 'no');
  t.match(await read('managed'), { unsafe: [/appendonly no/, /volatile-ttl/] });
  t.match(await read('blind'), { nodes: [{ source: 'none' }], unsafe: [], unread: [/neither CONFIG GET nor INFO/] });
});

t.test(
  'a registry that is gone is noticed, nothing is let through or changed meanwhile, and a restore goes on',
  async (t) => {
    const { address } = await startRedis(t);
    const store = await connectStore(t, address);
    const { redis, keys } = store;
    const { account, firstKey } = await new Accounts(store).create('acme', actor);
    const agents = new Agents(store);
    const { agent } = await agents.register(account.id, { name: 'first' }, actor);
    const rows: RestoredRow[] = (await wholeJournal(store)).flatMap(({ account: of, revision, changes }) =>
      changes.map(({ kind, id, record }) => ({ account: of, kind, id, revision, record })),
    );
    const cache = new RegistryCache({ address, keys });
    t.teardown(() => cache.close());
    await cache.start();
    const watch = await watching(t, store, { allowUnsafe: true, onRestored: () => cache.forgetAll() });
    await watch.start();
    t.equal(watch.trouble, undefined);
    t.equal((await cache.principal(sha256Of(firstKey)))?.account, account.id);
    t.same((await cache.rules(account.id)).size ?? 0, 0);

    // Of a Cluster the master alone that holds the account.
    const key = keys.accounts(keys.shardOf(account.id));
    for (const master of mastersOf(redis)) {
      if ((await master.exists(key).catch(() => 0)) === 1) await master.flushall();
    }
    await eventually(async () => {
      const found = await Promise.resolve(cache.rules(account.id)).catch((error: unknown) => error);
      return found instanceof Error;
    });
    await refusal(t, Promise.resolve(cache.rules(account.id)), 'unavailable');
    await refusal(t, Promise.resolve(cache.agent(account.id, agent.id)), 'unavailable');
    await refusal(t, Promise.resolve(cache.principal(sha256Of(firstKey))), 'unavailable');
    const refused = await refusal(t, agents.register(account.id, { name: 'second' }, actor), 'unavailable');
    t.equal(refused.recorded, false, 'nothing is put where the restore will write');
    await watch.look();
    t.equal(watch.trouble, 'registry_missing');
    t.match(watch.refusal(false), { recorded: false, message: /registry_missing/ });

    await t.rejects(rebuildRegistry(rows, store, { beside: () => Promise.reject(new Error('killed')) }), /killed/);
    t.not((await presenceOf(store)).state, 'there', 'a restore that broke off is not taken for whole');
    t.equal(await adoptRegistry(store), false);
    await watch.look();
    t.equal(watch.trouble, 'registry_missing');
    await rebuildRegistry(rows, store);
    await t.rejects(rebuildRegistry(rows, store), NotEmpty);
    await watch.look();
    t.equal(watch.trouble, undefined);
    t.equal((await cache.principal(sha256Of(firstKey)))?.account, account.id);
    t.equal((await cache.agent(account.id, agent.id))?.record.name, 'first');
    t.ok((await agents.register(account.id, { name: 'second' }, actor)).created);
    t.equal((await agents.register(account.id, { name: 'first' }, actor)).agent.id, agent.id);
  },
);

t.test('a new Redis is new, an older registry is adopted, and one that ClickHouse knows is missing', async (t) => {
  const { address } = await startRedis(t);
  const store = await connectStore(t, address);
  for (const master of mastersOf(store.redis)) await master.flushall();
  const fresh = await watching(t, store, { allowUnsafe: true });
  await fresh.start();
  t.equal(fresh.trouble, undefined);
  const elsewhere = await watching(t, store, { allowUnsafe: true, hadRegistry: async () => true });
  await elsewhere.start();
  t.equal(elsewhere.trouble, 'registry_missing');
  const unknown = await watching(t, store, { allowUnsafe: true, hadRegistry: () => Promise.reject(new Error('away')) });
  await unknown.start();
  t.equal(unknown.trouble, undefined, 'it was not reported');

  // As a founding leaves it that was killed at its end.
  await new Accounts(store).create('old', actor);
  await store.redis.del(store.keys.registryMark());
  for (const key of store.keys.apiKeyMarks()) await store.redis.del(key);
  t.equal((await presenceOf(store)).state, 'partly');
  await elsewhere.look();
  t.equal(elsewhere.trouble, undefined);
  t.equal((await presenceOf(store)).state, 'there');
  await foundRegistry(store);
  t.equal((await new Accounts(store).list()).length, 1, 'founding again changes nothing');
});

t.test("a Redis that became another installation's is not worked with, and a start ends", async (t) => {
  const { address } = await startRedis(t);
  const store = await connectStore(t, address);
  let other: string | undefined;
  const watch = await watching(t, store, { otherInstallation: async () => other });
  await watch.start();
  t.equal(watch.trouble, undefined);
  other = 'it is of ins_2';
  for (const master of mastersOf(store.redis)) master.disconnect(true);
  await waitUntilReady(store.redis, 60_000);
  await eventually(async () => watch.trouble === 'other_installation');
  t.equal(watch.reason, other);
  t.match(watch.refusal(false), { code: 'unavailable', recorded: false, message: /other_installation/ });
  const second = await watching(t, store, { otherInstallation: async () => other });
  await t.rejects(second.start(), { name: 'StoreError', message: other });
});
