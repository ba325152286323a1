// What every codec must do, whatever body and policies it is given: it answers, records and refuses like the one that
// reads every body, to the byte, errors and their details, too. (reference.test.ts holds both against a reference of
// its own.) Policies are those of the reference; bodies are made of values here, so that any number a double holds
// is in them. GATEHOUSE_TEST_EVENTS=100000 sets how many generated events are compared (default 3,000).

import fc from 'fast-check';
import t from 'tap';
import { EVENT_TYPES } from '../../schemas/closed-sets.ts';

import { decodeSummaries } from '../../schemas/entry.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { atOnce } from '../../src/common/steps.ts';
import { Arrivals } from '../../src/ingest/arrival.ts';
import { Ingest } from '../../src/ingest/ingest.ts';
import type { IngestParts, IngestRequest } from '../../src/ingest/ingest-parts.ts';
import type { Shape } from '../../src/ingest/json.ts';
import type { QuotaWaiter } from '../../src/ingest/rate-limit-batcher.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { ALLOWED } from '../../src/policy/judgement.ts';
import type { Append, AppendCaller } from '../../src/streams/append.ts';
import { cpuMs } from '../policy/support.ts';
import { KEYS, orders, WORDS } from '../reference/generate.ts';
import { runs, SEED } from '../support/seed.ts';
import {
  account,
  agent,
  agentId,
  blotted,
  CODECS,
  JSON_CODEC,
  NOW,
  policiesOf,
  requestId,
  ruleSet,
  type Seen,
  standingClock,
  submitted,
  take,
} from './support.ts';

const EVENTS = Number(process.env['GATEHOUSE_TEST_EVENTS'] ?? 3_000);
const EVENTS_PER_BODY = 6;

const word = fc.constantFrom(...WORDS);
const text = fc.oneof(
  word,
  fc.array(word, { maxLength: 4 }).map((words) => words.join(' ')),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constant('a@example.com 4111 1111 1111 1111'),
  // Text inside text, and text that is dressed up: what is judged is not what is in the bytes.
  fc
    .tuple(fc.constantFrom('', ' ', '\n\t'), fc.constantFrom(...KEYS), word)
    .map(([blank, key, inner]) => blank + JSON.stringify({ [key]: inner })),
  word.map((inner) => JSON.stringify([inner])),
  // What other languages write, and what no one can read.
  fc
    .tuple(
      fc.constantFrom('', ' ', '\n\t', '// a\n', '\ufeff', '"', "'", '```json\n'),
      fc.constantFrom(...KEYS),
      fc.constantFrom(...WORDS),
      fc.constantFrom('}', ',"x":NaN}', ',}', '', '};', ", 'x': None}", ',"x":[', '\\"}"', "}'"),
    )
    .map(([before, key, inner, after]) => `${before}{"${key}":"${inner}"${after}`),
  word.map((inner) => inner.replace(' ', '\t')),
  word.map((inner) => [...inner].join('\u007f')),
  word.map((inner) => [...inner].join('\u200b')),
  word.map((inner) => inner.replace(/[a-z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0xfee0))),
);
const key = fc.oneof({ weight: 60, arbitrary: fc.constantFrom(...KEYS) }, { weight: 1, arbitrary: word });
const number = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom(0, 5, 1e21));
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    text,
    number,
    fc.boolean(),
    fc.constant(null),
    tie('array'),
    tie('object'),
  ),
  array: fc.array(tie('value'), { maxLength: 4 }),
  object: fc.array(fc.tuple(key, tie('value')), { maxLength: 5 }).map((pairs) => Object.fromEntries(pairs)),
})).value;
const payload = fc.array(fc.tuple(key, value), { maxLength: 6 }).map((pairs) => Object.fromEntries(pairs));
const time = fc.constantFrom(
  '2026-11-20T17:28:00.123Z',
  '2001-01-01T00:00:00+01:00',
  '1999-01-01T00:00:00Z',
  '2000-06-01T00:00:00Z',
  'yesterday',
  '2026-11-20 17:28:00,5+00:00',
  '20261120T172800.25Z',
  '2026-11-20T17:28:00.100900Z',
  '2026-11-20T17:28:00.000001Z',
  '2026-11-20T17:28:00.9999999Z',
  '2026-11-19T24:00:00Z',
  '2026-11-19 23:59:60Z',
  '2026-11-20T17:28:00.123456789012345678901234567890Z',
  '2026-11-20T17:28:00',
  '2026-11-22T00:00:00Z',
  null,
);
const trace = fc.oneof(
  fc.constantFrom('t-1', '0b7c1c1e-0000-4000-8000-000000000001', 'ü', '', null, '.', '..', '...'),
  fc.string({ maxLength: 8 }),
);
const submission = fc.record(
  {
    type: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom<string>(...EVENT_TYPES) },
      { weight: 1, arbitrary: fc.constant('other') },
    ),
    payload,
    trace_id: trace,
    timestamp: time,
    extra: fc.constant(1),
  },
  { requiredKeys: ['type', 'payload'], noNullPrototype: true },
);
/** Mostly common forms: else few bodies would be read by the WebAssembly codec at all. */
const plainSubmission = fc.record(
  {
    type: fc.constantFrom<string>(...EVENT_TYPES),
    payload,
    trace_id: fc.constantFrom('t-1', 'abc', '.a', null),
    timestamp: fc.constantFrom('2026-11-20T17:28:00.123Z', null),
  },
  { requiredKeys: ['type', 'payload'], noNullPrototype: true },
);
const events = fc.oneof(
  { weight: 5, arbitrary: fc.array(plainSubmission, { minLength: 1, maxLength: 2 * EVENTS_PER_BODY }) },
  { weight: 2, arbitrary: fc.array(submission, { maxLength: 2 * EVENTS_PER_BODY }) },
);

