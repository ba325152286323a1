// One bad span costs one span: each fault in each place and form beside sound spans, with the place that is named; what
// is lawful in another spelling is read; and what stands in place of spans is refused.
import protobuf from 'protobufjs';
import t, { type Test } from 'tap';
import { exactJson } from '../../src/common/exact-json.ts';
import { decodeJson } from '../../src/otlp/decode-json.ts';
import { decodeProtobuf } from '../../src/otlp/decode-protobuf.ts';
import { eventsOf } from '../../src/otlp/events-of.ts';
import { ATTRIBUTES_MAX, type DecodedSpans, type TraceSpan, Undecodable } from '../../src/otlp/span.ts';
import { span } from '../support/otlp-spans.ts';

type Json = { [key: string]: unknown };

const ids = {
  traceId: 'a'.repeat(32),
  spanId: 'b'.repeat(16),
  name: 'sound',
  startTimeUnixNano: '1760000000000000000',
};
const spanWithValue = (value: unknown) => ({ ...ids, attributes: [{ key: 'a', value }] });
const requestOf = (spans: unknown[], resource: unknown = {}) => ({
  resourceSpans: [{ resource, scopeSpans: [{ spans }] }, { scopeSpans: [{ spans: [ids] }] }],
});
const decoded = (request: unknown) => decodeJson(Buffer.from(JSON.stringify(request)));
const nested = (depth: number): Json =>
  depth === 0 ? { boolValue: true } : { arrayValue: { values: [nested(depth - 1)] } };
const many = (name: (i: number) => string) =>
  Array.from({ length: ATTRIBUTES_MAX + 100 }, (_, i) => ({ key: name(i), value: { intValue: '1' } }));

const BAD_VALUES: unknown[] = [
  ...['text', 5, [], { intValue: 3.5 }, { intValue: '' }, { intValue: 'x' }, { intValue: '1e400' }, { intValue: true }],
  ...[{ intValue: '99999999999999999999999' }, { doubleValue: '0,7' }, { doubleValue: '' }, { doubleValue: true }],
  ...[{ doubleValue: 'infinity' }, { doubleValue: ' 1' }, { boolValue: 'true' }, { boolValue: 1 }, { stringValue: 5 }],
  ...[{ bytesValue: 1 }, { arrayValue: [1] }, { arrayValue: { values: 5 } }, { kvlistValue: { values: [{ key: 5 }] } }],
  ...[{ kvlistValue: 5 }, { unknownValue: 1 }, { stringvalue: 'x' }, { stringValue: 'a', intValue: 1 }, nested(100)],
];
const PLACES: Record<string, (value: unknown) => Json> = {
  '/attributes/0/value': spanWithValue,
  '/attributes/0/value/arrayValue/values/0': (value) => spanWithValue({ arrayValue: { values: [value] } }),
  '/attributes/0/value/kvlistValue/values/0/value': (value) =>
    spanWithValue({ kvlistValue: { values: [{ key: 'b', value }] } }),
  '/events/0/attributes/0/value': (value) => ({ ...ids, events: [{ name: 'e', attributes: [{ key: 'a', value }] }] }),
};

function holds(t: Test, { spans, faults }: DecodedSpans, of: { expected: RegExp; what: string }): void {
  t.same([spans.length, faults.length], [3, 1], of.what);
  t.match(faults[0], of.expected, of.what);
}

t.test('a bad value rejects its span, wherever it stands, and names the place', (t) => {
  for (const bad of BAD_VALUES)
    for (const [place, spanWith] of Object.entries(PLACES)) {
      const faulty = decoded(requestOf([ids, spanWith(bad), ids]));
      const at = new RegExp(`^/resourceSpans/0/scopeSpans/0/spans/1${place}`);
      holds(t, faulty, { expected: at, what: `${JSON.stringify(bad).slice(0, 60)} at ${place}` });
    }
  t.end();
});

