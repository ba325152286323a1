// The real Redis for tests: one redis-server child in a folder of its own; with GATEHOUSE_TEST_REDIS_CLUSTER=1 a Cluster of
// three masters, so that any test can be run against both. Append-only file as in the service. Everything goes with the test.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import type { RedisAddress } from '../../src/redis/client.ts';

const MASTERS = 3;

export type TestRedis = {
  address: RedisAddress;
  /** One process, or three. */
  servers: RedisProcess[];
};

export type RedisProcess = {
  port: number;
  child: ChildProcess /** Same folder, same port. */;
  restart(): Promise<void>;
};

/** `args`: further arguments of redis-server. `single`: never a Cluster. */
export async function startRedis(t: Test, options: { args?: string[]; single?: boolean } = {}): Promise<TestRedis> {
  const cluster = process.env['GATEHOUSE_TEST_REDIS_CLUSTER'] === '1' && options.single !== true;
  const args = [
    ...(options.args ?? []),
    ...(cluster ? ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'] : []),
  ];
  const servers = await Promise.all(Array.from({ length: cluster ? MASTERS : 1 }, () => startServer(t, args)));
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`);
  if (cluster) await formCluster(hosts);
  return { address: { url: hosts.map((host) => `redis://${host}`).join(','), cluster }, servers };
}

async function startServer(t: Test, args: readonly string[]): Promise<RedisProcess> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-redis-'));
  const port = await freePort();
  const start = async () => {
    const own = [
      '--port',
      String(port),
      '--dir',
      folder,
      '--appendonly',
      'yes',
      '--save',
      '',
      '--maxmemory-policy',
      'noeviction',
    ];
    const child = spawn('redis-server', [...own, ...args], { stdio: 'ignore' });
    await firstPong(port);
    return child;
  };
  const server: RedisProcess = {
    port,
    child: await start(),
    restart: async () => {
      server.child = await start();
    },
  };
  t.teardown(async () => {
    await end(server.child);
    rmSync(folder, { recursive: true, force: true });
  });
  return server;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill('SIGKILL');
  await exited;
}

async function firstPong(port: number): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if ((await say(port, 'PING\r\n')).startsWith('+PONG')) return;
    await sleep(25);
  }
  throw new Error(`redis-server on ${port} does not answer`);
}

function say(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(text));
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString());
    });
    socket.once('error', () => resolve(''));
  });
}

async function formCluster(hosts: readonly string[]): Promise<void> {
  await promisify(execFile)('redis-cli', ['--cluster', 'create', ...hosts, '--cluster-replicas', '0', '--cluster-yes']);
  for (const host of hosts) {
    const port = Number(host.split(':')[1]);
    while (!(await say(port, 'CLUSTER INFO\r\n')).includes('cluster_state:ok')) await sleep(50);
  }
}

async function freePort(): Promise<number> {
  // Below the ephemeral range, with room for the bus port of a Cluster node (port + 10000).
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 10_000);
    const server = net.createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}
