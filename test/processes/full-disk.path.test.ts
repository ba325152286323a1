// A disk that is full, in these words: what callers, `/readyz` and the log say of it, and that all goes on once there is room again.
// The whole service; the folder of its Redis is a small disk of its own, in a mount namespace.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import { assetPath } from '../../src/assets.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { StateDir } from '../../src/embedded/state-dir.ts';
import { pause } from '../support/raw-http.ts';
import { makeDataDir, serviceEnvironment } from '../support/service.ts';

const KEY = 'full-disk-full-disk-full-disk-full-disk';
const ENDS_MS_MAX = 60_000;
const FULL = /The disk that Redis writes to is full; nothing was recorded\./;

t.test('it is called a full disk, loses nothing, and goes on when there is room', async (t) => {
  const dataDir = await makeDataDir();
  const log = path.join(dataDir, 'service.log');
  mkdirSync(path.join(dataDir, 'redis'), { recursive: true });
  const port = await freePort();
  const mounted = 'mount -t tmpfs -o size=16m none "$1/redis" && exec "$2" "$3" start 2> "$4"';
  const child = spawn(
    'unshare',
    ['-rm', 'sh', '-c', mounted, 'sh', dataDir, process.execPath, assetPath('build/service/cli.js'), log],
    {
      env: serviceEnvironment({
        GATEHOUSE_DATA_DIR: dataDir,
        GATEHOUSE_PORT: String(port),
        GATEHOUSE_BOOTSTRAP_KEY: KEY,
      }),
      stdio: 'ignore',
    },
  );
  t.teardown(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
    await rm(dataDir, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${port}`;
  const ask = async (method: string, where: string, body?: object) => {
    const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' };
    const response = await fetch(url + where, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: response.status, text: await response.text() };
  };
  const state = new StateDir(dataDir);
  t.ok(await until(() => state.readRuntime() !== undefined), 'it runs');
  const agent = JSON.parse((await ask('POST', '/v1/agents', { name: 'writer' })).text).id;
  const send = () =>
    ask('POST', `/v1/agents/${agent}/events`, { type: 'prompt', payload: { prompt: 'x'.repeat(10_000) } });
  t.equal((await send()).status, 201);

  const filler = `/proc/${child.pid}/root${dataDir}/redis/filler`;
  fill(filler);
  let refused = await send();
  for (let i = 0; i < 200 && refused.status === 201; i++) refused = await send();
  t.equal(refused.status, 503, 'the append-only file cannot grow');
  t.ok(await until(async () => FULL.test((await send()).text)), 'an event');
  t.match((await send()).text, /"recorded":false/);
  t.ok(await until(async () => FULL.test((await ask('POST', '/v1/agents', { name: 'another' })).text)), 'a change');
  const ready = await ask('GET', '/readyz');
  t.equal(ready.status, 503);
  t.match(ready.text, /"path":"redis","message":"refusal: the disk that it writes to is full/);
  t.ok(await until(async () => /No space left on device/.test(await readFile(log, 'utf8'))), 'and the log');

  rmSync(filler);
  t.ok(await until(async () => (await send()).status === 201), 'there is room again');
  t.ok(await until(async () => (await ask('GET', '/readyz')).status === 200));
});

/** Up to the last byte. */
function fill(file: string): void {
  for (const size of [2 ** 20, 2 ** 16, 2 ** 12]) {
    try {
      for (let i = 0; i < 64; i++) writeFileSync(file, Buffer.alloc(size), { flag: 'a' });
    } catch {
      // Full for pieces of this size.
    }
  }
}

async function until(holds: () => boolean | Promise<boolean>): Promise<boolean> {
  const end = performance.now() + ENDS_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > end) return false;
    await pause(100);
  }
  return true;
}
