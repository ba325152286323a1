// Inference hooks against the whole service, by a sender written from their public description: every request has its
// verdict with 200 and in time, whatever is wrong with it or with the service; of a conversation each message is
// judged and stored once; connections as resources.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { startService } from '../support/service.ts';

const PUBLIC = 'https://gatehouse.example/here';
const service = await startService(t, { env: { GATEHOUSE_PUBLIC_URL: PUBLIC, GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
const allow = { status: 200, verdict: { action: 'allow' } };
const deny = (deny_reason: string | RegExp) => ({ status: 200, verdict: { action: 'deny', deny_reason } });

let names = 0;
async function connect(more: object = {}, secret = newSecret()) {
  const made = await api.post('/v1/connections', { name: `connection ${++names}`, secrets: [secret], ...more });
  if (made.status !== 201) throw new Error(made.text);
  const id = made.json.id as string;
  return { id, secret, json: made.json, sender: new InferenceSender(service, id, secret) };
}
/** Until a change is in force on both fronts: as often in a row as chance would not do. */
async function settled(isSo: () => Promise<boolean>): Promise<void> {
  for (let row = 0, n = 0; row < 8 && n < 2_000; n++) row = (await isSo()) ? row + 1 : 0;
}
const trace = async (session: string) => (await api.get(`/v1/traces/${session}?limit=100`)).json;
const told = 'Secrets belong into the vault: put it there.';

for (const policy of [
  { name: 'no launch', type: 'block_action', conditions: { 'payload.prompt': { contains: 'launch code' } } },
  { name: 'no keys', type: 'data_filter', conditions: { detectors: ['api_key'] }, description: told },
  { name: 'no rm', type: 'block_action', conditions: { tool: 'rm' } },
  { name: 'not him', type: 'block_action', conditions: { 'payload.actor.email_address': 'eve@example.com' } },
  { name: 'ask', type: 'require_approval', conditions: { 'payload.prompt': 'pay' } },
  {
    name: 'no mails',
    type: 'data_filter',
    actions: ['log'],
    conditions: { detectors: ['email'], fields: ['payload.prompt'], redact: true },
  },
])
  if ((await api.post('/v1/policies', { actions: ['block'], ...policy })).status !== 201) throw new Error(policy.name);

const first = await connect();
await settled(async () => {
  const { verdict } = await first.sender.send(promptOf(`warm-${Math.random()}`, [text('launch code')]));
  const pending = await first.sender.send(promptOf(`warm-${Math.random()}`, [text('to a@example.com')]));
  return /no launch/.test(verdict.deny_reason ?? '') && /no mails/.test(pending.verdict.deny_reason ?? '');
});

t.test('a connection is made, shown without its secrets, changed and deleted; the audit log has it', async (t) => {
  const secret = newSecret();
  const { id, json } = await connect({ name: 'assistant' }, secret);
  t.match(json, {
    ...{ id: /^con_[0-9a-z]{26}$/, name: 'assistant', secrets_set: 1, on_failure: 'deny', mode: 'enforce' },
    ...{ agent_id: null, agents_by: 'application', timeout_ms: 4_000, status: 'active' },
  });
  t.same((await api.get(`/v1/connections/${id}`)).json, json);
  t.match(await api.post('/v1/connections', { name: 'assistant' }), {
    status: 409,
    json: { error: { code: 'name_taken' } },
  });
  const again = newSecret();
  const changed = await api.patch(`/v1/connections/${id}`, { secrets: [secret, again], mode: 'watch' });
  t.match(changed.json, { secrets_set: 2, mode: 'watch' });
  t.match((await api.get('/v1/connections?q=assist')).json, { total: 1, items: [{ id }] });
  for (const [body, path] of [
    [{ secrets: ['whsec_short'] }, '/secrets/0'],
    [{ secrets: [newSecret(), newSecret(), newSecret()] }, '/secrets'],
    [{ on_failure: 'ask' }, '/on_failure'],
    [{ timeout_ms: 10_000 }, '/timeout_ms'],
    [{ agent_id: 'agt_01m8epeshh5avk9g9agbaf6fvd' }, '/agent_id'],
  ] as const) {
    const { status, json: error } = await api.patch(`/v1/connections/${id}`, body);
    t.match({ status, path: error.error.details[0].path }, { status: 400, path });
  }
  const stranger = { key: await keyOfNewAccount(service, 'strangers of connections') };
  t.equal((await api.get(`/v1/connections/${id}`, stranger)).status, 404);
  t.equal((await api.delete(`/v1/connections/${id}`, stranger)).status, 404);
  t.equal((await api.delete(`/v1/connections/${id}`)).status, 204);
  t.equal((await api.get(`/v1/connections/${id}`)).status, 404);
  const { json: log, text: all } = await api.get('/v1/audit-logs?resource_type=connection&limit=100');
  const own = log.logs.filter(({ resource_id }: { resource_id: string }) => resource_id === id);
  t.match(own, [
    { action: 'connection.deleted' },
    { action: 'connection.updated', details: { changed: ['secrets', 'mode'], after: { mode: 'watch' } } },
    { action: 'connection.created', details: { name: 'assistant', on_failure: 'deny' } },
  ]);
  t.notOk(all.includes(secret.slice(10)) || all.includes(again.slice(10)), 'no secret is in it');
});

t.test('with its agent a connection stops', async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'of a connection' })).json.id as string;
  const { id, sender } = await connect({ agent_id: agent });
  t.match(await sender.send(promptOf('s-of-agent', [text('hello')])), allow);
  t.same((await trace('s-of-agent')).agents, [agent]);
  await api.delete(`/v1/agents/${agent}`);
  t.match((await api.get(`/v1/connections/${id}`)).json, { status: 'inactive', agent_id: agent });
  await settled(async () => (await sender.send(promptOf('s-of-agent', [text('hello')]))).verdict.action === 'deny');
  t.match(await sender.send(promptOf('s-of-agent', [text('hello')])), deny(/switched off/));
});

