// Who asks, as far as the server can know: pages of other origins (CORS), and addresses behind proxies.
import t from 'tap';
import { CallerAddresses } from '../../src/http/admission/caller-address.ts';
import { get, KEYS, method, onEach, post, startServer } from '../support/front-server.ts';
import { rawExchange } from '../support/raw-http.ts';

const PAGE = 'https://app.example.com';
const from = (origin: string, more = '') => `Origin: ${origin}\r\n${more}`;
const CROSSING = [
  'access-control-allow-origin',
  'access-control-expose-headers',
  'vary',
  'access-control-allow-methods',
];

onEach('a page of a named origin may call, and can read errors', async (t, on) => {
  const { port } = await startServer(t, { on, settings: { corsOrigins: `https://other.example, ${PAGE}` } });
  const ask = async (bytes: string) => (await rawExchange(port, [bytes])).answers[0]!;
  const asked: Record<string, [bytes: string, status: number]> = {
    'a read': [get('/things', { key: KEYS.read, headers: from(PAGE) }), 200],
    'a write': [post('/things', '{"name":"a"}', { headers: from(PAGE) }), 201],
    'a mistake': [post('/things', '{', { headers: from(PAGE) }), 400],
    'no key': [get('/things', { headers: from(PAGE) }), 401],
    'an unknown path': [get('/nothing', { headers: from(PAGE) }), 404],
    'a failure of ours': [get('/fail/x', { headers: from(PAGE, 'X-Request-Id: throws\r\n') }), 500],
    'an unsound head': [get('/open', { headers: from(PAGE, 'Host: b\r\n') }), 400],
  };
  for (const [what, [bytes, status]] of Object.entries(asked)) {
    const answer = await ask(bytes);
    t.equal(answer.status, status, what);
    t.equal(answer.headers.get('access-control-allow-origin'), PAGE, what);
    t.match(answer.headers.get('access-control-expose-headers'), /Retry-After.*X-Request-Id/, what);
    t.equal(answer.headers.get('vary'), 'Origin', what);
    t.notOk(answer.headers.has('access-control-allow-credentials'), what);
  }
  const preflight = method('OPTIONS', '/things').replace(
    'Host',
    `${from(PAGE, 'Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n')}Host`,
  );
  const answer = await ask(preflight);
  t.equal(answer.status, 204);
  t.equal(answer.headers.get('access-control-allow-origin'), PAGE);
  t.equal(answer.headers.get('access-control-allow-methods'), 'GET, HEAD, POST');
  t.match(answer.headers.get('access-control-allow-headers'), /Authorization.*Idempotency-Key/);
  for (const [what, bytes] of Object.entries({
    'another origin': preflight.replace(PAGE, 'https://evil.example'),
    'a part of the origin': preflight.replace(PAGE, 'https://app.example.co'),
    'no preflight': preflight.replace('Access-Control-Request-Method: POST\r\n', ''),
  })) {
    const refused = await ask(bytes);
    t.equal(refused.status, 405, what);
    t.notOk(refused.headers.has('access-control-allow-methods'), what);
  }
  const stranger = await ask(get('/things', { key: KEYS.read, headers: from('https://evil.example') }));
  t.same([stranger.status, stranger.headers.get('access-control-allow-origin')], [200, undefined]);
  t.equal(stranger.headers.get('vary'), 'Origin', 'a cache must not hand this answer to the page');
  t.equal((await ask(get('/open'))).headers.get('vary'), 'Origin');
});

onEach('all origins, or none', async (t, on) => {
  const all = await startServer(t, { on, settings: { corsOrigins: '*' } });
  const [answer] = (await rawExchange(all.port, [get('/open', { headers: from(PAGE) })])).answers;
  t.same([answer!.headers.get('access-control-allow-origin'), answer!.headers.get('vary')], ['*', undefined]);
  const none = await startServer(t, { on });
  const preflight = method('OPTIONS', '/things').replace(
    'Host',
    `${from(PAGE, 'Access-Control-Request-Method: POST\r\n')}Host`,
  );
  for (const bytes of [get('/open', { headers: from(PAGE) }), preflight]) {
    const [silent] = (await rawExchange(none.port, [bytes])).answers;
    for (const name of CROSSING) t.notOk(silent!.headers.has(name), name);
  }
});

