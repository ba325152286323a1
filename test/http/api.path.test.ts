// The API as its callers meet it, against the whole service: what each endpoint answers when all is well.
// Every answer is held against the service's own description as it comes (support/api.ts); in the end each one was
// seen.
import t from 'tap';
import { secondEntryId } from '../../clickhouse/queries/list-audit-logs.ts';
import type { AuditLog } from '../../schemas/audit-log.ts';
import type { Policy } from '../../schemas/policy.ts';
import { mintId } from '../../src/common/ids.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);
let names = 0;
const unique = (what: string) => `${what}-${++names}`;

async function newAgent(more: object = {}): Promise<{ id: string; name: string }> {
  const { json } = await api.post('/v1/agents', { name: unique('agent'), ...more });
  return json as { id: string; name: string };
}
async function newKey(scope: string): Promise<string> {
  return (await api.post('/v1/api-keys', { label: unique('key'), scope })).json.key as string;
}
const event = (payload: object = {}, more: object = {}) => ({ type: 'tool_call', payload, ...more });
/** Submits until it comes out so: a change is in force a moment after it was answered. */
const submitUntil = (id: string, payload: object, outcome: string) => api.submitUntil(outcome, id, event(payload));

t.test(
  'an agent names its framework as the framework names itself; any other name is refused with the list',
  async (t) => {
    const names =
      'provider_a library_b custom openai openai-agents anthropic claude-agent-sdk claude-code langchain langgraph llamaindex ' +
      'crewai autogen semantic-kernel pydantic-ai vercel-ai google-adk mastra smolagents haystack dspy strands agno mcp';
    for (const framework of names.split(' ')) {
      const made = await api.post('/v1/agents', { name: unique('bot'), framework });
      t.match(made, { status: 201, json: { framework } }, framework);
      t.equal((await api.get(`/v1/agents/${made.json.id}`)).json.framework, framework);
    }
    const agent = await newAgent();
    t.match((await api.patch(`/v1/agents/${agent.id}`, { framework: 'langgraph' })).json, { framework: 'langgraph' });
    for (const framework of ['LangGraph', 'lang-chain', 'openai ', '', 7]) {
      for (const refused of [
        await api.post('/v1/agents', { name: unique('bot'), framework }),
        await api.patch(`/v1/agents/${agent.id}`, { framework }),
      ]) {
        t.match(refused, {
          status: 400,
          json: { error: { code: 'validation_failed', details: [{ path: '/framework' }] } },
        });
        const { message, details } = refused.json.error;
        for (const name of names.split(' ')) {
          if (!details[0].message.includes(name) || !message.includes(name)) t.fail(`${name} is not in: ${message}`);
        }
      }
    }
  },
);

t.test('agents: registered once by name, listed, changed, deleted', async (t) => {
  const body = {
    name: unique('bot'),
    description: 'd',
    framework: 'custom',
    metadata: { team: 'a', __proto__key: 'x' },
  };
  const made = await api.post('/v1/agents', body);
  t.match(made, { status: 201, json: { ...body, status: 'active', last_seen_at: null } });
  const again = await api.post('/v1/agents', { name: body.name, description: 'other' });
  t.equal(again.status, 200, 'by an existing name: the agent that is there');
  t.same(again.json, made.json, 'unchanged');
  t.equal(again.headers.get('gatehouse-unchanged'), 'true', 'and it is said that something else was asked for');
  t.equal((await api.post('/v1/agents', body)).headers.get('gatehouse-unchanged'), null);
  const { id } = made.json;
  t.same((await api.get(`/v1/agents/${id}`)).json, made.json);
  const other = await newAgent();
  t.match(
    (await api.get('/v1/agents?limit=1')).json,
    { items: [{ id: other.id }], limit: 1, offset: 0 },
    'newest first',
  );
  const [all, active] = [await api.get('/v1/agents'), await api.get('/v1/agents?status=active')];
  t.same(active.json.total, all.json.total);
  const patched = await api.patch(`/v1/agents/${id}`, { status: 'inactive', metadata: { team: 'b' } });
  t.match(patched, { status: 200, json: { id, status: 'inactive', metadata: { team: 'b' }, description: 'd' } });
  t.match((await api.get('/v1/agents?status=inactive')).json, { items: [{ id }], total: 1 });
  t.match((await api.get(`/v1/agents?name=${body.name}&name=nobody`)).json, { items: [{ id }], total: 1 });
  t.equal((await api.get('/v1/agents?status=down')).json.total, 0);
  t.match(await api.patch(`/v1/agents/${id}`, { name: other.name }), {
    status: 409,
    json: { error: { code: 'name_taken' } },
  });
  t.equal((await api.delete(`/v1/agents/${id}`)).status, 204);
  for (const path of [
    `/v1/agents/${id}`,
    `/v1/agents/${id}/events`,
    `/v1/agents/${id}/events/${mintId('event', Date.now())}`,
  ]) {
    t.equal((await api.get(path)).status, 404, `${path.replace(id, '{id}')} at once`);
  }
  t.equal((await api.delete(`/v1/agents/${id}`)).status, 404, 'twice');
  const erasure = await api.until(
    () => api.get(`/v1/erasures/${id}`),
    ({ json }) => json?.rows_erased_at !== null,
  );
  t.match(erasure, { status: 200, json: { agent_id: id, rows_erased_at: /Z$/, clean_by: /Z$/ } });
  t.equal((await api.get(`/v1/erasures/${other.id}`)).status, 404, 'it was not deleted');
  const fresh = await api.post('/v1/agents', { name: body.name });
  t.equal(fresh.status, 201, 'the name is free again');
  t.not(fresh.json.id, id, 'the id never is');
});

t.test('metadata keeps keys that mean something to JavaScript', async (t) => {
  const text = `{"name":"${unique('proto')}","metadata":{"__proto__":"p","constructor":"c","toString":"t","":"empty"}}`;
  const made = await api.post('/v1/agents', text);
  t.match(made, { status: 201 });
  t.match(made.text, '"__proto__":"p"');
  t.match(
    (await api.get(`/v1/agents/${made.json.id}`)).text,
    /"metadata":\{"__proto__":"p","constructor":"c","toString":"t","":"empty"\}/,
  );
  t.equal(({} as Record<string, unknown>).p, undefined);
});

t.test('an event is answered, found alone, in lists and in its trace', async (t) => {
  const { id } = await newAgent();
  const body = {
    type: 'completion',
    payload: { model: 'm-1', response: 'Hello', tokens_used: 7, duration_ms: 12.5 },
    trace_id: unique('trace / ü'),
    timestamp: '2026-01-02T03:04:05.678+01:00',
  };
  const sent = await api.post(`/v1/agents/${id}/events`, body, { headers: { 'X-Agent-ID': id } });
  t.match(sent, {
    status: 201,
    json: {
      agent_id: id,
      type: 'completion',
      payload: body.payload,
      trace_id: body.trace_id,
      timestamp: '2026-01-02T02:04:05.678Z',
    },
  });
  t.same(sent.json.policy_result, { outcome: 'allowed', reason: null, policy_id: null, matches: [] });
  const eventId = sent.json.id as string;
  const read = await api.get(`/v1/agents/${id}/events/${eventId}`);
  t.equal(read.text, sent.text, 'read back byte for byte');
  const listed = await api.get(`/v1/agents/${id}/events`);
  const more = ',"model":"m-1","tokens_used":7,"duration_ms":12.5,"summary":"Hello"}';
  t.equal(
    listed.text,
    `{"items":[${sent.text.slice(0, -1)}${more}],"total":1,"limit":50,"offset":0,"next_cursor":null}`,
  );
  t.match((await api.get(`/v1/events?agent_id=${id}&trace_id=${encodeURIComponent(body.trace_id)}`)).json, {
    items: [{ id: eventId }],
    total: 1,
  });
  const trace = await api.get(`/v1/traces/${encodeURIComponent(body.trace_id)}`);
  t.match(trace.json, {
    trace_id: body.trace_id,
    event_count: 1,
    counts: { completion: 1 },
    agents: [id],
    tokens_used: 7,
    events: [{ id: eventId }],
  });
  t.match((await api.get(`/v1/traces?agent_id=${id}`)).json, { items: [{ trace_id: body.trace_id }], total: 1 });
  t.match((await api.get(`/v1/agents/${id}`)).json, { last_seen_at: /^20/ }, 'and the agent was seen');
  t.match((await api.get(`/v1/audit-logs?resource_id=${eventId}`)).json, {
    logs: [{ action: 'event.submitted', actor: `agent:${id}` }],
    total: 1,
    limit: 50,
    offset: 0,
  });
});

