// Brings a database to the shape that this program needs: clickhouse/NNN_name.sql, in order, each once, recorded with
// its checksum. Runs when a process starts; several may start at once, so one holds a lock. The lock frees itself: its
// holder renews it while it lives. Each statement of a file must allow to be run again, since a holder can die between
// two of them. Refuses (MigrationError): a database that is newer than the program, an applied file whose text has
// changed since.

import { createHash, randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserFacingError } from '../src/common/user-facing-error.ts';
import { assetPath, readAsset } from '../src/process/assets.ts';
import { type ClickHouse, ClickHouseError } from './client.ts';
import { INSTALLATION_NAME, installationRow, newInstallation, type WantedInstallation } from './installation.ts';
import { EXPIRING_TABLES } from './queries/kept-rows.ts';
import { renderSql, splitStatements, type TemplateOptions } from './sql-template.ts';

type MigrateOptions = {
  cluster?: string | undefined;
  /** Days for which anything of events may be kept: so long the audit chain holds what it knows of them. */
  retentionDays: number;
  /** The installation that it belongs to from now on, where it belongs to none yet. */
  installation?: WantedInstallation;
  /** For tests: the files to apply instead of clickhouse/*.sql. */
  migrations?: Migration[];
  lockTiming?: LockTiming;
};

export type Migration = { version: number; name: string; text: string };
type Applied = { version: number; name: string; checksum: string };
type LockTiming = { heldMs: number; renewMs: number; pollMs: number };

export class MigrationError extends UserFacingError {
  override name = 'MigrationError';
}

class LockLostError extends Error {
  override name = 'LockLostError';
}

/**
 * A holder that has not renewed for this long is taken for dead. Renewing is one small statement; ten chances before
 * the lock is lost.
 */
const LOCK_TIMING: LockTiming = { heldMs: 20_000, renewMs: 2_000, pollMs: 200 };
const LOCK_WAIT_MS_MAX = 5 * 60 * 1000;
const TABLE_ALREADY_EXISTS = 57;
/** Pseudo-version that records the days after which the contents of the audit chain expire. */
const CHAIN_NAME = 'chain_days';

/** Applies what is missing; returns the names of the files it applied. Throws MigrationError or ClickHouseError. */
export async function migrate(clickhouse: ClickHouse, options: MigrateOptions): Promise<string[]> {
  const migrations = options.migrations ?? readMigrations();
  const { installation } = options;
  const template = { database: clickhouse.database, cluster: options.cluster, retentionDays: options.retentionDays };
  await createDatabase(clickhouse, template);
  for (;;) {
    if (await isCurrent(clickhouse, { migrations, template, installation })) return [];
    const lock = await acquireLock(clickhouse, options.lockTiming ?? LOCK_TIMING);
    try {
      return await applyMissing(clickhouse, { migrations, template, installation, lock });
    } catch (error) {
      // The process that took over does the work; we wait for it as the others do.
      if (!(error instanceof LockLostError)) throw error;
    } finally {
      await lock.release();
    }
  }
}

/** clickhouse/NNN_name.sql, by number. */
export function readMigrations(): Migration[] {
  const files = readdirSync(assetPath('clickhouse')).filter((file) => /^\d{3}_\w+\.sql$/.test(file));
  return files.sort().map((file, i) => {
    const version = Number(file.slice(0, 3));
    if (version !== i + 1) throw new MigrationError(`clickhouse/${file}: numbers must follow one another`);
    return { version, name: path.basename(file, '.sql'), text: readAsset(`clickhouse/${file}`) };
  });
}

async function createDatabase(clickhouse: ClickHouse, { database, cluster }: TemplateOptions): Promise<void> {
  const outside = clickhouse.withDatabase('default');
  try {
    const onCluster = cluster === undefined ? '' : ` ON CLUSTER '${cluster}'`;
    await outside.command(`CREATE DATABASE IF NOT EXISTS \`${database}\`${onCluster} ENGINE = Atomic`);
  } finally {
    await outside.close();
  }
  await clickhouse.command(
    renderSql(
      `CREATE TABLE IF NOT EXISTS {{database}}.migrations{{on_cluster}}
      (
          version    UInt32              COMMENT 'Number of the file; 0 for a setting that is built into tables',
          name       String              COMMENT 'Name of the file or of the setting, e.g. 001_events',
          checksum   String              COMMENT 'SHA-256 of the file as it is kept, hex; or the setting''s value',
          applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When, UTC ms'
      )
      ENGINE = {{engine:ReplacingMergeTree:applied_at}} ORDER BY (version, name)`,
      { database, cluster, retentionDays: 0 },
    ),
  );
}

