// What becomes of spans: of requests as real instrumentations sent them (golden/README.md), event by event, and of
// spans in forms that no request there has.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { groupsOf, nothingKept, partsOf, readSpans, type SpanGroup } from '../../src/otlp/span-groups.ts';
import { assetPath } from '../../src/process/assets.ts';
import { eventOfSpan, made, span } from '../support/otlp-spans.ts';

const FOLDER = assetPath('test/otlp/golden');
const OPTIONS = { boundTo: undefined, isTimely: () => true };

function eventsOfGroup({ spans }: SpanGroup) {
  return [...partsOf(spans, 1_048_576)]
    .flat()
    .flatMap(({ events }) => events)
    .sort((a, b) => a.occurredAt - b.occurredAt);
}

/** Agents by name, with their events in the order in which they are recorded. */
function eventsIn(file: string): Record<string, unknown[]> {
  const body = readFileSync(path.join(FOLDER, file));
  const found = readSpans({ body, form: file.endsWith('.json') ? 'json' : 'protobuf' }, OPTIONS);
  t.equal(found.rejected, 0);
  return Object.fromEntries(
    groupsOf(found, new Map()).map((group) => [
      'id' in group.agent ? group.agent.id : `${group.agent.name} (${group.agent.framework})`,
      eventsOfGroup(group).map(({ type, payload, traceId, occurredAt }) => ({ type, traceId, occurredAt, payload })),
    ]),
  );
}

const requests = readdirSync(FOLDER).filter((file) => /(?<!\.events)\.(bin|json)$/.test(file));

/** The tokens of all its completions: what the stub of a model said it used, once for each call. */
const TOKENS: Record<string, number> = {
  'gen-ai.bin': 60 + 87,
  'gen-ai-traceloop.json': 60 + 87 + 87,
  'openinference.bin': 60 + 87 + 87,
  'vercel-ai.bin': 60 + 87,
  'traceloop.json': 60 + 87 + 87,
  'claude-code.bin': 12 + 100 + 30 + 25 + 12 + 100 + 30 + 9,
};

t.test('requests of real instrumentations become these events', (t) => {
  t.same(requests.sort(), Object.keys(TOKENS).sort());
  for (const file of requests) {
    const expected = path.join(FOLDER, `${path.parse(file).name}.events.json`);
    const events = eventsIn(file);
    if (process.argv[2] === 'write') writeFileSync(expected, `${JSON.stringify(events, null, 1)}\n`);
    t.same(events, JSON.parse(readFileSync(expected, 'utf8')), file);
    const used = Object.values(events)
      .flat()
      .map((event) => (event as { payload: { tokens_used?: number } }).payload.tokens_used ?? 0);
    t.equal(
      used.reduce((sum, one) => sum + one, 0),
      TOKENS[file],
      `${file}: tokens are counted once for each call of the model`,
    );
  }
  t.end();
});

