// From the id of a request to a reason: each answer that an error can have leaves one line of the log, which names the
// request, the account, the route, the code and the time; a flood of refusals leaves few, and says how many it left
// out. What a caller's trace has to do with it.
import t, { type Test } from 'tap';
import { ERRORS, type ErrorCode, ServiceError } from '../../src/common/errors.ts';
import { REQUEST_LINES_A_SECOND_MAX, SLOW_REQUEST_MS } from '../../src/common/limits.ts';
import { RequestLog } from '../../src/http/admission/request-log.ts';
import { type Route, route } from '../../src/http/route.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import { get, KEYS, onEach, post, ROUTES, startServer, until } from '../support/front-server.ts';
import { RawConnection, rawExchange } from '../support/raw-http.ts';

type Line = { level: string; msg: string; requestId?: string; lines?: number } & Record<string, unknown>;

const operation = { id: 'x', tag: 'x', summary: 'x', answers: {} };
const REFUSING: Route[] = [
  route({
    method: 'GET',
    path: '/refuse/{code}',
    needs: 'read',
    bound: 'handler',
    operation,
    handle({ params }) {
      const cause = new Error('what only we may know');
      throw new ServiceError(params[0] as ErrorCode, 'What the caller wrote: a secret.', { cause });
    },
  }),
];

/** A log that keeps its lines. */
function keeping(lines: Line[]): Log {
  const at = (level: string) => (fields: object, msg: string) => void lines.push({ level, msg, ...fields });
  const log: Log = {
    ...{ error: at('error'), warn: at('warn'), info: at('info'), debug: at('debug') },
    child: () => log,
    isLevelEnabled: () => true,
  };
  return log;
}

async function startLogging(t: Test, on: Parameters<typeof startServer>[1] = {}) {
  const lines: Line[] = [];
  const metrics = new Metrics({ processName: 'test' });
  const started = await startServer(t, { ...on, routes: [...ROUTES, ...REFUSING], metrics, log: keeping(lines) });
  /** The line of one request; a second one is a failure. */
  const lineOf = (id: string | undefined) => {
    const own = lines.filter(({ requestId }) => requestId === id);
    t.equal(own.length, 1, `${id}: one line`);
    return own[0];
  };
  return { ...started, lines, lineOf, metrics };
}

onEach('every error leaves one line with account, route, code, status and time', async (t, on) => {
  const { port, lineOf, lines } = await startLogging(t, { on });
  for (const [code, { status }] of Object.entries(ERRORS)) {
    const id = `of-${code}`;
    const asked = get(`/refuse/${code}`, { key: KEYS.read, headers: `X-Request-Id: ${id}\r\n` });
    const { answers } = await rawExchange(port, [asked]);
    t.equal(answers[0]?.status, status, code);
    const line = lineOf(id);
    t.match(line, { account: 'acc_1', route: 'GET /refuse/{code}', code, status });
    t.type(line?.['ms'], 'number');
    t.equal(line?.msg, status < 500 ? 'request.refused' : 'request.failed');
    t.equal(line?.level, status < 500 ? 'info' : status === 500 ? 'error' : 'warn');
    if (status >= 500) t.match(line, { err: { message: 'what only we may know' } });
  }
  t.notMatch(JSON.stringify(lines), /secret/, 'what the caller wrote is in none');
  for (const key of [`gth_${'k'.repeat(40)}`, `is-gop_${'k'.repeat(48)}`]) {
    const asked = get('/refuse/not_found', { key: KEYS.read, headers: `X-Request-Id: ${key}\r\n` });
    t.equal((await rawExchange(port, [asked])).answers[0]?.status, 404);
    t.notMatch(JSON.stringify(lines), key, 'a key that is sent as an id');
  }
  const { answers } = await rawExchange(port, [get('/open', { headers: 'X-Request-Id: fine\r\n' })]);
  t.equal(answers[0]?.status, 200);
  t.same(
    lines.filter(({ requestId }) => requestId === 'fine'),
    [],
    'what went well leaves none',
  );
});

