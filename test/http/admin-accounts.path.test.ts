// Accounts by API, as those who run the service make and change them with a key of theirs, over two fronts
// (docs/operators.md): what it does, who is let in, and what stands in the audit log of the account.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { mintId } from '../../src/common/ids.ts';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { startJudges } from '../support/judge-servers.ts';
import { OwnTime } from '../support/own-time.ts';
import { startService } from '../support/service.ts';

const newKey = () => `gop_${randomBytes(24).toString('hex')}`;
const [ALICE, BOB] = [newKey(), newKey()];
const OPERATORS = `alice@example.com:${ALICE},bob:${BOB}`;
const judges = await startJudges(t);
const service = await startService(t, {
  env: {
    GATEHOUSE_FRONTS: '2',
    GATEHOUSE_OPERATOR_KEYS: OPERATORS,
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${judges.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const own = await Api.described(t, service);
const alice = own.as(ALICE);
const bob = own.as(BOB);
const ACCOUNTS = '/v1/admin/accounts';
const made = await alice.post(ACCOUNTS, { name: 'acme' });
const acme = `${ACCOUNTS}/${made.json.id}`;

t.test('an account is made once, however often it is asked for', async (t) => {
  t.match(made, { status: 201, json: { name: 'acme', keys: 0, agents: 0, quotas: { events: null } } });
  t.match(await bob.post(ACCOUNTS, { name: 'acme' }), { status: 200, json: { id: made.json.id } });
  const together = await Promise.all(Array.from({ length: 8 }, () => alice.post(ACCOUNTS, { name: 'race' })));
  t.equal(together.filter(({ status }) => status === 201).length, 1, 'one call has made it');
  t.equal(new Set(together.map(({ json }) => json.id)).size, 1);
  t.match(await alice.post(ACCOUNTS, { name: '' }), { status: 400, json: { error: { details: [{ path: '/name' }] } } });
  t.match((await alice.post(ACCOUNTS, { name: 'x', id: 'acc_x' })).status, 400);
});

t.test('listed page by page, newest first, with what they have', async (t) => {
  const first = await alice.get(`${ACCOUNTS}?limit=2`);
  t.match(first.json, { total: 3, limit: 2, items: [{ name: 'race' }, { name: 'acme' }] });
  const rest = await alice.get(`${ACCOUNTS}?limit=2&cursor=${first.json.next_cursor}`);
  t.match(rest.json, { items: [{ name: 'default', keys: 1 }], next_cursor: null });
  t.match((await alice.get(acme)).json, { name: 'acme', request_limit: { per_second: 1_000_000 } });
  t.equal((await alice.get(`${ACCOUNTS}/${mintId('account', 1)}`)).status, 404);
  t.equal((await alice.get(`${ACCOUNTS}/acme`)).status, 404, 'by its id alone');
});

t.test('a key is made, works, and ends, the last one too', async (t) => {
  const key = await alice.post(`${acme}/api-keys`, { label: 'first', scope: 'admin' });
  t.equal(key.status, 201);
  const theirs = own.as(key.json.key);
  t.match((await theirs.get('/v1/account')).json, { id: made.json.id, name: 'acme' });
  t.match((await alice.get(`${acme}/api-keys`)).json, { total: 1, items: [{ label: 'first', scope: 'admin' }] });
  t.notOk((await alice.get(`${acme}/api-keys`)).text.includes(key.json.key));
  t.equal((await alice.get(acme)).json.keys, 1);
  const nobodys = `${ACCOUNTS}/${mintId('account', 1)}/api-keys`;
  t.equal((await alice.post(nobodys, { label: 'x', scope: 'admin' })).status, 404);
  t.equal((await alice.get(nobodys)).status, 404);
  t.equal((await alice.delete(`${nobodys}/${key.json.id}`)).status, 404);
  t.equal((await alice.delete(`${acme}/api-keys/${mintId('apiKey', 1)}`)).status, 404);
  const repeat = { headers: { 'Idempotency-Key': 'x' } };
  t.equal((await alice.post(`${acme}/api-keys`, { label: 'x', scope: 'read' }, repeat)).status, 400);
  t.equal((await alice.delete(`${acme}/api-keys/${key.json.id}`)).status, 204);
  t.equal(
    (
      await theirs.until(
        () => theirs.get('/v1/account'),
        ({ status }) => status === 401,
      )
    ).status,
    401,
  );
});

t.test('limits, quotas and retention are set, each alone, and are in force', async (t) => {
  const key = (await alice.post(`${acme}/api-keys`, { label: 'second', scope: 'admin' })).json.key as string;
  const theirs = own.as(key);
  const changed = await bob.patch(acme, {
    request_limit: { per_second: 5000, burst: 6000 },
    quotas: { keys: 2, events: { per_second: 10, burst: 20 } },
    retention: { days: 30 },
  });
  t.match(changed, { status: 200, json: { requests_per_second: 5000, quotas: { keys: 2, agents: null } } });
  t.match((await bob.patch(acme, { quotas: { agents: 1, events: null } })).json.quotas, {
    keys: 2,
    agents: 1,
    events: null,
  });
  t.match((await theirs.get('/v1/account')).json, {
    request_limit: { per_second: 5000, burst: 6000 },
    retention_in_force: { days: 30 },
    quotas: { keys: 2, agents: 1 },
  });
  t.equal((await theirs.post('/v1/agents', { name: 'one' })).status, 201);
  t.match((await theirs.post('/v1/agents', { name: 'two' })).json.error, { code: 'quota_exceeded' });
  t.match((await bob.patch(acme, { quotas: null, request_limit: null, retention: null })).json, {
    ...{ quotas: { keys: null, agents: null }, requests_per_second: null, retention: null },
  });
  const bad: [unknown, string][] = [
    [{}, ''],
    [{ status: 'gone' }, '/status'],
    [{ quotas: { thoughts: 1 } }, '/quotas'],
    [{ quotas: { keys: 0 } }, '/quotas'],
    [{ quotas: { events: { per_second: 1 } } }, '/quotas'],
    [{ request_limit: { per_second: 1, burst: 10_000_001 } }, '/request_limit'],
    [{ retention: { days: 366 } }, '/retention/days'],
    [{ name: 'other' }, ''],
  ];
  for (const [body, path] of bad) {
    const { status, json } = await bob.patch(acme, body);
    t.equal(status, 400, JSON.stringify(body));
    t.ok(json.error.details[0].path.startsWith(path), JSON.stringify(json.error));
  }
  t.equal((await bob.patch(`${ACCOUNTS}/${mintId('account', 1)}`, { quotas: null })).status, 404);
});

t.test('a suspended account is refused on every front within a second, and let in again as it was', async (t) => {
  const { id } = (await alice.post(ACCOUNTS, { name: 'late payer' })).json;
  const theirs = own.as((await alice.post(`${ACCOUNTS}/${id}/api-keys`, { label: 'k', scope: 'admin' })).json.key);
  const { key, id: keyId } = (await theirs.post('/v1/api-keys', { label: 'reads', scope: 'read' })).json;
  const reader = own.as(key);
  const agent = (await theirs.post('/v1/agents', { name: 'bot' })).json.id as string;
  const browser = { key: null, headers: { 'Sec-Fetch-Site': 'same-origin', 'Gatehouse-Client': 'test' } };
  const signIn = () => own.call('POST', '/v1/session', { ...browser, body: { key } });
  const cookie = (await signIn()).headers.getSetCookie()[0]!.split(';')[0]!;
  const bySession = () => own.get('/v1/agents', { key: null, headers: { ...browser.headers, cookie } });
  const event = () => theirs.post(`/v1/agents/${agent}/events`, { type: 'prompt', payload: {} });
  const calls = [event, signIn, bySession, () => theirs.get('/v1/account'), () => reader.get('/v1/session')];
  const statuses = async () => {
    // Each several times, so that both fronts are asked.
    const answers = await Promise.all(calls.flatMap((call) => [call(), call(), call(), call()]));
    return [...new Set(answers.map(({ status, json }) => `${Math.floor(status / 100)}xx ${json.error?.code ?? ''}`))];
  };
  t.same(await statuses(), ['2xx '], 'they are taken');
  const follower = await fetch(`${own.url}/v1/stream?topics=events`, { headers: { authorization: `Bearer ${key}` } });
  await theirs.until(event, ({ status }) => status === 201);

  t.match(await bob.patch(`${ACCOUNTS}/${id}`, { status: 'suspended' }), {
    status: 200,
    json: { status: 'suspended' },
  });
  const time = new OwnTime();
  while ((await statuses()).join() !== '4xx account_suspended') if (time.ms > 10_000) break;
  t.ok(time.stop() < 1_000, `refused everywhere after ${time.ms} ms`);
  t.match(await event(), {
    status: 403,
    json: { error: { code: 'account_suspended', message: /suspended by those/ } },
  });
  t.equal(
    await follower.text().then(
      () => 'ended',
      () => 'ended',
    ),
    'ended',
    'and what followed live follows no more',
  );
  t.equal((await own.get('/v1/account')).status, 200, 'other accounts are not touched');
  t.match((await alice.get(`${ACCOUNTS}/${id}`)).json, { status: 'suspended', keys: 2, agents: 1 });
  t.equal((await alice.delete(`${ACCOUNTS}/${id}/api-keys/${keyId}`)).status, 204, 'an operator still works on it');

  t.match((await alice.patch(`${ACCOUNTS}/${id}`, { status: 'active' })).json, { status: 'active' });
  const again = await theirs.until(event, ({ status }) => status === 201);
  t.equal(again.status, 201, 'the same key is taken again');
  const entries = (await theirs.get('/v1/audit-logs?action=account.updated')).json.logs;
  t.match(entries, [
    { actor: 'operator:alice@example.com', details: { changed: ['status'], after: { status: 'active' } } },
    { actor: 'operator:bob', details: { before: { status: 'active' }, after: { status: 'suspended' } } },
  ]);
});

t.test(
  'hooks of a suspended account get the word of their connection on every front, and no check is asked',
  async (t) => {
    const { id } = (await alice.post(ACCOUNTS, { name: 'late payer with an assistant' })).json;
    const theirs = own.as((await alice.post(`${ACCOUNTS}/${id}/api-keys`, { label: 'k', scope: 'admin' })).json.key);
    const said = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
    for (const [path, body] of [
      ['/v1/checks', { name: 'guard', speaks: 'gatehouse', url: `${judges.url}/own`, timeout_ms: 5_000 }],
      [
        '/v1/policies',
        { name: 'asks', type: 'external_check', actions: ['block'], conditions: { check: 'guard', ...said } },
      ],
    ] as const)
      t.equal(
        (
          await theirs.until(
            () => theirs.post(path, body),
            ({ status }) => status !== 403,
          )
        ).status,
        201,
        path,
      );
    const connect = async (more: object) => {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      const made = await theirs.post('/v1/connections', { name: `c${Math.random()}`, secrets: [secret], ...more });
      t.equal(made.status, 201, made.text);
      return new InferenceSender(service, made.json.id, secret);
    };
    const senders = [await connect({}), await connect({ on_failure: 'allow' }), await connect({ mode: 'watch' })];
    const evil = () => promptOf(`s-${Math.random()}`, [text('evil')]);
    /** Each several times on connections of their own, so that both fronts are asked. */
    const verdicts = async (body: () => object) => {
      const rows = await Promise.all(
        Array.from({ length: 6 }, () => Promise.all(senders.map((one) => one.send(body())))),
      );
      t.ok(
        rows.flat().every(({ status }) => status === 200),
        'always 200',
      );
      return [...new Set(rows.map((row) => row.map(({ verdict }) => verdict.deny_reason ?? verdict.action).join('|')))];
    };
    const judged = ['Blocked by policy "asks".|Blocked by policy "asks".|allow'];
    await own.until(
      () => verdicts(evil),
      (all) => all.join() === judged.join(),
    );
    t.ok(judges.received.length > 0);

    await alice.patch(`${ACCOUNTS}/${id}`, { status: 'suspended' });
    const time = new OwnTime();
    const isRefused = (all: string[]) => all.length === 1 && /^This could.*suspended.*\|allow\|allow$/.test(all[0]!);
    while (!isRefused(await verdicts(evil))) if (time.ms > 10_000) break;
    t.ok(time.stop() < 1_000, `on every front after ${time.ms} ms`);
    const asked = judges.received.length;
    t.match(await verdicts(evil), [/^This could not be judged: The account is suspended by those who run the service/]);
    t.match(
      await senders[0]!.send(evil(), { secret: null }),
      { status: 200, verdict: { action: 'deny' } },
      'unsigned, too',
    );
    const tried = await theirs.post(`/v1/policies/evaluate`, { event: { agent_id: id, type: 'prompt', payload: {} } });
    t.match(tried, { status: 403, json: { error: { code: 'account_suspended' } } });
    t.equal(judges.received.length, asked, 'and its check is asked no more');

    await alice.patch(`${ACCOUNTS}/${id}`, { status: 'active' });
    t.same(
      await own.until(
        () => verdicts(evil),
        (all) => all.join() === judged.join(),
      ),
      judged,
      'let in again',
    );
    t.ok(judges.received.length > asked);
  },
);

t.test('each change is in the audit log of the account, with who made it', async (t) => {
  const { key } = (await alice.post(`${acme}/api-keys`, { label: 'reader', scope: 'read' })).json;
  const { logs } = (await own.as(key).get('/v1/audit-logs?limit=100')).json;
  const said = logs.map(({ actor, action }: Record<string, string>) => `${actor} ${action}`).reverse();
  t.same(
    said.filter((line: string) => line.startsWith('operator:')),
    [
      'operator:alice@example.com account.created',
      'operator:alice@example.com api_key.created',
      'operator:alice@example.com api_key.revoked',
      'operator:alice@example.com api_key.created',
      'operator:bob account.updated',
      'operator:bob account.updated',
      'operator:bob account.updated',
      'operator:alice@example.com api_key.created',
    ],
  );
  const changed = logs.find(({ action }: { action: string }) => action === 'account.updated');
  t.match(changed.details, { request_id: String, ip: '127.0.0.1', changed: Array });
  t.match((await own.as(key).get('/v1/audit-logs?actor=operator:bob')).json.total, 3);
  t.match((await own.as(key).get('/v1/audit-logs/verify')).json, { valid: true });
});

t.test('no other key opens it, and it opens nothing else', async (t) => {
  const refused = [service.key, null, `${ALICE}0`, ALICE.slice(0, -1), newKey(), 'gop_', ''];
  for (const key of refused) {
    for (const send of [() => own.get(ACCOUNTS, { key }), () => own.post(ACCOUNTS, { name: 'theirs' }, { key })])
      t.match(await send(), { status: 401, json: { error: { code: 'invalid_token' } } }, String(key).slice(0, 6));
  }
  for (const path of ['/v1/account', '/v1/events', '/v1/session'])
    t.match(await alice.get(path), { status: 401, json: { error: { code: 'invalid_token' } } }, path);
  t.equal((await own.post('/v1/session', { key: ALICE }, { key: null })).status, 401, 'no session comes of it');
  t.notOk((await alice.get(ACCOUNTS)).json.items.some(({ name }: { name: string }) => name === 'theirs'));
  t.notOk((await service.log()).includes(ALICE) || (await service.log()).includes(BOB), 'the log has no key');
});

t.test('an account is deleted with its keys; default and what is held stay', async (t) => {
  const { id } = (await alice.post(ACCOUNTS, { name: 'gone' })).json;
  const { key } = (await alice.post(`${ACCOUNTS}/${id}/api-keys`, { label: 'k', scope: 'admin' })).json;
  const theirs = own.as(key);
  await theirs.post('/v1/agents', { name: 'bot' });
  const hold = await theirs.post('/v1/holds', { reason: 'a case' });
  t.match(await alice.delete(`${ACCOUNTS}/${id}`), { status: 409, json: { error: { code: 'on_hold' } } });
  await theirs.delete(`/v1/holds/${hold.json.id}`);
  t.equal((await alice.delete(`${ACCOUNTS}/${id}`)).status, 204);
  t.equal((await alice.get(`${ACCOUNTS}/${id}`)).status, 404);
  t.equal((await alice.delete(`${ACCOUNTS}/${id}`)).status, 404);
  const after = () => theirs.get('/v1/account');
  t.equal((await theirs.until(after, ({ status }) => status === 401)).status, 401);
  t.not((await alice.post(ACCOUNTS, { name: 'gone' })).json.id, id, 'the name is free, the id is not used again');
  const { items } = (await alice.get(ACCOUNTS)).json;
  const first = items.find(({ name }: { name: string }) => name === 'default').id;
  t.equal((await alice.delete(`${ACCOUNTS}/${first}`)).status, 400);
});

t.test('an address that tries keys is stopped', async (t) => {
  const tries = Array.from({ length: 900 }, () =>
    fetch(`${own.url}${ACCOUNTS}`, { headers: { authorization: `Bearer ${newKey()}` } }),
  );
  const statuses = (await Promise.all(tries)).map(({ status }) => status);
  t.ok(statuses.every((status) => status === 401 || status === 429));
  t.ok(statuses.includes(429), 'beyond 200 at once and 20 a second, in each of two fronts');
});

t.test('every success that the description has was seen', async (t) => {
  const { paths } = await own.describe();
  const all = Object.entries(paths)
    .filter(([path]) => path.startsWith(ACCOUNTS))
    .flatMap(([path, operations]) =>
      Object.entries(operations).flatMap(([method, { responses }]) =>
        Object.keys(responses)
          .filter((status) => status < '300')
          .map((status) => `${method.toUpperCase()} ${path} ${status}`),
      ),
    );
  const seen = new Set([...alice.seen, ...bob.seen]);
  t.ok(all.length >= 9);
  t.same(
    all.filter((name) => !seen.has(name)),
    [],
  );
});
