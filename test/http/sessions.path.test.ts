// Browsers that are signed in, against the whole service with two fronts: what a cookie may, what it may not, and what
// ends it.
import { request } from 'node:http';
import t from 'tap';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const { port } = new URL(service.url);
const SAME = { 'Sec-Fetch-Site': 'same-origin', 'Gatehouse-Client': 'test' };

type SessionRequest = { cookie?: string; headers?: Record<string, string>; body?: unknown };
type Answer = { status: number; cookies: string[]; text: string; json: Record<string, never> };

/**
 * Each call on a connection of its own: the kernel shares them out between the fronts. As a browser says it, header by
 * header.
 */
function ask(method: string, path: string, { cookie, headers = {}, body }: SessionRequest = {}): Promise<Answer> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const call = request(service.url + path, {
      method,
      agent: false,
      headers: {
        ...(cookie === undefined ? {} : { cookie }),
        ...(content === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(content) }),
        ...headers,
      },
    });
    call.on('error', reject).on('response', (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      answer.on('end', () => {
        const json = text === '' ? {} : JSON.parse(text);
        resolve({ status: answer.statusCode!, cookies: answer.headers['set-cookie'] ?? [], text, json });
      });
    });
    call.end(content);
  });
}

type SignedIn = { cookie: string; id: string; set: string };
async function signIn(key: string, headers: Record<string, string> = SAME): Promise<SignedIn> {
  const { status, cookies, json, text } = await ask('POST', '/v1/session', { body: { key }, headers });
  if (status !== 201) throw new Error(text);
  return { cookie: cookies[0]!.split(';')[0]!, id: json['id']!, set: cookies[0]! };
}

async function newKey(body: object): Promise<{ id: string; key: string }> {
  return (await api.post('/v1/api-keys', { label: 'browser', ...body })).json;
}

/** Asked of both fronts many times: true once none of them takes it any more. */
async function isRefusedEverywhere(cookie: string): Promise<boolean> {
  const answers = await Promise.all(Array.from({ length: 16 }, () => ask('GET', '/v1/session', { cookie })));
  return answers.every(({ status }) => status === 401);
}

async function untilRefused(cookie: string): Promise<void> {
  const started = performance.now();
  while (!(await isRefusedEverywhere(cookie))) {
    if (performance.now() - started > 60_000) throw new Error('still taken');
    await pause(20);
  }
}

t.test('a key is exchanged for a cookie that may what the key may', async (t) => {
  const { cookie, set } = await signIn(service.key);
  t.match(set, /^__Host-gatehouse=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=604\d{3}; Secure$/);
  const who = await ask('GET', '/v1/session', { cookie });
  t.match(who, { status: 200, json: { account_name: 'default', scope: 'admin', agent_id: null } });
  t.equal((await ask('GET', '/v1/agents', { cookie: `other=1; ${cookie}; more=2` })).status, 200);
  const made = await ask('POST', '/v1/agents', { cookie, headers: SAME, body: { name: 'by a browser' } });
  t.equal(made.status, 201);
  const { json } = await api.get(`/v1/audit-logs?resource_id=${made.json['id']}`);
  t.match(json.logs[0], { actor: `key:${who.json['key_id']}`, action: 'agent.registered' }, 'the actor is the key');
  const { id: keyId, key } = await newKey({ scope: 'read' });
  const reader = await signIn(key);
  t.match((await ask('GET', '/v1/session', { cookie: reader.cookie })).json, { key_id: keyId, permissions: ['read'] });
  const refused = await ask('POST', '/v1/agents', { cookie: reader.cookie, headers: SAME, body: { name: 'x' } });
  t.match(refused, { status: 403, json: { error: { code: 'insufficient_scope' } } });
  t.match((await api.get('/v1/session')).json, { id: null, scope: 'admin', expires_at: null }, 'a key is no session');
  t.equal((await api.call('DELETE', '/v1/session')).status, 204, 'and has none to end');
});

