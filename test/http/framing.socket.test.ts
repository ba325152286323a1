// One request gets one answer (T1 in docs/security.md): every pattern that a front registers, and what matches none, by
// every verb and on both servers, with each framing that can be read in two ways. Nothing behind it is executed.
import t from 'tap';
import { makeRoutes } from '../../src/http/routes.ts';
import { VERBS } from '../../src/http/transport/router.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { framed, smugglings, whatIsWrong } from '../attack/framing.ts';
import { get, KEYS, makeTransport, onEach, ROUTES, startServer, type TransportName } from '../support/front-server.ts';
import { pause, RawConnection } from '../support/raw-http.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';

const AT_ONCE = 64;
/** Between packets: the server has read the one before. */
const PACKET_MS = 10;
const OTHER_VERBS = ['FOO', 'TRACE', 'PROPFIND', 'CONNECT'];
const OTHER_PATHS = [
  '/nope',
  '//',
  '/v1',
  '/v1/agents/',
  '/ui/a/b',
  '/ui/assets/none.js',
  '/v1/traces/a/b',
  '/open?a=b',
];

/** All routes of the service and those of tests; the patterns are those that the server itself has registered. */
async function startWhole(t: Parameters<typeof startServer>[0], on: TransportName) {
  const transport = await makeTransport(on);
  const patterns = new Set<string>();
  const register = transport.on.bind(transport);
  transport.on = (verb, pattern, handler) => {
    patterns.add(pattern);
    register(verb, pattern, handler);
  };
  const metrics = new Metrics({ processName: 'test' });
  const routes = [...makeRoutes({ metrics: true }), ...ROUTES];
  const { port } = await startServer(t, {
    transport,
    routes,
    metrics,
    settings: { corsOrigins: 'https://app.example' },
  });
  const opened = async () => {
    const [, count = '0'] =
      /gatehouse_requests_total\{[^}]*route="GET \/open",status="200"[^}]*\} (\d+)/.exec(await metrics.text()) ?? [];
    return Number(count);
  };
  const paths = [...patterns].map((pattern) => pattern.replaceAll(/\{\w+\}/g, 'some'));
  return { port, patterns, paths: [...paths, ...OTHER_PATHS], routes, opened };
}

async function said(
  port: number,
  packets: readonly string[],
  waitMs: number,
): Promise<{ text: string; closed: boolean }> {
  const connection = await RawConnection.open(port);
  for (const [i, packet] of packets.entries()) {
    if (i > 0) await pause(PACKET_MS);
    connection.write(packet);
  }
  await connection.waitForClose(waitMs).catch(() => undefined);
  const { text, closed } = connection;
  connection.destroy();
  return { text, closed };
}

/** Runs all of them, some at a time. */
async function each<T>(list: readonly T[], run: (one: T) => Promise<void>): Promise<void> {
  const left = list.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const one of left) await run(one);
    }),
  );
}

onEach('T1: no path and no verb answers one request as two, or executes what is behind it', async (t, on) => {
  const { port, patterns, paths, routes, opened } = await startWhole(t, on);
  for (const pattern of ['/v1/traces', '/v1/logs', '/v1/metrics', '/', '/ui/assets/{file}', '/healthz', '/open'])
    t.ok(patterns.has(pattern), `${pattern} is among the patterns`);
  const chunks = new Set(routes.filter((one) => one.takesChunks).map(({ method, path }) => `${method} ${path}`));
  t.same([...chunks], ['POST /v1/traces', 'POST /v1/logs', 'POST /v1/metrics'], 'where chunks are taken');
  const verbs = [...VERBS, ...OTHER_VERBS];
  const cases = paths
    .flatMap((path) => verbs.map((verb) => ({ path, verb })))
    .flatMap((asked, turn) => smugglings(get('/open'), turn).map((shape) => ({ ...asked, shape })));
  const wrong: string[] = [];
  await each(cases, async ({ path, verb, shape: { what, headers, packets } }) => {
    const head = `${verb} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEYS.write}\r\n${headers}\r\n`;
    const { text, closed } = await said(port, [head + packets[0]!, ...packets.slice(1)], 20_000);
    const answers = text.match(/HTTP\/1\.1 (?!1)\d{3} /g)?.length ?? 0;
    // To HEAD there is nothing to be said, and where chunks are taken the connection may end before the answer.
    const isSilent = verb === 'HEAD' || chunks.has(`${verb} ${path}`);
    const isRight = closed && !text.includes('"open"') && (answers === 1 || (isSilent && answers === 0));
    if (!isRight) wrong.push(`${verb} ${path}, ${what}: ${answers} answers, ${closed ? 'closed' : 'open'}`);
  });
  t.same([wrong.length, wrong.slice(0, 10)], [0, []], `${cases.length} cases`);
  t.equal(await opened(), 0, 'nothing behind them was executed');
  t.match((await said(port, [get('/open', { headers: 'Connection: close\r\n' })], 1_000)).text, '"open"');
  t.equal(await opened(), 1, 'what is executed is counted');
});