t.test('a batch is answered in the order of submission, and a bad element alone is refused', async (t) => {
  const { id } = await newAgent();
  const elements = [event({ n: 0 }), { type: 'shout', payload: {} }, event({ n: 2 }), 'nonsense', event({ n: 4 })];
  for (const body of [{ events: elements }, elements]) {
    const sent = await api.post(`/v1/agents/${id}/events/batch`, body);
    t.equal(sent.status, 200);
    t.equal(sent.json.total, 3);
    t.same(
      sent.json.results.map((one: { payload?: object; error?: { code: string } }) => one.payload ?? one.error?.code),
      [{ n: 0 }, 'validation_failed', { n: 2 }, 'validation_failed', { n: 4 }],
    );
    t.match(sent.json.results[1].error.details[0].path, /\/1\/type$/, 'the details say which');
  }
  t.equal((await api.get(`/v1/agents/${id}/events`)).json.total, 6);
  const order = (await api.get(`/v1/agents/${id}/events?order=asc&limit=2&offset=1`)).json;
  t.same([order.total, order.limit, order.offset, order.items.length], [6, 2, 1, 2]);
  for (const body of [
    { events: [] },
    [],
    { events: Array(101).fill(event()) },
    { events: [{}] },
    { events: 'x' },
    {},
    'text',
    { events: [event()], more: 1 },
  ]) {
    t.match(
      await api.post(`/v1/agents/${id}/events/batch`, body === 'text' ? '"text"' : body),
      { status: 400, json: { error: { code: 'validation_failed' } } },
      JSON.stringify(body).slice(0, 40),
    );
  }
  t.equal(
    (await api.post(`/v1/agents/${id}/events/batch`, Array(100).fill(event()))).json.total,
    100,
    'a hundred are not too many',
  );
});

t.test('every token of a payload comes back as it was sent', async (t) => {
  const { id } = await newAgent();
  const payloads = [
    '{"z":1,"a":2,"10":3,"2":4}',
    '{"n":[1.0,1e400,-0,12345678901234567890,1E+2,0.10000000000000000001]}',
    '{"s":"\\u0041\\ud800\\/\\u0000\\"","é":"\u2028😀"}',
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{}},"hasOwnProperty":1}',
    `${'{"deep":'.repeat(62)}1${'}'.repeat(62)}`,
    '{"":""}',
    '{}',
  ];
  for (const [i, payload] of payloads.entries()) {
    const sent = await api.post(`/v1/agents/${id}/events`, `{"payload":${payload},"type":"custom"}`);
    t.equal(sent.status, 201, `payload ${i}`);
    t.ok(sent.text.includes(`"payload":${payload},"timestamp"`), 'in the answer');
    const read = await api.get(`/v1/agents/${id}/events/${sent.json.id}`);
    t.equal(read.text, sent.text, 'and in later reads');
  }
  t.equal(({} as Record<string, unknown>).polluted, undefined);
});

t.test('the ready policies are there, each as a body that creates it', async (t) => {
  const { items } = (await api.get('/v1/policies/ready')).json;
  t.equal(items.length, 15, 'all of policies/*.yaml');
  for (const { file, name, description, policy } of items) {
    t.match(file, /^[a-z-]+\.yaml$/);
    t.match(policy, { name, description });
    const mode = policy.type === 'sequence' ? 'enforce' : 'shadow';
    const made = await api.post('/v1/policies', { ...policy, mode, ...(mode === 'enforce' && { actions: ['log'] }) });
    t.match(made, { status: 201, json: { mode, conditions: policy.conditions } }, name);
    await api.delete(`/v1/policies/${made.json.id}`);
  }
});

t.test('views: saved, listed, deleted (the whole story: views.path.test.ts)', async (t) => {
  const view = { name: unique('view'), screen: 'events', query: 'outcome=blocked' };
  const made = await api.post('/v1/views', view);
  t.match(made, { status: 201, json: view });
  t.match((await api.get('/v1/views')).json, { items: [view], total: 1 });
  t.equal((await api.delete(`/v1/views/${made.json.id}`)).status, 204);
});

t.test('usage: by day and by agent, of what is stored', async (t) => {
  const { id } = await newAgent();
  const payloads = [{ tokens_used: 7 }, { tokens_used: 5, text: 'größer' }];
  for (const payload of payloads) await api.post(`/v1/agents/${id}/events`, event(payload));
  const today = new Date().toISOString().slice(0, 10);
  const bytes = payloads.reduce((sum, payload) => sum + Buffer.byteLength(JSON.stringify(payload)), 0);
  const used = { events: 2, bytes, tokens: 12 };
  const answer = await api.get(`/v1/usage?agent_id=${id}&from=${today}`);
  const { json } = answer;
  t.match(answer, { status: 200, json: { from: today, total: used, agents: [{ agent_id: id, ...used }] } });
  // Midnight may have come between.
  t.equal(json.days[0].events + (json.days[1]?.events ?? 0), 2);
  t.equal(json.days[0].date, today);
  const all = (await api.get('/v1/usage')).json;
  t.equal(all.from, `${today.slice(0, 8)}01`, 'the month');
  t.ok(all.total.events >= 2);
  const range = (query: string) => api.get(`/v1/usage?${query}`);
  t.equal((await range('from=2025-01-01&to=2026-01-01')).json.days.length, 366);
  for (const [query, path] of [
    ['from=2025-01-01&to=2026-01-02', 'from'],
    ['from=2026-02-30', 'from'],
    ['to=2026-11-20T00:00:00Z', 'to'],
    ['from=2026-11-20&to=2026-11-19', 'from'],
  ] as const) {
    t.match(await range(query), { status: 400, json: { error: { details: [{ path }] } } }, query);
  }
});

t.test('holds: made, listed, released (the whole story: retention.path.test.ts)', async (t) => {
  const made = await api.post('/v1/holds', { reason: 'a case', trace_id: unique('held') });
  t.match(made, { status: 201, json: { reason: 'a case', agent_id: null } });
  t.match((await api.get('/v1/holds')).json, { items: [made.json], total: 1 });
  t.equal((await api.delete(`/v1/holds/${made.json.id}`)).status, 204);
});