t.test('what is signed by a secret is judged, what is not gets the word of the connection', async (t) => {
  const { id, sender } = await connect();
  const ask = (more = {}) => sender.send(promptOf('s-signed', [text('hello')]), more);
  t.match(await ask(), allow);
  const wrong = deny(/not signed by a secret of this connection/);
  t.match(await ask({ secret: null }), wrong, 'unsigned');
  t.match(await ask({ secret: newSecret() }), wrong, 'by another secret');
  t.match(await ask({ at: new Date(Date.now() - 6 * 60_000) }), wrong, 'late');
  t.match(await ask({ signature: 'v1,AAAA' }), wrong);
  const stranger = new InferenceSender(service, 'con_01m8epeshh5avk9g9agbaf6fvd', newSecret());
  const unknown = await stranger.send(promptOf('s-signed', [text('hello')]));
  t.same(Object.keys(unknown.verdict), ['action', 'deny_reason', 'reference_id']);
  t.match(unknown, wrong, 'of a connection that is not there the same is said');
  t.equal((await trace('s-signed')).event_count, 1, 'nothing of it is recorded');

  const next = newSecret();
  await api.patch(`/v1/connections/${id}`, { secrets: [first.secret, next] });
  await settled(async () => (await ask({ secret: next })).verdict.action === 'allow');
  t.match([await ask({ secret: next }), await ask({ secret: first.secret })], [allow, allow], 'both, in a rotation');
  await api.patch(`/v1/connections/${id}`, { secrets: [next], on_failure: 'allow' });
  await settled(async () => (await ask({ secret: first.secret })).verdict.action === 'allow');
  t.match(await ask({ secret: null }), allow, 'as the connection says');

  const fresh = (await api.post('/v1/connections', { name: 'fresh' })).json.id as string;
  const test = await new InferenceSender(service, fresh, newSecret()).send({ type: 'prompt' }, { secret: null });
  t.match(test, deny(/has no secret yet/), 'the first test comes unsigned');
});