t.test('a bad member rejects its span', (t) => {
  const bad: [unknown, string][] = [
    ...['traceId', 'spanId', 'parentSpanId', 'name'].flatMap((name): [unknown, string][] => [
      [{ ...ids, [name]: 5 }, `/${name} is no text`],
      [{ ...ids, [name]: ['a'] }, `/${name} is no text`],
    ]),
    ...['2026-11-28T00:00:00Z', '17.5', '', 'x', -1, '-1', 1.5, true, {}].map((time): [unknown, string] => [
      { ...ids, startTimeUnixNano: time },
      '/startTimeUnixNano is no time in ns',
    ]),
    ...[null, 'text', 5, []].map((span): [unknown, string] => [span, ' is no object']),
    [{ ...ids, endTimeUnixNano: '2026-11-28' }, '/endTimeUnixNano is no time'],
    [{ ...ids, attributes: {} }, '/attributes is no array'],
    [{ ...ids, attributes: ['a'] }, '/attributes/0 is no object'],
    [{ ...ids, attributes: many((i) => `k${i}`) }, ' has more than 2048 attributes'],
    [{ ...ids, events: {} }, '/events is no array'],
    [{ ...ids, events: [5] }, '/events/0 is no object'],
    [{ ...ids, events: [{ timeUnixNano: 'x' }] }, '/events/0/timeUnixNano is no time'],
    [{ ...ids, events: Array.from({ length: 2_049 }, () => ({})) }, '/events has more than 2048'],
    [{ ...ids, status: 5 }, '/status is no object'],
    [{ ...ids, status: { code: 'ERROR' } }, '/status/code is no code'],
    [{ ...ids, trace_id: ids.traceId }, '/traceId is there by its other name as well'],
  ];
  for (const [span, message] of bad)
    holds(t, decoded(requestOf([ids, span, ids])), {
      expected: new RegExp(`^/resourceSpans/0/scopeSpans/0/spans/1${message}`),
      what: `${JSON.stringify(span)?.slice(0, 80)}`,
    });
  const cut = Buffer.from(JSON.stringify(requestOf([ids, { ...ids, name: 'half \u00e9' }, ids])));
  cut[cut.indexOf(Buffer.from('\u00e9')) + 1] = 0x22; // the second byte of the letter is the closing quote
  const fixed = Buffer.concat([cut.subarray(0, cut.indexOf(0xc3) + 2), cut.subarray(cut.indexOf(0xc3) + 3)]);
  const { spans, faults } = decodeJson(fixed);
  t.same([spans.length, faults.length, spans[1]!.name], [4, 0, 'half \ufffd'], 'a name that was cut in a character');
  t.end();
});

t.test('a bad resource or scope rejects its own spans', (t) => {
  for (const resource of [5, { attributes: 5 }, { attributes: [{ key: 'a', value: { intValue: 3.5 } }] }]) {
    const { spans, faults } = decoded(requestOf([ids, ids], resource));
    t.same([spans.length, faults.length], [1, 2], JSON.stringify(resource));
    t.match(faults[0], /^\/resourceSpans\/0\/resource/);
  }
  const { spans, faults } = decoded({
    resourceSpans: [{ scopeSpans: [{ scope: { name: 5 }, spans: [ids, ids] }, { spans: [ids] }] }],
  });
  t.same([spans.length, faults], [1, Array(2).fill('/resourceSpans/0/scopeSpans/0/scope/name is no text')]);
  t.end();
});

