// Budgets against the whole service: a prompt reserves, its completion settles, an error releases; what does not fit is
// blocked and says what would fit. What is spent is what is stored. Amounts are reckoned here by hand.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Api } from '../support/api.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { attributesOf } from '../support/otlp-protobuf.ts';
import { ofEachMaster } from '../support/redis.ts';
import { runCli } from '../support/service.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);
const model = 'm-1';
await api.post('/v1/prices', { prices: [{ model, input: '1 USD', output: '10 USD', max_output: 1_000 }] });

/** A new policy is in force everywhere within a second. */
const IN_FORCE_MS = 1_500;
let names = 0;
async function agentOf(): Promise<string> {
  return (await api.post('/v1/agents', { name: `spender ${++names}` })).json.id;
}

async function newBudget(agent: string, conditions: object, actions = ['block']): Promise<string> {
  const policy = { name: `budget ${++names}`, type: 'budget', agent_id: agent, actions, conditions };
  const made = await api.post('/v1/policies', policy);
  t.equal(made.status, 201, made.text);
  return made.json.id;
}

/** A budget of the agent whose past is known. */
async function budget(agent: string, conditions: object, asked: object = {}, actions?: string[]): Promise<string> {
  const id = await newBudget(agent, conditions, actions);
  await known(agent, id, asked);
  return id;
}

/** It is in force, and what was spent before is known; a prompt of no model that has a price asks for it. */
async function known(agent: string, id: string, asked: object = {}): Promise<void> {
  await api.until(
    async () => {
      const made = await api.post(`/v1/agents/${agent}/events`, prompt({ max_tokens: 1, token_count: 0, ...asked }));
      await api.post(`/v1/agents/${agent}/events`, { type: 'error', payload: { for: made.json.id } });
      return made;
    },
    ({ json }) => json.policy_result.budgets?.some(({ policy_id: of }: { policy_id: string }) => of === id),
  );
}

const prompt = (more: object, beside: object = {}) => ({ type: 'prompt', payload: { model, ...more }, ...beside });
const completion = (input: number, output: number, more: object = {}, beside: object = {}) => ({
  ...{ type: 'completion', ...beside },
  payload: { model, usage: { prompt_tokens: input, completion_tokens: output }, ...more },
});
const post = (agent: string, event: object) => api.post(`/v1/agents/${agent}/events`, event);
const stateOf = async (id: string, check = false) =>
  (await api.get(`/v1/budgets?policy_id=${id}${check ? '&check=true' : ''}`)).json.items[0];
/** Once what is counted is stored as well. */
const checked = async (id: string) =>
  (
    await api.until(
      () => api.get(`/v1/budgets?policy_id=${id}&check=true`),
      ({ json }) => Number.parseFloat(String(json.items[0].drift)) === 0,
    )
  ).json.items[0];
/** Once it has spent so much. */
const spent = (id: string, amount: string | number, isSo = (found: unknown) => found === amount) =>
  api.until(
    () => api.get(`/v1/budgets?policy_id=${id}`),
    ({ json }) => isSo(json.items[0]?.spent),
  );
const spentAtLeast = (id: string, amount: number) => spent(id, amount, (found) => Number(found) >= amount);

t.test('a prompt reserves, its completion settles, once; what does not fit is blocked', async (t) => {
  const agent = await agentOf();
  // A million input tokens are 1 USD, a million output tokens 10 USD.
  const id = await budget(agent, { limit: '0.02 USD', window: '1h', estimate: 'worst' });
  const first = await post(agent, prompt({ token_count: 1_000, max_tokens: 500 }));
  t.match(first.json.policy_result, { outcome: 'allowed' });
  // 1,000 at 1 USD are 0.001 USD, 500 at 10 USD 0.005 USD; 0.019 USD are 1,900 output tokens.
  t.same(first.json.policy_result.budgets, [
    { policy_id: id, reserved: '0.006 USD', left: '0.014 USD', resets_at: null, max_tokens: 1_900 },
  ]);
  t.match(await stateOf(id), {
    spent: '0.00 USD',
    reserved: '0.006 USD',
    left: '0.014 USD',
    known: true,
    scope: agent,
  });
  const over = await post(agent, prompt({ token_count: 1_000, max_tokens: 1_301 }));
  t.match(over.json.policy_result, { outcome: 'blocked', policy_id: id });
  t.match(over.json.policy_result.matches[0], {
    type: 'budget',
    detail: {
      limit: '0.02 USD',
      window: '3600s',
      per: 'agent',
      needed: '0.01401 USD',
      left: '0.014 USD',
      max_tokens: 1_300,
    },
  });
  t.notOk('budgets' in over.json.policy_result);
  const done = completion(900, 100, { for: first.json.id });
  await post(agent, done);
  t.match(await stateOf(id), { left: '0.0181 USD' }, 'at once what was used: 0.0009 and 0.001 USD');
  await spent(id, '0.0019 USD');
  await post(agent, done);
  t.match(await checked(id), { spent: '0.0019 USD', reserved: '0.00 USD', stored: '0.0019 USD' });
  const fits = await post(agent, prompt({ token_count: 1_000, max_tokens: 1_710 }));
  t.match(fits.json.policy_result, { outcome: 'allowed', budgets: [{ left: '0.00 USD' }] });
  await post(agent, { type: 'error', payload: { for: fits.json.id, error: 'overloaded' } });
  t.match(await stateOf(id), { reserved: '0.00 USD', left: '0.0181 USD' }, 'an error releases');
});

