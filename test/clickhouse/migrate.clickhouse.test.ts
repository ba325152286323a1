// Migrations: once each, under a lock that frees itself, refused where the database is newer; and the text they become
// for a cluster.
import t from 'tap';
import { ClickHouseError } from '../../clickhouse/client.ts';
import { type Migration, MigrationError, migrate, readMigrations } from '../../clickhouse/migrate.ts';
import { SEARCH_TOKENS } from '../../clickhouse/queries/search.ts';
import { renderSql, splitStatements } from '../../clickhouse/sql-template.ts';
import { EVENT_COLUMNS, type EventColumnKind, OUTCOME_VALUE } from '../../schemas/event-row.ts';
import { startClickHouse } from '../support/clickhouse.ts';

const OUTCOMES = Object.entries(OUTCOME_VALUE).map(([name, value]) => `'${name}' = ${value}`);
const TYPES: Record<EventColumnKind, string> = {
  ascii: 'String',
  text: 'String',
  int64: "DateTime64(3, 'UTC')",
  uint16: 'UInt16',
  nullableInt64: 'Nullable(Int64)',
  outcome: `Enum8(${OUTCOMES.join(', ')})`,
};
const RETENTION = { retentionDays: 365 };
/** Held for longer than a machine stands still: who holds it is alive, and must not lose it to the others. */
const FAST = { heldMs: 60_000, renewMs: 100, pollMs: 20 };

