// `gatehouse start` as a whole: started, started again, refused, its children killed one by one, killed itself, stopped
// leave.

import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { LOWERED_NICE } from '../../src/embedded/adaptive-priority.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { NICE } from '../../src/embedded/process-priority.ts';
import { isAlive } from '../support/alive.ts';
import { folderOf } from '../support/folder.ts';
import { listening } from '../support/listening.ts';
import { hasOwnStores, launchService, runCli, spawnCli, startService, type TestService } from '../support/service.ts';

/**
 * Promised are 5 s on a machine that does nothing else, where Node takes 0.08 s to say our version: so the best of some
 * starts counts.
 */
const SECOND_START_MS_MAX = 5_000;
const VERSION_MS = 80;
const STARTS_MAX = 5;

async function dataDirOf(t: Test): Promise<string> {
  const folder = folderOf(t);
  return folder;
}

type Answer = { status: number; body: Record<string, never> & { id: string; total: number } };

async function call(
  service: Pick<TestService, 'url' | 'key'>,
  method: string,
  where: string,
  body?: unknown,
): Promise<Answer> {
  const response = await fetch(service.url + where, {
    method,
    headers: { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? {} : JSON.parse(text) };
}

async function eventually(
  t: Test,
  promise: string,
  check: () => Promise<boolean> | boolean,
  ms = 120_000,
): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (!(await Promise.resolve(check()).catch(() => false))) {
    if (performance.now() > deadline) return t.fail(promise);
    await sleep(50);
  }
  return t.pass(promise);
}

t.test(
  'the first start keeps an admin key for its owner alone, in no log; the second start finds everything',
  async (t) => {
    const dataDir = await dataDirOf(t);
    const env = { GATEHOUSE_BOOTSTRAP_KEY: undefined, GATEHOUSE_BACKTESTS: '1', GATEHOUSE_LOG_LEVEL: 'debug' };
    const first = await launchService({ dataDir, env });
    const key = /^(gth_[A-Za-z0-9]{40})\n$/.exec(readFileSync(path.join(dataDir, 'admin-key'), 'utf8'))?.[1];
    t.ok(key, 'kept');
    t.match(first.printed(), `ready at ${first.url}`);
    t.match(first.printed(), `made at the first start, kept in ${path.join(dataDir, 'admin-key')}`);
    t.equal(statSync(path.join(dataDir, 'admin-key')).mode & 0o777, 0o600);
    t.equal(statSync(path.join(dataDir, 'runtime.json')).mode & 0o777, 0o600);
    const made = await call({ url: first.url, key: key! }, 'POST', '/v1/agents', { name: 'kept' });
    t.equal(made.status, 201);
    t.equal(
      (
        await call({ url: first.url, key: key! }, 'POST', `/v1/agents/${made.body.id}/events`, {
          type: 'custom',
          payload: {},
        })
      ).status,
      201,
    );
    t.same(await first.stop(), { code: 0, signal: null }, 'SIGTERM: it leaves with status 0');
    t.notMatch(`${await first.log()}${first.printed()}`, /gth_/, 'no key where there is no terminal');
    t.notMatch(await first.log(), /start_failed/, 'a process that was still starting is no error');
    t.notOk(existsSync(path.join(dataDir, 'runtime.json')));

    const { second, tries } = await startedInTime(dataDir);
    t.ok(tries.at(-1)!.share < 1, `ready in time: ${JSON.stringify(tries)}`);
    t.match(second.printed(), `kept in ${path.join(dataDir, 'admin-key')}`);
    t.equal((await call({ url: second.url, key: key! }, 'GET', `/v1/agents/${made.body.id}`)).status, 200);
    const events = await whole({ url: second.url, key: key! }, `/v1/agents/${made.body.id}/events`);
    t.equal(events.total, 1);
    t.same(await second.stop(), { code: 0, signal: null });
  },
);

/**
 * Starts again on a data folder until a start took no longer than it may, by how slow this machine was before and after
 * it.
 */
async function startedInTime(dataDir: string) {
  const tries: { ms: number; slowed: number; share: number }[] = [];
  for (;;) {
    const before = await timed(() => runCli(['version'], {}));
    let second!: TestService;
    const ms = await timed(async () => {
      second = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: undefined } });
    });
    const slowed = Math.max(1, before / VERSION_MS, (await timed(() => runCli(['version'], {}))) / VERSION_MS);
    tries.push({ ms: Math.round(ms), slowed: Math.round(slowed), share: ms / (SECOND_START_MS_MAX * slowed) });
    if (tries.at(-1)!.share < 1 || tries.length === STARTS_MAX) return { second, tries };
    await second.stop();
  }
}