t.test('without the id the oldest open call of the same trace, agent and model is meant', async (t) => {
  const agent = await agentOf();
  const id = await budget(agent, {
    limit: { tokens: 10_000 },
    window: 'day',
    zone: 'Europe/Berlin',
    estimate: 'worst',
  });
  const of = { trace_id: 'trace-1' };
  await post(agent, prompt({ token_count: 10, max_tokens: 90 }, of));
  await post(agent, prompt({ token_count: 20, max_tokens: 180 }, of));
  await post(agent, completion(10, 5, {}, of));
  t.match(await stateOf(id), { left: 10_000 - 15 - 200 });
  await post(agent, completion(20, 10, {}, { trace_id: 'another' }));
  await spent(id, 45);
  t.match(await stateOf(id), { reserved: 200, left: 10_000 - 45 - 200 }, 'of another trace: charged, nothing released');
  const { json } = await post(agent, completion(0, 0, { usage: undefined }, of));
  t.equal(json.policy_result.outcome, 'allowed');
  await spent(id, 245);
  t.match(await checked(id), { reserved: 0, drift: 0 }, 'one that says no usage is charged what was reserved');
});

t.test('a new budget knows the past of its window, and a reset begins it again', async (t) => {
  const agent = await agentOf();
  await post(agent, completion(100, 200));
  await post(agent, completion(30, 20));
  const id = await budget(agent, { limit: { tokens: 400 }, window: '1h', estimate: 'worst' });
  t.match(await stateOf(id, true), { spent: 350, stored: 350, left: 50, drift: 0 });
  t.match((await post(agent, prompt({ token_count: 1, max_tokens: 50 }))).json.policy_result, { outcome: 'blocked' });
  const reset = await api.post(`/v1/policies/${id}/reset`, undefined);
  t.match(reset, { status: 200, json: { id, reset_at: /Z$/ } });
  const allowed = await api.untilOutcome('allowed', () => post(agent, prompt({ token_count: 1, max_tokens: 50 })));
  t.match(allowed.json.policy_result.budgets, [{ reserved: 51, left: 349 }]);
  t.match(await stateOf(id, true), { spent: 0, stored: 0, left: 349 });
  const { logs } = (await api.get('/v1/audit-logs?action=policy.updated')).json;
  t.ok(
    logs.some(
      ({ resource_id: of, details }: { resource_id: string; details: { reset?: true } }) => of === id && details.reset,
    ),
  );
  const free = await agentOf();
  await post(free, completion(100, 200, { model: 'without a price' }));
  const money = await budget(free, { limit: '1 USD', window: '1h', unpriced: 'allow' });
  t.match(await stateOf(money, true), { spent: '0.00 USD', stored: '0.00 USD' }, 'what has no price cost nothing');
});

