// With a Redis and a ClickHouse of one's own: settings that would lose events, a Redis that is emptied under the
// service, stores that are away, refuse the password or have no tables; what is said, how soon, and what continues
// afterwards.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Commands, connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import { forkEngine, startClickHouse } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';
import { OwnTime } from '../support/own-time.ts';
import { until } from '../support/raw-http.ts';
import { type RedisProcess, startRedis } from '../support/redis.ts';
import { type Environment, launchService, runCli, type TestService } from '../support/service.ts';

// Services start many times here, beside whatever else the machine does.
t.setTimeout(600_000);
const engine = await startClickHouse(t);

async function ownRedis(t: Test, ...args: string[]): Promise<{ server: RedisProcess; url: string; admin: Commands }> {
  const { servers } = await startRedis(t, { single: true, args });
  const url = `redis://127.0.0.1:${servers[0]!.port}`;
  const admin = connectCommands({ url, cluster: false });
  await waitUntilReady(admin, 60_000);
  t.teardown(() => admin.disconnect());
  return { server: servers[0]!, url, admin };
}

async function environment(t: Test, redisUrl: string) {
  const dataDir = folderOf(t);
  return {
    GATEHOUSE_DATA_DIR: dataDir,
    GATEHOUSE_PORT: '0',
    GATEHOUSE_REDIS_URL: redisUrl,
    GATEHOUSE_CLICKHOUSE_URL: engine.url,
    GATEHOUSE_CLICKHOUSE_DATABASE: `own_${process.pid}_${randomBytes(4).toString('hex')}`,
  };
}

async function serve(t: Test, env: Environment & { GATEHOUSE_DATA_DIR: string }): Promise<TestService> {
  const service = await launchService({ dataDir: env.GATEHOUSE_DATA_DIR, env });
  t.teardown(() => service.stop());
  return service;
}

type Body = {
  id: string;
  total: number;
  policy_result?: { outcome: string };
  error?: { details?: { path: string; message: string }[] };
};

function caller({ url, key }: TestService) {
  return async (method: string, where: string, body?: object) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const answer = await fetch(url + where, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Body };
  };
}

t.test('a Redis that would lose events is refused, unless it is allowed', async (t) => {
  const { url, admin } = await ownRedis(t, '--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru');
  const env = await environment(t, url);
  for (const command of ['start', 'front', 'pipelines']) {
    const { code, stderr } = await runCli([command], env);
    t.equal(code, 1, command);
    t.match(
      stderr,
      /gatehouse: .*"appendonly no".*"maxmemory-policy allkeys-lru".*GATEHOUSE_ALLOW_UNSAFE_REDIS=1 allows it/,
    );
  }
  const service = await serve(t, { ...env, GATEHOUSE_ALLOW_UNSAFE_REDIS: '1' });
  t.match(await service.log(), /gatehouse: warning: .*"appendonly no"/);
  const call = caller(service);
  t.match(await call('GET', '/readyz'), { status: 200, body: { status: 'ready', degraded: 'redis_not_durable' } });
  t.equal((await call('POST', '/v1/agents', { name: 'a' })).status, 201);
  t.match(await (await fetch(`${service.url}/metrics`)).text(), /gatehouse_redis_not_durable\{process="front-1"\} 1/);
  await admin.config('SET', 'maxmemory-policy', 'noeviction');
});

