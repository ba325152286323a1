// Reading JSON from the wire: what is refused, and that marked payloads are the caller's own text.
import fc from 'fast-check';
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { parseJson, parseMarked } from '../../src/ingest/json.ts';
import { runs, SEED } from '../support/seed.ts';

const bytes = (text: string) => Buffer.from(text);
const payloadsOf = (text: string, shape: 'one' | 'many') => {
  const parsed = parseMarked(bytes(text), shape);
  return parsed.payloads.map((mark) => mark && parsed.text.slice(mark[0], mark[1]));
};

t.test('ambiguous or broken JSON is refused as malformed_json, and nothing else is ever thrown', async (t) => {
  const deep = (n: number) => '['.repeat(n) + ']'.repeat(n);
  const refused: [string, Buffer][] = [
    ['empty', bytes('')],
    ['cut off', bytes('{"a":1')],
    ['open string', bytes('{"a":"')],
    ['a key twice', bytes('{"a":1,"a":2}')],
    ['a key twice, escaped differently', bytes('{"a":1,"\\u0061":2}')],
    ['a key twice, deep inside', bytes('[{"x":[{"k":1,"k":1}]}]')],
    ['__proto__ twice', bytes('{"__proto__":1,"__proto__":2}')],
    ['65 levels', bytes(deep(65))],
    ['half a million levels', bytes('['.repeat(500_000))],
    ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0x80, 0x22])],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes('{}')])],
    ['NaN', bytes('NaN')],
    ['trailing comma', bytes('[1,]')],
  ];
  for (const [name, body] of refused) t.throws(() => parseJson(body), { code: 'malformed_json' }, name);
  t.same(parseJson(bytes(deep(64))), JSON.parse(deep(64)), '64 levels are allowed');

  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: fc.constantFrom(...'{}[]",:\\ upayload1e') }), fc.json()), (text) => {
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        expected = undefined;
      }
      try {
        const value = parseJson(bytes(text));
        return JSON.stringify(value) === JSON.stringify(expected);
      } catch (error) {
        return error instanceof ServiceError && error.code === 'malformed_json';
      }
    }),
    { seed: SEED, numRuns: runs(5000) },
  );
});

t.test('objects with distinct keys are never refused', async () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 8 }), fc.integer({ min: 0, max: 3 }), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      return JSON.stringify(parseJson(bytes(text))) === JSON.stringify(JSON.parse(text));
    }),
    { seed: SEED, numRuns: runs(2000) },
  );
});

t.test('the payload of an event is cut out as it was sent', async (t) => {
  t.same(payloadsOf('{"type":"prompt","payload":{"b":1.0,"a":1e400}}', 'one'), ['{"b":1.0,"a":1e400}']);
  t.same(payloadsOf('{ "payload" : {"payload":{"payload":1}} , "type":"x" }', 'one'), ['{"payload":{"payload":1}}']);
  t.same(payloadsOf('{"p\\u0061yload":{"x":"}"}}', 'one'), ['{"x":"}"}'], 'an escaped key is still the key');
  t.same(payloadsOf('{"type":"payload","payload":{"q":"\\"payload\\":"}}', 'one'), ['{"q":"\\"payload\\":"}']);
  t.same(payloadsOf('[{"payload":{"a":1}},{"type":"x"},{"payload":[1,2]}]', 'many'), ['{"a":1}', undefined, '[1,2]']);
  t.same(payloadsOf('{"events":[{"payload":{"a":[1,{"b":2}]},"type":"t"}, 5 ,{"payload":{}}]}', 'many'), [
    '{"a":[1,{"b":2}]}',
    undefined,
    '{}',
  ]);
  t.same(payloadsOf('{"payload":{"s":"é\u{1F600}"}}', 'one'), ['{"s":"é\u{1F600}"}']);
});

t.test('payloads of any batch come back as they were sent', async () => {
  const event = fc.record(
    { type: fc.string(), payload: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 })), trace_id: fc.string() },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(fc.array(event), fc.boolean(), fc.integer({ min: 0, max: 2 }), (events, bare, indent) => {
      const text = JSON.stringify(bare ? events : { events }, null, indent);
      const cut = payloadsOf(text, 'many');
      return events.every((e, i) => {
        if (e.payload === undefined) return cut[i] === undefined;
        return JSON.stringify(JSON.parse(cut[i]!)) === JSON.stringify(e.payload);
      });
    }),
    { seed: SEED, numRuns: runs(500) },
  );
});
