// The embedded engine over HTTP, as @clickhouse/client and curl see it: answers, errors, inserts, isolation of
// requests, kills.
import http from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClickHouseLogLevel, createClient, ClickHouseError as ServerError } from '@clickhouse/client';
import t, { type Test } from 'tap';
import { ClickHouse, ClickHouseError } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { concurrentDuplicates } from '../../clickhouse/queries/concurrent-duplicates.ts';
import { existingIds } from '../../clickhouse/queries/existing-ids.ts';
import { insertLost } from '../../pipelines/store/verify-insert.ts';
import type { SummarizedRow } from '../../schemas/entry.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { type EngineProcess, encodeStored, forkEngine, plainEvent, type TestEvent } from '../support/clickhouse.ts';
import { folderOf } from '../support/folder.ts';

const RETENTION = { retentionDays: 365 };

async function ownEngine(t: Test, options = {}): Promise<EngineProcess> {
  const engine = await forkEngine({ path: path.join(folderOf(t), 'data'), port: 0, ...options });
  t.teardown(() => engine.stop('SIGTERM'));
  return engine;
}

function plainClient(t: Test, url: string, more = {}) {
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF }, ...more });
  t.teardown(() => client.close());
  return client;
}

const eventAt = (ms: number, payload = '{}'): TestEvent =>
  plainEvent({
    account_id: 'acc_00000000000000000000000000',
    agent_id: 'agt_00000000000000000000000000',
    received_at: ms,
    payload,
    request_id: 'r',
  });

t.test('the ordinary client works with the embedded engine as with a server', async (t) => {
  const { url } = await ownEngine(t);
  const client = plainClient(t, url);
  t.equal((await client.ping()).success, true);
  t.equal((await client.ping({ select: true })).success, true);

  const params = {
    text: `it's "quoted" \\ back\tslash\nline 🎉 ; DROP TABLE x --`,
    when: new Date(1_700_000_000_123),
    list: ["o'ne", 'zwölf'],
    nothing: null,
  };
  const bound = await client.query({
    query: `SELECT {text:String} AS text, toUnixTimestamp64Milli({when:DateTime64(3)}) AS ms, {list:Array(String)} AS list, {nothing:Nullable(String)} AS nothing`,
    query_params: params,
    format: 'JSONEachRow',
  });
  t.same(await bound.json(), [{ text: params.text, ms: 1_700_000_000_123, list: params.list, nothing: null }]);

  const ids = Array.from({ length: 20_000 }, (_, i) => `evt_${String(i).padStart(26, '0')}`);
  const many = plainClient(t, url, { use_multipart_params_auto: true });
  const counted = await many.query({
    query: 'SELECT length({ids:Array(String)}) AS n',
    query_params: { ids },
    format: 'JSONEachRow',
  });
  t.same(await counted.json(), [{ n: 20_000 }], 'parameters too long for an address arrive as multipart');

  await client.command({ query: 'CREATE DATABASE proto ENGINE = Atomic' });
  const table = plainClient(t, url, { database: 'proto', compression: { request: true, response: true } });
  await table.command({ query: 'CREATE TABLE t (n Int64, s String) ENGINE = MergeTree ORDER BY n' });
  const values = Array.from({ length: 1000 }, (_, n) => ({ n, s: `row ${n} ü` }));
  const inserted = await table.insert({ table: 't', values, format: 'JSONEachRow', columns: ['n', 's'] });
  t.equal(inserted.summary?.written_rows, '1000');
  const read = await table.query({ query: 'SELECT * FROM t ORDER BY n', format: 'JSON' });
  t.same((await read.json<{ n: number; s: string }>()).data, values, 'gzip both ways, JSON with its envelope');
  const counting = 'SELECT countIf(n < 7) AS n FROM t';
  const told = (await table.exec({ query: `${counting} FORMAT JSON` })).summary;
  t.match(told, { read_rows: '1000', result_rows: '1' }, 'what was read, not what was answered');
  const silent = (await table.exec({ query: `${counting} FORMAT JSONEachRow` })).summary;
  t.equal(silent?.read_rows, undefined, 'where chdb gives no figure, none is shown');
  const csv = await table.query({ query: 'SELECT n FROM t WHERE n < 2 ORDER BY n', format: 'CSVWithNames' });
  t.equal(await csv.text(), '"n"\n0\n1\n');

  await t.rejects(client.query({ query: 'SELECT * FROM nowhere' }), { code: '60', type: 'UNKNOWN_TABLE' });
  await t.rejects(client.query({ query: 'SELEC 1' }), { code: '62' });
  const error = await client.query({ query: 'SELECT throwIf(number = 5) FROM numbers(10)' }).catch((e: unknown) => e);
  t.ok(error instanceof ServerError, 'an error is the real ClickHouseError');
});

