// Answers to writes that wait for replicas, on a real Redis Cluster of three masters with a replica each: what is
// acknowledged is there after the replica was promoted, and nothing is acknowledged that it does not have.
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import {
  acknowledging,
  type Commands,
  connectCommands,
  connectWriter,
  waitUntilReady,
} from '../../src/redis/client.ts';
import { Script } from '../../src/redis/script.ts';
import { opened, type RedisProcess, replicaOf, startCluster, startRedis, type TestRedis } from '../support/redis.ts';

const SLOT_OF_FIRST = '{a}'; // 15495: of the third master
const kept = new Script<number>('kept', "return redis.call('INCR', KEYS[1])", { acknowledges: true });

async function start(t: Test): Promise<{ redis: TestRedis; master: RedisProcess; replica: RedisProcess }> {
  const redis = await startCluster(t, { replicas: 1 });
  const master = redis.servers[2]!;
  return { redis, master, replica: await replicaOf(redis.servers, master) };
}

const add = (client: Commands, id: number) => client.xadd(`${SLOT_OF_FIRST}s`, '*', 'id', id);

t.test('a write is answered when a replica has it, and not otherwise', async (t) => {
  const { redis, replica } = await start(t);
  const writer = await opened(t, connectWriter(redis.address));
  const plain = await opened(t, connectCommands(redis.address));
  await add(writer, 1);
  replica.child.kill('SIGSTOP');
  const error = await add(writer, 2).then(
    () => undefined,
    (cause: Error) => cause,
  );
  t.equal(error?.name, 'NotReplicated');
  t.match(error?.message, /^0 of 1 replicas confirmed within 1000 ms/);
  t.ok(await plain.incr(`${SLOT_OF_FIRST}n`), 'what is acknowledged to nobody does not wait');
  await t.rejects(kept.run(plain, [`${SLOT_OF_FIRST}k`], []), { name: 'RedisUnavailable', sent: true, canRetry: true });
  replica.child.kill('SIGCONT');
  await add(writer, 3);
});

t.test('what is sent together shares a WAIT', async (t) => {
  const { redis } = await start(t);
  const writer = await opened(t, connectWriter(redis.address));
  await add(writer, 0);
  const waits = async () => {
    const node = connectCommands({ url: `redis://127.0.0.1:${redis.servers[2]!.port}`, cluster: false });
    await waitUntilReady(node, 10_000);
    const calls = /cmdstat_wait:calls=(\d+)/.exec(await node.info('commandstats'))?.[1];
    node.disconnect();
    return Number(calls ?? 0);
  };
  const before = await waits();
  for (let round = 0; round < 20; round++)
    await Promise.all(Array.from({ length: 50 }, (_, i) => add(writer, 50 * round + i)));
  const asked = (await waits()) - before;
  t.ok(asked >= 20 && asked <= 40, `${asked} for 1,000 writes, 50 at once`);
});

t.test('a master that dies ahead of its replica takes nothing along that was acknowledged', async (t) => {
  const { redis, master, replica } = await start(t);
  const writer = await opened(t, connectWriter(redis.address));
  const acknowledged = new Set<string>();
  let next = 0;
  let isOver = false;
  const load = async () => {
    while (!isOver) {
      const id = next++;
      await add(writer, id).then(
        () => acknowledged.add(String(id)),
        () => sleep(20),
      );
    }
  };
  const clients = Array.from({ length: 8 }, load);
  await sleep(300);
  replica.child.kill('SIGSTOP');
  const ofMaster = connectCommands({ url: `redis://127.0.0.1:${master.port}`, cluster: false });
  await waitUntilReady(ofMaster, 10_000);
  await ofMaster.call('CLIENT', 'KILL', 'TYPE', 'replica');
  const before = acknowledged.size;
  await sleep(300);
  ofMaster.disconnect();
  master.child.kill('SIGKILL');
  await once(master.child, 'exit');
  replica.child.kill('SIGCONT');
  const afterMs = performance.now() + 20_000;
  while (acknowledged.size < before + 100 && performance.now() < afterMs) await sleep(20);
  isOver = true;
  await Promise.all(clients);
  t.ok(acknowledged.size >= before + 100, 'the one that was promoted has no replica, and takes writes');
  const there = new Set((await writer.xrange(`${SLOT_OF_FIRST}s`, '-', '+')).map(([, fields]) => fields[1]!));
  t.same(
    [...acknowledged].filter((id) => !there.has(id)),
    [],
    `${acknowledged.size} acknowledged`,
  );
});

t.test('a replica that most masters hold to be dead holds nothing up', async (t) => {
  const { redis, replica } = await start(t);
  const commands = await opened(t, connectCommands(redis.address));
  t.not(acknowledging(commands), commands);
  replica.child.kill('SIGKILL');
  const untilMs = performance.now() + 20_000;
  let tries = 0;
  for (;;) {
    tries++;
    const done = await kept.run(commands, [`${SLOT_OF_FIRST}k`], []).catch(() => undefined);
    if (done !== undefined || performance.now() > untilMs) break;
  }
  t.ok(tries > 1, 'not before they do');
  t.ok(performance.now() < untilMs);
});

t.test('a number that was set is asked for of a single Redis, too', async (t) => {
  const { address } = await startRedis(t, { single: true });
  const strict = connectWriter({ ...address, replicas: 1 });
  t.teardown(() => strict.disconnect());
  await t.rejects(waitUntilReady(strict, 500), { cause: { name: 'NotReplicated' } });
  await t.rejects(strict.set('a', 1), { name: 'NotReplicated' });
  const commands = await opened(t, connectCommands(address));
  t.equal(acknowledging(commands), commands, 'none is asked for by itself');
  t.equal(await commands.get('a'), '1');
});

t.test('an answer that comes when the connection takes no more is settled, too', async (t) => {
  const { address } = await startRedis(t, { single: true });
  const holding = connectWriter({ ...address, replicas: 1 }) as Redis;
  t.teardown(() => holding.disconnect());
  await once(holding, 'ready');
  const added = add(holding, 1);
  // As a stream that is being ended: what is sent is refused at once, and answers still come.
  Object.defineProperty(holding.stream, 'writable', { value: false });
  const outcome = await Promise.race([added.catch((error: Error) => error.name), sleep(8_000, 'nothing')]);
  t.equal(outcome, 'NotReplicated');
});
