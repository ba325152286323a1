// What OTLP brings besides plain spans, against the whole service: content in the shapes of libraries under policies,
// searches and sums of tokens; log records (POST /v1/logs) and metrics (POST /v1/metrics), with the rules for bodies of
// POST /v1/traces.
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { Api } from '../support/api.ts';
import { anyValue, attributesOf, encode } from '../support/otlp-protobuf.ts';
import { RawConnection } from '../support/raw-http.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);
const JSON_FORM = { 'content-type': 'application/json' };
const PROTOBUF = { 'content-type': 'application/x-protobuf' };
const CARD = '4111 1111 1111 1111';

type Json = Record<string, unknown>;
type Sent = { status: number; type: string | null; text: string };

async function send(path: string, body: Buffer | string | Json, headers: Json = JSON_FORM): Promise<Sent> {
  const sent = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const response = await fetch(service.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, ...headers } as Record<string, string>,
    body: sent as string,
  });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
}

const resourceOf = (name: string) => ({ attributes: attributesOf({ 'service.name': name }) });
let ids = 0;
const hex = (digits: number) => (++ids).toString(16).padStart(digits, '0');
const now = () => `${Date.now()}000000`;

function spansOf(
  name: string,
  ...spans: (readonly [attributes: Record<string, string | number>, more?: Json | undefined])[]
): Json {
  const made = spans.map(([attributes, more]) => ({
    ...{ traceId: hex(32), spanId: hex(16), name: 'span', startTimeUnixNano: now(), endTimeUnixNano: now() },
    ...{ attributes: attributesOf(attributes), ...more },
  }));
  return { resourceSpans: [{ resource: resourceOf(name), scopeSpans: [{ scope: { name: 'test' }, spans: made }] }] };
}

async function eventsOf(name: string): Promise<{ type: string; payload: Json; policy_result: Json }[]> {
  const [agent] = (await api.get(`/v1/agents?name=${encodeURIComponent(name)}`)).json.items;
  return agent === undefined ? [] : (await api.get(`/v1/agents/${agent.id}/events?order=asc&limit=100`)).json.items;
}

const cards = { name: 'no cards', type: 'data_filter', conditions: { detectors: ['credit_card'] }, actions: ['block'] };
const money = {
  ...{ name: 'no large sums', type: 'block_action', actions: ['block'] },
  conditions: { tool: 'send_money', 'payload.arguments.amount': { gt: 1_000 } },
};

t.test('policies find content in whatever shape it came', async (t) => {
  for (const policy of [cards, money]) t.equal((await api.post('/v1/policies', policy)).status, 201);
  const { json: probe } = await api.post('/v1/agents', { name: 'probe' });
  for (const event of [
    { type: 'prompt', payload: { prompt: CARD } },
    { type: 'tool_call', payload: { tool: 'send_money', arguments: { amount: 5_000 } } },
  ])
    await api.submitUntil('blocked', probe.id, event);
  const request = JSON.stringify({ messages: [{ role: 'user', content: `my card is ${CARD}` }], model: 'gpt-4o' });
  const chat = { 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'gpt-4o' };
  const tool = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'send_money' };
  const arguments_ = '{"amount":5000,"account":12345678901234567890}';
  const content = { 'gen_ai.event.content': JSON.stringify({ role: 'user', content: CARD }) };
  const cases: [name: string, attributes: Record<string, string | number>, more?: Json][] = [
    ['OpenInference', { 'openinference.span.kind': 'LLM', 'llm.model_name': 'gpt-4o', 'input.value': request }],
    ['LangSmith', { ...chat, 'gen_ai.prompt': request }],
    [
      'ADK',
      { 'gen_ai.request.model': 'm', 'gcp.vertex.agent.llm_request': `{"contents":[{"parts":[{"text":"${CARD}"}]}]}` },
    ],
    [
      'Azure',
      chat,
      { events: [{ name: 'gen_ai.user.message', timeUnixNano: now(), attributes: attributesOf(content) }] },
    ],
    ['unknown object', { ...chat, 'gen_ai.prompt': `{"question":"${CARD}"}` }],
    ['cut', { ...chat, 'gen_ai.prompt': `{"messages":[{"content":"${CARD}` }],
    ['pydantic-ai', { 'gen_ai.tool.name': 'send_money', tool_arguments: arguments_ }],
    ['LangSmith tool', { ...tool, 'gen_ai.prompt': arguments_ }],
    ['ADK tool', { ...tool, 'gcp.vertex.agent.tool_call_args': arguments_ }],
    ['odd operation', { ...tool, 'gen_ai.operation.name': 'Tool_Call', 'gen_ai.tool.call.arguments': arguments_ }],
  ];
  for (const [name, attributes, more] of cases)
    t.match(await send('/v1/traces', spansOf(name, [attributes, more])), { status: 200, text: '{}' }, name);
  for (const [name] of cases) {
    const [event] = await eventsOf(name);
    t.match(event?.policy_result, { outcome: 'blocked', enforced: false }, name);
    if (event?.type === 'tool_call') t.notOk('content_captured' in event.payload, name);
  }
  const { text } = await api.get('/v1/events?type=tool_call&limit=100');
  t.match(text, '"account":12345678901234567890', 'every digit');
  const found = (await api.get(`/v1/events?q=4111&limit=100`)).json;
  t.ok(found.total >= 6, 'a search finds it');
});

