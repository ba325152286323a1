// Admission: the order of checks, what each refusal says, what every answer has, what a failing handler comes to, the
// drain.

import { BufferPool } from '../../src/common/buffer-pool.ts';
import { SLICE_MS, SubmissionScheduler } from '../../src/http/admission/submission-scheduler.ts';
import type { ServerOptions } from '../../src/http/server.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import type { Refused } from '../../src/registry/accounts/request-limit.ts';
import { EXPIRED, get, KEYS, method, onEach, post, startServer, until, waiting } from '../support/front-server.ts';
import { pause, RawConnection, rawExchange } from '../support/raw-http.ts';

const codeOf = (body: string) => (JSON.parse(body) as { error: { code: string } }).error.code;

onEach('a handler that throws, rejects or answers nonsense is answered 500, and the process lives', async (t, on) => {
  const { port } = await startServer(t, { on });
  for (const how of ['throws', 'rejects', 'throws-nothing', 'bad-header', 'bad-body']) {
    const { answers } = await rawExchange(port, [post('/fail/x', JSON.stringify({ how }))]);
    t.equal(answers[0]?.status, 500, how);
    const { error } = JSON.parse(answers[0]!.body) as { error: Record<string, unknown> };
    t.match(error, { code: 'internal', recorded: 'unknown', request_id: answers[0]!.headers.get('x-request-id') });
    t.notMatch(answers[0]!.body, 'secret', 'nothing of the failure is shown');
    t.notOk(answers[0]!.headers.has('x-evil'), 'a line end in a header begins no other header');
  }
  const { answers } = await rawExchange(port, [get('/open')]);
  t.equal(answers[0]?.status, 200, 'and the next request is served');
});

onEach('a handler that answers late is heard; one whose client has left is not, and nothing breaks', async (t, on) => {
  const { port, server } = await startServer(t, { on });
  const connection = await RawConnection.open(port);
  connection.write(post('/fail/x', '{"how":"late-1"}'));
  await until(() => waiting.has('late-1'));
  await pause(50);
  waiting.get('late-1')!.resolve('{"late":true}');
  t.equal((await connection.waitForAnswers(1))[0]?.body, '{"late":true}');

  for (const end of ['resolve', 'reject'] as const) {
    connection.write(post('/fail/x', `{"how":"left-${end}"}`));
    const leaver = await RawConnection.open(port);
    leaver.write(post('/fail/x', `{"how":"gone-${end}"}`));
    await until(() => waiting.has(`gone-${end}`) && waiting.has(`left-${end}`));
    leaver.destroy();
    await until(() => server.connections === 1);
    if (end === 'resolve') waiting.get('gone-resolve')!.resolve('{}');
    else waiting.get('gone-reject')!.reject(new Error('late'));
    waiting.get(`left-${end}`)!.resolve(`"${end}"`);
    t.match(await connection.waitForAnswers(end === 'resolve' ? 2 : 3), { length: end === 'resolve' ? 2 : 3 });
  }
  connection.destroy();
});

onEach('a handler that never answers is answered for', async (t, on) => {
  const config = {
    host: '127.0.0.1',
    port: 0,
    metricsPort: undefined,
    eventBytesMax: 1000,
    batchBytesMax: 1000,
    bodyBytesMax: 1000,
    queryTimeoutSeconds: -5.9,
  };
  const { port } = await startServer(t, { on, config } as unknown as Partial<ServerOptions>);
  const connection = await RawConnection.open(port);
  connection.write(post('/fail/x', '{"how":"never"}'));
  const [answer] = await connection.waitForAnswers(1);
  t.equal(answer?.status, 503);
  t.match(JSON.parse(answer!.body).error, {
    code: 'unavailable',
    message: 'This took too long, and was given up.',
    recorded: 'unknown',
  });
  waiting.get('never')!.resolve('{}');
  await pause(20);
  t.equal(connection.answers.length, 1, 'and only once');
  connection.destroy();
});

