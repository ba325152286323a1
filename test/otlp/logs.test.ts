// Log records of generative AI, in both forms: which events come of them, that those of a call are one, and what a bad
// one costs.
import t from 'tap';
import { Undecodable } from '../../src/otlp/span.ts';
import { groupsOf, partsOf, readSpans, type SentSpans } from '../../src/otlp/span-groups.ts';
import { anyValue, attributesOf, encode } from '../support/otlp-protobuf.ts';

type Json = Record<string, unknown>;
const OPTIONS = { boundTo: undefined, isTimely: (ms: number) => ms > 0 };

function groupSpans(sent: SentSpans, options: typeof OPTIONS) {
  const found = readSpans(sent, options);
  const groups = groupsOf(found, new Map());
  const parts = groups.flatMap(({ spans }) => [...partsOf(spans, 1_048_576)]);
  const { spans, ignored, rejected, reasons } = found;
  const events = parts.flat().flatMap((part) => part.events);
  events.sort((a, b) => a.occurredAt - b.occurredAt);
  return { spans, ignored, rejected, reasons, events };
}
const TRACE = 'ab'.repeat(16);
const CARD = '4111 1111 1111 1111';

let times = 0;
type Given = { body?: unknown; attributes?: Json; span?: string; more?: Json };

function record(eventName: string, { body, attributes = {}, span = '01'.repeat(8), more = {} }: Given = {}): Json {
  return {
    timeUnixNano: `${1_795_000_000_000 + ++times}000000`,
    ...(eventName === '' ? {} : { eventName }),
    ...(body === undefined ? {} : { body: anyValue(body) }),
    ...(span === '' ? {} : { traceId: TRACE, spanId: span }),
    attributes: attributesOf(attributes),
    ...more,
  };
}

function requestOf(...logRecords: Json[]): Json {
  const resource = { attributes: attributesOf({ 'service.name': 'bot' }) };
  return { resourceLogs: [{ resource, scopeLogs: [{ scope: { name: 'instrumentation' }, logRecords }] }] };
}

/** The same of both forms. */
function read(...records: Json[]) {
  const request = requestOf(...records);
  const [json, binary] = [
    groupSpans({ body: Buffer.from(JSON.stringify(request)), form: 'json', signal: 'logs' }, OPTIONS),
    groupSpans({ body: encode(request, 'LogsRequest'), form: 'protobuf', signal: 'logs' }, OPTIONS),
  ];
  t.same(binary, json, 'both forms are read alike');
  const { events } = json;
  return { ...json, events: events.map(({ type, payload, traceId }) => ({ type, traceId, ...payload })) as Json[] };
}

t.test('the events of a call become a prompt and a completion', (t) => {
  const { events, spans, ignored, rejected } = read(
    record('gen_ai.system.message', { body: { content: 'Be brief.' }, attributes: { 'gen_ai.system': 'openai' } }),
    record('gen_ai.user.message', { body: { content: 'drop table users' } }),
    record('gen_ai.choice', {
      body: { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } },
    }),
  );
  t.same([spans, ignored, rejected], [3, 0, 0]);
  t.match(events, [
    {
      type: 'prompt',
      traceId: TRACE,
      provider: 'openai',
      prompt: 'drop table users',
      system: 'Be brief.',
      otel: { span_id: '01'.repeat(8), log_records: 3 },
    },
    { type: 'completion', response: 'ok', finish_reasons: ['stop'] },
  ]);
  t.equal(events.length, 2);
  t.end();
});

