// What processes are made of, each alone: the data folder, a kept child, the order of parts, the metrics of several
// processes.
import { execFile, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { type Child, ChildFailed, forkChild } from '../../src/embedded/child.ts';
import { ChildSupervisor } from '../../src/embedded/child-supervisor.ts';
import { isFileLocked, takeFileLock } from '../../src/embedded/file-lock.ts';
import { freePort, onFreePort, whyNotFree } from '../../src/embedded/free-port.ts';
import { type Peer, WorkerHub, whenWorkerReady } from '../../src/embedded/ipc.ts';
import { StateDir } from '../../src/embedded/state-dir.ts';
import { Metrics, renderMetrics } from '../../src/metrics/metrics.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Service } from '../../src/process/lifecycle.ts';
import { createLog } from '../../src/process/log.ts';
import { isAlive } from '../support/alive.ts';
import { folderOf } from '../support/folder.ts';

const log = createLog({ level: 'silent', processName: 'test' });

t.test("a data folder is its owner's alone, also one that was there with wider rights", async (t) => {
  const rightsOf = (folder: string) => statSync(folder).mode & 0o777;
  const [made, wide] = [path.join(folderOf(t), 'made'), path.join(folderOf(t), 'wide')];
  mkdirSync(wide, { mode: 0o755 });
  for (const folder of [made, wide]) {
    const state = new StateDir(folder);
    state.lock();
    t.equal(rightsOf(folder), 0o700, path.basename(folder));
    state.unlock();
  }
});

t.test('a file that is set aside is overwritten by nothing', async (t) => {
  const state = new StateDir(folderOf(t));
  t.equal(state.setAside('admin-key'), undefined, 'there is none');
  for (const n of [1, 2]) {
    state.write('admin-key', `key ${n}`);
    t.equal(state.setAside('admin-key'), `admin-key.${n}`);
  }
  t.same(
    [1, 2].map((n) => readFileSync(state.file(`admin-key.${n}`), 'utf8')),
    ['key 1', 'key 2'],
  );
});

t.test('a data folder has one holder; a dead one is taken over', async (t) => {
  const state = new StateDir(path.join(folderOf(t), 'deep', 'data'));
  const file = state.file('lock');
  state.lock();
  t.throws(() => new StateDir(state.path).lock(), {
    message: `${state.path} is in use by the Gatehouse with process id ${process.pid}; stop it first.`,
  });
  t.same(
    JSON.parse(readFileSync(file, 'utf8')),
    { pid: process.pid, host: os.hostname(), inode: statSync(file).ino },
    'who was refused wrote nothing',
  );
  state.unlock();
  const other = new StateDir(state.path);
  other.lock();
  other.unlock();

  const taking = `import { StateDir } from ${JSON.stringify(assetPath('build/src/embedded/state-dir.js'))};
    new StateDir(process.argv[1]).lock();
    process.stdout.write('taken');
    setInterval(() => undefined, 1_000);`;
  const holder = spawn(process.execPath, ['--input-type=module', '-e', taking, state.path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  t.throws(() => state.lock(), new RegExp(`in use by the Gatehouse with process id ${holder.pid};`));
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  state.lock();
  t.equal(JSON.parse(readFileSync(file, 'utf8')).pid, process.pid, 'taken over from a dead process, whatever it wrote');
  state.unlock();
  t.notOk(state.isTornCopy, 'after a kill the folder is the same one');
  writeFileSync(file, JSON.stringify({ pid: 1, host: 'there', inode: statSync(file).ino + 1 }));
  state.lock();
  t.ok(state.isTornCopy, 'the file of another folder, with its holder');
  state.unlock();
  t.ok(new StateDir(state.path).isTornCopy, 'until it is dealt with');
  state.setMended();
  t.notOk(state.isTornCopy);
  writeFileSync(file, 'torn');
  state.lock();
  t.pass('a torn file is taken over');
  state.unlock();
});

t.test('many that check whether the folder is held do not disturb each other', async (t) => {
  const file = path.join(folderOf(t), 'lock');
  t.notOk(isFileLocked(file), 'no file, no lock');
  const held = takeFileLock(file)!;
  t.ok(isFileLocked(file));
  t.ok(isFileLocked(file), 'asking takes nothing away');
  t.equal(takeFileLock(file), undefined);
  closeSync(held);
  t.notOk(isFileLocked(file));
});

t.test('without the program that locks nothing is taken, and it is named', async (t) => {
  const { PATH } = process.env;
  t.teardown(() => (process.env.PATH = PATH));
  process.env.PATH = folderOf(t);
  t.throws(() => new StateDir(folderOf(t)).lock(), {
    name: 'FileLockError',
    message: /the program flock .*util-linux/,
  });
});

t.test('commands find the addresses of a Gatehouse that runs, and of no other', async (t) => {
  const state = new StateDir(folderOf(t));
  const runtime = {
    pid: process.pid,
    url: 'u',
    redisUrl: 'r',
    redisCluster: false,
    redisPrefix: 'gh-',
    partitions: 8,
    clickhouseDatabase: 'gatehouse',
    clickhouseUrl: 'c',
    children: {},
  };
  t.equal(state.readRuntime(), undefined, 'none');
  state.lock();
  state.writeRuntime(runtime);
  t.same(state.readRuntime(), runtime);
  t.equal(statSync(state.file('runtime.json')).mode & 0o777, 0o600);
  state.writeRuntime({ ...runtime, pid: process.ppid });
  t.equal(state.readRuntime(), undefined, 'written by an earlier one');
  state.unlock();

  // A copy that is taken into another container: the process there may have the very same id.
  const copy = new StateDir(folderOf(t));
  copy.writeRuntime(runtime);
  copy.lock();
  t.equal(copy.readRuntime(), undefined, 'of the folder that this is a copy of');
  copy.unlock();
  t.notOk(copy.isTornCopy, 'one that was not held');
});

t.test('a port that is listened on is not free', async (t) => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.equal(await whyNotFree('127.0.0.1', port), 'EADDRINUSE');
  server.close();
  await once(server, 'close');
  t.equal(await whyNotFree('127.0.0.1', port), undefined);
});

function listenOn(port: number): Promise<net.Server> {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject).listen({ port, host: '127.0.0.1' }, () => resolve(server));
  });
}