t.test('policies judge prompts, calls, results and who speaks; a description is what people are told', async (t) => {
  const { sender } = first;
  const ask = (session: string, ...messages: unknown[]) => sender.send(promptOf(session, messages));
  t.match(await ask('s-1', text('the launch code is 7')), deny('Blocked by policy "no launch".'));
  const key = 'sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';
  const keyed = await ask('s-2', text(`use ${key}`));
  t.match(keyed, deny(told));
  t.match((await trace('s-2')).events, [{ id: keyed.verdict.reference_id, type: 'prompt' }]);
  const call = (tool_name: string) => ({
    ...{ role: 'assistant', content: [{ type: 'tool_use', id: `c-${tool_name}`, tool_name, input: { at: '/' } }] },
  });
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c-ls', content: key }] };
  t.match(await ask('s-3', text('clean up'), call('rm')), deny('Blocked by policy "no rm".'));
  t.match(await ask('s-4', text('look'), call('ls'), result), deny(told));
  t.match((await trace('s-4')).events, [
    { type: 'prompt', payload: { prompt: 'look', model: 'opus', application: 'chat', tenant_id: 'org-1' } },
    { type: 'tool_call', payload: { tool: 'ls', arguments: { at: '/' }, call_id: 'c-ls' } },
    { type: 'custom', payload: { kind: 'tool_result', tool_name: 'ls' }, policy_result: { outcome: 'blocked' } },
  ]);
  const eve = { actor: { type: 'user', id: 'u-2', email_address: 'eve@example.com' } };
  t.match(await sender.send(promptOf('s-5', [text('hello')], eve)), deny('Blocked by policy "not him".'));
  t.match(await ask('s-6', text('mail b@example.com')), deny(/^Policy "no mails" redacts part of this/));
  const odd = { role: 'user', content: [{ type: 'hologram', depth: 3 }], mood: 'good' };
  t.match(await sender.send({ ...promptOf('s-7', [odd]), type: 'dream', later: true }), allow, 'what is not known');
  t.match((await trace('s-7')).events, [
    { payload: { kind: 'inference_block', block: { type: 'hologram', depth: 3 }, message: { mood: 'good' } } },
    { payload: { kind: 'inference_request', hook: 'dream', request: { later: true } } },
  ]);
  const agents = (await api.get('/v1/agents?name=chat')).json.items;
  t.match(agents, [{ metadata: { registered_by: '/v1/hooks/inference/{connection}' } }], 'by application');
  const { json: log } = await api.get(`/v1/audit-logs?resource_type=agent&resource_id=${agents[0].id}`);
  t.equal(log.logs[0].actor, `connection:${first.id}`);
  const byActor = await connect({ agents_by: 'actor' });
  t.match(await byActor.sender.send(promptOf('s-8', [text('hello')])), allow);
  t.equal((await api.get('/v1/agents?name=ada@example.com')).json.total, 1);
});

t.test('a call that comes twice with its signature is one: the same record, and the same verdict', async (t) => {
  const { sender } = await connect();
  for (const [session, said, verdict] of [
    ['s-twice', 'hello', allow],
    ['s-twice-blocked', 'launch code', deny(/no launch/)],
  ] as const) {
    // As it came: id, time and signature, by one who saw it, or by a sender that had no answer.
    const signed = sender.signed(promptOf(session, [text(said)]));
    const answers = [
      await sender.sendSigned(signed),
      ...(await Promise.all([1, 2].map(() => sender.sendSigned(signed)))),
    ];
    for (const answer of answers) t.match(answer, verdict);
    t.equal(new Set(answers.map((one) => JSON.stringify(one.verdict))).size, 1, 'and of the same record');
    t.equal((await trace(session)).event_count, 1);
    const moved = { ...signed, headers: { ...signed.headers, 'webhook-id': 'msg_other' } };
    t.match(await sender.sendSigned(moved), deny(/not signed/), 'the id is signed with it');
  }
});

