// Guards the embedded engine's data directory: decides, before anything is served, whether what lies there is ours,
// whole and not newer. The engine itself would rather serve less: it sets a broken part aside, or opens empty when a
// database's metadata is gone. So a marker file beside the data says which tables there were and, after a clean stop,
// which parts; start compares.
// Invariant: nothing is served from a directory that lacks anything the marker names. Failure: DataDirectoryError, one
// sentence with the reason.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import type { Engine } from './chdb-sessions.ts';
import { DataDirectoryError } from './data-directory-error.ts';
import { type PartName, parsePartName } from './part-name.ts';
import { setAsideTornParts } from './torn-parts.ts';

/** Rises when a directory written now could not be read by an older Gatehouse. */
const DIRECTORY_FORMAT = 1;
export const MARKER = 'gatehouse-clickhouse.json';
const SPOOL = 'spool';
const SYSTEM_DATABASES = "('system', 'INFORMATION_SCHEMA', 'information_schema', 'default')";

type Marker = {
  product: 'gatehouse';
  format: number;
  /** Version of the engine that last wrote here, e.g. 26.7.2.1. */
  engine: string;
  /** `database.table` of everything there was when tables last changed. */
  tables: string[];
  databases: string[];
  /** A statement that changes tables was under way: what is missing may have been dropped by it. */
  changing: boolean;
  /** The operator has decided to continue without what the next start finds damaged (`gatehouse doctor --repair`). */
  accept?: true;
  /**
   * Broken data that the engine set aside, and that the operator has decided to continue without:
   * `database.table/name`.
   */
  accepted?: string[];
  /** After a clean stop: `database.table/part` of every part that has rows; null while running or after a kill. */
  parts: string[] | null;
};

export class DataDirectory {
  readonly path: string;
  /** Where the engine keeps its own files. */
  readonly enginePath: string;
  /** Bodies of inserts on their way into the engine. */
  readonly spoolPath: string;
  #marker: Marker;
  #changes = 0;

  private constructor(directory: string, marker: Marker) {
    this.path = directory;
    this.enginePath = path.join(directory, 'engine');
    this.spoolPath = path.join(directory, SPOOL);
    this.#marker = marker;
  }

