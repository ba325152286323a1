// The integrity gate of the embedded engine: a directory that is damaged, foreign, newer or in use is refused by name
// of the reason.
import { once } from 'node:events';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { DataDirectory } from '../../src/chdb-server/data-directory.ts';
import { parsePartName } from '../../src/chdb-server/part-name.ts';
import { EngineRefused, forkEngine } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';

const MARKER = 'gatehouse-clickhouse.json';

/** A directory with one table of two parts, stopped cleanly or killed. */
async function filled(folder: string, stop: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const engine = await forkEngine({ path: folder, port: 0 });
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command('CREATE DATABASE kept ENGINE = Atomic');
  await clickhouse.command('CREATE TABLE kept.t (n UInt32, s String) ENGINE = MergeTree ORDER BY n');
  await clickhouse.command('CREATE TABLE kept.u (n UInt32) ENGINE = MergeTree ORDER BY n');
  await clickhouse.command('SYSTEM STOP MERGES');
  for (let i = 0; i < 2; i++)
    await clickhouse.insertRows(
      'kept.t',
      Array.from({ length: 1000 }, (_, n) => ({ n, s: `row ${n}` })),
    );
  await clickhouse.close();
  await engine.stop(stop);
}

async function startOn(folder: string): Promise<{ rows: number } | { code: number | null; said: string }> {
  try {
    const engine = await forkEngine({ path: folder, port: 0 });
    const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
    const rows = await clickhouse.query<{ n: number }>('SELECT count() AS n FROM kept.t').catch(() => [{ n: -1 }]);
    await clickhouse.close();
    await engine.stop('SIGTERM');
    return { rows: rows[0]!.n };
  } catch (error) {
    if (!(error instanceof EngineRefused)) throw error;
    return { code: error.code, said: error.message };
  }
}

/** The folder of a part of kept.t, and the metadata of its database. */
function find(folder: string, name: RegExp): string {
  const found = readdirSync(path.join(folder, 'engine'), { recursive: true, encoding: 'utf8' }).find((file) =>
    name.test(file),
  );
  if (found === undefined) throw new Error(`no ${name} below ${folder}`);
  return path.join(folder, 'engine', found);
}

t.test('every damage is refused by name, and an undamaged directory is served whole', async (t) => {
  const base = path.join(folderOf(t), 'base');
  await filled(base, 'SIGTERM');
  const edit = (folder: string, change: (marker: Record<string, unknown>) => void) => {
    const file = path.join(folder, MARKER);
    const marker = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
    change(marker);
    writeFileSync(file, JSON.stringify(marker));
  };
  const damages: [string, (folder: string) => void, RegExp | null][] = [
    ['none', () => {}, null],
    ['left over rows of a killed insert', (f) => writeFileSync(path.join(f, 'spool', 'rows-1'), 'x'), null],
    [
      'a part cut short',
      (f) => truncateSync(find(f, /all_2_2_0\/data\.bin$/), 50),
      /damaged: the engine set aside broken data, kept\.t/,
    ],
    [
      'a part gone',
      (f) => rmSync(find(f, /all_2_2_0$/), { recursive: true }),
      /damaged: data is missing, kept\.t\/all_2_2_0/,
    ],
    ['metadata of the database gone', (f) => rmSync(find(f, /metadata\/kept\.sql$/)), /damaged: table kept\.t/],
    ['metadata of a table gone', (f) => rmSync(find(f, /\/u\.sql$/)), /damaged: table kept\.u/],
    ['metadata of a table empty', (f) => truncateSync(find(f, /\/u\.sql$/), 0), /damaged/],
    [
      'the engine folder gone',
      (f) => rmSync(path.join(f, 'engine'), { recursive: true }),
      /damaged: its folder "engine" is missing/,
    ],
    ['the marker gone', (f) => rmSync(path.join(f, MARKER)), /foreign: it holds .*engine/],
    ['the marker unreadable', (f) => writeFileSync(path.join(f, MARKER), '{"pro'), /damaged: .* cannot be read/],
    [
      'a newer format',
      (f) =>
        edit(f, (m) => {
          m.format = 99;
        }),
      /newer: its format is 99/,
    ],
    [
      'a newer engine',
      (f) =>
        edit(f, (m) => {
          m.engine = '99.1.1.1';
        }),
      /newer: it was written by engine 99\.1\.1\.1/,
    ],
    [
      "somebody else's marker",
      (f) =>
        edit(f, (m) => {
          m.product = 'other';
        }),
      /foreign/,
    ],
  ];
  for (const [name, damage, refusal] of damages) {
    const folder = path.join(folderOf(t), 'data');
    cpSync(base, folder, { recursive: true, verbatimSymlinks: true });
    damage(folder);
    const result = await startOn(folder);
    if (refusal === null) t.same(result, { rows: 2000 }, name);
    else {
      t.match(result, { code: 3, said: refusal }, name);
    }
    if (refusal === null) t.same(readdirSync(path.join(folder, 'spool')), [], `${name}: nothing is left in the spool`);
  }
});