t.test('in protobuf, too', (t) => {
  const message = (write: (writer: protobuf.Writer) => protobuf.Writer) => write(new protobuf.Writer()).finish();
  const within = (field: number, bytes: Uint8Array) => message((writer) => writer.uint32(field * 8 + 2).bytes(bytes));
  const sound = Buffer.concat([
    within(1, Buffer.alloc(16, 1)),
    within(2, Buffer.alloc(8, 1)),
    within(5, Buffer.from('s')),
  ]);
  const attribute = (value: Uint8Array, key = 'a') =>
    within(9, Buffer.concat([within(1, Buffer.from(key)), within(2, value)]));
  let deep: Uint8Array = Uint8Array.of(0x10, 1);
  for (let i = 0; i < 100; i++) deep = within(5, within(1, deep));
  const cases: [Uint8Array, RegExp][] = [
    [Uint8Array.of(0x28, 1), /field 5 has wire type 0/],
    [attribute(deep), /nested deeper than 64/],
    [attribute(Uint8Array.of(0x08, 1)), /value of kind 1 has wire type 0/],
    [attribute(Uint8Array.of(0x48, 1)), /no kind that is known/],
    [Uint8Array.of(0x4a, 50, 0x0a), /cut off|longer than/],
    [Uint8Array.of(0x4a, 3, 0x0a, 9, 1), /longer than|cut off/],
    [Uint8Array.of(0x0f), /./],
    [
      Buffer.concat(many((i) => `k${i}`).map(({ key }) => attribute(Uint8Array.of(0x18, 1), key))),
      /more than 2048 attr/,
    ],
    [Buffer.concat(Array.from({ length: 2_049 }, () => within(11, Buffer.alloc(0)))), /more than 2048 events/],
  ];
  const request = (...spans: Uint8Array[]) => within(1, within(2, Buffer.concat(spans.map((span) => within(2, span)))));
  for (const [bad, expected] of cases) {
    const body = request(sound, Buffer.concat([sound, bad]), sound);
    const { spans, faults } = decodeProtobuf(body);
    t.same([spans.length, faults.length], [2, 1], String(expected));
    t.match(faults[0], expected);
    t.match(faults[0], /^\/resourceSpans\/0\/scopeSpans\/0\/spans\/1/);
  }
  const resource = within(1, within(1, within(2, deep)));
  const both = Buffer.concat([within(1, Buffer.concat([within(2, within(2, sound)), resource])), request(sound)]);
  const { spans, faults } = decodeProtobuf(both);
  t.same([spans.length, faults.length], [1, 1], 'a bad resource behind its spans');
  t.match(faults[0], /^\/resourceSpans\/0\/resource: a value is nested deeper/);
  const before = within(1, within(1000, within(2, sound)));
  t.equal(decodeProtobuf(before).spans.length, 1, 'the number that scope spans had before');
  t.end();
});

t.test('lawful spellings of values are read, with every digit', (t) => {
  for (const [value, expected] of [
    ['{"doubleValue":"0.7"}', '0.7'],
    ['{"doubleValue":"1e5"}', '100000'],
    ['{"doubleValue":"-0.5"}', '-0.5'],
    ['{"doubleValue":5}', '5'],
    ['{"doubleValue":0.30000000000000004}', '0.30000000000000004'],
    ['{"doubleValue":"0.30000000000000004"}', '0.30000000000000004'],
    ['{"doubleValue":12345678901234567890}', '12345678901234567890'],
    ['{"doubleValue":1e400}', '1e400'],
    ['{"doubleValue":"NaN"}', '"NaN"'],
    ['{"doubleValue":"-Infinity"}', '"-Infinity"'],
    ['{"double_value":"0.7"}', '0.7'],
    ['{"intValue":9007199254740993}', '9007199254740993'],
    ['{"intValue":"9007199254740993"}', '9007199254740993'],
    ['{"intValue":"-9223372036854775808"}', '-9223372036854775808'],
    ['{"int_value":"18446744073709551615"}', '18446744073709551615'],
    ['{"intValue":"3.0"}', '3'],
    ['{"intValue":3e2}', '300'],
    ['{"intValue":"1e3"}', '1000'],
    ['{"intValue":"007"}', '7'],
    ['{"boolValue":false}', 'false'],
    ['{"bool_value":true}', 'true'],
    ['{"string_value":"a"}', '"a"'],
    ['{"bytes_value":"YQ=="}', '"YQ=="'],
    ['{"array_value":{"values":[{"int_value":1},{}]}}', '[1,null]'],
    ['{"kvlist_value":{"values":[{"key":"k","value":{"double_value":"2"}}]}}', '{"k":2}'],
    ['{"stringValue":null,"intValue":"5"}', '5'],
    ['{"stringValue":null}', 'null'],
    ['{"futureValue":null}', 'null'],
    ['{}', 'null'],
    ['null', 'null'],
  ] as const) {
    const span = `{"spanId":"b","attributes":[{"key":"a","value":${value}}]}`;
    const { spans, faults } = decodeJson(Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${span}]}]}]}`));
    t.same(faults, [], value);
    t.equal(exactJson(spans[0]?.attributes.get('a')), expected, value);
  }
  for (const time of [
    '1760000000123456000',
    '"1760000000123456000"',
    '"1760000000123456000.0"',
    '1.760000000123456e18',
  ])
    t.equal(
      decodeJson(Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":${time}}]}]}]}`))
        .spans[0]!.startMs,
      1_760_000_000_123.456,
      time,
    );
  t.end();
});