t.test('what is stopped is judged again when it comes again, and recorded once for one request', async (t) => {
  const hook = promptOf('s-again', [text('hello'), text('launch code')]);
  const [one, same] = [await first.sender.send(hook), await first.sender.send(hook)];
  t.same(same.verdict, one.verdict, 'the same request has the same answer');
  t.equal((await trace('s-again')).event_count, 2);
  t.match(await first.sender.send({ ...hook, request_id: 'another' }), deny(/no launch/));
  t.equal((await trace('s-again')).event_count, 3, 'another one is another try');
  t.match(await first.sender.send(promptOf('s-again', [text('hello'), text('never mind')])), allow);
});

t.test('what waits is denied with the address of its approval, and goes once it is given', async (t) => {
  const ask = () => first.sender.send(promptOf('s-pay', [text('pay')]));
  const held = await ask();
  const id = held.verdict.reference_id!;
  t.match(held, deny(new RegExp(`^Approval ${id} is pending.*${PUBLIC}/ui/approvals\\?id=${id}$`)));
  t.equal((await ask()).verdict.reference_id, id, 'it waits for the same one');
  const decided = await api.until(
    () => api.post(`/v1/approvals/${id}`, { decision: 'approve' }),
    ({ status }) => status === 200,
  );
  t.equal(decided.json.outcome, 'allowed');
  t.match(await ask(), allow);
  t.equal((await trace('s-pay')).event_count, 1, 'it was recorded once');
  const other = await first.sender.send(promptOf('s-pay-2', [text('pay')]));
  await api.until(
    () => api.post(`/v1/approvals/${other.verdict.reference_id}`, { decision: 'deny' }),
    ({ status }) => status === 200,
  );
  t.match(await first.sender.send(promptOf('s-pay-2', [text('pay')])), deny(/was not given/));
});

t.test('of a conversation of 200 turns each message is stored once, also where two calls come at once', async (t) => {
  const messages: unknown[] = [];
  for (let turn = 0; turn < 200; turn++) {
    messages.push(text(`question ${turn}`));
    const asked = [...messages];
    const both = turn % 10 === 3 ? 2 : 1;
    const answers = await Promise.all(Array.from({ length: both }, () => first.sender.send(promptOf('s-long', asked))));
    for (const answer of answers) t.match(answer, allow, `turn ${turn}`);
    messages.push(text(`answer ${turn}`, 'assistant'));
  }
  const { event_count, counts } = await trace('s-long');
  t.same({ event_count, counts }, { event_count: 399, counts: { prompt: 200, completion: 199 } });
  const edited = [...messages.slice(0, 397), text('another question')];
  t.match(await first.sender.send(promptOf('s-long', edited)), allow);
  t.equal((await trace('s-long')).event_count, 400, 'of an edited one what differs');
});

t.test('with an agent all that its connection recorded is erased, and the connection goes on', async (t) => {
  const { sender } = await connect({ agents_by: 'actor' });
  const actor = { type: 'user', id: 'u-9', email_address: 'leaver@example.com' };
  const ask = (session: string, said: string) => sender.send(promptOf(session, [text(said)], { actor }));
  t.match(await ask('s-leaver', 'hello'), allow);
  t.match(await ask('s-leaver-2', 'launch code'), deny(/no launch/));
  const [agent] = (await api.get('/v1/agents?name=leaver@example.com')).json.items;
  const found = async () => (await api.get('/v1/events?q=leaver&limit=10')).json.total as number;
  t.equal(await api.until(found, (total) => total === 2), 2);
  t.equal((await api.delete(`/v1/agents/${agent.id}`)).status, 204);
  t.equal(await api.until(found, (total) => total === 0), 0);
  for (const session of ['s-leaver', 's-leaver-2']) t.equal((await api.get(`/v1/traces/${session}`)).status, 404);
  t.equal((await api.get(`/v1/agents/${agent.id}`)).status, 404);
  t.match(await ask('s-leaver-3', 'hello again'), allow, 'who comes again is another agent');
  const [again] = (await api.get('/v1/agents?name=leaver@example.com')).json.items;
  t.not(again.id, agent.id);
});