t.test('budgets: listed, begun again (the whole story: budgets.path.test.ts)', async (t) => {
  const conditions = { limit: { events: 5 }, window: '1h', per: 'payload.user' };
  const { json } = await api.post('/v1/policies', {
    name: unique('budget'),
    type: 'budget',
    actions: ['log'],
    conditions,
  });
  t.match(await api.get(`/v1/budgets?policy_id=${json.id}`), { status: 200, json: { items: [] } });
  t.match(await api.post(`/v1/policies/${json.id}/reset`, undefined), { status: 200, json: { reset_at: /Z$/ } });
  await api.delete(`/v1/policies/${json.id}`);
});

t.test('prices: replaced, read, read as they were (the whole story: prices.path.test.ts)', async (t) => {
  const prices = [{ model: unique('model'), input: '1 USD', output: '2 USD' }];
  const made = await api.post('/v1/prices', { prices });
  t.match(made, { status: 200, json: { prices, currency: 'USD' } });
  t.match((await api.get('/v1/prices')).json, made.json);
  const { revision } = made.json;
  t.match((await api.get(`/v1/prices/revisions/${revision}`)).json, { revision, prices });
});

t.test('what an event is tried with is what it is judged by when it is sent', async (t) => {
  const { id } = await newAgent();
  const bound = (type: string, conditions: object, more: object = { actions: ['block'] }) =>
    api.post('/v1/policies', { name: unique('policy'), agent_id: id, type, conditions, ...more });
  await bound('require_approval', { tool: 'refund' });
  await bound('data_filter', { detectors: ['email'], redact: true }, { actions: ['log'] });
  await bound('block_action', { expression: 'has(event.payload.depth) && event.payload.depth > 3' });
  await bound('block_action', { tool: 'pay', 'payload.amount': { gt: 100 } });
  await submitUntil(id, { tool: 'pay', amount: 101 }, 'blocked');
  const verdicts = async (sent: object) => {
    const tried = await api.post('/v1/policies/evaluate', { event: { agent_id: id, ...sent } });
    const judged = await api.post(`/v1/agents/${id}/events`, sent);
    return [tried, judged].map(({ json }) => {
      const { outcome, reason, policy_id, matches } = json.policy_result;
      return { outcome, reason, policy_id, matches };
    });
  };
  const events = [
    ['blocked', event({ tool: 'pay', amount: 100.5 })],
    ['allowed', event({ tool: 'pay', amount: 100 })],
    ['pending', event({ tool: 'refund', to: 'a@example.com' })],
    ['allowed', event({ prompt: 'write to a@example.com' }, { type: 'prompt' })],
    ['blocked', event({ depth: 4 }, { type: 'custom' })],
  ] as const;
  for (const [outcome, sent] of events) {
    const [tried, judged] = await verdicts(sent);
    t.equal(judged!.outcome, outcome, JSON.stringify(sent));
    t.same(tried, judged, 'tried and judged alike');
  }
  await api.patch(`/v1/agents/${id}`, { status: 'inactive' });
  await submitUntil(id, { tool: 'pay', amount: 1 }, 'blocked');
  const [tried, judged] = await verdicts(event({ tool: 'pay', amount: 1 }));
  t.match(judged, { outcome: 'blocked', reason: 'agent_inactive', matches: [] });
  t.same(tried, judged, 'of an agent that is switched off, too');
});

t.test('policies are tried on an event: nothing is recorded, and no counter moves', async (t) => {
  const { id: agentId } = await newAgent();
  const block = { type: 'block_action', conditions: { tool: 'pay' }, actions: ['block'] };
  const limit = { type: 'rate_limit', conditions: { tool: 'pay', threshold: 1, window: '1h' }, actions: ['block'] };
  const filter = { type: 'data_filter', conditions: { detectors: ['email'], redact: true }, actions: ['log'] };
  const event = { agent_id: agentId, type: 'tool_call', payload: { tool: 'pay', to: 'a@example.com' } };
  const evaluate = (body: object) => api.post('/v1/policies/evaluate', body);
  const inForce = (await api.post('/v1/policies', { name: unique('policy'), agent_id: agentId, ...limit })).json;
  t.match(await evaluate({ event }), {
    status: 200,
    json: {
      policy_result: { outcome: 'allowed', reason: null, policy_id: null },
      judged: [{ policy_id: inForce.id, name: inForce.name, result: 'counted' }],
    },
  });
  const drafts = await evaluate({ event, policies: [block, { ...filter, name: 'addresses' }, limit] });
  t.match(drafts.json, {
    policy_result: {
      outcome: 'blocked',
      policy_id: '/policies/0',
      matches: [
        { policy_id: '/policies/0', revision: 1, detail: { condition: 'tool', operator: 'eq', path: '/tool' } },
        { name: 'addresses', detail: { detector: 'email', path: '/to' } },
      ],
    },
    judged: [
      { policy_id: '/policies/0', result: 'matched' },
      { policy_id: '/policies/1', name: 'addresses', result: 'matched' },
      { policy_id: '/policies/2', result: 'counted' },
    ],
  });
  t.match(
    (await evaluate({ event: { ...event, type: 'prompt', payload: {} }, policies: [block] })).json,
    { policy_result: { outcome: 'allowed' }, judged: [{ result: 'not_matched' }] },
    'what does not match is said, too',
  );
  const draft = { name: unique('policy'), agent_id: agentId, ...block };
  t.match((await api.post('/v1/policies/preview', draft)).json, { events: 0, matched: 0, first: [], complete: true });
  t.match((await api.get(`/v1/events?agent_id=${agentId}`)).json, { total: 0 }, 'nothing was recorded');
  // The limit is one event in an hour: had an evaluation moved its counter, this one would be blocked.
  const sent = await submitUntil(agentId, { tool: 'pay' }, 'allowed');
  t.match(
    (await evaluate({ event: { agent_id: agentId, id: sent.json.id }, policies: [block] })).json,
    { policy_result: { outcome: 'blocked' } },
    'a recorded event is named by its id',
  );
  await api.patch(`/v1/agents/${agentId}`, { status: 'inactive' });
  t.match((await evaluate({ event })).json, { policy_result: { outcome: 'blocked', reason: 'agent_inactive' } });
  t.match((await evaluate({ event, policies: [filter] })).json, { policy_result: { outcome: 'allowed' } });
  const bad: [object, number, string][] = [
    [{ event: { agent_id: agentId } }, 400, '/event/type'],
    [{ event: { agent_id: agentId, type: 'prompt' } }, 400, '/event/payload'],
    [{ event: { ...event, id: sent.json.id } }, 400, '/event/type'],
    [{ event: { ...event, colour: 1 } }, 400, '/event/colour'],
    [{ event, policies: [] }, 400, '/policies'],
    [{ event, policies: [block, { ...block, conditions: { tool: { gt: 'x' } } }] }, 400, '/policies/1/conditions/tool'],
  ];
  for (const [body, status, path] of bad) {
    const { status: got, json } = await evaluate(body);
    t.equal(got, status, path);
    t.match(json.error.details[0].path, path);
  }
  const unknown = { ...event, agent_id: mintId('agent', 1) };
  t.match(await evaluate({ event: unknown }), { status: 404, json: { error: { message: 'No such agent.' } } });
  t.match(await evaluate({ event: { agent_id: agentId, id: mintId('event', 1) } }), {
    status: 404,
    json: { error: { message: 'No such event.' } },
  });
});

