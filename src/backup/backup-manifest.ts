// What a backup says of itself: which moment it holds, what is in it, and the SHA-256 of each file (written by
// backup-writer.ts, read by restore-files.ts). Beside it lies its own SHA-256, in the form of `sha256sum`.
// Invariant: a folder without a sound manifest is no backup. The sums find damage; they are no signature: keep a
// checkpoint of the audit chains elsewhere to find what was altered on purpose (docs/audit.md).
// Failure: BackupError with the name of the file.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserFacingError } from '../common/user-facing-error.ts';
import { readAsset } from '../process/assets.ts';
import type { Config } from '../process/config.ts';

export class BackupError extends UserFacingError {
  override name = 'BackupError';
}

export type BackedUpFile = { path: string; size: number; mtime_ms: number; sha256: string };

export type BackupManifest = {
  product: 'gatehouse-backup';
  format: 1;
  /** Version of Gatehouse. */
  version: string;
  /** The backup holds everything that was acknowledged before, and nothing that came later. */
  moment: string;
  ended: string;
  holds: {
    redis: { files: number };
    clickhouse: { engine: string /** Parts that have rows, by table. */; parts: Record<string, number> };
    /** As the service ran; a start on the restored data needs the same. */
    settings: { GATEHOUSE_PARTITIONS: number; GATEHOUSE_REDIS_PREFIX: string; GATEHOUSE_CLICKHOUSE_DATABASE: string };
  };
  bytes: number;
  /** The part of `bytes` in files that the backup before had, too. */
  reused_bytes: number;
  links: { path: string; target: string }[];
  files: BackedUpFile[];
};

/** The version and the settings of the service that a backup names. */
export function aboutBackup({ partitions, redisPrefix, clickhouseDatabase }: Config) {
  const { version } = JSON.parse(readAsset('package.json')) as { version: string };
  const settings = {
    GATEHOUSE_PARTITIONS: partitions,
    GATEHOUSE_REDIS_PREFIX: redisPrefix,
    GATEHOUSE_CLICKHOUSE_DATABASE: clickhouseDatabase,
  };
  return { version, settings };
}

const MANIFEST = 'manifest.json';
const SUM = 'manifest.sha256';
/** Folders of backups are named by their moment: the newest is the last. */
const NAME = /^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}\.\d{3}Z$/;

export function backupName(moment: string): string {
  return moment.replaceAll(':', '-');
}

export function isBackupName(name: string): boolean {
  return NAME.test(name);
}

/** Backups that ended well, the oldest first. */
export function backupsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => isBackupName(name) && isBackup(path.join(folder, name)))
    .sort()
    .map((name) => path.join(folder, name));
}

export function isBackup(folder: string): boolean {
  return existsSync(path.join(folder, MANIFEST));
}

export function writeManifest(folder: string, manifest: BackupManifest): void {
  const text = `${JSON.stringify(manifest, null, 1)}\n`;
  writeFileSync(path.join(folder, MANIFEST), text, { mode: 0o600 });
  writeFileSync(path.join(folder, SUM), `${sumOf(text)}  ${MANIFEST}\n`, { mode: 0o600 });
}

export function readManifest(folder: string): BackupManifest {
  const file = path.join(folder, MANIFEST);
  const text = readText(file);
  if (readText(path.join(folder, SUM)).slice(0, 64) !== sumOf(text)) throw altered(file);
  const manifest = JSON.parse(text) as BackupManifest;
  if (manifest.product !== 'gatehouse-backup') throw new BackupError(`${file} is not of a backup of Gatehouse`);
  if (manifest.format !== 1) throw new BackupError(`${file} was made by a newer Gatehouse (${manifest.version})`);
  for (const { path: name } of [...manifest.files, ...manifest.links])
    if (path.isAbsolute(name) || name.split('/').includes('..')) throw altered(file);
  return manifest;
}

/** The sentence of every file whose bytes are not those that were written, as `by` shows. */
export function altered(file: string, by = 'SHA-256'): BackupError {
  return new BackupError(`${file} is damaged or was altered: its ${by} is another one. Take another backup`);
}

export function sumOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new BackupError(`cannot read ${file} (${(cause as NodeJS.ErrnoException).code ?? 'error'})`, { cause });
  }
}
