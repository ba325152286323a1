// No caller takes the places of all, against the whole service: agents that calls name, sign-ins, streams.
import http from 'node:http';
import t from 'tap';
import { LASTING_OF_ACCOUNT_MAX, NEW_AGENTS_A_REQUEST_MAX, NEW_AGENTS_AN_HOUR_MAX } from '../../src/common/limits.ts';
import { type Answer, Api } from '../support/api.ts';
import { runCli, startService } from '../support/service.ts';

const service = await startService(t);
const api = await Api.described(t, service);

const CLAUDE = '/v1/hooks/claude-code';
const OPA = '/v1/data/gatehouse/decision';
const HOOK = { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: { command: 'ls' } };

const cli = (...args: string[]) => runCli(args, { GATEHOUSE_DATA_DIR: service.dataDir });

type Account = { name: string; admin: Api; key: string };
async function newAccount(name: string): Promise<Account> {
  const { stdout } = await cli('account', 'create', name);
  const key = /^key (\S+)$/m.exec(stdout)![1]!;
  return { name, admin: api.as(key), key };
}

async function keyOf(admin: Api, body: object): Promise<string> {
  const { json, text } = await admin.post('/v1/api-keys', { label: 'k', scope: 'write', ...body });
  if (json.key === undefined) throw new Error(text);
  return json.key;
}

const spansOf = (names: readonly string[]) => ({
  resourceSpans: [
    {
      scopeSpans: [
        {
          spans: names.map((name, i) => ({
            ...{ traceId: '5b8efff798038103d269b633813fc60c', name: 'chat', kind: 1 },
            spanId: (0xeee19b7ec3c1b174n + BigInt(i)).toString(16),
            ...{ startTimeUnixNano: `${Date.now()}000000`, endTimeUnixNano: `${Date.now()}000000` },
            attributes: Object.entries({ 'gen_ai.operation.name': 'chat', 'gen_ai.agent.name': name }).map(
              ([key, value]) => ({ key, value: { stringValue: value } }),
            ),
          })),
        },
      ],
    },
  ],
});

t.test('T10: agents are registered by naming them in spans and at decision points under one bound', async (t) => {
  const { admin } = await newAccount('flooded');
  const agent = api.as(await keyOf(admin, { permissions: ['submit'] }));
  const spans = await agent.post('/v1/traces', spansOf(Array.from({ length: 20 }, (_, i) => `span ${i}`)));
  t.same(spans.json, {}, 'one agent stands for the four that are over the bound of a request');
  const asked: Answer[] = [];
  for (let i = 0; i < NEW_AGENTS_AN_HOUR_MAX; i++)
    asked.push(
      await (i % 2 === 0
        ? agent.post(`${CLAUDE}?agent=name${i}`, HOOK)
        : agent.post(OPA, { input: { agent: `name${i}`, tool: 'Bash', args: {} } })),
    );
  const made = asked.filter(({ status }) => status === 200).length;
  // A place comes back every 36 s.
  const rest = NEW_AGENTS_AN_HOUR_MAX - NEW_AGENTS_A_REQUEST_MAX;
  t.ok(made >= rest && made <= rest + 2, `${made} were made`);
  const refused = asked.at(-1)!;
  t.equal(refused.status, 429);
  t.match(refused.json.error, {
    code: 'rate_limited',
    message:
      /more than 100 new agents in an hour: name one that is there, or have it registered with POST \/v1\/agents/,
  });
  t.ok(Number(refused.headers.get('retry-after')) > 1);
  const agents = async () => (await admin.get('/v1/agents?limit=1')).json.total;
  t.equal(await agents(), made + NEW_AGENTS_A_REQUEST_MAX + 1);
  const more = Array.from({ length: 30 }, (_, i) => `more ${i}`);
  t.same((await agent.post('/v1/traces', spansOf(more))).json, {});
  t.equal(await agents(), made + NEW_AGENTS_A_REQUEST_MAX + 1, 'and for all that come later');

  t.equal((await agent.post(`${CLAUDE}?agent=name0`, HOOK)).status, 200, 'one that is there goes on');
  t.equal((await admin.post('/v1/agents', { name: 'registered' })).status, 201);
  t.equal((await agent.post(`${CLAUDE}?agent=registered`, HOOK)).status, 200, 'and one that a person registers');
  const { admin: neighbour } = await newAccount('neighbour');
  t.equal((await neighbour.post(CLAUDE, HOOK)).status, 200, 'another account has its own');
});