t.test('policies: created, in force, listed, changed, deleted', async (t) => {
  const { id: agentId } = await newAgent();
  const body = {
    name: unique('policy'),
    type: 'block_action',
    agent_id: agentId,
    conditions: { tool: 'send_money' },
    actions: 'block',
    severity: 'high',
  };
  const made = await api.post('/v1/policies', body);
  t.match(made, { status: 201, json: { ...body, actions: ['block'], status: 'active' } });
  const { id } = made.json;
  t.match(await api.post('/v1/policies', body), { status: 409, json: { error: { code: 'name_taken' } } });
  t.same((await api.get(`/v1/policies/${id}`)).json, made.json);
  const blocked = await submitUntil(agentId, { tool: 'send_money' }, 'blocked');
  t.match(blocked, {
    status: 201,
    json: {
      policy_result: {
        outcome: 'blocked',
        reason: 'policy',
        policy_id: id,
        matches: [{ policy_id: id, severity: 'high' }],
      },
    },
  });
  t.match((await api.get(`/v1/events?outcome=blocked&agent_id=${agentId}`)).json, {
    items: [{ id: blocked.json.id }],
    total: 1,
  });
  t.match((await api.get(`/v1/anomalies?agent_id=${agentId}`)).json, {
    items: [{ kind: 'blocked_event', event_id: blocked.json.id }],
    total: 1,
  });
  const anomaly = (await api.get(`/v1/anomalies?agent_id=${agentId}`)).json.items[0];
  t.same((await api.get(`/v1/anomalies/${anomaly.id}`)).json, anomaly);
  t.same((await api.get(`/v1/anomalies/${anomaly.id}/series`)).json, {
    ...{ anomaly, bucket_ms: null, baseline: null, threshold: null, points: [] },
  });
  t.match((await api.get(`/v1/audit-logs?action=event.blocked&actor=agent:${agentId}`)).json, {
    logs: [{ details: { policy_id: id, reason: 'policy' } }],
    total: 1,
  });
  t.match((await api.get(`/v1/policies?agent_id=${agentId}&type=block_action&status=active`)).json, {
    items: [{ id }],
    total: 1,
  });
  t.match((await api.get(`/v1/policies?agent_id=${agentId}&type=data_filter`)).json, { items: [], total: 0 });
  t.match(await api.patch(`/v1/policies/${id}`, { actions: ['log'], severity: null }), {
    status: 200,
    json: { id, actions: ['log'], severity: null },
  });
  t.match(
    (await submitUntil(agentId, { tool: 'send_money' }, 'allowed')).json,
    { policy_result: { outcome: 'allowed', matches: [{ policy_id: id }] } },
    'log alone never interrupts',
  );
  t.equal((await api.delete(`/v1/policies/${id}`)).status, 204);
  t.equal((await api.get(`/v1/policies/${id}`)).status, 404);
  const bad: [object, RegExp][] = [
    [{ conditions: { 'payload.tool': { matches: '(' } } }, /^\/conditions\/payload\.tool/],
    [{ conditions: { expression: 'event.' } }, /^\/conditions\/expression/],
    [{ agent_id: mintId('agent', 1) }, /^\/agent_id/],
    [{ actions: [] }, /^\/actions/],
    [{ actions: ['block', 'block'] }, /^\/actions/],
    [{ type: 'rate_limit', conditions: {} }, /^\/conditions/],
    [{ type: 'other' }, /^\/type/],
    [{ colour: 'red' }, /^\/colour/],
  ];
  for (const [more, path] of bad) {
    const refused = await api.post('/v1/policies', { ...body, name: unique('policy'), ...more });
    t.match(
      refused,
      { status: 400, json: { error: { code: 'validation_failed', details: [{ path }] } } },
      JSON.stringify(more),
    );
  }
});

t.test('the kill switch blocks, and records', async (t) => {
  const { id } = await newAgent();
  await api.patch(`/v1/agents/${id}`, { status: 'inactive' });
  t.match(await submitUntil(id, {}, 'blocked'), {
    status: 201,
    json: { policy_result: { outcome: 'blocked', reason: 'agent_inactive', matches: [] } },
  });
  t.equal((await api.get(`/v1/agents/${id}/events?outcome=blocked`)).json.total, 1);
});

t.test('what an agent sends that is switched off is redacted like anything else', async (t) => {
  const { id } = await newAgent();
  await api.post('/v1/policies', {
    ...{ name: unique('policy'), type: 'data_filter', agent_id: id, actions: ['log'] },
    conditions: { detectors: ['email'], redact: true },
  });
  await api.patch(`/v1/agents/${id}`, { status: 'inactive' });
  await submitUntil(id, {}, 'blocked');
  await pause(1_000);
  const secret = { type: 'prompt', payload: { prompt: 'write to zoe@example.com' } };
  const { json: one } = await api.post(`/v1/agents/${id}/events`, secret);
  const { json: many } = await api.post(`/v1/agents/${id}/events/batch`, { events: [secret, secret] });
  const keyed = { headers: { 'Idempotency-Key': unique('key') } };
  const { json: once } = await api.post(`/v1/agents/${id}/events`, secret, keyed);
  for (const event of [one, ...many.results, once]) {
    t.match(event.policy_result, { outcome: 'blocked', reason: 'agent_inactive', matches: [] });
    t.equal(event.payload.prompt, 'write to zoe@example.com', 'the answer echoes it');
    const { json: kept } = await api.get(`/v1/agents/${id}/events/${event.id}`);
    t.equal(kept.payload.prompt, 'write to [redacted:email]', 'what is kept does not hold it');
  }
});

t.test('alerts: created, listed, changed, deleted', async (t) => {
  const { id: agentId } = await newAgent();
  const body = {
    name: unique('alert'),
    trigger: 'policy_violation',
    channel: 'webhook',
    target: 'https://hooks.example.com/x',
    conditions: { agent_id: agentId, severity: 'high' },
    agent_id: mintId('agent', 1),
  };
  const made = await api.post('/v1/alerts', body);
  t.match(made, {
    status: 201,
    json: {
      name: body.name,
      agent_id: agentId,
      conditions: body.conditions,
      throttle_seconds: 0,
      status: 'active',
      secret: /^whsec_/,
    },
  });
  const { secret, ...shown } = made.json;
  t.ok(secret);
  t.same((await api.get(`/v1/alerts/${shown.id}`)).json, shown, 'the secret is shown once');
  t.same((await api.get('/v1/alerts')).json, { items: [shown], total: 1, limit: 20, offset: 0, next_cursor: null });
  t.match(await api.patch(`/v1/alerts/${shown.id}`, { status: 'inactive' }), {
    status: 200,
    json: { status: 'inactive' },
  });
  t.match(await api.post('/v1/alerts', { ...body }), { status: 409, json: { error: { code: 'name_taken' } } });
  for (const more of [
    { target: 'http://hooks.example.com/' },
    { target: 'https://127.0.0.1/' },
    { channel: 'email', target: 'a@b.co\r\nBcc: x@y.z' },
    { conditions: { colour: 1 } },
    { throttle_seconds: -1 },
  ]) {
    t.match(
      await api.post('/v1/alerts', { ...body, name: unique('alert'), ...more }),
      { status: 400, json: { error: { code: 'validation_failed' } } },
      JSON.stringify(more),
    );
  }
  t.equal((await api.delete(`/v1/alerts/${shown.id}`)).status, 204);
  t.equal((await api.get(`/v1/alerts/${shown.id}`)).status, 404);
});