/** A list that is not behind. */
async function whole(service: Pick<TestService, 'url' | 'key'>, where: string): Promise<{ total: number }> {
  const until = performance.now() + 120_000;
  for (;;) {
    const response = await fetch(service.url + where, { headers: { Authorization: `Bearer ${service.key}` } });
    const body = (await response.json()) as { total: number };
    const isWhole = response.ok && !response.headers.has('gatehouse-incomplete');
    if (isWhole || performance.now() > until) return body;
    await sleep(50);
  }
}

t.test('a start that cannot be is refused with a sentence', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const refusedStart = async (env: Record<string, string>) => {
    const { code, stderr } = await runCli(['start'], { GATEHOUSE_LOG_LEVEL: 'error', ...env });
    t.equal(code, 1);
    return stderr;
  };
  const second = await refusedStart({ GATEHOUSE_DATA_DIR: service.dataDir, GATEHOUSE_PORT: '0' });
  t.equal(
    second,
    `gatehouse: ${service.dataDir} is in use by the Gatehouse with process id ${service.pid}; stop it first.\n`,
  );
  t.equal((await call(service, 'GET', '/v1/agents')).status, 200, 'the first one goes on');

  const { port } = new URL(service.url);
  const sentence =
    /^gatehouse: cannot listen on 127\.0\.0\.1:\d+: another program listens there\. GATEHOUSE_PORT and GATEHOUSE_HOST choose another\.\n$/;
  const shared = await refusedStart({ GATEHOUSE_DATA_DIR: await dataDirOf(t), GATEHOUSE_PORT: port });
  t.match(shared, sentence, 'a port of another Gatehouse, which the fronts would share without a word');

  const taken = String(await listening(t, net.createServer()));
  const refused = await refusedStart({ GATEHOUSE_DATA_DIR: await dataDirOf(t), GATEHOUSE_PORT: taken });
  t.match(refused, sentence, 'a port of any other program');

  const notFolder = path.join(service.dataDir, 'runtime.json', 'data');
  const unwritable = await refusedStart({ GATEHOUSE_DATA_DIR: notFolder, GATEHOUSE_PORT: '0' });
  t.match(unwritable, `gatehouse: cannot create the data folder ${notFolder} (ENOTDIR); GATEHOUSE_DATA_DIR names it.`);
});

/** Loaded into the supervisor: takes the second and the third port that it looks up the moment it has looked. */
const FASTER_STRANGER = `
import net from 'node:net';
const listen = net.Server.prototype.listen;
let looks = 0;
if (process.argv[2] === 'start') {
  net.Server.prototype.listen = function (options, ...rest) {
    const isTaken = options?.exclusive && (++looks === 2 || looks === 3);
    if (isTaken) this.once('close', () => listen.call(net.createServer().unref(), options));
    return listen.call(this, options, ...rest);
  };
}`;

t.test('engines whose ports were taken just after they were looked up start on others', async (t) => {
  if (!hasOwnStores()) return void t.pass('with the embedded engines alone');
  const file = path.join(await dataDirOf(t), 'faster-stranger.mjs');
  writeFileSync(file, FASTER_STRANGER);
  const service = await startService(t, {
    stores: 'own',
    env: { NODE_OPTIONS: `--import ${file}`, GATEHOUSE_BACKTESTS: '1' },
  });
  t.equal((await call(service, 'GET', '/v1/agents')).status, 200);
  const names = (await service.children()).map(({ name }) => name);
  t.same(names.sort(), ['backtests', 'clickhouse', 'front-1', 'pipelines', 'redis'], 'each once');
  const { redisUrl, clickhouseUrl } = await service.addresses();
  const [own, redis, clickhouse] = [service.url, redisUrl, clickhouseUrl].map((url) => Number(new URL(url).port));
  const strangers = [own! + 1, own! + 2];
  t.notOk(strangers.includes(redis!) || strangers.includes(clickhouse!), "the two ports behind it are the stranger's");
});

const NO_GROUPS = !existsSync('/proc/self/autogroup') && 'a kernel without autogroups';

