// A Redis that was put back to an earlier state of the registry: it is noticed by its revisions, and brought forward,
// wherever that breaks off. GATEHOUSE_TEST_REDIS_CLUSTER=1 runs it on a Cluster. Needs redis-server.
import t from 'tap';
import type { Connection } from '../../schemas/connection.ts';
import type { ExternalCheck } from '../../schemas/external-check.ts';
import type { OutgoingFeed } from '../../schemas/outgoing-feed.ts';
import type { Policy, PolicyCreate } from '../../schemas/policy.ts';
import type { SavedView } from '../../schemas/view.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { sha256Of } from '../../src/registry/accounts/api-key-text.ts';
import { ApiKeys } from '../../src/registry/accounts/api-keys.ts';
import { Agents } from '../../src/registry/agents.ts';
import { OutgoingFeeds } from '../../src/registry/alerts/outgoing-feeds.ts';
import { PriceTables } from '../../src/registry/budgets/price-tables.ts';
import { RegistryCache } from '../../src/registry/cache/cache.ts';
import { Connections } from '../../src/registry/connections.ts';
import { ExternalChecks } from '../../src/registry/external-checks.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { behindShards, bringForward, type KnownRegistry } from '../../src/registry/recovery/recovery.ts';
import type { RestoredRow } from '../../src/registry/recovery/restore.ts';
import { Views } from '../../src/registry/views.ts';
import { RedisWatch } from '../../src/stores/redis-watch.ts';
import { silent } from '../streams/harness.ts';
import { intercepted } from '../support/intercepted.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, eventually, type Store, wholeJournal } from './harness.ts';

const { address } = await startRedis(t);
const page = { limit: 100, offset: 0 };
const policy = (name: string, tool: string): PolicyCreate => ({
  ...{ name, type: 'block_action', conditions: { tool } },
  actions: ['block'],
});

/** The registry as ClickHouse has it from the journal. */
async function knownBy(store: Store): Promise<KnownRegistry> {
  const newest = new Map<string, RestoredRow>();
  for (const { account, revision, changes } of await wholeJournal(store)) {
    for (const { kind, id, record } of changes)
      newest.set(`${account}/${kind}/${id}`, { account, kind, id, revision, record });
  }
  const rows = [...newest.values()];
  const revisions = new Map<string, number>();
  for (const { account, revision } of rows) revisions.set(account, Math.max(revisions.get(account) ?? 0, revision));
  return { revisions: async () => revisions, rows: () => rows };
}

type Kept = Map<string, { value: Buffer; ttl: number }>;

async function keysOf({ redis, keys }: Store): Promise<string[]> {
  const nodes = 'nodes' in redis && typeof redis.nodes === 'function' ? redis.nodes('master') : [redis];
  return (await Promise.all(nodes.map((node) => node.keys(`{${keys.prefix}*`)))).flat();
}

async function kept(store: Store): Promise<Kept> {
  const all: Kept = new Map();
  for (const key of await keysOf(store))
    all.set(key, { value: (await store.redis.dumpBuffer(key))!, ttl: Math.max(0, await store.redis.pttl(key)) });
  return all;
}

async function putBack(store: Store, to: Kept): Promise<void> {
  for (const key of await keysOf(store)) await store.redis.del(key);
  for (const [key, { value, ttl }] of to) await store.redis.restore(key, ttl, value);
}