t.test('API keys: made, shown once, refused as soon as they are revoked', async (t) => {
  const made = await api.post('/v1/api-keys', {
    label: 'analyst',
    scope: 'read',
    expires_at: '2099-01-01T00:00:00+02:00',
  });
  t.match(made, {
    status: 201,
    json: { label: 'analyst', scope: 'read', expires_at: '2098-12-31T22:00:00.000Z', key: /^gth_[0-9A-Za-z]{40}$/ },
  });
  const { id, key } = made.json;
  t.equal((await api.get('/v1/agents', { key })).status, 200);
  const listed = await api.get('/v1/api-keys');
  t.match(listed.json.items[0], { id, label: 'analyst', hint: key.slice(-4) });
  t.notMatch(listed.text, key);
  t.match(await api.post('/v1/agents', { name: 'x' }, { key }), {
    status: 403,
    json: { error: { code: 'insufficient_scope' } },
  });
  t.match(await api.get('/v1/api-keys', { key: await newKey('write') }), { status: 403 });
  t.equal((await api.delete(`/v1/api-keys/${id}`)).status, 204);
  const revoked = await api.until(
    () => api.get('/v1/agents', { key, headers: { 'X-Request-Id': 'same' } }),
    ({ status }) => status === 401,
  );
  const unknown = await api.get('/v1/agents', { key: `${'u'.repeat(40)}`, headers: { 'X-Request-Id': 'same' } });
  const malformed = await api.get('/v1/agents', { key: 'nonsense', headers: { 'X-Request-Id': 'same' } });
  t.equal(revoked.status, 401);
  t.equal(revoked.text, unknown.text, 'revoked and unknown are the same');
  t.equal(revoked.text, malformed.text, 'malformed as well');
  t.match(await api.post('/v1/api-keys', { label: 'x', scope: 'read', expires_at: '2001-01-01T00:00:00Z' }), {
    status: 400,
  });
  t.match(await api.post('/v1/api-keys', { label: 'x', scope: 'read' }, { headers: { 'Idempotency-Key': 'a' } }), {
    status: 400,
  });
});

t.test('an Idempotency-Key gives the first answer again, byte for byte', async (t) => {
  const { id } = await newAgent();
  const writes: [string, unknown][] = [
    [`/v1/agents/${id}/events`, event({ n: 1 })],
    [`/v1/agents/${id}/events/batch`, [event({ n: 1 }), { bad: 1 }]],
    ['/v1/policies', { name: unique('policy'), type: 'block_action', conditions: { tool: 'never' }, actions: ['log'] }],
    [
      '/v1/alerts',
      { name: unique('alert'), trigger: 'agent_down', channel: 'webhook', target: 'https://hooks.example.com/y' },
    ],
  ];
  for (const [path, body] of writes) {
    const headers = { 'Idempotency-Key': unique('once') };
    const shown = path.replace(id, '{id}');
    const first = await api.post(path, body, { headers });
    t.ok(first.status < 300, `${shown} ${first.status}`);
    const again = await api.post(path, body, { headers });
    t.same([again.status, again.text], [first.status, first.text], `${shown} again`);
    t.match(
      await api.post(path, `${JSON.stringify(body)} `, { headers }),
      { status: 409, json: { error: { code: 'idempotency_conflict' } } },
      `${shown} with another body`,
    );
    const racing = await Promise.all(
      [1, 2, 3, 4].map(() =>
        api.post(
          path,
          path.endsWith('s') && !path.includes('agents') ? { ...(body as object), name: `racing-${names}` } : body,
          { headers: { 'Idempotency-Key': `racing-${path}` } },
        ),
      ),
    );
    for (const one of racing)
      t.ok(
        one.status === first.status || one.json.error.code === 'idempotency_in_progress',
        `${shown} at the same time: ${one.status}`,
      );
    t.equal(
      new Set(racing.filter((one) => one.status === first.status).map((one) => one.text)).size,
      1,
      `${shown}: one answer`,
    );
  }
  t.equal((await api.get(`/v1/agents/${id}/events`)).json.total, 4, 'each recorded once');
});

t.test('a list that starts after a write shows it', async (t) => {
  const { id } = await newAgent();
  for (let n = 1; n <= 20; n++) {
    await api.post(`/v1/agents/${id}/events`, event({ n }));
    const { json, headers } = await api.get(`/v1/agents/${id}/events?limit=1`);
    t.notOk(headers.has('gatehouse-incomplete'));
    t.match(json, { total: n, items: [{ payload: { n } }] });
  }
  t.match((await api.get(`/v1/audit-logs?resource_id=${id}&action=agent.registered`)).json, { total: 1 });
});

t.test('the audit log verifies (the whole story: test/audit/service.path.test.ts)', async (t) => {
  const { id } = await newAgent();
  await api.post(`/v1/agents/${id}/events`, event());
  const stops = { type: 'block_action', agent_id: id, conditions: { tool: 'stop' }, actions: ['block'] };
  await api.post('/v1/policies', { name: unique('policy'), ...stops });
  await submitUntil(id, { tool: 'stop' }, 'blocked');
  t.match((await api.get('/v1/audit-logs/verify')).json, { valid: true, first_invalid: null });
  const { logs } = (await api.get('/v1/audit-logs?limit=500')).json as { logs: AuditLog[] };
  const seen = new Set<string>();
  for (const entry of logs) {
    // Of each kind some: those that are kept, those of events, and the second ones of events.
    const kind = /^event\./.test(entry.action) ? entry.action : 'kept';
    if (seen.has(`${kind} 3`)) continue;
    seen.add(seen.has(`${kind} 2`) ? `${kind} 3` : seen.has(`${kind} 1`) ? `${kind} 2` : `${kind} 1`);
    t.same((await api.get(`/v1/audit-logs/${entry.id}`)).json, entry, `${entry.action} by its id`);
  }
  for (const kind of ['kept', 'event.submitted', 'event.blocked']) t.ok(seen.has(`${kind} 1`), kind);
  const allowed = logs.find(({ action, details }) => action === 'event.submitted' && details['outcome'] === 'allowed')!;
  const other = api.as(await keyOfNewAccount(service, unique('no entries')));
  for (const [as, entry] of [
    [api, 'log_x'],
    [api, mintId('auditLog', Date.now())],
    [api, allowed.resource_id],
    [api, secondEntryId(allowed.resource_id)],
    [other, allowed.id],
  ] as const)
    t.match(await as.get(`/v1/audit-logs/${entry}`), { status: 404, json: { error: { code: 'not_found' } } }, entry);
  const checkpoint = (await api.get('/v1/audit-logs/checkpoint')).json;
  t.match((await api.post('/v1/audit-logs/compare', { checkpoint })).json, { valid: true, first_invalid: null });
});

