// `npm start` as a person starts it and ends it: the first start says in lines for people what it does, and in JSON to
// a program; whatever process is killed, and however, nothing of the service is left.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Runtime, StateDir } from '../../src/embedded/state-dir.ts';
import { PROJECT_ROOT } from '../../src/process/assets.ts';
import { folderOf } from '../support/folder.ts';
import { programOnPath } from '../support/programs.ts';
import { hasOwnStores, makeDataDir, serviceEnvironment } from '../support/service.ts';

const READY_MS_MAX = 180_000;
/** A drain may take 25 s, and a parent that is gone is noticed within a second. */
const GONE_MS_MAX = 60_000;

type Started = { npm: ChildProcess; runtime: Runtime; dataDir: string; said: () => string };

/** Gives a program a terminal (util-linux). */
const SCRIPT = programOnPath('script');
const CLOCK = /^\d\d:\d\d:\d\d [\w-]+: /;

for (const { where, isTerminal, isForPeople, format } of [
  { where: 'on a terminal is in lines for people', isTerminal: true, isForPeople: true, format: {} },
  { where: 'on a terminal is in JSON where that is set', isTerminal: true, format: { GATEHOUSE_LOG_FORMAT: 'json' } },
  { where: 'without a terminal is in JSON', isTerminal: false, format: {} },
]) {
  const skip = isTerminal && SCRIPT === undefined ? 'there is no script(1) on this machine' : false;
  t.test(`what the first start says ${where}`, { skip }, async (t) => {
    const env = { GATEHOUSE_LOG_LEVEL: 'info', ...format };
    const { npm, runtime, dataDir, said } = await npmStart(t, { isTerminal, env });
    const key = readFileSync(path.join(dataDir, 'admin-key'), 'utf8').trim();
    process.kill(runtime.pid, 'SIGTERM');
    if (npm.exitCode === null) await once(npm, 'close');
    const lines = said()
      .split(/\r?\n/)
      .filter((line) => line !== '');
    const url = /^Gatehouse \S+ is ready at (http:\/\/127\.0\.0\.1:\d+)$/m.exec(lines.join('\n'))?.[1];
    t.ok(url, 'where it is');
    if (isTerminal) {
      t.ok(lines.includes(`  ${key}`), 'the key');
      t.ok(
        lines.some((line) => line.startsWith(`Dashboard: ${url}/ui/#key=${key} `)),
        'the link that signs in',
      );
    } else {
      t.ok(lines.includes(`Admin key of the account "default": made at the first start, kept in ${dataDir}/admin-key`));
      t.ok(lines.includes(`Dashboard: ${url}/ui/`), 'the link signs nobody in');
      t.notMatch(said(), /gth_/, 'no key where a log may be kept');
    }
    const [json, spoken] = [lines.filter((line) => line.startsWith('{')), lines.filter((line) => CLOCK.test(line))];
    const messages = json.map((line) => (JSON.parse(line) as { msg: string }).msg);
    if (isForPeople === true) {
      t.same(json, [], `of ${lines.length} lines none is JSON`);
      t.ok(
        spoken.some((line) => line.endsWith('supervisor: starting Redis and ClickHouse')),
        'what it does',
      );
      t.ok(
        spoken.some((line) => line.endsWith('front-1: ready')),
        'each process by its name',
      );
    } else {
      t.same(spoken, [], 'no line of the log is for people');
      t.ok(
        ['engines.starting', 'workers.starting', 'process.ready'].every((msg) => messages.includes(msg)),
        'what it does',
      );
    }
  });
}

for (const [signal, what] of [
  ['SIGTERM', 'npm passes it on'],
  ['SIGINT', 'npm passes it on'],
  ['SIGHUP', 'npm ends of it, and its child notices'],
  ['SIGKILL', 'npm passes nothing on, and its child notices'],
] as const) {
  t.test(`${signal} to the process of npm start ends the whole service: ${what}`, async (t) => {
    const { npm, runtime, dataDir, said } = await npmStart(t);
    t.equal(parentOf(runtime.pid), npm.pid, 'no shell between npm and the service');
    npm.kill(signal);
    await allGone(t, [npm.pid!, runtime.pid, ...Object.values(runtime.children)], said);
    t.notOk(existsSync(path.join(dataDir, 'runtime.json')), 'it has drained');
  });
}