async function history(store: Store) {
  const { account, firstKey } = await new Accounts(store).create('acme', actor);
  const [agents, policies, apiKeys] = [new Agents(store), new Policies(store), new ApiKeys(store)];
  const id = account.id;
  const { agent: stays } = await agents.register(id, { name: 'stays' }, actor);
  const { agent: goes } = await agents.register(id, { name: 'goes' }, actor);
  const stolen = await apiKeys.create(id, { label: 'stolen', scope: 'write' }, actor);
  const created = async (name: string, tool: string) =>
    JSON.parse((await policies.create(id, policy(name, tool), actor)).answer) as Policy;
  const renamed = await created('old name', 'rm');
  const deleted = await created('deleted', 'mv');
  const views = new Views(store);
  const viewed = async (name: string) =>
    JSON.parse((await views.create(id, { name, screen: 'events', query: 'type=error' }, actor)).answer) as SavedView;
  const forgotten = await viewed('forgotten');
  const connections = new Connections(store);
  const connected = async (name: string) =>
    JSON.parse((await connections.create(id, { name }, actor)).answer) as Connection;
  const closed = await connected('closed');
  const priced = (input: string) => ({ prices: [{ model: 'm', input: `${input} USD`, output: '0 USD' }] });
  await new PriceTables(store).replace(id, priced('1'), undefined, actor);
  const checks = new ExternalChecks(store);
  const body = { speaks: 'presidio', url: 'https://presidio.example.com/analyze' } as const;
  const checked = async (name: string) =>
    JSON.parse((await checks.create(id, { name, ...body }, actor)).answer) as ExternalCheck;
  const unused = await checked('unused');
  const outgoing = new OutgoingFeeds(store);
  const place = { approvals: 0, deliveries: 0, chains: [1, 2] };
  const fed = async (name: string) => {
    const asked = { body: { name, url: 'https://siem.example.com/' }, place };
    return JSON.parse((await outgoing.create(id, asked, actor)).answer) as OutgoingFeed;
  };
  const ended = await fed('ended');
  const then = await kept(store);
  await outgoing.remove(id, ended.id, actor);
  await fed('goes on');
  await checks.remove(id, unused.id, actor);
  await checked('used');
  await connections.remove(id, closed.id, actor);
  const opened = await connected('opened');

  await views.remove(id, forgotten.id, actor);
  await viewed('night');
  await new PriceTables(store).replace(id, priced('2'), undefined, actor);
  await apiKeys.revoke(id, stolen.id, actor);
  await agents.remove(id, goes.id, actor);
  const { agent: fresh } = await agents.register(id, { name: 'fresh' }, actor);
  await agents.patch(id, stays.id, { status: 'inactive' }, actor);
  await policies.patch(id, renamed.id, { body: { name: 'new name', conditions: { tool: 'dd' } } }, actor);
  await policies.remove(id, deleted.id, actor);
  const added = await created('added', 'sudo');
  const later = await apiKeys.create(id, { label: 'later', scope: 'read' }, actor);
  await new Accounts(store).create('later', actor);
  return { account: id, firstKey, then, stays, goes, fresh, stolen, later, renamed, deleted, added, closed, opened };
}

t.test('what ClickHouse knows to be newer is in force again, and recorded in the audit log', async (t) => {
  const store = await connectStore(t, address);
  const made = await history(store);
  const { account } = made;
  const known = await knownBy(store);
  t.equal((await behindShards(store, await known.revisions())).size, 0);
  t.equal(await bringForward(store, known), 0, 'a Redis that was left alone is left alone');
  await putBack(store, made.then);
  t.ok((await behindShards(store, await known.revisions())).size >= 1);
  const cache = new RegistryCache({ address, keys: store.keys });
  t.teardown(() => cache.close());
  await cache.start();
  t.ok(await cache.principal(sha256Of(made.stolen.key)), 'the revoked key is valid again');
  const recovered = await bringForward(store, known);
  t.ok(recovered >= 15, `${recovered} records`);
  t.equal((await behindShards(store, await known.revisions())).size, 0);

  await eventually(async () => (await cache.principal(sha256Of(made.stolen.key))) === null);
  t.equal((await cache.principal(sha256Of(made.firstKey)))?.account, account);
  t.equal((await cache.principal(sha256Of(made.later.key)))?.account, account);
  const agents = new Agents(store);
  t.equal(await agents.get(account, made.goes.id), null, 'a deleted agent is deleted');
  t.ok(await store.redis.sismember(store.keys.tombstones(account), made.goes.id), 'and its events are not taken');
  t.same(await agents.erasing(account), [made.goes.id], 'and are erased');
  t.match(await agents.get(account, made.stays.id), { status: 'inactive' });
  t.equal((await agents.list(account, page)).total, 2);
  t.equal((await agents.register(account, { name: 'fresh' }, actor)).agent.id, made.fresh.id);
  t.equal((await agents.register(account, { name: 'goes' }, actor)).created, true, 'its name is free');
  const policies = new Policies(store);
  t.same(
    (await policies.list(account, page)).items.map(({ name, conditions }) => [name, conditions]),
    [
      ['added', { tool: 'sudo' }],
      ['new name', { tool: 'dd' }],
    ],
  );
  t.ok(await policies.create(account, policy('old name', 'x'), actor), 'a name that was given up is free');
  t.equal(await store.redis.scard(store.keys.activePolicies(account)), 3);
  t.ok(await new Accounts(store).byName('later'));
  const views = new Views(store);
  const prices = await new PriceTables(store).get(account);
  t.match(prices, { revision: 3, currency: 'USD', prices: [{ model: 'm', input: '2 USD' }] });
  t.match(await views.list(account, page), { total: 1, items: [{ name: 'night', query: 'type=error' }] });
  await views.create(account, { name: 'forgotten', screen: 'audit', query: '' }, actor);
  await t.rejects(views.create(account, { name: 'night', screen: 'audit', query: '' }, actor), { code: 'name_taken' });
  const connections = new Connections(store);
  t.match((await connections.list(account, page)).items, [{ id: made.opened.id, name: 'opened' }]);
  t.equal(await cache.connection(made.closed.id), null, 'a connection that was deleted is unknown');
  t.match(await cache.connection(made.opened.id), { principal: { account }, record: { name: 'opened' } });
  await t.rejects(connections.create(account, { name: 'opened' }, actor), { code: 'name_taken' });
  await connections.create(account, { name: 'closed' }, actor);
  const checks = new ExternalChecks(store);
  t.match(await checks.list(account, page), { total: 1, items: [{ name: 'used' }] });
  const [fed, ...others] = (await new OutgoingFeeds(store).list(account, page)).items;
  t.match([fed, others], [{ name: 'goes on' }, []]);
  const turns = await store.redis.zrange(store.keys.outgoingFeedTurns(store.keys.shardOf(account)), '0', '-1');
  t.same(turns, [`${account}/${fed!.id}`], 'and is sent');
  const told = (await wholeJournal(store))
    .flatMap(({ audit }) => audit)
    .filter(({ action }) => action === 'registry.recovered');
  t.equal(told.length, recovered);
  t.ok(told.some(({ resource_id: id, details }) => id === made.stolen.id && (details as { deleted: boolean }).deleted));
  t.ok(told.every(({ actor: by }) => by === 'system'));
});

