// A disk that is full, in these words: what callers, `/readyz` and the log say of it, and that all continues once there
// is room again. The whole service on small disks of its own, in a mount namespace: its Redis's folder alone, or all of
// its data folder.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { reserveAppends } from '../../src/embedded/append-only-reserve.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { eventually } from '../streams/harness.ts';
import { makeDataDir, serviceEnvironment } from '../support/service.ts';

const KEY = 'full-disk-full-disk-full-disk-full-disk';
/** The reserve is there first; where another program fills the disk faster than it is polled, Redis says so itself. */
const FULL = /The disk (that Redis writes to is full|is nearly full \(.*\)); nothing was recorded\./;

t.test('it is called a full disk, loses nothing, and goes on when there is room', async (t) => {
  const { inside, log, ask, send } = await startOnDisk(t, { folder: 'redis', megabytes: 16 });
  const filler = inside('redis/filler');
  fill(filler);
  let refused = await send();
  for (let i = 0; i < 200 && refused.status === 201; i++) refused = await send();
  t.equal(refused.status, 503, 'the append-only file cannot grow');
  t.ok(await eventually(async () => FULL.test((await send()).text)), 'an event');
  t.match((await send()).text, /"recorded":false/);
  t.ok(
    await eventually(async () => FULL.test((await ask('POST', '/v1/agents', { name: 'another' })).text)),
    'a change',
  );
  const isSaid = async () =>
    /"path":"disk","message":"\d+ MB are free, and \d+ are kept/.test((await ask('GET', '/readyz')).text);
  t.ok(await eventually(isSaid), 'a readiness probe');
  t.equal((await ask('GET', '/readyz')).status, 503);
  t.ok(await eventually(() => isAbout(log, 'disk.nearly_full')), 'and the log');

  rmSync(filler);
  t.ok(await eventually(async () => (await send()).status === 201), 'there is room again');
  t.ok(await eventually(async () => (await ask('GET', '/readyz')).status === 200));
});

t.test('a process that ends while the disk is full is started again, and no other ends', async (t) => {
  const { child, inside, log, ask, send, children } = await startOnDisk(t, { folder: '', megabytes: 192 });
  const filler = inside('filler');
  fill(filler);
  const before = children();
  const killed = ['front-1', 'pipelines', 'clickhouse', 'redis'];
  for (const name of killed) process.kill(before[name]!, 'SIGKILL');
  // A process that ends gives back what it had deleted: a few pages are enough for the file.
  const isSaid = () => {
    fill(filler);
    return isAbout(log, 'runtime.not_written');
  };
  t.ok(await eventually(isSaid), 'the file that names its processes cannot be written');
  t.ok(
    await eventually(async () => (await ask('GET', '/healthz').catch(() => undefined))?.status === 200),
    'a new front',
  );
  t.equal(child.exitCode, null, 'the supervisor runs');
  rmSync(filler);
  t.ok(await eventually(async () => (await send().catch(() => undefined))?.status === 201), 'there is room again');
  t.ok(await eventually(async () => (await ask('GET', '/readyz').catch(() => undefined))?.status === 200));
  t.ok(
    await eventually(() => killed.every((name) => children()[name] !== before[name])),
    'the file names those that run now',
  );
});

t.test('what was acknowledged until the disk was full is there after Redis was killed', async (t) => {
  const { inside, send, children, ask } = await startOnDisk(t, { folder: '', megabytes: 256 });
  const filler = inside('filler');
  const acknowledged: string[] = [];
  let refused = 0;
  const writer = async () => {
    while (refused < 50) {
      const { status, text } = await send();
      if (status === 201) acknowledged.push(JSON.parse(text).id);
      else refused++;
    }
  };
  const writers = Array.from({ length: 16 }, writer);
  t.ok(await eventually(() => acknowledged.length > 500), 'events are written');
  // Another program fills the disk to its last byte between two polls at it.
  const other = spawn('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k', 'count=65536'], { stdio: 'ignore' });
  await once(other, 'exit');
  await Promise.all(writers);
  process.kill(children()['redis']!, 'SIGKILL');
  rmSync(filler);
  t.ok(acknowledged.length > 100, `${acknowledged.length} were acknowledged`);
  t.ok(await eventually(async () => (await send().catch(() => undefined))?.status === 201), 'there is room again');
  const found = new Set<string>();
  for (let cursor = ''; ; ) {
    let text = '';
    const isListed = async () => {
      const answer = await ask('GET', `/v1/events?payload=none&limit=500${cursor}`);
      text = answer.text;
      return answer.status === 200 && answer.isWhole;
    };
    if (!(await eventually(isListed))) throw new Error(`the list is not answered: ${text}`);
    const page = JSON.parse(text) as { items: { id: string }[]; next_cursor: string | null };
    for (const { id } of page.items) found.add(id);
    if (page.next_cursor === null) break;
    cursor = `&cursor=${page.next_cursor}`;
  }
  const missing = acknowledged.filter((id) => !found.has(id));
  t.same(missing, [], 'none is missing');
});

