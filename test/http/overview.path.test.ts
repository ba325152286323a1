// The overview against the whole service: every figure is counted here by hand, from events whose times are chosen, and
// the windows before are those of a zone's clock. Every answer is held against the service's own description.
import t from 'tap';
import { beginningOfDay, daysBefore } from '../../clickhouse/queries/clock-windows.ts';
import { OVERVIEW_AGENTS_MAX, OVERVIEW_VALUES_MAX } from '../../src/common/limits.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { type Answer, Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

const BERLIN = 'Europe/Berlin';
const iso = (at: number) => new Date(at).toISOString();
const newAgent = async (name: string, of = api) => (await of.post('/v1/agents', { name })).json.id as string;
const send = (agent: string, events: object[], of = api) => of.post(`/v1/agents/${agent}/events/batch`, events);
const at = (time: string, type = 'prompt', payload: object = {}) => ({ type, timestamp: time, payload });
const overview = async (query: string, of = api) => (await of.get(`/v1/overview?${query}`)).json;

t.test('a day begins, and is found again, by the clock of the zone', async (t) => {
  const day = (zone: string, time: string) => iso(beginningOfDay(zone, Date.parse(time)));
  t.equal(day('UTC', '2026-03-29T12:00:00Z'), '2026-03-29T00:00:00.000Z');
  t.equal(day(BERLIN, '2026-03-29T12:00:00Z'), '2026-03-28T23:00:00.000Z', 'set forward on that day');
  t.equal(day(BERLIN, '2026-10-25T22:59:59Z'), '2026-10-24T22:00:00.000Z', 'set back on that day');
  t.equal(day('Asia/Kathmandu', '2026-05-01T18:15:00Z'), '2026-05-01T18:15:00.000Z', 'a quarter of an hour off');
  const before = (time: string, days: number) => iso(daysBefore(BERLIN, Date.parse(time), days));
  t.equal(before('2026-03-29T10:00:00Z', 1), '2026-03-28T11:00:00.000Z', '12:00 by both clocks, 23 hours');
  t.equal(before('2026-10-25T11:00:00Z', 1), '2026-10-24T10:00:00.000Z', '12:00 by both clocks, 25 hours');
  t.equal(before('2026-03-30T00:30:00Z', 1), '2026-03-29T01:00:00.000Z', '2:30 is left out: when it was set');
  t.equal(before('2026-10-26T01:30:00Z', 1), '2026-10-25T00:30:00.000Z', '2:30 comes twice: the first');
  // There midnight was left out: the day began at one.
  t.equal(iso(beginningOfDay('America/Sao_Paulo', Date.parse('2018-11-04T12:00:00Z'))), '2018-11-04T03:00:00.000Z');
});

