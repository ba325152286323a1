// The embedded redis-server over its life: started, killed, left behind, its file cut off or damaged.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { findDamage, repairDamage } from '../../src/embedded/append-only-damage.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { checkRedisProgram, endLeftoverRedis, launchRedis, redisUrl } from '../../src/embedded/redis-server.ts';
import { createLog } from '../../src/process/log.ts';
import { isAlive } from '../support/alive.ts';
import { folderOf } from '../support/folder.ts';

const log = createLog({ level: 'silent', processName: 'test' });
const password = 'a-password-for-tests';

async function optionsIn(folder: string) {
  mkdirSync(folder, { recursive: true });
  const rest = { appendfsync: 'everysec', maxmemory: '64mb', env: process.env, log } as const;
  return { folder, port: await freePort(), password, ...rest };
}

/** Runs commands against a server that is started for them and stopped after them. */
async function withServer<T>(
  folder: string,
  use: (redis: Redis, pid: number) => Promise<T>,
  more: { onCut?: (bytes: number) => void } = {},
): Promise<T> {
  const options = { ...(await optionsIn(folder)), ...more };
  const server = launchRedis(options);
  await server.ready;
  const redis = new Redis(redisUrl(options), { replyMapping: 'legacy' });
  try {
    return await use(redis, server.pid!);
  } finally {
    redis.disconnect();
    server.signal('SIGTERM');
    await server.exited;
  }
}

function lastFile(folder: string): string {
  const name = readdirSync(path.join(folder, 'appendonlydir'))
    .filter((file) => file.endsWith('.incr.aof'))
    .at(-1)!;
  return path.join(folder, 'appendonlydir', name);
}

t.test('killed while the disk is slow, it has kept all that it acknowledged', async (t) => {
  if (spawnSync('strace', ['-V']).status !== 0) return void t.pass('skipped: strace, which slows the disk, is missing');
  const folder = folderOf(t, 'redis server');
  const options = await optionsIn(folder);
  const server = launchRedis(options);
  await server.ready;
  const slow = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=fdatasync', '-e', 'inject=fdatasync:delay_enter=1500000'];
  const strace = spawn('strace', [...slow, '-p', String(server.pid)], { stdio: 'ignore' });
  t.teardown(() => strace.kill());
  const redis = new Redis(redisUrl(options), { replyMapping: 'legacy', retryStrategy: () => null, lazyConnect: true });
  redis.on('error', () => undefined);
  await redis.connect();
  const killAt = performance.now() + 3_500;
  let acknowledged = 0;
  while (performance.now() < killAt) {
    await redis.set('n', acknowledged + 1);
    acknowledged++;
  }
  server.signal('SIGKILL');
  await server.exited;
  redis.disconnect();
  await withServer(folder, async (again) => {
    t.equal(Number(await again.get('n')), acknowledged, `all of ${acknowledged}`);
  });
});

t.test('it keeps what it acknowledged, over a stop and over a kill', async (t) => {
  const folder = folderOf(t, 'redis server');
  await withServer(folder, async (redis) => {
    await redis.set('a', '1');
    const [, policy] = (await redis.config('GET', 'maxmemory-policy')) as string[];
    t.equal(policy, 'noeviction');
    const command = readFileSync(`/proc/${await pidOf(redis)}/cmdline`, 'utf8');
    t.notMatch(command, password, 'the password is on no command line');
  });
  const options = await optionsIn(folder);
  const killed = launchRedis(options);
  await killed.ready;
  const redis = new Redis(redisUrl(options), { replyMapping: 'legacy' });
  await redis.set('b', '2');
  redis.disconnect();
  killed.signal('SIGKILL');
  await killed.exited;
  await withServer(folder, async (again) => t.same(await again.mget('a', 'b'), ['1', '2']));
});

t.test('no client gets in without the password', async (t) => {
  const options = await optionsIn(folderOf(t, 'redis server'));
  const server = launchRedis(options);
  await server.ready;
  const stranger = new Redis({
    port: options.port,
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: () => null,
  });
  stranger.on('error', () => undefined);
  await t.rejects(stranger.get('a'), /NOAUTH/);
  stranger.disconnect();
  server.signal('SIGTERM');
  await server.exited;
});

t.test('a server whose supervisor was killed is gone or ended before another opens its files', async (t) => {
  for (const setpriv of [true, false]) {
    const folder = folderOf(t, 'redis server');
    const pid = await abandoned(t, folder, setpriv);
    if (setpriv) for (let i = 0; i < 3_000 && isAlive(pid); i++) await sleep(20);
    else t.ok(isAlive(pid), 'without setpriv it lives on');
    await endLeftoverRedis(folder, log);
    t.notOk(isAlive(pid), `gone (${setpriv ? 'by the kernel' : 'by the next start'})`);
    await withServer(folder, async (redis) => t.equal(await redis.get('kept'), 'yes'));
  }
});

