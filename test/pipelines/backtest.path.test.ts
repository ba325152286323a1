// Backtests against the whole service: what may be asked for, by whom; one at a time; that a policy in force over the
// same time is found to change nothing, rate limits included; and that nothing is left of what is deleted.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Backtest, BacktestResult } from '../../schemas/backtest.ts';
import type { Policy } from '../../schemas/policy.ts';
import { JUDGED_BEFORE_MS } from '../../src/common/limits.ts';
import { recordedEvents } from '../policy/support.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { ofEachMaster } from '../support/redis.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { startService } from '../support/service.ts';

t.setTimeout(900_000);
const service = await startService(t, { env: { GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);
const random = randomFrom(SEED);
const any = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
let names = 0;
const newAgent = async (by = api) => (await by.post('/v1/agents', { name: `agent-${++names}` })).json.id as string;
const newPolicy = async (more: object, by = api) =>
  (await by.post('/v1/policies', { name: `policy-${++names}`, actions: ['block'], ...more })).json as Policy;
const BEGIN = '2026-01-01T00:00:00Z';

async function finished(id: string, by = api): Promise<Backtest> {
  for (;;) {
    const backtest = (await by.get(`/v1/backtests/${id}`)).json as Backtest;
    if (backtest.finished_at !== null) return backtest;
    await sleep(50);
  }
}

/** To its end. */
async function run(body: object, by = api): Promise<Backtest & { result: BacktestResult }> {
  const made = await by.post('/v1/backtests', { from: BEGIN, ...body });
  t.equal(made.status, 202, made.text);
  t.match(made.json, { status: 'waiting', result: null, progress: { events: 0, of: null, until: null } });
  const backtest = await finished(made.json.id, by);
  t.equal(backtest.status, 'done', JSON.stringify(backtest.error));
  return backtest as Backtest & { result: BacktestResult };
}

async function submit(agent: string, events: readonly object[], by = api) {
  const results: { id: string; policy_result: { outcome: string; matches: { policy_id: string }[] } }[] = [];
  for (let i = 0; i < events.length; i += 100)
    results.push(
      ...(await by.post(`/v1/agents/${agent}/events/batch`, { events: events.slice(i, i + 100) })).json.results,
    );
  return results;
}

/** After this it is beyond doubt that a new policy is in force. */
const IN_FORCE_MS = JUDGED_BEFORE_MS + 1_000;
const DRAFT = { type: 'block_action', actions: ['block'], conditions: { tool: 'pay' } };

t.test('what cannot be asked for is said, with its place', async (t) => {
  const { id } = await newPolicy({ type: 'block_action', conditions: { tool: 'x' } });
  const wrong: [object, string, RegExp][] = [
    [{ from: BEGIN }, '/policy', /is needed, or policy_id/],
    [{ policy: DRAFT, from: '2026-03-01T00:00:00Z', to: '2026-02-01T00:00:00Z' }, '/from', /not be after/],
    [{ policy: DRAFT, from: '2999-01-01T00:00:00Z' }, '/from', /future/],
    [{ policy: DRAFT, from: '2020-01-01T00:00:00Z' }, '/from', /at most 366 days/],
    [{ policy: DRAFT }, '/from', /./],
    [{ policy: DRAFT, from: 'yesterday' }, '/from', /./],
    [{ policy: DRAFT, from: BEGIN, until: BEGIN }, '/until', /./],
    [{ policy: DRAFT, revision: 2, from: BEGIN }, '/revision', /needs policy_id/],
    [{ policy: DRAFT, policy_id: id, revision: 1, from: BEGIN }, '/revision', /does not go with policy/],
    [{ policy: { ...DRAFT, conditions: { 'a[0]': 1 } }, from: BEGIN }, '/policy/conditions/a[0]', /./],
    [
      { policy: { ...DRAFT, type: 'data_filter', conditions: { patterns: ['('] } }, from: BEGIN },
      '/policy/conditions/patterns/0',
      /./,
    ],
  ];
  for (const [body, path, message] of wrong) {
    const { status, json } = await api.post('/v1/backtests', body);
    t.equal(status, 400, path);
    t.equal(json.error.code, 'validation_failed');
    t.ok(
      json.error.details.some(
        (detail: { path: string; message: string }) => detail.path === path && message.test(detail.message),
      ),
      JSON.stringify(json),
    );
  }
  const other = api.as(await keyOfNewAccount(service, 'other'));
  const theirs = await newPolicy({ type: 'block_action', conditions: { tool: 'x' } }, other);
  const unknown: object[] = [
    { policy_id: theirs.id },
    { policy_id: theirs.id, revision: 1 },
    { policy: DRAFT, policy_id: theirs.id },
    { policy_id: 'pol_01jd3fq5w0c8m2v7x4k9n6t1rz' },
    { policy_id: 'x' },
    { policy_id: id, revision: 9 },
    { policy: DRAFT, agent_id: 'agt_01jd3fq5w0c8m2v7x4k9n6t1rz' },
    { policy: DRAFT, agent_id: await newAgent(other) },
  ];
  for (const body of unknown)
    t.equal((await api.post('/v1/backtests', { from: BEGIN, ...body })).status, 404, JSON.stringify(body));
  t.equal((await api.get('/v1/backtests')).json.total, 0, 'nothing was made');
});

t.test('keys: configure to make and delete, read to look; one bound to an agent within it', async (t) => {
  const [mine, others] = [await newAgent(), await newAgent()];
  const keyWith = async (more: object) =>
    api.as((await api.post('/v1/api-keys', { label: 'k', scope: 'write', ...more })).json.key as string);
  const reader = await keyWith({ permissions: ['read'] });
  const sender = await keyWith({ permissions: ['submit'] });
  const bound = await keyWith({ agent_id: mine, permissions: ['read', 'configure'] });
  t.equal((await reader.post('/v1/backtests', { policy: DRAFT, from: BEGIN })).status, 403);
  t.equal((await sender.get('/v1/backtests')).status, 403);
  const ofAll = await run({ policy: DRAFT });
  const ofMine = await run({ policy: DRAFT, agent_id: mine });
  t.equal((await reader.get(`/v1/backtests/${ofAll.id}`)).status, 200);
  t.equal((await reader.delete(`/v1/backtests/${ofAll.id}`)).status, 403);

  t.equal((await bound.get(`/v1/backtests/${ofAll.id}`)).status, 404);
  t.equal((await bound.delete(`/v1/backtests/${ofAll.id}`)).status, 404);
  t.equal((await bound.get(`/v1/backtests/${ofMine.id}`)).status, 200);
  t.same(
    (await bound.get('/v1/backtests')).json.items.map(({ id }: Backtest) => id),
    [ofMine.id],
  );
  for (const body of [{ policy: DRAFT }, { policy: DRAFT, agent_id: others }])
    t.equal((await bound.post('/v1/backtests', { from: BEGIN, ...body })).json.error.details[0].path, '/agent_id');
  const global = await newPolicy({ type: 'block_action', conditions: { tool: 'x' } });
  t.equal((await bound.post('/v1/backtests', { from: BEGIN, policy_id: global.id, agent_id: mine })).status, 404);
  const own = await run({ policy: DRAFT, agent_id: mine }, bound);
  t.equal((await bound.delete(`/v1/backtests/${own.id}`)).status, 204);

  const other = api.as(await keyOfNewAccount(service, 'tenant'));
  t.equal((await other.get(`/v1/backtests/${ofAll.id}`)).status, 404);
  t.equal((await other.delete(`/v1/backtests/${ofAll.id}`)).status, 404);
  t.equal((await other.get('/v1/backtests')).json.total, 0);
  for (const id of ['x', 'bkt_01jd3fq5w0c8m2v7x4k9n6t1rz']) t.equal((await api.get(`/v1/backtests/${id}`)).status, 404);
  for (const { id } of [ofAll, ofMine]) t.equal((await api.delete(`/v1/backtests/${id}`)).status, 204);
  const actions = (await api.get('/v1/audit-logs?limit=500')).json.logs.filter(
    (log: { resource_type: string }) => log.resource_type === 'backtest',
  );
  t.equal(actions.length, 6, 'three made, three deleted, in the audit log');
});

t.test('what comes of it, by day, agent, tool and trace, with samples', async (t) => {
  const [first, second] = [await newAgent(), await newAgent()];
  const asks = await newPolicy({ type: 'require_approval', conditions: { tool: 'ask' } });
  await sleep(1_100);
  const from = new Date().toISOString();
  const of = (tool: string, trace: string | undefined, amount: number) => ({
    type: 'tool_call',
    payload: { tool, arguments: { amount } },
    ...(trace === undefined ? {} : { trace_id: trace }),
  });
  await submit(first, [of('pay', 't1', 5), of('pay', 't1', 5_000), of('look', 't1', 0), of('ask', 't1', 9_000)]);
  await submit(second, [of('pay', undefined, 7_000), of('look', 't1', 1), of('look', 't2', 1)]);
  const conditions = { 'payload.arguments.amount': { gt: 1_000 } };
  const { result, progress } = await run({ from, policy: { ...DRAFT, conditions } });
  t.same(progress, { events: 7, of: 7, until: progress.until });
  t.same(result.outcomes, [
    { was: 'allowed', now: 'allowed', events: 4 },
    { was: 'allowed', now: 'blocked', events: 2 },
    { was: 'pending', now: 'blocked', events: 1 },
  ]);
  t.match(result, {
    events: 7,
    matched: 3,
    changed: 3,
    behind_first_block: 3,
    unknown: [],
    kept_from: null,
    is_complete: true,
  });
  t.same(
    result.by_day.map(({ outcomes }) => outcomes),
    [result.outcomes],
  );
  t.same(
    result.by_agent.map(({ agent_id }) => agent_id),
    [first, second],
  );
  t.same(
    result.by_tool.map(({ tool }) => tool),
    ['pay', 'ask', 'look'],
    'what changed most comes first',
  );
  t.same(
    result.samples.map(({ tool, was, now, matched, behind_block }) => [tool, was, now, matched, behind_block]),
    [
      ['pay', 'allowed', 'blocked', true, false],
      ['ask', 'pending', 'blocked', true, true],
      ['pay', 'allowed', 'blocked', true, false],
    ],
  );
  t.match(result.samples[0], { agent_id: first, type: 'tool_call', was_policy_id: null, detail: { operator: 'gt' } });
  t.equal(result.samples[1]!.was_policy_id, asks.id);

  const without = await run({ from, policy: { ...DRAFT, conditions: { tool: 'never' } }, policy_id: asks.id });
  t.match(without, { policy_id: asks.id, revision: null });
  t.same(
    without.result.samples.map(({ was, now, unmet }) => [was, now, unmet]),
    [['pending', 'allowed', [{ condition: 'tool', operator: 'eq' }]]],
    'in its place, and why it does not match',
  );
  const alerts = await run({
    from,
    agent_id: second,
    policy: { ...DRAFT, actions: ['alert'], conditions: { tool: 'look' } },
  });
  t.match(alerts.result, { events: 3, matched: 2, changed: 0 });
  t.equal(alerts.result.samples.length, 2, 'what is notified of, without another outcome');
  await api.patch(`/v1/policies/${asks.id}`, { status: 'inactive' });
  const earlier = await run({ from, policy_id: asks.id, revision: 1 });
  t.match(earlier, { revision: 1, policy: { name: asks.name } });
  t.equal(earlier.result.changed, 0, 'as it was in force');
});

const TYPES: object[] = [
  { type: 'block_action', conditions: { tool: ['pay', 'rm'] } },
  { type: 'block_action', conditions: { 'payload.arguments.amount': { gt: 50 } }, actions: ['alert'] },
  { type: 'block_action', conditions: { note: { contains: 'Ünïcode' } } },
  { type: 'block_action', conditions: { note: { matches: '(?i)ignore (all )?previous' } } },
  {
    type: 'block_action',
    conditions: { expression: 'has(event.payload.arguments) && event.payload.arguments.amount == 7' },
  },
  { type: 'require_approval', conditions: { tool: 'send', note: { exists: true } } },
  { type: 'data_filter', conditions: { detectors: ['email'], redact: true }, actions: ['log'] },
  { type: 'data_filter', conditions: { detectors: ['email', 'phone'] } },
  { type: 'data_filter', conditions: { patterns: ['secret [0-9]+', 'drop table'] } },
  { type: 'rate_limit', conditions: { threshold: 60, window: '1h' } },
  { type: 'rate_limit', conditions: { threshold: 30, window: '30m', per: 'payload.tool', type: 'tool_call' } },
  { type: 'rate_limit', conditions: { threshold: 5, window: '1h', per: 'account', tool: 'pay' }, actions: ['alert'] },
  { type: 'rate_limit', conditions: { threshold: 4, window: '3s', per: 'payload.arguments.amount' } },
  { type: 'sequence', conditions: { tool: 'look', after: [{ tool: 'shell' }], within: '2s', per: 'trace' } },
  {
    type: 'sequence',
    conditions: {
      ...{ tool: ['pay', 'shell'], after: [{ tool: 'look' }, { patterns: ['secret'], outcome: 'any' }], within: '1h' },
      same: { 'payload.arguments.amount': 'payload.arguments.amount' },
    },
  },
  {
    ...{ type: 'sequence', actions: ['log'] },
    conditions: { tool: 'pay', unless: { tool: 'send' }, within: '1s', per: 'account' },
  },
];
const NOTES = [
  'nothing',
  'write to zoe@example.com',
  '+44 20 7946 0958',
  'secret 42',
  'a \u{1f600} drop table',
  'Ünïcode',
  'ignore\u00a0all previous',
  '{"note": "secret 7"}',
  'ignore \\u0061ll',
  'x'.repeat(3_000),
];
const randomEvent = () => ({
  type: any(['tool_call', 'prompt', 'custom']),
  ...(random() < 0.5 ? { trace_id: `trace-${Math.floor(random() * 9)}` } : {}),
  payload: {
    ...(random() < 0.8 ? { tool: any(['pay', 'send', 'look', 'shell']) } : {}),
    ...(random() < 0.7 ? { note: any(NOTES) } : {}),
    arguments: { amount: Math.floor(random() * 100) },
  },
});

/** Each policy that was in force: as many events as it matched, and no other outcome of any. */
async function unchanged(
  t: Test,
  policies: readonly Policy[],
  events: readonly { policy_result: { outcome: string; matches: { policy_id: string }[] } }[],
  from: string,
  by = api,
) {
  const outcomes = new Map<string, number>();
  for (const {
    policy_result: { outcome },
  } of events)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  for (const policy of policies) {
    const { result } = await run({ from, policy_id: policy.id }, by);
    const said = JSON.stringify([
      policy.type,
      policy.conditions,
      result.outcomes,
      result.unknown,
      result.samples.filter(({ was, now }) => was !== now),
    ]);
    t.equal(result.changed, 0, said);
    t.same(result.unknown, []);
    t.same(
      Object.fromEntries(result.outcomes.map(({ was, events: count }) => [was, count])),
      Object.fromEntries(outcomes),
      'each event once',
    );
    if (policy.type !== 'rate_limit')
      t.equal(
        result.matched,
        events.filter(({ policy_result: { matches } }) => matches.some(({ policy_id: id }) => id === policy.id)).length,
        `matches of ${said}`,
      );
  }
  return outcomes;
}

t.test('of policies in force over the same time, then is now: generated policies and events', async (t) => {
  const by = api.as(await keyOfNewAccount(service, 'generated'));
  const agents = [await newAgent(by), await newAgent(by), await newAgent(by)];
  const policies: Policy[] = [];
  for (const text of TYPES) policies.push(await newPolicy(text, by));
  await sleep(IN_FORCE_MS);
  const from = new Date().toISOString();
  const events: Awaited<ReturnType<typeof submit>> = [];
  for (let round = 0; round < 40; round++) {
    events.push(...(await submit(any(agents), Array.from({ length: 1 + Math.floor(random() * 20) }, randomEvent), by)));
    if (round % 10 === 9) await sleep(1_500);
  }
  const outcomes = await unchanged(t, policies, events, from, by);
  t.ok(
    ['allowed', 'blocked', 'pending'].every((outcome) => (outcomes.get(outcome) ?? 0) > 5),
    JSON.stringify([...outcomes]),
  );
});

t.test('of budgets: what was blocked then is now, and a larger limit blocks less', async (t) => {
  const by = api.as(await keyOfNewAccount(service, 'spends'));
  const agent = await newAgent(by);
  const model = 'm-1';
  await by.post('/v1/prices', { prices: [{ model, input: '1 USD', output: '10 USD', max_output: 1_000 }] });
  const budget = (conditions: object, actions = ['block']) => newPolicy({ type: 'budget', conditions, actions }, by);
  const policies = [
    await budget({ limit: '0.30 USD', window: '1h', estimate: 'worst' }),
    await budget({ limit: { tokens: 40_000 }, window: 'day', zone: 'Asia/Kolkata', 'payload.team': 'red' }),
    await budget({ limit: { events: 15 }, window: '1d', per: 'trace' }),
    await budget({ limit: { events: 20 }, window: '1h', per: 'payload.team' }, ['log']),
  ];
  await by.until(
    () => by.get('/v1/budgets?check=true'),
    ({ json }) => json.items.every(({ known }: { known: boolean }) => known),
  );
  await sleep(5_000);
  const from = new Date().toISOString();
  const events: Awaited<ReturnType<typeof submit>> = [];
  const send = async (event: object) => {
    const [one] = await submit(agent, [{ trace_id: any(['t1', 't2', 't3']), ...event }], by);
    events.push(one!);
    return one!;
  };
  const number = (most: number) => 1 + Math.floor(random() * most);
  for (let i = 0; i < 120; i++) {
    const trace_id = any(['t1', 't2', 't3']);
    const asked = { model, token_count: number(500), max_tokens: number(900), team: any(['red', 'blue']) };
    const prompt = await send({ type: 'prompt', trace_id, payload: asked });
    // What nothing was reserved for is charged once it is stored, so the next prompt would race with it.
    if (prompt.policy_result.outcome === 'blocked') continue;
    const named = random() < 0.5 ? { for: prompt.id } : {};
    const usage = { prompt_tokens: asked.token_count, completion_tokens: number(asked.max_tokens) };
    const kind = random();
    if (kind < 0.7) await send({ type: 'completion', trace_id, payload: { model, usage, team: 'red', ...named } });
    else if (kind < 0.8) await send({ type: 'error', trace_id, payload: { model, ...named } });
    if (kind < 0.1 && 'for' in named) await send({ type: 'completion', trace_id, payload: { model, usage, ...named } });
  }
  const outcomes = await unchanged(t, policies, events, from, by);
  t.ok(
    ['allowed', 'blocked'].every((outcome) => (outcomes.get(outcome) ?? 0) > 10),
    JSON.stringify([...outcomes]),
  );
  const conditions = { limit: { events: 30 }, window: '1d', per: 'trace' };
  const [was, larger] = [
    await run({ from, policy_id: policies[2]!.id }, by),
    await run({ from, policy_id: policies[2]!.id, policy: { type: 'budget', actions: ['block'], conditions } }, by),
  ];
  t.ok(was.result.matched > larger.result.matched, `${was.result.matched} ${larger.result.matched}`);
});

t.test('the daily check of budgets finds a counter that differs from what is stored', async (t) => {
  const by = api.as(await keyOfNewAccount(service, 'drifts'));
  const agent = await newAgent(by);
  const conditions = { limit: { events: 100 }, window: '1d' };
  const { id } = await newPolicy({ type: 'budget', conditions }, by);
  const state = () => by.get(`/v1/budgets?policy_id=${id}&check=true`);
  await by.until(state, ({ json }) => json.items.every(({ known }: { known: boolean }) => known));
  await submit(agent, [{ type: 'completion', payload: { model: 'm-1' } }], by);
  await by.until(state, ({ json }) => json.items[0]?.spent === 1 && json.items[0].drift === 0);
  const { redisUrl } = await service.addresses();
  const drifting = async (wanted: number) => {
    await ofEachMaster(redisUrl, async (redis) => {
      const done = await redis.keys('*:budget-check');
      if (done.length > 0) await redis.del(...done);
    });
    const shown = new RegExp(`gatehouse_budgets_drifting\\{[^}]*\\} ${wanted}\\n`);
    const { text } = await by.until(
      () => by.get('/metrics'),
      (answer) => shown.test(answer.text),
    );
    t.match(text, shown);
  };
  await drifting(0);
  await ofEachMaster(redisUrl, async (redis) => {
    for (const key of await redis.keys(`*budget:${id}:*:c:*`)) {
      const part = (await redis.hkeys(key)).find((name) => /^[sf]\d+$/.test(name));
      if (part !== undefined) await redis.hincrby(key, part, 7);
    }
  });
  t.match((await state()).json.items, [{ spent: 8, stored: 1, drift: 7 }]);
  await drifting(1);
});

const recorded = recordedEvents();
t.test('of the real runs as well', { skip: recorded === null && 'no recorded runs here' }, async (t) => {
  const by = api.as(await keyOfNewAccount(service, 'recorded'));
  const agent = await newAgent(by);
  const texts: object[] = [
    {
      type: 'block_action',
      conditions: {
        type: 'tool_call',
        tool: 'get_webpage',
        'payload.arguments.url': { contains: 'true-informations.com' },
      },
    },
    {
      type: 'block_action',
      conditions: {
        type: 'completion',
        'payload.response': { matches: '[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}' },
      },
    },
    { type: 'data_filter', conditions: { patterns: ['<INFORMATION>'] } },
    {
      type: 'data_filter',
      conditions: { detectors: ['email', 'phone', 'credit_card', 'api_key'], redact: true },
      actions: ['log'],
    },
    {
      type: 'require_approval',
      conditions: { type: 'tool_call', tool: ['book_reservation', 'cancel_reservation', 'send_certificate'] },
    },
    { type: 'rate_limit', conditions: { threshold: 8_000, window: '1d' } },
    { type: 'rate_limit', conditions: { threshold: 5, window: '1h', per: 'trace_id', type: 'tool_call' } },
  ];
  const policies: Policy[] = [];
  for (const text of texts) policies.push(await newPolicy(text, by));
  await sleep(IN_FORCE_MS);
  const from = new Date().toISOString();
  const events: object[] = recorded!.map(({ type, payload, trace_id }) => ({
    type,
    payload,
    ...(trace_id === undefined ? {} : { trace_id }),
  }));
  const submitted = (await submit(agent, events, by)).filter(({ id }) => id !== undefined);
  const outcomes = await unchanged(t, policies, submitted, from, by);
  t.ok((outcomes.get('blocked') ?? 0) > 100 && (outcomes.get('pending') ?? 0) > 5, JSON.stringify([...outcomes]));
});

t.test('one at a time, and a deleted one leaves no key behind', async (t) => {
  const by = api.as(await keyOfNewAccount(service, 'busy'));
  const account = (await by.get('/v1/account')).json.id as string;
  const agent = await newAgent(by);
  await submit(agent, Array.from({ length: 500 }, randomEvent), by);
  const worker = (await service.children()).find(({ name }) => name === 'backtests')!.pid;
  process.kill(worker, 'SIGSTOP');
  try {
    const made = await by.post('/v1/backtests', { policy: DRAFT, from: BEGIN });
    t.equal(made.status, 202);
    const second = await by.post('/v1/backtests', { policy: DRAFT, from: BEGIN });
    t.equal(second.status, 409);
    t.equal(second.json.error.code, 'backtest_running');
    t.match(second.json.error.details[0].message, made.json.id);
    t.equal((await by.delete(`/v1/backtests/${made.json.id}`)).status, 204);
    t.equal((await by.delete(`/v1/backtests/${made.json.id}`)).status, 404);
    const third = await by.post('/v1/backtests', { policy: DRAFT, from: BEGIN });
    t.equal(third.status, 202, 'there is room for another');
    process.kill(worker, 'SIGCONT');
    t.equal((await finished(third.json.id, by)).result?.events, 500);
    t.equal((await by.delete(`/v1/backtests/${third.json.id}`)).status, 204);
  } finally {
    process.kill(worker, 'SIGCONT');
  }
  for (const name of ['a', 'b']) {
    const { id } = await run({ policy: { ...DRAFT, name } }, by);
    t.equal((await by.get('/v1/backtests')).json.items[0].id, id);
    t.notOk('result' in (await by.get('/v1/backtests')).json.items[0], 'listed without its result');
  }
  for (const { id } of (await by.get('/v1/backtests')).json.items) await by.delete(`/v1/backtests/${id}`);
  const { redisUrl } = await service.addresses();
  const members: string[] = [];
  await ofEachMaster(redisUrl, async (redis) => {
    t.same(await redis.keys(`*${account}*backtest*`), [], 'nothing of the account');
    for (const key of await redis.keys('*backtest-*'))
      if ((await redis.type(key)) === 'zset') members.push(...(await redis.zrange(key, '0', '-1')));
  });
  t.same(
    members.filter((member) => member.startsWith(account)),
    [],
  );
});