t.test('numbered attributes over the bound are left out and counted; what says whose it is stays', (t) => {
  const tokens = { key: 'gen_ai.usage.input_tokens', value: { intValue: '7' } };
  for (const attributes of [
    [...many((i) => `llm.input_messages.${i}.message.content`), tokens],
    [tokens, ...many((i) => `gen_ai.prompt.${i}`)],
  ]) {
    const [span] = decoded({ resourceSpans: [{ scopeSpans: [{ spans: [{ ...ids, attributes }] }] }] }).spans;
    t.same(
      [span!.attributes.get(tokens.key), span!.attributes.size, span!.attributesLeftOut],
      [7, 1, ATTRIBUTES_MAX + 100],
    );
  }
  t.end();
});

t.test('what stands in place of spans is read by its other names, or refused', (t) => {
  const spans = [{ traceId: ids.traceId, spanId: ids.spanId }];
  for (const request of [
    { resource_spans: [{ scope_spans: [{ spans }] }] },
    { resourceSpans: [{ scope_spans: [{ spans: [{ trace_id: ids.traceId, span_id: ids.spanId }] }] }] },
    { resourceSpans: [{ instrumentationLibrarySpans: [{ instrumentationLibrary: { name: 'l' }, spans }] }] },
    { resource_spans: [{ instrumentation_library_spans: [{ instrumentation_library: { name: 'l' }, spans }] }] },
    { resourceSpans: [{ schema_url: 'x', more: 1, scopeSpans: [{ spans, more: 1 }] }], more: 1 },
  ]) {
    const found = decoded(request).spans;
    t.same([found.length, found[0]?.traceId], [1, ids.traceId], JSON.stringify(request));
    t.equal(found[0]?.scope, JSON.stringify(request).includes('ibrary') ? 'l' : '');
  }
  for (const request of [{}, { resourceSpans: [] }, { resourceSpans: null }, { resourceSpans: [{}] }])
    t.same(decoded(request), { spans: [], faults: [] }, `${JSON.stringify(request)} says nothing`);
  for (const [request, message] of [
    [{ data: { resourceSpans: [] } }, /there is \/data, which is not known, and no \/resourceSpans/],
    [{ resourceLogs: [] }, /\/resourceLogs/],
    [{ resourceMetrics: [{}] }, /\/resourceMetrics/],
    [{ ResourceSpans: [] }, /\/ResourceSpans/],
    [{ spans }, /\/spans/],
    [{ batch: [] }, /\/batch/],
    [{ resourceSpans: [{ spans }] }, /\/resourceSpans\/0\/spans, which is not known, and no .*scopeSpans/],
    [{ resourceSpans: [{ resource: {}, scopeLogs: [] }] }, /\/resourceSpans\/0\/scopeLogs/],
    [{ resourceSpans: [{ scopeSpans: [{ span: spans }] }] }, /\/scopeSpans\/0\/span,/],
    [{ resourceSpans: {} }, /\/resourceSpans is no array/],
    [{ resourceSpans: [5] }, /\/resourceSpans\/0 is no object/],
    [{ resourceSpans: [], resource_spans: [] }, /by its other name as well/],
  ] as const)
    t.throws(() => decoded(request), { name: Undecodable.name, message }, JSON.stringify(request));
  t.end();
});