t.test('the table, by spans in other forms', (t) => {
  t.match(
    made(
      span('chat', {
        'gen_ai.operation.name': 'chat',
        'gen_ai.system': 'openai',
        'gen_ai.request.model': 'm',
        'gen_ai.usage.prompt_tokens': '7',
        'gen_ai.usage.completion_tokens': 3,
      }),
    ),
    [
      { type: 'prompt', atMs: 1_000, model: 'm', content_captured: false },
      { type: 'completion', atMs: 3_000, model: 'm', token_count: 7, tokens_used: 10, content_captured: false },
    ],
    'old names of counts; counts that came as text; no content is no empty prompt',
  );
  t.match(
    made(
      span(
        'chat',
        { 'gen_ai.operation.name': 'chat' },
        {
          events: [
            eventOfSpan('gen_ai.system.message', { content: 'Be brief.' }),
            eventOfSpan('gen_ai.user.message', { content: 'Hello' }),
            eventOfSpan('gen_ai.choice', { index: 0, message: '{"role":"assistant","content":"Hi"}' }),
          ],
        },
      ),
    ),
    [{ prompt: 'Hello', system: 'Be brief.' }, { response: 'Hi' }],
    'messages as events of the span',
  );
  t.match(
    made(
      span(
        'execute_tool search',
        { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.call.arguments': { query: 'x' } },
        { isError: true, statusMessage: 'no route' },
      ),
    ),
    [
      { type: 'tool_call', tool: 'search', arguments: { query: 'x' }, duration_ms: 2_000 },
      { type: 'error', error: { message: 'no route' }, message: 'no route', tool: 'search' },
    ],
    'a tool that failed, named by its span',
  );
  t.match(
    made(span('a', { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.usage.input_tokens': 5 })),
    [{ type: 'custom', kind: 'invoke_agent', usage: { input_tokens: 5 }, tokens_used: undefined }],
    'sums of agents are no usage of their own',
  );
  for (const [attributes, kind] of [
    [{ 'openinference.span.kind': 'RETRIEVER', 'gen_ai.operation.name': 'chat' }, 'retrieval'],
    [{ 'openinference.span.kind': 'CHAIN' }, 'invoke_workflow'],
    [{ 'gen_ai.operation.name': 'search_memory' }, 'search_memory'],
    [{ 'traceloop.span.kind': 'agent' }, 'invoke_agent'],
    [{ 'llm.request.type': 'embedding' }, 'embeddings'],
    [{ 'ai.operationId': 'ai.embed.doEmbed' }, 'embeddings'],
  ] as const)
    t.match(made(span('x', attributes)), [{ type: 'custom', kind }], JSON.stringify(attributes));
  t.match(made(span('tools/call add', { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'add' })), [
    { type: 'tool_call', tool: 'add' },
  ]);
  t.match(
    made(span('llm', { 'llm.request.type': 'chat', 'llm.usage.total_tokens': 9, 'gen_ai.usage.prompt_tokens': 4 })),
    [{}, { token_count: 4, tokens_used: 9 }],
    'a sum and one part',
  );
  t.match(
    made(span('claude_code.llm_request', { model: 'c', input_tokens: 2, cache_read_tokens: 10, output_tokens: 1 })),
    [{ model: 'c' }, { token_count: 12, tokens_used: 13, cached_tokens: 10 }],
    'bare counts are without what came from the cache',
  );
  t.match(made(span('mine', { 'gatehouse.event.type': 'custom', 'gatehouse.event.payload': '{"a":1}' })), [
    { type: 'custom', a: 1 },
  ]);
  for (const attributes of [
    {},
    { 'http.method': 'GET' },
    { 'gen_ai.operation.name': 'agent_step' },
    { 'traceloop.span.kind': 'task' },
  ])
    t.same(made(span('other', attributes)), [], 'of no interest');
  t.end();
});

t.test('whose a span is', (t) => {
  const nano = (ms: number) => `${ms}000000`;
  const chat = (spanId: string, parentSpanId: string, more: Record<string, string> = {}) => ({
    ...{
      traceId: 'a'.repeat(32),
      spanId: spanId.repeat(16),
      ...(parentSpanId && { parentSpanId: parentSpanId.repeat(16) }),
    },
    ...{ name: 'chat', startTimeUnixNano: nano(Date.now()), endTimeUnixNano: nano(Date.now()) },
    attributes: Object.entries({ 'gen_ai.operation.name': 'chat', ...more }).map(([key, stringValue]) => ({
      key,
      value: { stringValue },
    })),
  });
  const agents = (spans: unknown[], resource: Record<string, string> = {}, boundTo?: string) => {
    const attributes = Object.entries(resource).map(([key, stringValue]) => ({ key, value: { stringValue } }));
    const request = { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ scope: { name: 's' }, spans }] }] };
    const found = readSpans({ body: Buffer.from(JSON.stringify(request)), form: 'json' }, { ...OPTIONS, boundTo });
    const groups = groupsOf(found, new Map());
    if (groups.length === 0) throw nothingKept(found);
    return groups.map(({ agent, spans }) => [Object.values(agent)[0], spans.length]);
  };
  const service = { 'service.name': 'service' };
  t.same(agents([chat('1', '')], service), [['service', 1]]);
  t.same(agents([chat('1', '', { 'gen_ai.agent.name': 'planner' }), chat('2', '1'), chat('3', '2')], service), [
    ['planner', 3],
  ]);
  t.same(
    agents(
      [chat('3', '2'), chat('2', '1'), chat('1', '', { 'gatehouse.agent.id': 'agt_x', 'gen_ai.agent.name': 'n' })],
      service,
    ),
    [['agt_x', 3]],
    'an ancestor may come later in the request',
  );
  t.same(agents([chat('1', '2'), chat('2', '1')], service), [['service', 2]], 'a circle of parents ends');
  t.same(agents([chat('1', '')], { ...service, 'gen_ai.main_agent.name': 'main' }), [['main', 1]]);
  t.same(agents([chat('1', '', { 'ai.telemetry.functionId': 'f' })], service), [['f', 1]]);
  t.same(agents([chat('1', '', { 'gen_ai.agent.name': 'other' })], service, 'agt_mine'), [['agt_mine', 1]]);
  t.throws(() => agents([chat('1', '')], { 'service.name': 'unknown_service:node' }), /no agent is named/);
  t.end();
});
