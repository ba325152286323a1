// A folder of mails, one `.eml` file each (under outbox.ts). Anyone may read and empty it; only Gatehouse writes it.
// Invariant: a file that has its name is whole and on the disk: it is written under another name, synced, renamed, and
// its folder synced. The name is the delivery's id, so writing a mail again leaves one file. Folder 0700, files 0600,
// where we make them. Bounded: past OUTBOX_FILES_MAX the oldest mails go, by the time that they were written. Several
// processes may write here, and people take files away: so what is there is read again now and then, and whenever it is
// not as remembered.
// Failure: what the file system says rises from `keep`, and nothing is left under the mail's name that was not there
// before. If old mails cannot be removed, the caller reports it (`onTrimFailed`), and the new mail is kept.
import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { OUTBOX_FILES_MAX, OUTBOX_READ_EVERY } from '../../../src/common/limits.ts';

/** Ours: what people put beside them is neither counted nor removed. */
const MAIL = /^dlv_[0-9a-z]{26}\.eml$/;
/** The name of a mail that is being written, or whose writer was killed. */
const DRAFT = /^\.dlv_[0-9a-z]{26}\.[0-9a-f]+\.new$/;
/** Writing one mail never takes so long. */
const DRAFT_MS_MAX = 60 * 60 * 1000;
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

type MailFolderOptions = {
  /** Absolute. */
  folder: string;
  filesMax?: number;
  onRemoved: () => void;
  onTrimFailed: (error: unknown) => void;
};

export class MailFolder {
  readonly #options: MailFolderOptions;
  readonly #filesMax: number;
  /** Names of what is there as far as is known, the oldest first. */
  #known = new Set<string>();
  /** Mails written since the folder was read; at first it was never. */
  #sinceRead = Number.POSITIVE_INFINITY;
  #trimming: Promise<void> = Promise.resolve();

  constructor(options: MailFolderOptions) {
    this.#options = options;
    this.#filesMax = options.filesMax ?? OUTBOX_FILES_MAX;
  }

  /**
   * Resolves when the mail is on the disk. `signal`: not to be named any more. Rejects with the file system's error, or
   * the signal's.
   */
  async keep(deliveryId: string, mail: Buffer, signal: AbortSignal): Promise<void> {
    const { folder } = this.#options;
    const name = `${deliveryId}.eml`;
    if (!MAIL.test(name)) throw new Error('a mail is named after its delivery');
    await this.#make();
    const draft = path.join(folder, `.${deliveryId}.${randomBytes(6).toString('hex')}.new`);
    try {
      await write(draft, mail);
      signal.throwIfAborted();
      await rename(draft, path.join(folder, name));
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      throw error;
    }
    await sync(folder);
    this.#trimming = this.#trimming.then(() => this.#trim(name).catch(this.#options.onTrimFailed));
    await this.#trimming;
  }

  /** A folder that was just made is on the disk when its parent says so. */
  async #make(): Promise<void> {
    const { folder } = this.#options;
    const first = await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
    if (first === undefined) return;
    for (let made = folder; ; made = path.dirname(made)) {
      await sync(path.dirname(made));
      if (made === first || made === path.dirname(made)) return;
    }
  }

  async #trim(written: string): Promise<void> {
    if (++this.#sinceRead >= OUTBOX_READ_EVERY) await this.#read();
    // Written again it is the newest.
    this.#known.delete(written);
    this.#known.add(written);
    while (this.#known.size > this.#filesMax) {
      const [oldest] = this.#known;
      const isRemoved = await removed(path.join(this.#options.folder, oldest!));
      this.#known.delete(oldest!);
      if (isRemoved) this.#options.onRemoved();
      else await this.#read();
    }
  }

  async #read(): Promise<void> {
    const names = await readdir(this.#options.folder);
    this.#sinceRead = 0;
    const mails = new Set(names.filter((name) => MAIL.test(name)));
    const strangers = [...mails].filter((name) => !this.#known.has(name));
    const aged: [name: string, writtenAt: number][] = [];
    for (const name of strangers) aged.push([name, await writtenAt(path.join(this.#options.folder, name))]);
    aged.sort(([, a], [, b]) => a - b);
    // What others have written meanwhile counts as newer than what is known: they are at most OUTBOX_READ_EVERY of ours
    // apart.
    const known = [...this.#known].filter((name) => mails.has(name));
    this.#known = new Set([...known, ...aged.map(([name]) => name)]);
    await this.#removeDrafts(names.filter((name) => DRAFT.test(name)));
  }

  async #removeDrafts(names: readonly string[]): Promise<void> {
    for (const name of names) {
      const draft = path.join(this.#options.folder, name);
      if (Date.now() - (await writtenAt(draft)) > DRAFT_MS_MAX) await removed(draft);
    }
  }
}

/** Takes mails out of a folder; those that are not there are gone already. Rejects with the file system's error. */
export async function removeMails(folder: string, deliveryIds: readonly string[]): Promise<void> {
  for (const id of deliveryIds) {
    const name = `${id}.eml`;
    if (MAIL.test(name)) await removed(path.join(folder, name));
  }
}

async function write(file: string, content: Buffer): Promise<void> {
  const handle = await open(file, 'wx', FILE_MODE);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes the entries of a folder to the disk (fsync). */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Epoch ms; of one that has gone: now. */
async function writtenAt(file: string): Promise<number> {
  try {
    return (await stat(file)).mtimeMs;
  } catch {
    return Date.now();
  }
}

/** False: it was not there. */
async function removed(file: string): Promise<boolean> {
  try {
    await unlink(file);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw error;
  }
}
