// Outgoing feeds against the whole service: a receiver gets, signed, the rows of the feed; it is waited for, and that
// is said; and while writers write, it refuses and breaks off, also behind what it has stored, and the pipelines are
// killed, nothing is missing and nothing comes out of order.
import type { ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { type Received, startReceiver } from '../support/https-receiver.ts';
import { pause, until } from '../support/raw-http.ts';
import { killPipelines, startService } from '../support/service.ts';

type Item = { topic: string; data: Record<string, unknown> };
type Shown = { failing_since: string | null; error: string | null; status_code: number | null; sent_rows: number };

const ALL = ['audit_log', 'events', 'anomalies', 'approvals', 'deliveries'];
const KILLS = 4;

const receiver = await startReceiver(t);
const metricsPort = await freePort();
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${receiver.port}`,
    GATEHOUSE_METRICS_PORT: String(metricsPort),
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);
const agent = (await api.post('/v1/agents', { name: 'fed' })).json.id as string;
await api.post('/v1/policies', {
  ...{ name: 'no payments', type: 'block_action', conditions: { tool: 'pay' }, actions: ['block', 'alert'] },
});
await api.post('/v1/alerts', {
  ...{ name: 'told', trigger: 'policy_violation', channel: 'email', target: 'a@example.com' },
});
const call = (tool: string) => ({ type: 'tool_call', payload: { tool } });
const send = async (tool: string): Promise<string> =>
  (await api.post(`/v1/agents/${agent}/events`, call(tool))).json.id;
await api.submitUntil('blocked', agent, call('pay'));

/** The rows that came under a path, and were answered with 200, in the order in which they came. */
const taken: { path: string; items: Item[] }[] = [];
const itemsOf = (path: string) => taken.filter((one) => one.path === path).flatMap(({ items }) => items);
const idsOf = (path: string, topic: string) =>
  itemsOf(path).flatMap(({ topic: of, data }) => (of === topic ? [data['id'] as string] : []));
const take = (request: Received, response: ServerResponse) => {
  taken.push({ path: request.path, items: rowsOf(request) });
  response.end();
};
const rowsOf = ({ body, headers }: Received): Item[] => {
  if (headers['content-type'] === 'application/json') return JSON.parse(body);
  const lines = body.split('\n');
  t.equal(lines.pop(), '', 'each line ends');
  return lines.map((line) => JSON.parse(line));
};
const verify = (secret: string, { body, headers }: Received, more = '') =>
  new Webhook(secret).verify(body + more, headers as Record<string, string>);
receiver.answer = take;

async function make(body: object): Promise<{ id: string; secret: string; path: string }> {
  const name = `feed ${Math.random()}`;
  const path = `/${taken.length}-${receiver.received.length}?code=hush`;
  const { status, json } = await api.post('/v1/outgoing-feeds', { name, url: receiver.url + path, ...body });
  t.equal(status, 201);
  return { id: json.id, secret: json.secret, path };
}
const progressOf = async (id: string): Promise<Shown> => (await api.get(`/v1/outgoing-feeds/${id}`)).json.progress;

t.test('rows come as the feed has them, signed, and secrets stay inside', async (t) => {
  const topics = ALL.join(',');
  const { cursor } = (await api.get(`/v1/feed?topics=${topics}`)).json;
  const { id, secret, path } = await make({ topics: ALL, authorization: 'Splunk sesame' });
  const blocked = await send('pay');
  await until(() => idsOf(path, 'anomalies').length > 0 && idsOf(path, 'deliveries').length > 0);
  const fed = (await api.get(`/v1/feed?after=${cursor}&wait=5`)).json.items as Item[];
  const named = ({ topic, data }: Item) => `${topic} ${data['id']}`;
  const sent = new Map(itemsOf(path).map((item) => [named(item), item]));
  for (const item of fed.filter(({ topic }) => topic !== 'deliveries'))
    t.same(sent.get(named(item)), item, named(item));
  t.same(sent.get(`events ${blocked}`)?.data['payload'], { tool: 'pay' });
  const [request] = receiver.received.filter((one) => one.path === path);
  t.match(request!.headers, { 'content-type': 'application/json', authorization: 'Splunk sesame' });
  t.same(verify(secret, request!), rowsOf(request!));
  t.throws(() => verify(secret, request!, ' '), /No matching signature/);
  const logs = (await api.get('/v1/audit-logs?limit=500')).text;
  const shown = [logs, (await api.get('/v1/outgoing-feeds')).text, (await api.get(`/v1/outgoing-feeds/${id}`)).text];
  t.match(logs, 'outgoing_feed.created');
  for (const text of [...shown, await service.log()]) t.notMatch(text, /sesame|hush|whsec_/);
  // Progress is noted once the receiver has answered. It counts from where the feed was made, which is behind `cursor`.
  const got = itemsOf(path).length;
  await until(async () => (await progressOf(id)).sent_rows >= got);
  t.equal((await api.delete(`/v1/outgoing-feeds/${id}`)).status, 204);
});

t.test('a secret that is replaced signs beside the new one, and goes to no other address', async (t) => {
  const { id, secret, path } = await make({ authorization: 'Splunk sesame' });
  const rotated = (await api.post(`/v1/outgoing-feeds/${id}/rotate-secret`, undefined)).json;
  await send('none');
  await until(() => itemsOf(path).length > 0);
  const request = receiver.received.filter((one) => one.path === path).at(-1)!;
  for (const one of [secret, rotated.secret]) t.same(verify(one, request), rowsOf(request));
  const moved = await api.patch(`/v1/outgoing-feeds/${id}`, { url: `${receiver.url}/elsewhere` });
  t.match([moved.status, moved.json], [400, { error: { details: [{ path: '/authorization' }] } }]);
  for (const url of ['https://10.0.0.1/', 'https://localhost/', 'http://example.com/'])
    t.equal((await api.patch(`/v1/outgoing-feeds/${id}`, { url, authorization: null })).status, 400, url);
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('rows come as events of OCSF where that is asked for', async (t) => {
  const { id, path } = await make({ topics: ['events', 'anomalies'], format: 'ocsf' });
  const blocked = await send('pay');
  const said = () => itemsOf(path) as unknown as { class_uid: number; raw_data: string }[];
  await until(() => said().some(({ class_uid }) => class_uid === 2004));
  const event = said().find(({ class_uid, raw_data }) => class_uid === 6003 && raw_data.includes(blocked));
  t.match(event, { type_uid: 600_301, metadata: { uid: blocked, log_name: 'events' }, actor: { app_uid: agent } });
  t.match(event, { disposition_id: 2, action_id: 2, raw_data: /"payload":\{"tool":"pay"\}/ });
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('what came while it was inactive is sent when it is active again', async (t) => {
  const { id, path } = await make({ topics: ['events'], payload: 'none', body: 'lines' });
  const first = await send('none');
  await until(() => idsOf(path, 'events').includes(first));
  await api.patch(`/v1/outgoing-feeds/${id}`, { status: 'inactive' });
  await pause(3_000); // a batch that is on its way
  const quiet = itemsOf(path).length;
  const second = await send('none');
  const other = await make({ topics: ['events'] });
  const third = await send('none');
  await until(() => idsOf(other.path, 'events').includes(third));
  t.equal(itemsOf(path).length, quiet, 'nothing meanwhile');
  await api.patch(`/v1/outgoing-feeds/${id}`, { status: 'active' });
  await until(() => idsOf(path, 'events').includes(third));
  t.same(
    idsOf(path, 'events').filter((one) => [second, third].includes(one)),
    [second, third],
  );
  t.notOk(itemsOf(path)[0]!.data['payload'], 'without the payload');
  for (const one of [id, other.id]) await api.delete(`/v1/outgoing-feeds/${one}`);
});

t.test('a receiver that is away is waited for, and that is said', async (t) => {
  const { id, path } = await make({ topics: ['events'] });
  receiver.answer = (request, response) => {
    if (request.path !== path) return take(request, response);
    response.writeHead(503).end('hush');
  };
  const lost = await send('none');
  await until(async () => (await progressOf(id)).failing_since !== null);
  t.match(await progressOf(id), { error: 'status', status_code: 503, next_try_at: /^20/ });
  const failing = async () => {
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    return Number(/^gatehouse_outgoing_feeds_failing_seconds\{[^}]*\} (.*)$/m.exec(text)?.[1] ?? 0);
  };
  await until(async () => (await failing()) > 5);
  t.match(await service.log(), /outgoing_feed\.failed/);
  receiver.answer = take;
  await api.patch(`/v1/outgoing-feeds/${id}`, { payload: 'preview' });
  const changedMs = performance.now();
  await until(() => idsOf(path, 'events').includes(lost));
  t.ok(performance.now() - changedMs < 10_000, 'a change ends the pause');
  await until(async () => (await progressOf(id)).failing_since === null && (await failing()) === 0);
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('nothing is missing and all is in order, whatever the receiver and the pipelines do', async (t) => {
  const { id, path } = await make({ topics: ['events', 'audit_log'], payload: 'none' });
  let asked = 0;
  // Of six batches one is stored, and breaks off then, one is refused, and one breaks off.
  receiver.answer = (request, response, raw) => {
    const turn = asked++ % 6;
    if (turn === 3) response.writeHead(500).end();
    else if (turn === 5) raw.socket.destroy();
    else if (turn === 1) {
      taken.push({ path, items: rowsOf(request) });
      raw.socket.destroy();
    } else take(request, response);
  };
  let isWriting = true;
  const acknowledged: string[] = [];
  const writing = (async () => {
    for (let n = 0; isWriting; n++) {
      const batch = Array.from({ length: 100 }, (_, i) => (i === 7 ? call('pay') : { type: 'custom', payload: { n } }));
      const sent = await api.post(`/v1/agents/${agent}/events/batch`, batch).catch(() => undefined);
      for (const result of sent?.json?.results ?? []) acknowledged.push(result.id);
      if (n % 5 === 0) await api.post('/v1/agents', { name: `agent ${n}` });
      await pause(100);
    }
  })();
  await killPipelines(service, KILLS, 4_000);
  isWriting = false;
  await writing;
  await until(() => asked > 12);
  receiver.answer = take;
  await api.patch(`/v1/outgoing-feeds/${id}`, { payload: 'preview' });
  const last = await send('none');
  await until(() => idsOf(path, 'events').includes(last));
  const events = idsOf(path, 'events');
  const first = [...new Set(events)];
  t.same(
    acknowledged.filter((one) => !first.includes(one)),
    [],
    `${acknowledged.length} events, none is missing`,
  );
  t.same(first, [...first].sort(), 'in the order of their arrival');
  const logged = new Set(itemsOf(path).map(({ data }) => `${data['action']} ${data['resource_id']}`));
  const unlogged = acknowledged.filter((one) => !logged.has(`event.submitted ${one}`));
  t.same(unlogged, [], 'nor is an entry of the audit log');
  t.ok(events.length > first.length, `${events.length - first.length} of ${events.length} came again`);
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('an account has a bound of them', async (t) => {
  const made: string[] = [];
  for (let n = 0; n < 20; n++) made.push((await make({ status: 'inactive' })).id);
  const more = await api.post('/v1/outgoing-feeds', { name: 'one more', url: receiver.url });
  t.match([more.status, more.json], [400, { error: { details: [{ message: /at most 20 outgoing feeds/ }] } }]);
  for (const id of made) await api.delete(`/v1/outgoing-feeds/${id}`);
});
