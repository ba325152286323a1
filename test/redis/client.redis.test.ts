// What becomes of a command when Redis dies, stalls, fills up or loads: it settles soon, says whether it may have been
// done, and is never done twice by a writer.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { REDIS_TIMEOUT_MS } from '../../src/common/limits.ts';
import { describeError } from '../../src/process/log.ts';
import {
  connectCommands,
  connectWriter,
  RedisUnavailable,
  toUnavailable,
  waitUntilReady,
} from '../../src/redis/client.ts';
import { Script } from '../../src/redis/script.ts';
import { OwnTime } from '../support/own-time.ts';
import {
  opened,
  type RedisProcess,
  startCluster,
  startRedis,
  type TestRedis,
  untilConnected,
} from '../support/redis.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const CLUSTER = process.env.GATEHOUSE_TEST_REDIS_CLUSTER === '1';

/** The server that has the key. */
async function serverOf({ servers }: TestRedis, key: string): Promise<RedisProcess> {
  if (servers.length === 1) return servers[0]!;
  for (const server of servers) {
    const client = connectWriter({ url: `redis://127.0.0.1:${server.port}`, cluster: false });
    await waitUntilReady(client, 60_000);
    const error = await client.get(key).then(
      () => undefined,
      (error: Error) => error,
    );
    client.disconnect();
    if (error === undefined) return server;
  }
  throw new Error(`no node has ${key}`);
}

/** How it failed, and after how many ms of our own. */
async function failure(promise: Promise<unknown>): Promise<{ error: RedisUnavailable; ms: number }> {
  const time = new OwnTime();
  const error = await promise.then(
    () => undefined,
    (error: unknown) => toUnavailable(error),
  );
  if (error === undefined) throw new Error('expected a failure');
  return { error, ms: time.stop() };
}

t.test('what a master of a Cluster that is away is not sent is certainly not done', async (t) => {
  const started = await startCluster(t);
  const writer = await opened(t, untilConnected(connectWriter(started.address)));
  const server = await serverOf(started, 's');
  const exited = new Promise((resolve) => server.child.once('exit', resolve));
  server.child.kill('SIGKILL');
  await exited;
  await sleep(50);
  for (let i = 0; i < 20; i++) {
    const { error, ms } = await failure(writer.xadd('s', '*', 'n', String(i)));
    t.match(error, { sent: false, canRetry: true }, error.message);
    t.ok(ms < 200, `after ${ms} ms`);
    await sleep(20);
  }
  await server.restart();
  await waitUntilReady(writer, 60_000);
  t.equal(await writer.xlen('s'), 0);
});

t.test('a command in flight when Redis dies settles at once, and it is never sent twice', async (t) => {
  const started = await startRedis(t);
  const writer = await opened(t, untilConnected(connectWriter(started.address)));
  const server = await serverOf(started, 's');
  for (let round = 1; round <= 3; round++) {
    // Stopped, Redis has the command in its socket; killed, it is unknown whether it was done.
    server.child.kill('SIGSTOP');
    const sent = failure(writer.xadd('s', '*', 'round', String(round)));
    await sleep(50);
    const exited = new Promise((resolve) => server.child.once('exit', resolve));
    server.child.kill('SIGKILL');
    const { error, ms } = await sent;
    t.ok(ms < 1_000, `settled after ${ms} ms`);
    t.match(error, { sent: true, canRetry: true });
    await exited;
    const after = await failure(writer.xadd('s', '*', 'never', 'sent'));
    t.ok(after.ms < 200, `refused after ${after.ms} ms while Redis is away`);
    t.equal(after.error.sent, false, 'what never reached a socket is certainly not done');
    await server.restart();
    await waitUntilReady(writer, 60_000);
    await writer.xadd('s', '*', 'back', String(round));
  }
  await sleep(300);
  const entries = (await writer.xrange('s', '-', '+')).map(([, fields]) => fields.join(' '));
  t.same(entries, ['back 1', 'back 2', 'back 3']);
});

t.test('an answer that is lost on the way makes one entry, not two', async (t) => {
  const { servers } = await startRedis(t, { single: true });
  const proxy = await startTcpProxy(t, servers[0]!.port);
  const writer = await opened(t, connectWriter({ url: `redis://127.0.0.1:${proxy.port}`, cluster: false }));
  const direct = await opened(t, connectCommands({ url: `redis://127.0.0.1:${servers[0]!.port}`, cluster: false }));
  for (let i = 0; i < 5; i++) {
    proxy.swallowAnswers();
    const sent = failure(writer.xadd('s', '*', 'n', String(i)));
    await sleep(30);
    proxy.cut();
    t.match((await sent).error, { sent: true });
    await waitUntilReady(writer, 60_000);
  }
  t.equal(await direct.xlen('s'), 5);
});