t.test('nested spans of one call count once', async (t) => {
  const traceId = hex(32);
  const usage = { 'gen_ai.request.model': 'm', 'gen_ai.usage.input_tokens': 100, 'gen_ai.usage.output_tokens': 10 };
  const outer = hex(16);
  const body = spansOf(
    'nested',
    [
      { ...usage, 'llm.request.type': 'chat' },
      { traceId, spanId: outer, name: 'ChatOpenAI.chat' },
    ],
    [
      { ...usage, 'gen_ai.operation.name': 'chat' },
      { traceId, parentSpanId: outer, name: 'openai.chat' },
    ],
  );
  t.equal((await send('/v1/traces', body)).status, 200);
  t.match((await api.get(`/v1/traces/${traceId}`)).json, { event_count: 4, tokens_used: 110 });
});

const record = (eventName: string, body: Json, more: Json = {}): Json => ({
  ...{ timeUnixNano: now(), eventName, attributes: attributesOf({ 'gen_ai.system': 'openai' }) },
  body: anyValue(body),
  ...more,
});
const logsOf = (name: string, ...logRecords: Json[]): Json => ({
  resourceLogs: [{ resource: resourceOf(name), scopeLogs: [{ scope: { name: 'openai_v2' }, logRecords }] }],
});

t.test('log records of generative AI become events, once', async (t) => {
  const place = () => ({ traceId: hex(32), spanId: hex(16) });
  for (const [form, headers] of [
    ['JSON', JSON_FORM],
    ['protobuf', PROTOBUF],
  ] as const) {
    const [name, at] = [`logs in ${form}`, place()];
    const request = logsOf(
      name,
      record('gen_ai.user.message', { content: `my card is ${CARD}` }, at),
      record('gen_ai.choice', { message: { content: 'No.' } }, at),
      record('http.request', { path: '/' }, at),
    );
    const body = form === 'JSON' ? Buffer.from(JSON.stringify(request)) : encode(request, 'LogsRequest');
    const answer = { status: 200, type: headers['content-type'], text: form === 'JSON' ? '{}' : '' };
    t.same(await send('/v1/logs', body, headers), answer);
    t.same(await send('/v1/logs', gzipSync(body), { ...headers, 'content-encoding': 'gzip' }), answer, 'again');
    t.match(
      await eventsOf(name),
      [
        {
          type: 'prompt',
          trace_id: at.traceId,
          payload: { prompt: `my card is ${CARD}`, otel: { span_id: at.spanId, log_records: 2 } },
          policy_result: { outcome: 'blocked', matches: [{ name: 'no cards' }], enforced: false, source: 'otlp' },
        },
        { type: 'completion', payload: { response: 'No.' }, policy_result: { outcome: 'allowed' } },
      ],
      name,
    );
    t.equal((await eventsOf(name)).length, 2);
  }
  const alone = { ...record('gen_ai.user.message', { content: 'hi' }), attributes: [] };
  t.equal((await send('/v1/logs', logsOf('without a span', alone))).status, 200);
  t.match(await eventsOf('without a span'), [{ type: 'prompt', payload: { prompt: 'hi' } }]);
});

