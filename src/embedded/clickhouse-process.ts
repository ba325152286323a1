// Runs the embedded ClickHouse engine as a child of `gatehouse start`: a process of its own, since the engine wants its
// folder for itself and its threads must not wait behind ours.
// It runs before the store pipeline and every query; the rest of the service meets it over HTTP like any ClickHouse.
// Invariant: it listens on loopback alone and asks for a password, which reaches it over IPC and never by its command
// line.
// Failure: a folder that is damaged, foreign or newer ends the start with the engine's own sentence.
import { statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouseServerOptions } from '../chdb-server/clickhouse-server.ts';
import { engineHolder } from '../chdb-server/engine-holder.ts';
import { assetPath } from '../process/assets.ts';
import type { Log } from '../process/log.ts';
import { type Child, type Exit, forkChild, type OutputLines } from './child.ts';
import { NICE } from './process-priority.ts';
import { CLICKHOUSE_V8 } from './v8.ts';

/** Every running statement holds a thread of libuv's pool; the default of 4 is shared with file and name look-ups. */
const ENGINE_THREADS = 16;

type ClickHouseProcessOptions = {
  server: ClickHouseServerOptions;
  env: Record<string, string | undefined>;
  log: Log;
};

export function clickhouseUrl(options: { port: number; password: string }): string {
  return `http://default:${options.password}@127.0.0.1:${options.port}`;
}

/** Starts the engine; `ready` resolves once it serves. */
export function launchClickHouse(options: ClickHouseProcessOptions): Child {
  const child = forkChild(assetPath('build/service/clickhouse-server-main.js'), [], {
    name: 'ClickHouse',
    nice: NICE.clickhouse,
    v8: CLICKHOUSE_V8,
    env: { ...options.env, UV_THREADPOOL_SIZE: String(ENGINE_THREADS) },
    onLine: (line) => options.log.debug({ line }, 'clickhouse.said'),
    whenReady: (_process, lines) => whenReadyLine(lines),
    explain,
  });
  child.send(options.server);
  return child;
}

/**
 * A leftover one that does not go by itself has nothing that it could still finish: what was acknowledged is in Redis.
 */
const LEFTOVER_MS_MAX = 10_000;
const LOOK_MS = 50;

/**
 * Ends an engine of this folder whose supervisor was killed and that has not left yet, as one that was stopped; call it
 * with the lock of the data folder, before the first launch. The engine leaves by itself as soon as it notices.
 */
export async function endLeftoverClickHouse(folder: string, log: Log): Promise<void> {
  const enginePid = ownEngine(folder);
  if (enginePid === undefined) return;
  log.warn({ enginePid }, 'clickhouse.leftover_found');
  for (const untilMs = performance.now() + LEFTOVER_MS_MAX; ownEngine(folder) === enginePid; await sleep(LOOK_MS)) {
    if (performance.now() >= untilMs) process.kill(enginePid, 'SIGKILL');
  }
}

/** One that has this folder open and is of this user: nothing else is ours to end. */
function ownEngine(folder: string): number | undefined {
  const pid = engineHolder(path.join(folder, 'engine'));
  if (pid === undefined || pid === process.pid) return undefined;
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === process.getuid?.() ? pid : undefined;
}

function whenReadyLine(lines: OutputLines): Promise<void> {
  return new Promise((resolve) => {
    lines((line) => {
      if (/^\{"ready":true\b/.test(line)) resolve();
    });
  });
}

function explain(lines: string[], exit: Exit): string {
  const said = lines.findLast((line) => line.trim() !== '');
  return said ?? `ended with ${exit.signal ?? `status ${exit.code}`}`;
}
