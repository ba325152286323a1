// Writes the folder of one backup. Files that the backup before has, unchanged, are linked to it: a backup takes as
// much room as what has changed, and each can be removed without the others noticing.
// Unchanged is a file of the same path, length and time of change, in both: parts of tables never change.
// Invariant: the folder has its name only once all of it is on the disk; until then it ends with `.partial`.
// Failure: throws what the file system says; the caller removes the rest (`discard`).
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { link, mkdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import type { PinnedFile } from '../embedded/append-only-pin.ts';
import { type BackedUpFile, type BackupManifest, backupName, readManifest, writeManifest } from './backup-manifest.ts';
import { checkedCopy } from './checked-copy.ts';

export const PARTIAL = '.partial';

export class BackupWriter {
  readonly #final: string;
  readonly #folder: string;
  readonly #previous: string | undefined;
  readonly #known = new Map<string, BackedUpFile>();
  readonly #files: BackedUpFile[] = [];
  readonly #links: BackupManifest['links'] = [];
  #reusedBytes = 0;

  /** `previous`: folder of the backup before. One that is damaged is not used. */
  constructor(folder: string, moment: string, previous: string | undefined) {
    this.#final = path.join(folder, backupName(moment));
    this.#folder = `${this.#final}${PARTIAL}`;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#previous = previous;
    if (previous === undefined) return;
    try {
      for (const file of readManifest(previous).files) this.#known.set(file.path, file);
    } catch {
      this.#known.clear();
    }
  }

  async copy(name: string, from: string): Promise<void> {
    const { size, mtimeMs } = await stat(from);
    const known = this.#known.get(name);
    const isSame = known?.size === size && known.mtime_ms === mtimeMs;
    if (isSame && (await this.#linkKnown(known))) return;
    const sha256 = await checkedCopy(from, size, this.#place(name));
    this.#files.push({ path: name, size, mtime_ms: mtimeMs, sha256 });
  }

  /** The beginning of a file that grows. */
  async copyPinned(name: string, { handle, size }: PinnedFile): Promise<void> {
    const sha256 = await checkedCopy(handle, size, this.#place(name));
    this.#files.push({ path: name, size, mtime_ms: 0, sha256 });
  }

  async write(name: string, text: string): Promise<void> {
    await mkdir(path.dirname(this.#place(name)), { recursive: true, mode: 0o700 });
    await writeFile(this.#place(name), text, { mode: 0o600 });
    const size = Buffer.byteLength(text);
    this.#files.push({ path: name, size, mtime_ms: 0, sha256: await checkedCopy(this.#place(name), size) });
  }

  link(name: string, target: string): void {
    this.#links.push({ path: name, target });
  }

  /** Resolves with the folder, once all of it is on the disk. */
  async end(about: Pick<BackupManifest, 'version' | 'moment' | 'ended' | 'holds'>): Promise<BackupResult> {
    const bytes = this.#files.reduce((sum, { size }) => sum + size, 0);
    const counts = { bytes, reused_bytes: this.#reusedBytes };
    const listed = { links: this.#links, files: this.#files };
    writeManifest(this.#folder, { product: 'gatehouse-backup', format: 1, ...about, ...counts, ...listed });
    await toDisk(this.#folder);
    renameSync(this.#folder, this.#final);
    await toDisk(path.dirname(this.#final));
    return { folder: this.#final, files: this.#files.length, ...counts };
  }

  discard(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #place(name: string): string {
    return path.join(this.#folder, 'data', name);
  }

  /** False: it cannot be linked to; the caller copies. */
  async #linkKnown(known: BackedUpFile): Promise<boolean> {
    const from = path.join(this.#previous!, 'data', known.path);
    const isWhole = existsSync(from) && (await stat(from)).size === known.size;
    if (!isWhole) return false;
    try {
      await mkdir(path.dirname(this.#place(known.path)), { recursive: true, mode: 0o700 });
      await link(from, this.#place(known.path));
    } catch {
      return false;
    }
    this.#files.push(known);
    this.#reusedBytes += known.size;
    return true;
  }
}

export type BackupResult = { folder: string; files: number; bytes: number; reused_bytes: number };

/** All that was written to the file system of `folder`: one call in place of one for each of thousands of files. */
async function toDisk(folder: string): Promise<void> {
  await promisify(execFile)('sync', ['-f', folder]);
}
