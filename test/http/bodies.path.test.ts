// What bodies may be, on both HTTP servers: single events, batches and what is created with JSON.
import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { PROVIDER_ANSWERS, type ProviderAnswer, STREAM_EVENTS } from '../ingest/provider-answers.ts';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

let names = 0;
const unique = (what: string) => `${what}-${++names}`;
const event = (more: object = {}) => ({ type: 'custom', payload: { a: 1 }, ...more });

for (const server of ['uws', 'node']) {
  t.test(`bodies, with GATEHOUSE_HTTP_SERVER=${server}`, async (t) => {
    const service = await startService(t, { env: { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_FRONTS: '1' } });
    const api = await Api.described(t, service);
    const { id } = (await api.post('/v1/agents', { name: unique('agent') })).json as { id: string };
    const one = `/v1/agents/${id}/events`;
    const sent = { api, one, many: `${one}/batch` };
    await compressed(t, sent);
    await marked(t, sent);
    await broken(t, sent);
    await nulls(t, sent);
    await usage(t, sent);
  });
}

type Sent = { api: Api; one: string; many: string };

const GZIP = { 'content-encoding': 'gzip' };
const MiB = 1024 * 1024;
const ofBytes = (bytes: number) => event({ payload: { a: 'x'.repeat(bytes) } });