t.test('names that every object has, and values of odd kinds, cost no other span', (t) => {
  const names = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'];
  const odd = { type: { toString: 1 }, role: { toString: 1 }, name: { toString: 1 } };
  for (const name of names) {
    for (const mark of [
      'gen_ai.operation.name',
      'openinference.span.kind',
      'traceloop.span.kind',
      'langsmith.span.kind',
    ])
      for (const more of [{}, { 'gen_ai.tool.name': name, 'gen_ai.request.model': name }])
        for (const { payload } of eventsOf([span('s', { [mark]: name, ...more })]).flat())
          t.ok(exactJson(payload), `${mark} ${name}`);
    const [sent] = eventsOf([
      span('chat', {
        'gen_ai.operation.name': 'chat',
        'gen_ai.input.messages': JSON.stringify([{ type: name, content: 'x' }, odd, { parts: [odd], role: 'user' }]),
        'gen_ai.output.messages': JSON.stringify([{ role: 'assistant', tool_calls: [{ ...odd, function: odd }] }]),
        events: JSON.stringify([{ 'event.name': { toString: 1 }, content: 'y' }]),
        'langfuse.observation.type': '{"toString":1}',
      }),
    ]);
    t.equal(sent?.[0]?.type, 'prompt', name);
  }
  const deep = `${'['.repeat(100_000)}1e999${']'.repeat(100_000)}`;
  for (const name of ['gen_ai.tool.call.arguments', 'gen_ai.input.messages', 'events', 'gen_ai.tool.call.result'])
    t.ok(
      eventsOf([span('t', { 'gen_ai.tool.name': 'x', 'gen_ai.request.model': 'm', [name]: deep })]).flat().length > 0,
    );
  holds(t, decoded(requestOf([{ ...ids, status: { code: { toString: 1 } } }, ids, ids])), {
    ...{ expected: /status\/code is no code of a status/, what: 'a code' },
  });
  t.end();
});

t.test('what all spans of a resource or scope carry is bounded', (t) => {
  const large = { attributes: [{ key: 'service.name', value: { stringValue: 'x'.repeat(40_000) } }] };
  const scopeSpans = [{ scope: { name: 's'.repeat(1_000) }, spans: [ids] }];
  const request = { resourceSpans: [{ resource: large, scopeSpans }, { scopeSpans }] };
  const { spans, faults } = decoded(request);
  t.match(faults, [/^\/resourceSpans\/0\/resource is larger than 32768 characters$/]);
  t.equal(spans.length, 1);
  t.equal(spans[0]!.scope.length, 200);
  t.end();
});

t.test('a call that comes twice in one request counts once', (t) => {
  const call = (spanId: string, parentSpanId: string, tokens: number) =>
    span('chat', { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': tokens }, { spanId, parentSpanId });
  const [outer, inner] = [call('1'.repeat(16), '', 150), call('2'.repeat(16), '1'.repeat(16), 100)];
  const tokensOf = (spans: TraceSpan[]) => {
    const seen = new Set<string>();
    return eventsOf(spans).flatMap((events, i) => {
      const { spanId } = spans[i]!;
      if (seen.has(spanId)) return [];
      seen.add(spanId);
      return events.map(({ payload }) => Number(payload['tokens_used'] ?? 0));
    });
  };
  const sum = (spans: TraceSpan[]) => tokensOf(spans).reduce((all, one) => all + one, 0);
  t.equal(sum([outer, inner]), 150);
  for (const twice of [
    [outer, outer, inner],
    [outer, inner, inner],
    [inner, outer, inner],
    [inner, inner, outer, outer],
  ])
    t.equal(sum(twice), 150, twice.map(({ spanId }) => spanId[0]).join());
  t.end();
});
