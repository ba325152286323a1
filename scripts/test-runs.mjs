// What the scripts that run tests share: running files, and what test files share in one run.
// Invariant: what was started here is ended here, also by a signal. A file that does not end in time has failed.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
export const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const built = path.join(root, 'build', 'test');
/** The folder with the output of each file in the last run, and how it ended. */
const results = path.join(root, 'build', 'test-results');
/** Kept in the repository, so that a fresh clone begins with the files that take longest. */
const timesFile = path.join(root, 'test', 'times.json');
/** Ten times what the longest file takes on a quiet machine, twice what it took on one that others shared. */
const FILE_SECONDS_MAX = 1_200;
/** The characters of a file's output that are shown for a failure; all of it is in its file. */
const SHOWN_CHARACTERS_MAX = 20_000;
const TICKS_PER_SECOND = 100;
const OUTPUT_MS_MAX = 5_000;

/** Names of all test files, as `http/api.path`. */
export function testNames() {
  return readdirSync(built, { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => name.slice(0, -'.test.js'.length))
    .sort();
}

/** Name -> seconds and processor seconds of the last run that was recorded. */
function recordedTimes() {
  return existsSync(timesFile) ? JSON.parse(readFileSync(timesFile, 'utf8')) : {};
}

export function recordTimes(times) {
  const all = Object.entries({ ...recordedTimes(), ...times })
    .filter(([name]) => existsSync(path.join(root, 'test', `${name}.test.ts`)))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = all.map(([name, [seconds, busy]]) => `  "${name}": [${Math.ceil(seconds)}, ${Math.ceil(busy)}]`);
  writeFileSync(timesFile, `{\n${lines.join(',\n')}\n}\n`);
}

/**
 * Runs test files, each as a program of its own that prints TAP and ends with its result (tap's runner took a tenth of
 * the processor time of all). `jobs` at a time, those that took longest first. Says how each ended. Resolves with the
 * names of what failed, and with what each took.
 */
export async function runFiles(names, { jobs = 3, env = {} } = {}) {
  const known = recordedTimes();
  const waiting = [...names].sort((a, b) => (known[b]?.[0] ?? 60) - (known[a]?.[0] ?? 60));
  const total = waiting.length;
  const failed = [];
  const times = {};
  const running = new Set();
  const handOn = (signal) => {
    waiting.length = 0;
    for (const child of running) child.kill(signal);
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, handOn);
  let done = 0;
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const { code, seconds, busy, counts, failure } = await runFile(name, env, running);
      times[name] = [seconds, busy];
      const outcome = code === 0 ? 'ok    ' : 'FAILED';
      const place = `${++done}/${total}`.padStart(7);
      const took = `${seconds.toFixed(0).padStart(4)} s ${busy.toFixed(0).padStart(4)} s busy`;
      process.stdout.write(`${outcome} ${place} ${took}  ${name}: ${counts}\n`);
      if (code === 0) continue;
      failed.push(name);
      process.stdout.write(`${failure}\n(ended with ${code}; all of it: build/test-results/${name}.tap)\n`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  for (const signal of ['SIGINT', 'SIGTERM']) process.removeListener(signal, handOn);
  return { failed, times };
}

/** Failovers (`test/cluster`) are no tests of their own name: they run by test-elsewhere.mjs alone. */
function programOf(name) {
  return path.join(built, name.endsWith('.cluster') ? `${name}.js` : `${name}.test.js`);
}

async function runFile(name, env, running) {
  const result = path.join(results, name);
  mkdirSync(path.dirname(result), { recursive: true });
  const usage = `${result}.usage`;
  const began = performance.now();
  const child = spawn(process.execPath, [`--import=${path.join(root, 'scripts', 'test-usage.mjs')}`, programOf(name)], {
    cwd: root,
    env: { ...process.env, TAP_TIMEOUT: String(FILE_SECONDS_MAX), ...env, GATEHOUSE_TEST_USAGE_FILE: usage },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.add(child);
  // The test ends by itself at its limit and says what it waited for; this is for one that cannot.
  const limit = setTimeout(() => child.kill('SIGKILL'), (FILE_SECONDS_MAX + 30) * 1000);
  const chunks = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => chunks.push(chunk));
  const code = await new Promise((resolve) => child.on('exit', (status, signal) => resolve(status ?? signal)));
  clearTimeout(limit);
  // What it started and left behind may hold its output open.
  if (!child.stdout.readableEnded)
    await Promise.race([once(child, 'close'), sleep(OUTPUT_MS_MAX, null, { ref: false })]);
  for (const stream of [child.stdout, child.stderr]) stream.destroy();
  running.delete(child);
  const output = Buffer.concat(chunks).toString();
  writeFileSync(`${result}.tap`, output);
  const from = Math.max(0, output.search(/^ *not ok/m));
  const counts = /# \{ (total: .*) \}\s*(?:# time.*)?\s*$/.exec(output)?.[1] ?? 'it did not say how it ended';
  const busy = existsSync(usage) ? Number(readFileSync(usage, 'utf8')) : 0;
  rmSync(usage, { force: true });
  const seconds = (performance.now() - began) / 1000;
  return { code, seconds, busy, counts, failure: output.slice(from, from + SHOWN_CHARACTERS_MAX) };
}

/** Processor seconds of this process and of all that it started and that have ended. */
export function processorSeconds() {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
}

const REFERENCE_EVERY_MS = 30_000;

/**
 * Measures the time of a fixed piece of work on this machine meanwhile (scripts/test-reference.mjs). One day's machine
 * takes 461 seconds of processor time for the tests and the next one's 860 for the same, while a loop of arithmetic
 * takes the same on both: memory is what differs.
 */
export class ReferenceWork {
  #seconds = [];
  #running = this.#measure();
  #timer = setInterval(() => (this.#running = this.#measure()), REFERENCE_EVERY_MS);

  /** Resolves with the median in seconds of processor time, and with what all of it took. */
  async end() {
    clearInterval(this.#timer);
    await this.#running;
    const sorted = this.#seconds.sort((a, b) => a - b);
    return { median: sorted[sorted.length >> 1], sum: sorted.reduce((sum, value) => sum + value, 0) };
  }

  async #measure() {
    const { stdout } = await run(process.execPath, [path.join(root, 'scripts', 'test-reference.mjs')]);
    this.#seconds.push(Number(stdout) / 1000);
  }
}

/** One ClickHouse engine in a folder of its own. */
export async function startEngine() {
  const { forkEngine } = await import('../build/test/support/clickhouse.js');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-engine-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    const engine = await forkEngine({ path: path.join(folder, 'clickhouse'), port: 0 });
    engine.child.stdout.resume();
    return { url: engine.url, stop: () => engine.stop('SIGTERM').finally(remove) };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The engine and the whole service of one run; `env` tells the tests where they are. */
export async function startShared() {
  const { launchService, makeDataDir } = await import('../build/test/support/service.js');
  const dataDir = await makeDataDir();
  const started = [{ stop: () => rmSync(dataDir, { recursive: true, force: true }) }];
  const stop = async () => {
    for (const one of started.reverse()) await one.stop();
  };
  try {
    const engine = await startEngine();
    started.push(engine);
    const service = await launchService({ dataDir, env: { GATEHOUSE_LOG_LEVEL: 'warn' } });
    started.push(service);
    const given = { url: service.url, addresses: await service.addresses() };
    return {
      env: { GATEHOUSE_TEST_ENGINE_URL: engine.url, GATEHOUSE_TEST_SERVICE: JSON.stringify(given) },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
