// No user-given target makes the service connect to a private address: by spelling, by a name server's answer, by an
// answer that changes between check and connection, or by a redirect. Counted twice: by listeners on all of loopback,
// and by every attempt of this process to connect, whatever its port. Both counters are shown to count before they are
// believed.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import net from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { GuardedHttps, type Post } from '../../src/egress/guarded-https.ts';
import { isPublicAddress } from '../../src/egress/public-address.ts';
import { byNameServers } from '../../src/egress/resolve.ts';
import { targetUrl } from '../../src/egress/target-url.ts';
import { targetProblem } from '../../src/registry/alerts/alert-target.ts';
import { type Script, startDns } from '../support/dns-server.ts';
import { reasonOf } from '../support/egress-reason.ts';
import { startReceiver } from '../support/https-receiver.ts';
import { SEED } from '../support/seed.ts';
import { PRIVATE_ANSWERS, PRIVATE_SPELLINGS } from './spellings.ts';

/** Public by its range; anycast sinks for junk (RFC 7535), and unallocated space, so that no host is disturbed. */
const SINKS = { A: '192.175.48.1', AAAA: '2000::1' } as const;

const request = (): Post => ({
  headers: {},
  body: Buffer.from('{}'),
  timeoutMs: 4_000,
  signal: new AbortController().signal,
});

t.test('no spelling of a private address is connected to', async (t) => {
  const sniffer = await startSniffer(t);
  const https = new GuardedHttps({ allowedHosts: new Set() });
  t.ok(PRIVATE_SPELLINGS.length >= 40, `${PRIVATE_SPELLINGS.length} spellings`);
  for (const spelling of PRIVATE_SPELLINGS) {
    for (const port of ['8443', '443']) {
      const url = spelling.replace('%s', port);
      for (const channel of ['webhook', 'chat_app'] as const)
        t.type(targetProblem(channel, url, new Set()), 'string', `an alert to ${JSON.stringify(url)} is refused`);
      t.equal(await reasonOf(https.post(url, request())), 'private_address', JSON.stringify(url));
    }
  }
  t.same(sniffer.attempts(), [], 'nothing was connected to');
  t.equal(sniffer.arrived(), 0);
});

t.test('what is let through is a public address or a name with a dot, however it is spelt', async (t) => {
  const pieces = [
    '%31',
    '%00',
    '.',
    '..',
    '0x',
    '0',
    '@',
    ':',
    '[',
    ']',
    '\\',
    '/',
    '#',
    '?',
    '\t',
    '\n',
    ' ',
    '１',
    '。',
    '%25',
    '::',
  ];
  const spelling = fc.oneof(
    fc.constantFrom(...PRIVATE_SPELLINGS),
    fc.constantFrom('https://example.com:%s/', 'https://8.8.8.8:%s/', 'https://[2606:4700::1111]:%s/'),
  );
  const change = fc.tuple(fc.nat(), fc.nat({ max: 2 }), fc.constantFrom(...pieces));
  let passed = 0;
  fc.assert(
    fc.property(spelling, fc.array(change, { maxLength: 3 }), (text, changes) => {
      const url = changes.reduce(
        (before, [at, drop, piece]) => {
          const cut = at % (before.length + 1);
          return `${before.slice(0, cut)}${piece}${before.slice(cut + drop)}`;
        },
        text.replace('%s', '443'),
      );
      const target = targetUrl(url, new Set());
      if (typeof target === 'string') return true;
      passed++;
      const { host, port } = target;
      const isName =
        /^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.(xn--[a-z0-9-]+|[a-z]+)$/.test(host) && !/localhost$|localdomain$/.test(host);
      const isUsual = url.toLowerCase().startsWith(`https://${net.isIPv6(host) ? `[${host}]` : host}`);
      return isUsual && (port === 443 || port === 8443) && (net.isIP(host) === 0 ? isName : isPublicAddress(host));
    }),
    { numRuns: 10_000, seed: SEED },
  );
  t.ok(passed > 100, `${passed} of 10,000 were let through`);
});

t.test('no answer of a name server leads to a private address', async (t) => {
  const sniffer = await startSniffer(t);
  const answers = new Map(PRIVATE_ANSWERS.map((address, i) => [`h${i}.example.com`, [address]]));
  answers.set('all.example.com', [...PRIVATE_ANSWERS]);
  answers.set('mixed.example.com', ['127.0.0.1', '::1', '::ffff:127.0.0.1', '10.0.0.1']);
  const dns = await startDns(t, ({ name }) => answers.get(name) ?? 'nxdomain');
  const https = new GuardedHttps({ allowedHosts: new Set(), resolve: byNameServers([dns.address]) });
  for (const [name, addresses] of answers) {
    const reason = await reasonOf(https.post(`https://${name}:8443/`, request()));
    t.equal(reason, 'private_address', `${name}: ${addresses.join(' ')}`);
    t.equal(targetProblem('webhook', `https://${name}:8443/`, new Set()), undefined, 'the name itself is harmless');
  }
  t.equal(await reasonOf(https.post('https://nobody.example.com/', request())), 'dns');
  t.same(sniffer.attempts(), []);
  t.equal(sniffer.arrived(), 0);
});

