// Outgoing feeds to S3-compatible storage against the whole service: objects are put with a signature that fits what
// was sent, under names that sort as the feed goes; and while the storage refuses and breaks off, also behind what it
// has stored, and the pipelines are killed, no row is missing.
import t from 'tap';
import { signedForS3 } from '../../src/egress/sign-s3.ts';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { type Answering, type Received, startReceiver } from '../support/https-receiver.ts';
import { pause, until } from '../support/raw-http.ts';
import { killPipelines, startService } from '../support/service.ts';

const KEY_ID = 'AKIDEXAMPLE';
const SECRET = 'sesame/+:open';
const REGION = 'eu-central-1';
/** The objects that the storage has, by name. */
const objects = new Map<string, string>();
/** The same, as it came. */
const files = new Map<string, Buffer>();
const rejected: string[] = [];
const store: Answering = (request, response) => {
  const isSound = request.method === 'PUT' && isSigned(request);
  if (!isSound) rejected.push(request.path);
  if (isSound) objects.set(request.path, request.body);
  if (isSound) files.set(request.path, request.bytes);
  response.writeHead(isSound ? 200 : 403).end();
};
const receiver = await startReceiver(t, { answer: store });
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${receiver.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);
const place = `s3+https://localhost:${receiver.port}/bucket/gatehouse`;
const authorization = `${KEY_ID}:${SECRET}`;
const agent = (await api.post('/v1/agents', { name: 'fed' })).json.id as string;

/** As storage does: the headers that are said to be signed, and the body that came. */
function isSigned({ path, headers, bytes }: Received): boolean {
  const given = headers as Record<string, string>;
  const [, signed = ''] = /SignedHeaders=([^,]*),/.exec(given['authorization'] ?? '') ?? [];
  const own = signed.split(';').filter((name) => !/^x-amz-(date|content-sha256)$/.test(name));
  const time = (given['x-amz-date'] ?? '').replace(/^(....)(..)(..T..)(..)(..)Z$/, '$1-$2-$3:$4:$5Z');
  const request = {
    ...({ method: 'PUT', path, body: bytes, atMs: Date.parse(time) } as const),
    headers: Object.fromEntries(own.map((name) => [name, given[name]!])),
  };
  const wanted = signedForS3(request, { keyId: KEY_ID, secret: SECRET, region: REGION });
  return own.includes('host') && wanted['authorization'] === given['authorization'];
}

async function batch(text: string): Promise<string[]> {
  const events = Array.from({ length: 100 }, () => ({ type: 'prompt', payload: { text } }));
  const sent = await api.post(`/v1/agents/${agent}/events/batch`, events).catch(() => undefined);
  return (sent?.json?.results ?? []).map(({ id }: { id: string }) => id);
}
const make = async (body: object) => {
  const url = `${place}?region=${REGION}`;
  const { status, json } = await api.post('/v1/outgoing-feeds', { url, authorization, ...body });
  t.equal(status, 201);
  return json as { id: string; url: string };
};
/** Rows of a feed's objects, in the order of their names. */
const rowsOf = (id: string) =>
  [...objects.keys()]
    .filter((name) => name.startsWith(`/bucket/gatehouse/${id}/`))
    .sort()
    .flatMap((name) => objects.get(name)!.trimEnd().split('\n'))
    .map((line) => JSON.parse(line) as { topic: string; data: { id: string; action?: string; resource_id?: string } });
const idsOf = (id: string, topic: string) => rowsOf(id).flatMap((row) => (row.topic === topic ? [row.data.id] : []));

t.test('a batch is an object of lines, signed, and no key leaves', async (t) => {
  const feed = await make({ name: 'lake', topics: ['events', 'audit_log'] });
  t.equal(feed.url, `${place}?…`);
  const ids = await batch('grüße\n\u2028 x');
  await until(() => ids.every((id) => idsOf(feed.id, 'events').includes(id)));
  const names = [...objects.keys()].filter((name) => name.includes(feed.id));
  const today = new Date().toISOString().slice(0, 10);
  for (const name of names)
    t.match(name.split(feed.id)[1], /^\/\d{4}-\d\d-\d\d\/\d{16}-[0-9a-f]{24}\.ndjson$/, `${name} (${today})`);
  t.same(rejected, [], 'each signature fits what came');
  const put = receiver.received.find(({ path }) => names.includes(path))!;
  t.match(put.headers, { 'content-type': 'application/x-ndjson', 'x-amz-content-sha256': /^[0-9a-f]{64}$/ });
  const shown = [(await api.get('/v1/outgoing-feeds')).text, (await api.get('/v1/audit-logs?limit=500')).text];
  for (const text of [...shown, await service.log()]) t.notMatch(text, /sesame/);
  await api.delete(`/v1/outgoing-feeds/${feed.id}`);
});