onEach(
  'T1: of random framings, bodies and packets none is answered as more than a strict reader sees',
  async (t, on) => {
    const { port, paths } = await startWhole(t, on);
    const random = randomFrom(SEED);
    const targets = {
      methods: [...VERBS, 'FOO'],
      paths,
      callers: ['', `Authorization: Bearer ${KEYS.read}\r\n`, `Authorization: Bearer ${KEYS.admin}\r\n`],
      inner: (id: string) => get('/open', { headers: `X-Request-Id: ${id}\r\n` }),
    };
    const cases = Array.from({ length: runs(3_000) }, (_, i) => framed(targets, random, `r${i}`));
    const wrong: string[] = [];
    await each(cases, async (one) => {
      const fault = whatIsWrong(one, (await said(port, one.packets, 50)).text);
      if (fault !== undefined) wrong.push(`${fault}: ${one.what}`);
    });
    t.same(wrong.slice(0, 5), [], `${cases.length} cases, seed ${SEED}`);
  },
);

onEach('T1: nothing is executed behind a request for an upgrade with bytes of another protocol', async (t, on) => {
  const { port, paths, opened } = await startWhole(t, on);
  const wrong: string[] = [];
  const others = paths.filter((path) => !/^\/(open|fail)\b/.test(path));
  const cases = others.flatMap((path) => VERBS.map((verb) => ({ path, verb })));
  await each(cases, async ({ path, verb }) => {
    const upgrade = 'Connection: upgrade\r\nUpgrade: websocket\r\n';
    const head = `${verb} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEYS.write}\r\n${upgrade}\r\n`;
    const { text, closed } = await said(port, [`${head}0\r\nA:`, get('/open')], 20_000);
    if (!closed || text.includes('"open"')) wrong.push(`${verb} ${path}: ${text.slice(0, 40)}`);
  });
  t.same(wrong, [], `${cases.length} cases`);
  t.equal(await opened(), 0, 'nothing behind them was executed');
});

t.test('the strict reader of this test sees what is there', async (t) => {
  const inner = get('/open', { headers: 'X-Request-Id: r1-inner\r\n' });
  const outer = (headers: string, body: string) =>
    `POST /a HTTP/1.1\r\nHost: a\r\nX-Request-Id: r1\r\n${headers}\r\n${body}${inner}`;
  const both = ['r1', 'r1-inner'].map((id) => `HTTP/1.1 200 OK\r\nX-Request-Id: ${id}\r\n\r\n`).join('');
  const wrong = (headers: string, body: string) => whatIsWrong({ packets: [outer(headers, body)], what: '' }, both);
  t.equal(wrong('Content-Length: 2\r\n', '{}'), undefined, 'two requests');
  t.match(wrong('Transfer-Encoding: chunked\r\n', '0\r\nA:'), /r1-inner/);
  t.match(wrong(`Content-Length: ${inner.length + 2}\r\n`, '{}'), /r1-inner/);
  t.match(wrong('Content-Length: 2\r\nContent-Length: 2\r\n', '{}'), /r1-inner/);
  t.match(
    whatIsWrong({ packets: [outer('Content-Length: 2\r\n', '{}')], what: '' }, `${both}HTTP/1.1 200 OK\r\n`),
    /3 answers/,
  );
});