t.test('a Redis that is emptied under the service is noticed, and a restore goes on without a restart', async (t) => {
  const { server, url, admin } = await ownRedis(t);
  const env = await environment(t, url);
  const service = await serve(t, env);
  t.match(await service.log(), /gatehouse: warning: .*"appendfsync no"/);
  const call = caller(service);
  const agent = (await call('POST', '/v1/agents', { name: 'kept' })).body;
  const rule = { name: 'no shouting', type: 'block_action', conditions: { type: 'error' }, actions: ['block'] };
  t.equal((await call('POST', '/v1/policies', rule)).status, 201);
  const event = (type: string) => call('POST', `/v1/agents/${agent.id}/events`, { type, payload: { n: 1 } });
  await until(async () => (await event('error')).body.policy_result?.outcome === 'blocked');
  const total = async () => {
    const list = await call('GET', `/v1/agents/${agent.id}/events?limit=1`);
    return list.status === 200 && !list.headers.has('gatehouse-incomplete') ? list.body.total : -1;
  };
  await until(async () => (await total()) > 0);
  await until(async () => !(await call('GET', '/v1/audit-logs')).headers.has('gatehouse-incomplete'));

  const empty = async () => void (await admin.flushall());
  const folder = async () => ((await admin.config('GET', 'dir')) as string[])[1]!;
  const comesBackEmpty = async () => {
    const dir = await folder();
    const exited = once(server.child, 'exit');
    server.child.kill('SIGKILL');
    await exited;
    rmSync(path.join(dir, 'appendonlydir'), { recursive: true, force: true });
    await server.restart();
  };
  for (const [what, lose] of Object.entries({ FLUSHALL: empty, 'a restart without its files': comesBackEmpty })) {
    const before = await total();
    await lose();
    const time = new OwnTime();
    await until(
      async () =>
        (await call('GET', '/readyz')).body.error?.details?.[0]?.message !== undefined &&
        (await event('prompt')).status === 503,
    );
    await until(async () => /registry_missing/.test(JSON.stringify((await call('GET', '/readyz')).body)));
    t.ok(time.stop() < 10_000, `${what}: noticed`);
    const ready = await call('GET', '/readyz');
    t.match(ready, {
      status: 503,
      body: { error: { details: [{ path: 'redis', message: /registry_missing.*registry restore/ }] } },
    });
    t.match(await event('error'), {
      status: 503,
      body: { error: { code: 'unavailable', recorded: false, message: /registry_missing/ } },
    });
    t.equal((await call('GET', '/v1/agents')).status, 503, 'a known key is not called unknown');
    const counted = /gatehouse_registry_missing\{process="pipelines"\} 1/;
    await until(async () => counted.test(await (await fetch(`${service.url}/metrics`)).text()));
    const made = await runCli(['account', 'create', 'hides-it'], env);
    t.match(made, { code: 1, stderr: /registry restore/ }, 'no account is made where one was lost');

    const restored = await runCli(['registry', 'restore'], env);
    t.match(restored, { code: 0, stdout: /^restored .*"agent":[12],"policy":1/ }, restored.stderr);
    await until(async () => (await call('GET', '/readyz')).status === 200);
    t.match((await event('error')).body.policy_result, { outcome: 'blocked' }, 'the policy holds');
    t.equal((await event('prompt')).status, 201);
    await until(async () => (await total()) >= before + 2);
    t.match(await call('GET', `/v1/agents/${agent.id}`), { status: 200, body: { name: 'kept' } });
    t.equal((await call('POST', '/v1/agents', { name: `after ${what}` })).status, 201);
    await until(async () => !(await call('GET', '/v1/audit-logs')).headers.has('gatehouse-incomplete'));
  }
});

t.test(
  'a store that is away is named with its reason after 2 s, every 5 s, and at the end with its setting',
  async (t) => {
    const redis = await ownRedis(t);
    const away = {
      GATEHOUSE_REDIS_URL: 'redis://someone:hush@127.0.0.1:1',
      GATEHOUSE_CLICKHOUSE_URL: 'http://someone:hush@127.0.0.1:1',
    };
    const env = await environment(t, redis.url);
    const [ofRedis, ofClickHouse] = await Promise.all([
      runCli(['account', 'create', 'x'], { ...env, GATEHOUSE_REDIS_URL: away.GATEHOUSE_REDIS_URL }),
      runCli(['start'], { ...env, GATEHOUSE_CLICKHOUSE_URL: away.GATEHOUSE_CLICKHOUSE_URL }),
    ]);
    for (const [name, { code, stderr }, address] of [
      ['Redis', ofRedis, 'redis://127.0.0.1:1'],
      ['ClickHouse', ofClickHouse, 'http://127.0.0.1:1'],
    ] as const) {
      t.equal(code, 1);
      const lines = stderr.split('\n').filter((line) => line.startsWith('gatehouse: ') && !line.includes('warning'));
      t.match(
        lines[0],
        new RegExp(`waiting for ${name} at ${address} since 2 s: nothing listens there .ECONNREFUSED.`),
      );
      t.ok(lines.length >= 5 && lines.length <= 8, `${name}: ${lines.length} lines in 30 s`);
      t.match(
        lines.at(-1),
        new RegExp(
          `${name} at ${address} was not ready within 3\\d s: .*; GATEHOUSE_${name.toUpperCase()}_URL names it`,
        ),
      );
      t.notMatch(stderr, /hush/);
    }
  },
);

