// The way out, against receivers that behave badly at every stage: it verifies who is there, ends by its deadline
// whatever the other side does, reads a little and follows nothing. Deadlines are seen by what they cut off, with wide
// bounds for slow machines.
import net from 'node:net';
import tls from 'node:tls';
import t, { type Test } from 'tap';
import { GuardedHttps, type Post } from '../../src/egress/guarded-https.ts';
import { byNameServers } from '../../src/egress/resolve.ts';
import { allowedHostsOf, targetUrl } from '../../src/egress/target-url.ts';
import { certificate } from '../support/certificate.ts';
import { startDns } from '../support/dns-server.ts';
import { reasonOf } from '../support/egress-reason.ts';
import { startReceiver } from '../support/https-receiver.ts';

const LOCALHOST = new Set(['localhost']);
/** The bound on a request that does not end by itself and is cut off after SHORT_MS: nothing else would end it. */
const LONG_MS = 60_000;
const SHORT_MS = 250;

const request = (more: Partial<Post> = {}): Post => ({
  headers: { 'x-own': 'yes' },
  body: Buffer.from('{"a":1}'),
  timeoutMs: 60_000,
  signal: new AbortController().signal,
  ...more,
});

t.test('a POST as it was asked for, and a connection of its own each', async (t) => {
  const receiver = await startReceiver(t);
  const https = new GuardedHttps({ allowedHosts: LOCALHOST, ca: receiver.ca });
  receiver.answer = (_request, response) => response.writeHead(202, { 'retry-after': '7' }).end('thanks');
  for (let n = 1; n <= 3; n++) {
    const answer = await https.post(`${receiver.url}/hooks/a?b=c%20d#never-sent`, request());
    t.same(answer, { status: 202, retryAfter: '7', text: 'thanks' });
    t.equal(receiver.connections(), n, 'nothing is used again');
  }
  t.match(receiver.received[0], {
    method: 'POST',
    path: '/hooks/a?b=c%20d',
    body: '{"a":1}',
    headers: { host: `localhost:${receiver.port}`, 'x-own': 'yes', 'content-length': '7', connection: 'close' },
  });
});

t.test('proxy variables and NODE_TLS_REJECT_UNAUTHORIZED are not heeded', async (t) => {
  const PROXIES = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'ALL_PROXY'];
  t.teardown(() => {
    for (const name of [...PROXIES, 'NODE_USE_ENV_PROXY', 'NODE_TLS_REJECT_UNAUTHORIZED']) delete process.env[name];
  });
  const receiver = await startReceiver(t);
  for (const name of ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'ALL_PROXY'])
    process.env[name] = 'http://127.0.0.1:9';
  process.env.NODE_USE_ENV_PROXY = '1';
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  const trusting = new GuardedHttps({ allowedHosts: LOCALHOST, ca: receiver.ca });
  t.match(await trusting.post(receiver.url, request()), { status: 200 });
  const others = new GuardedHttps({ allowedHosts: LOCALHOST });
  t.equal(await reasonOf(others.post(receiver.url, request())), 'tls');
});

t.test('the certificate is the one of the host', async (t) => {
  const { ca } = await certificate();
  const cases: [string, Awaited<ReturnType<typeof certificate>>, string][] = [
    ['of another name', await certificate(['example.com']), 'https://localhost:%s'],
    ['of another address', await certificate(['127.0.0.2']), 'https://127.0.0.1:%s'],
    ['of a name, asked for an address', await certificate(['localhost']), 'https://127.0.0.1:%s'],
    ['expired', await certificate(['localhost'], { hasExpired: true }), 'https://localhost:%s'],
  ];
  const https = new GuardedHttps({ allowedHosts: new Set(['localhost', '127.0.0.1', '::1']), ca });
  for (const [what, shown, url] of cases) {
    const receiver = await startReceiver(t, { certificate: shown });
    t.equal(await reasonOf(https.post(url.replace('%s', `${receiver.port}`), request())), 'tls', what);
    t.same(receiver.received, [], 'and nothing was sent');
  }
  const own = await startReceiver(t);
  t.equal(
    await reasonOf(new GuardedHttps({ allowedHosts: LOCALHOST }).post(own.url, request())),
    'tls',
    'unknown issuer',
  );
  t.match(await https.post(`https://127.0.0.1:${own.port}`, request()), { status: 200 }, 'an address of its own');
  const six = await startReceiver(t, { host: '::1' }).catch(() => undefined);
  if (six !== undefined) t.match(await https.post(`https://[::1]:${six.port}`, request()), { status: 200 });
});

