// The decoders of spans: protobuf as protobufjs writes it against the JSON form of the same request; bad input of every
// kind; and mutated requests, which may be refused and nothing else.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import protobuf from 'protobufjs';
import t from 'tap';
import { exactJson } from '../../src/common/exact-json.ts';
import { decodeJson } from '../../src/otlp/decode-json.ts';
import { decodeProtobuf } from '../../src/otlp/decode-protobuf.ts';
import { ATTRIBUTES_MAX, DEPTH_MAX, type DecodedSpans, SPANS_MAX, Undecodable } from '../../src/otlp/span.ts';
import { groupsOf, nothingKept, readSpans } from '../../src/otlp/span-groups.ts';
import { assetPath } from '../../src/process/assets.ts';
import { encode } from '../support/otlp-protobuf.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';

type Json = Record<string, unknown>;

const random = randomFrom(SEED);
const below = (n: number) => Math.floor(random() * n);
const hex = (bytes: number) => Array.from({ length: bytes }, () => below(256).toString(16).padStart(2, '0')).join('');
const text = () => ['', 'a', 'gen_ai.operation.name', 'é日本😀', '__proto__', 'x'.repeat(300)][below(6)]!;

function anyValue(depth: number): Json {
  switch (below(depth > 3 ? 5 : 7)) {
    case 0:
      return { stringValue: text() };
    case 1:
      return { boolValue: random() < 0.5 };
    case 2:
      return { intValue: ['0', '-1', '9007199254740993', '-9223372036854775808', '42'][below(5)] };
    case 3:
      return { doubleValue: [0.5, -1e300, 7, 'NaN', '-Infinity'][below(5)] };
    case 4:
      return { bytesValue: Buffer.from(hex(below(5)), 'hex').toString('base64') };
    case 5:
      return { arrayValue: { values: Array.from({ length: below(4) }, () => anyValue(depth + 1)) } };
    default:
      return { kvlistValue: { values: attributes(depth + 1) } };
  }
}

function attributes(depth = 0): Json[] {
  return Array.from({ length: below(5) }, () => ({ key: text(), value: anyValue(depth) }));
}

function randomRequest(): Json {
  const time = () => String(1_760_000_000_000_000_000n + BigInt(below(1e9)));
  const span = () => ({
    ...{ traceId: hex(16), spanId: hex(8), name: text(), kind: below(6) },
    ...(random() < 0.5 ? { parentSpanId: hex(8) } : {}),
    ...{ startTimeUnixNano: time(), endTimeUnixNano: time(), attributes: attributes(), flags: below(300) },
    events: Array.from({ length: below(3) }, () => ({ timeUnixNano: time(), name: text(), attributes: attributes() })),
    ...(random() < 0.5 ? { status: { code: below(3), message: text() } } : {}),
    links: Array.from({ length: below(2) }, () => ({ traceId: hex(16), spanId: hex(8) })),
  });
  return {
    resourceSpans: Array.from({ length: below(3) }, () => ({
      resource: { attributes: attributes(), droppedAttributesCount: below(3) },
      scopeSpans: Array.from({ length: below(3) }, () => ({
        scope: { name: text(), version: '1', attributes: attributes() },
        spans: Array.from({ length: below(4) }, span),
      })),
    })),
  };
}