t.test('wherever it breaks off, the next one goes on', async (t) => {
  const store = await connectStore(t, address);
  const made = await history(store);
  const known = await knownBy(store);
  let rounds = 0;
  await putBack(store, made.then);
  for (let calls = 2; ; calls++) {
    let left = calls;
    const redis = intercepted(store.redis, ({ name, go }) => {
      if (['evalsha', 'call', 'set', 'del'].includes(name) && --left < 0) throw new Error('killed');
      return go();
    });
    await store.redis.del(store.keys.recoveryLock()); // of the process that was killed
    const done = await bringForward({ ...store, redis }, known).then(
      () => true,
      () => false,
    );
    rounds++;
    if (done) break;
  }
  t.ok(rounds > 3, `broken off ${rounds - 1} times`);
  t.equal((await behindShards(store, await known.revisions())).size, 0);
  t.equal(await new Agents(store).get(made.account, made.goes.id), null);
  t.equal((await new Agents(store).list(made.account, page)).total, 2);
  t.equal((await new Policies(store).list(made.account, page)).total, 2);
  t.equal(
    (await new ApiKeys(store).list(made.account, page)).items.some(({ id }) => id === made.stolen.id),
    false,
  );
});

t.test('several processes that notice it do it once', async (t) => {
  const store = await connectStore(t, address);
  const made = await history(store);
  const known = await knownBy(store);
  await putBack(store, made.then);
  const others = await Promise.all(Array.from({ length: 3 }, () => connectStore(t, address, store.keys)));
  const counts = await Promise.all([store, ...others].map((one) => bringForward(one, known)));
  t.equal(counts.filter((count) => count > 0).length, 1, counts.join());
});

t.test('no request is served meanwhile, and without ClickHouse work goes on', async (t) => {
  const store = await connectStore(t, address);
  await new Accounts(store).create('acme', actor);
  let go: (recovered: number) => void = () => undefined;
  let isAway = true;
  const metrics = new Metrics({ processName: 'test' });
  const watch = new RedisWatch({
    ...{ ...store, log: silent, metrics, hasReplicas: false, hadRegistry: async () => true },
    ...{ allowUnsafe: true, mayStartUnsafe: true, otherInstallation: async () => undefined },
    recover: async (onBehind) => {
      if (isAway) throw new Error('ClickHouse is away');
      onBehind(new Map([[3, 2]]));
      return new Promise<number>((resolve) => (go = resolve));
    },
  });
  await watch.look();
  t.equal(watch.trouble, undefined, 'it cannot be asked: work goes on');
  isAway = false;
  const looked = watch.look();
  await eventually(async () => watch.trouble === 'recovering');
  t.match(watch.refusal(false), { code: 'unavailable', recorded: false }, 'reads, too: keys of yesterday are no keys');
  t.match(watch.reason, /earlier state/);
  go(2);
  await looked;
  t.equal(watch.trouble, undefined);
  t.equal(watch.refusal(true), undefined);
  t.match(await metrics.text(), /^gatehouse_recovered_total\{what="records",process="test"\} 2$/m);
  isAway = true;
  await watch.look();
  t.equal(watch.trouble, undefined, 'and it is not asked again while it is the same Redis');
});
