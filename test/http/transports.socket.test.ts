// The two HTTP servers beside each other: the same bytes for the same request, and what only the one of Node.js must
// answer.
import t from 'tap';
import { canSharePort } from '../../src/http/transport/node-http.ts';
import { Router } from '../../src/http/transport/router.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { get, KEYS, method, post, startServer, TRANSPORTS, until, waiting } from '../support/front-server.ts';
import { RawConnection, rawExchange } from '../support/raw-http.ts';

t.test('both servers answer byte for byte alike', async (t) => {
  if (!TRANSPORTS.includes('uws')) return t.comment('uWebSockets.js does not load here');
  const ports = { uws: (await startServer(t, { on: 'uws' })).port, node: (await startServer(t, { on: 'node' })).port };
  const id = 'X-Request-Id: same\r\n';
  const many = Array.from({ length: 91 }, (_, i) => `X-${i}: 1\r\n`).join('');
  const requests: Record<string, string> = {
    'a read': get('/things', { key: KEYS.read, headers: id }),
    'a read with a query': get('/things?limit=7&color=red', { key: KEYS.read, headers: id }),
    'a bad query': get('/things?limit=x', { key: KEYS.read, headers: id }),
    'a parameter with an escape': get('/things/a%2Fb', { key: KEYS.read, headers: id }),
    'an empty parameter': get('/things/', { key: KEYS.read, headers: id }),
    'a created thing': post('/things', '{"name":"a"}', { headers: id }),
    'no JSON': post('/things', '{', { headers: id }),
    'another type': post('/things', '{}', { headers: `${id}Content-Type: text/plain\r\n` }),
    'too large a body': post('/things', 'x'.repeat(3_000), { headers: id }),
    HEAD: method('HEAD', '/things', KEYS.read).replace('Host', `${id}Host`),
    '204': method('DELETE', '/things/a', KEYS.write).replace('Host', `${id}Host`),
    '401': get('/things', { headers: id }),
    '403': post('/things', '{}', { key: KEYS.read, headers: id }),
    '404': get('/nothing', { headers: id }),
    '405': method('PUT', '/things').replace('Host', `${id}Host`),
    '500': get('/fail/throws', { headers: `X-Request-Id: throws\r\n` }),
    '431': get('/open', { headers: id + many }),
    'two hosts': get('/open', { headers: `${id}Host: b\r\n` }),
  };
  for (const [what, bytes] of Object.entries(requests)) {
    const bodiless = bytes.startsWith('HEAD');
    const [uws, node] = await Promise.all(
      [ports.uws, ports.node].map(async (port) => (await rawExchange(port, [bytes], { bodiless })).text),
    );
    const masked = (text: string) => text.replace(/Date: [^\r]*/, 'Date: now');
    t.match(uws, /^HTTP\/1\.1 \d{3} /, `${what}: an answer`);
    t.equal(masked(node!), masked(uws!), what);
  }
});

t.test('the server of Node.js answers what uWebSockets.js does not take, at once, and counts it', async (t) => {
  const metrics = new Metrics({ processName: 'test' });
  const { port } = await startServer(t, { on: 'node', metrics });
  const ask = async (bytes: string) => {
    const { answers, closed } = await rawExchange(port, [bytes]);
    return [answers[0]?.status, closed];
  };
  t.same(await ask('GET /open HTTP/1.0\r\n\r\n'), [200, true], 'HTTP/1.0');
  const query = await ask(get('http://gatehouse.test/things?limit=x', { key: KEYS.read }));
  t.same(query, [400, false], 'the whole address, its query read');
  t.same(await ask('GET http://gatehouse.test/open HTTP/1.1\r\nHost: a\r\n\r\n'), [200, false], 'the whole address');
  t.same(await ask('GET /open HTTP/1.1\r\n\r\n'), [400, true], 'no Host');
  t.same(await ask('BREW /open HTTP/1.1\r\nHost: a\r\n\r\n'), [405, true], 'an unknown method');
  t.same(await ask('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'), [405, true], 'CONNECT');
  t.same(
    await ask('GET /open HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'),
    [200, true],
    'an upgrade is not taken up, and nothing is read behind it',
  );
  t.same(await ask('\x16\x03\x01\x02\x00'), [400, true], 'TLS');
  t.same(await ask(get('/open', { headers: `X: ${'x'.repeat(40_000)}\r\n` })), [431, true], 'a head over every bound');
  t.same(await ask(get('/open', { headers: 'Expect: the-best\r\n' })), [200, false], 'an unknown expectation');
  const text = await metrics.text();
  for (const status of [400, 405, 431])
    t.match(
      text,
      new RegExp(`gatehouse_requests_total\\{[^}]*route="unknown",status="${status}"[^}]*\\} [1-9]`),
      `${status} is counted`,
    );
  const { answers } = await rawExchange(port, ['GET /open HTTP/1.1\r\n\r\n']);
  const { error } = JSON.parse(answers[0]!.body);
  t.match(error, {
    code: 'validation_failed',
    message: /no Host header/,
    request_id: answers[0]!.headers.get('x-request-id'),
  });
});

