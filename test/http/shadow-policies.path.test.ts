// Shadows, against the whole service. Two accounts get the same policies and the same events, by every way that events
// come; one of them has shadows as well. Everything that is answered, stored, raised or notified is the same, but for
// what reads say the shadows would have done. Then the life of a shadow: made, read in events, reported, promoted.
import t from 'tap';
import type { Policy } from '../../schemas/policy.ts';
import type { ShadowReport } from '../../schemas/shadow-report.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

t.setTimeout(600_000);
const service = await sharedService(t);
const api = await Api.described(t, service);

type Side = { api: Api; agents: string[]; policies: Policy[]; shadows: Policy[]; answers: string[]; sent: number };

const ORDERS = [
  { type: 'block_action', actions: ['block', 'alert'], conditions: { tool: 'rm' }, severity: 'high' },
  { type: 'rate_limit', actions: ['block'], conditions: { type: 'tool_call', threshold: 12, window: '1h' } },
  {
    type: 'data_filter',
    actions: ['alert'],
    conditions: { detectors: ['email'], patterns: ['secret-[0-9]+'], redact: true },
  },
  { type: 'require_approval', actions: ['alert'], conditions: { 'payload.amount': { gt: 100 } } },
  { type: 'block_action', actions: ['log'], conditions: { expression: 'event.payload.amount > 50' } },
];
/** Copies that say more, less, and the same; others that would block, redact and ask by themselves. */
const COPIES: object[] = [
  { conditions: { tool: ['rm', 'ls'] } },
  { conditions: { type: 'tool_call', threshold: 5, window: '1h' } },
  { conditions: { detectors: ['email', 'phone'], redact: true }, actions: ['block'] },
  { conditions: { 'payload.amount': { gt: 200 } } },
  { actions: ['block'] },
];
const ALONE = [
  { type: 'block_action', actions: ['block', 'alert'], conditions: {} },
  { type: 'require_approval', actions: ['alert'], conditions: { type: 'prompt' } },
  { type: 'data_filter', actions: ['block'], conditions: { patterns: ['.*'], redact: true } },
  { type: 'rate_limit', actions: ['block', 'alert'], conditions: { threshold: 1, window: '1h', per: 'account' } },
  { type: 'block_action', actions: ['alert'], conditions: { type: 'tool_call' } },
  { type: 'sequence', actions: ['block'], conditions: { tool: 'ls', after: [{ tool: 'cat' }], within: '1h' } },
  { type: 'budget', actions: ['block', 'alert'], conditions: { limit: { events: 2 }, window: '1h', warn_at: [0.5] } },
];

async function side(name: string, isTried: boolean): Promise<Side> {
  const caller = api.as(await keyOfNewAccount(service, name));
  const agents: string[] = [];
  for (const agent of ['one', 'two', 'off'])
    agents.push((await caller.post('/v1/agents', { name: agent, framework: 'custom' })).json.id);
  const policies: Policy[] = [];
  for (const [i, order] of ORDERS.entries())
    policies.push((await caller.post('/v1/policies', { name: `p${i}`, ...order })).json as Policy);
  await caller.post('/v1/alerts', {
    ...{ name: 'a', trigger: 'policy_violation', channel: 'email', target: 'ops@example.com' },
  });
  const shadows: Policy[] = [];
  if (isTried) {
    for (const [i, more] of COPIES.entries()) {
      const copied = { ...ORDERS[i], ...more, name: `s${i}`, mode: 'shadow', shadow_of: policies[i]!.id };
      shadows.push((await caller.post('/v1/policies', copied)).json as Policy);
    }
    for (const [i, order] of ALONE.entries())
      shadows.push((await caller.post('/v1/policies', { ...order, name: `t${i}`, mode: 'shadow' })).json as Policy);
  }
  await caller.patch(`/v1/agents/${agents[2]}`, { status: 'inactive' });
  return { api: caller, agents, policies, shadows, answers: [], sent: 0 };
}