t.test('a bad log record costs one, and what is kept is counted', async (t) => {
  const good = (content: string) => record('gen_ai.user.message', { content }, { traceId: hex(32), spanId: hex(16) });
  const bad = { ...good('bad'), attributes: [{ key: 'x', value: { boolValue: 'yes' } }] };
  const { status, text } = await send(
    '/v1/logs',
    logsOf('mixed', good('a'), bad, good('b'), record('other', { a: 'b' })),
  );
  t.equal(status, 200);
  t.match(JSON.parse(text), {
    partialSuccess: { rejectedLogRecords: '1', errorMessage: /logRecords\/1.*boolValue is no boolean/ },
  });
  t.equal((await eventsOf('mixed')).length, 2);
  const metrics = (await api.get('/metrics')).text;
  for (const result of ['recorded', 'ignored', 'rejected'])
    t.match(metrics, new RegExp(`gatehouse_log_records_total\\{[^}]*result="${result}"[^}]*\\} [1-9]`), result);
});

t.test('metrics are accepted and not kept', async (t) => {
  const { total } = (await api.get('/v1/events')).json;
  const request = {
    resourceMetrics: [{ resource: resourceOf('metrics'), scopeMetrics: [{ metrics: [{ name: 'x' }] }] }],
  };
  t.same(await send('/v1/metrics', request), { status: 200, type: 'application/json', text: '{}' });
  const binary = Buffer.from('0a0612041202', 'hex');
  t.equal((await send('/v1/metrics', binary, PROTOBUF)).status, 400, 'it is cut off');
  t.same(await send('/v1/metrics', Buffer.from('0a021200', 'hex'), PROTOBUF), {
    ...{ status: 200, type: 'application/x-protobuf', text: '' },
  });
  t.equal((await api.get('/v1/events')).json.total, total);
  t.equal((await api.get('/v1/agents?name=metrics')).json.total, 0);
});

t.test('what is refused of spans is refused of both', async (t) => {
  const port = Number(new URL(service.url).port);
  for (const [path, member] of [
    ['/v1/logs', 'resourceLogs'],
    ['/v1/metrics', 'resourceMetrics'],
  ] as const) {
    const body = `{"${member}":[]}`;
    const refused = async (status: number, code: number, of: Buffer | string, headers: Json = JSON_FORM) => {
      const answer = await send(path, of, headers);
      t.equal(answer.status, status, `${path}: ${status}`);
      t.match(JSON.parse(answer.text), { code, message: String });
    };
    await refused(401, 16, body, { ...JSON_FORM, authorization: 'Bearer gth_wrong' });
    await refused(415, 3, body, { 'content-type': 'text/plain' });
    await refused(415, 3, body, { ...JSON_FORM, 'content-encoding': 'br' });
    await refused(400, 3, '{');
    await refused(400, 3, '{"resourceSpans":[]}');
    await refused(413, 8, Buffer.alloc(9_000_000, 32));
    await refused(413, 8, gzipSync(Buffer.alloc(9_000_000)), { ...JSON_FORM, 'content-encoding': 'gzip' });
    const binary = await send(path, Buffer.from('not protobuf'), PROTOBUF);
    t.match(binary, { status: 400, type: 'application/x-protobuf' });
    t.equal((await api.get(path)).status, 405);
    const connection = await RawConnection.open(port);
    connection.write(
      `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\n` +
        `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    );
    await connection.waitForClose();
    t.same(
      connection.answers.map(({ status }) => status),
      [200],
      `${path}: in chunks`,
    );
  }
});