t.test('a leftover process id that belongs to another program is left alone', async (t) => {
  const folder = folderOf(t, 'redis server');
  writeFileSync(path.join(folder, 'server.pid'), String(process.pid));
  await endLeftoverRedis(folder, log);
  t.notOk(existsSync(path.join(folder, 'server.pid')));
  t.pass('still alive');
});

t.test('a cut-off end of the file is repaired, losing the broken command alone', async (t) => {
  const folder = folderOf(t, 'redis server');
  await withServer(folder, (redis) => redis.mset('a', '1'));
  await withServer(folder, (redis) => redis.set('b', '2'));
  const file = lastFile(folder);
  truncateSync(file, readFileSync(file).length - 3);
  const cut: number[] = [];
  const told = { onCut: (bytes: number) => void cut.push(bytes) };
  await withServer(folder, async (redis) => t.same(await redis.mget('a', 'b'), ['1', null]), told);
  t.same(cut, ['*3\r\n$3\r\nset\r\n$1\r\nb\r\n$1\r\n2\r\n'.length - 3], 'and it is said how much');
  await withServer(folder, async () => undefined, told);
  t.equal(cut.length, 1);
});

t.test('a damaged file ends the start with what to do about it', async (t) => {
  const folder = folderOf(t, 'redis server');
  await withServer(folder, (redis) => redis.set('a', '1'));
  appendFileSync(lastFile(folder), '\0\0\0\0not a command\r\n*1\r\n$4\r\nPING\r\n');
  const before = readFileSync(lastFile(folder));
  const server = launchRedis(await optionsIn(folder));
  await t.rejects(server.ready, {
    message:
      /^Redis did not start: its append-only file in .* is damaged at byte \d+ of \d+; behind it 1 commands are whole, 0 .*redis-check-aof --fix/,
  });
  t.same(readFileSync(lastFile(folder)), before, 'nothing was changed');
});

t.test('what is whole behind the damage can be kept', async (t) => {
  const folder = folderOf(t, 'redis server');
  await withServer(folder, async (redis) => {
    for (let i = 0; i < 300; i++) await redis.xadd('events', '*', 'i', `${i}`, 'rows', randomBytes(400));
    await redis.multi().set('a', '1').set('b', '2').exec();
    await redis.set('last', 'yes');
  });
  const file = lastFile(folder);
  const bytes = readFileSync(file);
  const at = bytes.length >> 1;
  writeFileSync(file, Buffer.concat([bytes.subarray(0, at), Buffer.alloc(4_096), bytes.subarray(at + 4_096)]));
  await t.rejects(launchRedis(await optionsIn(folder)).ready, { message: /doctor --repair.*keeps what is whole/ });
  const damage = findDamage(folder, process.env)!;
  t.ok(damage.behind.appended > 100, `${damage.behind.appended} entries behind it`);
  t.ok(damage.lost < 4_096 + 1_500, `${damage.lost} bytes are lost`);
  t.same(readFileSync(repairDamage(damage)).length, bytes.length, 'the old file is kept');
  t.equal(findDamage(folder, process.env), undefined);
  await withServer(folder, async (redis) => {
    const entries = await redis.xlen('events');
    t.ok(entries >= 284 && entries < 300, `${entries} of 300 entries`);
    t.same(await redis.mget('a', 'b', 'last'), ['1', '2', 'yes']);
  });
});

t.test('without redis-server the error names what to install', async (t) => {
  await t.rejects(checkRedisProgram({ PATH: folderOf(t) }), /redis-server cannot be run\. Install redis-server 7/);
  await checkRedisProgram(process.env);
});

/** A server whose parent, a process of ours, is killed right after it was ready. Answers its process id. */
async function abandoned(t: Test, folder: string, setpriv: boolean): Promise<number> {
  const options = await optionsIn(folder);
  const module = new URL('../../src/embedded/redis-server.js', import.meta.url).href;
  const bin = folderOf(t);
  const program = spawn('sh', ['-c', `for p in redis-server flock; do ln -s "$(command -v $p)" '${bin}'/$p; done`]);
  await once(program, 'exit');
  const env = setpriv ? process.env : { ...process.env, PATH: bin };
  const script = `
    const { launchRedis } = await import(${JSON.stringify(module)});
    const quiet = { debug() {}, warn() {}, info() {}, error() {} };
    const { env: _, log: __, ...options } = ${JSON.stringify({ ...options, env: undefined, log: undefined })};
    const server = launchRedis({ ...options, env: process.env, log: quiet });
    await server.ready;
    process.send(server.pid);`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [pid] = (await once(parent, 'message')) as [number];
  const redis = new Redis(redisUrl(options), { replyMapping: 'legacy' });
  await redis.set('kept', 'yes');
  redis.disconnect();
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  return pid;
}

async function pidOf(redis: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
}