t.test('events that say more tokens than numbers hold use a budget up, in rows and in counters', async (t) => {
  const agent = await agentOf();
  const most = Number.MAX_SAFE_INTEGER;
  const events = Array.from({ length: 100 }, () => completion(most - 1, 1, {}, { trace_id: 'more than numbers hold' }));
  const batches = async () => {
    for (let i = 0; i < 11; i++) await api.post(`/v1/agents/${agent}/events/batch`, { events });
  };
  await batches();
  const id = await newBudget(agent, { limit: { tokens: 400 }, window: '1h', estimate: 'worst' });
  // More where a minute ends meanwhile: each has a sum of its own.
  await spentAtLeast(id, 9e15);
  t.match(await checked(id), { drift: 0 }, 'the past');
  await batches();
  await spentAtLeast(id, 18e15);
  t.match(await checked(id), { drift: 0 });
  const traces = await api.get(`/v1/traces?agent_id=${agent}&sort=tokens`);
  t.match(traces.json.items, [{ tokens_used: most, event_count: 2_200 }], 'a trace says the most that is exact');
  t.match((await api.get(`/v1/usage?agent_id=${agent}`)).json.total, { tokens: most }, 'so does the usage');
  t.match((await post(agent, prompt({ token_count: 1, max_tokens: 1 }))).json.policy_result, { outcome: 'blocked' });
});

t.test('by every way that events come: batches, large ones, under a key, as spans', async (t) => {
  const agent = await agentOf();
  const name = `spender ${names}`;
  const id = await budget(agent, { limit: { tokens: 1_000_000 }, window: '1d', estimate: 'worst' });
  const of = { trace_id: 'batch' };
  const both = [prompt({ token_count: 10, max_tokens: 40 }, of), completion(10, 20, {}, of)];
  const batch = await api.post(`/v1/agents/${agent}/events/batch`, both);
  t.match(batch.json.results[0].policy_result, { outcome: 'allowed', budgets: [{ reserved: 50, left: 999_950 }] });
  await spent(id, 30);
  t.match(await stateOf(id), { reserved: 0 });

  const text = 'word '.repeat(100_000);
  const large = await post(agent, prompt({ prompt: text, token_count: 100, max_tokens: 100 }));
  t.match(large.json.policy_result, { budgets: [{ reserved: 200, left: 999_770 }] }, 'judged in the thread');
  await post(agent, completion(100, 7, { for: large.json.id, response: text }));
  await spent(id, 137);
  t.match(await stateOf(id), { reserved: 0 });

  const headers = { 'idempotency-key': 'once' };
  const asked = prompt({ token_count: 1, max_tokens: 2 });
  const [first, again] = [
    await api.post(`/v1/agents/${agent}/events`, asked, { headers }),
    await api.post(`/v1/agents/${agent}/events`, asked, { headers }),
  ];
  t.equal(again.text, first.text);
  t.match(await stateOf(id), { reserved: 3 }, 'a retry reserves nothing more');
  await post(agent, { type: 'error', payload: { for: first.json.id } });

  const now = `${Date.now()}000000`;
  const used = { 'gen_ai.usage.input_tokens': 100, 'gen_ai.usage.output_tokens': 10 };
  const span = {
    ...{ traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), name: 'chat', startTimeUnixNano: now, endTimeUnixNano: now },
    attributes: attributesOf({ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': model, ...used }),
  };
  const resource = { attributes: attributesOf({ 'service.name': name }) };
  const sent = await api.post('/v1/traces', { resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] });
  t.equal(sent.status, 200);
  await spent(id, 247);
  t.match(await checked(id), { reserved: 0, drift: 0 }, 'spans settle, and reserve nothing');
});

t.test('hooks settle by session and model, and by what was reserved where they say no usage', async (t) => {
  const agent = await agentOf();
  const name = `spender ${names}`;
  const id = await budget(agent, { limit: { tokens: 10_000 }, window: '1d' });
  const hook = async (body: object) => {
    const { status, ...answer } = await api.post(`/v1/hooks/gemini-cli?agent=${encodeURIComponent(name)}`, body);
    t.equal(status, 200, answer.text);
  };
  const asked = {
    session_id: 'session-1',
    llm_request: { model, messages: [{ role: 'user', content: 'x'.repeat(396) }] },
  };
  await hook({ hook_event_name: 'BeforeModel', ...asked });
  const { reserved } = await stateOf(id);
  t.ok(reserved > 1_000, `${reserved}`);
  const usageMetadata = { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 };
  await hook({ hook_event_name: 'AfterModel', ...asked, llm_response: { candidates: [], usageMetadata } });
  t.match(await checked(id), { spent: 15, reserved: 0 });

  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const made = await api.post('/v1/connections', { name: `connection ${name}`, secrets: [secret], agent_id: agent });
  t.equal(made.status, 201, made.text);
  const sender = new InferenceSender(service, made.json.id, secret);
  const messages = [text('a question')];
  await api.until(
    () => sender.send(promptOf('session-2', messages)),
    ({ verdict }) => verdict.action === 'allow',
  );
  const first = (await stateOf(id)).reserved;
  t.ok(first > 1_000, `${first}`);
  messages.push(text('an answer', 'assistant'), text('another question'));
  t.match(await sender.send(promptOf('session-2', messages)), { verdict: { action: 'allow' } });
  t.match(await checked(id), { spent: 15 + first }, 'what was reserved for the question');
  t.ok((await stateOf(id)).reserved > 1_000, 'the next one waits for its answer');
});

