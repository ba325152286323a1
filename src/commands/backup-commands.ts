// `gatehouse backup DIR` and `gatehouse restore DIR`: the whole of a data folder as it was at one moment, taken while
// the service runs, and made into a data folder again (s3://: stored-backup-commands.ts).
// Invariant: a backup is there whole or not at all; a restore writes into an empty data folder alone.
// Failure: one sentence. The time of the last backup that ended well is noted in Redis, for /metrics.
import { mkdirSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import path from 'node:path';
import { aboutBackup, BackupError, backupsIn, isBackup, readManifest } from '../backup/backup-manifest.ts';
import { backUpEmbedded } from '../backup/embedded-backup.ts';
import { restoreFiles } from '../backup/restore-files.ts';
import { isS3Place } from '../backup/s3-storage.ts';
import { makeClickHouse } from '../composition/clients.ts';
import { takeFileLock } from '../embedded/file-lock.ts';
import { StateDir } from '../embedded/state-dir.ts';
import { type Command, UsageError, wholeNumber } from './context.ts';
import { withRedis } from './with-redis.ts';

const KEPT_MAX = 10_000;
/** In a folder that holds nothing: our lock, and what a new file system has. */
const MAY_BE_THERE = ['lock', 'lost+found'];

export const backup: Command = async (context) => {
  const { config, args, options, print } = context;
  if (isS3Place(args[0]!)) return (await import('./stored-backup-commands.ts')).backupToS3(context);
  if (config.redisUrl !== undefined || config.clickhouseUrl !== undefined)
    throw new UsageError(
      `stores of your own are backed up to s3://BUCKET/PREFIX: ${args[0]} is out of ClickHouse's reach (docs/backup.md)`,
    );
  if (options['full'] === true)
    throw new UsageError('--full is for s3://BUCKET/PREFIX: in a folder each backup is whole');
  const kept =
    options['keep'] === undefined ? undefined : wholeNumber(String(options['keep']), 'keep', { min: 1, max: KEPT_MAX });
  const to = path.resolve(args[0]!);
  await withRedis(context, async ({ redis, keys }, full) => {
    holdFolder(to, config.dataDir);
    const clickhouse = makeClickHouse(full);
    try {
      const dataDir = path.resolve(config.dataDir);
      const done = await backUpEmbedded({ to, dataDir, redis, clickhouse, about: aboutBackup(full) });
      const { moment } = readManifest(done.folder);
      print(`${done.folder}`);
      print(
        `holds everything acknowledged before ${moment}: ${done.files} files, ${done.bytes} bytes, ` +
          `${done.reused_bytes} of them shared with the backup before`,
      );
      await redis.set(keys.backupNote(), String(Date.parse(moment)));
    } finally {
      await clickhouse.close();
    }
    for (const old of kept === undefined ? [] : backupsIn(to).slice(0, -kept)) {
      rmSync(old, { recursive: true });
      print(`removed ${old}`);
    }
  });
};

export const restore: Command = async (context) => {
  const { config, args, options, print } = context;
  if (isS3Place(args[0]!)) return (await import('./stored-backup-commands.ts')).restoreFromS3(context);
  const given = path.resolve(args[0]!);
  const from = isBackup(given) ? given : backupsIn(given).at(-1);
  if (from === undefined) throw new BackupError(`${given} holds no backup`);
  const manifest = readManifest(from);
  const { moment, holds } = manifest;
  if (options['check'] === true) {
    await restoreFiles(from, manifest);
    return print(`${from} is whole: ${manifest.files.length} files, everything acknowledged before ${moment}`);
  }
  if (config.redisUrl !== undefined || config.clickhouseUrl !== undefined)
    throw new UsageError('a backup is restored into a data folder; the settings name stores of your own');
  const state = new StateDir(config.dataDir);
  state.lock();
  try {
    const there = readdirSync(state.path).filter((name) => !MAY_BE_THERE.includes(name));
    if (there.length > 0)
      throw new BackupError(`${state.path} is not empty (${there.slice(0, 3).join(', ')}); nothing was changed`);
    await restoreFiles(from, manifest, state.path);
  } finally {
    state.unlock();
  }
  print(`restored ${from} into ${state.path}`);
  print(`everything acknowledged before ${moment} is there; what came after that is missing`);
  const needed = Object.entries(holds.settings).map(([name, value]) => `${name}=${value}`);
  print(`a start on it needs ${needed.join(' ')}`);
};

/** For as long as this process lives: of two backups into one folder one would remove the other's half. */
function holdFolder(to: string, dataDir: string): void {
  try {
    mkdirSync(to, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new BackupError(`cannot make ${to} (${(cause as NodeJS.ErrnoException).code ?? 'error'})`, { cause });
  }
  const below = path.relative(realpathSync(dataDir), realpathSync(to));
  if (!below.startsWith('..') && !path.isAbsolute(below))
    throw new UsageError(`${to} is in the data folder: a backup belongs elsewhere`);
  if (takeFileLock(path.join(to, 'lock')) === undefined) throw new BackupError(`another backup into ${to} runs`);
}
