// `gatehouse backup s3://…` and `gatehouse restore s3://…`: stores of one's own, backed up while everything runs, and
// made again in an empty ClickHouse and an empty Redis (backup/stored-backup.ts).
// Invariant: a backup is there once its sum is; a restore changes nothing where either store holds something of ours.
// Failure: one sentence, and what a restore had made is dropped; one that was killed leaves a database to be dropped.
// Redis is filled last.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { dropBeyondLog, type Unrecorded } from '../../clickhouse/queries/rows-beyond-log.ts';
import { isoTime } from '../../schemas/time.ts';
import { aboutBackup, BackupError, isBackupName } from '../backup/backup-manifest.ts';
import { KEY_FILES } from '../backup/embedded-backup.ts';
import { S3Storage } from '../backup/s3-storage.ts';
import {
  backUpTables,
  checkStored,
  newestBackup,
  readStored,
  restoreTables,
  type SmallFile,
} from '../backup/stored-backup.ts';
import { clickhouseReady, makeClickHouse, migrateTables, STORES_READY_MS_MAX } from '../composition/clients.ts';
import { StateDir } from '../embedded/state-dir.ts';
import { writeToTerminal } from '../process/report-failure.ts';
import { nowOf, type RegistryStore } from '../registry/commit.ts';
import { recordDeletion, rewriteResources } from '../registry/recovery/history.ts';
import { presenceOf } from '../registry/recovery/presence.ts';
import { countDeadLetters, readersOf, waitUntilStored } from '../streams/stored-so-far.ts';
import { type Command, type Context, UsageError } from './context.ts';
import { rebuildFromTables } from './store-commands.ts';
import { withRedis } from './with-redis.ts';

/** Pipelines are seconds behind. Longer means that they stand still, or that more comes in than they can store. */
const STORED_MS_MAX = 120_000;
/** The most by which clocks of fronts differ: a commit older than a moment by this was before it by all of them. */
const CLOCKS_APART_MS = 60_000;

export const backupToS3: Command = async (context) => {
  const { config, args, options, print } = context;
  requireOwnStores(context);
  if (options['keep'] !== undefined)
    throw new UsageError('--keep is for folders: here a backup may build on older ones (docs/backup.md)');
  if (config.clickhouseCluster !== undefined)
    throw new UsageError('replicated tables are backed up by ClickHouse (BACKUP … ON CLUSTER); this does not do it');
  const storage = new S3Storage(args[0]!, config.backupS3Url);
  await withRedis(context, async (stores, full) => {
    await clickhouseReady(full, { waitMs: STORES_READY_MS_MAX, say: writeToTerminal });
    const clickhouse = makeClickHouse(full);
    try {
      const moment = isoTime(Date.now());
      const behind = await waitUntilStored(stores, STORED_MS_MAX);
      if (behind !== undefined)
        throw new BackupError(
          `${behind} after ${STORED_MS_MAX / 1_000} s: do the pipelines run? Nothing was backed up`,
        );
      const about = { ...aboutBackup(full), files: keyFiles(full.dataDir), full: options['full'] === true };
      const { name, manifest } = await backUpTables({ storage, clickhouse, moment, ...about });
      print(`${storage.shown}/${name}`);
      print(
        `holds everything acknowledged before ${moment}: ${manifest.objects.length} objects, ${manifest.bytes} bytes` +
          (manifest.base === null ? '' : `, on top of ${manifest.base}`),
      );
      await stores.redis.set(stores.keys.backupNote(), String(Date.parse(moment)));
      const dead = await countDeadLetters(stores);
      if (dead > 0) print(`does not hold ${dead} dead letters, which are in Redis alone ("gatehouse dead list")`);
    } finally {
      await clickhouse.close();
    }
  });
};