t.test('figures, tokens, agents and policies as counted by hand', async (t) => {
  const [first, second, silent] = [await newAgent('first'), await newAgent('second'), await newAgent('silent')];
  const rule = { type: 'block_action', actions: ['block', 'alert'], severity: 'high' };
  const paying = (await api.post('/v1/policies', { name: 'no paying', ...rule, conditions: { tool: 'pay' } })).json.id;
  const idle = (await api.post('/v1/policies', { name: 'no shell', ...rule, conditions: { tool: 'bash' } })).json.id;
  await api.post('/v1/policies', { name: 'off', ...rule, conditions: { tool: 'x' }, status: 'inactive' });
  await api.submitUntil('blocked', silent, at('2020-01-01T00:00:00Z', 'tool_call', { tool: 'pay' }));
  // Sunday, on which the clock of Berlin was set forward: by it the window is 00:00 to 12:00, of 11 hours.
  await send(first, [
    at('2026-03-28T22:59:59.999Z'), // Saturday there
    at('2026-03-28T23:00:00.000Z', 'completion', { model: 'm1', tokens_used: 100 }),
    at('2026-03-29T09:00:00Z', 'completion', { model: 'm2', tokens_used: 7 }),
    at('2026-03-29T09:30:00Z', 'completion', { tokens_used: 5 }),
    at('2026-03-29T10:00:00.000Z', 'error', { message: 'x' }),
    at('2026-03-29T10:00:00.001Z', 'error', { message: 'x' }), // after it
  ]);
  const sign = await api.until(
    () => api.get(`/v1/agents/${first}`), // signs of life follow their events a little later
    ({ json }) => json.last_seen_at !== null,
  );
  t.ok(sign.json.last_seen_at);
  await send(second, [
    at('2026-03-29T01:00:00Z', 'tool_call', { tool: 'pay' }),
    at('2026-03-29T02:00:00Z', 'completion', { model: 'm1', tokens_used: 50 }),
    // The day before, 00:00 to 12:00 there, and just beyond either end.
    at('2026-03-27T22:59:59.999Z'),
    at('2026-03-27T23:00:00Z', 'completion', { tokens_used: 11 }),
    at('2026-03-28T11:00:00Z', 'tool_call', { tool: 'pay' }),
    at('2026-03-28T11:00:00.001Z'),
    // A week before, when the clock was an hour behind, too.
    at('2026-03-21T23:00:00Z', 'error'),
    at('2026-03-22T11:00:00Z', 'completion', { tokens_used: 3 }),
    at('2026-03-22T11:00:00.001Z', 'error'),
  ]);
  const query = `zone=${BERLIN}&to=2026-03-29T10:00:00Z`;
  const found = await overview(query);
  t.same(
    [found.window, found.day_before, found.week_before],
    [
      { from: '2026-03-28T23:00:00.000Z', to: '2026-03-29T10:00:00.000Z' },
      { from: '2026-03-27T23:00:00.000Z', to: '2026-03-28T11:00:00.000Z' },
      { from: '2026-03-21T23:00:00.000Z', to: '2026-03-22T11:00:00.000Z' },
    ],
  );
  t.same(found.figures, {
    events: { now: 6, day_before: 2, week_before: 2 },
    blocked: { now: 1, day_before: 1, week_before: 0 },
    errors: { now: 1, day_before: 0, week_before: 1 },
  });
  t.same(found.tokens, {
    total: { now: 162, day_before: 11, week_before: 3 },
    model: {
      values: [
        { value: 'm1', tokens: 150 },
        { value: 'm2', tokens: 7 },
        { value: '', tokens: 5 },
      ],
      other: 0,
    },
    agent_id: {
      values: [
        { value: first, name: 'first', tokens: 112 },
        { value: second, name: 'second', tokens: 50 },
      ],
      other: 0,
    },
  });
  t.equal(found.agents.total, 3);
  const rows = new Map<string, { parts: number[] }>(
    found.agents.items.map((one: { id: string; parts: number[] }) => [one.id, one]),
  );
  t.match(rows.get(first), { name: 'first', status: 'active', events: 4, blocked: 0, errors: 1 });
  t.match(rows.get(second), { name: 'second', events: 2, blocked: 1, errors: 0 });
  t.match(rows.get(silent), { name: 'silent', events: 0, blocked: 0 });
  t.same(found.agents.items[0].id, second, 'of as many troubles the newest sign of life first');
  // 24 parts of 27.5 minutes: 0 is 23:00, 02:00 is in the seventh, 10:00 ends the last.
  const parts = Array.from({ length: 24 }, () => 0);
  for (const hour of [0, 10, 10.5]) parts[Math.floor((hour * 60) / 27.5)]! += 1;
  parts[23]! += 1;
  t.same(rows.get(first)!.parts, parts);
  t.same(found.policies.matched, [{ id: paying, name: 'no paying', events: 1 }]);
  t.equal(found.policies.in_force, 2, 'not the one that is switched off');
  t.same(found.policies.never_matched, { total: 1, items: [{ id: idle, name: 'no shell' }] });
  t.equal(found.attention.untold_policies, 2, 'they ask for an alert, and there is none');

  const target = { channel: 'email', target: 'team@example.com' };
  await api.post('/v1/alerts', { name: 'violations', trigger: 'policy_violation', ...target });
  t.equal((await overview(query)).attention.untold_policies, 0);

  t.test('each number is that of the list with the same filters', async (t) => {
    const { from, to } = found.window;
    const total = async (more: string) => (await api.get(`/v1/events?from=${from}&to=${to}&limit=1${more}`)).json.total;
    t.equal(await total(''), found.figures.events.now);
    t.equal(await total('&outcome=blocked'), found.figures.blocked.now);
    t.equal(await total('&type=error'), found.figures.errors.now);
    t.equal(await total(`&policy_id=${paying}`), 1);
  });

  t.test('of one agent alone, asked for or bound to it', async (t) => {
    const ofSecond = await overview(`${query}&agent_id=${second}`);
    t.same(ofSecond.figures.events, { now: 2, day_before: 2, week_before: 2 });
    t.equal(ofSecond.tokens.total.now, 50);
    t.same(
      ofSecond.agents.items.map(({ id }: { id: string }) => id),
      [second],
    );
    const scoped = { name: 'of second', ...rule, conditions: { tool: 'y' }, agent_id: second };
    const own = (await api.post('/v1/policies', scoped)).json.id;
    t.equal((await overview(`${query}&agent_id=${second}`)).policies.in_force, 3, 'its own and those of all');
    t.equal((await overview(`${query}&agent_id=${first}`)).policies.in_force, 2);
    const { key } = (await api.post('/v1/api-keys', { label: 'b', scope: 'read', agent_id: second })).json;
    const bound = api.as(key);
    const seen = await overview(query, bound);
    t.same(seen.figures, ofSecond.figures);
    t.same(
      seen.agents.items.map(({ id }: { id: string }) => id),
      [second],
    );
    t.equal(seen.agents.total, 1);
    t.same(seen.policies.never_matched, { total: 1, items: [{ id: own, name: 'of second' }] });
    t.equal((await bound.get(`/v1/overview?agent_id=${first}`)).status, 404);
    t.notMatch(JSON.stringify(seen), first);
    await api.delete(`/v1/policies/${own}`);
  });

  t.test('another account sees none of it', async (t) => {
    const other = api.as(await keyOfNewAccount(service, `other ${Math.random()}`));
    const none = await overview(query, other);
    t.same(none.figures.events, { now: 0, day_before: 0, week_before: 0 });
    t.same([none.agents, none.policies.in_force], [{ total: 0, items: [] }, 0]);
  });
});