async function compressed(t: Test, { api, one, many }: Sent): Promise<void> {
  const zipped = (value: unknown) => gzipSync(typeof value === 'string' ? value : JSON.stringify(value));
  await t.test('gzip is taken on events and batches, of any size that they may have', async (t) => {
    for (const bytes of [1, 60_000, 70_000, MiB - 100]) {
      const answer = await api.post(one, zipped(ofBytes(bytes)), { headers: GZIP });
      t.equal(answer.status, 201, `${bytes} bytes`);
      t.equal(answer.json.payload.a.length, bytes);
      t.match(await api.post(many, zipped([ofBytes(bytes), ofBytes(1)]), { headers: GZIP }), {
        status: 200,
        json: { total: 2 },
      });
    }
    const batch = await api.post(many, zipped(Array(8).fill(ofBytes(MiB - 100))), { headers: GZIP });
    t.match(batch, { status: 200, json: { total: 8 } }, '8 MiB');
    for (const encoding of ['GZIP', 'x-gzip', ' gzip '])
      t.match(await api.post(one, zipped(event()), { headers: { 'content-encoding': encoding } }), { status: 201 });
    t.match(await api.post(one, event(), { headers: { 'content-encoding': 'identity' } }), { status: 201 });
    const text = JSON.stringify(event());
    const members = Buffer.concat([zipped(text.slice(0, 5)), zipped(text.slice(5))]);
    t.match(await api.post(one, members, { headers: GZIP }), { status: 201 }, 'several members are one body');
  });

  await t.test('the bounds hold for what comes out', async (t) => {
    for (const [path, bytesMax] of [
      [one, MiB],
      [many, 8 * MiB],
    ] as const) {
      const bomb = gzipSync(Buffer.alloc(200 * MiB, ' '));
      t.ok(bomb.length < MiB, `${bomb.length} bytes that inflate to 200 MiB`);
      const answer = await api.post(path, bomb, { headers: GZIP });
      t.match(answer, { status: 413, json: { error: { code: 'payload_too_large' } } });
      t.match(answer.json.error.message, `larger than ${bytesMax} bytes when it is inflated`);
      const lying = Buffer.from(bomb);
      lying.writeUInt32LE(100, lying.length - 4);
      t.match(await api.post(path, lying, { headers: GZIP }), { status: 413 }, 'whatever its trailer says');
    }
    const large = zipped([ofBytes(MiB + 10), ofBytes(1)]);
    t.match(await api.post(many, large, { headers: GZIP }), {
      json: { total: 1, results: [{ error: { code: 'payload_too_large' } }, { type: 'custom' }] },
    });
  });

  await t.test('what is not whole gzip is refused, and says why', async (t) => {
    const sound = zipped(event());
    const flipped = (at: number) => {
      const bytes = Buffer.from(sound);
      bytes[bytes.length + at]! ^= 1;
      return bytes;
    };
    const large = zipped(event({ payload: { a: randomBytes(200_000).toString('hex') } }));
    const bad: [Buffer, string][] = [
      [sound.subarray(0, -5), 'it ends too early'],
      [sound.subarray(0, 4), 'it ends too early'],
      [large.subarray(0, -1), 'it ends too early'],
      [large.subarray(0, 100_000), 'it ends too early'],
      [Buffer.alloc(0), 'it ends too early'],
      [flipped(-6), 'incorrect data check'],
      [flipped(-2), 'incorrect length check'],
      [Buffer.concat([sound, Buffer.from('{}')]), 'incorrect header check'],
      [Buffer.concat([sound, Buffer.alloc(3)]), 'bytes follow it'],
      [Buffer.concat([large, Buffer.alloc(3)]), 'bytes follow it'],
      [Buffer.concat([sound, sound.subarray(0, 12)]), 'it ends too early'],
      [Buffer.from(JSON.stringify(event())), 'incorrect header check'],
    ];
    const before = (await api.get(one)).json.total;
    for (const path of [one, many]) {
      for (const [body, why] of bad) {
        const answer = await api.post(path, body, { headers: GZIP });
        t.match(answer, { status: 400, json: { error: { code: 'malformed_json' } } }, why);
        t.match(answer.json.error.message, `is not gzip, which its Content-Encoding says it is: ${why}`);
      }
    }
    t.equal((await api.get(one)).json.total, before, 'nothing was recorded');
    const twice = await api.post(one, gzipSync(sound), { headers: GZIP });
    t.match(twice, { status: 400, json: { error: { code: 'malformed_json' } } }, 'compressed twice');
  });

  await t.test('any other encoding is 415 that names it and says what is taken', async (t) => {
    for (const encoding of ['br', 'deflate', 'zstd', 'gzip, gzip', 'gzip,identity', 'constructor']) {
      for (const path of [one, many]) {
        const answer = await api.post(path, zipped(event()), { headers: { 'content-encoding': encoding } });
        t.match(answer, { status: 415, json: { error: { code: 'unsupported_media_type' } } });
        t.match(answer.json.error.message, `"${encoding}"`);
        t.equal(answer.headers.get('accept-encoding'), 'gzip');
      }
    }
    for (const path of ['/v1/agents', '/v1/policies', '/v1/alerts', '/v1/api-keys']) {
      const answer = await api.post(path, zipped({ name: 'x' }), { headers: GZIP });
      t.match(answer, { status: 415, json: { error: { code: 'unsupported_media_type' } } }, path);
      t.equal(answer.headers.get('accept-encoding'), 'identity');
    }
    const text = await api.post(one, event(), { headers: { 'content-type': 'text/plain' } });
    t.match(text, { status: 415 });
    t.notOk(text.headers.has('accept-encoding'), 'the encoding is not what is wrong');
  });

  await t.test('an Idempotency-Key goes by what comes out', async (t) => {
    for (const path of [one, many]) {
      const key = { 'idempotency-key': unique('key') };
      const body = JSON.stringify(path === one ? event() : [event()]);
      const first = await api.post(path, body, { headers: key });
      for (const level of [1, 9]) {
        const again = await api.post(path, gzipSync(body, { level }), { headers: { ...key, ...GZIP } });
        t.equal(again.text, first.text);
      }
      const marked = Buffer.concat([MARK, Buffer.from(body)]);
      t.equal((await api.post(path, marked, { headers: key })).text, first.text, 'and not by a byte-order mark');
    }
  });
}

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