onEach('T27: only a page of a named origin can take an answer for anything', async (t, on) => {
  const named = await startServer(t, { on, settings: { corsOrigins: PAGE } });
  const none = await startServer(t, { on });
  const policy = async (port: number, bytes: string) => {
    const [answer] = (await rawExchange(port, [bytes], { bodiless: bytes.startsWith('HEAD') })).answers;
    return [answer!.status, answer!.headers.get('cross-origin-resource-policy')];
  };
  const asked: Record<string, [bytes: (headers: string) => string, status: number]> = {
    'a read': [(headers) => get('/things', { key: KEYS.read, headers }), 200],
    'no body': [(headers) => method('DELETE', '/things/a', KEYS.write).replace('Host', `${headers}Host`), 204],
    HEAD: [(headers) => method('HEAD', '/things', KEYS.read).replace('Host', `${headers}Host`), 200],
    'no key': [(headers) => get('/things', { headers }), 401],
    'an unknown path': [(headers) => get('/nothing', { headers }), 404],
    'a wrong method': [(headers) => method('PUT', '/things').replace('Host', `${headers}Host`), 405],
    'an unsound head': [(headers) => get('/open', { headers: `${headers}Host: b\r\n` }), 400],
    'a page': [(headers) => get('/ui', { headers }), 302],
  };
  for (const [what, [bytes, status]] of Object.entries(asked)) {
    t.same(await policy(none.port, bytes('')), [status, 'same-origin'], what);
    t.same(await policy(none.port, bytes(from(PAGE))), [status, 'same-origin'], `${what}, no origin is named`);
    t.same(await policy(named.port, bytes('')), [status, 'same-origin'], `${what}, who does not say`);
    t.same(await policy(named.port, bytes(from('https://evil.example'))), [status, 'same-origin'], `${what}, another`);
    t.same(await policy(named.port, bytes(from(PAGE))), [status, undefined], `${what}, the named one`);
  }
});

t.test('the address of a caller is the last that a trusted proxy gives', async (t) => {
  const none = new CallerAddresses(undefined);
  t.equal(none.callerOf('10.0.0.1', '1.2.3.4'), '10.0.0.1', 'without trusted proxies the connection counts');
  t.equal(none.callerOf('0000:0000:0000:0000:0000:ffff:7f00:0001', ''), '127.0.0.1');
  t.equal(none.callerOf('0000:0000:0000:0000:0000:0000:0000:0001', ''), '::1');
  t.equal(none.callerOf('', ''), '');
  const some = new CallerAddresses('10.0.0.0/8, fd00::/8,192.0.2.7');
  for (const [peer, forwarded, caller] of [
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['9.9.9.9', '1.2.3.4', '9.9.9.9'],
    ['::ffff:10.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['10.0.0.1', '6.6.6.6, 1.2.3.4', '1.2.3.4'],
    ['10.0.0.1', '6.6.6.6, 1.2.3.4, 10.9.9.9,192.0.2.7', '1.2.3.4'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['10.0.0.1', '1.2.3.4, unknown', '10.0.0.1'],
    ['10.0.0.1', '1.2.3.4, unknown, 10.0.0.2', '10.0.0.2'],
    ['10.0.0.1', '1.2.3.4:5678', '1.2.3.4'],
    ['10.0.0.1', '[2001:db8::1]:443', '2001:db8::1'],
    ['fd00::1', '2001:DB8:0::2', '2001:db8::2'],
    ['10.0.0.1', ' , ', '10.0.0.1'],
    ['10.0.0.1', Array(40).fill('10.0.0.2').join(), '10.0.0.1'],
  ] as const)
    t.equal(some.callerOf(peer, forwarded), caller, `${peer} with ${forwarded.slice(0, 50)}`);
});