t.test(
  'pipelines run at a lower priority while storing keeps up, and less when they stand still',
  { skip: NO_GROUPS },
  async (t) => {
    const service = await startService(t, { stores: 'own' });
    const { pid } = (await service.children()).find(({ name }) => name === 'pipelines')!;
    const nice = () => Number(/nice (-?\d+)/.exec(readFileSync(`/proc/${pid}/autogroup`, 'utf8'))![1]);
    const agent = (await call(service, 'POST', '/v1/agents', { name: 'busy' })).body.id;
    await eventually(t, 'they are lowered', async () => {
      await call(service, 'POST', `/v1/agents/${agent}/events`, { type: 'custom', payload: {} });
      return nice() === LOWERED_NICE.pipelines;
    });
    process.kill(pid, 'SIGSTOP');
    try {
      await eventually(t, 'they have their usual weight back', () => nice() === NICE.pipelines);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  },
);

t.test('whatever child is killed comes back, the others go on, and no acknowledged event is lost', async (t) => {
  const service = await startService(t, { stores: 'own', env: { GATEHOUSE_FRONTS: '2', GATEHOUSE_BACKTESTS: '1' } });
  const agent = (await call(service, 'POST', '/v1/agents', { name: 'survivor' })).body.id;
  const submit = async (n: number) =>
    (await call(service, 'POST', `/v1/agents/${agent}/events`, { type: 'custom', payload: { n } })).status === 201;
  let acknowledged = 0;
  const names = (await service.children()).map(({ name }) => name);
  t.match(names.join(' '), /pipelines backtests front-1 front-2$/);
  for (const name of names) {
    const before = await service.children();
    const victim = before.find((child) => child.name === name)!;
    if (await submit(acknowledged).catch(() => false)) acknowledged++;
    process.kill(victim.pid, 'SIGKILL');
    await eventually(t, `${name} is there again`, async () => {
      const now = (await service.children()).find((child) => child.name === name);
      return now !== undefined && now.pid !== victim.pid;
    });
    await eventually(t, `events are taken after ${name} was killed`, async () => {
      const taken = await submit(acknowledged);
      if (taken) acknowledged++;
      return taken;
    });
    await eventually(t, 'ready', async () => (await fetch(`${service.url}/readyz`)).ok);
    const after = await service.children();
    t.same(
      after.filter((child) => child.name !== name),
      before.filter((child) => child.name !== name),
      'the others were left alone',
    );
  }
  let listed = '';
  const isWhole = await eventually(t, `all ${acknowledged} acknowledged events are listed`, async () => {
    const { status, body } = await call(service, 'GET', `/v1/agents/${agent}/events`);
    listed = `${status} ${JSON.stringify(body)}`;
    return status === 200 && body.total >= acknowledged;
  });
  if (!isWhole) t.comment(listed, (await service.log()).slice(-20_000));
});

t.test('one scrape shows all processes, whichever front answers', async (t) => {
  const service = await startService(t, { stores: 'own', env: { GATEHOUSE_FRONTS: '2', GATEHOUSE_BACKTESTS: '1' } });
  const agent = (await call(service, 'POST', '/v1/agents', { name: 'counted' })).body.id;
  const events = Array.from({ length: 5 }, (_, n) => ({ type: 'custom', payload: { n } }));
  t.equal((await call(service, 'POST', `/v1/agents/${agent}/events/batch`, events)).status, 200);
  await whole(service, `/v1/agents/${agent}/events`);
  for (let i = 0; i < 4; i++) {
    const names = ['supervisor', 'front-1', 'front-2', 'pipelines', 'backtests'];
    let text = '';
    // A process that does not answer in time is left out of a scrape.
    await eventually(t, `scrape ${i} shows ${names}`, async () => {
      text = await (await fetch(`${service.url}/metrics`, { headers: { Connection: 'close' } })).text();
      const isStored = sum(text, 'gatehouse_stored_rows_total', 'table="events"') >= 5;
      return isStored && names.every((name) => text.includes(`gatehouse_up{process="${name}"} 1`));
    });
    t.equal(sum(text, 'gatehouse_accepted_events_total'), 5);
    t.equal(sum(text, 'gatehouse_stored_rows_total', 'table="events"'), 5, 'accepted is stored');
  }
});

t.test('fronts and pipelines run apart from the supervisor, each with its metrics on a port of its own', async (t) => {
  const service = await startService(t, { stores: 'own', env: { GATEHOUSE_METRICS_PORT: String(await freePort()) } });
  t.equal((await fetch(`${service.url}/metrics`)).status, 404, 'not on the public port');
  const apart = async (command: string) => {
    const ports = { GATEHOUSE_PORT: String(await freePort()), GATEHOUSE_METRICS_PORT: String(await freePort()) };
    const child = spawnCli([command], {
      GATEHOUSE_DATA_DIR: service.dataDir,
      GATEHOUSE_PROCESS_NAME: 'apart',
      GATEHOUSE_DRAIN_SECONDS: '5',
      ...ports,
    });
    t.teardown(() => child.kill('SIGKILL'));
    const metrics = async () => (await fetch(`http://127.0.0.1:${ports.GATEHOUSE_METRICS_PORT}/metrics`)).text();
    await eventually(t, `${command} serves its metrics`, async () =>
      (await metrics()).includes('gatehouse_up{process='),
    );
    return { child, metrics, url: `http://127.0.0.1:${ports.GATEHOUSE_PORT}` };
  };
  const front = await apart('front');
  t.equal(
    (await call({ url: front.url, key: service.key }, 'GET', '/v1/agents')).status,
    200,
    'a front beside the first',
  );
  const pipelines = await apart('pipelines');
  await eventually(t, 'a second pipelines process takes its share of the streams', async () => {
    return sum(await pipelines.metrics(), 'gatehouse_partitions_owned', 'group="store"') === 12; // half of 8 event and 16 journal streams
  });
  const ended = [front, pipelines].map(({ child }) => once(child, 'exit') as Promise<[number | null]>);
  for (const { child } of [front, pipelines]) child.kill('SIGTERM');
  await eventually(t, 'load balancers are sent away from the front', async () => {
    const { status, body } = await call({ url: front.url, key: service.key }, 'GET', '/readyz');
    return status === 503 && JSON.stringify(body).includes('leaving: this process was asked to end');
  });
  t.equal((await call({ url: front.url, key: service.key }, 'GET', '/v1/agents')).status, 200, 'it still serves');
  t.same(
    (await Promise.all(ended)).map(([code]) => code),
    [0, 0],
  );
});

t.test('killed itself, it leaves nothing behind that keeps the next start from its data', async (t) => {
  const dataDir = await dataDirOf(t);
  const first = await launchService({ dataDir });
  const agent = (await call(first, 'POST', '/v1/agents', { name: 'kept' })).body.id;
  t.equal((await call(first, 'POST', `/v1/agents/${agent}/events`, { type: 'custom', payload: {} })).status, 201);
  const children = await first.children();
  process.kill(first.pid, 'SIGKILL');
  const second = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: first.key } });
  t.teardown(() => second.stop());
  t.equal((await whole(second, `/v1/agents/${agent}/events`)).total, 1);
  await eventually(t, 'all children of the first one are gone', () => children.every(({ pid }) => !isAlive(pid)));
});