t.test('T10: a key may be kept to agents that are there', async (t) => {
  const { admin } = await newAccount('kept');
  const key = await keyOf(admin, { registers_agents: false });
  const listed = (await admin.get('/v1/api-keys')).json.items;
  t.same(
    listed.map((one: { registers_agents: boolean }) => one.registers_agents),
    [false, undefined],
  );
  const kept = api.as(key);
  for (const refused of [
    await kept.post(`${CLAUDE}?agent=new`, HOOK),
    await kept.post(CLAUDE, HOOK),
    await kept.post(OPA, { input: { agent: 'new', tool: 'Bash' } }),
    await kept.post('/v1/agents', { name: 'new' }),
  ])
    t.match(refused, {
      status: 403,
      json: { error: { message: 'There is no agent of this name, and this key registers none.' } },
    });
  t.match(await kept.post('/v1/traces', spansOf(['new'])), {
    status: 400,
    json: { message: /no span of it can be kept: .* this key registers none/ },
  });
  t.equal((await admin.get('/v1/agents')).json.total, 0);
  await admin.post('/v1/agents', { name: 'new' });
  t.equal((await kept.post(`${CLAUDE}?agent=new`, HOOK)).status, 200);
  t.equal((await kept.post('/v1/agents', { name: 'new' })).status, 200, 'registering again makes none');
  const wrong = await admin.post('/v1/api-keys', { label: 'k', scope: 'admin', registers_agents: false });
  t.match(wrong, { status: 400, json: { error: { details: [{ path: '/registers_agents' }] } } });
});

t.test('T11: signing in counts in the limit of the key, and is limited by address', async (t) => {
  const { name, admin } = await newAccount('limited');
  const key = await keyOf(admin, { scope: 'read' });
  await cli('account', 'limit', name, '--per-second', '5', '--burst', '5');
  await api.until(
    () => api.as(key).get('/v1/session'),
    ({ headers, status }) => status === 429 || headers.get('ratelimit-policy')?.includes('5') === true,
  );
  const signIn = (body: object) => api.post('/v1/session', body, { key: null });
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 50 }, () => signIn({ key })));
  const seconds = (performance.now() - began) / 1000;
  const through = answers.filter(({ status }) => status === 201).length;
  t.ok(through <= 6 + 5 * seconds, `${through} of 50 in ${seconds.toFixed(1)} s`);
  const refused = answers.find(({ status }) => status === 429);
  t.match(refused?.json.error.message, /^The request limit of this key is reached: 5 a second, 5 at once/);

  // On a machine under load connections that stood idle are closed under some of so many.
  const keyAt = (i: number) => `gth_${'x'.repeat(36)}${i}`;
  const tries = await Promise.allSettled(Array.from({ length: 600 }, (_, i) => signIn({ key: keyAt(i) })));
  const unknown = tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const statuses = new Set(unknown.map(({ status }) => status));
  t.same([...statuses].sort(), [401, 429], 'keys that are not there, too');
  const byAddress = unknown.find(({ status }) => status === 429)!;
  t.match(byAddress.json.error, {
    code: 'rate_limited',
    message: /^Too many sign-ins, or calls with an operator's key, from this address/,
  });
  t.ok(Number(byAddress.headers.get('retry-after')) >= 1);
  t.equal((await api.get('/v1/agents')).status, 200, 'calls with a key are not concerned');
});

t.test('T17: accounts that hold streams leave room for others', async (t) => {
  const hogs = await Promise.all(['s1', 's2', 's3', 's4', 's5'].map(newAccount));
  const open = (key: string) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}` };
      http.get(`${service.url}/v1/stream?topics=events`, { headers, agent: false }, resolve).on('error', reject);
    });
  const held: http.IncomingMessage[] = [];
  t.teardown(() => {
    for (const one of held) one.destroy();
  });
  for (const { key } of hogs)
    for (let i = 0; i <= LASTING_OF_ACCOUNT_MAX; i++) {
      const answer = await open(key);
      answer.on('error', () => undefined).resume();
      t.equal(answer.statusCode, i < LASTING_OF_ACCOUNT_MAX ? 200 : 503);
      held.push(answer);
    }
  const last = await open(service.key);
  last.on('error', () => undefined).resume();
  held.push(last);
  t.equal(last.statusCode, 200, 'a stream of another account');
  t.equal((await api.get('/v1/events/export', { mayBeAway: true })).status, 200, 'and an export');
  t.equal((await hogs[0]!.admin.get('/v1/events/export', { mayBeAway: true })).status, 200, 'also of one of them');
});
