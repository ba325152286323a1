// The duration that a row of an event shows: a number that the payload itself says, wherever it stands in a short
// payload and at both ends of a long one, and nothing that stands inside of it or looks like it.
import fc from 'fast-check';
import t from 'tap';
import { eventDuration } from '../../src/common/summary/event-duration.ts';
import { PAYLOAD_HEAD_CHARACTERS, payloadEnds } from '../../src/common/summary/event-summary.ts';
import { SEED } from '../support/seed.ts';

const duration = (payload: string) => eventDuration(payloadEnds(payload));
const LONG = 'x'.repeat(3 * PAYLOAD_HEAD_CHARACTERS);
const OTEL = { span_id: 'a', duration_ms: 7 };

t.test('a number that the payload itself says', async (t) => {
  t.equal(duration('{"tool":"f","duration_ms":1250}'), 1250);
  t.equal(duration('{"duration_ms" : 12.5 , "tool":"f"}'), 12.5);
  t.equal(duration('{"duration_ms":0}'), 0);
  t.equal(duration(JSON.stringify({ duration_ms: 1_250, result: LONG })), 1_250, 'in front of a long result');
  t.equal(duration(JSON.stringify({ result: LONG, duration_ms: 1_250, otel: OTEL })), 1_250, 'behind one');
  t.equal(duration(JSON.stringify({ duration_ms: 1, result: '1'.repeat(9_000) })), 1, 'its digits end the first part');
  t.equal(duration(`${JSON.stringify({ result: LONG, duration_ms: 1_250 })} `), 1_250);
});

t.test('nothing else', async (t) => {
  for (const value of ['"1250"', 'null', '-5', 'true', '[1]', '{"duration_ms":5}', '1e400', '9007199254740993'])
    for (const rest of ['', `,"result":"${LONG}"`])
      t.equal(duration(`{"duration_ms":${value}${rest}}`), undefined, `${value} ${rest.length}`);
  t.equal(duration(JSON.stringify({ tool: 'f', otel: OTEL })), undefined, 'of a member');
  t.equal(duration(JSON.stringify({ result: LONG, otel: OTEL })), undefined, 'of a member behind a long one');
  t.equal(duration(JSON.stringify({ result: LONG, list: [OTEL, OTEL] })), undefined);
  t.equal(duration(JSON.stringify({ result: `${LONG}{"duration_ms":5}` })), undefined, 'of JSON in a text');
  t.equal(duration(JSON.stringify({ result: `${LONG}","duration_ms":5` })), undefined, 'of what looks like JSON');
  t.equal(duration(JSON.stringify({ a: LONG, duration_ms: 5, b: LONG })), undefined, 'in the midst of a long payload');
  t.equal(duration(`${'{"a":'.repeat(5_000)}{"duration_ms":5}${'}'.repeat(5_000)}`), undefined, 'deep inside');
  const before = `{"a":"${'x'.repeat(PAYLOAD_HEAD_CHARACTERS - 24)}","duration_ms":1`;
  t.equal(before.length, PAYLOAD_HEAD_CHARACTERS - 1);
  t.equal(duration(`${before}234,"b":"${LONG}"}`), undefined, 'a number whose end is not seen');
  t.equal(eventDuration({ head: '', tail: '' }), undefined);
});

t.test('of any payload it is what the payload says, or nothing', async () => {
  const inside = fc.oneof(
    fc.json(),
    fc.string({ maxLength: 8_000 }).map((text) => JSON.stringify(text)),
  );
  const ms = fc.nat();
  fc.assert(
    fc.property(inside, inside, fc.option(ms), ms, (before, after, own, other) => {
      const said = own === null ? '' : `"duration_ms":${own},`;
      const payload = `{"a":${before},"b":{"duration_ms":${other}},${said}"c":${after}}`;
      const found = duration(payload);
      if (found !== undefined && found !== own) throw new Error(`${found} of ${payload}`);
      if (payload.length <= PAYLOAD_HEAD_CHARACTERS / 4 && found !== (own ?? undefined)) throw new Error(payload);
    }),
    { seed: SEED },
  );
});
