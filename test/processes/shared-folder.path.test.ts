// One data folder and two containers: a second Gatehouse in a PID namespace of its own, where process ids say nothing
// of the first.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { runCli, serviceEnvironment, startService } from '../support/service.ts';

const ENDS_MS_MAX = 60_000;

t.test('the second is refused, starts nothing, and changes nothing', async (t) => {
  const service = await startService(t, { stores: 'own' });
  const state = () =>
    Object.fromEntries(
      ['lock', 'runtime.json', 'redis/server.pid'].map((name) => [
        name,
        readFileSync(path.join(service.dataDir, name), 'utf8'),
      ]),
    );
  const before = state();
  const files = () => readdirSync(service.dataDir).sort();
  const filesBefore = files();
  const ended = await inNamespace(['start'], {
    GATEHOUSE_DATA_DIR: service.dataDir,
    GATEHOUSE_PORT: String(await freePort()),
  });
  t.equal(ended.code, 1, ended.stderr);
  t.equal(
    sentences(ended.stderr),
    `gatehouse: ${service.dataDir} is in use by the Gatehouse with process id ${service.pid}; stop it first.\n`,
  );
  t.notMatch(ended.stderr, /redis\.|damaged/i, 'it had no look at the engines');
  t.same(state(), before);
  t.same(files(), filesBefore);
  t.ok(statSync(path.join(service.dataDir, 'lock')).size > 0);

  // Redis holds a lock of its own: a server that a killed supervisor left behind in a container is not seen, but
  // noticed.
  const folder = path.join(service.dataDir, 'redis');
  const script = `
    const { launchRedis } = await import(${JSON.stringify(assetPath('build/src/embedded/redis-server.js'))});
    const log = { debug() {}, warn() {}, error() {}, info() {}, child: () => log };
    const options = { folder: process.argv[1], port: Number(process.argv[2]), password: 'x', appendfsync: 'everysec', maxmemory: '1gb' };
    await launchRedis({ ...options, env: process.env, log }).ready.catch((error) => console.error(error.message));
    process.exit(0);`;
  const second = await run('unshare', [
    ...[
      '-rpf',
      '--mount-proc',
      process.execPath,
      '--input-type=module',
      '-e',
      script,
      folder,
      String(await freePort()),
    ],
  ]);
  t.match(second.stderr, /another redis-server works in .*; end it\./);

  const headers = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
  const made = await fetch(`${service.url}/v1/agents`, { method: 'POST', headers, body: '{"name": "still here"}' });
  t.equal(made.status, 201, 'and the first works on');
  const third = await inNamespace(['start'], {
    GATEHOUSE_DATA_DIR: service.dataDir,
    GATEHOUSE_PORT: String(await freePort()),
  });
  t.equal(third.code, 1, 'it still has its lock');
  t.equal(
    (await runCli(['account', 'create', 'x'], { GATEHOUSE_DATA_DIR: service.dataDir })).code,
    0,
    'commands find it',
  );
});

/** The lines that are not of the log. */
function sentences(said: string): string {
  return said
    .split('\n')
    .filter((line) => !line.startsWith('{'))
    .join('\n');
}

function inNamespace(args: string[], env: Record<string, string>) {
  return run('unshare', ['-rpf', '--mount-proc', process.execPath, assetPath('build/service/cli.js'), ...args], env);
}

function run(program: string, args: string[], env: Record<string, string> = {}) {
  return new Promise<{ code: unknown; stderr: string }>((resolve) => {
    execFile(program, args, { env: serviceEnvironment(env), timeout: ENDS_MS_MAX }, (error, _stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stderr }),
    );
  });
}
