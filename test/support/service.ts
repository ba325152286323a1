// The whole service for tests and measurements: `gatehouse start` as a child, on a data folder and a port of its own.
// GATEHOUSE_TEST_REDIS_CLUSTER=1 runs it on a Redis Cluster of three masters on loopback instead of the embedded Redis,
// GATEHOUSE_TEST_CLICKHOUSE_URL on a ClickHouse of yours (each service in a database of its own, which is dropped).
// Where several files share an engine (GATEHOUSE_TEST_ENGINE_URL) `startService` takes it, but for `stores: 'own'`.
// Invariant: what it started is gone after the test, and so is its folder; when a start fails, the error holds its log.
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import type { Test } from 'tap';
import { type Runtime, StateDir } from '../../src/embedded/state-dir.ts';
import { assetPath } from '../../src/process/assets.ts';
import { restricted, startRedis } from './redis.ts';

export type Environment = Record<string, string | undefined>;
type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type TestService = {
  url: string;
  /** Admin key of the account `default`. */
  key: string;
  dataDir: string;
  pid: number;
  /** SIGTERM; resolves when it has left. Leaves the data folder. */
  stop(): Promise<Exit>;
  /** The processes that it runs, by name: `redis`, `clickhouse`, `pipelines`, `front-1`, … Only what is alive. */
  children(): Promise<{ name: string; pid: number }[]>;
  addresses(): Promise<{ redisUrl: string; redisCluster: boolean; clickhouseUrl: string; clickhouseDatabase: string }>;
  /** The text that it has printed for people. */
  printed(): string;
  log(): Promise<string>;
};

type ServiceOptions = {
  env?: Environment;
  /** To start again where another has been; otherwise one is made. */
  dataDir?: string;
  /** `own`: with an embedded ClickHouse also where the files of one run share an engine. */
  stores?: 'own';
};

const READY_MS_MAX = 180_000;
/** A little over the 25 s that the service gives itself. */
const STOP_MS_MAX = 30_000;

/** The whole service, torn down with the test. */
export async function startService(t: Test, options: ServiceOptions = {}): Promise<TestService> {
  const given = await givenStores(t, options.stores);
  const dataDir = options.dataDir ?? (await makeDataDir());
  let service: TestService | undefined;
  t.teardown(async () => {
    await service?.stop();
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  });
  service = await launchService({ dataDir, env: { ...given, ...options.env } });
  return service;
}

export function makeDataDir(): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), 'gatehouse-test-'));
}

/** Environment of the service: ours without its own settings, then what is given. */
export function serviceEnvironment(given: Environment): Environment {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('GATEHOUSE_'));
  return { ...Object.fromEntries(inherited), ...given };
}

type Launch = {
  dataDir: string;
  env?: Environment;
  /** Folder of another installation of Gatehouse; left out: this one. */
  installation?: string;
  /** Called with a way to stop it as soon as it runs, ready or not. */
  onSpawn?: (stop: () => Promise<Exit>) => void;
};