/** Everything that is another one in each account or call, by the order in which it comes. */
function plain({ agents, policies }: Side, text: string): string {
  const known = new Map([...agents, ...policies.map(({ id }) => id)].map((id, i) => [id, `known-${i}`]));
  const places = new Map<string, string>();
  return text
    .replace(/\b(?:evt|apr|agt|pol|log|ano|dlv|alr|acc|key)_[0-9a-z]{26}/g, (id) => {
      if (known.has(id)) return known.get(id)!;
      if (!places.has(id)) places.set(id, `${id.slice(0, 3)}-${places.size}`);
      return places.get(id)!;
    })
    .replace(/"(received_at|created_at|updated_at|expires_at|decided_at)":"[^"]*"/g, '"$1":""')
    .replace(/"retry_after_seconds":\d+/g, '"retry_after_seconds":0');
}

const at = (i: number) => new Date(Date.now() - 3_600_000 + i * 1_000).toISOString().replace(/\.\d+Z$/, '.000Z');
const base = Array.from({ length: 60 }, (_, i) => ({
  type: i % 3 === 0 ? 'prompt' : 'tool_call',
  ...(i % 4 === 0 ? { trace_id: `t-${i % 8}` } : {}),
  timestamp: at(i),
  payload: {
    ...(i % 3 === 0 ? {} : { tool: ['rm', 'ls', 'cat', 'pay'][i % 4] }),
    ...{ amount: i * 5, user: `u${i % 2}` },
    text: ['hello', `write to a${i}@example.com`, `secret-${i} ü`, 'call +1 415 555 2671'][(i >> 1) % 4],
  },
}));

async function send(side: Side, path: string, body: unknown, headers: Record<string, string> = {}): Promise<void> {
  const answer = await side.api.call('POST', path, { body, headers });
  side.answers.push(`${answer.status} ${answer.text}`);
}