t.test('agents, policies and alerts are found by their ids and by parts of their names', async (t) => {
  const mark = unique('Named');
  const lists = {
    agents: {},
    policies: { type: 'block_action', conditions: { tool: mark }, actions: ['log'] },
    alerts: { trigger: 'agent_down', channel: 'email', target: 'a@example.com' },
  };
  for (const [list, body] of Object.entries(lists)) {
    const ids: string[] = [];
    for (const name of ['İstanbul', 'ÄRGER', 'x'])
      ids.push((await api.post(`/v1/${list}`, { name: `${mark} ${name}`, ...body })).json.id);
    const found = async (query: string) => {
      const { json } = await api.get(`/v1/${list}?${query}`);
      t.equal(json.total, json.items.length);
      return json.items.map(({ id }: { id: string }) => id);
    };
    const q = (words: string) => `q=${encodeURIComponent(words)}`;
    t.same(await found(q(mark.toUpperCase())), ids.toReversed(), 'newest first');
    t.same(await found(q(`${mark} ärger`)), [ids[1]]);
    t.same(await found(q(`${mark} İSTANBUL`)), [ids[0]]);
    t.same(await found(q(`${mark} none`)), []);
    t.same(await found(`id=${ids[0]}&id=${ids[2]}&id=x`), [ids[2], ids[0]]);
    t.same(await found(`id=${ids[0]}&id=${ids[1]}&${q('ärg')}`), [ids[1]]);
    t.equal((await api.get(`/v1/${list}?q=`)).status, 400);
    if (list !== 'alerts') t.same(await found(`${q(mark)}&status=inactive`), []);
    const page = (await api.get(`/v1/${list}?limit=2&${q(mark)}`)).json;
    t.match(page, { total: 3, items: [{ id: ids[2] }, { id: ids[1] }] });
    t.match((await api.get(`/v1/${list}?limit=2&${q(mark)}&cursor=${page.next_cursor}`)).json.items, [{ id: ids[0] }]);
  }
  const { id: agent } = await newAgent();
  await api.until(
    () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: mark } }),
    ({ json }) => json.policy_result.matches.length === 3,
  );
  await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: mark } });
  const yesterday = new Date(Date.now() - 25 * 3_600_000).toISOString();
  await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', timestamp: yesterday, payload: { tool: mark } });
  const { items } = (await api.get(`/v1/policies?activity=true&q=${encodeURIComponent(mark)}`)).json as {
    items: Policy[];
  };
  for (const { id, activity } of items) {
    const since = new Date(Date.now() - 24 * 3_600_000).toISOString();
    const { total } = (await api.get(`/v1/events?limit=1&policy_id=${id}&from=${since}`)).json;
    t.ok(total >= 2);
    t.same(activity, { events_24h: total });
  }
});

t.test('browsers sign in and out (the whole story: sessions.path.test.ts)', async (t) => {
  const made = await api.call('POST', '/v1/session', { body: { key: service.key }, key: null });
  t.match(made, { status: 201, json: { account_name: 'default' } });
  t.match((await api.get('/v1/session')).json, { id: null, account_id: made.json.account_id });
  const listed = (await api.get('/v1/sessions')).json.items as { id: string }[];
  t.ok(listed.some(({ id }) => id === made.json.id));
  t.equal((await api.call('DELETE', `/v1/sessions/${made.json.id}`)).status, 204);
  t.equal((await api.call('DELETE', '/v1/session')).status, 204);
});

t.test('counts of events (the whole story: lists.path.test.ts)', async (t) => {
  t.ok((await api.get('/v1/events/histogram')).json.buckets.length > 0);
  t.ok((await api.get('/v1/events/facets')).json.total > 0);
  t.ok((await api.get('/v1/overview')).json.agents.total > 0);
});

t.test('filters of events', async (t) => {
  const { id } = await newAgent();
  const trace = unique('trace');
  const batch = [
    {
      type: 'prompt',
      payload: { model: 'gpt-4o', prompt: 'where is my order' },
      timestamp: '2026-01-01T00:00:00Z',
      trace_id: trace,
    },
    {
      type: 'completion',
      payload: { model: 'gpt-4o', response: 'let me look for it' },
      timestamp: '2026-01-01T00:00:01Z',
      trace_id: trace,
    },
    { type: 'error', payload: { message: 'order not found' }, timestamp: '2026-01-01T00:00:02Z' },
  ];
  await api.post(`/v1/agents/${id}/events/batch`, batch);
  const total = async (query: string) => (await api.get(`/v1/agents/${id}/events?${query}`)).json.total as number;
  const expected: [string, number][] = [
    ['type=prompt', 1],
    ['model=gpt-4o', 2],
    [`trace_id=${trace}`, 2],
    ['outcome=allowed', 3],
    ['outcome=pending', 0],
    ['from=2026-01-01T00:00:01Z', 2],
    ['to=2026-01-01T00:00:01Z', 2],
    ['from=2026-01-01T00:00:01Z&to=2026-01-01T00:00:01.000%2B00:00', 1],
    ['q=order', 2],
    ['q=%22let%20me%20look%22', 1],
    ['q=%22look%20let%22', 0],
    ['q=order&type=error', 1],
  ];
  for (const [query, count] of expected) t.equal(await total(query), count, query);
});

t.test('the account shows itself to every key, and is changed by an admin alone', async (t) => {
  const read = await api.get('/v1/account', { key: await newKey('read') });
  t.match(read, {
    status: 200,
    json: {
      name: 'default',
      agent_down_seconds: null,
      requests_per_second: null,
      request_limit: { per_second: 1_000_000, burst: 10_000_000 },
    },
  });
  const change = { agent_down_seconds: 600 };
  t.match(await api.patch('/v1/account', change, { key: await newKey('write') }), { status: 403 });
  t.match(await api.patch('/v1/account', change), { status: 200, json: { id: read.json.id, ...change } });
  for (const bad of [4, 604_801, 7.5, '60', undefined]) {
    t.match(await api.patch('/v1/account', { agent_down_seconds: bad }), { status: 400 }, `${bad}`);
  }
  t.match(await api.patch('/v1/account', { requests_per_second: 1e9 }), { status: 400 }, 'no key raises its own limit');
  const { logs } = (await api.get('/v1/audit-logs?action=account.updated')).json;
  t.match(logs[0], { resource_id: read.json.id, details: { after: change } });
  t.match(await api.patch('/v1/account', { agent_down_seconds: null }), { json: { agent_down_seconds: null } });
});

t.test(
  'policies: revisions, a declaration, a shadow (the whole story: policy-revisions, declared-policies, shadow-policies)',
  async (t) => {
    const policy = { name: unique('policy'), type: 'block_action', conditions: { tool: 'none' }, actions: ['log'] };
    const path = `/v1/policies/${(await api.post('/v1/policies', policy)).json.id}`;
    await api.patch(path, { actions: ['block'] });
    t.match((await api.get(`${path}/revisions`)).json, { items: [{ revision: 2 }, { revision: 1 }], total: 2 });
    t.match((await api.get(`${path}/revisions/2`)).json, { differences: [{ path: '/actions' }] });
    t.match((await api.post(`${path}/revisions/1/restore`, undefined)).json, { revision: 3, actions: ['log'] });
    const declaration = { owner: unique('owner'), policies: [{ ...policy, name: unique('policy') }] };
    const { hash } = (await api.post('/v1/policies/apply', { ...declaration, dry_run: true })).json;
    t.match((await api.post('/v1/policies/apply', { ...declaration, hash: 'x' })).json, { plan: { hash } });
    t.match((await api.post('/v1/policies/apply', { ...declaration, hash })).json, { applied: true });
    const shadow = (await api.post('/v1/policies', { ...policy, name: unique('shadow'), mode: 'shadow' })).json.id;
    t.match((await api.get(`/v1/policies/${shadow}/shadow-report`)).json, { policy_id: shadow, counts: { same: 0 } });
    t.match((await api.call('POST', `/v1/policies/${shadow}/promote`)).json, { id: shadow, mode: 'enforce' });
  },
);