t.test('the first call of a budget that was made some seconds ago finds it known', async (t) => {
  const agent = await agentOf();
  const conditions = { limit: { events: 1 }, window: '1h' };
  const policy = { name: `budget ${++names}`, type: 'budget', agent_id: agent, actions: ['block'], conditions };
  const { id } = (await api.post('/v1/policies', policy)).json;
  await sleep(4 * IN_FORCE_MS);
  t.match((await post(agent, prompt({}))).json.policy_result, { outcome: 'allowed', budgets: [{ policy_id: id }] });
});

t.test('what a budget blocks takes no permit of a rate limit', async (t) => {
  const agent = await agentOf();
  await budget(agent, { limit: { events: 1 }, window: '1h' });
  const limit = { name: `limit ${++names}`, type: 'rate_limit', agent_id: agent, actions: ['block'] };
  const conditions = { threshold: 5, window: '1h', type: 'prompt' };
  const made = await api.post('/v1/policies', { ...limit, conditions });
  t.equal(made.status, 201);
  await sleep(IN_FORCE_MS);
  t.equal((await post(agent, prompt({}))).json.policy_result.outcome, 'allowed');
  const events = Array.from({ length: 4 }, () => prompt({}));
  const all = [];
  for (let i = 0; i < 6; i++) all.push((await post(agent, prompt({}))).json);
  all.push(...(await api.post(`/v1/agents/${agent}/events/batch`, { events })).json.results);
  t.same(
    all.map(({ policy_result: { matches } }) => matches.map(({ type }: { type: string }) => type)),
    all.map(() => ['budget']),
    'ten that do not fit, and none is over the limit of five',
  );
});

t.test('people are told of shares that are spent, and of the first call that does not fit', async (t) => {
  const agent = await agentOf();
  const alert = (trigger: string) => ({
    name: `${trigger} ${++names}`,
    trigger,
    channel: 'email',
    target: 'a@example.com',
  });
  for (const trigger of ['budget_warning', 'budget_exhausted'])
    t.equal((await api.post('/v1/alerts', { ...alert(trigger), agent_id: agent })).status, 201);
  await budget(agent, { limit: { tokens: 100 }, window: '1d', estimate: 'worst', warn_at: [0.5] });
  for (const output of [50, 10]) await post(agent, completion(0, output));
  for (const _ of [1, 2]) await post(agent, prompt({ token_count: 0, max_tokens: 90 }));
  const { json } = await api.until(
    () => api.get(`/v1/deliveries?agent_id=${agent}`),
    ({ json: { items } }) => items.length >= 2,
  );
  t.same(json.items.map(({ trigger }: { trigger: string }) => trigger).sort(), ['budget_exhausted', 'budget_warning']);
});

t.test('what Redis has lost is read from the stored events again, to the unit', async (t) => {
  const agent = await agentOf();
  const conditions = { limit: { tokens: 1_000 }, window: '1h', estimate: 'worst', 'payload.kind': 'chat' };
  const id = await budget(agent, conditions, { kind: 'chat' });
  await post(agent, completion(100, 200, { kind: 'chat' }));
  await post(agent, completion(40, 2, { kind: 'chat' }));
  await post(agent, completion(5, 5, { kind: 'other' }));
  await spent(id, 342);
  let lost = 0;
  await ofEachMaster((await service.addresses()).redisUrl, async (redis) => {
    for (const key of await redis.keys(`*budget:${id}:*`)) lost += await redis.del(key);
  });
  t.ok(lost > 0);
  const first = await post(agent, prompt({ token_count: 1, max_tokens: 1, kind: 'chat' }));
  t.match(first.json.policy_result, { outcome: 'blocked', matches: [{ detail: { unknown: 'state_unknown' } }] });
  await known(agent, id, { kind: 'chat' });
  t.match(await stateOf(id, true), { spent: 342, stored: 342, drift: 0 });
  const checked = await runCli(['budgets', 'check'], { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: service.key });
  t.match(checked, { code: 0, stdout: /0 of them differ/ });
});

