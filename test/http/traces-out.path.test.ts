// Spans of requests as a collector gets them from the whole service: whose trace they are of, what policies said, what
// they do not hold; and a collector that is away.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import t from 'tap';
import { SpanExport } from '../../src/otlp/span-export.ts';
import { Api } from '../support/api.ts';
import { listening } from '../support/listening.ts';
import { pause } from '../support/raw-http.ts';
import { launchService, makeDataDir, startService } from '../support/service.ts';

type Attribute = { key: string; value: { stringValue?: string; intValue?: string } };
type Sent = {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  events: { name: string; attributes: Attribute[] }[];
  status: { code?: number };
};

const WAIT_MS = 60_000;
const bodies: string[] = [];
let status = 200;
let asked = 0;
const collector = createServer((request: IncomingMessage, response: ServerResponse) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    asked++;
    if (status === 200 && request.url === '/v1/traces') bodies.push(Buffer.concat(chunks).toString());
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
  });
});
const GATEHOUSE_TRACES_URL = `http://127.0.0.1:${await listening(t, collector)}/v1/traces`;
const env = { GATEHOUSE_TRACES_URL, GATEHOUSE_TRACES_PERCENT: '100' };
const service = await startService(t, { env });
const api = await Api.described(t, service);

let made = 0;
/** A trace of the caller's. `flags`: 01 is kept, 00 is not. */
function traced(flags = '01'): { id: string; headers: { traceparent: string } } {
  const id = (++made).toString(16).padStart(32, 'a');
  return { id, headers: { traceparent: `00-${id}-00f067aa0ba902b7-${flags}` } };
}
const spans = (): Sent[] => bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
const valuesOf = (attributes: Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]));
const said = (span: Sent) => span.events.map(({ name, attributes }) => ({ name, ...valuesOf(attributes) }));

async function spanOf(id: string): Promise<Sent> {
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await pause(50)) {
    const found = spans().find(({ traceId }) => traceId === id);
    if (found !== undefined) return found;
  }
  throw new Error('no span came');
}

const agent = (await api.post('/v1/agents', { name: 'told' })).json.id as string;
const policy = (
  await api.post('/v1/policies', {
    ...{ name: 'no payments', type: 'block_action', severity: 'high', actions: ['block'] },
    conditions: { tool: 'pay' },
  })
).json.id as string;
const pay = { type: 'tool_call', payload: { tool: 'pay', arguments: { to: 'Zauberwort' } } };
await api.submitUntil('blocked', agent, pay);
const denied = {
  name: 'gen_ai.security.finding',
  'gen_ai.security.target.type': 'tool_call',
  'gen_ai.security.verdict.type': 'deny',
  'gen_ai.security.action.type': 'block',
  'gen_ai.security.policy.id': policy,
  'gen_ai.security.policy.name': 'no payments',
  'gen_ai.security.risk.finding': 'block_action',
};

t.test("a request is a span of its caller's trace, with what policies said", async (t) => {
  const one = traced();
  const fromMs = Date.now();
  const event = await api.post(`/v1/agents/${agent}/events`, pay, { headers: one.headers });
  const span = await spanOf(one.id);
  t.match(span, { name: 'POST /v1/agents/{id}/events', parentSpanId: '00f067aa0ba902b7', status: {} });
  t.match(span.spanId, /^[0-9a-f]{16}$/);
  t.match(valuesOf(span.attributes), {
    'http.request.method': 'POST',
    'http.route': '/v1/agents/{id}/events',
    'http.response.status_code': 201,
    'gatehouse.account.id': /^acc_/,
    'gatehouse.request.id': event.headers.get('x-request-id')!,
  });
  const [start, end] = [Number(span.startTimeUnixNano) / 1e6, Number(span.endTimeUnixNano) / 1e6];
  t.ok(fromMs - 1_000 <= start && start <= end && end <= Date.now() + 1_000, `${start} to ${end}`);
  t.match(said(span), [{ ...denied, 'gen_ai.security.target.id': event.json.id }]);

  const batch = traced();
  const events = [pay, { type: 'prompt', payload: {} }, { type: 'no type' }, pay];
  await api.post(`/v1/agents/${agent}/events/batch`, events, { headers: batch.headers });
  t.match(said(await spanOf(batch.id)), [denied, denied], 'each event of a batch that a policy matched');
  t.notOk(
    bodies.some((body) => body.includes('Zauberwort') || body.includes(service.key)),
    'no payload and no key',
  );
});

