// Exports against the whole service, on both HTTP servers: the rows of the list and no others, whatever becomes of the
// client.
import { createHash } from 'node:crypto';
import http from 'node:http';
import t, { type Test } from 'tap';
import { LASTING_OF_ACCOUNT_MAX } from '../../src/common/limits.ts';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService, type TestService } from '../support/service.ts';

const EVENTS = 2_600;
/** Tokens that a parser would change, and cells that a spreadsheet would run. */
const PAYLOAD =
  '{"n":1.0,"big":12345678901234567890,"huge":1e400,"b":1,"a":2,"text":"a \\"quoted\\", line\\r\\nand more"}';

for (const server of ['uws', 'node']) {
  t.test(`by the HTTP server ${server}`, async (t) => {
    const service = await startService(t, {
      env: { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_METRICS_ACCOUNTS_MAX: '1' },
    });
    const api = new Api(t, service);
    const agent = (await api.post('/v1/agents', { name: '=1+1' })).json.id as string;
    await api.post('/v1/alerts', { name: '@sum', trigger: 'agent_down', channel: 'email', target: 'a@example.com' });
    for (let sent = 0; sent < EVENTS; sent += 100) {
      const one = `{"type":"custom","trace_id":"=cmd","payload":${PAYLOAD}}`;
      await api.post(`/v1/agents/${agent}/events/batch`, `[${Array(100).fill(one).join(',')}]`);
    }
    await api.get(`/v1/agents/${agent}/events?limit=1`);
    await rowsOfTheList(t, api);
    await asCsv(t, api, service);
    await goneOnWith(t, api);
    await lefts(t, api, service);
    await mistakes(t, api);
  });
}

async function rowsOfTheList(t: Test, api: Api): Promise<void> {
  for (const list of ['events', 'audit-logs', 'anomalies', 'deliveries']) {
    const items: string[] = [];
    for (let cursor = ''; ; ) {
      const { text, json } = await api.get(`/v1/${list}?limit=500${cursor}`);
      items.push(text.slice(text.indexOf('[') + 1, text.lastIndexOf('],"total"')));
      if (json.next_cursor === null) break;
      cursor = `&cursor=${json.next_cursor}`;
    }
    const { text, headers } = await api.get(`/v1/${list}/export`);
    const lines = text === '' ? [] : text.trimEnd().split('\n');
    t.equal(headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
    t.match(headers.get('content-disposition'), /^attachment; filename="[a-z-]+\.ndjson"$/);
    if (list === 'events') t.equal(lines.length, EVENTS);
    t.equal(digest(lines.join(',')), digest(items.filter((some) => some !== '').join(',')), `${list}: byte for byte`);
  }
  const { text } = await api.get('/v1/events/export?type=prompt');
  t.equal(text, '', 'nothing fits: nothing comes, and it ends soundly');
}

async function asCsv(t: Test, api: Api, service: TestService): Promise<void> {
  const { text, headers } = await api.get('/v1/events/export?format=csv');
  t.equal(headers.get('content-type'), 'text/csv; charset=utf-8');
  const [header, ...rows] = cellsOf(text);
  t.equal(rows.length, EVENTS);
  for (const [list, query] of [
    ['events', 'type=prompt'],
    ['audit-logs', ''],
    ['anomalies', ''],
    ['deliveries', ''],
  ]) {
    const { body } = await fetch(`${api.url}/v1/${list}/export?format=csv&${query}`, {
      headers: { authorization: `Bearer ${service.key}` },
    });
    let head = Buffer.alloc(0);
    for await (const part of body!) {
      head = Buffer.concat([head, part]);
      if (head.length > 6) break;
    }
    t.equal(head.subarray(0, 5).toString('hex'), 'efbbbf6964', `${list}: spreadsheets are told that it is UTF-8`);
  }
  const at = (name: string) => rows[0]![header!.indexOf(name)];
  t.equal(at('payload'), PAYLOAD, 'token by token');
  t.equal(at('trace_id'), "'=cmd", 'no formula');
  t.ok(rows.every((row) => row.length === header!.length));
  const agents = await api.get('/v1/audit-logs/export?format=csv&action=agent.registered');
  t.match(agents.text, /^id,created_at,action,actor,resource_type,resource_id,details\r\nlog_/);
}

async function goneOnWith(t: Test, api: Api): Promise<void> {
  const whole = (await api.get('/v1/events/export?cursors=true')).text.trimEnd().split('\n');
  const half = JSON.parse(whole[1_500]!) as { cursor: string };
  const rest = (await api.get(`/v1/events/export?cursors=true&cursor=${half.cursor}`)).text.trimEnd().split('\n');
  const idsOf = (lines: string[]) => lines.map((line) => /"item":\{"id":"([^"]+)"/.exec(line)![1]);
  t.same(idsOf(rest), idsOf(whole.slice(1_501)), 'behind the last row that arrived');
  const csv = cellsOf((await api.get('/v1/events/export?format=csv&cursors=true')).text);
  const cursor = csv[2_100]![csv[0]!.indexOf('cursor')]!;
  t.equal(cellsOf((await api.get(`/v1/events/export?format=csv&cursor=${cursor}`)).text).length, EVENTS - 2_100 + 1);
}

async function lefts(t: Test, api: Api, service: TestService): Promise<void> {
  const open = () =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${service.key}` };
      http.get(`${service.url}/v1/stream?topics=events`, { headers, agent: false }, resolve).on('error', reject);
    });
  const bodies = await Promise.all(Array.from({ length: LASTING_OF_ACCOUNT_MAX }, open));
  for (const body of bodies) body.on('error', () => undefined).resume();
  t.same(
    bodies.map(({ statusCode }) => statusCode),
    bodies.map(() => 200),
  );
  const refused = await open();
  t.equal(refused.statusCode, 503, 'one more than the account may have');
  t.ok(Number(refused.headers['retry-after']) > 0);
  t.equal((await api.get('/v1/events/export?type=prompt')).status, 200, 'exports have places of their own');
  for (const body of bodies) body.destroy();
  const left = performance.now();
  let again = refused;
  while (again.statusCode === 503 && performance.now() - left < 30_000) {
    await pause(20);
    again = await open();
    again.on('error', () => undefined).resume();
  }
  again.destroy();
  t.equal(again.statusCode, 200, 'what they held is free again');
  t.comment(`${(performance.now() - left).toFixed(0)} ms after they left`);
}

async function mistakes(t: Test, api: Api): Promise<void> {
  const other = (await api.get('/v1/events/export?cursors=true&type=custom')).text.slice(0, 400);
  const cursor = /"cursor":"([^"]+)"/.exec(other)![1];
  for (const [query = '', path] of [
    ['format=xlsx', 'format'],
    ['cursor=abc', 'cursor'],
    [`cursor=${cursor}`, 'cursor'],
    ['limit=5', 'limit'],
    ['from=yesterday', 'from'],
  ]) {
    const { status, json } = await api.get(`/v1/events/export?${query}`);
    t.match({ status, json }, { status: 400, json: { error: { details: [{ path }] } } }, query);
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** As RFC 4180 reads it. */
function cellsOf(csv: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  for (let found = cell.exec(csv); found !== null; found = cell.exec(csv)) {
    row.push(found[1] === undefined ? found[2]! : found[1].replaceAll('""', '"'));
    if (found[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}
