// Backups of stores of one's own: ClickHouse puts its tables into S3-compatible storage by its own BACKUP, and takes
// them back by RESTORE. Redis is not in it: once all that was acknowledged is stored (streams/stored-so-far.ts), the
// tables have it, the registry among it, and an empty Redis is filled from them.
//   PREFIX/MOMENT/chain      the audit chain, taken first: each row that it knows is then among the others
//   PREFIX/MOMENT/log        the audit log, then: each change that it records is among the others
//   PREFIX/MOMENT/tables     all other tables
//   PREFIX/MOMENT/registry   the registry, last: an agent whose events an erasure took meanwhile is deleted in it
//   PREFIX/MOMENT/files      keys of the data folder
//   PREFIX/MOMENT/manifest.… what is there and its SHA-256, written last
// A backup is incremental: it names the one before as its base, and holds what is new.
// Invariant: a restore begins once each object of a backup and of its bases has the length and the ETag that it was
// written with. Failure: BackupError; what was half restored is dropped.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { isoTime } from '../../schemas/time.ts';
import { altered, BackupError, type BackupManifest, backupName, isBackupName, sumOf } from './backup-manifest.ts';
import type { S3Storage, StoredObject } from './s3-storage.ts';

export type StoredManifest = Pick<BackupManifest, 'product' | 'format' | 'version' | 'moment' | 'ended'> & {
  /** The backup that it builds on; null: it is whole by itself. */
  base: string | null;
  settings: BackupManifest['holds']['settings'];
  /** Length of its own objects. */
  bytes: number;
  objects: StoredObject[];
};
type NamedManifest = { name: string; manifest: StoredManifest };
export type SmallFile = { name: string; text: string };

/** The tables that are backed up by themselves, in this order: before all other tables, and after them. */
const BEFORE = { chain: 'audit_chain', log: 'audit_log' };
const BEHIND = { registry: 'registry' };
const ALONE = Object.entries({ ...BEFORE, ...BEHIND });
const POLL_MS = 300;
const ERROR_CHARACTERS_MAX = 500;
/** The longest chain of bases: each is read before a restore. */
const BASES_MAX = 1_000;

type Making = {
  storage: S3Storage;
  clickhouse: ClickHouse;
  /** All that was acknowledged before is stored. */
  moment: string;
  version: string;
  settings: StoredManifest['settings'];
  files: readonly SmallFile[];
  /** Nothing is shared with the backup before. */
  full: boolean;
};

export async function backUpTables(making: Making): Promise<NamedManifest> {
  const { storage, clickhouse, moment, version, settings, files } = making;
  const name = backupName(moment);
  const base = making.full ? undefined : await newestBackup(storage);
  const { database } = clickhouse;
  const put = (what: string, part: string) =>
    backUp(making, what, { to: `${name}/${part}`, base: hasPart(base, part) ? `${base!.name}/${part}` : undefined });
  const alone = ALONE.map(([, table]) => `${database}.${table}`);
  for (const [part, table] of Object.entries(BEFORE)) await put(`TABLE ${database}.${table}`, part);
  await put(`DATABASE ${database} EXCEPT TABLES ${alone.join(', ')}`, 'tables');
  for (const [part, table] of Object.entries(BEHIND)) await put(`TABLE ${database}.${table}`, part);
  for (const file of files) await storage.write(`${name}/files/${file.name}`, file.text);
  const objects = await storage.objects(`${name}/`);
  const manifest: StoredManifest = {
    ...{ product: 'gatehouse-backup', format: 1, version, moment, ended: isoTime(Date.now()) },
    ...{ base: base?.name ?? null, settings, bytes: objects.reduce((sum, { size }) => sum + size, 0), objects },
  };
  const text = `${JSON.stringify(manifest, null, 1)}\n`;
  await storage.write(`${name}/manifest.json`, text);
  await storage.write(`${name}/manifest.sha256`, `${sumOf(text)}  manifest.json\n`);
  return { name, manifest };
}

/** The newest that ended well; undefined: there is none. */
export async function newestBackup(storage: S3Storage): Promise<NamedManifest | undefined> {
  const names = (await storage.folders()).filter(isBackupName);
  for (const name of names.reverse()) {
    const manifest = await readStored(storage, name);
    if (manifest !== undefined) return { name, manifest };
  }
  return undefined;
}

/** undefined: no backup ended there. Throws BackupError where it was altered. */
export async function readStored(storage: S3Storage, name: string): Promise<StoredManifest | undefined> {
  const sum = await storage.read(`${name}/manifest.sha256`);
  if (sum === undefined) return undefined;
  const place = `${storage.shown}/${name}/manifest.json`;
  const text = (await storage.read(`${name}/manifest.json`)) ?? '';
  if (sum.slice(0, 64) !== sumOf(text)) throw altered(place);
  const manifest = JSON.parse(text) as StoredManifest;
  if (manifest.format !== 1) throw new BackupError(`${place} was made by a newer Gatehouse (${manifest.version})`);
  return manifest;
}