onEach('checks come in the order that the contract gives', async (t, on) => {
  const LIMIT = { perSecond: 10, burst: 25 };
  let limit: true | Refused = true;
  const { port } = await startServer(t, { on, limiter: { admit: () => limit } });
  const status = async (request: string) => {
    const { answers } = await rawExchange(port, [request]);
    return [answers[0]?.status, answers[0]?.status === 200 ? '' : codeOf(answers[0]!.body)];
  };
  const bad = { headers: 'Content-Type: text/plain\r\n' };
  t.same(
    await status(post('/nothing', '{', { key: 'x', ...bad })),
    [404, 'not_found'],
    'an unknown path, with any key',
  );
  t.same(await status(method('PUT', '/things')), [405, 'method_not_allowed'], 'then the method');
  t.same(await status(post('/things', '{', { key: 'unknown', ...bad })), [401, 'invalid_token'], 'then the key');
  t.same(await status(post('/things', '{', { key: KEYS.read, ...bad })), [403, 'insufficient_scope'], 'then its scope');
  limit = { retryAfterSeconds: 0.1, limit: LIMIT };
  t.same(await status(post('/things', '{', bad)), [429, 'rate_limited'], 'then the request limit');
  limit = true;
  t.same(await status(post('/things', 'x'.repeat(3_000), bad)), [413, 'payload_too_large'], 'then the size');
  t.same(await status(post('/things', '{', bad)), [415, 'unsupported_media_type'], 'then the kind');
  t.same(await status(post('/things?x=1', '{')), [400, 'validation_failed'], 'then the query');
  t.same(await status(post('/things', '{')), [400, 'malformed_json'], 'then the JSON');
  t.same(await status(post('/things', '{}')), [400, 'validation_failed'], 'then the schema');
});

onEach('401 is the same whatever is wrong with the key; 403, 405, 429 and 503 say what to do', async (t, on) => {
  const admit = () => ({ retryAfterSeconds: 3.4, limit: { perSecond: 10, burst: 25 } });
  const limited = await startServer(t, { on, limiter: { admit } });
  const { port } = await startServer(t, { on });
  const same = new Set<string>();
  const bearers = [
    'Bearer',
    'Bearer ',
    'Basic abc',
    `Bearer ${'u'.repeat(40)}`,
    'Bearer gth_short',
    `Bearer gth_${'0'.repeat(40)}`,
    `Bearer ${EXPIRED}`,
    `Bearer ${'v'.repeat(1000)}`,
    'Bearer a b',
  ];
  for (const authorization of ['', ...bearers]) {
    const headers = `X-Request-Id: same\r\n${authorization === '' ? '' : `Authorization: ${authorization}\r\n`}`;
    const { answers, text } = await rawExchange(port, [get('/things', { headers })]);
    t.equal(answers[0]?.status, 401, authorization);
    t.equal(answers[0]?.headers.get('www-authenticate'), 'Bearer');
    same.add(text.replace(/\r\nDate: [^\r]*/, ''));
  }
  t.equal(same.size, 1, 'byte for byte');
  for (const scheme of ['bearer ', 'BEARER ', 'Bearer   ', 'Bearer%20']) {
    const { answers } = await rawExchange(port, [
      get('/things', { headers: `Authorization: ${scheme}${KEYS.read}\r\n` }),
    ]);
    t.equal(answers[0]?.status, 200, scheme);
  }
  const wrong = (await rawExchange(port, [method('PATCH', '/things')])).answers[0]!;
  t.equal(wrong.headers.get('allow'), 'GET, HEAD, POST');
  t.equal(
    (await rawExchange(port, [method('OPTIONS', '/things/x')])).answers[0]?.headers.get('allow'),
    'DELETE, GET, HEAD',
    'OPTIONS is no exception',
  );
  t.equal((await rawExchange(port, [method('get', '/things')])).answers[0]?.status, 405, 'methods are case-sensitive');
  t.equal((await rawExchange(port, [method('BREW', '/things')])).answers[0]?.status, 405, 'unknown methods');
  const over = (await rawExchange(limited.port, [get('/things', { key: KEYS.read })])).answers[0]!;
  t.match([over.status, over.headers.get('retry-after')], [429, '4'], 'whole seconds, rounded up');
  const away = (await rawExchange(port, [post('/fail/x', '{"how":"unavailable"}')])).answers[0]!;
  t.match([away.status, away.headers.get('retry-after')], [503, '3']);
  t.match(JSON.parse(away.body), { error: { code: 'unavailable', recorded: false } });
  t.match(JSON.parse((await rawExchange(port, [post('/fail/x', '{"how":"unknown"}')])).answers[0]!.body), {
    error: { recorded: 'unknown' },
  });
});