t.test('without a secure connection beyond loopback the cookie is one that the browser keeps', async (t) => {
  const plain = await signIn(service.key, {
    host: 'gatehouse.intranet:8080',
    origin: 'http://gatehouse.intranet:8080',
  });
  t.match(plain.set, /^gatehouse=[^;]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
  const asked = { cookie: plain.cookie, headers: { host: 'gatehouse.intranet:8080' } };
  t.equal((await ask('GET', '/v1/session', asked)).status, 200);
  const claimed = await signIn(service.key, { host: 'gatehouse.intranet', 'x-forwarded-proto': 'https' });
  t.match(claimed.set, /^gatehouse=/, 'no trusted proxy says that it was https');
});

t.test('T9: a cookie that another page could have written is not taken', async (t) => {
  const [mine, theirs] = [await signIn(service.key), await signIn((await newKey({ scope: 'read' })).key)];
  const plain = theirs.cookie.replace('__Host-', '');
  t.equal((await ask('GET', '/v1/session', { cookie: plain })).status, 401, 'where a Secure one is kept');
  t.equal((await ask('GET', '/v1/session', { cookie: `${plain}; ${mine.cookie}` })).json['id'], mine.id);
  const as = (id: string) => ({ ...SAME, 'Gatehouse-Session': id });
  t.equal((await ask('GET', '/v1/agents', { cookie: mine.cookie, headers: as(mine.id) })).status, 200);
  for (const [method, path, body] of [
    ['GET', '/v1/session', undefined],
    ['GET', '/v1/agents', undefined],
    ['GET', '/v1/stream?topics=events', undefined],
    ['GET', '/v1/events/export', undefined],
    ['POST', '/v1/agents', { name: "in another's session" }],
    ['DELETE', '/v1/session', undefined],
  ] as const) {
    const { status, json, cookies } = await ask(method, path, {
      cookie: theirs.cookie,
      headers: as(mine.id),
      ...(body && { body }),
    });
    t.match(
      { status, json },
      { status: 401, json: { error: { code: 'other_session', message: /another session/ } } },
      `${method} ${path}`,
    );
    t.same(cookies, [], 'a tab that goes by it keeps it');
  }
  const files = ['events/export', 'anomalies/export', 'deliveries/export', 'audit-logs/export'];
  for (const path of [...files, 'audit-logs/checkpoint']) {
    const { status, json } = await ask('GET', `/v1/${path}?session=${mine.id}`, { cookie: theirs.cookie });
    t.match({ status, json }, { status: 401, json: { error: { code: 'other_session' } } }, `a download: ${path}`);
  }
  t.equal((await ask('GET', '/v1/session', { cookie: theirs.cookie })).status, 200, 'it was not ended');
  t.equal((await api.get('/v1/agents?name=in%20another%27s%20session')).json.total, 0);
});

t.test('wrong keys and cookies of nonsense are 401, and the cookie is cleared', async (t) => {
  for (const key of ['nonsense', 'gth_'.padEnd(44, 'x'), 'x'.repeat(40)]) {
    const { status, cookies } = await ask('POST', '/v1/session', { body: { key } });
    t.same([status, cookies], [401, []], key);
  }
  for (const body of [{}, { key: 7 }, { key: '' }, { key: service.key, more: 1 }])
    t.equal((await ask('POST', '/v1/session', { body })).status, 400, JSON.stringify(body));
  for (const value of [
    '__Host-gatehouse=nonsense',
    '__Host-gatehouse=',
    `__Host-gatehouse=${'A'.repeat(43)}`,
    '__Host-gatehouse="x"',
  ]) {
    const { status, cookies, json } = await ask('GET', '/v1/agents', { cookie: value });
    t.match({ status, json }, { status: 401, json: { error: { code: 'invalid_token' } } }, value);
    t.match(cookies, [/^__Host-gatehouse=; .*Max-Age=0/, /^gatehouse=; .*Max-Age=0/], value);
  }
  const header = { headers: { authorization: `Bearer ${service.key}` }, cookie: 'gatehouse=nonsense' };
  t.equal((await ask('GET', '/v1/agents', header)).status, 200, 'a key that is sent counts, and nothing else');
});

t.test('a forged call with the cookie changes nothing, wherever it comes from', async (t) => {
  const { cookie } = await signIn(service.key);
  const client = { 'Gatehouse-Client': 'test' };
  const forged: [string, Record<string, string>][] = [
    ['another site', { 'Sec-Fetch-Site': 'cross-site', ...client }],
    ['another port of this host', { 'Sec-Fetch-Site': 'same-site', Origin: 'http://127.0.0.1:1', ...client }],
    ['typed by the user', { 'Sec-Fetch-Site': 'none', ...client }],
    ['an old browser, another origin', { Origin: 'https://evil.example', ...client }],
    ['an old browser, another port', { Origin: `http://127.0.0.1:${Number(port) + 1}`, ...client }],
    ['an old browser that does not say', client],
    ['an opaque origin', { Origin: 'null', ...client }],
    ['a form of this origin', { 'Sec-Fetch-Site': 'same-origin' }],
  ];
  const before = (await api.get('/v1/agents')).json.total;
  for (const [what, headers] of forged) {
    for (const [method, path, body] of [
      ['POST', '/v1/agents', { name: 'forged' }],
      ['DELETE', '/v1/session', undefined],
    ] as const) {
      const { status, json } = await ask(method, path, { cookie, headers, ...(body && { body }) });
      t.match({ status, json }, { status: 403, json: { error: { code: 'cross_site_request' } } }, `${what}: ${method}`);
    }
  }
  t.equal((await api.get('/v1/agents')).json.total, before);
  t.equal((await ask('GET', '/v1/session', { cookie })).status, 200, 'no one was signed out');
  const old = { Origin: service.url, ...client };
  t.equal((await ask('POST', '/v1/agents', { cookie, headers: old, body: { name: 'old browser' } })).status, 201);
  for (const headers of [{ 'Sec-Fetch-Site': 'same-site' }, { Origin: 'https://evil.example' }] as Record<
    string,
    string
  >[]) {
    const { status } = await ask('POST', '/v1/session', { body: { key: service.key }, headers });
    t.equal(status, 403, 'another page cannot sign a person in');
  }
});

t.test('a session ends on all fronts by signing out, with its key, by an admin', async (t) => {
  const [one, two] = [await newKey({ scope: 'write' }), await newKey({ scope: 'read' })];
  const out = await signIn(one.key);
  const ended = await signIn(one.key);
  const [revoked, other] = [await signIn(two.key), await signIn(two.key)];
  for (const { cookie } of [out, revoked, other, ended])
    t.notOk(await isRefusedEverywhere(cookie), 'both fronts know it');
  const signedOut = await ask('DELETE', '/v1/session', { cookie: out.cookie, headers: SAME });
  t.match(signedOut, { status: 204, cookies: [/Max-Age=0/, /Max-Age=0/] });
  await untilRefused(out.cookie);
  t.equal((await api.call('DELETE', `/v1/api-keys/${two.id}`)).status, 204);
  for (const { cookie } of [revoked, other]) await untilRefused(cookie);
  const listed = (await api.get('/v1/sessions?limit=100')).json.items as { id: string; key_id: string }[];
  t.match(
    listed.find(({ id }) => id === ended.id),
    { key_label: 'browser', ip: '127.0.0.1' },
    'it is in the list',
  );
  t.notOk(
    listed.some(({ key_id: of }) => of === two.id),
    'those of a revoked key are not',
  );
  t.equal((await api.call('DELETE', `/v1/sessions/${ended.id}`)).status, 204);
  await untilRefused(ended.cookie);
  t.equal((await api.call('DELETE', `/v1/sessions/${ended.id}`)).status, 404);
  const { json } = await api.get('/v1/audit-logs?limit=500');
  const actionsOf = (session: string) =>
    (json.logs as { resource_id: string; action: string }[])
      .filter(({ resource_id: id }) => id === session)
      .map(({ action }) => action);
  t.same(actionsOf(ended.id), ['session.ended', 'session.created']);
  t.same(actionsOf(revoked.id), ['session.created'], 'the entry of its key shows that it ended');
});

t.test('a session never outlives its key, and a key has ten of them', async (t) => {
  const soon = new Date(Date.now() + 4_000).toISOString();
  const brief = await signIn((await newKey({ scope: 'read', expires_at: soon })).key);
  t.match(brief.set, /Max-Age=[1234](;|$)/);
  const many = await newKey({ scope: 'read' });
  const first = await signIn(many.key);
  for (let i = 0; i < 9; i++) await signIn(many.key);
  t.notOk(await isRefusedEverywhere(first.cookie), 'ten of them');
  await signIn(many.key);
  await untilRefused(first.cookie);
  const { items } = (await api.get('/v1/sessions?limit=100')).json as { items: { key_id: string }[] };
  t.equal(items.filter(({ key_id: of }) => of === many.id).length, 10);
  await untilRefused(brief.cookie);
});

t.test('a key that is bound to an agent is bound in the browser, too', async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'bound' })).json.id;
  const { cookie } = await signIn((await newKey({ scope: 'write', agent_id: agent })).key);
  const { json } = await ask('GET', '/v1/agents', { cookie });
  t.match(json, { total: 1, items: [{ id: agent }] });
  t.equal((await ask('GET', '/v1/account', { cookie })).status, 403);
});