t.test('events of the libraries that send them', (t) => {
  const user = { role: 'user', parts: [{ type: 'text', content: 'hi' }] };
  const cases: [name: string, records: Json[], right: Json[]][] = [
    [
      'the conventions today',
      [
        record('gen_ai.client.inference.operation.details', {
          attributes: {
            ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm', 'gen_ai.usage.input_tokens': 3 },
            'gen_ai.input.messages': [user],
            'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: 'ho' }] }]),
            'gen_ai.system_instructions': [{ type: 'text', content: 'Be brief.' }],
          },
        }),
      ],
      [
        { type: 'prompt', model: 'm', prompt: 'hi', system: 'Be brief.' },
        { type: 'completion', response: 'ho', tokens_used: undefined, usage: { input_tokens: 3 } },
      ],
    ],
    [
      'the same in its body',
      [record('gen_ai.client.inference.operation.details', { body: { 'gen_ai.input.messages': [user] } })],
      [{ type: 'prompt', prompt: 'hi' }],
    ],
    [
      'no span, so that its tokens are counted here',
      [
        record('gen_ai.client.inference.operation.details', {
          attributes: {
            'gen_ai.input.messages': [user],
            'gen_ai.usage.input_tokens': 3,
            'gen_ai.usage.output_tokens': 4,
          },
          span: '',
        }),
      ],
      [
        { type: 'prompt', traceId: undefined, prompt: 'hi' },
        { type: 'completion', tokens_used: 7 },
      ],
    ],
    [
      'the name in an attribute',
      [record('', { body: { content: 'hi' }, attributes: { 'event.name': 'gen_ai.user.message' } })],
      [{ type: 'prompt', prompt: 'hi' }],
    ],
    [
      'a name in capitals',
      [record('Gen_AI.User.Message', { body: { content: 'hi' } })],
      [{ type: 'prompt', prompt: 'hi' }],
    ],
    [
      'a body that is JSON text',
      [record('gen_ai.user.message', { body: '{"role":"user","content":"hi"}' })],
      [{ type: 'prompt', prompt: 'hi' }],
    ],
    ['a body that is text', [record('gen_ai.user.message', { body: 'hi' })], [{ type: 'prompt', prompt: 'hi' }]],
    ['a choice that is text', [record('gen_ai.choice', { body: 'ho' })], [{ type: 'completion', response: 'ho' }]],
    [
      'Traceloop, calls beside the message',
      [
        record('gen_ai.choice', {
          body: {
            index: 0,
            message: { content: '', role: 'assistant' },
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'pay', arguments: '{"amount":5000}' } }],
          },
        }),
      ],
      [{ type: 'completion', tool_calls: [{ id: 'c', name: 'pay', arguments: { amount: 5000 } }] }],
    ],
    [
      'OpenLIT',
      [
        record('gen_ai.content.prompt', { attributes: { 'gen_ai.prompt': 'hi' } }),
        record('gen_ai.content.completion', { attributes: { 'gen_ai.completion': 'ho' } }),
      ],
      [
        { type: 'prompt', prompt: 'hi' },
        { type: 'completion', response: 'ho' },
      ],
    ],
    [
      'two calls under the span of an agent',
      [
        record('gen_ai.user.message', { body: { content: 'hi' } }),
        record('gen_ai.choice', { body: { message: { content: 'ho' } } }),
        record('gen_ai.user.message', { body: { content: 'and?' } }),
        record('gen_ai.choice', { body: { message: { content: 'so' } } }),
      ],
      [{ prompt: 'hi' }, { response: 'ho' }, { prompt: 'and?' }, { response: 'so' }],
    ],
    [
      'two spans side by side',
      [
        record('gen_ai.user.message', { body: { content: 'a' } }),
        record('gen_ai.user.message', { body: { content: 'b' }, span: '02'.repeat(8) }),
        record('gen_ai.choice', { body: { message: { content: 'A' } } }),
      ],
      [{ prompt: 'a' }, { prompt: 'b' }, { response: 'A' }],
    ],
    [
      'an evaluation',
      [
        record('gen_ai.evaluation.result', {
          attributes: { 'gen_ai.evaluation.name': 'tone', 'gen_ai.evaluation.score.value': 1 },
        }),
      ],
      [{ type: 'custom', kind: 'evaluation', name: 'tone', score: 1 }],
    ],
    [
      'an exception',
      [
        record('gen_ai.client.operation.exception', {
          attributes: { 'exception.type': 'Timeout', 'exception.message': 'late' },
        }),
      ],
      [{ type: 'error', error: { type: 'Timeout', message: 'late' }, message: 'late' }],
    ],
    [
      'one that no one knows',
      [record('gen_ai.acme.thought', { body: { card: CARD } })],
      [{ type: 'custom', kind: 'gen_ai.acme.thought', input: { card: CARD } }],
    ],
    [
      'a cut body',
      [record('gen_ai.user.message', { body: `{"content":"${CARD}` })],
      [{ type: 'prompt', prompt: undefined, messages: [{ role: 'user', body: `{"content":"${CARD}` }] }],
    ],
  ];
  for (const [name, records, right] of cases) {
    const { events, ignored, rejected } = read(...records);
    t.match(events, right, name);
    t.same([events.length, ignored, rejected], [right.length, 0, 0], name);
    t.notOk(
      events.some((event) => event['content_captured'] === false && event['tokens_used'] === undefined),
      name,
    );
  }
  t.end();
});