onEach('every answer names its request, says how to be read, and is not kept', async (t, on) => {
  const { port } = await startServer(t, { on });
  const mine = (await rawExchange(port, [get('/open', { headers: 'X-Request-Id: My.Own_id-1\r\n' })])).answers[0]!;
  t.equal(mine.headers.get('x-request-id'), 'My.Own_id-1');
  const twice = get('/open', { headers: 'X-Request-Id: client-1\r\nX-Request-Id: proxy-2\r\n' });
  const [first] = (await rawExchange(port, [twice])).answers;
  t.equal(first!.status, 200);
  t.equal(first!.headers.get('x-request-id'), 'client-1', 'of two the first counts');
  t.match(Object.fromEntries(mine.headers), {
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  });
  t.notOk(
    mine.headers.has('uwebsockets') || mine.headers.has('server') || mine.headers.has('access-control-allow-origin'),
  );
  const ids = new Set<string>();
  for (const bad of ['', 'a b', 'é', 'x'.repeat(129), '<script>', 'a;b']) {
    const { answers } = await rawExchange(port, [get('/nothing', { headers: `X-Request-Id: ${bad}\r\n` })]);
    const id = answers[0]!.headers.get('x-request-id')!;
    t.match(id, /^[a-z0-9-]{10,24}$/, `instead of ${JSON.stringify(bad.slice(0, 10))} an id of ours`);
    t.equal((JSON.parse(answers[0]!.body) as { error: { request_id: string } }).error.request_id, id);
    ids.add(id);
  }
  t.equal(ids.size, 6, 'each its own');
});

onEach('HEAD answers like GET without its body, and the connection goes on', async (t, on) => {
  const { port } = await startServer(t, { on });
  for (const [path, key, status] of [
    ['/open', undefined, 200],
    ['/things', KEYS.read, 200],
    ['/things', undefined, 401],
    ['/nothing', undefined, 404],
    ['/keys', KEYS.admin, 405],
  ] as const) {
    const plain = await rawExchange(port, [
      get(path, key === undefined ? {} : { key, headers: 'X-Request-Id: a\r\n' }).replace('\r\n\r\n', '\r\n\r\n'),
    ]);
    const head = method('HEAD', path, key);
    const { answers, text } = await rawExchange(port, [head, 10, head], { answers: 2, bodiless: true });
    t.same(
      answers.map((answer) => answer.status),
      [status, status],
      `${path} twice on one connection`,
    );
    t.notMatch(text, /\{/, 'no body');
    if (status === 200)
      t.equal(answers[0]?.headers.get('content-length'), plain.answers[0]?.headers.get('content-length'));
  }
  const gone = method('DELETE', '/things/a', KEYS.write);
  const { answers, text } = await rawExchange(port, [gone, 10, gone], { answers: 2 });
  t.same(
    answers.map((answer) => answer.status),
    [204, 204],
  );
  t.notMatch(text.toLowerCase(), /content-length|content-type/, '204 has no body and says so');
});

onEach('paths are matched whole; their parameters are decoded', async (t, on) => {
  const { port } = await startServer(t, { on });
  const answer = async (path: string) => (await rawExchange(port, [get(path, { key: KEYS.read })])).answers[0]!;
  t.equal((await answer('/things/a%2Fb%20c')).body, '{"id":"a/b c"}');
  t.equal((await answer('/things/%zz')).body, '{"id":"%zz"}', 'a broken escape is a name like any other');
  for (const path of [
    '/things/',
    '/thing',
    '/things//',
    '/Things',
    '/things/a/b',
    '//things',
    '/things/../open',
    '/%74hings',
  ]) {
    t.equal((await answer(path)).status, 404, path);
  }
});

onEach('an Idempotency-Key is heeded where it means something, and refused where it would mislead', async (t, on) => {
  const { port } = await startServer(t, { on });
  const send = async (path: string, key: string) =>
    (await rawExchange(port, [post(path, '{"name":"a"}', { key: KEYS.admin, headers: `Idempotency-Key: ${key}\r\n` })]))
      .answers[0]!;
  t.equal((await send('/things', 'k 1~!')).body, '{"name":"a","key":"k 1~!"}');
  t.equal((await send('/things', 'k'.repeat(255))).status, 201);
  for (const key of ['', 'k'.repeat(256), 'é', 'a\tb'])
    t.match(await send('/things', key), { status: 400, body: /Idempotency-Key/ }, JSON.stringify(key.slice(0, 5)));
  t.match(await send('/keys', 'k'), { status: 400, body: /is not supported here/ });
  t.equal((await send('/things/a/echo', 'k')).status, 200, 'ignored elsewhere');
});

onEach('requests are counted by route and status, never by what the caller wrote', async (t, on) => {
  const metrics = new Metrics({ processName: 'test' });
  const { port } = await startServer(t, { on, metrics });
  await rawExchange(port, [get('/things/secret-name', { key: KEYS.read })]);
  await rawExchange(port, [get('/secret-path')]);
  await rawExchange(port, [post('/things/a/echo', 'x'.repeat(100_001))]);
  const text = await metrics.text();
  t.match(text, /gatehouse_requests_total\{[^}]*route="GET \/things\/\{id\}"[^}]*status="200"[^}]*\} 1/);
  t.match(text, /route="unknown"[^}]*status="404"/);
  t.match(text, /gatehouse_rejected_events_total\{[^}]*code="payload_too_large"[^}]*\} 1/);
  t.notMatch(text, 'secret');
});

