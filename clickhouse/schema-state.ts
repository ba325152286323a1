// Are the tables there, as this program needs them? (Asked by `/readyz`, by pipelines at their start and by `gatehouse
// doctor`.) Compares the tables that the migrations make with those that there are, and the migrations that were
// applied with ours.
// Failure: a ClickHouse that does not answer, or refuses us, throws ClickHouseError; what is missing is a sentence.
import { type ClickHouse, ClickHouseError } from './client.ts';
import { readMigrations } from './migrate.ts';

type Expected = { tables: string[]; versions: Map<number, string> };
let expected: Expected | undefined;

const UNKNOWN_DATABASE = 81;

/** undefined: as it must be. `signal` ends the question. */
export async function schemaFault(clickhouse: ClickHouse, signal?: AbortSignal): Promise<string | undefined> {
  const { tables, versions } = expectedSchema();
  const cure = '"gatehouse migrate" makes it';
  const options = signal === undefined ? {} : { signal };
  let found: { name: string }[];
  try {
    found = await clickhouse.query<{ name: string }>(
      'SELECT name FROM system.tables WHERE database = currentDatabase()',
      {},
      options,
    );
  } catch (error) {
    if (error instanceof ClickHouseError && error.code === UNKNOWN_DATABASE)
      return `there is no database ${clickhouse.database}; ${cure}`;
    throw error;
  }
  const names = new Set(found.map(({ name }) => name));
  const missing = tables.filter((table) => !names.has(table));
  if (missing.length > 0) return `there is no table ${missing.join(', ')} in ${clickhouse.database}; ${cure}`;
  const applied = await clickhouse.query<{ version: number; name: string }>(
    'SELECT version, name FROM migrations FINAL WHERE version > 0',
    {},
    options,
  );
  const newer = applied.find(({ version }) => !versions.has(version));
  if (newer !== undefined) return `the database is newer: it has migration ${newer.name}; start a newer Gatehouse`;
  const done = new Set(applied.map(({ version }) => version));
  const open = [...versions].filter(([version]) => !done.has(version)).map(([, name]) => name);
  return open.length === 0 ? undefined : `migration ${open.join(', ')} was not applied; "gatehouse migrate" does it`;
}

function expectedSchema(): Expected {
  if (expected === undefined) {
    const migrations = readMigrations();
    const made = migrations.flatMap(({ text }) => [
      ...text.matchAll(/CREATE TABLE IF NOT EXISTS \{\{database\}\}\.(\w+)/g),
    ]);
    expected = {
      tables: ['migrations', ...new Set(made.map(([, name]) => name!))],
      versions: new Map(migrations.map(({ version, name }) => [version, name])),
    };
  }
  return expected;
}
