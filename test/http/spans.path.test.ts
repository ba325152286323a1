// POST /v1/traces against the whole service: the exporters of the OpenTelemetry SDK send to it, also where answers are
// lost and where it refuses; requests of other instrumentations as they sent them (test/otlp/golden); what policies
// make of spans; and what is refused, in the form of the request.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { type Answer, Api } from '../support/api.ts';
import { RawConnection } from '../support/raw-http.ts';
import { sharedService } from '../support/shared-service.ts';
import { bodyOf, JSON_FORM, PROTOBUF, sendSpans, spanOf, tool } from '../support/span-requests.ts';
import { unreliable } from '../support/unreliable.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

type Exporter = typeof ProtobufExporter;
type Compression = NonNullable<NonNullable<ConstructorParameters<Exporter>[0]>['compression']>;
type Sending = { url: string; Exporter: Exporter; compression: 'gzip' | 'none'; name: string };

/** An agent that calls a model twice and a tool that fails, with sums on the span around them. */
async function runAgent({ url, Exporter, compression, name }: Sending): Promise<string> {
  const exporter = new Exporter({
    url: `${url}/v1/traces`,
    headers: { authorization: `Bearer ${service.key}` },
    compression: compression as Compression,
  });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': name }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  const tracer = provider.getTracer('test');
  const agent = tracer.startSpan('invoke_agent', {
    attributes: {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.usage.input_tokens': 30,
      'gen_ai.usage.output_tokens': 4,
    },
  });
  const inside = trace.setSpan(context.active(), agent);
  for (const tokens of [10, 20]) {
    const chat = tracer.startSpan('chat', { attributes: { 'gen_ai.operation.name': 'chat' } }, inside);
    chat.setAttributes({
      'gen_ai.request.model': 'm',
      'gen_ai.usage.input_tokens': tokens,
      'gen_ai.usage.output_tokens': 2,
    });
    chat.end();
  }
  const tool = tracer.startSpan(
    'execute_tool pay',
    { attributes: { 'gen_ai.operation.name': 'execute_tool' } },
    inside,
  );
  tool.setStatus({ code: SpanStatusCode.ERROR, message: 'no funds' });
  tool.end();
  tracer.startSpan('GET /', {}, inside).end();
  agent.end();
  await provider.forceFlush();
  await provider.shutdown();
  return agent.spanContext().traceId;
}

const traceOf = (id: string, events: number): Promise<Answer> =>
  api.until(
    () => api.get(`/v1/traces/${id}`),
    ({ json }) => json?.event_count >= events,
  );

t.test('exporters of the SDK send, in both forms, plain and compressed', async (t) => {
  for (const [Exporter, compression] of [
    [ProtobufExporter, 'none'],
    [ProtobufExporter, 'gzip'],
    [JsonExporter as Exporter, 'none'],
    [JsonExporter as Exporter, 'gzip'],
  ] as const) {
    const name = `sdk ${Exporter === ProtobufExporter ? 'protobuf' : 'json'} ${compression}`;
    const traceId = await runAgent({ url: service.url, Exporter, compression, name });
    const { json } = await traceOf(traceId, 7);
    t.match(
      json,
      { event_count: 7, tokens_used: 34, counts: { prompt: 2, completion: 2, tool_call: 1, error: 1, custom: 1 } },
      name,
    );
    t.match(json.events.find((event: { type: string }) => event.type === 'error').payload, {
      tool: 'pay',
      message: 'no funds',
    });
    t.match((await api.get(`/v1/agents?name=${encodeURIComponent(name)}`)).json.items, [
      { name, framework: 'custom', metadata: { registered_by: 'otlp' } },
    ]);
  }
});

t.test('what an exporter sends again is recorded once', async (t) => {
  for (const [Exporter, fates] of [
    [ProtobufExporter, ['refused', 'lost', 'through']],
    [JsonExporter as Exporter, ['limited', 'lost', 'lost', 'through']],
  ] as const) {
    const { url, seen } = await unreliable(t, service.url, (request) => fates[request] ?? 'through');
    const traceId = await runAgent({ url, Exporter, compression: 'gzip', name: 'sent again' });
    t.equal(seen(), fates.length);
    t.equal((await traceOf(traceId, 7)).json.event_count, 7);
  }
});