t.test('the end of the append-only file has room of its own on a full disk', async (t) => {
  const reserved = await appendsOnFullDisk(t, (folder) => reserveAppends(folder, 4 * 2 ** 20));
  t.same(reserved, { answered: 100, kept: 100 });
  const unreserved = await appendsOnFullDisk(t, async () => undefined);
  t.ok(unreserved.kept < unreserved.answered, `without it ${JSON.stringify(unreserved)}`);
});

/**
 * A hundred writes to a Redis whose disk another program has filled: how many it answered, and how many it has after a
 * SIGKILL.
 */
async function appendsOnFullDisk(t: Test, prepare: (folder: string) => Promise<unknown>) {
  const folder = await makeDataDir();
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const options = ['--port', String(port), '--appendonly', 'yes', '--appendfsync', 'no', '--save', ''];
  const again = `redis-server ${options.map((option) => `'${option}'`).join(' ')}`;
  const program = `mount -t tmpfs -o size=16m none "$1" && cd "$1" && { ${again}; rm filler; exec ${again}; }`;
  const shell = spawn('unshare', ['-rm', 'sh', '-c', program, 'sh', folder], { stdio: 'ignore' });
  const inside = path.join(`/proc/${shell.pid}/root`, folder);
  const redis = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, maxRetriesPerRequest: null });
  redis.on('error', () => undefined);
  t.teardown(async () => {
    redis.disconnect();
    shell.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  await redis.set('first', '');
  await prepare(inside);
  fill(path.join(inside, 'filler'));
  const batch = redis.pipeline();
  for (let i = 0; i < 100; i++) batch.set(`key:${i}`, 'x'.repeat(10_000));
  const answers = await batch.exec();
  const [, pid] = /process_id:(\d+)/.exec(await redis.info('server')) ?? [];
  process.kill(Number(pid), 'SIGKILL');
  const kept = await redis.keys('key:*');
  return { answered: answers!.filter(([error]) => error === null).length, kept: kept.length };
}

type Disk = { folder: string; megabytes: number };

/** One front; `folder` of its data folder is a disk of so many megabytes, which others see as `inside` says. */
async function startOnDisk(t: Test, { folder, megabytes }: Disk) {
  const outside = await makeDataDir();
  const dataDir = path.join(outside, 'data');
  const log = path.join(outside, 'service.log');
  mkdirSync(path.join(dataDir, folder), { recursive: true, mode: 0o700 });
  const port = await freePort();
  const mounted = 'mount -t tmpfs -o size=$5m,mode=700 none "$1" && exec "$2" "$3" start 2> "$4"';
  const program = [process.execPath, assetPath('build/service/cli.js'), log, String(megabytes)];
  const child = spawn('unshare', ['-rm', 'sh', '-c', mounted, 'sh', path.join(dataDir, folder), ...program], {
    env: serviceEnvironment({
      GATEHOUSE_DATA_DIR: dataDir,
      GATEHOUSE_PORT: String(port),
      GATEHOUSE_BOOTSTRAP_KEY: KEY,
      GATEHOUSE_FRONTS: '1',
    }),
    stdio: 'ignore',
  });
  t.teardown(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) await once(child, 'exit');
    await rm(outside, { recursive: true, force: true });
  });
  const ask = async (method: string, where: string, body?: object) => {
    const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' };
    const sent = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(`http://127.0.0.1:${port}${where}`, sent);
    const isWhole = !response.headers.has('gatehouse-incomplete');
    return { status: response.status, text: await response.text(), isWhole };
  };
  const inside = (name: string) => path.join(`/proc/${child.pid}/root${dataDir}`, name);
  const children = (): Record<string, number> => {
    try {
      return JSON.parse(readFileSync(inside('runtime.json'), 'utf8')).children;
    } catch {
      return {};
    }
  };
  t.ok(await eventually(() => Object.keys(children()).length > 0), 'it runs');
  const agent = JSON.parse((await ask('POST', '/v1/agents', { name: 'writer' })).text).id;
  const send = () =>
    ask('POST', `/v1/agents/${agent}/events`, { type: 'prompt', payload: { prompt: 'x'.repeat(10_000) } });
  t.equal((await send()).status, 201);
  return { child, inside, log, ask, send, children };
}

async function isAbout(log: string, words: string): Promise<boolean> {
  return (await readFile(log, 'utf8')).includes(words);
}

/** Up to the last byte. */
function fill(file: string): void {
  for (const size of [2 ** 20, 2 ** 16, 2 ** 12]) {
    try {
      for (let i = 0; i < 512; i++) writeFileSync(file, Buffer.alloc(size), { flag: 'a' });
    } catch {
      // Full for pieces of this size.
    }
  }
}