t.test('a port that was taken between look and launch is given up for another', async (t) => {
  const servers: net.Server[] = [];
  t.teardown(() => servers.forEach((server) => void server.close()));
  const launchOn = async (port: number) => {
    if (servers.length < 2) servers.push(await listenOn(port)); // a stranger is faster, twice
    const server = await listenOn(port);
    servers.push(server);
    return port;
  };
  const port = await onFreePort(launchOn);
  t.equal(await whyNotFree('127.0.0.1', port), 'EADDRINUSE', 'ours listens there');
  t.equal(servers.length, 3);

  let launches = 0;
  const always = onFreePort(async (port) => {
    launches++;
    servers.push(await listenOn(port));
    await listenOn(port);
  });
  await t.rejects(always, { code: 'EADDRINUSE' }, 'another program that is always faster');
  t.equal(launches, 3);

  launches = 0;
  const broken = onFreePort(async () => {
    launches++;
    throw new Error('its folder is damaged');
  });
  await t.rejects(broken, { message: 'its folder is damaged' });
  t.equal(launches, 1, 'what fails on a free port fails for another reason');
});

t.test('processes that run beside each other look for ports apart', async (t) => {
  const script = `import { freePort } from ${JSON.stringify(assetPath('build/src/embedded/free-port.js'))};
    console.log(await freePort(), await freePort(), await freePort());`;
  const drawn = await Promise.all(
    Array.from({ length: 6 }, async () => {
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
      return stdout.trim().split(' ');
    }),
  );
  const ports = [...drawn.flat(), String(await freePort())];
  t.equal(new Set(ports).size, 19);
});

const READY = `process.send({ kind: 'ready' }); process.on('disconnect', () => process.exit());`;

function launcher(t: Test, script: string): () => Child {
  const file = path.join(folderOf(t), 'child.cjs');
  writeFileSync(file, script);
  return () =>
    forkChild(file, [], { name: 'child', env: process.env, whenReady: whenWorkerReady, onLine: () => undefined });
}

t.test('a child that ends is started again; one that is stopped is not', async (t) => {
  let launches = 0;
  const supervisor = new ChildSupervisor({
    name: 'child',
    launch: launcher(t, `${READY} setInterval(() => {}, 1000);`),
    log,
    onLaunch: () => launches++,
  });
  await supervisor.start();
  const first = supervisor.pid!;
  process.kill(first, 'SIGKILL');
  while (supervisor.pid === first) await sleep(10);
  t.equal(launches, 2);
  await supervisor.stop(5_000);
  t.notOk(isAlive(supervisor.pid!), 'gone');
  await sleep(300);
  t.equal(launches, 2, 'and it stays so');
});