/** Compares a backup and all that it builds on with what is stored; answers how many objects. */
export async function checkStored(storage: S3Storage, { name, manifest }: NamedManifest): Promise<number> {
  let count = 0;
  let [next, of]: [string | null, StoredManifest] = [name, manifest];
  for (let bases = 0; next !== null && bases <= BASES_MAX; bases++) {
    const stored = new Map((await storage.objects(`${next}/`)).map((object) => [object.name, object]));
    for (const { name: wanted, size, etag } of of.objects) {
      const found = stored.get(wanted);
      if (found === undefined) throw new BackupError(`${storage.shown}/${wanted} is not there. Take another backup`);
      if (found.size !== size || found.etag !== etag) throw altered(`${storage.shown}/${wanted}`, 'ETag');
    }
    count += of.objects.length;
    next = of.base;
    if (next === null) break;
    const base = await readStored(storage, next);
    if (base === undefined) throw new BackupError(`${storage.shown}/${next} is not there, and ${name} builds on it`);
    of = base;
  }
  return count;
}

/** `server`: of the database `default`. Makes the database `into`, which must not be there. */
export async function restoreTables(
  storage: S3Storage,
  { name, manifest }: NamedManifest,
  { server, into }: { server: ClickHouse; into: string },
): Promise<SmallFile[]> {
  const from = manifest.settings.GATEHOUSE_CLICKHOUSE_DATABASE;
  const there = await server.query<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {into: String} LIMIT 1',
    { into },
  );
  if (there.length > 0) throw new BackupError(`the database ${into} is not empty; nothing was changed`);
  await server.command(`DROP DATABASE IF EXISTS ${into} SYNC`);
  try {
    const source = (part: string) => `FROM ${storage.engine(`${name}/${part}`)} SETTINGS ${SAME_KEY}`;
    await run(server, `RESTORE DATABASE ${from} AS ${into} ${source('tables')}`);
    for (const [part, table] of ALONE.filter(([one]) => hasPart({ name, manifest }, one)))
      await run(server, `RESTORE TABLE ${from}.${table} AS ${into}.${table} ${source(part)}`);
    await loadAgain(server, into);
  } catch (error) {
    await server.command(`DROP DATABASE IF EXISTS ${into} SYNC`);
    throw error;
  }
  const below = `${name}/files/`;
  const files = manifest.objects.filter((object) => object.name.startsWith(below));
  const texts = files.map(async (file) => ({
    name: file.name.slice(below.length),
    text: (await storage.read(file.name)) ?? '',
  }));
  return Promise.all(texts);
}

/**
 * A restored part keeps the number of the last change to it, while its table counts changes from one: a DELETE with a
 * lower number would be taken for done, and nothing would go. Loaded again, a table counts on from its parts.
 */
async function loadAgain(server: ClickHouse, database: string): Promise<void> {
  const tables = await server.query<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = {database: String} AND engine LIKE '%MergeTree'",
    { database },
  );
  for (const { name } of tables) {
    await server.command(`DETACH TABLE ${database}.${name} SYNC`);
    await server.command(`ATTACH TABLE ${database}.${name}`);
  }
}

/** Older ones have the registry among the other tables. */
function hasPart(backup: NamedManifest | undefined, part: string): boolean {
  return backup?.manifest.objects.some((object) => object.name.startsWith(`${backup.name}/${part}/`)) === true;
}

/** The key of the backup opens its base as well; so no secret is kept beside the tables. */
const SAME_KEY = 'use_same_s3_credentials_for_base_backup = 1';

function backUp(
  { storage, clickhouse }: Making,
  what: string,
  { to, base }: { to: string; base: string | undefined },
): Promise<void> {
  const on = base === undefined ? '' : ` SETTINGS base_backup = ${storage.engine(base)}, ${SAME_KEY}`;
  return run(clickhouse, `BACKUP ${what} TO ${storage.engine(to)}${on}`);
}

/** It may take hours, so it is begun and asked after, and no bound for queries ends it. */
async function run(clickhouse: ClickHouse, sql: string): Promise<void> {
  const settings = { max_execution_time: 0 };
  const [begun] = await clickhouse.query<{ id: string }>(`${sql} ASYNC`, {}, { settings });
  for (;;) {
    const [found] = await clickhouse.query<{ status: string; error: string }>(
      'SELECT toString(status) AS status, error FROM system.backups WHERE id = {id: String}',
      { id: begun!.id },
    );
    if (found === undefined) throw new BackupError('ClickHouse was restarted meanwhile; begin again');
    if (/^(BACKUP_CREATED|RESTORED)$/.test(found.status)) return;
    if (/(FAILED|CANCELLED)$/.test(found.status))
      throw new BackupError(`ClickHouse says: ${found.error.slice(0, ERROR_CHARACTERS_MAX)}`);
    await sleep(POLL_MS);
  }
}