t.test('a target that does not answer is cut off at the deadline', async (t) => {
  const https = new GuardedHttps({ allowedHosts: LOCALHOST, ca: (await certificate()).ca });
  const silences: [string, (socket: net.Socket) => void, 'tcp' | 'tls'][] = [
    ['never answers the TLS greeting', () => undefined, 'tcp'],
    ['never answers the request', () => undefined, 'tls'],
    ['drips its answer', (socket) => drip(socket, 'HTTP/1.1 200 OK\r\nx-long: ', 'a'), 'tls'],
    ['drips interim answers', (socket) => drip(socket, '', 'HTTP/1.1 103 Early Hints\r\n\r\n', 100), 'tls'],
  ];
  for (const [what, behave, layer] of silences) {
    const port = await startServer(t, layer, behave);
    const start = performance.now();
    const reason = await reasonOf(https.post(`https://localhost:${port}`, request({ timeoutMs: SHORT_MS })));
    t.equal(reason, 'timeout', what);
    const ms = performance.now() - start;
    t.ok(ms >= SHORT_MS - 20 && ms < LONG_MS, `${what}: ${Math.round(ms)} ms`);
  }
});

t.test('a name server that never answers, or that knows nothing', async (t) => {
  const dns = await startDns(t, ({ name }) =>
    name.startsWith('slow') ? undefined : name.startsWith('fail') ? 'servfail' : [],
  );
  const https = new GuardedHttps({ allowedHosts: new Set(), resolve: byNameServers([dns.address]) });
  const start = performance.now();
  const slow = https.post('https://slow.example.com', request({ timeoutMs: SHORT_MS }));
  t.equal(await reasonOf(slow), 'timeout');
  const tookMs = performance.now() - start;
  t.ok(tookMs < LONG_MS, `${tookMs.toFixed(0)} ms`);
  t.equal(await reasonOf(https.post('https://fail.example.com', request())), 'dns');
  t.equal(await reasonOf(https.post('https://empty.example.com', request())), 'dns');
});

t.test('an answer is an answer, however long its body', async (t) => {
  const https = new GuardedHttps({ allowedHosts: LOCALHOST, ca: (await certificate()).ca });
  let written = 0;
  const endless = await startServer(t, 'tls', (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    const more = (): void => {
      written += 64 * 1024;
      socket.write(Buffer.alloc(64 * 1024), () => socket.destroyed || more());
    };
    more();
  });
  t.match(await https.post(`https://localhost:${endless}`, request()), { status: 200 }, 'an endless body');
  t.ok(written < 64 * 1024 * 1024, `${written} bytes were written until it was cut`);
  const slow = await startServer(t, 'tls', (socket) =>
    drip(socket, 'HTTP/1.1 204 No\r\ncontent-length: 99\r\n\r\n', 'a'),
  );
  t.match(await https.post(`https://localhost:${slow}`, request()), { status: 204 });
  const dripping = await startServer(t, 'tls', (socket) =>
    drip(socket, 'HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n', 'a'),
  );
  const start = performance.now();
  t.match(await https.post(`https://localhost:${dripping}`, request({ timeoutMs: 60_000 })), { status: 200 });
  t.ok(performance.now() - start < 30_000, 'a body that drips does not hold it until the deadline');
});