async function sendAll(side: Side): Promise<void> {
  const [one, two, off] = side.agents;
  for (const event of base.slice(0, 20)) await send(side, `/v1/agents/${one}/events`, event);
  await send(side, `/v1/agents/${two}/events/batch`, { events: base.slice(20, 40) });
  await send(side, `/v1/agents/${two}/events/batch`, [{ type: 'no' }, ...base.slice(40, 44)]);
  await send(side, `/v1/agents/${off}/events`, base[44]);
  for (let i = 0; i < 2; i++)
    await send(side, `/v1/agents/${one}/events/batch`, { events: base.slice(45, 50) }, { 'Idempotency-Key': 'k-1' });
  // Too large for the loop that answers: read and judged in the judging thread.
  const large = base.slice(50, 56).map((event) => ({
    ...event,
    payload: { ...event.payload, more: 'ÿ é '.repeat(4_000), list: [{ '\u0001': 1 }] },
  }));
  await send(side, `/v1/agents/${two}/events/batch`, { events: large });
  const span = (name: string, attributes: object[]) => ({
    ...{ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', name, kind: 1 },
    ...{ startTimeUnixNano: String(Date.parse(at(57)) * 1e6), endTimeUnixNano: String(Date.parse(at(58)) * 1e6) },
    attributes,
  });
  const value = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const spans = {
    resourceSpans: [
      {
        resource: { attributes: [value('service.name', 'one')] },
        scopeSpans: [
          {
            spans: [
              span('execute_tool rm', [
                value('gen_ai.operation.name', 'execute_tool'),
                value('gen_ai.tool.name', 'rm'),
                value('gen_ai.agent.name', 'one'),
              ]),
            ],
          },
        ],
      },
    ],
  };
  await send(side, '/v1/traces', spans, { 'Content-Type': 'application/json' });
}

type Read = { id: string; policy_result: { outcome: string; shadow?: { policy_id: string; would: string }[] } };

async function allOf(side: Side, path: string): Promise<Record<string, unknown>[]> {
  const { json, status, text } = await side.api.get(`${path}${path.includes('?') ? '&' : '?'}limit=100`);
  if (status !== 200) throw new Error(`${path}: ${text}`);
  t.equal(json.next_cursor, null, path);
  return json.items ?? json.logs;
}

const without = (items: unknown[]) =>
  JSON.stringify(items, (key, value) => (key === 'shadow' ? undefined : (value as unknown)));

const quiet = await side('quiet', false);
const tried = await side('tried', true);
/** But for those by which it was seen that the policies are in force. */
const eventsOf = async (side: Side) =>
  (await allOf(side, '/v1/events?order=asc')).filter(
    ({ payload }) => (payload as { first?: true }).first !== true,
  ) as unknown as Read[];

t.test('what is answered and recorded is the same with shadows and without', async (t) => {
  t.ok(tried.shadows.every(({ mode }) => mode === 'shadow'));
  // In force everywhere: the first event that a new policy blocks.
  for (const { api: caller, agents } of [quiet, tried])
    await caller.until(
      () => caller.post(`/v1/agents/${agents[0]}/events`, { type: 'prompt', payload: { amount: 60, first: true } }),
      ({ json }) => json.policy_result.matches.length === 1,
    );
  for (const one of [quiet, tried]) await sendAll(one);
  t.equal(quiet.answers.length, tried.answers.length);
  for (const [i, answer] of quiet.answers.entries())
    t.equal(plain(tried, tried.answers[i]!), plain(quiet, answer), `answer ${i}`);
  t.ok(tried.answers.every((text) => !text.includes('shadow')));
  const [a, b] = [await eventsOf(quiet), await eventsOf(tried)];
  t.equal(plain(tried, without(b)), plain(quiet, without(a)), 'events as they are kept');
  t.ok(a.every(({ policy_result: result }) => result.shadow === undefined));
  const outcomes = new Set(a.map(({ policy_result: result }) => result.outcome));
  t.same(outcomes, new Set(['allowed', 'blocked', 'pending']));
  const ids = new Set(tried.shadows.map(({ id }) => id));
  const said = b.flatMap(({ policy_result: { shadow = [] } }) => shadow);
  t.ok(said.every(({ policy_id: id }) => ids.has(id)));
  // 'skipped' is what a limit says whose counter was late, as on a busy machine it may be.
  const would = new Set(said.map(({ would }) => would).filter((said) => said !== 'skipped'));
  t.same(would, new Set(['blocked', 'pending', 'matched', 'not_matched']));
  t.same(new Set(said.map(({ policy_id: id }) => id)), ids, 'each shadow said something');
  for (const path of ['/v1/approvals', '/v1/anomalies']) {
    const [c, d] = [await allOf(quiet, path), await allOf(tried, path)];
    t.equal(plain(tried, without(d)), plain(quiet, without(c)), path);
  }
  const logs = async (one: Side) =>
    (await allOf(one, '/v1/audit-logs?submissions=false')).filter(
      ({ resource_type: type }) => type === 'event' || type === 'approval',
    );
  t.equal((await logs(tried)).length, (await logs(quiet)).length);
  const delivered = async (one: Side) => {
    await one.api.until(
      () => one.api.get('/v1/deliveries?limit=100'),
      ({ json }) =>
        json.items.length > 0 && json.items.every(({ status }: { status: string }) => status === 'delivered'),
    );
    return (await allOf(one, '/v1/deliveries')).map(({ count }) => Number(count)).reduce((sum, n) => sum + n, 0);
  };
  t.equal(await delivered(tried), await delivered(quiet));
});

t.test('reads say what each would have done: event, list, trace, export, approval', async (t) => {
  const [widened] = tried.shadows;
  const events = await eventsOf(tried);
  const saysOf = (event: Read) => event.policy_result.shadow?.find(({ policy_id: id }) => id === widened!.id)?.would;
  const byTool = (tool: string) =>
    events.filter((event) => (event as unknown as { payload: { tool?: string } }).payload.tool === tool);
  t.ok(byTool('rm').every((event) => saysOf(event) === 'blocked' || event.policy_result.outcome === 'blocked'));
  t.ok(byTool('ls').some((event) => saysOf(event) === 'blocked'));
  t.ok(byTool('cat').every((event) => saysOf(event) === undefined));
  const one = byTool('ls').find((event) => saysOf(event) === 'blocked') as Read & {
    agent_id: string;
    trace_id?: string;
  };
  const shown = (await tried.api.get(`/v1/agents/${one.agent_id}/events/${one.id}`)).json as Read;
  t.same(shown.policy_result.shadow, one.policy_result.shadow);
  const { json: trace } = await tried.api.get('/v1/traces/t-4');
  t.ok((trace.events as Read[]).some(({ policy_result: result }) => result.shadow !== undefined));
  const exported = (await tried.api.get('/v1/events/export?format=ndjson')).text.trim().split('\n');
  t.ok(exported.some((line) => (JSON.parse(line) as Read).policy_result.shadow !== undefined));
  const { json: approvals } = await tried.api.get('/v1/approvals?expand=event&limit=100');
  t.ok((approvals.items as { event: Read }[]).some(({ event }) => event.policy_result.shadow !== undefined));
  const { json: decided } = await tried.api.patch(`/v1/approvals/${approvals.items[0].id}`, { decision: 'deny' });
  t.ok(decided);
});

t.test('the report is what the events say, and refuses what it cannot answer', async (t) => {
  const events = (await allOf(tried, '/v1/events')) as unknown as Read[];
  for (const [i, shadow] of tried.shadows.entries()) {
    if (shadow.type === 'rate_limit') continue; // its counters have not counted for a window yet
    const { status, json } = await tried.api.get(`/v1/policies/${shadow.id}/shadow-report`);
    t.equal(status, 200);
    const report = json as ShadowReport;
    const verdicts = events.flatMap(({ policy_result: { shadow: said = [] } }) =>
      said.filter(({ policy_id: id }) => id === shadow.id),
    );
    const { same_outcome: _, ...counts } = report.counts;
    t.equal(
      Object.values(counts).reduce((sum, n) => sum + n, 0),
      verdicts.length,
      `s${i}`,
    );
    t.match(report, { policy_id: shadow.id, revision: 1, since_revision: 1, shadow_of: shadow.shadow_of ?? null });
    for (const group of [report.by_day, report.by_agent, report.by_tool])
      t.equal(
        group.reduce((sum, one) => sum + one.newly_blocked + one.same, 0),
        counts.newly_blocked + counts.same,
      );
  }
  const limit = tried.shadows.find(({ type }) => type === 'rate_limit')!;
  const { json: warming } = await tried.api.get(`/v1/policies/${limit.id}/shadow-report`);
  t.equal(warming.from, warming.to, 'a limit of an hour says nothing in its first');
  const path = `/v1/policies/${tried.shadows[0]!.id}/shadow-report`;
  t.equal((await quiet.api.get(path)).status, 404);
  t.equal((await tried.api.get(`/v1/policies/${tried.policies[0]!.id}/shadow-report`)).status, 400);
  t.equal((await tried.api.get(`${path}?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z`)).status, 400);
  t.equal((await tried.api.get(`${path}?from=2026-09-20T00:00:00Z&to=2026-11-19T00:00:00Z`)).status, 400);
});

t.test('a changed shadow begins its report again, a renamed one does not', async (t) => {
  const [shadow] = tried.shadows;
  const path = `/v1/policies/${shadow!.id}`;
  const before = (await tried.api.get(`${path}/shadow-report`)).json as ShadowReport;
  t.ok(before.counts.newly_blocked > 0 && before.counts.same > 0);
  await tried.api.patch(path, { name: 'renamed' });
  t.match((await tried.api.get(`${path}/shadow-report`)).json, {
    ...{ revision: 2, since_revision: 1, counts: before.counts, samples: before.samples },
  });
  await tried.api.patch(path, { conditions: { tool: ['rm', 'cat'] } });
  t.match((await tried.api.get(`${path}/shadow-report`)).json, {
    ...{ revision: 3, since_revision: 3, counts: { newly_blocked: 0, same: 0 }, samples: [] },
  });
  for (const fixed of [{ mode: 'enforce' }, { shadow_of: tried.policies[1]!.id }])
    t.equal((await tried.api.patch(path, fixed)).status, 400);
});

t.test('promoted it is in force, and the shadow is gone', async (t) => {
  const [original] = tried.policies;
  const [shadow] = tried.shadows;
  const path = `/v1/policies/${shadow!.id}/promote`;
  const event = { type: 'tool_call', payload: { tool: 'cat' } };
  const trial = async () =>
    (await tried.api.post('/v1/policies/evaluate', { event: { agent_id: tried.agents[1], ...event } })).json;
  const judged = await trial();
  t.equal(judged.policy_result.outcome, 'allowed');
  t.equal(judged.judged.length, ORDERS.length, 'shadows are not among the policies in force');
  t.match(await tried.api.call('POST', path, { headers: { 'If-Match': '"1"' } }), {
    status: 412,
    json: { error: { code: 'revision_conflict' } },
  });
  t.equal((await quiet.api.call('POST', path)).status, 404);
  const answer = await tried.api.call('POST', path, { headers: { 'If-Match': '"3"' } });
  t.equal(answer.status, 200);
  t.equal(answer.headers.get('etag'), '"2"');
  t.match(answer.json, { id: original!.id, revision: 2, mode: 'enforce', conditions: { tool: ['rm', 'cat'] } });
  t.equal((await tried.api.get(`/v1/policies/${shadow!.id}`)).status, 404);
  const { json: revisions } = await tried.api.get(`/v1/policies/${original!.id}/revisions`);
  t.match(revisions.items[0], { revision: 2, differences: [{ path: '/conditions/tool' }] });
  t.equal((await trial()).policy_result.outcome, 'blocked');
  const restored = await tried.api.call('POST', `/v1/policies/${original!.id}/revisions/1/restore`, {
    headers: { 'If-Match': '"2"' },
  });
  t.match(restored.json, { revision: 3, mode: 'enforce', conditions: { tool: 'rm' } });
});

const lastOf = async (caller: Api, agent: string, body: object) => {
  const { json: sent } = await caller.post(`/v1/agents/${agent}/events`, body);
  const { json } = await caller.get(`/v1/agents/${agent}/events/${sent.id}`);
  return json as Read;
};
const wouldOf = ({ policy_result: { shadow = [] } }: Read, id: string) =>
  shadow.find(({ policy_id: of }) => of === id)?.would;

t.test('a sequence that is tried knows the past, reports, and is in force once it is promoted', async (t) => {
  const caller = api.as(await keyOfNewAccount(service, 'sequences'));
  const agent = (await caller.post('/v1/agents', { name: 'one' })).json.id;
  const call = (tool: string) => ({ type: 'tool_call', payload: { tool } });
  await caller.post(`/v1/agents/${agent}/events`, call('read'));
  const conditions = { tool: 'send', after: [{ tool: 'read' }], within: '1h' };
  const body = { name: 'tried', type: 'sequence', mode: 'shadow', actions: ['block'], conditions };
  const made = await caller.post('/v1/policies', body);
  t.match(made, { status: 201, json: { mode: 'shadow', expires_at: /Z$/ } }, made.text);
  const { id } = made.json;
  const seen = await caller.until(
    () => lastOf(caller, agent, call('send')),
    (event) => wouldOf(event, id) === 'blocked',
  );
  t.equal(seen.policy_result.outcome, 'allowed', 'what was before the shadow is known, and nothing comes of it');
  const idle = (await caller.post('/v1/agents', { name: 'idle' })).json.id;
  t.equal(wouldOf(await lastOf(caller, idle, call('send')), id), undefined);
  const { json: report } = await caller.get(`/v1/policies/${id}/shadow-report`);
  t.match(report, { counts: { newly_blocked: 1, same: 0 }, samples: [{ event_id: seen.id, would: 'blocked' }] });
  t.equal((await caller.call('POST', `/v1/policies/${id}/promote`)).status, 200);
  await caller.until(
    () => caller.post(`/v1/agents/${agent}/events`, call('send')),
    ({ json }) => json.policy_result.matches[0]?.detail.after?.length === 1,
  );
  await caller.submitUntil('allowed', idle, call('send'));
  const copy = { ...body, name: 'copy', shadow_of: id, conditions: { ...conditions, after: [{ tool: 'look' }] } };
  const shadow = (await caller.post('/v1/policies', copy)).json as Policy;
  t.equal((await caller.call('POST', `/v1/policies/${shadow.id}/promote`)).status, 200);
  await caller.submitUntil('allowed', agent, call('send'));
  await caller.post(`/v1/agents/${agent}/events`, call('look'));
  const { json: blocked } = await caller.post(`/v1/agents/${agent}/events`, call('send'));
  t.match(blocked.policy_result, { outcome: 'blocked', policy_id: id }, 'its new steps are remembered');
});

t.test('a budget that is tried counts beside the one in force, to the unit', async (t) => {
  const caller = api.as(await keyOfNewAccount(service, 'budgets'));
  const agent = (await caller.post('/v1/agents', { name: 'one' })).json.id;
  const budget = (events: number) => ({
    type: 'budget',
    actions: ['block'],
    conditions: { limit: { events }, window: '1d' },
  });
  const original = (await caller.post('/v1/policies', { name: 'in force', ...budget(100) })).json as Policy;
  const body = { name: 'tried', mode: 'shadow', shadow_of: original.id, ...budget(3) };
  const { id } = (await caller.post('/v1/policies', body)).json as Policy;
  const states = async (check = false): Promise<Record<string, unknown>[]> =>
    (await caller.get(`/v1/budgets?check=${check}`)).json.items;
  const prompt = { type: 'prompt', payload: { model: 'm' } };
  // Until both are in force and known; each call is let go of.
  await caller.until(
    async () => {
      const { json } = await caller.post(`/v1/agents/${agent}/events`, prompt);
      await caller.post(`/v1/agents/${agent}/events`, { type: 'error', payload: { for: json.id } });
      return states();
    },
    (items) =>
      items.length === 2 && items.every(({ known, reserved, spent }) => known && reserved === 0 && spent === 0),
  );
  const would: (string | undefined)[] = [];
  for (let i = 0; i < 5; i++) {
    const event = await lastOf(caller, agent, prompt);
    t.equal(event.policy_result.outcome, 'allowed');
    would.push(wouldOf(event, id));
    const usage = { prompt_tokens: 1, completion_tokens: 1 };
    await caller.post(`/v1/agents/${agent}/events`, {
      type: 'completion',
      payload: { for: event.id, model: 'm', usage },
    });
  }
  t.same(would, [undefined, undefined, undefined, 'blocked', 'blocked']);
  const of = (items: Record<string, unknown>[]) =>
    items.map(({ policy_id: policy, mode, spent, left, drift }) => ({ policy, mode, spent, left, drift }));
  const counted = [
    { policy: original.id, mode: 'enforce', spent: 5, left: 95, drift: 0 },
    { policy: id, mode: 'shadow', spent: 3, left: 0, drift: 0 },
  ];
  const settled = await caller.until(
    () => states(true),
    (items) => JSON.stringify(of(items)) === JSON.stringify(counted),
  );
  t.same(of(settled), counted, 'what it would have refused is not charged');
  const { json: report } = await caller.get(`/v1/policies/${id}/shadow-report`);
  t.match(report.counts, { newly_blocked: 2 });
  t.match((await caller.call('POST', `/v1/policies/${id}/promote`)).json, { id: original.id, revision: 2 });
  const over = await caller.submitUntil('blocked', agent, prompt);
  t.match(over.json.policy_result.matches, [{ policy_id: original.id, detail: { left: -2 } }]);
});