export const restoreFromS3: Command = async (context) => {
  const { config, args, options, print } = context;
  const isCheck = options['check'] === true;
  if (!isCheck) requireOwnStores(context);
  const { storage, backup } = await named(args[0]!, config.backupS3Url);
  const { name, manifest } = backup;
  const place = `${storage.shown}/${name}`;
  const count = await checkStored(storage, backup);
  if (isCheck) return print(`${place} is whole: ${count} objects, everything acknowledged before ${manifest.moment}`);
  await withRedis(context, async (stores, full) => {
    const { GATEHOUSE_CLICKHOUSE_DATABASE: _mayDiffer, ...fixed } = manifest.settings;
    const { settings } = aboutBackup(full);
    for (const [setting, value] of Object.entries(fixed))
      if (settings[setting as keyof typeof fixed] !== value)
        throw new BackupError(`${setting} must be ${value}, as it was when ${place} was taken; nothing was changed`);
    if ((await presenceOf(stores)).state !== 'empty')
      throw new BackupError('this Redis holds a registry: restore into an empty one; nothing was changed');
    await clickhouseReady(full, { waitMs: STORES_READY_MS_MAX, say: writeToTerminal });
    const server = makeClickHouse({ ...full, clickhouseDatabase: 'default' });
    const clickhouse = makeClickHouse(full);
    try {
      const files = await restoreTables(storage, backup, { server, into: full.clickhouseDatabase });
      await migrateTables(full, { redis: undefined, say: writeToTerminal });
      const momentMs = Date.parse(manifest.moment);
      await goOnBehind(stores, momentMs);
      const unrecorded = await dropBeyondLog(clickhouse, momentMs - CLOCKS_APART_MS);
      const counts = await rebuildFromTables(stores, clickhouse);
      await record(stores, unrecorded);
      print(`restored ${place}: ${JSON.stringify(counts)}`);
      for (const file of files.filter(({ name: of }) => KEY_FILES.test(of))) print(keepKeyFile(full.dataDir, file));
    } finally {
      await Promise.all([server.close(), clickhouse.close()]);
    }
  });
  print(`everything acknowledged before ${manifest.moment} is there; of what came after that some is missing`);
};

/** The audit chain may lack rows that were stored since: with this place the pipelines look for them as they begin. */
async function goOnBehind({ redis, keys }: RegistryStore, momentMs: number): Promise<void> {
  const { events, journal } = readersOf(keys);
  for (const { stream, group } of [...events, ...journal])
    if (group === 'store') await redis.set(keys.watermark(stream, group), `${momentMs}-0`);
}

/** Makes an entry in the audit log for each change that has none, and for a policy a revision that it vouches for. */
async function record(stores: RegistryStore, unrecorded: readonly Unrecorded[]): Promise<void> {
  if (unrecorded.length === 0) return;
  for (const one of unrecorded) if (one.deleted) await recordDeletion(stores, one);
  const nameOf = ({ account, kind, id }: Omit<Unrecorded, 'deleted'>) => `${account} ${kind} ${id}`;
  const names = new Set(unrecorded.map(nameOf));
  await rewriteResources(stores, nowOf(stores), (account, { kind, id }) => names.has(nameOf({ account, kind, id })));
}

/** A backup by its name, or the newest one of the place. */
async function named(place: string, address: string | undefined) {
  const slash = place.lastIndexOf('/');
  const last = place.slice(slash + 1);
  const storage = new S3Storage(isBackupName(last) ? place.slice(0, slash) : place, address);
  const manifest = isBackupName(last) ? await readStored(storage, last) : undefined;
  const backup = isBackupName(last) ? manifest && { name: last, manifest } : await newestBackup(storage);
  if (backup === undefined) throw new BackupError(`${place} holds no backup`);
  return { storage, backup };
}

function requireOwnStores({ config }: Context): void {
  if (config.redisUrl !== undefined && config.clickhouseUrl !== undefined) return;
  throw new UsageError(
    'to s3:// and from there go stores of your own (GATEHOUSE_REDIS_URL, GATEHOUSE_CLICKHOUSE_URL); back up a data folder into a folder, and copy that',
  );
}

/** The keys in the data folder of the machine on which the command runs, if it has one. */
function keyFiles(dataDir: string): SmallFile[] {
  const names = existsSync(dataDir) ? readdirSync(dataDir).filter((name) => KEY_FILES.test(name)) : [];
  return names.map((name) => ({ name, text: readFileSync(path.join(dataDir, name), 'utf8') }));
}

/** Writes a key file into the data folder; one that is there stays. */
function keepKeyFile(dataDir: string, { name, text }: SmallFile): string {
  const file = path.join(new StateDir(dataDir).path, name);
  if (existsSync(file)) return `${file} is there already, and stays`;
  writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  return `kept ${file}`;
}