t.test('what is no answer is an error', async (t) => {
  const https = new GuardedHttps({ allowedHosts: LOCALHOST, ca: (await certificate()).ca });
  const noise: [string, (socket: net.Socket) => void, 'tcp' | 'tls', RegExp][] = [
    ['reset before TLS', (socket) => socket.resetAndDestroy(), 'tcp', /^(reset|tls|refused)$/],
    ['no TLS at all', (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'), 'tcp', /^(reset|tls)$/],
    ['closed without an answer', (socket) => void socket.end(), 'tls', /^reset$/],
    ['not HTTP', (socket) => socket.end('220 mail.example.com ESMTP\r\n'), 'tls', /^reset$/],
    [
      'too long a head',
      (socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`),
      'tls',
      /^reset$/,
    ],
    ['interim answers without end', (socket) => socket.end('HTTP/1.1 103 Early\r\n\r\n'.repeat(50)), 'tls', /^reset$/],
    [
      'another protocol',
      (socket) => socket.end('HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
      'tls',
      /^reset$/,
    ],
  ];
  for (const [what, behave, layer, expected] of noise) {
    const port = await startServer(t, layer, behave);
    t.match(await reasonOf(https.post(`https://localhost:${port}`, request())), expected, what);
  }
  const closed = await startServer(t, 'tcp', () => undefined, { isClosed: true });
  t.equal(await reasonOf(https.post(`https://localhost:${closed}`, request())), 'refused', 'no listener');
});

t.test('it ends on request', async (t) => {
  const port = await startServer(t, 'tls', () => undefined);
  const https = new GuardedHttps({ allowedHosts: LOCALHOST, ca: (await certificate()).ca });
  const leaving = new AbortController();
  const running = reasonOf(https.post(`https://localhost:${port}`, request({ signal: leaving.signal })));
  setTimeout(() => leaving.abort(), 50);
  t.equal(await running, 'aborted');
  t.equal(await reasonOf(https.post(`https://localhost:${port}`, request({ signal: leaving.signal }))), 'aborted');
  const timed = request({ signal: AbortSignal.timeout(50) });
  t.equal(await reasonOf(https.post(`https://localhost:${port}`, timed)), 'timeout', 'a deadline of the caller is one');
});

t.test('the operator lets hosts through by their exact names', async (t) => {
  const allowed = allowedHostsOf('Intranet, hooks.corp:9000 ,::1,0:0:0:0:0:0:0:2,10.0.0.1,');
  const passes = [
    'https://intranet:1/',
    'https://INTRANET/',
    'https://hooks.corp:9000/',
    'https://[::1]:5/',
    'https://[::2]/',
  ];
  for (const url of [...passes, 'https://10.0.0.1:81/']) t.type(targetUrl(url, allowed), 'object', url);
  const refused = [
    'https://intranet.:1/',
    'https://x.intranet:1/',
    'https://hooks.corp:9001/',
    'https://hooks.corp:1443/',
    'https://[::3]/',
    'https://10.0.0.2/',
    'https://0xa000001/',
    'http://intranet/',
    'https://u@intranet/',
  ];
  for (const url of refused) t.type(targetUrl(url, allowed), 'string', url);
  t.same([...allowedHostsOf(undefined)], []);
  t.equal(targetUrl('https://example.com:9443/', allowed), 'must use port 443 or 8443');
  t.equal(targetUrl('https://example.com:0/', allowed), 'must name its host in the usual form');
  for (const url of ['https://example.com:443/', 'https://example.com:8443/', 'https://8.8.8.8/'])
    t.type(targetUrl(url, allowed), 'object', url);
});

function drip(socket: net.Socket, first: string, again: string, everyMs = 20): void {
  socket.write(first);
  const timer = setInterval(() => socket.write(again), everyMs);
  socket.on('close', () => clearInterval(timer));
}

/** A raw server: `behave` is called once the request's first bytes have come (tls), or at once (tcp). */
async function startServer(
  t: Test,
  layer: 'tcp' | 'tls',
  behave: (socket: net.Socket) => void,
  options: { isClosed?: boolean } = {},
): Promise<number> {
  const { key, cert } = await certificate();
  const sockets = new Set<net.Socket>();
  const keep = (socket: net.Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  };
  const server =
    layer === 'tcp'
      ? net.createServer((socket) => {
          keep(socket);
          behave(socket);
        })
      : tls.createServer({ key, cert }, (socket) => {
          keep(socket);
          socket.once('data', () => behave(socket));
        });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  if (options.isClosed) await close();
  else t.teardown(close);
  return port;
}