/** In one of six. */
function maybe<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 5, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
}

/** How the same values are written: white space, escapes, the form of the body, and now and then a flaw. */
const style = fc.record({
  space: fc.constantFrom('', ' ', '\n', '\t '),
  escape: fc.constantFrom('none', 'slash', 'unicode'),
  wrapped: fc.boolean(),
  flaw: maybe(fc.tuple(fc.nat(), fc.constantFrom('', '"', '}', ',', '\\', '\u0001', '{"a":1,"a":2}', '01', '\xff'))),
});
type Style = typeof style extends fc.Arbitrary<infer S> ? S : never;

function written(value: unknown, { space, escape: escaping }: Style): string {
  if (typeof value === 'string') {
    let json = JSON.stringify(value);
    if (escaping === 'slash') json = json.replaceAll('/', '\\/');
    if (escaping === 'unicode')
      json = json.replace(/[a-e]/g, (c) => (json.includes('\\') ? c : `\\u00${c.charCodeAt(0).toString(16)}`));
    return json;
  }
  const how = { space, escape: escaping } as Style;
  if (Array.isArray(value))
    return `[${space}${value.map((item) => written(item, how)).join(`${space},${space}`)}${space}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([name, item]) => `${JSON.stringify(name)}${space}:${space}${written(item, how)}`,
    );
    return `{${space}${members.join(`${space},`)}${space}}`;
  }
  return Object.is(value, -0) ? '-0' : JSON.stringify(value);
}

function flawed(body: string, flaw: Style['flaw']): Buffer {
  if (flaw === null) return Buffer.from(body);
  const at = flaw[0] % (body.length + 1);
  return flaw[1] === '\xff'
    ? Buffer.concat([Buffer.from(body.slice(0, at)), Buffer.from([0xff]), Buffer.from(body.slice(at))])
    : Buffer.from(body.slice(0, at) + flaw[1] + body.slice(at));
}

function requestOf(body: Buffer, shape: Shape): IngestRequest {
  return { account, agentId, shape, body, requestId, idempotencyKey: undefined };
}

function optionsOf(rules: RuleSet) {
  return { rules, nowMs: NOW, eventBytesMax: Number.POSITIVE_INFINITY };
}

/** The answer and the appended texts, to be compared; whatever is random in them is masked. */
function told({ answer, summaries, rows }: Seen): { answer: string; appended: string } {
  const said =
    answer instanceof ServiceError ? JSON.stringify([answer.code, answer.details, answer.message]) : blotted(answer);
  const recorded = JSON.stringify(decodeSummaries(`[${summaries}]`));
  return { answer: said, appended: blotted(`${recorded} ${rows.toString('latin1')}`) };
}

t.test('no id is made twice, however many bodies one draw of randomness serves', async (t) => {
  const rules = new RuleSet([]);
  const codec = new WasmCodec();
  const bytes = Buffer.from(JSON.stringify(Array.from({ length: 70 }, () => ({ type: 'prompt', payload: {} }))));
  const ids = new Set<string>();
  const clock = standingClock();
  for (let body = 0; body < 60; body++) {
    const decoded = codec.decode(requestOf(bytes, 'many'), optionsOf(rules))!;
    const judged = Array.from({ length: 70 }, () => ({ decision: ALLOWED, countedAt: NOW }));
    const { answer } = decoded.encode(agent, judged, Arrivals.of(clock, judged, NOW));
    decoded.release();
    for (const [id] of answer.body.toString().matchAll(/evt_[0-9a-z]{26}/g)) ids.add(id);
  }
  t.equal(ids.size, 60 * 70);
});

t.test('an event that had its id before it was encoded has that everywhere, by both codecs', async (t) => {
  const rules = new RuleSet([]);
  const events = Array.from({ length: 40 }, (_, i) => ({ type: 'prompt', payload: { text: `${i}` } }));
  const judged = events.map(() => ({ decision: ALLOWED, countedAt: undefined }));
  for (const codec of CODECS) {
    const decoded = codec.decode(requestOf(Buffer.from(JSON.stringify({ events })), 'many'), optionsOf(rules))!;
    const arrivals = Arrivals.of(standingClock(), judged, NOW);
    const fixed = new Map([0, 7, 8, 39].map((i) => [i, arrivals.fix(i)]));
    const { answer, summaries, rows } = decoded.encode(agent, judged, arrivals);
    for (const text of [answer.body.toString(), summaries.join(), rows.toString('latin1')]) {
      const ids = [...text.matchAll(/evt_[0-9a-z]{26}/g)].map(([id]) => id);
      t.equal(new Set(ids).size, events.length);
      for (const [i, id] of fixed) t.equal(ids[i], id);
      t.strictSame(ids, [...ids].sort(), 'in the order of their arrival');
    }
    decoded.release();
  }
});

t.test('literals that a payload nearly holds everywhere cost no more than others, and hide no match', async (t) => {
  // All are searched for at the same three bytes, being the rarest.
  const wanted = Array.from(
    { length: 200 },
    (_, i) => `${'~'.repeat(30)}${i.toString(2).replaceAll('0', 'e').replaceAll('1', 't')} `,
  );
  const order = (text: string) => ({
    type: 'block_action',
    conditions: { text: { contains: text } },
    actions: ['log'],
  });
  const rules = ruleSet(policiesOf([...wanted, '~', '~~', 'q'].map((text) => order(text))))!;
  const codec = new WasmCodec();
  const body = (characters: number) =>
    Buffer.from(JSON.stringify({ type: 'prompt', payload: { text: `${'~'.repeat(characters)}${wanted[9]}` } }));
  const large = body(900_000);
  const ms = cpuMs(3, () => codec.decode(requestOf(large, 'one'), optionsOf(rules))!.release());
  t.ok(ms < 50, `${ms.toFixed(1)} ms`);
  t.comment(`${ms.toFixed(1)} ms of CPU to read 900 KB`);
  const decoded = codec.decode(requestOf(body(2_000), 'one'), optionsOf(rules))!;
  t.strictSame(
    atOnce(decoded.judging(0, agent, rules)).found.map(({ entry }) => entry.rule.policy.name),
    ['p9', 'p200', 'p201'],
  );
});

t.test('what occurs in trace_id alone is found by both codecs, wherever the member stands', async (t) => {
  const filter = (conditions: object) =>
    ruleSet(policiesOf([{ type: 'data_filter', conditions, actions: ['block'] }]))!;
  const anywhere = filter({ patterns: ['sk-[0-9]{4}'] });
  const ofTrace = filter({ patterns: ['sk-[0-9]{4}'], fields: ['trace_id'] });
  const outcome = async (rules: RuleSet, body: string, codecs: typeof CODECS) =>
    /"outcome":"(\w+)"/.exec(told(await take(rules, Buffer.from(body), 'one', codecs)).answer)![1];
  for (const before of ['', 'x', 'x'.repeat(17)]) {
    const trace = `"trace_id":"${before}sk-1234"`;
    const [first, last] = [`{${trace},"type":"prompt","payload":{}}`, `{"type":"prompt","payload":{},${trace}}`];
    const near = last.replace('sk-1234', 'sk-12x4');
    for (const codecs of [JSON_CODEC, CODECS]) {
      for (const body of [first, last])
        for (const rules of [anywhere, ofTrace]) t.equal(await outcome(rules, body, codecs), 'blocked', body);
      t.equal(await outcome(ofTrace, near, codecs), 'allowed', near);
    }
  }
});

t.test('an expression that errors is a match by both codecs, whatever else the rule looks for', async (t) => {
  const conditions = { detectors: ['email'], expression: 'event.payload.text.matches("sk-[0-9]+")' };
  const rules = ruleSet(policiesOf([{ type: 'data_filter', conditions, actions: ['block'] }]))!;
  const body = Buffer.from('{"type":"prompt","payload":{}}');
  for (const codecs of [JSON_CODEC, CODECS]) {
    const { answer } = told(await take(rules, body, 'one', codecs));
    t.match(answer, /"outcome":"blocked".*expression_error/);
  }
});

t.test('conditions on commands and SQL hold by both codecs for the same spellings', async (t) => {
  const block = (conditions: object) => ({ type: 'block_action', conditions, actions: ['block'] });
  const rules = ruleSet(
    policiesOf([
      block({ arguments: { shell: [{ command: 'rm', flags: ['r'] }, { redirect_to: '/dev/sd*' }] } }),
      block({ text: { sql: [{ statement: 'drop' }, { statement: 'delete', where: 'none' }] } }),
    ]),
  )!;
  const shell = fc.array(
    fc.constantFrom('rm ', 'r\\m ', 'r""m ', '-r ', '-fr ', '/ ', 'ls ', '; ', '| ', '$(', ') ', '>/dev/sda '),
    {
      maxLength: 6,
    },
  );
  const sql = fc.array(
    fc.constantFrom('DROP ', 'drop/**/', 'TABLE ', 'DELETE FROM ', 't ', 'WHERE ', '1=1 ', 'id=1 ', "'", ';', '-- x\n'),
    { maxLength: 6 },
  );
  const spelling = fc.tuple(shell, sql).map(([a, b]) => ({ arguments: { command: a.join('') }, text: b.join('') }));
  const codec = new WasmCodec();
  const counts = { allowed: 0, blocked: 0, wasm: 0 };
  await fc.assert(
    fc.asyncProperty(spelling, style, async (payload, how) => {
      const body = Buffer.from(written({ type: 'tool_call', payload }, how));
      const decoded = codec.decode(requestOf(body, 'one'), optionsOf(rules));
      if (decoded !== undefined) counts.wasm++;
      decoded?.release();
      const expected = told(await take(rules, body, 'one', JSON_CODEC));
      t.strictSame(told(await take(rules, body, 'one', CODECS)), expected);
      counts[/"outcome":"(allowed|blocked)"/.exec(expected.answer)![1] as 'allowed']++;
    }),
    { numRuns: Math.max(150, runs(300)), seed: SEED },
  );
  t.comment(JSON.stringify(counts));
  for (const [name, count] of Object.entries(counts)) t.ok(count > 5, `${name} ${count}`);
});

t.test('both codecs answer, record and refuse the same', async (t) => {
  const clock = Date.now;
  Date.now = () => NOW;
  t.teardown(() => {
    Date.now = clock;
  });
  const codec = new WasmCodec();
  const counts = { events: 0, bodies: 0, wasm: 0 };
  await fc.assert(
    fc.asyncProperty(orders(agentId), events, style, async (given, submissions, how) => {
      const rules = ruleSet(policiesOf(given));
      if (rules === null) return;
      const list = written(submissions, how);
      const shape = submissions.length === 1 ? 'one' : 'many';
      const body = flawed(
        shape === 'one' ? written(submissions[0], how) : how.wrapped ? `{"events":${list}}` : list,
        how.flaw,
      );
      counts.bodies++;
      counts.events += submissions.length;
      const decoded = codec.decode(requestOf(body, shape), optionsOf(rules));
      if (decoded !== undefined) counts.wasm += submissions.length;
      decoded?.release();
      const expected = told(await take(rules, body, shape, JSON_CODEC));
      const seen = told(await take(rules, body, shape, CODECS));
      if (seen.answer !== expected.answer || seen.appended !== expected.appended)
        throw new Error(
          `body ${body.toString('latin1')}\njson ${expected.answer}\n${expected.appended}\nwasm ${seen.answer}\n${seen.appended}`,
        );
    }),
    { numRuns: runs(Math.ceil(EVENTS / EVENTS_PER_BODY)), seed: SEED },
  );
  t.comment(JSON.stringify(counts));
  t.ok(counts.wasm > counts.events / 6, `${counts.wasm} of ${counts.events} events were read on their bytes`);
});

t.test('requests whose steps interleave keep to their own bytes', async (t) => {
  const rules = ruleSet(
    policiesOf([{ type: 'rate_limit', conditions: { threshold: 1_000_000, window: '1m' }, actions: ['block'] }]),
  )!;
  const kept: string[] = [];
  const soon = () => new Promise<void>((resolve) => setTimeout(resolve, Math.random() * 4));
  const parts = {
    cache: { agent: () => ({ record: agent }), rules: () => rules },
    rateLimits: {
      ask: (_account: string, _agent: string, requests: { permits: number }[], waiter: QuotaWaiter) =>
        void soon().then(() =>
          waiter.counted(requests.map(({ permits }) => ({ granted: permits, atMs: NOW, freeInMs: 0, bucket: 0 }))),
        ),
    },
    appender: {
      appendFor: ({ rows, summaries }: Append, caller: AppendCaller) => {
        kept.push(rows.toString('latin1') + summaries.map(String).join());
        void soon().then(() => caller.appended());
      },
    },
    backlog: { full: () => false },
    clock: standingClock(),
    onAccepted: () => undefined,
    onMatched: () => undefined,
    onBytes: () => undefined,
    onUnevaluated: () => undefined,
  } as unknown as IngestParts;
  const ingest = new Ingest(parts, CODECS);
  const one = async (i: number) => {
    const payloads = Array.from({ length: 1 + (i % 7) }, (_, k) => ({
      mark: `<${i}.${k}>`,
      text: 'x'.repeat((i * 37) % 900),
    }));
    const body = Buffer.from(JSON.stringify(payloads.map((payload) => ({ type: 'prompt', payload }))));
    const answer = await submitted(ingest, { ...requestOf(body, 'many'), requestId: `r-${i}` });
    body.fill(0xff); // as the next request would
    await soon();
    const { results } = JSON.parse(answer.body.toString()) as { results: { payload: unknown }[] };
    t.same(
      results.map(({ payload }) => payload),
      payloads,
      `request ${i} is answered with its own`,
    );
    if (typeof answer.body !== 'string') answer.body.fill(0xff);
    answer.release?.();
    return payloads;
  };
  const sent = await Promise.all(Array.from({ length: 200 }, (_, i) => soon().then(() => one(i))));
  for (const { mark } of sent.flat()) {
    t.equal(kept.filter((text) => text.includes(mark)).length, 1, `${mark} is recorded once`);
  }
});