t.test('stopped under load it answers what it accepted, ends with status 0, and nothing is lost', async (t) => {
  const dataDir = await dataDirOf(t);
  const first = await launchService({ dataDir });
  const agent = (await call(first, 'POST', '/v1/agents', { name: 'busy' })).body.id;
  let acknowledged = 0;
  let refused = 0;
  let leaving = false;
  const clients = Array.from({ length: 8 }, async () => {
    while (!leaving) {
      const answer = await call(first, 'POST', `/v1/agents/${agent}/events`, { type: 'custom', payload: {} }).catch(
        () => undefined,
      );
      if (answer?.status === 201) acknowledged++;
      else if (answer !== undefined) refused++;
      else await sleep(20);
    }
  });
  await sleep(1_000);
  const startedMs = performance.now();
  const exit = await first.stop();
  const tookMs = performance.now() - startedMs;
  leaving = true;
  await Promise.all(clients);
  t.same(exit, { code: 0, signal: null });
  t.ok(tookMs < 25_000, `left in ${Math.round(tookMs)} ms`);
  t.equal(refused, 0, `${acknowledged} acknowledged, none refused`);
  const second = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: first.key } });
  t.teardown(() => second.stop());
  const { total } = await whole(second, `/v1/agents/${agent}/events`);
  t.ok(total >= acknowledged, `${total} listed of ${acknowledged} acknowledged`);
});

async function timed(action: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await action();
  return performance.now() - startedMs;
}

function sum(text: string, name: string, label = ''): number {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(label));
  return lines.reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
}