t.test('a Redis that stalls is given up in time, and a dead cable is noticed', async (t) => {
  const { servers } = await startRedis(t, { single: true });
  const proxy = await startTcpProxy(t, servers[0]!.port);
  const writer = await opened(t, connectWriter({ url: `redis://127.0.0.1:${proxy.port}`, cluster: false }));
  proxy.swallowAnswers();
  const start = performance.now();
  const { error, ms } = await failure(writer.xadd('s', '*', 'a', 'b'));
  t.match(error, { sent: true, canRetry: true });
  const clockMs = performance.now() - start;
  t.ok(clockMs >= REDIS_TIMEOUT_MS - 50, `not given up before ${clockMs.toFixed(0)} ms`);
  t.ok(ms < REDIS_TIMEOUT_MS + 500, `given up after ${ms} ms`);
  proxy.healNew();
  await waitUntilReady(writer, 60_000);
  t.pass('a connection that says nothing is made again');
});

t.test('a refusal for now differs from an error', async (t) => {
  const { address, servers } = await startRedis(t);
  const redis = await opened(t, connectWriter(address));
  const nodes = servers.map(({ port }) => connectWriter({ url: `redis://127.0.0.1:${port}`, cluster: false }));
  for (const node of nodes) await opened(t, node);
  const write = new Script<number>('write', `#!lua\nreturn redis.call('INCR', KEYS[1])`);
  t.equal(await write.run(redis, ['n'], []), 1);
  const onAll = (name: string, value: string) => Promise.all(nodes.map((node) => node.config('SET', name, value)));

  await onAll('maxmemory', '1');
  t.match((await failure(redis.set('k', 'v'))).error, { sent: false, canRetry: true, message: /OOM/ });
  t.match((await failure(write.run(redis, ['n'], []))).error, { sent: false, canRetry: true, message: /OOM/ });
  const drain = new Script<number>('drain', `#!lua flags=allow-oom\nreturn redis.call('DEL', KEYS[1])`);
  t.equal(await drain.run(redis, ['n'], []), 1, 'a script of the drain still runs');
  await onAll('maxmemory', '0');

  await onAll('min-replicas-to-write', '1');
  t.match((await failure(redis.set('k', 'v'))).error, { sent: false, canRetry: true, message: /NOREPLICAS/ });
  t.match((await failure(write.run(redis, ['n'], []))).error, { sent: false, canRetry: true, message: /NOREPLICAS/ });
  await onAll('min-replicas-to-write', '0');

  await redis.set('text', 'x');
  const wrong = await redis.incr('text').catch((error: unknown) => error);
  t.notOk(wrong instanceof RedisUnavailable);
  await t.rejects(write.run(redis, ['text'], []), { name: 'ReplyError' }, 'a mistake of ours comes through as it is');
  t.match(toUnavailable(wrong), { sent: false, canRetry: false });
  const reply = (message: string) => Object.assign(new Error(message), { name: 'ReplyError' });
  for (const code of ['LOADING', 'MISCONF', 'READONLY', 'CLUSTERDOWN', 'MASTERDOWN', 'TRYAGAIN']) {
    t.match(toUnavailable(reply(`${code} because`)), { sent: false, canRetry: true }, code);
  }
  t.match(toUnavailable(reply('NOAUTH Authentication required.')), { sent: false, canRetry: false });
});

t.test('what was to be written is not in the log line of its refusal', async (t) => {
  const redis = await startRedis(t);
  const client = await opened(t, connectWriter(redis.address));
  await client.set('{a}text', 'x');
  const error = await client.hset('{a}text', 'alert', '{"secret":"whsec_c2VjcmV0"}').catch((error: unknown) => error);
  t.match(describeError(error), { message: /^WRONGTYPE/, command: 'hset' });
  t.notMatch(JSON.stringify(describeError(error)), /whsec_/);
});

t.test('a script survives a Redis that has forgotten it', async (t) => {
  const { address, servers } = await startRedis(t);
  const redis = await opened(t, connectCommands(address));
  const echo = new Script<[string, null]>('echo', `#!lua\nreturn {ARGV[1], false}`);
  t.same(await echo.run(redis, ['{a}'], ['ü']), ['ü', null]);
  for (const { port } of servers) {
    const node = await opened(t, connectCommands({ url: `redis://127.0.0.1:${port}`, cluster: false }));
    await node.script('FLUSH');
  }
  t.same(await echo.run(redis, ['{a}'], ['ü']), ['ü', null]);
});

t.test('a client that Redis is not there for says so', async (t) => {
  const client = connectCommands({ url: 'redis://127.0.0.1:1', cluster: CLUSTER });
  t.teardown(() => client.disconnect());
  t.match((await failure(client.get('k'))).error, { sent: false, canRetry: true });
  await t.rejects(waitUntilReady(client, 100), { name: 'RedisUnavailable', sent: false });
});
