// Failovers under load, with the default settings (`npm run test:cluster`): a Redis Cluster whose master dies ahead of
// its replica, or is cut off, and a single Redis with an older file. What was acknowledged is stored, once, and no
// change of the registry that was acknowledged is undone; no sequence has matched too rarely, and no unit of a budget
// is lost or charged twice.
import { once } from 'node:events';
import { cpSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import { eventually } from '../streams/harness.ts';
import {
  putBack,
  putClusterBack,
  type RedisProcess,
  replicaOf,
  restricted,
  startCluster,
  startRedis,
  startSentinels,
  type TestRedis,
} from '../support/redis.ts';
import { canMakeNetworks, makeNetworks } from './networks.ts';
import { environmentOf, type Scenario, startScenario } from './scenario.ts';

t.setTimeout(1_200_000);

async function check(t: Test, scenario: Scenario): Promise<void> {
  const { events, records } = scenario;
  t.comment(`${events.size} events and ${records.size} records acknowledged; answers ${scenario.said()}`);
  t.same(await scenario.compare(), { missing: 0, twice: 0, undone: [] });
  const overTime = await scenario.overTime();
  if (overTime !== undefined) {
    const { matched, charged, wrong } = overTime;
    t.same(wrong, [], `${matched} matches of a sequence, ${charged} tokens charged`);
    t.ok(matched > 0 && charged > 0);
  }
  const verified = await scenario.verify();
  t.match(verified, { valid: true, faults: 0 }) || t.comment(JSON.stringify(verified));
}

async function untilPromoted({ host, port }: RedisProcess): Promise<void> {
  const node = connectCommands({ url: `redis://${host}:${port}`, cluster: false });
  await waitUntilReady(node, 30_000);
  // Sentinel closes connections as it promotes.
  while (!(await node.info('replication').catch(() => '')).includes('role:master')) await sleep(20);
  node.disconnect();
}

/** The replica stands still and loses its link, the master works for so long without it and dies. */
async function dieAhead(master: RedisProcess, replica: RedisProcess, behindMs: number): Promise<void> {
  replica.child.kill('SIGSTOP');
  const node = connectCommands({ url: `redis://${master.host}:${master.port}`, cluster: false });
  await waitUntilReady(node, 10_000);
  await node.call('CLIENT', 'KILL', 'TYPE', 'replica');
  await sleep(behindMs);
  node.disconnect();
  master.child.kill('SIGKILL');
  await once(master.child, 'exit');
  replica.child.kill('SIGCONT');
  await untilPromoted(replica);
}

for (const behindMs of [100, 300, 1_000]) {
  t.test(`a master dies ${behindMs} ms ahead of its replica`, async (t) => {
    const redis = await startCluster(t, { replicas: 1 });
    const scenario = await startScenario(t, environmentOf(await restricted(t, redis)));
    scenario.start();
    await sleep(5_000);
    const master = redis.servers[0]!;
    await dieAhead(master, await replicaOf(redis.servers, master), behindMs);
    t.comment(`all partitions and the registry are served ${await scenario.untilBack()} ms after the promotion`);
    await sleep(5_000);
    await scenario.stop();
    await check(t, scenario);
  });
}

t.test('Sentinels replace a master that dies 300 ms ahead of its replica', async (t) => {
  const redis = await startSentinels(t);
  const [master, replica] = redis.servers as [RedisProcess, RedisProcess];
  const scenario = await startScenario(t, environmentOf(await restricted(t, redis)));
  scenario.start();
  await sleep(5_000);
  await dieAhead(master, replica, 300);
  t.comment(`all partitions and the registry are served ${await scenario.untilBack()} ms after the promotion`);
  await sleep(5_000);
  await scenario.stop();
  await check(t, scenario);
});

const skip = canMakeNetworks() ? false : 'network namespaces need root and iproute2';

t.test('a master is cut off from the others, and not from the fronts', { skip }, async (t) => {
  const networks = makeNetworks(t);
  const placeOf = (server: number) => (server === 0 ? networks.one : networks.other);
  const redis = await startCluster(t, { replicas: 1, placeOf, args: ['--protected-mode', 'no'] });
  const scenario = await startScenario(t, environmentOf(await restricted(t, redis)));
  scenario.start();
  await sleep(5_000);
  const replica = await replicaOf(redis.servers, redis.servers[0]!);
  networks.cut();
  await untilPromoted(replica);
  t.comment(`all partitions and the registry are served ${await scenario.untilBack()} ms after the promotion`);
  t.ok(await eventually(async () => (await scenario.call('GET', '/readyz')).status === 200, 10_000));
  await sleep(5_000);
  await scenario.stop();
  await check(t, scenario);
});

t.test('a Redis is put back to an older file, when all that it held is stored', async (t) => {
  const redis = await startRedis(t, { single: true });
  const [server] = redis.servers;
  await checkPutBack(t, redis, (kept) => putBack(server!, kept.get(server!)!));
});

t.test('every master of a Cluster is put back to an older file, and its replica is empty', async (t) => {
  const redis = await startCluster(t, { replicas: 1 });
  await checkPutBack(t, redis, (kept) => putClusterBack(redis.servers, kept));
});

type Kept = ReadonlyMap<RedisProcess, string>;

/**
 * Files of the masters are copied under load; what is acknowledged until later is stored, and then they are put back.
 */
async function checkPutBack(t: Test, redis: TestRedis, back: (kept: Kept) => Promise<void>): Promise<void> {
  // What budgets lack then `gatehouse budgets check` shows (docs/budgets.md).
  const scenario = await startScenario(t, environmentOf(await restricted(t, redis)), false);
  scenario.start();
  await sleep(3_000);
  const masters = redis.address.cluster ? redis.servers.slice(0, redis.servers.length / 2) : redis.servers;
  const kept = new Map(masters.map((server) => [server, path.join(server.folder, 'kept')]));
  // In the middle of batches: with events whose manifest or acknowledgement is not in it.
  for (const [{ folder }, copy] of kept) cpSync(path.join(folder, 'appendonlydir'), copy, { recursive: true });
  await sleep(3_000);
  await scenario.stop();
  t.match(await scenario.compare(), { missing: 0, twice: 0, undone: [] });
  await back(kept);
  scenario.start();
  t.comment(`all partitions and the registry are served ${await scenario.untilBack()} ms after the start of Redis`);
  await sleep(5_000);
  await scenario.stop();
  await check(t, scenario);
}
