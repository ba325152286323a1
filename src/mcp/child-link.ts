// A server of MCP that is a command: its standard input and output carry the messages, its standard error is ours.
// Invariant: it is gone when `close` has resolved. It is asked to leave by the end of its input, then by SIGTERM, then
// killed.
// Failure: a command that cannot be started rejects `run`.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { withTimeout } from '../common/async.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { eachLine, writeLine } from './lines.ts';
import type { FromServer, ServerLink } from './pipe.ts';

/** For each of the ways to ask it to leave. */
const LEAVE_MS = 2_000;

export class ChildLink implements ServerLink {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #gone: Promise<void>;

  constructor([command, ...args]: readonly string[], env: Record<string, string>) {
    this.#child = spawn(command!, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    // What it no longer reads is answered when it has ended.
    this.#child.stdin.on('error', () => undefined);
    this.#gone = once(this.#child, 'close').then(() => undefined);
    this.#gone.catch(() => undefined);
  }

  async run(listener: FromServer): Promise<void> {
    try {
      await Promise.all([
        eachLine(this.#child.stdout, 'server', (incoming) => listener.came(incoming, false)),
        this.#gone,
      ]);
    } catch (error) {
      throw new UserFacingError(`the server cannot be started: ${(error as Error).message}`);
    }
  }

  send(text: string): Promise<void> {
    return writeLine(this.#child.stdin, text);
  }

  async close(): Promise<void> {
    if (this.#child.pid === undefined) return;
    this.#child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#hasLeft()) return;
      this.#child.kill(signal);
    }
    await this.#hasLeft();
    // What it started may hold its output open.
    this.#child.stdout.destroy();
  }

  #hasLeft(): Promise<boolean> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return Promise.resolve(true);
    const exited = once(this.#child, 'exit').then(() => true);
    return withTimeout(exited, LEAVE_MS, () => false);
  }
}