t.test('a policy is replayed over what was recorded (the whole story: backtest.path.test.ts)', async (t) => {
  const policy = { type: 'block_action', conditions: { tool: 'none' }, actions: ['block'] };
  const ordered = await api.post('/v1/backtests', { policy, from: new Date(Date.now() - 3_600_000).toISOString() });
  t.match(ordered, { status: 202, json: { policy, result: null } });
  const path = `/v1/backtests/${ordered.json.id}`;
  const done = await api.until(
    () => api.get(path),
    ({ json }) => json.status === 'done',
  );
  t.match(done.json.result, { matched: 0, changed: 0 });
  t.match((await api.get('/v1/backtests')).json, { items: [{ id: ordered.json.id, status: 'done' }] });
  t.equal((await api.delete(path)).status, 204);
  t.equal((await api.get(path)).status, 404);
});

t.test('approvals: an event waits, a person decides (the whole story: approvals.path.test.ts)', async (t) => {
  const { id } = await newAgent();
  const terms = { type: 'require_approval', conditions: { tool: 'pay' }, actions: ['block'] };
  await api.post('/v1/policies', { name: unique('approval'), agent_id: id, ...terms });
  const { json } = await submitUntil(id, { tool: 'pay' }, 'pending');
  const approval = json.policy_result.approval_id as string;
  t.match((await api.get(`/v1/approvals/${approval}`)).json, { event_id: json.id, status: 'pending' });
  t.match((await api.post(`/v1/approvals/${approval}`, { decision: 'deny' })).json, { outcome: 'blocked' });
  t.match((await api.get(`/v1/approvals?agent_id=${id}&policy_id=${json.policy_result.policy_id}`)).json, {
    items: [{ id: approval, status: 'denied' }],
    total: 1,
  });
  t.match((await api.get(`/v1/events?agent_id=${id}&reason=approval`)).json, { items: [{ id: json.id }], total: 1 });
});

t.test('deliveries: sent, shown, cancelled, ordered again (the whole story: alert.path.test.ts)', async (t) => {
  const { id } = await newAgent();
  const pays = { type: 'block_action', agent_id: id, conditions: { tool: 'pay' }, actions: ['block'] };
  const policy = (await api.post('/v1/policies', { name: unique('policy'), ...pays })).json;
  const hook = { channel: 'webhook', target: 'https://nowhere.invalid/hook' };
  const body = { name: unique('alert'), trigger: 'policy_violation', agent_id: id, ...hook };
  const alert = (await api.post('/v1/alerts', body)).json.id as string;
  t.match(await api.post(`/v1/alerts/${alert}/rotate-secret`, undefined), { status: 200, json: { id: alert } });
  t.match(await api.post(`/v1/alerts/${alert}/test`, undefined), {
    status: 201,
    json: { alert_id: alert, test: true },
  });
  await submitUntil(id, { tool: 'pay' }, 'blocked');
  const told = async () =>
    (await api.get(`/v1/deliveries?agent_id=${id}`)).json.items.filter((one: { test: boolean }) => !one.test);
  for (let i = 0; i < 900 && (await told()).length === 0; i++) await pause(100);
  const [delivery] = await told();
  t.match(delivery, { alert_id: alert, trigger: 'policy_violation', status: 'pending' });
  for (const list of ['deliveries', 'anomalies', 'events']) {
    const of = async (policy: string) => (await api.get(`/v1/${list}?agent_id=${id}&policy_id=${policy}`)).json;
    t.ok((await of(policy.id)).total > 0, `${list} of the policy`);
    t.equal((await of(mintId('policy', 0))).total, 0, `${list} of another`);
  }
  // Before it is tried again, after 5 s, it is looked whether the alert is still active.
  await api.patch(`/v1/alerts/${alert}`, { status: 'inactive' });
  const status = async () => (await api.get(`/v1/deliveries/${delivery.id}`)).json.status as string;
  for (let i = 0; i < 900 && (await status()) === 'pending'; i++) await pause(100);
  t.equal(await status(), 'cancelled');
  await api.patch(`/v1/alerts/${alert}`, { status: 'active' });
  t.match(await api.post(`/v1/deliveries/${delivery.id}/redeliver`, undefined), {
    status: 200,
    json: { status: 'pending' },
  });
});

t.test('health, readiness and metrics need no key and show nothing of accounts', async (t) => {
  t.match(await api.get('/healthz', { key: null }), { status: 200, json: { status: 'ok' } });
  t.match(await api.get('/readyz', { key: null }), { status: 200, json: { status: 'ready' } });
  t.match(await api.get('/readyz/traffic', { key: null }), { status: 200, json: { status: 'ok' } });
  const { status, text, headers } = await api.get('/metrics', { key: null });
  t.equal(status, 200);
  t.match(headers.get('content-type'), /^text\/plain/);
  t.match(text, /gatehouse_requests_total\{[^}]*route="POST \/v1\/agents\/\{id\}\/events"/);
  t.match(text, /gatehouse_request_seconds_bucket\{le="\+Inf"/);
  t.match(text, /gatehouse_account_events_total\{account="other",outcome="allowed",process="front-1"\} [1-9]/);
  t.notMatch(text, /\b(agt|acc|gth|evt|pol)_/);
});

t.test('the description needs no key, and is the same with one', async (t) => {
  const { status, text, json, headers } = await api.get('/v1/openapi.json', { key: null });
  t.equal(status, 200);
  t.match(headers.get('content-type'), /^application\/json/);
  t.match(json, { openapi: '3.1.0', info: { title: 'Gatehouse' } });
  t.equal((await api.get('/v1/openapi.json')).text, text);
  t.equal((await api.get('/v1/openapi.json', { key: 'unknown' })).text, text, 'whatever the header says');
  const ours = [service.key, (await api.get('/v1/account')).json.id as string, (await newAgent()).id];
  t.notOk(
    ours.some((secret) => text.includes(secret)),
    'and shows nothing of an account',
  );
});

t.test('answers that come in parts', async (t) => {
  for (const list of ['events', 'audit-logs', 'anomalies', 'deliveries'])
    t.equal((await api.get(`/v1/${list}/export`)).status, 200, `${list} as a file`);
  const leaving = new AbortController();
  const headers = { authorization: `Bearer ${service.key}` };
  for (const path of ['/v1/stream', '/v1/feed/stream']) {
    const { status, headers: said } = await fetch(`${service.url}${path}?topics=events`, {
      ...{ headers, signal: leaving.signal },
    });
    t.same([status, said.get('content-type')], [200, 'text/event-stream'], path);
    api.seen.add(`GET ${path} 200`); // it does not end, so it is not read whole
  }
  t.equal((await api.get('/v1/feed')).status, 200);
  leaving.abort();
});

t.test('spans and log records without any of interest are taken, and metrics', async (t) => {
  for (const [path, request] of Object.entries({
    '/v1/traces': { resourceSpans: [{ scopeSpans: [{ spans: [{ name: 'GET /' }] }] }] },
    '/v1/logs': { resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: 'GET /' } }] }] }] },
    '/v1/metrics': { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'requests' }] }] }] },
  })) {
    const { status, json } = await api.post(path, request);
    t.same([status, json], [200, {}], path);
  }
});

t.test('a connection is made, changed, asked and deleted', async (t) => {
  const made = await api.post('/v1/connections', { name: unique('connection') });
  t.equal(made.status, 201);
  const path = `/v1/connections/${made.json.id}`;
  t.equal((await api.get('/v1/connections')).json.total, 1);
  t.same((await api.get(path)).json, made.json);
  t.equal((await api.patch(path, { mode: 'watch' })).json.mode, 'watch');
  const asked = await api.post(`/v1/hooks/inference/${made.json.id}`, { type: 'prompt' }, { key: null });
  t.match(asked.json, { action: /^(allow|deny)$/ });
  t.equal((await api.delete(path)).status, 204);
});

