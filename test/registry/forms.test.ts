// The forms that need no Redis: the text of API keys, the targets of alerts, the cache that holds what was read.
import t from 'tap';
import { mintApiKey, parseApiKey, sha256Of } from '../../src/registry/accounts/api-key-text.ts';
import { targetProblem } from '../../src/registry/alerts/alert-target.ts';
import { KeyedCache } from '../../src/registry/cache/keyed-cache.ts';

t.test('an API key carries its own check', async (t) => {
  t.ok(parseApiKey(`gth_${'0'.repeat(34)}1BR9oK`), 'its check stays what it is: the standard CRC-32');
  for (let i = 0; i < 200; i++) {
    const key = mintApiKey();
    t.match(key, /^gth_[0-9A-Za-z]{40}$/);
    t.same(parseApiKey(key), { sha256: sha256Of(key) });
    const at = 4 + (i % 40);
    const mistyped = key.slice(0, at) + (key[at] === 'x' ? 'y' : 'x') + key.slice(at + 1);
    if (parseApiKey(mistyped) !== null) t.fail(`${mistyped} passed`);
  }
  t.equal(parseApiKey('gth_short'), null);
  t.equal(parseApiKey(`gth_${'0'.repeat(41)}`), null);
  t.equal(parseApiKey(`gth_${'0'.repeat(60)}`), null, 'what begins like ours must be ours');
  t.ok(parseApiKey('a-bootstrap_key-of-32-characters'), 'a bootstrap key has any form');
  t.equal(parseApiKey('a-bootstrap_key-of-31-character'), null);
  t.equal(parseApiKey('x'.repeat(201)), null);
  t.equal(parseApiKey(`${'x'.repeat(40)}\n`), null);
});

t.test('an alert goes to a plain address or a public https URL', async (t) => {
  const problem = (channel: 'email' | 'webhook' | 'chat_app', target: string, allowed: string[] = []) =>
    targetProblem(channel, target, new Set(allowed));
  const addresses = ['a@b.co', "first.last+tag'x@sub.example-1.org", `${'a'.repeat(64)}@example.com`, 'x@y.xn--p1ai'];
  for (const address of addresses) t.equal(problem('email', address), undefined, address);
  const badAddresses = [
    'a@b',
    '@b.co',
    'a@',
    'a b@c.de',
    'a@b.co\r\nBcc: evil@x.co',
    'a@b.co;evil@x.co',
    'a@b.co,evil@x.co',
    '"a b"@c.de',
    'a@[127.0.0.1]',
    '<a@b.co>',
    'Name <a@b.co>',
    'a..b@c.de',
    '.a@c.de',
    'a.@c.de',
    'a@-b.de',
    'a@b-.de',
    'a@b.c0',
    `${'a'.repeat(65)}@example.com`,
    `a@${'b'.repeat(250)}.com`,
    'a@b.co ',
    'ä@b.co',
    'a@b.co\n',
    'a`b@c.de',
    '',
  ];
  for (const address of badAddresses) t.ok(problem('email', address), JSON.stringify(address));
  const urls = [
    'https://example.com',
    'https://example.com/hooks?x=1#y',
    'https://example.com:8443/a',
    'HTTPS://EXAMPLE.com/',
    'https://8.8.8.8/x',
    'https://[2606:4700::1111]/',
    'https://127.0.0.1.example.com/',
    'https://example.com/@x',
  ];
  for (const url of urls) t.equal(problem('webhook', url), undefined, url);
  const badUrls = [
    'http://example.com',
    'ftp://example.com',
    'example.com',
    'https://',
    'https:///x',
    'https:example.com',
    'javascript:alert(1)',
    'https://user@example.com',
    'https://u:p@example.com',
    'https://@example.com',
    'https://example.com\\@127.0.0.1/',
    'https://exa mple.com',
    'https://example.com/\n',
    ' https://example.com',
    'https://exämple.com/',
    'https://localhost',
    'https://localhost.',
    'https://a.localhost/',
    'https://printer.local',
    'https://intranet',
    'https://x.internal',
    'https://127.0.0.1',
    'https://127.1',
    'https://2130706433',
    'https://0x7f000001',
    'https://0177.0.0.1',
    'https://0x7f.1',
    'https://127.0.0.1.',
    'https://%31%32%37.0.0.1',
    'https://0',
    'https://10.1.2.3',
    'https://172.16.0.1',
    'https://172.31.255.255',
    'https://192.168.1.1',
    'https://169.254.169.254/latest',
    'https://100.64.0.1',
    'https://198.18.0.1',
    'https://224.0.0.1',
    'https://255.255.255.255',
    'https://192.0.2.1',
    'https://[::1]',
    'https://[::]',
    'https://[0:0:0:0:0:0:0:1]',
    'https://[::ffff:127.0.0.1]',
    'https://[::ffff:7f00:1]',
    'https://[::127.0.0.1]',
    'https://[64:ff9b::7f00:1]',
    'https://[2002:7f00:1::]',
    'https://[2001::1]',
    'https://[2001:db8::1]',
    'https://[fe80::1]',
    'https://[fc00::1]',
    'https://[fd12::1]',
    'https://[ff02::1]',
    'https://[fec0::1]',
    'https://[3fff::1]',
  ];
  for (const url of badUrls) {
    t.ok(problem('webhook', url), url);
    t.ok(problem('chat_app', url), url);
  }
  t.equal(
    problem('webhook', 'https://localhost:9443/x', ['localhost']),
    undefined,
    'the operator may let a name through',
  );
});