t.test('a client that does not wait may be 64 requests ahead; one more ends its connection', async (t) => {
  const { port } = await startServer(t, { on: 'node' });
  const ask = (n: number) => post('/fail/x', `{"how":"ahead-${n}"}`);
  const connection = await RawConnection.open(port);
  for (let n = 0; n < 65; n++) connection.write(ask(n));
  await connection.waitForClose();
  t.ok(waiting.has('ahead-63'), 'the 64th was taken');
  t.notOk(waiting.has('ahead-64'), 'the one behind it was not');
  waiting.clear();
});

t.test('who takes an answer too slowly, or sends a body so, is let go', { timeout: 60_000 }, async (t) => {
  const { port, server } = await startServer(t, { on: 'node' });
  const drip = await RawConnection.open(port);
  drip.write(post('/things/x/echo', '', { length: 50_000 }));
  const timer = setInterval(() => drip.write('x'), 500);
  await drip.waitForClose(30_000);
  clearInterval(timer);
  t.equal(drip.answers.length, 0, 'a body of a byte now and then');
  await until(() => server.connections === 0);
});

t.test('a large answer arrives whole, also where its memory is used again behind it', async (t) => {
  const { port } = await startServer(t, { on: 'node' });
  const body = JSON.stringify({ text: 'y'.repeat(90_000) });
  const connection = await RawConnection.open(port);
  for (let n = 1; n <= 20; n++) connection.write(post('/things/x/echo', body.replaceAll('y', String(n % 10))));
  const answers = await connection.waitForAnswers(20);
  for (const [i, answer] of answers.entries())
    t.ok(answer.body === body.replaceAll('y', String((i + 1) % 10)), `answer ${i + 1}`);
  connection.write(post('/fail/x', '{"how":"large"}'));
  await until(() => waiting.has('large'));
  const large = 'z'.repeat(5_000_000);
  waiting.get('large')!.resolve(large);
  t.ok((await connection.waitForAnswers(21))[20]!.body === large, '5 MB');
  connection.destroy();
});

t.test('a pattern is matched as uWebSockets.js does it', async (t) => {
  const router = new Router<string>();
  for (const pattern of [
    '/v1/things',
    '/v1/things/{id}',
    '/v1/things/special',
    '/v1/things/{id}/parts/{part}',
    '/v1/things/special/other',
  ])
    router.add(pattern, pattern);
  const find = (path: string) => router.find(path);
  t.same(find('/v1/things'), { value: '/v1/things', parameters: [] });
  t.same(find('/v1/things/special'), { value: '/v1/things/special', parameters: [] }, 'what is written out wins');
  t.same(
    find('/v1/things/special/parts/7'),
    { value: '/v1/things/{id}/parts/{part}', parameters: ['special', '7'] },
    'and is taken back',
  );
  t.same(find('/v1/things/a%2Fb'), { value: '/v1/things/{id}', parameters: ['a%2Fb'] }, 'not decoded');
  for (const path of ['/', '/v1', '/v1/things/', '/v1/Things', '/v1/things//parts/7', '//v1/things'])
    t.equal(find(path), undefined, path);
});

t.test('which Node.js can share a port', async (t) => {
  t.same(['20.20.2', '22.11.0', '22.12.0', '24.0.0', '26.1.0'].map(canSharePort), [false, false, true, true, true]);
});