t.test('of mixed answers only the public ones are tried', async (t) => {
  const sniffer = await startSniffer(t);
  const dns = await startDns(t, () => ['127.0.0.1', SINKS.A, '::1', SINKS.AAAA, '::ffff:127.0.0.1', '0.0.0.0']);
  const https = new GuardedHttps({ allowedHosts: new Set(), resolve: byNameServers([dns.address]) });
  t.not(await reasonOf(https.post('https://mixed.example.com:8443/', request())), 'answered');
  t.strictSame(
    sniffer.attempts().filter((address) => address !== SINKS.A && address !== SINKS.AAAA),
    [],
  );
  t.ok(sniffer.attempts().includes(SINKS.A), 'the public one was tried');
  t.equal(sniffer.arrived(), 0);
});

t.test('a name server that changes its mind between check and connection', async (t) => {
  const sniffer = await startSniffer(t);
  const flips: Script[] = [
    ({ number }) => [number % 2 === 1 ? SINKS.A : '127.0.0.1', number % 2 === 1 ? SINKS.AAAA : '::1'],
    ({ number, type }) => (number % 2 === 1 ? [SINKS[type]] : ['127.0.0.1', '::1', '::ffff:127.0.0.1']),
    ({ number, type }) => (type === 'A' ? [SINKS.A] : [number > 1 ? '::1' : SINKS.AAAA]),
    ({ number, type }) => (type === 'AAAA' ? [SINKS.AAAA] : [number > 1 ? '127.0.0.1' : SINKS.A]),
  ];
  for (const [i, script] of flips.entries()) {
    const dns = await startDns(t, script);
    const https = new GuardedHttps({ allowedHosts: new Set(), resolve: byNameServers([dns.address]) });
    const posts = 6;
    for (let n = 1; n <= posts; n++) {
      const reason = await reasonOf(https.post('https://rebind.example.com:8443/', { ...request(), timeoutMs: 1_000 }));
      t.not(reason, 'answered', `script ${i}, post ${n}`);
      // On a machine that stood still the deadline came first, and the questions reach our name server after it.
      const asked = () => ({
        A: dns.asked.filter(({ type }) => type === 'A').length,
        AAAA: dns.asked.filter(({ type }) => type === 'AAAA').length,
      });
      const until = performance.now() + 10_000;
      while ((asked().A < n || asked().AAAA < n) && performance.now() < until)
        await new Promise((resolve) => setTimeout(resolve, 5));
      t.same(asked(), { A: n, AAAA: n }, 'each post asks once: what was checked is what is connected to');
    }
  }
  t.strictSame(
    sniffer.attempts().filter((address) => !isPublicAddress(address)),
    [],
  );
  t.equal(sniffer.arrived(), 0);
});

t.test('a redirect leads nowhere', async (t) => {
  const inside = await startReceiver(t);
  const receiver = await startReceiver(t);
  const https = new GuardedHttps({ allowedHosts: new Set([`localhost:${receiver.port}`]), ca: receiver.ca });
  for (const status of [300, 301, 302, 303, 304, 305, 307, 308]) {
    receiver.answer = (_request, response) => {
      response.writeHead(status, { location: `https://127.0.0.1:${inside.port}/`, refresh: `0;url=${inside.url}` });
      response.end();
    };
    t.match(await https.post(receiver.url, request()), { status });
  }
  t.equal(receiver.received.length, 8);
  t.equal(inside.connections(), 0);
});

t.test('the counters count', async (t) => {
  const sniffer = await startSniffer(t);
  const dns = await startDns(t, ({ number }) => (number === 1 ? [SINKS.A, SINKS.AAAA] : ['127.0.0.1', '::1']));
  const resolver = new Resolver();
  resolver.setServers([dns.address]);
  t.same(await resolver.resolve4('rebind.example.com'), [SINKS.A]);
  t.same(await resolver.resolve4('rebind.example.com'), ['127.0.0.1'], 'the second look-up is another answer');
  t.same(await resolver.resolve6('rebind.example.com'), [SINKS.AAAA]);
  t.same(await resolver.resolve6('rebind.example.com'), ['::1']);
  const hosts = ['127.0.0.1', '127.0.0.2', '::1', '::ffff:127.0.0.1'];
  for (const host of hosts) {
    const socket = net.connect({ host, port: sniffer.port });
    await once(socket, 'connect');
    socket.destroy();
  }
  const https = new GuardedHttps({ allowedHosts: new Set(['localhost']) });
  await reasonOf(https.post(`https://localhost:${sniffer.port}/`, request()));
  const until = performance.now() + 10_000;
  while (sniffer.arrived() < hosts.length + 1 && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 5));
  t.ok(sniffer.arrived() >= hosts.length + 1, `${sniffer.arrived()} connections arrived`);
  t.same(sniffer.attempts().slice(0, hosts.length), hosts);
});

/** Listens on every address of this machine, on a port that targets may name if there is a free one. */
async function startSniffer(t: Test): Promise<{ port: number; arrived(): number; attempts(): string[] }> {
  let arrived = 0;
  const attempts: string[] = [];
  const server = net.createServer((socket) => {
    arrived++;
    socket.on('error', () => undefined);
    socket.destroy();
  });
  const seen = (message: unknown): void => {
    const { socket } = message as { socket: net.Socket };
    socket.on('connectionAttempt', (address: string) => attempts.push(address));
  };
  subscribe('net.client.socket', seen);
  t.teardown(async () => {
    unsubscribe('net.client.socket', seen);
    await new Promise((resolve) => server.close(resolve));
  });
  for (const port of [8443, 443, 0]) {
    const isBound = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '::', () => resolve(true));
    });
    if (isBound) break;
  }
  const { port } = server.address() as net.AddressInfo;
  return { port, arrived: () => arrived, attempts: () => attempts };
}