t.test('SIGTERM to the service itself ends npm as well', async (t) => {
  const { npm, runtime, said } = await npmStart(t);
  process.kill(runtime.pid, 'SIGTERM');
  await allGone(t, [npm.pid!, runtime.pid, ...Object.values(runtime.children)], said);
  // It may be gone before this process has heard of it.
  const status = npm.exitCode ?? (await once(npm, 'exit'))[0];
  t.equal(status, 0, 'with the status of a service that has drained');
});

t.test('what follows -- reaches the command, which says what it does not know', async (t) => {
  const dataDir = folderOf(t);
  const { npm, said } = run(dataDir, ['start', '--', '--no-install', '--port', '80']);
  await once(npm, 'close');
  t.equal(npm.exitCode, 2);
  t.match(said(), /gatehouse: .*--port.*usage: gatehouse start/);
});

t.test('npx finds the command in the checkout', async (t) => {
  const { env } = process;
  const outside = Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name)));
  const npx = spawn('npx', ['gatehouse', 'version'], {
    cwd: PROJECT_ROOT,
    env: outside,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [npx.stdout, npx.stderr]) stream.on('data', (data: Buffer) => (said += data.toString()));
  await once(npx, 'close');
  t.match(said, /^\d+\.\d+\.\d+\n$/);
});

/** `isTerminal`: at one of its own. */
type How = { isTerminal?: boolean; env?: Record<string, string> };

async function npmStart(t: Test, how: How = {}): Promise<Started> {
  if (!hasOwnStores()) t.comment('with the embedded engines all the same');
  const dataDir = await makeDataDir();
  const { npm, said } = run(dataDir, ['start'], how);
  const state = new StateDir(dataDir);
  let runtime: Runtime | undefined;
  t.teardown(async () => {
    for (const pid of [npm.pid!, runtime?.pid, ...Object.values(runtime?.children ?? {})]) {
      if (pid !== undefined && !isGone(pid)) process.kill(pid, 'SIGKILL');
    }
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });
  const deadline = performance.now() + READY_MS_MAX;
  while (runtime === undefined || !said().includes('is ready at')) {
    runtime = state.readRuntime();
    if (npm.exitCode !== null || performance.now() > deadline) throw new Error(`npm start: not ready\n${said()}`);
    await sleep(50);
  }
  return { npm, runtime, dataDir, said };
}

/** npm as from a shell: nothing of the npm that may run this test, nor of its settings. */
function run(dataDir: string, args: string[], { isTerminal = false, env: more = {} }: How = {}) {
  const own = { GATEHOUSE_PORT: '0', GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_LOG_LEVEL: 'warn' };
  const env = serviceEnvironment({ ...own, ...more });
  const outside = Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name)));
  const [program, words] = isTerminal ? [SCRIPT!, ['-qec', ['npm', ...args].join(' '), '/dev/null']] : ['npm', args];
  const npm = spawn(program, words, { cwd: PROJECT_ROOT, env: outside, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [npm.stdout, npm.stderr]) stream.on('data', (data: Buffer) => (text += data.toString()));
  return { npm, said: () => text };
}

async function allGone(t: Test, pids: number[], said: () => string): Promise<void> {
  t.ok(pids.length >= 6, `${pids.length} processes: npm, the supervisor, two engines, two workers`);
  const deadline = performance.now() + GONE_MS_MAX;
  while (!pids.every(isGone) && performance.now() < deadline) await sleep(50);
  t.same(pids.filter((pid) => !isGone(pid)).map(commandOf), [], 'nothing is left');
  t.comment(said().slice(-500));
}

/** Also before the exit status of an orphan is collected. */
function isGone(pid: number): boolean {
  const stat = statOf(pid);
  return stat === undefined || stat[0] === 'Z';
}

function parentOf(pid: number): number {
  return Number(statOf(pid)?.[1]);
}

/** State, parent, … (proc(5)); the command before them may hold blanks and brackets. */
function statOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
}
