// Makes a data folder of a backup (`gatehouse restore`), or looks alone whether one could be made (`--check`).
// Invariant: each byte that is written was compared with the manifest. The file without which no engine serves the
// folder comes last, so what was left half done by a kill is never started; a restore that fails removes what it wrote.
// Failure: BackupError names the file that is damaged, altered or not there.
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { MARKER } from '../chdb-server/data-directory.ts';
import { altered, type BackedUpFile, BackupError, type BackupManifest } from './backup-manifest.ts';
import { checkedCopy } from './checked-copy.ts';

/** `to`: an empty folder, held by the caller, but for its file `lock`; left out: the files are only compared. */
export async function restoreFiles(backup: string, manifest: BackupManifest, to?: string): Promise<void> {
  const last = path.join('clickhouse', MARKER);
  const files = [...manifest.files].sort((a, b) => Number(a.path === last) - Number(b.path === last));
  if (files.at(-1)?.path !== last) throw new BackupError(`${backup} holds no ${last}`);
  try {
    for (const { path: name, target } of to === undefined ? [] : manifest.links) {
      mkdirSync(path.dirname(path.join(to!, name)), { recursive: true, mode: 0o700 });
      symlinkSync(target, path.join(to!, name));
    }
    for (const file of files) await restoreFile(path.join(backup, 'data', file.path), file, to);
  } catch (error) {
    if (to !== undefined) await empty(to);
    throw error;
  }
}

async function restoreFile(from: string, { path: name, size, sha256 }: BackedUpFile, to?: string): Promise<void> {
  let found: string;
  try {
    found = await checkedCopy(from, size, to && path.join(to, name));
  } catch (cause) {
    const { code = 'error', path: where = from } = cause as NodeJS.ErrnoException;
    throw new BackupError(`cannot copy ${where} (${code})`, { cause });
  }
  if (found !== sha256) throw altered(from);
}

async function empty(folder: string): Promise<void> {
  for (const name of await readdir(folder))
    if (name !== 'lock') rmSync(path.join(folder, name), { recursive: true, force: true });
}