t.test('on the engine', async (t) => {
  const { makeDatabase } = await startClickHouse(t);

  t.test('each file is applied once, however many processes start at once', async (t) => {
    const clickhouse = makeDatabase();
    const names = readMigrations().map((migration) => migration.name);
    const results = await Promise.all(
      Array.from({ length: 4 }, () => migrate(clickhouse, { ...RETENTION, lockTiming: FAST })),
    );
    t.same(results.flat().sort(), names, 'one of four did the work');
    t.same(await migrate(clickhouse, RETENTION), [], 'a second run finds nothing to do');
    const versions = await clickhouse.query<{ version: number }>(
      'SELECT version FROM migrations WHERE version > 0 ORDER BY version',
    );
    t.same(
      versions.map((row) => row.version),
      names.map((_, i) => i + 1),
    );
  });

  t.test('every TTL that a table has is that of the retention, before and after it changes', async (t) => {
    const clickhouse = makeDatabase();
    // As a version has left it whose tables had TTLs of their own.
    await migrate(clickhouse, { ...RETENTION, migrations: readMigrations().slice(0, 15) });
    const ttls = async () => {
      const tables = await clickhouse.query<{ name: string; sql: string }>(
        "SELECT name, create_table_query AS sql FROM system.tables WHERE database = currentDatabase() AND match(sql, ' TTL ')",
      );
      return tables.flatMap(({ name, sql }) =>
        [...sql.matchAll(/ TTL \(?(\w+) \+ toIntervalDay\((\d+)\)/g)].map(
          ([, column, days]) => `${name} ${column} ${days}`,
        ),
      );
    };
    const of = (days: number) => Array(3).fill(`audit_chain last_at ${days}`);
    t.same(await ttls(), of(365), 'rows are deleted by the pipelines, which know accounts and holds');
    await migrate(clickhouse, { retentionDays: 30 });
    t.same(await ttls(), of(30));
    t.same(await migrate(clickhouse, { retentionDays: 30 }), []);
  });

  t.test('a newer database and a changed file are refused', async (t) => {
    const clickhouse = makeDatabase();
    const first: Migration = {
      version: 1,
      name: '001_first',
      text: 'CREATE TABLE IF NOT EXISTS {{database}}.a (n UInt8) ENGINE = {{engine:MergeTree}} ORDER BY n;',
    };
    const second: Migration = {
      version: 2,
      name: '002_second',
      text: 'CREATE TABLE IF NOT EXISTS {{database}}.b (n UInt8) ENGINE = {{engine:MergeTree}} ORDER BY n;',
    };
    t.same(await migrate(clickhouse, { ...RETENTION, migrations: [first] }), ['001_first']);
    t.same(await migrate(clickhouse, { ...RETENTION, migrations: [first, second] }), ['002_second']);
    const older = migrate(clickhouse, { ...RETENTION, migrations: [first] });
    await t.rejects(
      older,
      new MigrationError(
        'the database is newer: it has migration 002_second, this program knows 1; start a newer Gatehouse',
      ),
    );
    const changed = migrate(clickhouse, { ...RETENTION, migrations: [{ ...first, text: `${first.text}\n` }, second] });
    await t.rejects(changed, {
      name: 'MigrationError',
      message: /001_first\.sql is not the file that the database was made with/,
    });
  });

  t.test('the lock of a dead process frees itself, a living one keeps it', async (t) => {
    const clickhouse = makeDatabase();
    const nothing: Migration[] = [];
    await migrate(clickhouse, { ...RETENTION, migrations: nothing });
    const hold = async (ms: number) => {
      const [row] = await clickhouse.query<{ newest: string; now: number }>(
        "SELECT max(name) AS newest, toUnixTimestamp64Milli(now64(3)) AS now FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'migration_lock_')",
      );
      await clickhouse.command(`ALTER TABLE ${row!.newest} MODIFY COMMENT 'somebody ${row!.now + ms}'`);
    };
    const started = performance.now();
    await hold(700);
    const one: Migration = {
      version: 1,
      name: '001_slow',
      text: 'CREATE TABLE IF NOT EXISTS {{database}}.a (n UInt8) ENGINE = {{engine:MergeTree}} ORDER BY n;',
    };
    t.same(await migrate(clickhouse, { ...RETENTION, migrations: [one], lockTiming: FAST }), ['001_slow']);
    const tookMs = performance.now() - started;
    t.ok(tookMs >= 690, `it waited until the lock had run out: ${tookMs.toFixed(0)} ms`);
    const locks = await clickhouse.query(
      "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'migration_lock_')",
    );
    t.equal(locks.length, 1, 'locks do not pile up');
  });

  t.test('a statement that fails is tried again by the next start', async (t) => {
    const clickhouse = makeDatabase();
    const broken: Migration = {
      version: 1,
      name: '001_broken',
      text: 'CREATE TABLE IF NOT EXISTS {{database}}.a (n Nonsense) ENGINE = {{engine:MergeTree}} ORDER BY n;',
    };
    await t.rejects(migrate(clickhouse, { ...RETENTION, migrations: [broken] }), ClickHouseError);
    const mended = { ...broken, text: broken.text.replace('Nonsense', 'UInt8') };
    t.same(await migrate(clickhouse, { ...RETENTION, migrations: [mended], lockTiming: FAST }), ['001_broken']);
  });

  t.test(
    'the events table has the columns of a row, in their order, each of its type and with a comment',
    async (t) => {
      const clickhouse = makeDatabase();
      await migrate(clickhouse, RETENTION);
      const columns = await clickhouse.query<{
        table: string;
        name: string;
        type: string;
        comment: string;
        kind: string;
      }>(
        "SELECT table, name, type, comment, default_kind AS kind FROM system.columns WHERE database = currentDatabase() AND table NOT LIKE 'migration_lock%' ORDER BY table, position",
      );
      const given = columns
        .filter((column) => column.table === 'events' && column.kind === '')
        .map(({ name, type }) => [name, type.replace(/^LowCardinality\((.*)\)$/, '$1')]);
      t.same(
        given,
        // Beside the row that the audit chain knows.
        [
          ...EVENT_COLUMNS.map(({ name, kind }) => [name, TYPES[kind]]),
          ...[
            ['words', 'String'],
            ['shadow', 'String'],
            ['cost', 'Nullable(Int64)'],
            ['priced_by', 'String'],
            ['settled', 'String'],
          ],
        ],
      );
      t.same(
        columns.filter((column) => column.comment === ''),
        [],
        'no column without a comment',
      );
    },
  );
});

t.test('with a cluster every table is replicated and made on all its nodes', async (t) => {
  const options = { database: 'gatehouse', cluster: 'main', retentionDays: 90 };
  for (const { name, text } of readMigrations()) {
    const statements = splitStatements(renderSql(text, options));
    t.ok(statements.length > 0, name);
    for (const statement of statements) {
      t.match(
        statement,
        /^(CREATE TABLE IF NOT EXISTS gatehouse\.\w+ ON CLUSTER 'main'\s|ALTER TABLE gatehouse\.\w+ ON CLUSTER 'main'\s+(ADD (COLUMN|INDEX|PROJECTION) IF NOT EXISTS|DROP PROJECTION IF EXISTS|MATERIALIZE PROJECTION)\s)/,
        `${name}: idempotent, on the cluster`,
      );
      t.notMatch(statement, /non_replicated|\{\{|\}\}/);
      if (statement.startsWith('ALTER')) continue;
      t.match(
        statement,
        /ENGINE = Replicated\w*MergeTree\('\/clickhouse\/tables\/\{shard\}\/\{database\}\/\{table\}', '\{replica\}'/,
      );
      t.match(statement, /replicated_deduplication_window = \d+/);
    }
  }
  t.equal(
    renderSql('{{engine:ReplacingMergeTree:revision}}', { ...options, cluster: undefined }),
    'ReplacingMergeTree(revision)',
  );
  t.throws(() => renderSql('{{nonsense}}', options), /unknown placeholder/);
  t.same(splitStatements("-- a; b\nSELECT ';' ;\nSELECT 2;"), ["SELECT ';'", 'SELECT 2']);
});

t.test("the search's predicate is the expression of its index, to the letter", async (t) => {
  const { text } = readMigrations().find(({ name }) => name === '001_events')!;
  t.ok(text.includes(`INDEX search_words ${SEARCH_TOKENS} TYPE text`), 'else the index would never be used');
});