async function marked(t: Test, { api, one, many }: Sent): Promise<void> {
  await t.test('a byte-order mark is passed over', async (t) => {
    const bytes = (value: unknown) => Buffer.concat([MARK, Buffer.from(JSON.stringify(value))]);
    t.match(await api.post(one, bytes(event())), { status: 201 });
    t.match(await api.post(many, bytes([event(), event()])), { status: 200, json: { total: 2 } });
    t.match(await api.post(one, gzipSync(bytes(event())), { headers: GZIP }), { status: 201 });
    t.match(await api.post(many, gzipSync(bytes({ events: [event()] })), { headers: GZIP }), { status: 200 });
    const large = bytes([ofBytes(MiB - 100), event()]);
    t.match(await api.post(many, large), { status: 200, json: { total: 2 } }, 'in the judging thread');
    t.match(await api.post('/v1/agents', bytes({ name: unique('agent') })), { status: 201 });
    const policy = { name: unique('policy'), type: 'block_action', conditions: { 'payload.x': 1 }, actions: 'log' };
    t.match(await api.post('/v1/policies', bytes(policy)), { status: 201 });
    t.match(await api.post('/v1/api-keys', bytes({ label: 'x', scope: 'read' })), { status: 201 });
    const refused = { status: 400, json: { error: { code: 'malformed_json' } } };
    t.match(await api.post(one, Buffer.concat([MARK, bytes(event())])), refused, 'one of them');
    t.match(await api.post(one, MARK), refused, 'and nothing else is no body');
    t.match(await api.post('/v1/traces', bytes({ resourceSpans: [] })), { status: 200 }, 'spans in JSON');
  });
}

async function broken(t: Test, { api, one, many }: Sent): Promise<void> {
  await t.test('a body that is no JSON is refused with the place, the path and the element', async (t) => {
    const refused = async (path: string, body: string | Buffer, message: RegExp, at: string, headers = {}) => {
      const answer = await api.post(path, body, { headers });
      t.match(answer, { status: 400, json: { error: { code: 'malformed_json', message, details: [{ path: at }] } } });
    };
    const nan = '{"type":"custom","payload":{"a":[0,NaN]}}';
    await refused(one, nan, /^The body cannot be read as JSON: line 1, column 36 \(byte 35\): NaN /, '/payload/a/1');
    await refused(one, gzipSync(nan), /: line 1, column 36 \(byte 35\)/, '/payload/a/1', GZIP);
    await refused(one, Buffer.concat([MARK, Buffer.from(nan)]), /: line 1, column 36 \(byte 35\)/, '/payload/a/1');
    const batch = `{"events":\n[${JSON.stringify(event())},\n${nan}]}`;
    await refused(many, batch, / in element 1: line 3, column 36 \(byte \d+\): NaN /, '/events/1/payload/a/1');
    await refused(many, `[${nan}]`, / in element 0: line 1, column 37 \(byte 36\): NaN /, '/0/payload/a/1');
    const large = `[${JSON.stringify(ofBytes(MiB / 2))},${JSON.stringify(event())},${nan}]`;
    await refused(many, large, / in element 2: line 1, column \d+ \(byte \d+\): NaN /, '/2/payload/a/1');
    const twice = '{"type":"custom","payload":{"a":1,"b":2,"a":3}}';
    await refused(one, twice, /the key "a" stands twice in one object, first at line 1, column 29/, '/payload/a');
    await refused('/v1/agents', "{'name': 'x'}", /line 1, column 2 \(byte 1\): .*single quote/, '/');
    await refused('/v1/policies', '{"name": None}', /line 1, column 10 \(byte 9\): None is Python/, '/name');
    const keyed = { 'idempotency-key': unique('key') };
    await refused(many, `[${nan}]`, / in element 0: /, '/0/payload/a/1', keyed);
  });
  await t.test('a name that no store can tell from another is refused', async (t) => {
    const details = [{ path: '/name', message: 'must not hold a lone surrogate' }];
    for (const path of ['agents', 'policies', 'alerts', 'checks', 'outgoing-feeds']) {
      const answer = await api.post(`/v1/${path}`, '{"name":"one \\ud800"}');
      t.match(answer.json, { error: { code: 'validation_failed' } }, path);
      t.ok(
        answer.json.error.details.some((one: object) => JSON.stringify(one) === JSON.stringify(details[0])),
        path,
      );
    }
    t.equal((await api.post('/v1/agents', '{"name":"a whole one \\ud83d\\ude00"}')).status, 201);
  });
}