type Wanted = { migrations: Migration[]; template: TemplateOptions; installation: MigrateOptions['installation'] };

async function isCurrent(clickhouse: ClickHouse, { migrations, template, installation }: Wanted): Promise<boolean> {
  const applied = await readApplied(clickhouse);
  verify(applied, migrations);
  const days = applied.find((row) => row.name === CHAIN_NAME)?.checksum;
  return (
    days === String(template.retentionDays) &&
    (installation === undefined || applied.some((row) => row.name === INSTALLATION_NAME)) &&
    migrations.every((migration) => applied.some((row) => row.version === migration.version))
  );
}

async function applyMissing(
  clickhouse: ClickHouse,
  { migrations, template, installation, lock }: Wanted & { lock: Lock },
): Promise<string[]> {
  // Read again: another process may have migrated until we held the lock.
  const applied = await readApplied(clickhouse);
  verify(applied, migrations);
  const missing = migrations.filter((migration) => !applied.some((row) => row.version === migration.version));
  for (const migration of missing) {
    for (const statement of splitStatements(renderSql(migration.text, template))) {
      await lock.check();
      await clickhouse.command(statement);
    }
    await record(clickhouse, { version: migration.version, name: migration.name, checksum: checksum(migration.text) });
  }
  const days = String(template.retentionDays);
  if (applied.find((row) => row.name === CHAIN_NAME)?.checksum !== days) {
    await removeRowTtls(clickhouse, template, lock);
    await setChainTtl(clickhouse, template, lock);
    await record(clickhouse, { version: 0, name: CHAIN_NAME, checksum: days });
  }
  if (installation !== undefined && !applied.some((row) => row.name === INSTALLATION_NAME))
    await record(clickhouse, installationRow(newInstallation(installation)));
  return missing.map((migration) => migration.name);
}

/**
 * Rows expire by account, and not while they are held, which a table cannot know: the pipelines delete them
 * (queries/expired-rows.ts). The files from before that have made the tables with a TTL.
 */
