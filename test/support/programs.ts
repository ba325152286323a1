// Programs of others that tests run (scripts/programs.mjs): where they are, and one that serves started and ended.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Test } from 'tap';
import { assetPath } from '../../src/process/assets.ts';

type Programs = {
  programPath(name: string): string | undefined;
  librariesPath(): string;
  onPath(name: string): string | undefined;
};
const programs = (await import(pathToFileURL(assetPath('scripts/programs.mjs')).href)) as Programs;

/** undefined: there is none on this machine. */
export const programPath = programs.programPath;

/** Absolute; undefined: it is not on the PATH. */
export const programOnPath = programs.onPath;

/** With the libraries of those that were fetched, and without the test runner's hooks and our tests' own settings. */
export function programEnvironment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _hooks, ...all } = process.env;
  const env = Object.fromEntries(Object.entries(all).filter(([name]) => !name.startsWith('GATEHOUSE_TEST_')));
  return { ...env, LD_LIBRARY_PATH: programs.librariesPath(), ...more };
}

const READY_MS_MAX = 30_000;

type Started = { args: string[]; port: number; env: Record<string, string> };

/** One that listens on `port` of loopback; ended with the test. Rejects with what it said where it does not come up. */
export async function startProgram(t: Test, name: string, { args, port, env }: Started): Promise<void> {
  const child = spawn(programPath(name)!, args, { env: programEnvironment(env), stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  t.teardown(() => end(child));
  for (const until = performance.now() + READY_MS_MAX; !(await answers(port)); await sleep(30)) {
    if (child.exitCode !== null || performance.now() > until) throw new Error(`${name} does not come up: ${said}`);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await once(child, 'exit');
  clearTimeout(killer);
}

async function answers(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1');
  const isOpen = await Promise.race([
    once(socket, 'connect').then(() => true),
    once(socket, 'error').then(() => false),
  ]).catch(() => false);
  socket.destroy();
  return isOpen;
}