onEach('a draining server takes nothing new, answers what it has, and closes', async (t, on) => {
  const { port, server } = await startServer(t, { on });
  const busy = await RawConnection.open(port);
  busy.write(post('/fail/x', '{"how":"draining"}'));
  const idle = await RawConnection.open(port);
  await until(() => waiting.has('draining') && server.connections === 2);
  const drained = server.drain();
  await pause(20);
  await t.rejects(RawConnection.open(port), 'no new connections');
  idle.write(get('/open'));
  const [last] = await idle.waitForAnswers(1);
  t.match(
    [last?.status, last?.headers.get('connection')],
    [200, 'close'],
    'a connection that was open gets its answer, and the hint',
  );
  waiting.get('draining')!.resolve('{"done":true}');
  t.equal((await busy.waitForAnswers(1))[0]?.body, '{"done":true}', 'what was accepted is answered');
  await drained;
  t.equal(server.connections, 0);
});

onEach(
  'a submission for which there is no time is refused before its body; what else comes is served',
  async (t, on) => {
    let full = true;
    const metrics = new Metrics({ processName: 'test' });
    const { port } = await startServer(t, { on, backlogFull: () => full, metrics });
    const connection = await RawConnection.open(port);
    const head = (headers = '') => post('/things/x/echo', '', { length: 60_000, headers });
    connection.write(head('X-Request-Id: r-1\r\n'));
    const [refusal] = await connection.waitForAnswers(1);
    t.match(refusal, { status: 503, headers: new Map([['x-request-id', 'r-1']]) });
    t.match(Number(refusal!.headers.get('retry-after')), 1);
    t.same(JSON.parse(refusal!.body), {
      error: {
        code: 'unavailable',
        message: 'The backlog is full; nothing was recorded.',
        request_id: 'r-1',
        recorded: false,
      },
    });
    t.equal(refusal!.headers.get('connection'), 'close', 'who still has a large body to send is asked to close');
    connection.write('x'.repeat(60_000));
    if (on === 'node') await connection.waitForClose();
    connection.destroy();
    const other = await RawConnection.open(port);
    other.write(get('/things', { key: KEYS.read }));
    t.equal((await other.waitForAnswers(1))[0]?.status, 200, 'a read is served');
    other.write(post('/things', '{"name":"a"}'));
    t.equal((await other.waitForAnswers(2))[1]?.status, 201, 'so is a write of the registry');
    other.write(post('/things/x/echo', '{}', { key: 'nobody' }));
    t.equal((await other.waitForAnswers(3))[2]?.status, 401, 'a missing right is answered first');
    full = false;
    other.write(post('/things/x/echo', '{"a":1}'));
    t.equal((await other.waitForAnswers(4))[3]?.body, '{"a":1}');
    const text = await metrics.text();
    t.match(text, /gatehouse_shed_requests_total\{[^}]*reason="backlog"[^}]*\} 1\n/);
    t.match(text, /gatehouse_submissions_in_flight\{[^}]*\} 0\n/, 'and nothing is left in hand');
    other.destroy();
  },
);