t.test('what cannot be known counts as over, unless it is allowed; a budget that only logs counts', async (t) => {
  const [strict, lax, watched] = [await agentOf(), await agentOf(), await agentOf()];
  await budget(strict, { limit: '1 USD', window: '1h', estimate: 'worst' });
  t.match((await post(strict, { type: 'prompt', payload: { model: 'free', max_tokens: 1 } })).json.policy_result, {
    outcome: 'blocked',
    matches: [{ detail: { unknown: 'unpriced' } }],
  });
  await budget(lax, { limit: '1 USD', window: '1h', unpriced: 'allow' });
  t.match((await post(lax, { type: 'prompt', payload: { model: 'free' } })).json.policy_result, { outcome: 'allowed' });
  const tokens = await budget(lax, { limit: { tokens: 5_000 }, window: '1h', estimate: 'worst' });
  t.match((await post(lax, { type: 'prompt', payload: { model: 'free' } })).json.policy_result, {
    outcome: 'blocked',
    matches: [{ policy_id: tokens, detail: { unknown: 'no_ceiling' } }],
  });
  const log = await budget(watched, { limit: { events: 1 }, window: 'month' }, {}, ['log']);
  await post(watched, prompt({}));
  const over = (await post(watched, prompt({}))).json.policy_result;
  t.match(over, { outcome: 'allowed', matches: [{ policy_id: log }], budgets: [{ reserved: 1, left: -1 }] });
});

t.test('what is wrong with a budget is said with its place', async (t) => {
  const refused = async (conditions: object, path: string, message: RegExp) => {
    const body = { name: `bad ${++names}`, type: 'budget', actions: ['block'], conditions };
    const { status, json } = await api.post('/v1/policies', body);
    t.equal(status, 400, path);
    t.match(json.error.details, [{ path, message }]);
  };
  const good = { limit: '1 USD', window: '1h' };
  await refused({ ...good, limit: '0 USD' }, '/conditions/limit', /more than 0/);
  await refused({ ...good, limit: '1 XYZ' }, '/conditions/limit', /ISO 4217/);
  await refused({ ...good, limit: { tokens: 0 } }, '/conditions/limit/tokens', /from 1/);
  await refused({ ...good, limit: 5 }, '/conditions/limit', /must be an amount/);
  await refused({ window: '1h' }, '/conditions/limit', /is required/);
  await refused({ limit: '1 USD' }, '/conditions/window', /is required/);
  await refused({ ...good, window: '31d' }, '/conditions/window', /30 days/);
  await refused({ ...good, window: 'day', zone: 'Mars/Base' }, '/conditions/zone', /IANA/);
  await refused({ ...good, zone: 'UTC' }, '/conditions/zone', /no time zone/);
  await refused({ ...good, hold: '5s' }, '/conditions/hold', /10 seconds/);
  await refused({ ...good, warn_at: [1.5] }, '/conditions/warn_at', /between 0 and 1/);
  await refused({ ...good, estimate: 'best' }, '/conditions/estimate', /expected, worst/);
  await refused({ ...good, per: '..' }, '/conditions/per', /./);
  await refused({ ...good, type: 'tool_call' }, '/conditions/type', /prompt/);
});

t.test('a preview says which of the newest prompts would not have fitted', async (t) => {
  const agent = await agentOf();
  const sent: string[] = [];
  for (const output of [100, 100, 100]) {
    const asked = (await post(agent, prompt({ token_count: 1_000, max_tokens: 500 }))).json;
    sent.push(asked.id);
    await post(agent, completion(1_000, output, { for: asked.id }));
  }
  const preview = async (limit: string | object) => {
    const conditions = { limit, window: '1h', estimate: 'worst' };
    const draft = { name: 'draft', type: 'budget', agent_id: agent, actions: ['block'], conditions };
    const { json } = await api.until(
      () => api.post('/v1/policies/preview', draft),
      (answer) => answer.json.complete === true,
    );
    const first = json.first.map(({ id }: { id: string }) => sent.indexOf(id));
    return [json.events, json.matched, first, json.approximate];
  };
  // Each reserves 1,000 + 5,000 millionths, and uses 2,000.
  t.same(await preview('0.01 USD'), [6, 0, [], false], '4,000 are spent, 6,000 are left');
  t.same(await preview('0.009999 USD'), [6, 1, [2], false]);
  t.same(await preview({ events: 1 }), [6, 2, [2, 1], false]);
});