t.test('plain HTTP works, and what does not belong here is refused', async (t) => {
  const { url } = await ownEngine(t);
  const get = async (query: string, init?: RequestInit) => {
    const answer = await fetch(`${url}${query}`, init);
    return {
      status: answer.status,
      code: answer.headers.get('x-clickhouse-exception-code'),
      text: await answer.text(),
    };
  };
  t.same(await get('/?query=SELECT+1'), { status: 200, code: null, text: '1\n' });
  t.same(await get('/ping'), { status: 200, code: null, text: 'Ok.\n' });
  t.match(await get('/', { method: 'POST', body: "SELECT 'post' FORMAT JSONEachRow" }), {
    status: 200,
    text: /"post"/,
  });
  t.match(await get('/?query=CREATE+DATABASE+x'), { code: '164' }, 'GET only reads');
  t.match(await get('/elsewhere'), { status: 404 });
  t.match(await get('/'), { status: 400, text: /Empty query/ });
  t.match(await get('/?query=SELECT+1', { method: 'DELETE' }), { status: 405 });
  t.match(
    await get("/?query=SELECT+1&max_threads%3D1%3B+DROP='1'"),
    { status: 400, code: '115' },
    'a setting is a name',
  );
  t.match(await get('/?query=SELECT+1&no_such_setting=1'), { code: '115' });
  t.match(await get('/?query=SELECT+1&database=nowhere'), { code: '81' });
  t.match(
    await get('/?query=SELECT+1', { headers: { origin: 'https://evil.example' } }),
    { status: 403 },
    'no web page',
  );
  t.match(
    await get('/', { method: 'POST', body: 'x', headers: { 'content-encoding': 'br' } }),
    { status: 400 },
    'an encoding that is not spoken',
  );
});

t.test('settings and parameters of one request never reach another', async (t) => {
  const { url } = await ownEngine(t);
  const client = plainClient(t, url);
  const threads = async (settings = {}) => {
    const result = await client.query({
      query: "SELECT toUInt32(getSetting('max_threads')) AS n",
      format: 'JSONEachRow',
      clickhouse_settings: settings,
    });
    return (await result.json<{ n: number }>())[0]!.n;
  };
  const before = await threads();
  t.equal(await threads({ max_threads: 7 }), 7);
  t.equal(await threads({ readonly: '1' }), before);
  t.equal(await threads(), before, 'nothing stayed');

  let wrong = 0;
  await Promise.all(
    Array.from({ length: 8 }, async (_, worker) => {
      for (let i = 0; i < 40; i++) {
        const x = `${worker}-${i}`;
        const result = await client.query({
          query: 'SELECT {x:String} AS x',
          query_params: { x },
          format: 'JSONEachRow',
        });
        if ((await result.json<{ x: string }>())[0]!.x !== x) wrong++;
      }
    }),
  );
  t.equal(wrong, 0, '320 concurrent parametrised queries, each with its own answer');

  const session = plainClient(t, url, { session_id: 's1', max_open_connections: 1 });
  await session.command({ query: 'CREATE TEMPORARY TABLE kept (n UInt8)' });
  await session.command({ query: 'INSERT INTO kept VALUES (42)', clickhouse_settings: { max_threads: 3 } });
  const kept = await session.query({
    query: "SELECT n, toUInt32(getSetting('max_threads')) AS m FROM kept",
    format: 'JSONEachRow',
  });
  t.same(
    await kept.json(),
    [{ n: 42, m: before }],
    'a session_id keeps its temporary table, not the settings of a request',
  );
  await t.rejects(client.query({ query: 'SELECT * FROM kept' }), { code: '60' }, 'no other session sees it');
  const answer = await fetch(`${url}/?query=SELECT+1&session_id=unknown&session_check=1`);
  t.equal(answer.headers.get('x-clickhouse-exception-code'), '372');
  t.equal(await (await fetch(`${url}/?query=SELECT+1&session_id=brief&session_timeout=1`)).text(), '1\n');
  await sleep(1300);
  const expired = await fetch(`${url}/?query=SELECT+1&session_id=brief&session_check=1`);
  t.equal(expired.headers.get('x-clickhouse-exception-code'), '372', 'a session expires');
});

