// What a draft of a policy would have matched (POST /v1/policies/preview), against the whole service: the counts are
// those of a backtest over the same events, the refusals those of creating the policy, and nothing comes of it.
import t from 'tap';
import { Api } from '../support/api.ts';
import { startService } from '../support/service.ts';

t.setTimeout(300_000);
type Row = { id: string };
const service = await startService(t, { env: { GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);

const newAgent = async (name: string) =>
  (await api.post('/v1/agents', { name, framework: 'custom' })).json.id as string;
const [payer, reader] = [await newAgent('payer'), await newAgent('reader')];
const preview = (body: object, as: Api = api) => as.post('/v1/policies/preview', { name: 'draft', ...body });
const from = new Date(Date.now() - 3_600_000).toISOString();

const FILTER = { type: 'data_filter', actions: ['log'], conditions: { detectors: ['email'], redact: true } };
const LARGE = { type: 'block_action', actions: ['block'], conditions: { tool: 'pay', 'payload.amount': { gt: 100 } } };
const DRAFTS: Record<string, object> = {
  'a block': LARGE,
  'every event': { type: 'block_action', actions: ['log'], conditions: {} },
  'an approval': { type: 'require_approval', actions: ['alert'], conditions: { type: 'prompt' } },
  'an expression': { type: 'block_action', actions: ['log'], conditions: { expression: 'event.payload.amount > 190' } },
  'a filter': { type: 'data_filter', actions: ['log'], conditions: { patterns: ['secret-[0-9]+'] } },
  'what was redacted': { type: 'data_filter', actions: ['log'], conditions: { patterns: ['@example'] } },
  'a limit': { type: 'rate_limit', actions: ['block'], conditions: { tool: 'pay', threshold: 12, window: '1h' } },
  'one agent': { ...LARGE, agent_id: payer, conditions: {} },
};

await api.post('/v1/policies', { name: 'addresses', ...FILTER });
for (let n = 0; n < 30; n++)
  await api.post(`/v1/agents/${payer}/events`, { type: 'tool_call', payload: { tool: 'pay', amount: n * 10 } });
for (const prompt of ['write to a@example.com', 'secret-17', 'hello'])
  await api.until(
    () => api.post(`/v1/agents/${reader}/events`, { type: 'prompt', payload: { prompt } }),
    ({ json }) => !prompt.includes('@') || json.policy_result.matches.length > 0,
  );
const total = (await api.get('/v1/events?limit=1')).json.total as number;

for (const [name, draft] of Object.entries(DRAFTS))
  t.test(`${name}: what it would have matched is what a backtest says`, async (t) => {
    const { status, json } = await preview(draft);
    t.equal(status, 200);
    const scope = (draft as { agent_id?: string }).agent_id;
    t.match(json, { complete: true, approximate: false, events: scope === undefined ? total : 30 });
    const ordered = await api.post('/v1/backtests', { policy: draft, from, ...(scope && { agent_id: scope }) });
    const done = await api.until(
      () => api.get(`/v1/backtests/${ordered.json.id}`),
      (backtest) => ['done', 'failed'].includes(backtest.json.status),
    );
    const { result } = done.json;
    t.equal(json.events, result.events);
    t.equal(json.matched, result.matched);
    t.ok(json.matched + json.unknown > 0, 'it says something');
    const listed = new Map<string, Row>(
      ((await api.get('/v1/events?limit=100&payload=none')).json.items as Row[]).map((one) => [one.id, one]),
    );
    t.equal(json.first.length, Math.min(5, json.matched));
    for (const row of json.first as Row[]) t.same(row, listed.get(row.id), 'a row as the list has it');
    const places = (json.first as Row[]).map(({ id }) => [...listed.keys()].indexOf(id));
    t.same(
      places,
      places.toSorted((a, b) => a - b),
      'the newest first',
    );
  });

t.test('what was redacted, and decides, is not known', async (t) => {
  const { json } = await preview(DRAFTS['what was redacted']!);
  t.ok(json.unknown >= 1);
  t.equal(json.matched, 0);
});

t.test('nothing is kept, and no counter moves', async (t) => {
  const limit = { type: 'rate_limit', actions: ['block'], conditions: { type: 'custom', threshold: 1, window: '1h' } };
  for (let n = 0; n < 3; n++) await preview(limit);
  await api.post('/v1/policies', { name: 'one an hour', ...limit });
  const policies = (await api.get('/v1/policies')).json;
  t.equal(policies.total, 2);
  t.match(await preview({ ...LARGE, name: 'one an hour' }), { status: 200 }, 'a name that is taken is no mistake yet');
  t.equal((await api.get('/v1/events?limit=1')).json.total, total);
  t.equal((await api.get('/v1/audit-logs?action=policy.created')).json.total, 2);
});

t.test('what creating it refuses is refused with the same places', async (t) => {
  const wrong: object[] = [
    { ...LARGE, conditions: { tool: { gt: 'x' } } },
    { ...LARGE, conditions: { expression: 'event.' } },
    { ...LARGE, type: 'rate_limit', conditions: {} },
    { ...LARGE, actions: [] },
    { ...LARGE, colour: 1 },
    { ...LARGE, agent_id: 'agt_none' },
    { ...LARGE, shadow_of: 'pol_none', mode: 'shadow' },
    { ...LARGE, name: '' },
  ];
  for (const body of wrong) {
    const made = await api.post('/v1/policies', { name: 'wrong', ...body });
    const told = await preview({ name: 'wrong', ...body });
    t.equal(told.status, 400, JSON.stringify(body));
    t.same([told.json.error.code, told.json.error.details], [made.json.error.code, made.json.error.details]);
  }
});

t.test('a key that is bound to an agent sees the events of this agent alone', async (t) => {
  const key = await api.post('/v1/api-keys', {
    label: 'bound',
    scope: 'write',
    agent_id: payer,
    permissions: ['configure'],
  });
  const bound = api.as(key.json.key as string);
  const { status, json } = await preview({ ...LARGE, conditions: {}, agent_id: payer }, bound);
  t.equal(status, 200);
  t.match(json, { events: 30, matched: 30 });
  for (const agent_id of [reader, null])
    t.match(await preview({ ...LARGE, agent_id }, bound), {
      status: 400,
      json: { error: { details: [{ path: '/agent_id' }] } },
    });
  const weak = await api.post('/v1/api-keys', { label: 'weak', scope: 'read' });
  t.equal((await preview(LARGE, api.as(weak.json.key as string))).status, 403);
});

t.test('of more than 1,000 events the newest are judged; a limit then begins with none', async (t) => {
  const busy = await newAgent('busy');
  const events = Array.from({ length: 100 }, (_, n) => ({ type: 'prompt', payload: { n } }));
  for (let n = 0; n < 11; n++) await api.post(`/v1/agents/${busy}/events/batch`, { events });
  const all = { agent_id: busy, conditions: {} };
  t.match((await preview({ ...LARGE, ...all })).json, {
    events: 1_000,
    matched: 1_000,
    complete: true,
    approximate: false,
  });
  const limit = { type: 'rate_limit', actions: ['log'], conditions: { threshold: 400, window: '1d' }, agent_id: busy };
  t.match((await preview(limit)).json, { events: 1_000, matched: 600, complete: true, approximate: true });
});