const golden = (file: string) => readFileSync(assetPath(`test/otlp/golden/${file}`));
const send = (body: Buffer | string, headers: Record<string, string>, key = service.key) =>
  sendSpans(service.url, key, { body, headers });

t.test('requests of other instrumentations: agents, events and tokens', async (t) => {
  for (const [file, agent, framework, events, tokens] of [
    ['openinference.bin', 'weather-service', 'openai', 6, 234],
    ['vercel-ai.bin', 'weather-agent', 'vercel-ai', 6, 147],
    ['claude-code.bin', 'claude-code', 'claude-code', 6, 318],
    ['traceloop.json', 'weather-service', 'openai', 6, 234],
  ] as const) {
    const headers = file.endsWith('.json') ? JSON_FORM : PROTOBUF;
    const { status, text } = await send(golden(file), headers);
    t.same([status, text], [200, file.endsWith('.json') ? '{}' : ''], file);
    t.equal((await send(gzipSync(golden(file)), { ...headers, 'content-encoding': 'gzip' })).status, 200, 'again');
    const found = (await api.get(`/v1/agents?name=${agent}`)).json.items[0];
    t.equal(found.framework, framework);
    const [first] = (await api.get(`/v1/agents/${found.id}/events?order=asc&type=prompt`)).json.items;
    t.match(first.policy_result, { outcome: 'allowed', matches: [], enforced: false, source: 'otlp' });
    const { json } = await api.get(`/v1/traces/${first.trace_id}`);
    if (agent === 'weather-service') continue; // two files are of this agent
    t.match(json, { event_count: events, tokens_used: tokens }, `${file}: once, although it was sent twice`);
  }
});

t.test('policies judge what has happened: nothing is prevented, opened or counted', async (t) => {
  const policy = async (name: string, type: string, conditions: object) => {
    const { status, text } = await api.post('/v1/policies', { name, type, conditions, actions: ['block', 'alert'] });
    t.equal(status, 201, text);
  };
  await policy('no pay', 'block_action', { tool: 'pay' });
  await policy('ask for refunds', 'require_approval', { tool: 'refund' });
  await policy('few searches', 'rate_limit', { tool: 'search', threshold: 1, window: '1h' });
  const { json: agent } = await api.post('/v1/agents', { name: 'judged' });
  const { json: other } = await api.post('/v1/agents', { name: 'asks before' });
  for (const name of ['pay', 'refund', 'search'])
    await api.until(
      () => api.post(`/v1/agents/${other.id}/events`, { type: 'tool_call', payload: { tool: name } }),
      ({ json }) => json.policy_result.outcome !== 'allowed',
    );
  const { status } = await send(
    bodyOf(
      ['pay', 'refund', 'search', 'search'].map((name) => tool(name)),
      'judged',
    ),
    JSON_FORM,
  );
  t.equal(status, 200);
  const { items } = (await api.get(`/v1/agents/${agent.id}/events?type=tool_call`)).json;
  const resultsOf = (name: string) =>
    items
      .filter(
        (event: { payload: { tool: string; otel?: object } }) => event.payload.tool === name && event.payload.otel,
      )
      .map(({ policy_result }: { policy_result: object }) => policy_result);
  const fact = { enforced: false, source: 'otlp' };
  t.match(resultsOf('pay'), [{ outcome: 'blocked', reason: 'policy', matches: [{ name: 'no pay' }], ...fact }]);
  t.match(resultsOf('refund'), [
    { outcome: 'blocked', reason: 'approval_missing', matches: [{ name: 'ask for refunds' }], ...fact },
  ]);
  t.match(resultsOf('search'), [
    { outcome: 'allowed', matches: [], ...fact },
    { outcome: 'allowed', matches: [], ...fact },
  ]);
  t.equal((await api.get(`/v1/approvals?agent_id=${agent.id}`)).json.total, 0, 'nothing is opened');
  t.equal((await api.get('/v1/events?reason=approval_missing')).json.total, 1, 'it can be searched for');
  const search = () => api.post(`/v1/agents/${agent.id}/events`, { type: 'tool_call', payload: { tool: 'search' } });
  t.equal((await search()).json.policy_result.outcome, 'allowed', 'spans have taken no place of the limit');
  t.equal((await search()).json.policy_result.outcome, 'blocked');
  await api.patch(`/v1/agents/${agent.id}`, { status: 'inactive' });
  await api.submitUntil('blocked', agent.id, { type: 'prompt', payload: {} });
  t.equal((await send(bodyOf([tool('late')], 'judged'), JSON_FORM)).status, 200);
  const { json } = await api.get(`/v1/agents/${agent.id}/events?limit=1&type=tool_call`);
  t.match(json.items[0].policy_result, { outcome: 'blocked', reason: 'agent_inactive', ...fact });
});