t.test('a child that does not heed SIGTERM is killed', async (t) => {
  const supervisor = new ChildSupervisor({
    name: 'child',
    launch: launcher(t, `process.on('SIGTERM', () => {}); ${READY} setInterval(() => {}, 1000);`),
    log,
  });
  await supervisor.start();
  await supervisor.stop(200);
  t.notOk(isAlive(supervisor.pid!));
});

t.test('a first start that fails says why; a start that hangs is broken off', async (t) => {
  const failing = new ChildSupervisor({
    name: 'child',
    launch: launcher(t, `console.error('no such planet'); process.exit(3);`),
    log,
  });
  await t.rejects(failing.start(), {
    name: 'ChildFailed',
    message: 'child did not start: no such planet',
    exit: { code: 3 },
  });
  const hanging = new ChildSupervisor({
    name: 'child',
    launch: launcher(t, 'setInterval(() => {}, 1000);'),
    log,
    startMsMax: 300,
  });
  const error = await hanging.start().catch((error: unknown) => error);
  t.ok(error instanceof ChildFailed && error.exit.signal === 'SIGKILL');
});

t.test('a child that no one waits for is started again until it is ready', async (t) => {
  const marks = folderOf(t);
  const script = `const { readdirSync, writeFileSync } = require('node:fs');
    const n = readdirSync(${JSON.stringify(marks)}).length;
    writeFileSync(${JSON.stringify(marks)} + '/' + n, '');
    if (n < 2) process.exit(3);
    ${READY} setInterval(() => {}, 1000);`;
  let launches = 0;
  const supervisor = new ChildSupervisor({
    name: 'child',
    launch: launcher(t, script),
    log,
    onLaunch: () => launches++,
  });
  supervisor.startAlone();
  for (let i = 0; i < 3_000 && launches < 3; i++) await sleep(20);
  const { pid } = supervisor;
  await sleep(300);
  t.equal(launches, 3);
  t.equal(supervisor.pid, pid);
  t.ok(isAlive(pid!));
  await supervisor.stop(5_000);
  t.notOk(isAlive(pid!));
});

t.test('a child leaves when the process that forked it is killed', async (t) => {
  const folder = folderOf(t);
  writeFileSync(path.join(folder, 'child.cjs'), `${READY} setInterval(() => {}, 1000);`);
  const parent = path.join(folder, 'parent.cjs');
  writeFileSync(
    parent,
    `const child = require('node:child_process').fork(__dirname + '/child.cjs', { detached: true });
     child.once('message', () => process.send(child.pid));`,
  );
  const forked = fork(parent);
  const [pid] = (await once(forked, 'message')) as [number];
  t.ok(isAlive(pid));
  forked.kill('SIGKILL');
  for (let i = 0; i < 3_000 && isAlive(pid); i++) await sleep(20);
  t.notOk(isAlive(pid));
});

t.test('parts start in order and stop in the reverse order; one that cannot start stops those before it', async (t) => {
  const done: string[] = [];
  const part = (name: string, fails = false) => ({
    name,
    start: () => {
      done.push(`start ${name}`);
      if (fails) throw new Error(`${name} is broken`);
    },
    stop: () => {
      done.push(`stop ${name}`);
      if (name === 'b') throw new Error('cannot stop');
    },
  });
  const service = new Service([part('a'), part('b'), part('c')], log);
  await service.start();
  await Promise.all([service.stop(), service.stop()]);
  t.same(
    done.splice(0),
    ['start a', 'start b', 'start c', 'stop c', 'stop b', 'stop a'],
    'a part that cannot stop is passed over',
  );
  await t.rejects(new Service([part('a'), part('x', true), part('c')], log).start(), /x is broken/);
  t.same(done, ['start a', 'start x', 'stop x', 'stop a']);
});