/** Starts it and waits until it is ready. The caller stops it and removes the folder. */
export async function launchService(options: Launch): Promise<TestService> {
  const { dataDir } = options;
  const key = options.env?.GATEHOUSE_BOOTSTRAP_KEY ?? `test-${randomBytes(24).toString('base64url')}`;
  const env = serviceEnvironment({
    GATEHOUSE_PORT: '0',
    GATEHOUSE_BOOTSTRAP_KEY: key,
    GATEHOUSE_REQUESTS_PER_SECOND: '1000000',
    GATEHOUSE_REQUESTS_BURST: '10000000',
    // A process less for each of a hundred services.
    GATEHOUSE_BACKTESTS: '0',
    ...options.env,
    GATEHOUSE_DATA_DIR: dataDir,
  });
  const logFile = path.join(dataDir, 'service.log');
  const program = path.join(options.installation ?? assetPath('.'), 'build/service/cli.js');
  const child = spawn(process.execPath, [program, 'start'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  options.onSpawn?.(() => stopChild(child));
  let printed = '';
  child.stdout.on('data', (data: Buffer) => {
    printed += data.toString();
  });
  child.stderr.pipe(createWriteStream(logFile, { flags: 'a' }));
  const state = new StateDir(dataDir);
  const runtime = await whenReady(child, state, logFile);
  return {
    url: runtime.url,
    key,
    dataDir,
    pid: child.pid!,
    stop: () => stopChild(child),
    children: async () => alive(state.readRuntime()?.children ?? {}),
    addresses: async () => {
      const { redisUrl, redisCluster, clickhouseUrl } = state.readRuntime() ?? runtime;
      return {
        redisUrl,
        redisCluster,
        clickhouseUrl,
        clickhouseDatabase: env.GATEHOUSE_CLICKHOUSE_DATABASE ?? 'gatehouse',
      };
    },
    printed: () => printed,
    log: () => readFile(logFile, 'utf8'),
  };
}

/** A front or pipelines process of its own; the caller stops it. */
export function spawnCli(args: string[], env: Environment): ChildProcess {
  return spawn(process.execPath, [assetPath('build/service/cli.js'), ...args], {
    env: serviceEnvironment(env),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Runs the command line to its end. `input`: on its standard input; left out: there is none. */
export async function runCli(
  args: string[],
  env: Environment,
  input?: string,
): Promise<Exit & { stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [assetPath('build/service/cli.js'), ...args], {
    env: serviceEnvironment(env),
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<Writable | null, Readable, Readable>;
  child.stdin?.end(input);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, stdout, stderr };
}

async function whenReady(child: ChildProcess, state: StateDir, logFile: string): Promise<Runtime> {
  const deadline = performance.now() + READY_MS_MAX;
  for (;;) {
    const runtime = state.readRuntime();
    if (runtime?.pid === child.pid && (await answers(`${runtime!.url}/readyz`))) return runtime!;
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    if (hasEnded || performance.now() > deadline) {
      child.kill('SIGKILL');
      const log = await readFile(logFile, 'utf8').catch(() => '');
      throw new Error(`the service ${hasEnded ? 'ended' : 'was not ready in time'}:\n${log.slice(-8_000)}`);
    }
    await sleep(50);
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(10_000) }).then(
    (response) => response.ok,
    () => false,
  );
}

async function stopChild(child: ChildProcess): Promise<Exit> {
  if (child.exitCode === null && child.signalCode === null) {
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
    child.kill('SIGTERM');
    await once(child, 'exit');
    clearTimeout(timer);
  }
  return { code: child.exitCode, signal: child.signalCode };
}

/** Kills the pipelines so often, with so long a rest behind each try: they are started again meanwhile. */
export async function killPipelines(
  service: Pick<TestService, 'children'>,
  times: number,
  restMs: number,
): Promise<void> {
  for (let kills = 0; kills < times; await sleep(restMs)) {
    const pipelines = (await service.children()).find(({ name }) => name.startsWith('pipelines'));
    if (pipelines === undefined) continue;
    process.kill(pipelines.pid, 'SIGKILL');
    kills++;
  }
}

function alive(children: Record<string, number>): { name: string; pid: number }[] {
  return Object.entries(children).flatMap(([name, pid]) => {
    try {
      process.kill(pid, 0);
      return [{ name, pid }];
    } catch {
      return [];
    }
  });
}

/** Whether a service has its stores as children of its own; else one of them is given by the environment. */
export function hasOwnStores(): boolean {
  return process.env.GATEHOUSE_TEST_REDIS_CLUSTER !== '1' && process.env.GATEHOUSE_TEST_CLICKHOUSE_URL === undefined;
}

/** The stores that the environment asks the tests to run on. Torn down after the service, which was started later. */
async function givenStores(t: Test, stores: ServiceOptions['stores']): Promise<Environment> {
  const env: Environment = {};
  if (process.env.GATEHOUSE_TEST_REDIS_CLUSTER === '1') {
    const address = await restricted(t, await startRedis(t));
    env.GATEHOUSE_REDIS_URL = address.url;
    env.GATEHOUSE_REDIS_CLUSTER = String(address.cluster);
  }
  const shared = stores === 'own' ? undefined : process.env.GATEHOUSE_TEST_ENGINE_URL;
  const url = process.env.GATEHOUSE_TEST_CLICKHOUSE_URL ?? shared;
  if (url !== undefined) {
    const database = `test_${process.pid}_${randomBytes(6).toString('hex')}`;
    env.GATEHOUSE_CLICKHOUSE_URL = url;
    env.GATEHOUSE_CLICKHOUSE_DATABASE = database;
    t.teardown(async () => {
      const clickhouse = createClient({ url });
      await clickhouse.command({ query: `DROP DATABASE IF EXISTS ${database}` });
      await clickhouse.close();
    });
  }
  return env;
}
