// An installation for production, made as docs/deploy.md and ops/Containerfile say: the build and the packages that run
// it, without a database engine of its own. It is measured, and then runs a front and pipelines on a Redis and a
// ClickHouse that are given. It is skipped, and says so, where packages can be had neither from npm's cache nor from a
// registry.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { freePort } from '../src/embedded/free-port.ts';
import { assetPath } from '../src/process/assets.ts';
import { startClickHouse } from './support/clickhouse.ts';
import { folderOf } from './support/folder.ts';
import { startRedis } from './support/redis.ts';
import { serviceEnvironment } from './support/service.ts';

const CONTAINERFILE = readFileSync(assetPath('ops/Containerfile'), 'utf8');
/** The files of an image, but for the packages. */
const SHIPPED = [...CONTAINERFILE.matchAll(/^COPY --from=build (.+) \S+$/gm)]
  .flatMap(([, from]) => from!.split(' '))
  .map((file) => path.relative('/gatehouse', file))
  .filter((file) => file !== 'node_modules');
/** By which a container says whether it lives. */
const HEALTHCHECK = JSON.parse(/^HEALTHCHECK .* CMD (\[.+\])$/m.exec(CONTAINERFILE)![1]!) as string[];
const INSTALL = / && npm (ci --omit\S+ --omit\S+)$/m.exec(CONTAINERFILE)![1]!.split(' ');
const DISK_MB_MAX = 80;
const INSTALL_MS_MAX = 240_000;
const READY_MS_MAX = 60_000;
const NO_REGISTRY = /E(NOTFOUND|CONNREFUSED|AI_AGAIN|TIMEDOUT|NETUNREACH|NOTCACHED)/;

t.test('an installation for production is small, and runs on stores of its own', async (t) => {
  const folder = await installed(t);
  if (folder === undefined) return;
  const modules = path.join(folder, 'node_modules');
  const mb = diskBytes(modules) / 2 ** 20;
  t.ok(mb <= DISK_MB_MAX, `node_modules takes ${mb.toFixed(1)} MB, at most ${DISK_MB_MAX}`);
  for (const name of ['chdb', '@chdb', 'typescript', 'tap'])
    t.notOk(existsSync(path.join(modules, name)), `no ${name}`);

  const env = await stores(t);
  const cli = (...args: string[]) =>
    promisify(execFile)(process.execPath, ['build/service/cli.js', ...args], {
      cwd: folder,
      env: serviceEnvironment(env),
    });
  await cli('migrate');
  const { stdout } = await cli('account', 'create', 'shop');
  const key = /^key (\S+)$/m.exec(stdout)![1]!;
  const url = `http://127.0.0.1:${env.GATEHOUSE_PORT}`;
  const ports = { front: String(await freePort()), pipelines: String(await freePort()) };
  const processes = Object.entries(ports).map(([command, port]) =>
    run(t, folder, command, { ...env, GATEHOUSE_METRICS_PORT: port }),
  );
  await until(`${url}/readyz`, processes);
  const [program, ...args] = HEALTHCHECK as [string, ...string[]];
  const health = (port: string) =>
    promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, GATEHOUSE_METRICS_PORT: port } });
  for (const [command, port] of Object.entries(ports)) await t.resolves(health(port), `${command} lives`);
  await t.rejects(health(String(await freePort())), { code: 1 }, 'where nothing answers it does not');

  const ask = async (method: string, where: string, body?: object) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    return (await fetch(url + where, { method, headers, ...sent })).json() as Promise<Record<string, unknown>>;
  };
  const agent = (await ask('POST', '/v1/agents', { name: 'small' }))['id'];
  const event = await ask('POST', `/v1/agents/${agent}/events`, {
    type: 'prompt',
    payload: { prompt: 'Is it there?' },
  });
  t.match(event, { policy_result: { outcome: 'allowed' } }, 'an event goes in');
  let listed: Record<string, unknown> = {};
  for (let tries = 0; listed['total'] !== 1 && tries < 100; tries++, await sleep(100))
    listed = await ask('GET', `/v1/agents/${agent}/events`);
  t.match(await ask('GET', '/v1/audit-logs/checkpoint'), { version: 1 }, 'and is vouched for');
  t.match(listed, { total: 1, items: [{ id: event['id'], payload: { prompt: 'Is it there?' } }] }, 'and comes out');
});

/** The folder, or undefined where there is nowhere to install from. */
async function installed(t: Test): Promise<string | undefined> {
  const folder = folderOf(t);
  for (const name of SHIPPED) cpSync(assetPath(name), path.join(folder, name), { recursive: true });
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
  const options = { cwd: folder, env: { ...env, npm_config_prefer_offline: 'true' }, timeout: INSTALL_MS_MAX };
  try {
    const { stderr } = await promisify(execFile)('npm', INSTALL, options);
    t.notMatch(stderr, /EBADENGINE|deprecated/, 'npm warns of nothing');
    return folder;
  } catch (error) {
    if (!NO_REGISTRY.test(String(error))) throw error;
    t.pass('skipped: no registry is in reach, and the cache does not have the packages', { skip: true });
    return undefined;
  }
}

async function stores(t: Test): Promise<Record<string, string>> {
  const [{ address }, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)]);
  const dataDir = folderOf(t);
  return {
    GATEHOUSE_REDIS_URL: address.url,
    GATEHOUSE_REDIS_CLUSTER: String(address.cluster),
    GATEHOUSE_CLICKHOUSE_URL: clickhouse.url,
    GATEHOUSE_CLICKHOUSE_DATABASE: clickhouse.makeDatabase().database,
    GATEHOUSE_PORT: String(await freePort()),
    GATEHOUSE_DATA_DIR: dataDir,
    GATEHOUSE_LOG_LEVEL: 'warn',
  };
}

type Running = { child: ChildProcess; said: () => string };

function run(t: Test, cwd: string, command: string, env: Record<string, string>): Running {
  const child = spawn(process.execPath, ['build/service/cli.js', command], { cwd, env: serviceEnvironment(env) });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (text += data.toString()));
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  return { child, said: () => `${command}: ${text}` };
}

async function until(url: string, processes: readonly Running[]): Promise<void> {
  const deadline = performance.now() + READY_MS_MAX;
  while (
    !(await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    const hasEnded = processes.some(({ child }) => child.exitCode !== null);
    if (hasEnded || performance.now() > deadline)
      throw new Error(`not ready\n${processes.map(({ said }) => said()).join('\n')}`);
    await sleep(100);
  }
}

/** As `du` counts. */
function diskBytes(folder: string): number {
  const names = readdirSync(folder, { recursive: true }) as string[];
  return names.reduce((sum, name) => sum + lstatSync(path.join(folder, name)).blocks * 512, 0);
}