t.test('an agent that is switched off is denied, also where nothing is new', async (t) => {
  const { id: agent_id } = (await api.post('/v1/agents', { name: 'stopped' })).json;
  const { sender } = await connect({ agent_id });
  const ask = () => sender.send(promptOf('s-off', [text('hello')]));
  t.match(await ask(), allow);
  await api.patch(`/v1/agents/${agent_id}`, { status: 'inactive' });
  t.match(await ask(), deny(/agent is switched off/));
});

t.test('ten megabytes are judged in time, more is a failure', async (t) => {
  const big = (megabytes: number, end: string) => {
    const lines = Array.from({ length: 10 }, (_, i) => text(`${i} `.padEnd(megabytes * 1e5 - 200, 'lorem ipsum ')));
    return promptOf(`s-big-${end}`, [...lines, text(end)]);
  };
  // A busy machine takes more than the 4 s of other connections; `bench hooks` says how long it takes.
  const { sender } = await connect({ timeout_ms: 9_500 });
  const whole = await sender.send(big(10, 'fine'));
  t.match(whole, allow);
  t.match(await sender.send(big(10, 'launch code')), deny(/no launch/));
  t.match(
    await sender.send(promptOf('s-one', [text(`${'x '.repeat(2e6)}launch code`)])),
    deny(/no launch/),
    'in one message',
  );
  // A client that is still sending may find the connection closed before it reads the answer.
  const larger = await sender.send(big(12, 'fine')).catch((error: NodeJS.ErrnoException) => error.code ?? '');
  if (typeof larger === 'string') t.match(larger, /^(EPIPE|ECONNRESET)$/);
  else t.match(larger, deny(/could not be judged/));
  t.comment(`10 MB: ${whole.ms.toFixed()} ms`);
});

t.test('a request that would be millions of events is refused, and stops no one else', async (t) => {
  const { sender } = await connect({ timeout_ms: 5_000 });
  const other = api.as(await keyOfNewAccount(service, 'beside large hooks'));
  const made = await other.until(
    () => other.post('/v1/agents', { name: 'beside' }),
    ({ status }) => status === 201,
  );
  const large = { type: 'prompt', payload: { text: 'x'.repeat(600_000) } };
  const withParts = (count: number) =>
    promptOf('s-parts', [
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c-1', content: new Array(count).fill('') }] },
    ]);
  const odd = new Array(1_000).fill(0);
  const keys = Object.fromEntries(Array.from({ length: 200_000 }, (_, i) => [`k${i}`, i]));
  for (const [body, why] of [
    [withParts(100_000), /more than 1000 blocks and parts/],
    [promptOf('s-many', new Array(200).fill({ content: odd })), /more than 10000 blocks and parts together/],
    [promptOf('s-model', new Array(4_900).fill(text('x')), { model: 'm'.repeat(1e5) }), /together larger than 16384/],
    [promptOf('s-keys', [text('x')], { metadata: keys }), /more than 100000 keys/],
    // Of 10 MB reading alone takes more than a second.
    [withParts(3e6), /could not be judged/],
  ] as const) {
    const beside = Promise.all([1, 2, 3, 4].map(() => other.post(`/v1/agents/${made.json.id}/events`, large)));
    t.match(await sender.send(body), deny(why));
    t.same(
      (await beside).map(({ status }) => status),
      [201, 201, 201, 201],
      'from the same thread',
    );
  }
  t.notMatch(await service.log(), /judging_thread\./, 'which goes on');
});