t.test('a wrong password is said to be one, at once', async (t) => {
  const { url, admin } = await ownRedis(t);
  await admin.config('SET', 'requirepass', 'right');
  const env = await environment(t, url);
  const host = url.replace('redis://', '');
  for (const given of [`redis://:wrong@${host}`, url]) {
    for (const command of [['front'], ['pipelines'], ['start'], ['account', 'create', 'x']]) {
      const { code, stderr } = await runCli(command, { ...env, GATEHOUSE_REDIS_URL: given });
      t.equal(code, 1, command.join(' '));
      t.match(
        stderr,
        new RegExp(`gatehouse: Redis at ${url}: user or password is refused .(WRONGPASS|NOAUTH).*GATEHOUSE_REDIS_URL`),
      );
      t.notMatch(stderr, /waiting for|wrong@/);
    }
  }
  const folder = path.join(folderOf(t), 'data');
  const locked = await forkEngine({ path: folder, port: 0, password: 'right' });
  t.teardown(() => locked.stop('SIGTERM'));
  const given = locked.url.replace('http://', 'http://default:wrong@');
  const refused = await runCli(['migrate'], {
    ...env,
    GATEHOUSE_REDIS_URL: `redis://:right@${host}`,
    GATEHOUSE_CLICKHOUSE_URL: given,
  });
  t.match(refused, {
    code: 1,
    stderr: new RegExp(`^gatehouse: ClickHouse at ${locked.url}: user or password is refused`),
  });
});

t.test('/readyz distinguishes schema, credentials and reachability, within 2 s whatever hangs', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  const own = await forkEngine({ path: folder, port: 0 });
  t.teardown(() => own.stop('SIGKILL'));
  const { server, url, admin } = await ownRedis(t);
  const env = { ...(await environment(t, url)), GATEHOUSE_CLICKHOUSE_URL: own.url };
  const service = await serve(t, env);
  const call = caller(service);
  const database = env.GATEHOUSE_CLICKHOUSE_DATABASE;
  /** An answer is given for 200 ms. */
  const fault = async () => {
    await sleep(250);
    return (await call('GET', '/readyz')).body.error?.details;
  };
  const sql = (query: string) => fetch(own.url, { method: 'POST', body: query }).then((answer) => answer.text());

  await sql(`DROP TABLE ${database}.anomalies SYNC`);
  t.match(await fault(), [
    { path: 'clickhouse', message: /^schema: there is no table anomalies in .*gatehouse migrate/ },
  ]);
  await sql(`DROP DATABASE ${database} SYNC`);
  t.match(await fault(), [{ path: 'clickhouse', message: /^schema: there is no database/ }]);
  const migrated = await runCli(['migrate'], env);
  t.equal(migrated.code, 0, migrated.stderr);
  t.equal(await fault(), undefined, 'and it is mended while the service runs');

  own.child.kill('SIGSTOP');
  server.child.kill('SIGSTOP');
  const started = performance.now();
  const time = new OwnTime();
  t.match(await fault(), [
    { path: 'redis', message: /^reachability: / },
    { path: 'clickhouse', message: /^reachability: / },
  ]);
  t.ok(time.stop() < 2_000, `answered after ${Math.round(performance.now() - started)} ms`);
  own.child.kill('SIGCONT');
  server.child.kill('SIGCONT');
  await until(async () => (await call('GET', '/readyz')).status === 200);

  await admin.config('SET', 'requirepass', 'changed');
  await (admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'no') as Promise<unknown>).catch(() => undefined);
  await until(async () => /^credentials: /.test((await fault())?.find((one) => one.path === 'redis')?.message ?? ''));
  t.pass('credentials');
});