t.test('event rows go in as RowBinary, once per token, all or none', async (t) => {
  const { url } = await ownEngine(t);
  const clickhouse = new ClickHouse({ url, database: 'rows', queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  await migrate(clickhouse, RETENTION);
  const now = Date.now();
  const payload = JSON.stringify({ prompt: `a\0b\n"ü" 🎉`, response: 'x'.repeat(70_000) });
  const events = [
    eventAt(now, payload),
    { ...eventAt(now), outcome: 'pending' as const, tokens_used: 9_007_199_254_740_991, token_count: 0 },
  ];
  for (let i = 0; i < 3; i++) await clickhouse.insertEvents(events.map(encodeStored), 'token-1');
  const rows = await clickhouse.query<Record<string, unknown>>(
    'SELECT id, payload, prompt, outcome, tokens_used, token_count, toUnixTimestamp64Milli(received_at) AS ms FROM events ORDER BY outcome',
  );
  t.same(rows, [
    {
      id: events[0]!.id,
      payload,
      prompt: 'a\0b\n"ü" 🎉',
      outcome: 'allowed',
      tokens_used: null,
      token_count: null,
      ms: now,
    },
    {
      id: events[1]!.id,
      payload: '{}',
      prompt: '',
      outcome: 'pending',
      tokens_used: 9_007_199_254_740_991,
      token_count: 0,
      ms: now,
    },
  ]);

  const cut = Buffer.concat(events.map(encodeStored)).subarray(0, -3);
  const error = await clickhouse.insertEvents([cut], 'token-2').catch((e: unknown) => e);
  t.ok(error instanceof ClickHouseError);
  t.match(error, { canRetry: false }, 'rows that do not fit are a data error');
  t.same(await clickhouse.query('SELECT count() AS n FROM events'), [{ n: 2 }], 'and none of them is there');
  await clickhouse.insertRows('anomalies', []);
  const misfit = await clickhouse.insertRows('anomalies', [{ severity: 'terrible' }]).catch((e: unknown) => e);
  t.match(misfit, { canRetry: false });
  const tableless = await clickhouse.insertRows('no_such_table', [{ a: 1 }]).catch((e: unknown) => e);
  t.match(tableless, { canRetry: true, code: 60 });

  const large = Array.from({ length: 100_000 }, () =>
    encodeStored(eventAt(now, '{"filler":"some three hundred bytes would do"}')),
  );
  await clickhouse.insertEvents(large, 'token-3');
  await clickhouse.insertEvents(large, 'token-3');
  t.same(await clickhouse.query('SELECT count() AS n FROM events'), [{ n: 100_002 }]);
  t.same(
    await clickhouse.query(
      "SELECT max(rows) AS n FROM system.parts WHERE database = 'rows' AND table = 'events' AND level = 0",
    ),
    [{ n: 100_000 }],
    'one insert is one part',
  );
});

t.test('an insert whose body is cut off is not run', async (t) => {
  const { url, port } = await ownEngine(t);
  const client = plainClient(t, url);
  await client.command({ query: 'CREATE DATABASE cut ENGINE = Atomic' });
  await client.command({ query: 'CREATE TABLE cut.t (n UInt32) ENGINE = MergeTree ORDER BY n' });
  const request = http.request({ port, method: 'POST', path: '/?query=INSERT+INTO+cut.t+FORMAT+TSV' });
  request.on('error', () => {});
  request.write('1\n2\n');
  await sleep(100);
  request.destroy();
  await sleep(200);
  const counted = await client.query({ query: 'SELECT count() AS n FROM cut.t', format: 'JSONEachRow' });
  t.same(await counted.json(), [{ n: 0 }]);
});

t.test('a reader that goes away has its query killed; a slow query is stopped; a full queue is refused', async (t) => {
  const { url } = await ownEngine(t, { readers: 2, queueMax: 2, timeoutSeconds: 2 });
  const client = plainClient(t, url, { max_open_connections: 20 });
  const endless = 'SELECT sum(sipHash64(number)) FROM numbers(1000000000000)';
  const gone = new AbortController();
  const aborted = client.query({
    query: endless,
    abort_signal: gone.signal,
    clickhouse_settings: { max_execution_time: 60 },
  });
  await sleep(200);
  gone.abort();
  await t.rejects(aborted);
  const waitUntilIdle = async () => {
    for (let i = 0; i < 600; i++) {
      if ((await running(client).catch(() => 0)) === 1) return true;
      await sleep(100);
    }
    return false;
  };
  t.equal(await waitUntilIdle(), true, 'the engine computes nothing without a client');

  const started = performance.now();
  await t.rejects(client.query({ query: endless }), { code: '159' });
  const tookMs = performance.now() - started;
  t.ok(tookMs < 60_000, `the default limit of 2 s holds: ${tookMs.toFixed(0)} ms`);

  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => client.query({ query: endless })));
  const codes = outcomes.map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as ServerError).code : 'none',
  );
  t.equal(codes.filter((code) => code === '202').length, 2, 'two run, two wait, two are refused at once');
  t.equal(codes.filter((code) => code === '159').length, 4);
  t.equal(await waitUntilIdle(), true);
});