t.test('what was judged before keeps its outcome, and is not judged again', async (t) => {
  const { json: agent } = await api.post('/v1/agents', { name: 'asked before' });
  const asked = async (tool: string) => {
    const payload = { tool, arguments: { a: 1 } };
    return (await api.post(`/v1/agents/${agent.id}/events`, { type: 'tool_call', payload })).json;
  };
  const [allowed, blocked] = [await asked('look'), await asked('pay')];
  t.equal(blocked.policy_result.outcome, 'blocked');
  await api.get(`/v1/agents/${agent.id}/events`); // they are stored by then
  const spans = [
    tool('look', { 'gatehouse.decision.id': allowed.id }),
    tool('pay', { 'gatehouse.decision.id': blocked.id }),
    tool('pay', { 'gatehouse.decision.id': 'evt_nothing' }),
  ];
  t.equal((await send(bodyOf(spans, 'asked before'), JSON_FORM)).status, 200);
  const { items } = (await api.get(`/v1/agents/${agent.id}/events?order=asc`)).json;
  const results = items.map(({ policy_result }: { policy_result: object }) => policy_result);
  const of = (id: string) => results.find(({ decision_id }: { decision_id?: string }) => decision_id === id);
  const before = { matches: [], source: 'otlp' };
  const nothing = { outcome: 'allowed', reason: null, policy_id: null };
  t.same(of(allowed.id), { ...nothing, ...before, decision_id: allowed.id });
  const { outcome, reason, policy_id } = blocked.policy_result;
  t.same(of(blocked.id), { outcome, reason, policy_id, ...before, decision_id: blocked.id });
  const judged = results.filter(({ enforced }: { enforced?: boolean }) => enforced === false);
  t.match(judged, [{ outcome: 'blocked', matches: [{ name: 'no pay' }] }], 'what is not known is judged');
  const { json: other } = await api.post('/v1/agents', { name: 'another' });
  await send(bodyOf([tool('pay', { 'gatehouse.decision.id': allowed.id })], 'another'), JSON_FORM);
  const theirs = (await api.get(`/v1/agents/${other.id}/events`)).json.items[0];
  t.match(theirs.policy_result, { outcome: 'blocked', enforced: false }, "another's decision is none of its own");
});

t.test('spans that cannot be kept are rejected by themselves', async (t) => {
  const chat = { 'gen_ai.operation.name': 'chat' };
  const mixed = [
    spanOf(chat),
    spanOf(chat, { spanId: 'ab' }),
    spanOf({ ...chat, 'gatehouse.agent.id': 'agt_nobody' }),
    spanOf({}),
  ];
  const { status, json } = await send(bodyOf(mixed), JSON_FORM);
  t.equal(status, 200);
  t.match(json, {
    partialSuccess: { rejectedSpans: '2', errorMessage: /span id.*gatehouse\.agent\.id names no agent/ },
  });

  const many = Array.from({ length: 20 }, (_, i) => spanOf({ ...chat, 'gen_ai.agent.name': `one of many ${i}` }));
  t.same((await send(bodyOf(many), JSON_FORM)).json, {}, 'what is over the bound of new agents is kept');
  const { json: mine } = await api.get('/v1/agents?name=by%20hand');
  const { items } = (await api.get(`/v1/agents/${mine.items[0].id}/events?type=prompt`)).json;
  t.equal(items.filter((event: { payload: { otel: { agent?: string } } }) => event.payload.otel.agent).length, 4);
});