t.test('nothing that came is lost, whatever the shape of the body', (t) => {
  const bodies: unknown[] = [
    ...[CARD, { content: CARD }, { strange: CARD }, { message: { content: CARD } }, { message: { strange: CARD } }],
    ...[[CARD], [{ content: CARD }], { content: { text: CARD } }, { content: [{ type: 'text', text: CARD }] }],
    ...[`{"content":"${CARD}"}`, `{"cut":"${CARD}`, { tool_calls: [{ function: { name: 'x', arguments: CARD } }] }],
    ...[{ 'gen_ai.input.messages': [{ role: 'user', content: CARD }] }, { id: 'c', content: CARD }],
  ];
  const names = ['system.message', 'user.message', 'assistant.message', 'tool.message', 'choice', 'content.prompt'];
  for (const name of [...names, 'content.completion', 'client.inference.operation.details', 'acme'])
    for (const body of bodies) {
      const { events } = read(record(`gen_ai.${name}`, { body }));
      if (!JSON.stringify(events).includes(CARD)) t.fail(`${name} ${JSON.stringify(body)}: ${JSON.stringify(events)}`);
    }
  t.end();
});

t.test('what is not kept, and what a bad record costs', (t) => {
  const user = (more: Json = {}) => record('gen_ai.user.message', { body: { content: 'hi' }, more });
  const { ignored, spans, events } = read(
    record('', { body: 'GET /healthz 200' }),
    record('http.request', { body: { path: '/' } }),
    record('gen_ai.user.message', { body: { id: 'c' } }),
    user(),
  );
  t.same([spans, ignored, events.length], [4, 2, 1], 'what is no event of generative AI is counted as ignored');
  t.same(
    read(record('gen_ai.user.message', {}), record('gen_ai.choice', { body: { index: 0 } })).events,
    [],
    'events without their content',
  );
  const observed = user({ timeUnixNano: '0', observedTimeUnixNano: '1795000000000000000' });
  t.equal(read(observed).rejected, 0, 'the time at which it was seen will do');
  for (const [name, bad] of [
    ['no time', user({ timeUnixNano: '0', spanId: '03'.repeat(8) })],
    ['a short id', user({ spanId: '0303' })],
  ] as const) {
    const found = read(bad, user());
    t.same([found.rejected, found.events.length], [1, 1], name);
  }
  const { rejected, reasons } = groupSpans(
    {
      body: Buffer.from(
        JSON.stringify(requestOf(user(), { ...user(), attributes: [{ key: 'a', value: { boolValue: 'x' } }] })),
      ),
      ...{ form: 'json', signal: 'logs' },
    },
    OPTIONS,
  );
  t.equal(rejected, 1);
  t.match(reasons, [/logRecords\/1.*boolValue is no boolean/]);
  const refused = (body: Buffer, form: 'json' | 'protobuf', signal: 'logs' | 'metrics') => () =>
    groupSpans({ body, form, signal }, OPTIONS);
  for (const signal of ['logs', 'metrics'] as const) {
    t.throws(refused(Buffer.from('{"resourceSpans":[]}'), 'json', signal), Undecodable);
    t.throws(refused(Buffer.from('{'), 'json', signal), Undecodable);
    t.throws(refused(Buffer.from('0a05', 'hex'), 'protobuf', signal), Undecodable, `${signal}: cut off`);
    t.throws(refused(Buffer.from('1a00', 'hex'), 'protobuf', signal), Undecodable);
    t.equal(refused(Buffer.alloc(0), 'protobuf', signal)().spans, 0);
  }
  const metrics = { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'x' }] }] }] };
  t.same(refused(Buffer.from(JSON.stringify(metrics)), 'json', 'metrics')().events, []);
  t.end();
});
