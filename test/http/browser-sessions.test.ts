// Which cookie is taken for a browser's session, and which page may change something with it, by the head of a request
// alone (docs/security.md: T9, T25).
import t from 'tap';
import { BrowserSessions, sessionCookie } from '../../src/http/admission/browser-sessions.ts';
import { readHead } from '../../src/http/reading/head.ts';

const PROXY = '10.0.0.1';
type Lines = [name: string, value: string][];

function headOf(lines: Lines) {
  return readHead({
    getMethod: () => 'get',
    getQuery: () => '',
    getParameter: () => undefined,
    forEach: (take) => {
      for (const [name, value] of lines) take(name, value);
    },
  });
}
function sessions(publicUrl?: string) {
  return new BrowserSessions({ publicUrl, isTrusted: (peer) => peer === PROXY });
}
const tossed: [string, string] = ['cookie', 'gatehouse=tossed'];
const own: [string, string] = ['cookie', '__Host-gatehouse=own'];

t.test('T9: the plain cookie is taken only where the browser keeps no other', async (t) => {
  const service = sessions('https://public.example/gatehouse');
  const taken = (lines: Lines, peer = '192.0.2.1') => service.secretOf(headOf(lines), () => peer);
  const secure: [string, Lines, string?][] = [
    ['loopback', [['host', '127.0.0.1:8080']]],
    ['loopback by name', [['host', 'localhost:8080']]],
    ['the public address', [['host', 'public.example']]],
    [
      'https by a trusted proxy',
      [
        ['host', 'a.example'],
        ['x-forwarded-proto', 'https'],
      ],
      PROXY,
    ],
    [
      'two proxies',
      [
        ['host', 'a.example'],
        ['x-forwarded-proto', 'https, http'],
      ],
      PROXY,
    ],
    [
      'two proxies, a header each',
      [
        ['host', 'a.example'],
        ['x-forwarded-proto', 'HTTPS'],
        ['x-forwarded-proto', 'http'],
      ],
      PROXY,
    ],
  ];
  for (const [what, lines, peer] of secure) {
    t.equal(taken([...lines, tossed], peer), undefined, `${what}: the plain one is none`);
    t.equal(taken([...lines, tossed, own], peer), 'own', what);
    t.ok(
      service.isSecure(headOf(lines), () => peer ?? ''),
      `${what}: a Secure cookie is set`,
    );
  }
  const plain: [string, Lines, string?][] = [
    ['plain HTTP', [['host', 'a.example']]],
    [
      'a proxy that nobody trusts',
      [
        ['host', 'a.example'],
        ['x-forwarded-proto', 'https'],
      ],
    ],
    [
      'plain HTTP to the first proxy',
      [
        ['host', 'a.example'],
        ['x-forwarded-proto', 'http, https'],
      ],
      PROXY,
    ],
  ];
  for (const [what, lines, peer] of plain) {
    t.equal(taken([...lines, tossed], peer), 'tossed', `${what}: it is the one that was set`);
    t.equal(taken([...lines, tossed, own], peer), 'own', `${what}: the other counts more`);
    t.notOk(
      service.isSecure(headOf(lines), () => peer ?? ''),
      what,
    );
  }
  t.match(sessionCookie('s', 9, true), /^__Host-gatehouse=s; .*; Secure$/);
});

t.test('T25: without Sec-Fetch-Site the scheme of the page counts as well as its host', async (t) => {
  const client: [string, string] = ['gatehouse-client', 'test'];
  const may = (service: BrowserSessions, lines: Lines, peer = '192.0.2.1') => {
    const head = headOf([...lines, client]);
    const tries = [() => service.checkChange(head, () => peer), () => service.checkSignIn(head, () => peer)];
    const [change, signIn] = tries.map((attempt) => {
      try {
        attempt();
        return true;
      } catch (error) {
        t.match(error, { code: 'cross_site_request' });
        return false;
      }
    });
    t.equal(change, signIn, 'the same for both');
    return change;
  };
  const page = (origin: string, host = 'a.example'): Lines => [
    ['host', host],
    ['origin', origin],
  ];
  const https: [string, string] = ['x-forwarded-proto', 'https, http'];
  const none = sessions();
  t.ok(may(none, page('http://a.example')), 'plain HTTP, no proxy');
  t.ok(may(none, page('http://A.example:80', 'a.example')), 'spelled otherwise');
  t.notOk(may(none, page('https://a.example')), 'the page is another origin');
  t.notOk(may(none, page('http://a.example:81')));
  t.notOk(may(none, page('null')));
  t.notOk(may(none, page('http://')));
  t.ok(may(none, [...page('https://a.example'), https], PROXY));
  t.ok(may(none, [...page('https://a.example:443'), https], PROXY));
  t.notOk(may(none, [...page('http://a.example'), https], PROXY), 'an http page, the service is https');
  t.notOk(may(none, [...page('https://a.example'), https]), 'a proxy that nobody trusts');
  t.notOk(may(none, [...page('http://a.example'), https]), 'nor is the opposite believed then');
  const named = sessions('https://public.example/');
  t.ok(may(named, page('https://public.example', 'inside:8080')), 'a proxy that changes the host');
  t.ok(may(named, page('https://public.example', 'public.example')));
  t.notOk(may(named, page('http://public.example', 'public.example')), 'an http page of the public address');
  t.ok(
    may(named, [
      ['host', 'a.example'],
      ['sec-fetch-site', 'same-origin'],
    ]),
    'a browser that says it',
  );
  t.notOk(may(named, [...page('https://public.example', 'public.example'), ['sec-fetch-site', 'same-site']]));
});