t.test('a key that is bound to an agent sends for it alone', async (t) => {
  const { json: agent } = await api.post('/v1/agents', { name: 'bound' });
  const body = { label: 'bound', scope: 'write', agent_id: agent.id, permissions: ['submit'] };
  const { json: key } = await api.post('/v1/api-keys', body);
  const attributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.agent.name': 'another name' };
  t.equal((await send(bodyOf([spanOf(attributes)]), JSON_FORM, key.key)).status, 200);
  t.equal((await api.get(`/v1/agents/${agent.id}/events`)).json.total, 2);
  t.equal((await api.get('/v1/agents?name=another%20name')).json.total, 0);
});

t.test('refusals are google.rpc.Status in the form of the request, and leave nothing', async (t) => {
  const { total } = (await api.get('/v1/events')).json;
  const chat = spanOf({ 'gen_ai.operation.name': 'chat' });
  const refused = async (status: number, code: number, message: RegExp, ...args: Parameters<typeof send>) => {
    const answer = await send(...args);
    t.equal(answer.status, status, String(message));
    t.match(answer.json, { code, message });
  };
  await refused(401, 16, /API key/, bodyOf([chat]), JSON_FORM, 'gth_wrong');
  await refused(415, 3, /x-protobuf/, bodyOf([chat]), { 'content-type': 'text/plain' });
  await refused(415, 3, /gzip/, bodyOf([chat]), { ...JSON_FORM, 'content-encoding': 'br' });
  await refused(400, 3, /no JSON/, '{', JSON_FORM);
  await refused(400, 3, /not gzip/, bodyOf([chat]), { ...JSON_FORM, 'content-encoding': 'gzip' });
  await refused(
    400,
    3,
    /trace id/,
    bodyOf([spanOf({ 'gen_ai.operation.name': 'chat' }, { traceId: 'ab' })]),
    JSON_FORM,
  );
  await refused(413, 8, /inflated.*OTEL_BSP_MAX_EXPORT_BATCH_SIZE/, gzipSync(Buffer.alloc(9_000_000)), {
    ...JSON_FORM,
    'content-encoding': 'gzip',
  });
  await refused(413, 8, /larger than 8388608.*OTEL_BSP_MAX_EXPORT_BATCH_SIZE/, Buffer.alloc(9_000_000, 32), JSON_FORM);
  const binary = await send(Buffer.from('not protobuf'), PROTOBUF);
  t.equal(binary.status, 400);
  t.equal(binary.headers.get('content-type'), 'application/x-protobuf');
  t.equal(binary.text.slice(0, 3), '\x08\x03\x12', 'code and message as fields 1 and 2');
  t.match(binary.text, /The spans cannot be taken: .*ExportTraceServiceRequest/);
  t.equal((await api.get('/v1/events')).json.total, total);
});

t.test('a body in chunks is taken here and nowhere else, and nothing that follows it is executed', async (t) => {
  const port = Number(new URL(service.url).port);
  const chunked = (path: string, body: string, key: string) =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
    `Transfer-Encoding: chunked\r\n\r\n${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const following = `DELETE /v1/agents/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n\r\n`;
  const body = bodyOf([spanOf({ 'gen_ai.operation.name': 'chat' })], 'in chunks');
  for (const [text, expected] of [
    [chunked('/v1/traces', body, service.key), [200]],
    [chunked('/v1/traces', body, 'gth_wrong'), [401]],
    [chunked('/v1/agents', '{"name":"x"}', service.key), [411]],
  ] as const) {
    const connection = await RawConnection.open(port);
    connection.write(text);
    await connection.waitForClose();
    t.same(
      connection.answers.map(({ status }) => status),
      expected,
    );
  }
  for (const key of [service.key, 'gth_wrong']) {
    const connection = await RawConnection.open(port);
    connection.write(chunked('/v1/traces', body, key) + following);
    await connection.waitForClose();
    t.ok(connection.answers.length <= 1, 'what follows in the same packet has no answer');
  }
});
