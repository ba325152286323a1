// Failovers under load, with the default settings (`npm run test:cluster`): a Redis Cluster whose master dies ahead of
// its replica, or is cut off, and a single Redis with an older file. What was acknowledged is stored, once, and no
// change of the registry that was acknowledged is undone.
import { once } from 'node:events';
import { cpSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import { eventually } from '../streams/harness.ts';
import { putBack, type RedisProcess, replicaOf, startCluster, startRedis, startSentinels } from '../support/redis.ts';
import { canMakeNetworks, makeNetworks } from './networks.ts';
import { environmentOf, type Scenario, startScenario } from './scenario.ts';

t.setTimeout(900_000);

async function check(t: Test, scenario: Scenario): Promise<void> {
  const { events, records } = scenario;
  t.comment(`${events.size} events and ${records.size} records acknowledged; answers ${scenario.said()}`);
  t.same(await scenario.compare(), { missing: 0, twice: 0, undone: [] });
  t.match(await scenario.verify(), { valid: true, faults: 0 });
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
    const scenario = await startScenario(t, environmentOf(redis.address));
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
  const scenario = await startScenario(t, environmentOf(redis.address));
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
  const scenario = await startScenario(t, environmentOf(redis.address));
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
  const scenario = await startScenario(t, environmentOf(redis.address));
  scenario.start();
  await sleep(3_000);
  const kept = path.join(server!.folder, 'kept');
  // In the middle of batches: with events whose manifest or acknowledgement is not in it.
  cpSync(path.join(server!.folder, 'appendonlydir'), kept, { recursive: true });
  await sleep(3_000);
  await scenario.stop();
  t.match(await scenario.compare(), { missing: 0, twice: 0, undone: [] });
  await putBack(server!, kept);
  scenario.start();
  t.comment(`all partitions and the registry are served ${await scenario.untilBack()} ms after the start of Redis`);
  await sleep(5_000);
  await scenario.stop();
  await check(t, scenario);
});