t.test('what was decided counts as it was decided, and what waits is told with its time', async (t) => {
  const agent = await newAgent('asks');
  const holds = { type: 'require_approval', agent_id: agent, conditions: { tool: 'ask' }, actions: ['block'] };
  await api.post('/v1/policies', { name: 'ask first', ...holds });
  const ask = () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'ask' } });
  const held = ({ json }: Answer) => json.policy_result.outcome === 'pending';
  const { json: one } = await api.until(ask, held);
  const { json: two } = await api.until(ask, held);
  const of = `agent_id=${agent}`;
  const before = await overview(of);
  t.match(before.approvals, { pending: 2, oldest: { id: one.policy_result.approval_id, agent_id: agent } });
  t.ok(Date.parse(before.approvals.oldest.expires_at) > Date.parse(before.approvals.oldest.created_at));
  const blocked = before.figures.blocked.now;
  await api.post(`/v1/approvals/${one.policy_result.approval_id}`, { decision: 'deny' });
  const after = await overview(of);
  t.match(after.approvals, { pending: 1, oldest: { id: two.policy_result.approval_id } });
  t.equal(after.figures.blocked.now, blocked + 1);
  t.equal(after.agents.items[0].blocked, blocked + 1);
});

t.test('of many agents and models those that say most are named, and the rest is counted', async (t) => {
  const own = api.as(await keyOfNewAccount(service, `many ${Math.random()}`));
  const agents: string[] = [];
  for (let i = 0; i < OVERVIEW_AGENTS_MAX + 5; i++) agents.push(await newAgent(`agent ${i}`, own));
  const sending = agents[0]!; // the one that was registered first
  const models = Array.from({ length: OVERVIEW_VALUES_MAX + 3 }, (_, i) => i + 1);
  await send(
    sending,
    models.map((n) => at('2026-05-01T10:00:00Z', 'completion', { model: `m${n}`, tokens_used: n })),
    own,
  );
  const whole = await overview('to=2026-05-01T12:00:00Z', own);
  t.equal(whole.agents.total, agents.length);
  t.equal(whole.agents.items.length, OVERVIEW_AGENTS_MAX);
  t.match(whole.agents.items[0], { id: sending, events: models.length });
  // Who failed long before all others sent is first, whatever came since.
  await send(agents[1]!, [at('2026-05-01T01:00:00Z', 'error', { message: 'x' })], own);
  for (const id of agents.slice(2)) await send(id, [at('2026-05-01T11:00:00Z')], own);
  const found = await overview('to=2026-05-01T12:00:00Z', own);
  t.match(found.agents.items[0], { id: agents[1], events: 1, errors: 1 });
  t.equal(found.agents.items.length, OVERVIEW_AGENTS_MAX);
  t.same(
    found.tokens.model.values.map(({ value }: { value: string }) => value),
    ['m8', 'm7', 'm6', 'm5', 'm4'],
  );
  t.equal(found.tokens.model.other, 1 + 2 + 3);
});

t.test('what does not fit is refused, and named', async (t) => {
  for (const [query, path] of [
    ['zone=Europe/Atlantis', 'zone'],
    ['from=yesterday', 'from'],
    ['from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', 'from'],
    ['outcome=blocked', 'outcome'],
  ] as const)
    t.match(await api.get(`/v1/overview?${query}`), { status: 400, json: { error: { details: [{ path }] } } }, query);
});