t.test('metrics of several processes are one text, labelled by their process', async (t) => {
  const pipelines = new Metrics({ processName: 'pipelines' });
  pipelines.inc('gatehouse_stored_rows_total', { table: 'events' }, 7);
  // Over IPC a set arrives as JSON.
  const front = new Metrics({
    processName: 'front-1',
    gather: async () => [JSON.parse(JSON.stringify(await pipelines.collect()))],
  });
  front.counter('gatehouse_events_total', { outcome: 'blocked' }).inc(2);
  front.observe('gatehouse_append_seconds', {}, 0.003);
  const text = await front.text();
  t.match(text, '\ngatehouse_events_total{outcome="blocked",process="front-1"} 2\n');
  t.match(text, '\ngatehouse_stored_rows_total{table="events",process="pipelines"} 7\n');
  t.match(text, '\ngatehouse_append_seconds_bucket{le="0.005",process="front-1"} 1\n');
  t.match(text, 'gatehouse_up{process="front-1"} 1\ngatehouse_up{process="pipelines"} 1\n');
  t.equal(text.match(/# TYPE gatehouse_up gauge/g)?.length, 1, 'each metric is described once');

  const alone = new Metrics({ processName: 'front-1', gather: () => Promise.reject(new Error('gone')) });
  t.match(await alone.text(), 'gatehouse_up{process="front-1"} 1\n', 'a supervisor that is gone takes nothing with it');
});

t.test('a counter is there as 0 from the start, a gauge where it is set, and each process shows its own', async (t) => {
  const text = async (kind: 'front' | 'pipelines' | 'supervisor') => new Metrics({ processName: kind, kind }).text();
  const [front, pipelines, supervisor] = await Promise.all([text('front'), text('pipelines'), text('supervisor')]);
  t.match(front, '\ngatehouse_events_total{outcome="pending",process="front"} 0\n');
  t.match(front, '\ngatehouse_appends_total{result="failed",process="front"} 0\n');
  t.match(pipelines, '\ngatehouse_inserts_total{table="events",result="failed",process="pipelines"} 0\n');
  t.match(
    pipelines,
    '\ngatehouse_deliveries_total{channel="email",transport="smtp",result="failed",process="pipelines"} 0\n',
  );
  t.match(pipelines, '\ngatehouse_findable_seconds_bucket{le="60",process="pipelines"} 0\n');
  for (const name of ['gatehouse_events_total', 'gatehouse_backlog_bytes', 'gatehouse_request_seconds'])
    t.notMatch(pipelines, `TYPE ${name} `);
  for (const name of ['gatehouse_stored_rows_total', 'gatehouse_store_lag_seconds', 'gatehouse_pipelines_stuck'])
    t.notMatch(front, `TYPE ${name} `);
  t.notMatch(supervisor, 'TYPE gatehouse_stored_rows_total');
  t.match(supervisor, /\ngatehouse_build_info\{version="[^"]+",node="v\d+[^"]*",process="supervisor"\} 1\n/);
});

t.test(
  'a process that does not answer is down, and one that cannot be asked about the others reports the supervisor as down',
  async (t) => {
    const silent: Peer = { name: 'front-2', send: () => true };
    const gone: Peer = { name: 'pipelines', send: () => false };
    const own = new Metrics({ processName: 'supervisor' });
    const hub = new WorkerHub({ peers: () => [silent, gone], own: () => own.collect(), onBehind: () => undefined });
    const text = renderMetrics(await hub.gather('front-1'));
    t.match(text, 'gatehouse_up{process="supervisor"} 1\n');
    t.match(text, 'gatehouse_up{process="front-2"} 0\n');
    t.match(text, 'gatehouse_up{process="pipelines"} 0\n');
    t.equal(text.match(/# TYPE gatehouse_up gauge/g)?.length, 1);
  },
);

t.test(
  'a process that does not drain leaves at the second signal, and a signal that comes twice at once counts once',
  async (t) => {
    const file = path.join(folderOf(t), 'stuck.mjs');
    const modules = (name: string) => JSON.stringify(new URL(`../../src/${name}.js`, import.meta.url).href);
    writeFileSync(
      file,
      `import { runProcess, Service } from ${modules('process/lifecycle')};
     import { createLog } from ${modules('process/log')};
     const log = createLog({ level: 'silent', processName: 'stuck' });
     const part = { name: 'stuck', start() {}, stop: () => new Promise(() => setInterval(() => {}, 1000)) };
     await runProcess({ service: new Service([part], log), log, onReady: () => process.send('ready') });
     setInterval(() => {}, 1000);`,
    );
    const child = fork(file);
    await once(child, 'message');
    child.kill('SIGTERM');
    child.kill('SIGINT');
    await sleep(1_200);
    t.equal(child.exitCode, null, 'still draining');
    // Not once: it counts from when it was given time to follow the first.
    const again = setInterval(() => child.kill('SIGTERM'), 500);
    const [code] = await once(child, 'exit');
    clearInterval(again);
    t.equal(code, 1);
  },
);
