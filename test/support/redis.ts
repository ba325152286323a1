// The real Redis for tests: one redis-server child in a folder of its own; with GATEHOUSE_TEST_REDIS_CLUSTER=1 a
// Cluster of three masters, so that any test can be run against both. Everything goes with the test.
// The append-only file is written before each answer and never synced: tests kill Redis, not the machine, and what was
// written outlives that. With syncs a slow disk held answers back for seconds (`always`), or put writes off
// (`everysec`, lost by a kill).
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import type { Test } from 'tap';
import { aclRules } from '../../src/redis/access.ts';
import { type Commands, type RedisAddress, waitUntilReady } from '../../src/redis/client.ts';

const MASTERS = 3;
/** A machine that does nothing for some seconds is not what these tests are about. */
const WAIT_MS = 60_000;
const START_MS_MAX = 60_000;

export type TestRedis = {
  address: RedisAddress;
  /** One process, or three. */
  servers: RedisProcess[];
};

export type RedisProcess = {
  host: string;
  port: number;
  /** With its append-only file. */
  folder: string;
  child: ChildProcess /** Same folder, same port. */;
  restart(): Promise<void>;
};

/** `args`: further arguments of redis-server. `single`: never a Cluster. */
export async function startRedis(t: Test, options: { args?: string[]; single?: boolean } = {}): Promise<TestRedis> {
  if (process.env['GATEHOUSE_TEST_REDIS_CLUSTER'] === '1' && options.single !== true) return startCluster(t, options);
  const server = await startServer(t, options.args ?? []);
  return { address: { url: `redis://127.0.0.1:${server.port}`, cluster: false }, servers: [server] };
}

/** Where a server runs: its address, and the command that runs another one there. */
export type Place = { host: string; run: readonly string[] };
const HERE: Place = { host: '127.0.0.1', run: [] };

type ClusterShape = { args?: string[]; replicas?: number; placeOf?: (server: number) => Place };

/** A Cluster of three masters, with so many replicas each, whatever the environment says. Masters come first. */
export async function startCluster(t: Test, options: ClusterShape = {}): Promise<TestRedis> {
  const { replicas = 0, placeOf = () => HERE } = options;
  const args = [...(options.args ?? []), '--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  const servers = await Promise.all(
    Array.from({ length: MASTERS * (1 + replicas) }, (_, i) =>
      startServer(t, [...args, '--cluster-announce-ip', placeOf(i).host], placeOf(i)),
    ),
  );
  await formCluster(servers, replicas);
  const hosts = servers.map(({ host, port }) => `${host}:${port}`);
  return { address: { url: hosts.map((host) => `redis://${host}`).join(','), cluster: true }, servers };
}

/** A master, a replica, and three Sentinels that replace the one by the other within some two seconds. */
export async function startSentinels(t: Test): Promise<TestRedis> {
  const master = await startServer(t, []);
  const replica = await startServer(t, ['--replicaof', master.host, String(master.port)]);
  while (!(await say(replica, 'INFO replication\r\n')).includes('master_link_status:up')) await sleep(50);
  const ports = await Promise.all(Array.from({ length: 3 }, () => startSentinel(t, master)));
  for (const port of ports)
    while (
      !/name=main,status=ok,.*slaves=1,sentinels=3/.test(await say({ host: '127.0.0.1', port }, 'INFO sentinel\r\n'))
    )
      await sleep(100);
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',');
  return { address: { url: `redis+sentinel://${hosts}/main`, cluster: false }, servers: [master, replica] };
}