t.test('what is not understood is recorded, and answered by the word; one that watches allows all', async (t) => {
  const { sender } = await connect({ name: 'odd' });
  for (const body of ['{"type": "prompt"', '[]', '{"messages": 7}', '{"type":"prompt"}', '{"a":1,"a":2}'])
    t.match(await sender.send(body), deny(/could not be judged/), body);
  const { id } = (await api.get('/v1/agents?name=odd')).json.items[0];
  t.match((await api.get(`/v1/agents/${id}/events?type=error`)).json, {
    total: 5,
    items: [{ payload: { kind: 'inference_hook', error: /malformed|cannot be read/ } }],
  });
  t.match(
    await sender.send(promptOf('s-x', [text('x')]), { headers: { 'content-type': 'text/plain' } }),
    deny(/application\/json/),
  );
  const watching = await connect({ mode: 'watch' });
  t.match(await watching.sender.send(promptOf('s-watch', [text('launch code'), text('pay')])), allow);
  t.match(await watching.sender.send('{'), allow);
  t.match((await trace('s-watch')).outcomes, { blocked: 1, pending: 1 }, 'and it is recorded what policies say');
});

t.test('what was not judged is counted by its reason', async (t) => {
  const { sender } = await connect();
  await sender.send('{');
  await sender.send(promptOf('s-counted', [text('hello')]), { secret: null });
  const counts = async () => {
    const all = (await (await fetch(`${service.url}/metrics`)).text()).matchAll(
      /^gatehouse_unjudged_hooks_total\{.*reason="(\w+)".*\} (\d+)$/gm,
    );
    const sums: Record<string, number> = {};
    for (const [, reason, count] of all) sums[reason!] = (sums[reason!] ?? 0) + Number(count);
    return sums;
  };
  const sums = await api.until(counts, ({ invalid = 0, unsigned = 0 }) => invalid > 0 && unsigned > 0);
  t.ok(sums['invalid']! > 0 && sums['unsigned']! > 0 && 'unavailable' in sums, JSON.stringify(sums));
});

t.test('over the request limit the word is answered', async (t) => {
  const key = await keyOfNewAccount(service, 'limited hooks', { per_second: 1, burst: 2 });
  const secret = newSecret();
  const made = await api.until(
    () => api.post('/v1/connections', { name: 'limited', secrets: [secret] }, { key }),
    ({ status }) => status === 201,
  );
  const sender = new InferenceSender(service, made.json.id, secret);
  const all = await Promise.all(
    Array.from({ length: 30 }, (_, i) => sender.send(promptOf(`s-limit-${i}`, [text('hello')]))),
  );
  t.ok(all.every(({ status }) => status === 200));
  t.match(
    all.find(({ verdict }) => verdict.action === 'deny'),
    deny(/request limit/),
  );
});

t.test('with the stores away the verdict is the word, in time', async (t) => {
  const open = await connect({ on_failure: 'allow', timeout_ms: 1_000 });
  const closed = await connect({ timeout_ms: 1_000 });
  // Both fronts have read them.
  for (let i = 0; i < 32; i++) {
    t.match(await open.sender.send(promptOf(`s-before-${i}`, [text('hello')])), allow);
    t.match(await closed.sender.send(promptOf(`s-before-${i}`, [text('hello')])), allow);
  }
  const redis = (await service.children()).find(({ name }) => name === 'redis')!;
  process.kill(redis.pid, 'SIGSTOP');
  try {
    const began = performance.now();
    while (performance.now() - began < 8_000) {
      const [allowed, denied] = await Promise.all([
        open.sender.send(promptOf('s-away', [text('launch code')])),
        closed.sender.send(promptOf('s-away', [text('hello')])),
      ]);
      t.match([allowed, denied], [allow, deny(/could not be judged/)]);
      // Of a `timeout_ms` of 1,000, on a machine that is shared.
      t.ok(Math.max(allowed.ms, denied.ms) < 2_500, `${allowed.ms.toFixed()} and ${denied.ms.toFixed()} ms`);
    }
  } finally {
    process.kill(redis.pid, 'SIGCONT');
  }
  await settled(async () => (await closed.sender.send(promptOf('s-back', [text('hello')]))).verdict.action === 'allow');
  t.match(await closed.sender.send(promptOf('s-back', [text('hello'), text('launch code')])), deny(/no launch/));
});