t.test('so is one at a decision point, and one that is refused', async (t) => {
  const hook = traced();
  const call = { hook_event_name: 'PreToolUse', tool_name: 'pay', tool_input: {} };
  await api.post('/v1/hooks/claude-code', call, { headers: hook.headers });
  t.match(said(await spanOf(hook.id)), [denied]);
  const lost = traced();
  t.equal((await api.get('/v1/policies/pol_none', { headers: lost.headers })).status, 404);
  const span = await spanOf(lost.id);
  t.match(valuesOf(span.attributes), { 'http.response.status_code': 404, 'gatehouse.error.code': 'not_found' });
  t.same(span.status, {}, "a caller's mistake is no fault of the service");
  t.notOk('error.type' in valuesOf(span.attributes));
});

t.test('what a caller does not keep is not told, nor are probes; what comes is OTLP', async (t) => {
  const [quiet, probe, after] = [traced('00'), traced(), traced()];
  await api.get('/v1/agents', { headers: quiet.headers });
  await api.get('/healthz', { headers: probe.headers });
  await api.get('/v1/agents', { headers: after.headers });
  await spanOf(after.id);
  const known = spans().map(({ traceId }) => traceId);
  t.notOk(known.includes(quiet.id) || known.includes(probe.id));
  t.ok(
    spans().some(({ parentSpanId }) => parentSpanId === ''),
    'a request without a trace begins one',
  );
  const taken = await api.post('/v1/traces', bodies.at(-1)!);
  t.match([taken.status, taken.json], [200, {}], 'our own intake reads it');
});

t.test('a collector that is away holds up nobody, and gets what was kept', async (t) => {
  status = 503;
  const before = asked;
  const one = traced();
  t.equal((await api.get('/v1/agents', { headers: one.headers })).status, 200);
  for (const deadline = performance.now() + WAIT_MS; asked < before + 2 && performance.now() < deadline; )
    await pause(50);
  t.match(await service.log(), 'traces.not_taken');
  status = 200;
  t.match(await spanOf(one.id), { name: 'GET /v1/agents' });
});

t.test('what is left is sent before a front ends', async (t) => {
  const dataDir = await makeDataDir();
  const other = await launchService({ dataDir, env: { ...env, GATEHOUSE_BOOTSTRAP_KEY: service.key } });
  const one = traced();
  await fetch(`${other.url}/v1/agents`, { headers: { ...one.headers, authorization: `Bearer ${service.key}` } });
  await other.stop();
  t.ok(spans().some(({ traceId }) => traceId === one.id));
});

t.test('a share goes by the trace, the same everywhere', async (t) => {
  const parts = {
    url: GATEHOUSE_TRACES_URL,
    percent: 25,
    metrics: { inc: () => undefined },
    log: { warn: () => undefined },
  };
  const [one, other] = [new SpanExport(parts as never), new SpanExport(parts as never)];
  let [kept, wrong] = [0, 0];
  for (let i = 0; i < 4_000; i++) {
    const id = Array.from({ length: 32 }, () => Math.floor(Math.random() * 16).toString(16)).join('');
    const isKept = one.begin(`00-${id}-00f067aa0ba902b7-01`) !== undefined;
    wrong += (other.begin(`00-${id}-00f067aa0ba902b7-01`) !== undefined) === isKept ? 0 : 1;
    wrong += one.begin(`00-${id}-00f067aa0ba902b7-00`) === undefined ? 0 : 1;
    kept += isKept ? 1 : 0;
  }
  t.equal(wrong, 0);
  t.ok(kept > 800 && kept < 1_200, `${kept} of 4,000`);
});