  /** Opens or makes the directory, as far as that is possible before the engine runs. Throws DataDirectoryError. */
  static open(given: string): DataDirectory {
    const directory = path.resolve(given);
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      if (!statSync(directory).isDirectory()) throw new Error('not a directory');
    } catch (cause) {
      throw new DataDirectoryError(
        'unusable',
        `${directory} cannot be used as a data directory: ${(cause as Error).message}`,
        { cause },
      );
    }
    if (/[*?{}]/.test(directory))
      throw new DataDirectoryError(
        'unusable',
        `${directory} cannot be used as a data directory: its name holds one of * ? { }`,
      );
    const opened = new DataDirectory(directory, readMarker(directory) ?? freshMarker(directory));
    if (opened.#marker.databases.length > 0 && !existsSync(opened.enginePath)) {
      throw new DataDirectoryError('damaged', `${directory} is damaged: its folder "engine" is missing`);
    }
    for (const part of setAsideTornParts(opened.enginePath)) process.stderr.write(`set aside a torn part, ${part}\n`);
    return opened;
  }

  /** Compares what the engine has opened with what the marker promises. Throws DataDirectoryError. */
  async check(engine: Engine): Promise<void> {
    const version = (await engine.ask<{ version: string }>('SELECT version() AS version'))[0]!.version;
    if (compareVersions(version, this.#marker.engine) < 0) {
      throw new DataDirectoryError(
        'newer',
        `${this.path} is newer: it was written by engine ${this.#marker.engine}, this is ${version}`,
      );
    }
    await this.#checkTables(engine);
    await this.#checkParts(engine);
    rmSync(this.spoolPath, { recursive: true, force: true });
    mkdirSync(this.spoolPath, { mode: 0o700 });
    this.#write({ ...this.#marker, engine: version, parts: null, changing: false, ...(await tablesOf(engine)) });
  }

  async #checkTables(engine: Engine): Promise<void> {
    if (this.#marker.changing) return;
    const now = await tablesOf(engine);
    const missing = [
      ...this.#marker.databases.filter((name) => !now.databases.includes(name)).map((name) => `database ${name}`),
      ...this.#marker.tables.filter((name) => !now.tables.includes(name)).map((name) => `table ${name}`),
    ];
    if (missing.length > 0)
      throw new DataDirectoryError(
        'damaged',
        `${this.path} is damaged: ${few(missing)} had been there and cannot be found`,
      );
  }

  async #checkParts(engine: Engine): Promise<void> {
    const lost: SetAside[] = [];
    for (const part of await setAsideBy(engine)) {
      if (this.#marker.accepted?.includes(part.name)) continue;
      if (await isElsewhere(engine, part)) await dropSetAside(engine, part);
      else lost.push(part);
    }
    const known = new Set(await partsOf(engine, true));
    const missing: string[] = [];
    for (const name of this.#marker.parts ?? []) {
      if (known.has(name)) continue;
      const range = rangeOf(name);
      if (range === undefined || !(await isElsewhere(engine, range))) missing.push(name);
    }
    if (this.#marker.accept === true) {
      this.#marker = { ...this.#marker, accepted: [...(this.#marker.accepted ?? []), ...lost.map(({ name }) => name)] };
      delete this.#marker.accept;
      this.gaveUp = [...lost.map(({ name }) => name), ...missing];
      return;
    }
    const cure = `Restore a backup, or go on without these rows: "gatehouse doctor --repair", then start again`;
    if (lost.length > 0) {
      const names = few(lost.map(({ name }) => name));
      const text = `the engine set aside broken data, ${names}, and no other part holds its rows`;
      throw new DataDirectoryError('damaged', `${this.path} is damaged: ${text}. ${cure}`);
    }
    if (missing.length > 0)
      throw new DataDirectoryError('damaged', `${this.path} is damaged: data is missing, ${few(missing)}. ${cure}`);
  }

  /** The damaged or missing data that the operator has decided to continue without, found at this start. */
  gaveUp: readonly string[] = [];

  /** The next start continues without what it finds damaged in the tables' data. */
  acceptDamage(): void {
    this.#write({ ...this.#marker, accept: true });
  }

  /**
   * Brackets a statement that may create or drop tables, so that the marker never promises what such a statement took
   * away.
   */
  async changing<T>(engine: Engine, change: () => Promise<T>): Promise<T> {
    this.#changes++;
    if (!this.#marker.changing) this.#write({ ...this.#marker, changing: true });
    try {
      return await change();
    } finally {
      this.#changes--;
      if (this.#changes === 0) {
        const now = await tablesOf(engine);
        if (this.#changes === 0) this.#write({ ...this.#marker, changing: false, ...now });
      }
    }
  }

  /**
   * Notes every part that has rows, so that the next start sees if one has gone. Only after the last statement: merges
   * are stopped here, since one that ended later could replace a part that is noted.
   */
  async seal(engine: Engine): Promise<void> {
    await engine.ask('SYSTEM STOP MERGES');
    this.#write({ ...this.#marker, parts: await partsOf(engine, false) });
  }

  #write(marker: Marker): void {
    this.#marker = marker;
    writeMarker(this.path, marker);
  }
}

function writeMarker(directory: string, marker: Marker): void {
  const file = path.join(directory, MARKER);
  const handle = openSync(`${file}.new`, 'w', 0o600);
  writeSync(handle, `${JSON.stringify(marker, null, 1)}\n`);
  fsyncSync(handle);
  closeSync(handle);
  renameSync(`${file}.new`, file);
}

/** The marker, or undefined in an empty directory. */
export function readMarker(directory: string): Marker | undefined {
  const file = path.join(directory, MARKER);
  if (!existsSync(file)) {
    const foreign = readdirSync(directory).filter((name) => name !== `${MARKER}.new`);
    if (foreign.length === 0) return undefined;
    throw new DataDirectoryError('foreign', `${directory} is foreign: it holds ${few(foreign)} but no ${MARKER}`);
  }
  let marker: Marker;
  try {
    marker = JSON.parse(readFileSync(file, 'utf8')) as Marker;
  } catch (cause) {
    throw new DataDirectoryError('damaged', `${directory} is damaged: ${MARKER} cannot be read`, { cause });
  }
  if (marker.product !== 'gatehouse' || !Number.isInteger(marker.format)) {
    throw new DataDirectoryError('foreign', `${directory} is foreign: ${MARKER} is not Gatehouse's`);
  }
  if (marker.format > DIRECTORY_FORMAT) {
    throw new DataDirectoryError(
      'newer',
      `${directory} is newer: its format is ${marker.format}, this program knows ${DIRECTORY_FORMAT}`,
    );
  }
  return marker;
}

/** Written at once, so that a start that is killed half-way leaves a directory that is ours. */
function freshMarker(directory: string): Marker {
  const marker: Marker = {
    product: 'gatehouse',
    format: DIRECTORY_FORMAT,
    engine: '0',
    tables: [],
    databases: [],
    changing: false,
    parts: null,
  };
  writeMarker(directory, marker);
  return marker;
}

async function tablesOf(engine: Engine): Promise<{ databases: string[]; tables: string[] }> {
  const databases = await engine.ask<{ name: string }>(
    `SELECT name FROM system.databases WHERE name NOT IN ${SYSTEM_DATABASES} ORDER BY name`,
  );
  const tables = await engine.ask<{ name: string }>(
    `SELECT concat(database, '.', name) AS name FROM system.tables WHERE database NOT IN ${SYSTEM_DATABASES} AND NOT is_temporary ORDER BY name`,
  );
  return { databases: databases.map((row) => row.name), tables: tables.map((row) => row.name) };
}

type PartRange = { database: string; table: string } & Pick<PartName, 'partition' | 'first' | 'last'>;
/** A part that the engine would not open. */
type SetAside = PartRange & { name: string; detached: string };

/** The range of a part that is named `database.table/part`. */
function rangeOf(name: string): PartRange | undefined {
  const [, database, table, part] = /^([^.]+)\.(.+)\/([^/]+)$/.exec(name) ?? [];
  const range = parsePartName(part ?? '');
  if (database === undefined || table === undefined || range === undefined) return undefined;
  return { database, table, ...range };
}

/** A part that was detached on purpose has no reason; a part that the engine set aside has one. */
function setAsideBy(engine: Engine): Promise<SetAside[]> {
  return engine.ask<SetAside>(
    "SELECT concat(database, '.', table, '/', set_aside.name) AS name, database, table, set_aside.name AS detached, partition_id AS partition, toUInt32(min_block_number) AS first, toUInt32(max_block_number) AS last FROM system.detached_parts AS set_aside WHERE startsWith(reason, 'broken') OR reason IN ('unexpected', 'covered-by-broken') ORDER BY name LIMIT 200",
  );
}

/**
 * Whether every row of it is in another part. So it is for what a merge was writing when the disk was full: the parts
 * that it was made of are there, also where the engine had taken the merged part for whole until it was started again.
 * The sources of a merge are removed together, and the first and the last of them bound its range. Where both are
 * there, a number between them that is in no part is of an insert that failed: the engine never uses a number twice.
 */
async function isElsewhere(engine: Engine, { database, table, partition, first, last }: PartRange): Promise<boolean> {
  const parts = await engine.ask<{ first: number; last: number }>(
    `SELECT toUInt32(min_block_number) AS first, toUInt32(max_block_number) AS last FROM system.parts WHERE active AND database = '${database}' AND table = '${table}' AND partition_id = '${partition}' AND max_block_number >= ${first} AND min_block_number <= ${last} ORDER BY first`,
  );
  return parts.length > 0 && parts[0]!.first <= first && Math.max(...parts.map((part) => part.last)) >= last;
}

async function dropSetAside(engine: Engine, { database, table, detached }: SetAside): Promise<void> {
  await engine.ask(
    `ALTER TABLE ${database}.${table} DROP DETACHED PART '${detached}' SETTINGS allow_drop_detached = 1`,
  );
}

/**
 * Inactive parts are those that a merge or an expiry has just replaced: at a start they still count as found. A part
 * without rows is dropped by the engine whenever it likes, and is never missed.
 */
async function partsOf(engine: Engine, withInactive: boolean): Promise<string[]> {
  const rows = await engine.ask<{ name: string }>(
    `SELECT concat(database, '.', table, '/', name) AS name FROM system.parts WHERE database NOT IN ${SYSTEM_DATABASES} ${withInactive ? '' : 'AND active AND rows > 0'} ORDER BY name`,
  );
  return rows.map((row) => row.name);
}

function few(names: string[]): string {
  return names.length <= 3 ? names.join(', ') : `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`;
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map(Number)) as [number[], number[]];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
