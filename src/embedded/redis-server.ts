// Runs Debian's redis-server for `gatehouse start`, with its append-only file in the data folder.
// Used everywhere else: streams, counters and the registry live in it.
// Invariant: appendonly, noeviction, loopback with a password, and one server per folder. A server that a killed
// supervisor left behind is found by its process id and ended (it writes everything out first) before a new one opens
// the files. One that cannot be seen, in another container that shares the folder, is noticed by the lock that each
// server holds (file-lock.ts). A cut-off end of the append-only file, as a power cut leaves it, is repaired as Redis
// does (the broken last command goes); a file that is damaged elsewhere ends the start with a sentence, since only a
// person can decide what to give up.

import { execFile } from 'node:child_process';
import { accessSync, constants, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { leadsTo } from '../chdb-server/engine-holder.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import type { Log } from '../process/log.ts';
import { type Damage, damageText, findDamage, sizeOfNewest } from './append-only-damage.ts';
import { AppendOnlySync } from './append-only-sync.ts';
import { type Child, type Exit, spawnChild } from './child.ts';

type RedisServerOptions = {
  /** The server's own folder; exists. */
  folder: string;
  port: number;
  password: string;
  appendfsync: 'everysec' | 'always';
  maxmemory: string;
  env: Record<string, string | undefined>;
  log: Log;
  /**
   * Called when Redis found its file cut off in the middle of a command, which it dropped; with the number of bytes.
   */
  onCut?: (bytes: number) => void;
};

class RedisServerError extends UserFacingError {
  override name = 'RedisServerError';
}

/** 7.0 brought script flags: draining a full Redis depends on them. */
const VERSION_MIN = 7;
const PID_FILE = 'server.pid';
/** Locked by the server itself, for as long as it or a child of it that writes lives. */
const LOCK_FILE = 'server.lock';
/** A child that rewrites the file notices within a second that its server is gone. */
const LOCK_WAIT_S_MAX = 20;
/** The exit status of `flock` when it could not have the lock; redis-server ends with 0 or 1. */
const LOCKED_STATUS = 75;
/** A leftover server writes out what it holds; that takes longer than a moment only when the disk is very slow. */
const LEFTOVER_MS_MAX = 20_000;
const PING_EVERY_MS = 25;
/** The append-only file is not rewritten before it is this long. */
const REWRITE_FROM_MB = 1024;

export function redisUrl(options: { port: number; password: string }): string {
  return `redis://:${options.password}@127.0.0.1:${options.port}`;
}

/** Throws RedisServerError when there is no usable redis-server on the PATH. */
export async function checkRedisProgram(env: Record<string, string | undefined>): Promise<void> {
  const advice = 'Install redis-server 7 or newer (Debian: apt-get install redis-server), or set GATEHOUSE_REDIS_URL.';
  let text: string;
  try {
    ({ stdout: text } = await promisify(execFile)('redis-server', ['--version'], { env: env as NodeJS.ProcessEnv }));
  } catch (cause) {
    throw new RedisServerError(`redis-server cannot be run. ${advice}`, { cause });
  }
  const version = /v=(\d+)/.exec(text)?.[1];
  if (Number(version) >= VERSION_MIN) return;
  throw new RedisServerError(`redis-server is too old (${text.trim().slice(0, 80)}). ${advice}`);
}

/** Starts the server; `ready` resolves at its first PONG, after it has loaded its data. */
export function launchRedis(options: RedisServerOptions): Child {
  // Should the supervisor be killed, the kernel signals the server to end (Linux, setpriv of util-linux).
  const server = [
    'flock',
    '--no-fork',
    '-w',
    String(LOCK_WAIT_S_MAX),
    '-E',
    String(LOCKED_STATUS),
    LOCK_FILE,
    'redis-server',
    '-',
  ];
  // Redis cuts what it cannot read before we hear of it.
  const sizeBefore = sizeOfNewest(options.folder);
  const command = setprivPath(options.env) ? ['setpriv', '--pdeathsig', 'TERM', ...server] : server;
  const child = spawnChild(command, configuration(options), options.folder, {
    name: 'Redis',
    env: options.env,
    onLine: (line) => heard(options, line, sizeBefore),
    whenReady: (process) => firstPong(options, () => process.exitCode !== null || process.signalCode !== null),
    explain: (lines, exit) => explain(options, lines, exit),
  });
  if (child.pid !== undefined) notePid(options, child.pid);
  if (options.appendfsync === 'everysec') syncWhileItRuns(child, options);
  return child;
}

/**
 * A file whose end was cut off, as a power cut leaves it, is loaded up to there; what was behind it is gone, and no one
 * else says so.
 */
function heard({ log, onCut }: RedisServerOptions, line: string, sizeBefore: number): void {
  log.debug({ line }, 'redis.said');
  const [, offset] = /Truncating the AOF \S+ at offset (\d+)/.exec(line) ?? [];
  if (offset === undefined) return;
  const bytes = sizeBefore - Number(offset);
  log.warn({ bytes }, 'redis.file_was_cut');
  onCut?.(bytes);
}

/**
 * For the next supervisor, where this one is killed. On a full disk the server comes first: it ends with us by the
 * kernel's word.
 */
function notePid({ folder, log }: RedisServerOptions, pid: number): void {
  try {
    writeFileSync(path.join(folder, PID_FILE), String(pid));
  } catch (error) {
    log.warn({ err: error }, 'redis.pid_not_noted');
  }
}

function syncWhileItRuns(child: Child, { folder, log }: RedisServerOptions): void {
  const sync = new AppendOnlySync(folder, (error) => {
    log.error({ err: error }, 'redis.sync_failed');
    child.signal('SIGKILL');
  });
  void child.exited.then(() => sync.stop());
}

/**
 * Ends a server of this folder that still runs; call it before the first launch. Throws RedisServerError if it will not
 * go.
 */
export async function endLeftoverRedis(folder: string, log: Log): Promise<void> {
  const pid = readPid(folder);
  if (pid !== undefined && worksIn(pid, folder)) {
    log.warn({ serverPid: pid }, 'redis.leftover_found');
    process.kill(pid, 'SIGTERM');
    const deadline = performance.now() + LEFTOVER_MS_MAX;
    while (worksIn(pid, folder)) {
      if (performance.now() > deadline) {
        throw new RedisServerError(
          `an earlier redis-server (process ${pid}) still runs in ${folder} and does not end; end it.`,
        );
      }
      await sleep(20);
    }
  }
  rmSync(path.join(folder, PID_FILE), { force: true });
}

/** Goes to the server's standard input: a password has no place on a command line. */
function configuration(options: RedisServerOptions): string {
  return [
    'bind 127.0.0.1',
    `port ${options.port}`,
    `requirepass ${options.password}`,
    `dir ${JSON.stringify(options.folder)}`,
    'daemonize no',
    'appendonly yes',
    // Once a second is done from outside (append-only-sync.ts): Redis's own way may answer before it writes.
    `appendfsync ${options.appendfsync === 'always' ? 'always' : 'no'}`,
    'aof-load-truncated yes',
    // At full speed 64 MB, the default, are written in half a second: the file was rewritten without end, with a fork,
    // page faults and the backlog compressed each time. From 256 MB on batches still had a p99 of 90 ms on their way
    // in, in turns, where a gigabyte has 54. So much is loaded in a second at a start, from a cold disk in three.
    `auto-aof-rewrite-min-size ${REWRITE_FROM_MB}mb`,
    // The append-only file is the whole truth; snapshots beside it would only cost forks.
    'save ""',
    `maxmemory ${options.maxmemory}`,
    // A full Redis refuses; it must never throw an event or a rule away.
    'maxmemory-policy noeviction',
    'tcp-backlog 511',
    'shutdown-timeout 5',
    '',
  ].join('\n');
}

/**
 * Asks until the server answers; while it loads its file it answers LOADING. Gives up only when the server has ended.
 */
async function firstPong(options: RedisServerOptions, hasEnded: () => boolean): Promise<void> {
  while (!hasEnded()) {
    if (await pongs(options)) return;
    await sleep(PING_EVERY_MS);
  }
  await new Promise(() => undefined); // `ready` is settled by the exit
}

function pongs(options: { port: number; password: string }): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: '127.0.0.1', port: options.port });
    let heard = '';
    socket.setTimeout(1_000, () => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(heard.includes('+PONG')));
    socket.on('data', (data) => {
      heard += data.toString('latin1');
      if ((heard.match(/\r\n/g) ?? []).length >= 2) socket.destroy();
    });
    socket.write(`AUTH ${options.password}\r\nPING\r\n`);
  });
}