for (const stop of ['SIGKILL', 'SIGTERM'] as const) {
  t.test(`what a merge was writing is not missed where its sources are there, after ${stop}`, async (t) => {
    const folder = path.join(folderOf(t), 'data');
    await filled(folder, 'SIGTERM');
    const engine = await forkEngine({ path: folder, port: 0 });
    const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
    await clickhouse.command('OPTIMIZE TABLE kept.t FINAL');
    await clickhouse.close();
    await engine.stop(stop);
    const merged = find(folder, /all_1_2_1$/);
    for (const name of readdirSync(merged)) truncateSync(path.join(merged, name), 0);
    t.same(await startOn(folder), { rows: 2000 }, 'as a full disk leaves it: files without a byte');
    t.same(await startOn(folder), { rows: 2000 });
  });
}

t.test('a part of which every row was erased is whole, and not missed when it is dropped', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  const engine = await forkEngine({ path: folder, port: 0 });
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command('CREATE DATABASE kept ENGINE = Atomic');
  await clickhouse.command('CREATE TABLE kept.t (n UInt32) ENGINE = MergeTree ORDER BY n');
  for (const n of [1, 2, 3]) await clickhouse.insertRows('kept.t', [{ n }]);
  await clickhouse.command('DELETE FROM kept.t WHERE n > 1', {}, { lightweight_deletes_sync: '2' });
  await clickhouse.command('ALTER TABLE kept.t APPLY DELETED MASK', {}, { mutations_sync: '2' });
  await clickhouse.close();
  await engine.stop('SIGTERM');
  const parts = () => readdirSync(path.dirname(find(folder, /all_1_1_0$/))).filter((name) => name.startsWith('all_'));
  // What was replaced has left the disk, as it does after some minutes.
  const table = path.dirname(find(folder, /all_1_1_0$/));
  for (const name of parts().filter((part) => /^all_[23]/.test(part) && !part.endsWith('_5')))
    rmSync(path.join(table, name), { recursive: true });
  t.ok(parts().includes('all_2_2_0_5'), 'a part of no rows');
  t.equal(statSync(find(folder, /all_2_2_0_5\/data\.cmrk\d$/)).size, 0);
  t.same(await startOn(folder), { rows: 1 });
  t.same(readdirSync(path.join(table, 'detached')), [], 'nothing was set aside');
  rmSync(path.join(table, 'all_3_3_0_5'), { recursive: true, force: true });
  t.same(await startOn(folder), { rows: 1 }, 'the engine has dropped it');
});

t.test('a torn part with a damaged projection is not loaded as an empty one', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  const engine = await forkEngine({ path: folder, port: 0 });
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command('CREATE DATABASE kept ENGINE = Atomic');
  await clickhouse.command(
    'CREATE TABLE kept.t (n UInt32, PROJECTION by_half (SELECT intDiv(n, 2) AS half, count() GROUP BY half)) ENGINE = MergeTree ORDER BY n',
  );
  await clickhouse.command('SYSTEM STOP MERGES');
  for (const n of [1, 2, 3]) await clickhouse.insertRows('kept.t', [{ n }, { n: n + 10 }]);
  await clickhouse.command('SYSTEM START MERGES');
  await clickhouse.command('OPTIMIZE TABLE kept.t FINAL');
  await clickhouse.command('SYSTEM STOP MERGES');
  await clickhouse.insertRows('kept.t', [{ n: 4 }]);
  await clickhouse.close();
  await engine.stop('SIGKILL');
  for (const marks of [
    /all_1_3_1\/data\.cmrk\d$/,
    /all_1_3_1\/by_half\.proj\/data\.cmrk\d$/,
    /all_4_4_0\/data\.cmrk\d$/,
  ])
    truncateSync(find(folder, marks), 0);
  t.same(await startOn(folder), { rows: 6 }, 'the merged rows are in its sources; the insert was not answered');
  t.ok(find(folder, /detached\/ignored_all_4_4_0$/));
});

t.test('a number that a failed insert left unused between the sources of a torn merge is not missed', async (t) => {
  const folder = path.join(folderOf(t), 'base');
  const engine = await forkEngine({ path: folder, port: 0 });
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command('CREATE DATABASE kept');
  await clickhouse.command('CREATE TABLE kept.t (n UInt32) ENGINE = MergeTree ORDER BY n');
  await clickhouse.command('CREATE TABLE kept.u (n UInt32) ENGINE = MergeTree ORDER BY n');
  await clickhouse.command('CREATE TABLE kept.r (n UInt32) ENGINE = ReplacingMergeTree ORDER BY n');
  await clickhouse.command('SYSTEM STOP MERGES');
  for (let n = 1; n <= 3; n++) await clickhouse.insertRows('kept.t', [{ n }]);
  await clickhouse.command("ALTER TABLE kept.t DETACH PART 'all_2_2_0'");
  await clickhouse.command('SYSTEM START MERGES');
  await clickhouse.command('OPTIMIZE TABLE kept.t FINAL');
  await clickhouse.command('SYSTEM STOP MERGES');
  await clickhouse.insertRows('kept.r', [{ n: 1 }, { n: 1 }]);
  await clickhouse.close();
  await engine.stop('SIGKILL');
  for (const marks of [/\/all_1_3_\d\/data\.cmrk\d$/, /all_1_1_1\/data\.cmrk\d$/]) truncateSync(find(folder, marks), 0);
  t.match(await startOn(folder), { rows: 2 }, 'both sources are served');
  t.ok(find(folder, /detached\/ignored_all_1_1_1$/), 'an insert into a ReplacingMergeTree that was not answered');
});