async function startSentinel(t: Test, { host, port: of }: RedisProcess): Promise<number> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-sentinel-'));
  const port = await freePort();
  const settings = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor main ${host} ${of} 2`,
    'sentinel down-after-milliseconds main 1000',
    'sentinel failover-timeout main 10000',
  ];
  const file = path.join(folder, 'sentinel.conf');
  writeFileSync(file, `${settings.join('\n')}\n`);
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' });
  t.teardown(async () => {
    await end(child);
    rmSync(folder, { recursive: true, force: true });
  });
  return port;
}

/**
 * For tests that are not about time: the client waits a minute for an answer where the service gives up after seconds.
 */
export function untilConnected<T extends Commands>(client: T): T {
  if (client instanceof Redis)
    Object.assign(client.options, { commandTimeout: WAIT_MS, socketTimeout: WAIT_MS + 1_000 });
  return client;
}

/** The client, once it is connected; it ends with the test. */
export async function opened<T extends Commands>(t: Test, client: T): Promise<T> {
  t.teardown(() => client.disconnect());
  await waitUntilReady(client, WAIT_MS);
  return client;
}

async function startServer(t: Test, args: readonly string[], place = HERE): Promise<RedisProcess> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-redis-'));
  const server = await launchOnFreePort(place, folder, ['--dir', folder, ...WRITES, ...USER, ...args]);
  t.teardown(async () => {
    await end(server.child);
    rmSync(folder, { recursive: true, force: true });
  });
  return server;
}

// biome-ignore format: a setting a line
const WRITES = [
  '--appendonly', 'yes',
  '--appendfsync', 'no',
  '--save', '',
  '--maxmemory-policy', 'noeviction',
];

/** A user that may do what Gatehouse says it needs and nothing else. */
const RESTRICTED = 'gatehouse:secret';
const USER = ['--user', 'gatehouse', 'on', '>secret', ...aclRules('gh-')];

/** The same Redis, as the user that may do nothing else; the test fails where it was refused anything. */
export async function restricted(t: Test, { address, servers }: TestRedis): Promise<RedisAddress> {
  t.teardown(async () => {
    const logs = await Promise.all(servers.map((server) => say(server, 'ACL LOG 10\r\n').catch(() => '')));
    const refused = logs.join('\n');
    // What an error in a teardown says is not shown.
    if (/gatehouse/.test(refused)) t.comment(refused);
    if (/gatehouse/.test(refused)) throw new Error('a command was sent that is not in the list of access.ts');
  });
  return { ...address, url: address.url.replaceAll(/redis(\+sentinel)?:\/\//g, `$&${RESTRICTED}@`) };
}

/** Another program may take a port between our look and the server's: then it is tried on the next one. */
async function launchOnFreePort({ host, run }: Place, folder: string, args: readonly string[]): Promise<RedisProcess> {
  for (let tries = 1; ; tries++) {
    const port = await freePort();
    const start = async () => {
      const [command, ...words] = [...run, 'redis-server', '--port', String(port), '--bind', host, ...args];
      const child = spawn(command!, words, { stdio: 'ignore' });
      await untilItAnswers(child, { host, port });
      return child;
    };
    try {
      const server: RedisProcess = {
        ...{ host, port, folder },
        child: await start(),
        restart: async () => {
          server.child = await start();
        },
      };
      return server;
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill('SIGKILL');
  await exited;
}

/** This very process, not one that has the port already; and done with loading. */
type At = { host: string; port: number };

async function untilItAnswers(child: ChildProcess, at: At): Promise<void> {
  const until = performance.now() + START_MS_MAX;
  while (performance.now() < until) {
    if (child.exitCode !== null || child.signalCode !== null) break;
    const info = await say(at, 'INFO server\r\n');
    if (info.includes(`process_id:${child.pid}\r\n`) && (await say(at, 'PING\r\n')).startsWith('+PONG')) return;
    await sleep(25);
  }
  child.kill('SIGKILL');
  throw new Error(`redis-server on ${at.port} does not answer (exit ${child.exitCode})`);
}

function say({ host, port }: At, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = net.connect(port, host, () => socket.write(text));
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString());
    });
    socket.once('error', () => resolve(''));
    socket.once('close', () => resolve(''));
  });
}

async function formCluster(servers: readonly RedisProcess[], replicas: number): Promise<void> {
  const hosts = servers.map(({ host, port }) => `${host}:${port}`);
  const shape = ['--cluster-replicas', String(replicas), '--cluster-yes'];
  await promisify(execFile)('redis-cli', ['--cluster', 'create', ...hosts, ...shape]);
  for (const server of servers) {
    while (!(await say(server, 'CLUSTER INFO\r\n')).includes('cluster_state:ok')) await sleep(50);
    const isPaired = async () =>
      /master_link_status:up|connected_slaves:[1-9]/.test(await say(server, 'INFO replication\r\n'));
    while (replicas > 0 && !(await isPaired())) await sleep(50);
  }
}

/** Ends the server, and starts it with the append-only files that are kept in a folder. */
export async function putBack(server: RedisProcess, kept: string): Promise<void> {
  await end(server.child);
  restoreFiles(server, kept);
  await server.restart();
}

/** The same for a whole Cluster: its masters have what is kept of each, and its replicas begin with nothing. */
export async function putClusterBack(
  servers: readonly RedisProcess[],
  kept: ReadonlyMap<RedisProcess, string>,
): Promise<void> {
  await Promise.all(servers.map(({ child }) => end(child)));
  for (const server of servers) restoreFiles(server, kept.get(server));
  await Promise.all([...kept.keys()].map((server) => server.restart()));
  await Promise.all(servers.filter((server) => !kept.has(server)).map((server) => server.restart()));
}

function restoreFiles({ folder }: RedisProcess, kept: string | undefined): void {
  const files = path.join(folder, 'appendonlydir');
  rmSync(files, { recursive: true });
  if (kept !== undefined) cpSync(kept, files, { recursive: true });
}

/** The replica of a Cluster's master. */
export async function replicaOf(servers: readonly RedisProcess[], master: RedisProcess): Promise<RedisProcess> {
  const nodes = (await say(master, 'CLUSTER NODES\r\n')).split('\n').map((line) => line.split(' '));
  const own = nodes.find(([, , flags = '']) => flags.includes('myself'))![0];
  const replica = nodes.find(([, , flags = '', of]) => flags.includes('slave') && of === own)!;
  return servers.find(({ port }) => replica[1]!.includes(`:${port}@`))!;
}

async function freePort(): Promise<number> {
  // Below the ports of the embedded engines (free-port.ts). The bus of a Cluster node lies 10,000 above, among them.
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 8_000);
    const server = net.createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) return port;
  }
}

/** Asks each master of `urls` (of a cluster each knows its own keys alone) in turn, by a user who may do all. */
export async function ofEachMaster(urls: string, ask: (redis: Redis) => Promise<void>): Promise<void> {
  for (const url of urls.split(',')) {
    const redis = new Redis(url.replace('gatehouse:secret@', ''));
    try {
      await ask(redis);
    } finally {
      redis.disconnect();
    }
  }
}