function explain(options: RedisServerOptions, lines: string[], exit: Exit): string {
  const { folder } = options;
  const text = lines.join('\n');
  if (exit.code === LOCKED_STATUS)
    return `another redis-server works in ${folder}, perhaps in another container or on another host that shares it; end it.`;
  if (/(bad file format|unexpected end of file|error) reading the append only file|AOF manifest/i.test(text)) {
    return damagedText(options);
  }
  const said = lines.findLast((line) => /fatal|error|failed|could not|can't/i.test(line)) ?? lines.at(-1);
  return said
    ? said.replace(/^\d+:\w \d+ \w+ \d+ [\d:.]+ [.\-*#] /, '')
    : `ended with status ${exit.code ?? exit.signal}`;
}

/** Says what each way out would cost. */
function damagedText({ folder, env }: RedisServerOptions): string {
  const manifest = path.join(folder, 'appendonlydir', 'appendonly.aof.manifest');
  const begins = `its append-only file in ${folder} is damaged`;
  const byRedis = `"redis-check-aof --fix '${manifest}'"`;
  let damage: Damage | undefined;
  try {
    damage = findDamage(folder, env);
  } catch {
    // The file cannot be read: its sentence stays short.
  }
  if (damage === undefined)
    return `${begins}. Nothing was changed. Make a copy of that folder, repair it with ${byRedis} (it shows what it would cut off), then start again.`;
  return (
    `${begins} ${damageText(damage)}. Nothing was changed. "gatehouse doctor --repair" keeps what is whole, and a copy of the file; ` +
    `${byRedis} would drop all that is behind the damage. Then start again.`
  );
}

function readPid(folder: string): number | undefined {
  try {
    const pid = Number(readFileSync(path.join(folder, PID_FILE), 'utf8'));
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Whether that process is a redis-server of this folder: by then the id may belong to any other program. */
function worksIn(pid: number, folder: string): boolean {
  try {
    if (!/redis/.test(readFileSync(`/proc/${pid}/comm`, 'utf8'))) return false;
    return leadsTo(`/proc/${pid}/cwd`, folder);
  } catch {
    return false;
  }
}

function setprivPath(env: Record<string, string | undefined>): string | undefined {
  if (process.platform !== 'linux') return undefined;
  return (env.PATH ?? '')
    .split(path.delimiter)
    .map((folder) => path.join(folder, 'setpriv'))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
