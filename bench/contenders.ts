// Who is measured side by side: Gatehouse, the Fastify baseline (bench/baseline) and two bare echoes. Each takes the
// same requests at its own address and says which processes its work is done in.
// A contender that is not asked idles; Gatehouse's idle processes cost a few percent of a core, and all turns pay that
// alike.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort } from '../src/embedded/free-port.ts';
import { assetPath } from '../src/process/assets.ts';
import { whenEnded } from './ending.ts';
import type { Watched } from './processes.ts';
import type { Around } from './rounds.ts';
import type { BenchService } from './service.ts';
import type { PolicyOrder } from './workload.ts';

export type Contender = {
  name: string;
  url: string;
  /** Put in front of every path: it selects what the echoes do. */
  pathPrefix: string;
  processes(): Promise<Watched[]>;
  stop(): Promise<void>;
};

export function gatehouse(service: BenchService): Contender {
  return {
    name: 'Gatehouse',
    url: service.url,
    pathPrefix: '',
    processes: () => service.children(),
    stop: async () => void (await service.stop()),
  };
}

/**
 * The same service as if its pipelines and ClickHouse had machines of their own: they are halted while `load` runs, and
 * catch up from the streams afterwards. What is left on the machine is what takes an event in: the front and Redis.
 */
export function wayIn(service: BenchService): Contender & { around: Around } {
  const signal = async (name: NodeJS.Signals) => {
    const behind = (await service.children()).filter((child) => /^(pipelines|clickhouse)/.test(child.name));
    for (const { pid } of behind) process.kill(pid, name);
  };
  return {
    ...gatehouse(service),
    name: 'Gatehouse, the way in',
    processes: async () => (await service.children()).filter((child) => /^(front|redis)/.test(child.name)),
    async around(load) {
      await signal('SIGSTOP');
      try {
        return await load();
      } finally {
        await signal('SIGCONT');
      }
    },
  };
}

/** Two contenders, one process. */
export async function echoes(): Promise<[bytes: Contender, json: Contender]> {
  const { child, port } = await startServer([assetPath('build/bench/echo-server.js')]);
  const echo = (name: string, pathPrefix: string): Contender => ({
    name,
    url: `http://127.0.0.1:${port}`,
    pathPrefix,
    processes: async () => [{ name: 'front', pid: child.pid! }],
    stop: () => end(child),
  });
  return [echo('echo of the bytes', '/bytes'), echo('JSON.parse + JSON.stringify', '/json')];
}

/** With a Redis of its own, set up as Gatehouse's is: append-only file, written to disk every second. */
export async function baseline(given: { key: string; agents: string[]; policies: PolicyOrder[] }): Promise<Contender> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'gatehouse-baseline-'));
  const redisPort = await freePort();
  const redisArgs = ['--port', String(redisPort), '--bind', '127.0.0.1', '--dir', folder];
  const durable = [
    '--appendonly',
    'yes',
    '--appendfsync',
    'everysec',
    '--save',
    '',
    '--maxmemory-policy',
    'noeviction',
  ];
  const strikeFolder = whenEnded(() => rm(folder, { recursive: true, force: true }));
  const redis = spawn('redis-server', [...redisArgs, ...durable], { stdio: 'ignore' });
  const strikeRedis = whenEnded(() => end(redis));
  const redisUrl = `redis://127.0.0.1:${redisPort}`;
  await whenRedisAnswers(redisUrl);
  const policies = given.policies.map((policy, i) => ({ ...policy, id: `pol_${String(i).padStart(26, '0')}` }));
  const seed = { keys: { [given.key]: 'account' }, agents: given.agents, policies };
  const order = JSON.stringify({ redisUrl, seed, requestsPerSecond: 1_000_000 });
  const { child, port } = await startServer([assetPath('build/bench/baseline/server.js'), order]);
  return {
    name: 'Fastify baseline',
    url: `http://127.0.0.1:${port}`,
    pathPrefix: '',
    processes: async () => [
      { name: 'front', pid: child.pid! },
      { name: 'redis', pid: redis.pid! },
    ],
    async stop() {
      await end(child);
      await end(redis);
      strikeRedis();
      await rm(folder, { recursive: true, force: true });
      strikeFolder();
    },
  };
}

async function startServer(args: string[]): Promise<{ child: ChildProcess; port: number }> {
  const env = { ...process.env, NODE_ENV: 'production' };
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
  child.once(
    'exit',
    whenEnded(() => end(child)),
  );
  const said = once(child.stdout!, 'data') as Promise<[Buffer]>;
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${args[0]} ended with ${code}`);
  });
  const [line] = await Promise.race([said, ended]);
  return { child, port: Number(line.toString()) };
}

async function whenRedisAnswers(url: string): Promise<void> {
  const redis = new Redis(url, { retryStrategy: () => 50 });
  redis.on('error', () => undefined);
  for (const until = Date.now() + 10_000; redis.status !== 'ready'; await sleep(20)) {
    if (Date.now() > until) throw new Error(`redis-server does not answer at ${url}`);
  }
  redis.disconnect();
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}
