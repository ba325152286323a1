// Outgoing feeds by syslog over TLS against the whole service: messages are whole, and a receiver that is away, breaks
// off or ends before it has read all gets them again, so that none is missing.
import t from 'tap';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { until } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';
import { startSyslog } from '../support/syslog-receiver.ts';

const receiver = await startSyslog(t);
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${receiver.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);
const url = `syslog+tls://localhost:${receiver.port}`;
const agent = (await api.post('/v1/agents', { name: 'fed' })).json.id as string;
const batch = async (text: string): Promise<string[]> => {
  const events = Array.from({ length: 100 }, () => ({ type: 'prompt', payload: { text } }));
  const { json } = await api.post(`/v1/agents/${agent}/events/batch`, events);
  return json.results.map(({ id }: { id: string }) => id);
};
const rows = () => receiver.messages.map(({ msgId, text }) => ({ msgId, row: JSON.parse(text) }));
const missing = (ids: readonly string[], msgId: string) => {
  const known = new Set(rows().flatMap((one) => (one.msgId === msgId ? [one.row.data.id] : [])));
  return ids.filter((id) => !known.has(id));
};
t.test('a row is a message, whatever it holds', async (t) => {
  const made = await api.post('/v1/outgoing-feeds', { name: 'syslog', url, topics: ['events', 'audit_log'] });
  t.equal(made.status, 201);
  const ids = await batch('grüße\n<14>1 - - - - - -\u2028 7 x');
  await until(() => missing(ids, 'events').length === 0);
  t.same(receiver.faults, []);
  const [message] = receiver.messages.filter(({ msgId, text }) => msgId === 'events' && text.includes(ids[0]!));
  t.match(message, { priority: 13 * 8 + 6, app: 'gatehouse', host: /^[!-~]+$/ });
  const { topic, data } = JSON.parse(message!.text);
  t.equal(topic, 'events');
  t.equal(message!.atMs, Date.parse(data.timestamp));
  t.equal(data.payload.text, 'grüße\n<14>1 - - - - - -\u2028 7 x');
  t.equal(missing(ids, 'events').length, 0);
  const { progress } = (await api.get(`/v1/outgoing-feeds/${made.json.id}`)).json;
  t.match(progress, { error: null, failing_since: null });
  await api.delete(`/v1/outgoing-feeds/${made.json.id}`);
});

t.test('what a receiver has not read to its end comes again', async (t) => {
  const { id } = (await api.post('/v1/outgoing-feeds', { name: 'torn', url, topics: ['events'], format: 'ocsf' })).json;
  const [{ onData, atEnd }, before] = [{ ...receiver }, receiver.connections];
  const ended = () => receiver.connections - before;
  // The first connection breaks off in the middle, the second is ended there.
  receiver.onData = (_read, socket) => {
    if (ended() === 1) socket.destroy();
    if (ended() === 2) socket.end();
  };
  receiver.atEnd = (read, socket, take) => (ended() > 2 ? atEnd(read, socket, take) : undefined);
  const ids = await batch('x'.repeat(4_000));
  await until(async () => (await api.get(`/v1/outgoing-feeds/${id}`)).json.progress.error === 'reset');
  const known = () => new Set(rows().map(({ row }) => row.metadata?.uid));
  await until(() => ids.every((one) => known().has(one)));
  t.ok(ended() > 2, `${ended()} connections`);
  t.same(receiver.faults, []);
  t.match(rows().at(-1)?.row, { class_uid: 6003, metadata: { log_name: 'events' } });
  Object.assign(receiver, { onData, atEnd });
  await api.delete(`/v1/outgoing-feeds/${id}`);
});

t.test('an address is held to the rules of webhooks', async (t) => {
  const refused = async (body: object) => {
    const { status, json } = await api.post('/v1/outgoing-feeds', { name: 'refused', ...body });
    return [status, json.error?.details?.[0]?.path];
  };
  for (const host of ['10.0.0.1', 'localhost', '[::1]', 'siem', 'siem.example.com:25', 'a@siem.example.com', ''])
    t.same(await refused({ url: `syslog+tls://${host}` }), [400, '/url'], host);
  for (const address of [
    'syslog://siem.example.com',
    'syslog+tls://siem.example.com/x',
    'syslog+tls://siem.example.com?x',
  ])
    t.same(await refused({ url: address }), [400, '/url'], address);
  t.same(await refused({ url: 'syslog+tls://siem.example.com', authorization: 'x' }), [400, '/authorization']);
  const made = await api.post('/v1/outgoing-feeds', {
    ...{ name: 'taken', url: 'syslog+tls://siem.example.com', status: 'inactive' },
  });
  t.equal(made.status, 201);
});