t.test('a verification is ordered, looked at and removed', async (t) => {
  const path = '/v1/audit-logs/verification';
  const { status, json } = await api.post(path, { from: '2026-01-01T00:00:00Z' });
  t.match([status, json], [202, { status: 'waiting', from: '2026-01-01T00:00:00.000Z', to: null }]);
  t.match(await api.get(path), { status: 200, json: { created_at: json.created_at } });
  const reversed = await api.post(path, { from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' });
  t.match([reversed.status, reversed.json], [400, { error: { details: [{ path: '/to' }] } }]);
  t.equal((await api.delete(path)).status, 204);
  t.equal((await api.get(path)).status, 404);
});

t.test('an outgoing feed is made, changed and deleted', async (t) => {
  const body = { name: unique('feed'), url: 'https://siem.example.com/?key=hush', authorization: 'Splunk hush' };
  const headers = { 'Idempotency-Key': 'an outgoing feed' };
  const made = await api.post('/v1/outgoing-feeds', { ...body, status: 'inactive' }, { headers });
  t.match([made.status, made.json], [201, { authorization_set: true, topics: ['audit_log'], secret: /^whsec_/ }]);
  t.same((await api.post('/v1/outgoing-feeds', { ...body, status: 'inactive' }, { headers })).json, made.json);
  const path = `/v1/outgoing-feeds/${made.json.id}`;
  t.equal((await api.get('/v1/outgoing-feeds')).json.total, 1);
  const { secret, ...shown } = made.json;
  t.same((await api.get(path)).json, shown);
  t.notMatch(JSON.stringify(shown), /hush|whsec_/);
  t.equal((await api.patch(path, { payload: 'none' })).json.payload, 'none');
  const rotated = await api.post(`${path}/rotate-secret`, undefined);
  t.match([rotated.status, rotated.json.secret !== secret], [200, true]);
  for (const wrong of [{ topics: [] }, { topics: ['weather'] }, { url: 'http://siem.example.com' }, { format: 'cef' }])
    t.equal((await api.post('/v1/outgoing-feeds', { ...body, name: unique('feed'), ...wrong })).status, 400);
  t.equal((await api.delete(path)).status, 204);
  t.equal((await api.delete(path)).status, 404);
});

t.test('a check is made, changed and deleted', async (t) => {
  const body = {
    name: unique('check'),
    speaks: 'presidio',
    url: 'https://presidio.example.com/analyze',
    secret: 'hush',
  };
  const made = await api.post('/v1/checks', body, { headers: { 'Idempotency-Key': 'a check' } });
  t.match([made.status, made.json], [201, { secret_set: true, language: 'en', timeout_ms: 1_000, at_once: 32 }]);
  t.same((await api.post('/v1/checks', body, { headers: { 'Idempotency-Key': 'a check' } })).json, made.json);
  t.notMatch(JSON.stringify(made.json), 'hush');
  const path = `/v1/checks/${made.json.id}`;
  t.equal((await api.get('/v1/checks')).json.total, 1);
  t.same((await api.get(path)).json, made.json);
  t.equal((await api.patch(path, { timeout_ms: 300 })).json.timeout_ms, 300);
  t.match((await api.post(`${path}/try`, { text: 'x' })).json, { match: null, reason: /^(timeout|error)$/ });
  t.equal((await api.delete(path)).status, 204);
  t.equal((await api.delete(path)).status, 404);
});

t.test('a check is held to the rules of webhooks, and to its form', async (t) => {
  const body = { name: unique('check'), speaks: 'presidio', url: 'https://presidio.example.com/analyze' };
  const refused = async (more: object) => {
    const { status, json } = await api.post('/v1/checks', { ...body, ...more });
    return [status, json.error?.details?.[0]?.path];
  };
  for (const url of ['http://presidio.example.com', 'https://127.0.0.1/x', 'https://10.0.0.1/', 'https://localhost/'])
    t.same(await refused({ url }), [400, '/url'], url);
  t.same(await refused({ url: 'https://example.com:8080/' }), [400, '/url']);
  t.same(await refused({ url: 'https://169.254.169.254/latest' }), [400, '/url']);
  t.same(await refused({ model: 'm' }), [400, '/model']);
  t.same(await refused({ speaks: 'openai_chat' }), [400, '/model']);
  t.same(await refused({ speaks: 'openai_moderation', language: 'en' }), [400, '/language']);
  t.same(await refused({ timeout_ms: 5_001 }), [400, '/timeout_ms']);
  t.same(await refused({ at_once: 0 }), [400, '/at_once']);
  t.same(await refused({ speaks: 'smoke signals' }), [400, '/speaks']);
  t.same(await refused({ mode: 'watch' }), [400, '/mode'], 'it is not there');
  t.same(await refused({ secret: 'with\nline' }), [400, '/secret']);
});

t.test('a secret does not follow a check to another address', async (t) => {
  const url = 'https://presidio.example.com/analyze';
  const made = await api.post('/v1/checks', { name: unique('check'), speaks: 'presidio', url, secret: 'hush' });
  const path = `/v1/checks/${made.json.id}`;
  const moved = await api.patch(path, { url: 'https://elsewhere.example.com/' });
  t.match([moved.status, moved.json], [400, { error: { details: [{ path: '/secret' }] } }]);
  t.match((await api.patch(path, { url: 'https://elsewhere.example.com/', secret: null })).json, { secret_set: false });
  t.equal((await api.patch(path, { url })).status, 200, 'there is none to follow');
  await api.delete(path);
});

t.test('decision points answer in the forms of those who ask', async (t) => {
  const hook = { hook_event_name: 'PreToolUse', tool_name: 'ls', tool_input: {} };
  t.same((await api.post('/v1/hooks/claude-code', hook)).json, {});
  t.same((await api.post('/v1/hooks/gemini-cli', { ...hook, hook_event_name: 'BeforeTool' })).json, {});
  t.same((await api.post('/v1/hooks/cursor', { ...hook, hook_event_name: 'preToolUse' })).json, {
    permission: 'allow',
  });
  t.same((await api.post('/v1/hooks/copilot', { toolName: 'ls', toolArgs: {} })).json, {});
  const command = { agent_action_name: 'pre_run_command', tool_info: { command_line: 'ls' } };
  t.same((await api.post('/v1/hooks/windsurf', command)).json, {});
  const query = { input: { agent: 'asks', tool: { name: 'ls' }, args: {} } };
  t.equal((await api.post('/v1/data/gatehouse/decision', query)).json.result.decision, 'allow');
  const [subject, resource] = [
    { type: 'agent', id: 'asks' },
    { type: 'order', id: '7' },
  ];
  const evaluation = { subject, action: { name: 'ls' }, resource };
  t.equal((await api.post('/access/v1/evaluation', evaluation)).json.decision, true);
  t.same((await api.post('/beta/litellm_basic_guardrail_api', { texts: ['hello'] })).json, { action: 'NONE' });
});

t.test('every success that the description has was seen', async (t) => {
  const document = await new Api(t, service).describe();
  // What operators call is called by admin-accounts.path.test.ts.
  const own = Object.entries(document.paths).filter(([path]) => !path.startsWith('/v1/admin/'));
  const all = own.flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { responses }]) =>
      Object.keys(responses)
        .filter((status) => status < '300')
        .map((status) => `${method.toUpperCase()} ${path} ${status}`),
    ),
  );
  t.same(
    all.filter((name) => !api.seen.has(name)),
    [],
  );
});
