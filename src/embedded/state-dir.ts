// The data folder of `gatehouse start`: who holds it, and the small files in it that people and commands read.
// The folder is its owner's alone (0700); one with wider rights is narrowed.
//   lock          locked by the process that holds the folder, and names it; a second `gatehouse start` refuses
//   runtime.json  addresses of the running engines, so that `gatehouse account create` finds them (0600: it holds
//                 passwords)
//   admin-key     the first admin key (0600); admin-key.1 where the account `default` had to be made again
//   copied-while-running.json
//                 this is a copy that was made while another held it, and that is not dealt with yet
//   redis/        what the engines keep, as in clickhouse/; outbox/: mails, where no mail server is named
// Invariant: at most one live holder, wherever the folder is shared (file-lock.ts); who does not get the lock changes
// nothing. What a dead holder left behind is taken over, never trusted.
// Failure: a folder that cannot be written ends the start.

import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { UserFacingError } from '../common/user-facing-error.ts';
import { FileLockError, isFileLocked, takeFileLock } from './file-lock.ts';

class StateDirError extends UserFacingError {
  override name = 'StateDirError';
}

/** The facts that `gatehouse start` writes for the commands that run beside it. */
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

/** In the lock file, for people: a process id means nothing in another container. */
type Holder = { pid: number; host: string /** Number of the file: a copy of it has another one. */; inode: number };

/** A command that looks whether a Gatehouse runs here has the lock for some milliseconds, too. */
const LOCK_TRIES = 5;
const LOCK_AGAIN_MS = 100;
export const KEY_FILE = 'admin-key';
/** Who held the folder that this is a copy of. */
const COPIED = 'copied-while-running.json';
/** Rights of the group and of others. */
const OTHERS = 0o077;

export class StateDir {
  readonly path: string;
  /** The open lock file, while we hold the folder. */
  #lock: number | undefined;

  constructor(folder: string) {
    this.path = path.resolve(folder);
  }

  /** Makes the folder if need be and takes it. Throws StateDirError, saying who holds it, or FileLockError. */
  lock(): void {
    this.#try('create', () => mkdirSync(this.path, { recursive: true, mode: 0o700 }));
    this.#narrow();
    const lock = this.#takeLock();
    if (lock === undefined) throw new StateDirError(`${this.path} is in use by ${this.#holder()}; stop it first.`);
    this.#lock = lock;
    const before = this.#json('lock') as Partial<Holder> | undefined;
    const mine: Holder = { pid: process.pid, host: os.hostname(), inode: fstatSync(lock).ino };
    this.#try('write to', () => {
      // Who ends well empties the file.
      if (before?.inode !== undefined && before.inode !== mine.inode) this.write(COPIED, JSON.stringify(before));
      // Of one that was killed, or of the folder that this is a copy of. A process id may be the same in a container.
      this.removeRuntime();
      ftruncateSync(lock);
      writeSync(lock, JSON.stringify(mine), 0);
    });
  }

  /** The file stays: a process that has it open waits for its lock, and a new file would be another lock. */
  unlock(): void {
    if (this.#lock === undefined) return;
    ftruncateSync(this.#lock);
    closeSync(this.#lock);
    this.#lock = undefined;
  }

  /** Is it a copy of a folder that was in use meanwhile? Until `setMended`. */
  get isTornCopy(): boolean {
    return existsSync(this.file(COPIED));
  }

  setMended(): void {
    rmSync(this.file(COPIED), { force: true });
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

  writeRuntime(runtime: Runtime): void {
    this.write('runtime.json', JSON.stringify(runtime, null, 2));
  }

  removeRuntime(): void {
    rmSync(this.file('runtime.json'), { force: true });
  }

  /** Addresses of the Gatehouse that runs on this folder; undefined when none does. */
  readRuntime(): Runtime | undefined {
    const runtime = this.#json('runtime.json') as Runtime | undefined;
    if (runtime === undefined || (this.#json('lock') as Holder | undefined)?.pid !== runtime.pid) return undefined;
    return this.#lock !== undefined || isFileLocked(this.file('lock')) ? runtime : undefined;
  }

  /**
   * Keeps the first admin key. One that is there may be of a registry that is to be put back: it is kept beside the new
   * one. Answers the file, and the name of the former one.
   */
  keepAdminKey(key: string): { file: string; former: string | undefined } {
    this.#try('create', () => mkdirSync(this.path, { recursive: true, mode: 0o700 }));
    const former = this.setAside(KEY_FILE);
    this.write(KEY_FILE, `${key}\n`);
    return { file: this.file(KEY_FILE), former };
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

  /**
   * Passwords and keys lie in it: a folder that others may read is closed to them. One that is another's is not ours to
   * change.
   */
  #narrow(): void {
    const { mode, uid } = this.#try('look at', () => statSync(this.path));
    if ((mode & OTHERS) === 0 || uid !== process.getuid?.()) return;
    this.#try('close to others', () => chmodSync(this.path, mode & 0o700));
  }

  /** Gives a file another name, if it is there; answers that name. Nothing is overwritten. */
  setAside(name: string): string | undefined {
    if (!existsSync(this.file(name))) return undefined;
    for (let n = 1; ; n++) {
      const other = `${name}.${n}`;
      if (existsSync(this.file(other))) continue;
      this.#try('write to', () => renameSync(this.file(name), this.file(other)));
      return other;
    }
  }

  #takeLock(): number | undefined {
    for (let tries = 1; ; tries++) {
      const taken = this.#try('write to', () => takeFileLock(this.file('lock')));
      if (taken !== undefined || tries === LOCK_TRIES) return taken;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_AGAIN_MS);
    }
  }

  #holder(): string {
    const holder = this.#json('lock') as Partial<Holder> | undefined;
    if (typeof holder?.pid !== 'number') return 'another Gatehouse';
    const where = holder.host === os.hostname() ? '' : ` on the host ${holder.host}`;
    return `the Gatehouse with process id ${holder.pid}${where}`;
  }

  #json(name: string): unknown {
    return readJson(this.file(name));
  }

  #try<T>(what: string, action: () => T): T {
    try {
      return action();
    } catch (cause) {
      if (cause instanceof FileLockError) throw cause;
      const code = (cause as NodeJS.ErrnoException).code ?? 'error';
      throw new StateDirError(`cannot ${what} the data folder ${this.path} (${code}); GATEHOUSE_DATA_DIR names it.`, {
        cause,
      });
    }
  }
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
