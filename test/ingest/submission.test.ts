// Reading submissions: which bodies are events, and what takes the place of an element that is none.
import t from 'tap';
import { isRejected, readBatch, readSubmission } from '../../src/ingest/submission.ts';
import { renderBatch, renderEvent } from '../../src/ingest/submission-reply.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
const MIB = 1024 * 1024;
const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
const event = (more: object = {}) => ({ type: 'prompt', payload: { prompt: 'hi' }, ...more });

t.test('an event that does not fit is refused, and the details say where', async (t) => {
  const refused: [object, string][] = [
    [{ payload: {} }, '/type'],
    [{ type: 'prompt' }, '/payload'],
    [event({ type: 'chat' }), '/type'],
    [event({ payload: [] }), '/payload'],
    [event({ payload: 'x' }), '/payload'],
    [event({ agent_id: 'agt_1' }), '/agent_id'],
    [event({ trace_id: '' }), '/trace_id'],
    [event({ trace_id: 7 }), '/trace_id'],
    [event({ trace_id: '\ud800' }), '/trace_id'],
    [event({ trace_id: '.' }), '/trace_id'],
    [event({ trace_id: '..' }), '/trace_id'],
    [event({ type: null }), '/type'],
    [event({ payload: null }), '/payload'],
    [event({ agent_id: null }), '/agent_id'],
    [event({ timestamp: '2026-11-20T12:00:00' }), '/timestamp'],
    [event({ timestamp: '2026-02-30T12:00:00Z' }), '/timestamp'],
    [event({ timestamp: '1999-12-31T23:59:59Z' }), '/timestamp'],
    [event({ timestamp: '2026-11-21T12:00:01Z' }), '/timestamp'],
    [JSON.parse('{"type":"prompt","payload":{},"__proto__":{}}'), '/__proto__'],
  ];
  for (const [body, path] of refused) {
    t.throws(() => readSubmission(bytes(body), NOW), { code: 'validation_failed', details: [{ path }] }, path);
  }
  t.throws(() => readSubmission(bytes([event()]), NOW), { code: 'validation_failed' }, 'an array is no event');
});

t.test('times with any offset are understood', async (t) => {
  const at = (timestamp: string) => readSubmission(bytes(event({ timestamp })), NOW).occurredAt;
  t.equal(at('2026-11-20T12:00:00Z'), NOW);
  t.equal(at('2026-11-20T13:30:00.5+01:30'), NOW + 500);
  t.equal(at('2026-11-20T12:00Z'), NOW);
  t.equal(at('2026-11-21T12:00:00Z'), NOW + 86_400_000, 'just 24 h ahead is allowed');
  t.equal(readSubmission(bytes(event()), NOW).occurredAt, NOW, 'left out: now');
});

t.test('null in an optional field is the same as leaving it out, and nothing of a payload is touched', async (t) => {
  const sent = event({ trace_id: null, timestamp: null, payload: { trace_id: null, a: [null] } });
  const read = readSubmission(bytes(sent), NOW);
  t.match(read, { traceId: undefined, occurredAt: NOW, payloadText: '{"trace_id":null,"a":[null]}' });
  t.same(read.payload, { trace_id: null, a: [null] });
  t.match(readBatch(bytes([sent, event({ trace_id: null, timestamp: 'x' })]), NOW, MIB), [
    { traceId: undefined, occurredAt: NOW },
    { rejected: [{ path: '/1/timestamp' }] },
  ]);
});

t.test('both forms of a batch are taken, 1 to 100 events', async (t) => {
  t.equal(readBatch(bytes([event()]), NOW, MIB).length, 1);
  t.equal(readBatch(bytes({ events: [event(), event()] }), NOW, MIB).length, 2);
  t.equal(readBatch(bytes(Array(100).fill(event())), NOW, MIB).length, 100);
  for (const body of [
    [],
    { events: [] },
    Array(101).fill(event()),
    {},
    { events: {} },
    { events: [event()], more: 1 },
    7,
  ]) {
    t.throws(() => readBatch(bytes(body), NOW, MIB), { code: 'validation_failed' });
  }
});

t.test('an unfit element fails alone; a batch of nothing else is refused', async (t) => {
  const elements = readBatch(bytes({ events: [event(), { type: 'x', payload: {} }, 5, event()] }), NOW, MIB);
  t.same(elements.map(isRejected), [false, true, true, false]);
  t.match(elements[1], { rejected: [{ path: '/events/1/type' }] });
  t.match(readBatch(bytes([event(), null]), NOW, MIB)[1], { rejected: [{ path: '/1' }] });
  t.throws(() => readBatch(bytes([{ type: 'x', payload: {} }]), NOW, MIB), {
    code: 'validation_failed',
    details: [{ path: '/0/type' }],
  });
});

t.test('replies hold the payload token by token', async (t) => {
  const payload = '{"z":1.0,"a":12345678901234567890,"e":1e400,"s":"\\u00e9\\/\\ud800"}';
  const submission = readSubmission(bytes(`{"type":"prompt", "payload": ${payload} ,"trace_id":"t\\"1"}`), NOW);
  const verdict = { id: 'evt_1', occurredAt: NOW, receivedAt: NOW, result: '{}' };
  const text = renderEvent('agt_1', submission, verdict);
  t.ok(text.includes(`"payload":${payload},`));
  t.match(JSON.parse(text), { id: 'evt_1', agent_id: 'agt_1', trace_id: 't"1', timestamp: '2026-11-20T12:00:00.000Z' });

  const elements = readBatch(bytes(`[{"type":"error","payload":${payload}},1]`), NOW, MIB);
  const batch = renderBatch('agt_1', elements, [verdict, elements[1] as never]);
  t.ok(batch.includes(`"payload":${payload},`));
  const answer = JSON.parse(batch);
  t.equal(answer.total, 1);
  t.equal(answer.results[1].error.code, 'validation_failed');
});