t.test('a projection that a full disk left empty is left out by the next process', async (t) => {
  const folder = path.join(folderOf(t), 'base');
  const options = { path: folder, port: 0, damageAfterMs: 0 };
  const engine = await forkEngine(options);
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command(
    'CREATE TABLE t (n UInt32, PROJECTION by_half (SELECT intDiv(n, 2) AS half, count() GROUP BY half)) ENGINE = MergeTree ORDER BY n',
  );
  await clickhouse.insertRows(
    't',
    Array.from({ length: 1000 }, (_, n) => ({ n })),
  );
  const counted = 'SELECT intDiv(n, 2) AS half, count() AS rows FROM t GROUP BY half ORDER BY half LIMIT 1';
  truncateSync(find(folder, /by_half\.proj\/data\.cmrk\d$/), 0);
  await clickhouse.command('SYSTEM DROP MARK CACHE');
  await t.rejects(clickhouse.query(counted), /by_half\.proj/, 'the engine itself does not notice');
  t.equal(engine.child.exitCode ?? (await once(engine.child, 'exit'))[0], 1);
  await clickhouse.close();

  const next = await forkEngine(options);
  const again = new ClickHouse({ url: next.url, database: 'default', queryTimeoutSeconds: 60 });
  t.same(await again.query(counted), [{ half: 0, rows: '2' }]);
  t.same(await again.query('SELECT count() AS rows FROM t'), [{ rows: '1000' }]);
  await again.close();
  await next.stop('SIGTERM');
});

t.test('who decides to go on without what is damaged can', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  await filled(folder, 'SIGTERM');
  truncateSync(find(folder, /all_2_2_0\/data\.bin$/), 50);
  t.match(await startOn(folder), {
    code: 3,
    said: /no other part holds its rows\. Restore a backup, or .*doctor --repair/,
  });
  DataDirectory.open(folder).acceptDamage();
  t.same(await startOn(folder), { rows: 1000 });
  t.same(await startOn(folder), { rows: 1000 }, 'from then on');
  rmSync(find(folder, /all_1_1_0$/), { recursive: true });
  t.match(await startOn(folder), { code: 3, said: /data is missing, kept\.t\/all_1_1_0/ }, 'but for that alone');
});

t.test('after a kill the directory is served whole, and a dropped table is not missed', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  await filled(folder, 'SIGKILL');
  t.same(await startOn(folder), { rows: 2000 });
  const engine = await forkEngine({ path: folder, port: 0 });
  const clickhouse = new ClickHouse({ url: engine.url, database: 'default', queryTimeoutSeconds: 60 });
  await clickhouse.command('DROP TABLE kept.u SYNC');
  await clickhouse.close();
  await engine.stop('SIGKILL');
  t.same(await startOn(folder), { rows: 2000 });
});

t.test('a foreign directory and a second process are refused', async (t) => {
  const foreign = path.join(folderOf(t), 'foreign');
  mkdirSync(foreign);
  writeFileSync(path.join(foreign, 'thesis.doc'), 'x');
  t.match(await startOn(foreign), { code: 3, said: /foreign: it holds thesis\.doc/ });
  const file = path.join(folderOf(t), 'file');
  writeFileSync(file, '');
  t.match(await startOn(file), { code: 3, said: /cannot be used as a data directory/ });

  const folder = path.join(folderOf(t), 'data');
  const engine = await forkEngine({ path: folder, port: 0 });
  t.match(await startOn(folder), { code: 3, said: /in use by another process/ });
  await engine.stop('SIGKILL');
  t.match(await startOn(folder), { rows: -1 }, 'a killed process leaves no lock behind');
});

t.test('the name of a part gives its inserts, and what a mutation rewrote is no single insert', async (t) => {
  const range = { partition: '202611', first: 5, last: 5 };
  t.same(parsePartName('202611_5_5_0'), { ...range, isSingleInsert: true });
  t.same(parsePartName('202611_5_5_1'), { ...range, isSingleInsert: true }, 'as ReplacingMergeTree writes it');
  t.same(parsePartName('202611_5_5_2'), { ...range, isSingleInsert: false });
  t.same(parsePartName('202611_5_5_0_9'), { ...range, isSingleInsert: false });
  t.same(parsePartName('202611_1_21_2'), { partition: '202611', first: 1, last: 21, isSingleInsert: false });
  t.equal(parsePartName('detached'), undefined);
  t.equal(parsePartName('tmp_insert'), undefined);
});