async function removeRowTtls(clickhouse: ClickHouse, template: TemplateOptions, lock: Lock): Promise<void> {
  const tables = await clickhouse.query<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND match(engine_full, ' TTL ')
       AND name IN (${EXPIRING_TABLES.map((table) => `'${table}'`).join(', ')})`,
  );
  for (const { name } of tables) {
    await lock.check();
    await clickhouse.command(renderSql(`ALTER TABLE {{database}}.${name}{{on_cluster}} REMOVE TTL`, template));
  }
}

/** Parts of before are rewritten, in the background: 43 bytes for each event that is kept. */
async function setChainTtl(clickhouse: ClickHouse, template: TemplateOptions, lock: Lock): Promise<void> {
  const [chain] = await clickhouse.query<{ isNew: number }>(
    `SELECT countSubstrings(create_table_query, 'last_at + toIntervalDay(${template.retentionDays})') = 3 AS isNew
     FROM system.tables WHERE database = currentDatabase() AND name = 'audit_chain'`,
  );
  if (chain === undefined || chain.isNew === 1) return;
  const days = 'toIntervalDay({{retention_days}})';
  // The chain's contents outlive the events, as in 007_audit_chain.sql.
  const contents = ['leaves', 'agents', 'ids'].map(
    (name) => `MODIFY COLUMN ${name} TTL last_at + ${days} + toIntervalDay(2)`,
  );
  await lock.check();
  await clickhouse.command(
    renderSql(`ALTER TABLE {{database}}.audit_chain{{on_cluster}} ${contents.join(', ')}`, template),
    {},
    { materialize_ttl_after_modify: 1, mutations_sync: '0' },
  );
}

function readApplied(clickhouse: ClickHouse): Promise<Applied[]> {
  return clickhouse.query<Applied>('SELECT version, name, checksum FROM migrations FINAL ORDER BY version, name');
}

async function record(clickhouse: ClickHouse, row: Applied): Promise<void> {
  await clickhouse.insertRows('migrations', [row]);
}

function verify(applied: Applied[], migrations: Migration[]): void {
  const known = new Map(migrations.map((migration) => [migration.version, migration]));
  for (const row of applied) {
    if (row.version === 0) continue;
    const migration = known.get(row.version);
    if (migration === undefined) {
      throw new MigrationError(
        `the database is newer: it has migration ${row.name}, this program knows ${migrations.length}; start a newer Gatehouse`,
      );
    }
    if (row.checksum !== checksum(migration.text)) {
      throw new MigrationError(
        `clickhouse/${migration.name}.sql is not the file that the database was made with: it was made by a version before 0.2.0 (docs/upgrade.md), or the file was changed`,
      );
    }
  }
}

function checksum(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

// -- the lock
// ClickHouse has no locks, but making a table is atomic. Lock number n is the table migration_lock_n, its comment says
// until when it is held, by the server's clock. A process that finds the newest one free or expired makes n+1; one
// wins. The newest is never dropped, so a number is never used twice and no process can drop a lock that is not the one
// it inspected. A holder that finds a newer lock than its own stops.

type LockState = { number: number; owner: string; until: number; now: number };

class Lock {
  readonly #clickhouse: ClickHouse;
  readonly #timing: LockTiming;
  readonly #number: number;
  readonly #owner: string;
  readonly #timer: NodeJS.Timeout;
  #renewal: Promise<void> = Promise.resolve();

  constructor(clickhouse: ClickHouse, timing: LockTiming, { number, owner }: { number: number; owner: string }) {
    this.#clickhouse = clickhouse;
    this.#timing = timing;
    this.#number = number;
    this.#owner = owner;
    this.#timer = setInterval(() => {
      this.#renewal = this.#renew().catch(() => {});
    }, timing.renewMs);
  }

  /** Throws LockLostError when another process has taken over, because this one did not renew the lock in time. */
  async check(): Promise<void> {
    const state = await readLock(this.#clickhouse);
    if (state?.owner !== this.#owner) throw new LockLostError('the lock was taken over');
  }

  async #renew(): Promise<void> {
    const state = await readLock(this.#clickhouse);
    if (state?.owner !== this.#owner) return;
    await this.#setUntil(state.now + this.#timing.heldMs);
  }

  #setUntil(until: number): Promise<void> {
    return this.#clickhouse.command(`ALTER TABLE ${lockName(this.#number)} MODIFY COMMENT '${this.#owner} ${until}'`);
  }

  async release(): Promise<void> {
    clearInterval(this.#timer);
    await this.#renewal;
    if ((await readLock(this.#clickhouse))?.owner !== this.#owner) return;
    await this.#setUntil(0);
    const older = await this.#clickhouse.query<{ name: string }>(
      "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'migration_lock_') AND name < {own:String}",
      { own: lockName(this.#number) },
    );
    for (const { name } of older) await this.#clickhouse.command(`DROP TABLE IF EXISTS ${name}`);
  }
}

async function acquireLock(clickhouse: ClickHouse, timing: LockTiming): Promise<Lock> {
  const owner = randomUUID();
  const giveUpAt = performance.now() + LOCK_WAIT_MS_MAX;
  for (;;) {
    const state = await readLock(clickhouse);
    if (state === undefined || state.until <= state.now) {
      const number = (state?.number ?? 0) + 1;
      if (await takeLock(clickhouse, { number, owner, heldMs: timing.heldMs }))
        return new Lock(clickhouse, timing, { number, owner });
    }
    if (performance.now() > giveUpAt)
      throw new MigrationError('another process has been migrating this database for more than 5 minutes');
    await sleep(timing.pollMs);
  }
}

async function takeLock(
  clickhouse: ClickHouse,
  { number, owner, heldMs }: { number: number; owner: string; heldMs: number },
): Promise<boolean> {
  const [{ now }] = (await clickhouse.query<{ now: number }>('SELECT toUnixTimestamp64Milli(now64(3)) AS now')) as [
    { now: number },
  ];
  try {
    await clickhouse.command(
      `CREATE TABLE ${lockName(number)} (nothing UInt8) ENGINE = MergeTree ORDER BY tuple() COMMENT '${owner} ${now + heldMs}'`,
    );
    return true;
  } catch (error) {
    if (error instanceof ClickHouseError && error.code === TABLE_ALREADY_EXISTS) return false;
    throw error;
  }
}

async function readLock(clickhouse: ClickHouse): Promise<LockState | undefined> {
  const [row] = await clickhouse.query<{ name: string; comment: string; now: number }>(
    `SELECT name, comment, toUnixTimestamp64Milli(now64(3)) AS now FROM system.tables
     WHERE database = currentDatabase() AND startsWith(name, 'migration_lock_') ORDER BY name DESC LIMIT 1`,
  );
  if (row === undefined) return undefined;
  const [owner = '', until = '0'] = row.comment.split(' ');
  return {
    number: Number(row.name.slice(lockName(0).length - LOCK_DIGITS)),
    owner,
    until: Number(until),
    now: row.now,
  };
}

const LOCK_DIGITS = 9;

function lockName(number: number): string {
  return `migration_lock_${String(number).padStart(LOCK_DIGITS, '0')}`;
}
