// The data folder of `gatehouse start`: who holds it, and the small files in it that people and commands read.
//   lock          the process that holds the folder; a second `gatehouse start` on it refuses
//   runtime.json  addresses of the running engines, so that `gatehouse account create` finds them (0600: they hold passwords)
//   admin-key     the first admin key (0600)
//   secrets.json  passwords of the embedded engines, made at the first start (0600)
//   redis/, clickhouse/   what the engines keep; outbox/: mails, where no mail server is named (pipelines/alert/channels/outbox.ts)
// Invariant: at most one live holder on a machine; what a dead one left behind is taken over, never trusted.
// Failure: a folder that cannot be written is named in the sentence that ends the start.
import { randomBytes } from 'node:crypto';
import { chmodSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export class StateDirError extends Error {
  override name = 'StateDirError';
}

/** What `gatehouse start` tells the commands that run beside it. */
export type Runtime = {
  pid: number;
  url: string;
  redisUrl: string;
  redisCluster: boolean;
  redisPrefix: string;
  partitions: number;
  clickhouseUrl: string;
  clickhouseDatabase: string;
  /** Process ids of what it runs, by name. */
  children: Record<string, number>;
};

type Holder = { pid: number; startedAt: string | undefined };

export class StateDir {
  readonly path: string;

  constructor(folder: string) {
    this.path = path.resolve(folder);
  }

  /** Makes the folder if need be and takes it. Throws StateDirError, saying who holds it. */
  lock(): void {
    this.#try('create', () => mkdirSync(this.path, { recursive: true, mode: 0o700 }));
    const mine = JSON.stringify({ pid: process.pid, startedAt: startOf(process.pid) } satisfies Holder);
    const draft = this.file(`lock.${process.pid}`);
    this.#try('write to', () => writeFileSync(draft, mine));
    try {
      for (let attempt = 0; attempt < 5; attempt++) {
        if (linked(draft, this.file('lock'))) return;
        const holder = this.#holder();
        if (holder && isAlive(holder)) {
          throw new StateDirError(
            `${this.path} is in use by the Gatehouse with process id ${holder.pid}; stop it first.`,
          );
        }
        this.#setAside(holder);
      }
      throw new StateDirError(`${this.path}: cannot take the lock; several Gatehouses are starting here.`);
    } finally {
      rmSync(draft, { force: true });
    }
  }

  unlock(): void {
    if (this.#holder()?.pid === process.pid) rmSync(this.file('lock'), { force: true });
  }

  file(name: string): string {
    return path.join(this.path, name);
  }

  /** A folder of an engine. */
  folder(name: string): string {
    const folder = this.file(name);
    this.#try('create', () => mkdirSync(folder, { recursive: true, mode: 0o700 }));
    return folder;
  }

  /** A password that stays the same as long as the folder does, so that a leftover engine can still be spoken to. */
  secret(name: string): string {
    const secrets = (this.#json('secrets.json') ?? {}) as Record<string, string>;
    const known = secrets[name];
    if (known !== undefined) return known;
    const made = randomBytes(24).toString('base64url');
    this.write('secrets.json', JSON.stringify({ ...secrets, [name]: made }, null, 2));
    return made;
  }

  writeRuntime(runtime: Runtime): void {
    this.write('runtime.json', JSON.stringify(runtime, null, 2));
  }

  removeRuntime(): void {
    rmSync(this.file('runtime.json'), { force: true });
  }

  /** Addresses of the Gatehouse that runs on this folder; undefined when none does. */
  readRuntime(): Runtime | undefined {
    const runtime = this.#json('runtime.json') as Runtime | undefined;
    const holder = this.#holder();
    return runtime && holder && holder.pid === runtime.pid && isAlive(holder) ? runtime : undefined;
  }

  /** Writes a file that only its owner can read; readers see the old content or the new, never a part. */
  write(name: string, content: string): void {
    this.#try('write to', () => {
      const draft = this.file(`${name}.new`);
      writeFileSync(draft, content, { mode: 0o600 });
      chmodSync(draft, 0o600);
      renameSync(draft, this.file(name));
    });
  }

  #holder(): Holder | undefined {
    const holder = this.#json('lock') as Partial<Holder> | undefined;
    return typeof holder?.pid === 'number' ? { pid: holder.pid, startedAt: holder.startedAt } : undefined;
  }

  /** Of two processes that find the same stale lock one may move the other's fresh one: it is looked at and put back. */
  #setAside(stale: Holder | undefined): void {
    const aside = this.file(`lock.stale.${process.pid}`);
    try {
      renameSync(this.file('lock'), aside);
    } catch {
      return;
    }
    const moved = readJson(aside) as Holder | undefined;
    if (moved && moved.pid !== stale?.pid && isAlive(moved)) linked(aside, this.file('lock'));
    rmSync(aside, { force: true });
  }

  #json(name: string): unknown {
    return readJson(this.file(name));
  }

  #try(what: string, action: () => void): void {
    try {
      action();
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code ?? 'error';
      throw new StateDirError(`cannot ${what} the data folder ${this.path} (${code}); GATEHOUSE_DATA_DIR names it.`, {
        cause,
      });
    }
  }
}

/** A process id is used again some day; together with its start time it is not. */
export function isAlive(holder: Holder): boolean {
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const stat = statOf(holder.pid);
  // It has ended, but its parent has not asked how.
  if (stat?.[0] === 'Z') return false;
  return holder.startedAt === undefined || startOf(holder.pid) === holder.startedAt;
}

/** Linux: boot id and start time of a process in clock ticks. Elsewhere undefined, and the process id alone must do. */
function startOf(pid: number): string | undefined {
  const stat = statOf(pid);
  if (stat === undefined) return undefined;
  return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${stat[19]}`;
}

/** Fields of /proc/PID/stat from the state on (its third); the name before it may hold anything. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** A link appears whole or not at all, and only where nothing is yet. */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