onEach('so does what is refused before there is an account, or a handler', async (t, on) => {
  const limiter = { admit: () => ({ limit: { perSecond: 1, burst: 1 }, retryAfterSeconds: 1 }) };
  const limited = await startLogging(t, { on, limiter });
  const open = await startLogging(t, { on });
  const id = 'X-Request-Id: early\r\n';
  const cases: [server: typeof open, asked: string, line: object][] = [
    [
      open,
      get('/things', { headers: id }),
      { account: null, route: 'GET /things', code: 'invalid_token', status: 401 },
    ],
    [open, post('/keys', '{}', { headers: id }), { account: null, route: 'POST /keys', code: 'insufficient_scope' }],
    [open, get('/nowhere', { headers: id }), { account: null, route: 'unknown', code: 'not_found', status: 404 }],
    [open, get('/things', { headers: id }).replace('GET', 'PATCH'), { code: 'method_not_allowed', status: 405 }],
    [open, post('/things', '{', { headers: id }), { account: 'acc_1', code: 'malformed_json', status: 400 }],
    [open, post('/things', '7', { headers: id }), { account: 'acc_1', code: 'validation_failed', status: 400 }],
    [open, post('/things', 'x'.repeat(2_001), { headers: id }), { account: 'acc_1', code: 'payload_too_large' }],
    [open, post('/things', '{}', { headers: `Content-Type: a/b\r\n${id}` }), { code: 'unsupported_media_type' }],
    [
      open,
      post('/things', '0\r\n\r\n', { headers: `Transfer-Encoding: chunked\r\n${id}` }).replace(
        /Content-Length.*\r\n/,
        '',
      ),
      { code: 'length_required' },
    ],
    [open, get('/open', { headers: `${id}${'A: b\r\n'.repeat(91)}` }), { code: 'headers_too_large', status: 431 }],
    [limited, get('/things', { headers: id, key: KEYS.read }), { account: 'acc_1', code: 'rate_limited', status: 429 }],
  ];
  for (const [server, asked, line] of cases) {
    server.lines.length = 0;
    await rawExchange(server.port, [asked]);
    t.match(server.lineOf('early'), { msg: 'request.refused', ...line });
  }
});

onEach('a flood of refusals leaves few lines, and says how many it left out', async (t, on) => {
  const { port, lines, metrics } = await startLogging(t, { on });
  const [requests, connections] = [10_000, 50];
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = await RawConnection.open(port);
      for (let n = 1; n <= requests / connections; n++) {
        connection.write(get('/things'));
        await connection.waitForAnswers(n);
      }
      connection.destroy();
    }),
  );
  const written = () => lines.filter(({ msg }) => msg === 'request.refused').length;
  const told = () => lines.filter(({ msg }) => msg === 'request.lines_left_out');
  const leftOut = () => told().reduce((sum, { lines: count = 0 }) => sum + count, 0);
  await until(() => written() + leftOut() === requests);
  t.ok(written() <= REQUEST_LINES_A_SECOND_MAX * (told().length + 1), `${written()} lines in ${told().length} s`);
  t.ok(leftOut() > requests / 2, `${leftOut()} are counted`);
  t.match(await metrics.text(), `gatehouse_request_lines_left_out_total{process="test"} ${leftOut()}\n`);
  const { answers } = await rawExchange(port, [get('/fail/x', { headers: 'X-Request-Id: throws\r\n' })]);
  t.equal(answers[0]?.status, 500);
  t.match(
    lines.find(({ requestId }) => requestId === 'throws'),
    { msg: 'request.failed' },
    'a fault of ours is not hidden by them',
  );
});

t.test('a slow request leaves a line, one that waited on purpose none', async (t) => {
  const lines: Line[] = [];
  const log = new RequestLog({ log: keeping(lines), metrics: new Metrics({ processName: 'test' }) });
  const of = { ...{ route: 'GET /things', traceparent: '', account: 'acc_1', refusedBy: undefined }, startedMs: 0 };
  const late = SLOW_REQUEST_MS + 5;
  log.ended({ ...of, requestId: 'quick', longPollMs: 0 }, 200, SLOW_REQUEST_MS - 5);
  log.ended({ ...of, requestId: 'waited', longPollMs: 10_000 }, 200, 10_000 + SLOW_REQUEST_MS - 5);
  log.ended({ ...of, requestId: 'left', longPollMs: 0 }, 0, late);
  log.ended({ ...of, requestId: 'slow', longPollMs: 0 }, 201, late);
  log.close();
  const line = { level: 'warn', msg: 'request.slow', requestId: 'slow', account: 'acc_1', route: 'GET /things' };
  t.same(lines, [{ ...line, status: 201, ms: late }]);
});

onEach("a caller's trace is in the line, and in the id of a request that brings none", async (t, on) => {
  const { port, lines } = await startLogging(t, { on });
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const traceparent = `00-${trace}-00f067aa0ba902b7-01`;
  const ask = async (headers: string) => (await rawExchange(port, [get('/things', { headers })])).answers[0]!;
  const own = await ask(`traceparent: ${traceparent}\r\n`);
  const id = own.headers.get('x-request-id')!;
  t.match(id, new RegExp(`^${trace}-[0-9a-z]{8}-[0-9a-z]+$`));
  t.match(lines.at(-1), { requestId: id, traceparent });
  t.not((await ask(`traceparent: ${traceparent}\r\n`)).headers.get('x-request-id'), id, 'each has its own');
  await ask(`traceparent: ${traceparent}\r\nX-Request-Id: mine\r\n`);
  t.match(lines.at(-1), { requestId: 'mine', traceparent });
  for (const bad of ['', 'x', `ff-${trace}-00f067aa0ba902b7-01`, `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`]) {
    const { headers } = await ask(`traceparent: ${bad}\r\n`);
    t.match(headers.get('x-request-id'), /^[0-9a-z]{8}-[0-9a-z]+$/, JSON.stringify(bad));
    t.equal(lines.at(-1)?.['traceparent'], undefined);
  }
});