t.test('rows as Parquet are those of the feed, as the engine reads them back', async (t) => {
  const from = (await api.get('/v1/feed?topics=events,audit_log')).json.cursor as string;
  const { id } = await make({ name: 'columns', topics: ['events', 'audit_log'], body: 'parquet' });
  const ids = await batch("grüße \ud83d\ude00 \n\u2028 \\ ' $rows$ \u0000 x");
  const { clickhouseUrl } = await service.addresses();
  const table = `default.parquet_${process.pid}`;
  const sql = async (query: string, rows?: Buffer) => {
    const asked = rows === undefined ? { body: query } : { body: new Uint8Array(rows) };
    const where = rows === undefined ? '' : `?query=${encodeURIComponent(query)}`;
    const answer = await fetch(`${clickhouseUrl}/${where}`, { method: 'POST', ...asked });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text;
  };
  t.teardown(() => sql(`DROP TABLE IF EXISTS ${table}`));
  const columns = "topic String, id String, at DateTime64(3, 'UTC'), agent_id Nullable(String), data String";
  await sql(`CREATE TABLE ${table} (${columns}) ENGINE = Memory`);
  const taken = new Set<string>();
  type Row = { topic: string; id: string; agent_id: string | null; data: string };
  const read = async () => {
    for (const [name, bytes] of files)
      if (name.includes(id) && !taken.has(name)) {
        taken.add(name);
        await sql(`INSERT INTO ${table} FORMAT Parquet`, bytes);
      }
    const text = await sql(`SELECT topic, id, agent_id, data FROM ${table} FORMAT JSONEachRow`);
    return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Row]));
  };
  const logged = (rows: Row[]) => rows.filter(({ data }) => data.includes('event.submitted'));
  await until(async () => {
    const rows = await read();
    const known = new Set(rows.map((row) => row.id));
    return ids.every((one) => known.has(one)) && logged(rows).length >= ids.length;
  });
  t.ok([...taken].every((name) => /\/\d{16}-[0-9a-f]{24}\.parquet$/.test(name)));
  const rows = new Map((await read()).map((row) => [row.id, row]));
  const page = (await api.get(`/v1/feed?topics=events,audit_log&after=${from}`)).text;
  const events = ids.map((one) => rows.get(one)!);
  for (const { topic, agent_id, data } of events) {
    t.same([topic, agent_id], ['events', agent]);
    if (!page.includes(data)) t.fail(`the feed has it otherwise: ${data}`);
  }
  t.equal(events.length, 100, 'each character for character as in /v1/feed');
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('what cannot be kept is said', async (t) => {
  const bad: [object, string][] = [
    [{ url: place }, '/authorization'],
    [{ url: place, authorization: 'no colon' }, '/authorization'],
    [{ url: `${place}/../other`, authorization }, '/url'],
    [{ url: `${place}/a%2Fb`, authorization }, '/url'],
    [{ url: `${place}?region=x&more=y`, authorization }, '/url'],
    [{ url: 's3+https://10.0.0.1/bucket', authorization }, '/url'],
    [{ url: 's3+https://localhost/bucket', authorization }, '/url'],
    [{ url: 's3://bucket/prefix', authorization }, '/url'],
    [{ url: 'https://siem.example.com/x', body: 'parquet' }, '/body'],
    [{ url: place, authorization, body: 'parquet', format: 'ocsf' }, '/body'],
  ];
  for (const [body, path] of bad) {
    const { status, json } = await api.post('/v1/outgoing-feeds', { name: 'bad', ...body });
    t.match({ status, json }, { status: 400, json: { error: { details: [{ path }] } } }, JSON.stringify(body));
  }
});

t.test('a wrong secret is said, and mended by a change', async (t) => {
  const { id } = await make({ name: 'wrong', topics: ['events'], authorization: `${KEY_ID}:other` });
  const ids = await batch('waits');
  const progressOf = async () => (await api.get(`/v1/outgoing-feeds/${id}`)).json.progress;
  await until(async () => (await progressOf()).failing_since !== null);
  t.match(await progressOf(), { error: 'status', status_code: 403 });
  await api.patch(`/v1/outgoing-feeds/${id}`, { authorization });
  await until(() => ids.every((one) => idsOf(id, 'events').includes(one)));
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('nothing is missing, whatever the storage and the pipelines do', async (t) => {
  const { id } = await make({ name: 'torn', topics: ['events', 'audit_log'], payload: 'none' });
  let asked = 0;
  // Of six objects one is stored, and the answer breaks off, one is refused, and one breaks off.
  receiver.answer = (request, response, raw) => {
    const turn = asked++ % 6;
    if (turn === 3) response.writeHead(503).end();
    else if (turn === 5) raw.socket.destroy();
    else if (turn === 1) {
      objects.set(request.path, request.body);
      raw.socket.destroy();
    } else store(request, response, raw);
  };
  let isWriting = true;
  const acknowledged: string[] = [];
  const writing = (async () => {
    for (; isWriting; await pause(150)) acknowledged.push(...(await batch('x')));
  })();
  await killPipelines(service, 2, 4_000);
  isWriting = false;
  await writing;
  await until(() => asked > 12);
  receiver.answer = store;
  await api.patch(`/v1/outgoing-feeds/${id}`, { name: 'tried at once' });
  const last = await batch('last');
  await until(() => last.every((one) => idsOf(id, 'events').includes(one)));
  const events = [...new Set(idsOf(id, 'events'))];
  t.same(
    acknowledged.filter((one) => !events.includes(one)),
    [],
    `${acknowledged.length} events, none is missing`,
  );
  t.same(events, [...events].sort(), 'by the names of the objects they are in the order of their arrival');
  const logged = new Set(rowsOf(id).map(({ data }) => `${data.action} ${data.resource_id}`));
  t.same(
    acknowledged.filter((one) => !logged.has(`event.submitted ${one}`)),
    [],
  );
  await api.delete(`/v1/outgoing-feeds/${id}`);
});