async function nulls(t: Test, { api, one, many }: Sent): Promise<void> {
  await t.test('null in an optional field is the same as leaving it out', async (t) => {
    const sent = event({ trace_id: null, timestamp: null });
    const single = await api.post(one, sent);
    t.equal(single.status, 201);
    t.notOk('trace_id' in single.json);
    // With a key the other codec reads it.
    const keyed = await api.post(one, sent, { headers: { 'idempotency-key': unique('key') } });
    t.equal(keyed.status, 201);
    t.match(await api.post(many, { events: [sent, event({ trace_id: 7 }), sent] }), {
      status: 200,
      json: { total: 2, results: [{ type: 'custom' }, { error: { code: 'validation_failed' } }, { type: 'custom' }] },
    });
    for (const dots of ['.', '..']) {
      const refused = { error: { code: 'validation_failed' } };
      t.match(await api.post(one, event({ trace_id: dots })), { status: 400, json: refused }, dots);
      t.match(await api.post(many, [event(), event({ trace_id: dots })]), {
        json: { total: 1, results: [{}, { error: { details: [{ path: '/1/trace_id' }] } }] },
      });
    }
    t.match(await api.post(one, event({ type: null })), { json: { error: { details: [{ path: '/type' }] } } });

    const none = { description: null, framework: null, metadata: null };
    const agent = await api.post('/v1/agents', { name: unique('agent'), ...none });
    t.match(agent, { status: 201, json: { metadata: {} } });
    t.notOk('description' in agent.json);
    const at = `/v1/agents/${agent.json.id}`;
    t.match(await api.patch(at, { description: 'mine', status: null }), { json: { status: 'active' } });
    t.match(await api.patch(at, { description: null, name: unique('agent') }), { json: { description: 'mine' } });
    t.match(await api.patch(at, { description: null }), { status: 400 }, 'nothing is left to change');
    const policy = { name: unique('policy'), type: 'block_action', conditions: { 'payload.x': null }, actions: 'log' };
    t.match(await api.post('/v1/policies', { ...policy, severity: null, description: null, status: null }), {
      status: 201,
      json: { severity: null, status: 'active', conditions: { 'payload.x': null } },
    });
    const alert = { name: unique('alert'), trigger: 'agent_down', channel: 'email', target: 'a@example.com' };
    const open = { conditions: { agent_id: null, severity: null }, throttle_seconds: null, status: null };
    const made = await api.post('/v1/alerts', { ...alert, ...open });
    t.match(made, { status: 201, json: { agent_id: null, status: 'active', throttle_seconds: 60 } });
    t.same(made.json.conditions, {}, 'nulls in it are left out, too');
    t.match(await api.patch(`/v1/alerts/${made.json.id}`, { agent_id: id(one), conditions: null }), { status: 200 });
    t.match(
      await api.patch(`/v1/alerts/${made.json.id}`, { agent_id: null }),
      { json: { agent_id: null } },
      'where null has a meaning it keeps it',
    );
    const trial = { event: { agent_id: id(one), id: null, ...event(), trace_id: null }, policies: null };
    t.match(await api.post('/v1/policies/evaluate', trial), { status: 200 });
  });
}

async function usage(t: Test, { api, one, many }: Sent): Promise<void> {
  await t.test("a trace has the tokens of providers' answers, and null where none is said", async (t) => {
    const answers = [...PROVIDER_ANSWERS, ...STREAM_EVENTS];
    const completion = ({ answer }: ProviderAnswer, i: number) => ({
      ...{ type: 'completion', trace_id: `answer-${i}`, payload: answer },
    });
    t.match(await api.post(many, gzipSync(JSON.stringify(answers.map(completion))), { headers: GZIP }), {
      json: { total: answers.length },
    });
    await api.post(one, event({ trace_id: 'unknown' }));
    await api.post(one, event({ trace_id: 'zero', payload: { tokens_used: 0 } }));
    const { json } = await api.get('/v1/traces?limit=500');
    const listed = new Map(
      json.items.map((trace: { trace_id: string; tokens_used: unknown }) => [trace.trace_id, trace]),
    );
    for (const [i, { from, tokens }] of answers.entries()) {
      t.match(listed.get(`answer-${i}`), { tokens_used: tokens }, from);
      t.match(await api.get(`/v1/traces/answer-${i}`), { json: { tokens_used: tokens } });
    }
    for (const [trace, tokens] of [
      ['unknown', null],
      ['zero', 0],
    ] as const) {
      t.match(listed.get(trace), { tokens_used: tokens });
      t.equal((await api.get(`/v1/traces/${trace}`)).json.tokens_used, tokens, trace);
    }
  });
}

function id(path: string): string {
  return path.split('/')[3]!;
}