onEach('the memory of a body goes back to the pool however its request ends', async (t, on) => {
  const buffers = new BufferPool();
  let full = false;
  const { port, server } = await startServer(t, { on, buffers, backlogFull: () => full });
  const text = JSON.stringify({ name: 'n'.repeat(1_500) });
  const status = async (...pieces: string[]) =>
    (
      await rawExchange(
        port,
        pieces.flatMap((piece) => [piece, 20]),
      )
    ).answers[0]?.status;
  t.equal(await status(post('/things/a/echo', text)), 200);
  const kept = buffers.kept;
  t.ok(kept > 1_500, `${kept} bytes lie there to be used again`);
  const goesBack = (what: string) => t.equal(buffers.kept, kept, what);

  const late = await RawConnection.open(port);
  late.write(post('/things/a/echo', '', { length: text.length }));
  await pause(20);
  full = true;
  late.write(text);
  t.equal((await late.waitForAnswers(1))[0]?.status, 503);
  goesBack('a submission for which there is no time when its body is there');
  late.destroy();
  t.equal(await status(post('/things/a/echo', text)), 503);
  goesBack('one that is refused at its head');
  full = false;
  t.equal(await status(post('/things', text, { headers: 'Idempotency-Key: \u00e4\r\n' })), 400);
  goesBack('a key of no use');
  t.equal(await status(post('/things', `${text}}`)), 400);
  goesBack('no JSON');
  t.equal(await status(post('/fail/x', `{"how":"throws","more":"${'n'.repeat(1_200)}"}`)), 500);
  goesBack('a handler that throws');
  const leaver = await RawConnection.open(port);
  leaver.write(post('/things/a/echo', text).slice(0, -10));
  await until(() => buffers.kept === 0);
  leaver.destroy();
  await until(() => server.connections === 0);
  goesBack('a client that leaves in the midst of it');
});

onEach(
  'work that has to wait for its turn is done in it, and is not begun for a client who has left',
  async (t, on) => {
    const buffers = new BufferPool();
    let [nowMs, ends] = [0, [] as (() => void)[]];
    const scheduler = new SubmissionScheduler({ now: () => nowMs, afterTick: (callback) => ends.push(callback) });
    const { port, server } = await startServer(t, { on, buffers, scheduler });
    scheduler.tickBeganMs(nowMs);
    nowMs += SLICE_MS; // the turn has done its slice
    const [stays, leaves] = [await RawConnection.open(port), await RawConnection.open(port)];
    leaves.write(post('/things/x/echo', '{"who":"leaves"}'));
    await until(() => scheduler.waiting > 0);
    stays.write(post('/things/x/echo', '{"who":"stays"}'));
    const registry = await rawExchange(port, [post('/things', '{"name":"a"}')]);
    t.equal(registry.answers[0]?.status, 201, 'what is no submission does not wait');
    leaves.destroy();
    await until(() => server.connections === 1);
    const kept = buffers.kept;
    while (scheduler.waiting > 0) for (const end of ends.splice(0)) end();
    t.equal((await stays.waitForAnswers(1))[0]?.body, '{"who":"stays"}');
    t.equal(buffers.kept, kept + 2 * 1024, 'and the memory of both bodies goes back');
    stays.destroy();
  },
);

onEach('a body that is there before it is known whose it is goes back, too', async (t, on) => {
  const buffers = new BufferPool();
  let decide: (() => void) | undefined;
  const cache = { principal: () => new Promise<null>((resolve) => (decide = () => resolve(null))) };
  const sessions = { session: () => null, connection: () => null, sessionUse: async () => 0 };
  const { port } = await startServer(t, { on, buffers, cache: { ...cache, ...sessions } });
  const connection = await RawConnection.open(port);
  connection.write(post('/things', '{"name":"a"}'));
  await until(() => decide !== undefined);
  await pause(20);
  t.equal(buffers.kept, 0);
  decide!();
  t.equal((await connection.waitForAnswers(1))[0]?.status, 401);
  t.ok(buffers.kept > 0);
  connection.destroy();
});