/** With every digit, and Maps in their order. */
function written({ spans, faults }: DecodedSpans): string {
  const plain = (value: unknown): unknown =>
    value instanceof Map
      ? [...value].map(([key, of]) => [key, plain(of)])
      : Array.isArray(value)
        ? value.map(plain)
        : value;
  const fields = (of: object) =>
    Object.fromEntries(
      Object.entries(of)
        .map(([key, value]) => [key, plain(value)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  return exactJson([spans.map((span) => ({ ...fields(span), events: span.events.map(fields) })), faults]);
}

/** By the names that protobuf itself has. */
function withOwnNames(request: unknown): unknown {
  if (Array.isArray(request)) return request.map(withOwnNames);
  if (typeof request !== 'object' || request === null) return request;
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(request).map(([name, value]) => [snake(name), withOwnNames(value)]));
}

t.test('both forms of a request are read alike, by either kind of names', (t) => {
  for (let i = 0; i < runs(3_000); i++) {
    const request = randomRequest();
    const json = written(decodeJson(Buffer.from(JSON.stringify(request))));
    const binary = written(decodeProtobuf(encode(request)));
    const snake = written(decodeJson(Buffer.from(JSON.stringify(withOwnNames(request)))));
    if (json === binary && json === snake) continue;
    t.fail(`seed ${SEED}, request ${i}`, { json, binary, snake });
    break;
  }
  t.pass(`seed ${SEED}`);
  t.end();
});

const OPTIONS = { boundTo: undefined, isTimely: () => true };

function refusal(body: Uint8Array, form: 'json' | 'protobuf'): { message: string; tooLarge: boolean } {
  try {
    const found = readSpans({ body, form }, OPTIONS);
    if (groupsOf(found, new Map()).length === 0 && found.rejected > 0) throw nothingKept(found);
  } catch (error) {
    if (error instanceof Undecodable) return { message: error.message, tooLarge: error.tooLarge };
    throw error;
  }
  return { message: 'taken', tooLarge: false };
}

const nested = (depth: number): Json =>
  depth === 0 ? { boolValue: true } : { arrayValue: { values: [nested(depth - 1)] } };
const requestOf = (...spans: Json[]): Json => ({ resourceSpans: [{ scopeSpans: [{ spans }] }] });
const many = (count: number) => Array.from({ length: count }, (_, i) => ({ key: `k${i}`, value: { intValue: '1' } }));

/** One attribute; protobufjs itself goes no deeper than 50. */
function deep(depth: number): Buffer {
  const within = (field: number, bytes: Uint8Array) =>
    new protobuf.Writer()
      .uint32(field * 8 + 2)
      .bytes(bytes)
      .finish();
  let value: Uint8Array = Uint8Array.of(0x10, 1);
  for (let i = 0; i < depth; i++) value = within(5, within(1, value));
  const attribute = within(9, within(2, value));
  return Buffer.from(within(1, within(2, within(2, attribute))));
}

t.test('bad input is refused with its reason', (t) => {
  const both = (request: Json, expected: { message: RegExp; tooLarge?: boolean }, name: string) => {
    t.match(refusal(encode(request), 'protobuf'), expected, `${name}, protobuf`);
    t.match(refusal(Buffer.from(JSON.stringify(request)), 'json'), expected, `${name}, JSON`);
  };
  both(requestOf({ attributes: many(ATTRIBUTES_MAX + 1) }), { message: /more than 2048/ }, 'attributes');
  both(requestOf({ attributes: many(10_000) }), { message: /more than 2048/ }, '10,000 attributes');
  t.match(refusal(deep(100), 'protobuf').message, /nested deeper than 64/);
  t.match(
    refusal(Buffer.from(JSON.stringify(requestOf({ attributes: [{ key: 'a', value: nested(100) }] }))), 'json').message,
    /nested deeper than 64/,
  );
  const deepest = requestOf({ attributes: [{ key: 'a', value: nested(DEPTH_MAX) }] });
  t.match(refusal(Buffer.from(JSON.stringify(deepest)), 'json').message, /^taken/, 'depth at its bound');
  t.match(refusal(deep(DEPTH_MAX), 'protobuf').message, /^taken/);
  both(
    requestOf(...Array.from({ length: SPANS_MAX + 1 }, () => ({}))),
    { message: /more than 8192 spans/, tooLarge: true },
    'spans',
  );
  const chat = { attributes: [{ key: 'gen_ai.operation.name', value: { stringValue: 'chat' } }], spanId: hex(8) };
  both(requestOf({ ...chat, traceId: hex(15) }), { message: /a trace id is not 16 bytes/ }, 'a short id');
  both(requestOf({ ...chat, traceId: '0'.repeat(32) }), { message: /a trace id is not 16 bytes/ }, 'no id');

  for (const [body, message] of [
    [Buffer.from('not protobuf'), /ExportTraceServiceRequest/],
    [Buffer.from([0x08, 0x01]), /wire type 0/],
    [Buffer.from([0x12, 0x00]), /no field 2/],
    [Buffer.from([0x0a, 0x05, 0x12]), /cut off/],
    [Buffer.from([0x0a, 0x06, 0x12, 0x04, 0x12, 0x09, 0x0a, 0x00]), /cut off|longer/],
  ] as const)
    t.match(refusal(body, 'protobuf').message, message, body.toString('hex'));
  t.match(refusal(Buffer.from('{"resourceSpans":'), 'json').message, /it is no JSON/);
  t.match(refusal(Buffer.from('[]'), 'json').message, /no JSON object/);
  t.match(refusal(Buffer.from([0x7b, 0xff, 0x7d]), 'json').message, /it is no JSON/);
  t.match(
    refusal(Buffer.from('{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":5}]}]}]}'), 'json').message,
    /\/resourceSpans\/0\/scopeSpans\/0\/spans\/0\/name is no text/,
    'JSON says where',
  );
  t.match(refusal(Buffer.alloc(0), 'protobuf').message, /^taken/, 'no spans at all');
  t.end();
});

t.test('mutated requests are taken or refused', (t) => {
  const folder = assetPath('test/otlp/golden');
  const bodies = readdirSync(folder)
    .filter((file) => /(?<!\.events)\.(bin|json)$/.test(file))
    .map(
      (file) =>
        ({ body: readFileSync(path.join(folder, file)), form: file.endsWith('.json') ? 'json' : 'protobuf' }) as const,
    );
  let taken = 0;
  for (let i = 0; i < runs(20_000); i++) {
    const { body: sound, form } = bodies[below(bodies.length)]!;
    const body = Buffer.from(sound);
    for (let change = below(4); change >= 0; change--) body[below(body.length)] = below(256);
    const cut = random() < 0.3 ? body.subarray(0, below(body.length)) : body;
    if (refusal(cut, form).message === 'taken') taken++;
  }
  t.ok(taken > 0, `seed ${SEED}`);
  t.end();
});