/** Rows as the store pipeline has them, as far as an insert and its verification read them. */
function batchOf(count: number, payload: string): SummarizedRow[] {
  return Array.from({ length: count }, () => {
    const event = eventAt(Date.now(), payload);
    return { summary: { id: event.id }, bytes: encodeStored(event) } as SummarizedRow;
  });
}

/**
 * Inserts until it is answered; an answer after a try without one is verified, for the engine may know a token without
 * its rows.
 */
async function insertAnyhow(clickhouse: ClickHouse, rows: readonly SummarizedRow[], tokenPrefix: string) {
  const insert = (some: readonly SummarizedRow[], token: string) =>
    clickhouse.insertEvents(
      some.map((row) => row.bytes),
      token,
    );
  const outcome = { tries: 0, lost: 0 };
  for (;;) {
    try {
      await insert(rows, tokenPrefix);
      if (++outcome.tries === 1) return outcome;
      await insertLost(rows, {
        tokenPrefix,
        existing: (some) =>
          existingIds(
            clickhouse,
            some.map((row) => row.summary.id),
          ),
        duplicates: (prefix) => concurrentDuplicates(clickhouse, prefix),
        insert: (some, token) => insert(some, token).then(() => []),
        lost: (count) => {
          outcome.lost += count;
        },
      });
      return outcome;
    } catch (error) {
      if (!(error as ClickHouseError).canRetry) throw error;
      outcome.tries++;
      await sleep(20);
    }
  }
}

/** Queries that run, this one among them. */
async function running(client: ReturnType<typeof plainClient>): Promise<number> {
  const answer = await client.query({ query: 'SELECT count() AS n FROM system.processes', format: 'JSONEachRow' });
  return (await answer.json<{ n: number }>())[0]!.n;
}

t.test('killed in the middle of inserts, the engine has every verified batch once and no torn one', async (t) => {
  const folder = path.join(folderOf(t), 'data');
  let engine = await forkEngine({ path: folder, port: await freePort() });
  const options = { port: engine.port, path: folder };
  t.teardown(() => engine.stop('SIGKILL'));
  const clickhouse = new ClickHouse({ url: engine.url, database: 'crash', queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  await migrate(clickhouse, RETENTION);
  const ROWS = 500;
  let batches = 0;
  let interrupted = 0;
  const lost: number[] = [];
  let stop = false;
  const write = async () => {
    while (!stop) {
      const number = batches++;
      const outcome = await insertAnyhow(clickhouse, batchOf(ROWS, `{"batch":${number}}`), `batch-${number}:`);
      if (outcome.tries > 1) interrupted++;
      if (outcome.lost > 0) lost.push(outcome.lost);
    }
  };
  const writers = [write(), write()];
  for (let kill = 0; kill < 4; kill++) {
    await sleep(400 + kill * 37);
    // Each kill meets batches that were not met before, also where an insert takes long.
    for (const before = batches; batches < before + 3; ) await sleep(20);
    await engine.stop('SIGKILL');
    engine = await forkEngine(options);
  }
  await sleep(300);
  stop = true;
  await Promise.all(writers);
  t.ok(interrupted >= 4, `4 kills hit ${interrupted} inserts in flight`);
  t.same(
    await clickhouse.query(
      "SELECT uniqExact(n) AS batches, min(rows) AS least, max(rows) AS most FROM (SELECT JSONExtractInt(payload, 'batch') AS n, count() AS rows FROM events GROUP BY n)",
    ),
    [{ batches, least: ROWS, most: ROWS }],
  );
  t.strictSame(
    lost.filter((rows) => rows % ROWS !== 0),
    [],
    `of ${batches} batches ${interrupted} were sent again; ${lost.length} had left a token without rows, never some of them`,
  );
});

t.test('SIGTERM lets what runs finish', async (t) => {
  const engine = await ownEngine(t);
  const client = plainClient(t, engine.url);
  const slow = client.query({ query: 'SELECT sleep(3) AS zero', format: 'JSONEachRow' });
  const other = plainClient(t, engine.url);
  for (let i = 0; i < 600 && (await running(other)) < 2; i++) await sleep(20);
  const stopped = engine.stop('SIGTERM');
  t.same(await (await slow).json(), [{ zero: 0 }]);
  t.equal(await stopped, 0);
});
