// A child process as the supervisor sees it: when it is ready, when it is gone, how to end it.
// Used by the engines and the workers alike; what differs between them is how they say that they are ready.
// Invariant: `ready` and `exited` always settle, and a child that ends before it was ready rejects `ready` with its
// last words. Children run in a group of their own, so that a Ctrl-C meant for the supervisor does not take them down
// out of order.

import { type ChildProcess, fork, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { UserFacingError } from '../common/user-facing-error.ts';
import { lowerPriority, useShortTimeSlices } from './process-priority.ts';

export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type Child = {
  readonly pid: number | undefined;
  /** Rejects with ChildFailed when the child ends first. */
  readonly ready: Promise<void>;
  readonly exited: Promise<Exit>;
  signal(name: 'SIGTERM' | 'SIGKILL'): void;
  /** Over IPC; false when there is no channel (any more). */
  send(message: object): boolean;
};

export class ChildFailed extends UserFacingError {
  override name = 'ChildFailed';
  readonly exit: Exit;

  constructor(message: string, exit: Exit) {
    super(message);
    this.exit = exit;
  }
}

type ChildOptions = {
  name: string;
  /** Settles `ready`; called once, right after the start. */
  whenReady: (process: ChildProcess, lines: OutputLines) => Promise<void>;
  env: Record<string, string | undefined>;
  /** Everything that the child prints, a line at a time; without it its standard error is ours. */
  onLine?: (line: string) => void;
  onMessage?: (message: unknown) => void;
  /** Settings of V8, as on Node's command line (v8.ts). */
  v8?: readonly string[];
  /** It gives way to others on the processor: its nice value (process-priority.ts). Left out: it takes short turns. */
  nice?: number;
  /** Turns the last words of a child that did not get ready into a sentence for people. */
  explain?: (lastLines: string[], exit: Exit) => string;
};

/** Calls back with each line that the child prints from now on. */
export type OutputLines = (listener: (line: string) => void) => void;

const LAST_LINES = 30;
/** A Node process of this build, with an IPC channel: it leaves by itself when the supervisor is gone. */
export function forkChild(module: string, args: string[], options: ChildOptions): Child {
  const piped = options.onLine ? 'pipe' : 'inherit';
  const child = fork(module, args, {
    env: options.env,
    stdio: ['ignore', piped, piped, 'ipc'],
    detached: true,
    serialization: 'json',
    execArgv: [...process.execArgv, ...(options.v8 ?? [])],
  });
  return watch(child, options);
}

/** Any program. `stdin` is written to it and closed: so secrets stay off the command line. */
export function spawnChild(command: string[], stdin: string, cwd: string, options: ChildOptions): Child {
  const [program, ...args] = command as [string, ...string[]];
  const child = spawn(program, args, { env: options.env, cwd, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(stdin);
  return watch(child, options);
}

function watch(child: ChildProcess, options: ChildOptions): Child {
  if (child.pid !== undefined) shareProcessor(child.pid, options.nice);
  const listeners: ((line: string) => void)[] = [];
  const last: string[] = [];
  const heard = (line: string) => {
    last.push(line);
    if (last.length > LAST_LINES) last.shift();
    options.onLine?.(line);
    for (const listener of listeners) listener(line);
  };
  const silent = [child.stdout, child.stderr].map((stream) => (stream ? readLines(stream, heard) : undefined));
  child.on('message', (message) => options.onMessage?.(message));
  const exited = new Promise<Exit>((resolve) => {
    child.once('error', (error) => {
      last.push(error.message);
      if (child.pid === undefined) resolve({ code: null, signal: null });
    });
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const failed = exited.then(async (exit) => {
    await Promise.all(silent);
    const words = options.explain?.(last, exit) ?? last.at(-1) ?? describeExit(exit);
    throw new ChildFailed(`${options.name} did not start: ${words}`, exit);
  });
  failed.catch(() => undefined);
  const ready = Promise.race([options.whenReady(child, (listener) => listeners.push(listener)), failed]);
  ready.catch(() => undefined);
  return {
    pid: child.pid,
    ready,
    exited,
    signal: (name) => void child.kill(name),
    send: (message) => child.connected && child.send(message, () => undefined),
  };
}

function shareProcessor(pid: number, nice: number | undefined): void {
  if (nice === undefined) useShortTimeSlices(pid);
  else lowerPriority(pid, nice);
}

export function describeExit(exit: Exit): string {
  return exit.signal ? `ended by ${exit.signal}` : `ended with status ${exit.code ?? 'unknown'}`;
}

/** Resolves when the stream has been read to its end. */
function readLines(stream: Readable, heard: (line: string) => void): Promise<void> {
  const lines = createInterface({ input: stream });
  stream.on('error', () => lines.close());
  lines.on('line', heard);
  return new Promise((resolve) => lines.once('close', resolve));
}