t.test('a cache keeps what was true when it was read', async (t) => {
  type V = { n: number };
  const cache = new KeyedCache<V>(4);
  let reads = 0;
  const read = (n: number) => async () => {
    reads++;
    await null;
    return { n };
  };
  await Promise.all([cache.load('a', read(1)), cache.load('a', read(2))]);
  t.equal(reads, 1, 'misses at the same time share one load');
  t.same(cache.get('a'), { n: 1 });
  cache.invalidate('a');
  t.equal(cache.get('a'), undefined);

  let release: (value: V | null) => void = () => undefined;
  const slow = cache.load('b', () => new Promise((resolve) => (release = resolve)));
  cache.invalidate('b');
  const fresh = cache.load('b', read(4));
  release({ n: 3 });
  t.same(await slow, { n: 3 }, 'who waited is answered');
  t.same(await fresh, { n: 4 }, 'who came later has the later value');
  t.same(cache.get('b'), { n: 4 }, 'and that is kept');

  const grouped = cache.load('c', async (dependsOn) => {
    dependsOn('g');
    await null;
    return { n: 5 };
  });
  cache.invalidate('g');
  await grouped;
  t.equal(cache.get('c'), undefined, 'a load whose further key changed meanwhile is not kept');
  await cache.load('c', async (dependsOn) => {
    dependsOn('g');
    return { n: 6 };
  });
  t.same(cache.get('c'), { n: 6 });
  cache.invalidate('g');
  t.equal(cache.get('c'), undefined);

  cache.clear();
  for (const key of ['p', 'q', 'r', 's']) await cache.load(key, read(0));
  cache.get('p');
  await cache.load('u', read(0));
  t.ok(cache.get('p'), 'what is used stays');
  t.equal(cache.get('q'), undefined, 'what is not used goes first');
  for (let i = 0; i < 100; i++) await cache.load(`none-${i}`, async () => null);
  t.ok(cache.size <= 5, 'what is not there is bounded, and evicts nothing');
  t.equal(cache.get('none-99'), null);
  cache.invalidate('none-99');
  t.equal(cache.get('none-99'), undefined);
  await t.rejects(cache.load('e', () => Promise.reject(new Error('away'))));
  t.same(await cache.load('e', read(7)), { n: 7 }, 'a failed load is tried again');
});
