// A backup of the embedded stores while they run (`gatehouse backup`).
//   hold      Redis takes no writes for a moment (CLIENT PAUSE): what is acknowledged is in its file, and nothing more
//             is acknowledged
//   pin       its append-only files are opened, and their lengths noted
//   freeze    the parts of every table get a second name (hard links)
//   go on     Redis takes writes again; callers have waited so long
//   copy      what was pinned and frozen, at leisure
// Invariant: everything that was acknowledged before the call is in it. Failure: BackupError; a pause that is not ended
// ends by itself after PAUSE_MS, and what took longer than that is no backup. Nothing half made stays.
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { isoTime } from '../../schemas/time.ts';
import { frozenCopy, removeFrozen } from '../chdb-server/frozen-copy.ts';
import { closePinned, type PinnedFiles, pinAppendOnly } from '../embedded/append-only-pin.ts';
import type { Commands } from '../redis/client.ts';
import { BackupError, type BackupManifest, backupsIn } from './backup-manifest.ts';
import { type BackupResult, BackupWriter, PARTIAL } from './backup-writer.ts';

// Why this is one moment: what Redis holds is what a kill of every process would have left at that moment, and what the
// tables hold is what was acknowledged by the pipelines until then, and perhaps an insert that was under way. That is
// what every start after a kill deals with: the insert is compared by its ids, nothing is stored twice.

type EmbeddedBackupOptions = {
  /** Folder of the backups; exists, and is held by the caller. */
  to: string;
  /** The data folder. */
  dataDir: string;
  redis: Commands;
  clickhouse: ClickHouse;
  about: { version: string; settings: BackupManifest['holds']['settings'] };
};

/** A front waits for Redis longer than that. Linking takes some 10 µs a file: a second for the parts of a year. */
const PAUSE_MS = 4_000;
const FROZEN = 'gatehouse_backup_';
/** The files of the data folder beside the stores: keys, and mails that wait. */
export const KEY_FILES = /^(?:admin-key(?:\.\d+)?|audit-signing-key\.pem)$/;
const OUTBOX = 'outbox';

export async function backUpEmbedded(options: EmbeddedBackupOptions): Promise<BackupResult> {
  const { to, dataDir } = options;
  for (const name of readdirSync(to).filter((one) => one.endsWith(PARTIAL)))
    rmSync(path.join(to, name), { recursive: true, force: true });
  const tables = path.join(dataDir, 'clickhouse');
  // Of one that was killed.
  removeFrozen(tables, FROZEN);
  const { moment, frozen, pinned } = await takeMoment(options);
  const writer = new BackupWriter(to, moment, backupsIn(to).at(-1));
  try {
    return await copyAll(options, { moment, frozen, pinned, writer });
  } catch (error) {
    writer.discard();
    throw error;
  } finally {
    await closePinned(pinned);
    removeFrozen(tables, FROZEN);
  }
}

type Moment = { moment: string; frozen: string; pinned: PinnedFiles };

async function takeMoment({ dataDir, redis, clickhouse }: EmbeddedBackupOptions): Promise<Moment> {
  const tables = await clickhouse.query<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name",
  );
  const frozen = `${FROZEN}${Date.now()}`;
  const begunMs = performance.now();
  await redis.call('client', 'pause', PAUSE_MS, 'write');
  try {
    const moment = isoTime(Date.now());
    const pinned = await pinAppendOnly(path.join(dataDir, 'redis'));
    try {
      await Promise.all(
        tables.map(({ name }) => clickhouse.command(`ALTER TABLE ${name} FREEZE WITH NAME '${frozen}'`)),
      );
      const tookMs = Math.round(performance.now() - begunMs);
      if (tookMs >= PAUSE_MS)
        throw new BackupError(`the stores could not be held still: it took ${tookMs} ms, and ${PAUSE_MS} are allowed`);
      return { moment, frozen, pinned };
    } catch (error) {
      await closePinned(pinned);
      throw error;
    }
  } finally {
    await redis.call('client', 'unpause');
  }
}

async function copyAll(
  { dataDir, about }: EmbeddedBackupOptions,
  { moment, frozen, pinned, writer }: Moment & { writer: BackupWriter },
): Promise<BackupResult> {
  const tables = path.join(dataDir, 'clickhouse');
  for (const file of pinned.files) await writer.copyPinned(path.join('redis', file.name), file);
  await writer.write(path.join('redis', pinned.manifest.name), pinned.manifest.text);
  const copy = frozenCopy(tables, frozen);
  for (const { path: name, from } of copy.files) await writer.copy(path.join('clickhouse', name), from);
  for (const { path: name, target } of copy.links) writer.link(path.join('clickhouse', name), target);
  for (const name of smallFiles(dataDir)) await copyIfThere(writer, name, path.join(dataDir, name));
  await writer.write(path.join('clickhouse', copy.marker.path), copy.marker.text);
  return writer.end({
    ...{ version: about.version, moment, ended: isoTime(Date.now()) },
    holds: {
      redis: { files: pinned.files.length },
      clickhouse: { engine: copy.engine, parts: Object.fromEntries(copy.parts) },
      settings: about.settings,
    },
  });
}

function smallFiles(dataDir: string): string[] {
  const outbox = path.join(dataDir, OUTBOX);
  const mails = existsSync(outbox) ? readdirSync(outbox) : [];
  return [
    ...readdirSync(dataDir).filter((name) => KEY_FILES.test(name)),
    ...mails.map((name) => path.join(OUTBOX, name)).filter((name) => statSync(path.join(dataDir, name)).isFile()),
  ];
}

/** A mail may be taken out of the outbox meanwhile. */
async function copyIfThere(writer: BackupWriter, name: string, from: string): Promise<void> {
  if (existsSync(from)) await writer.copy(name, from);
}
