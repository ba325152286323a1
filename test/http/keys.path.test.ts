// What each kind of key meets on every route of the table, against the whole service (docs/keys.md).
// The table itself is gone over: a route for which this test knows no request fails it.
import t, { type Test } from 'tap';
import { derivedId, mintId } from '../../src/common/ids.ts';
import type { Route } from '../../src/http/route.ts';
import { makeRoutes } from '../../src/http/routes.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { type Answer, Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2', GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);
let names = 0;
const unique = (what: string) => `${what}-${++names}`;
const routes = makeRoutes({ metrics: true });
const nameOf = ({ method, path }: Route) => `${method} ${path}`;

type Things = Record<
  | 'agent'
  | 'name'
  | 'event'
  | 'entry'
  | 'trace'
  | 'policy'
  | 'alert'
  | 'approval'
  | 'delivery'
  | 'anomaly'
  | 'backtest'
  | 'secret',
  string
>;
const PAY = { type: 'tool_call', payload: { tool: 'pay' } };
const hook = { channel: 'webhook', target: 'https://nowhere.invalid/hook', trigger: 'policy_violation' };
const pays = { type: 'require_approval', actions: ['log', 'alert', 'block'], conditions: { tool: 'pay' } };

async function newKey(body: object): Promise<{ id: string; api: Api; key: string }> {
  const made = await api.post('/v1/api-keys', { label: unique('key'), ...body });
  if (made.status !== 201) throw new Error(made.text);
  return { id: made.json.id, key: made.json.key, api: api.as(made.json.key) };
}
async function newAgent(): Promise<{ id: string; name: string }> {
  return (await api.post('/v1/agents', { name: unique('agent') })).json;
}
const newPolicy = async (agent: string | null): Promise<string> =>
  (await api.post('/v1/policies', { name: unique('policy'), agent_id: agent, ...pays })).json.id;
const newAlert = async (agent: string | null): Promise<string> =>
  (await api.post('/v1/alerts', { name: unique('alert'), agent_id: agent, ...hook })).json.id;
const replay = (agent: string) => ({
  policy: { type: 'block_action', conditions: { tool: 'pay' }, actions: ['block'] },
  from: new Date(Date.now() - 3_600_000).toISOString(),
  agent_id: agent,
});
/** One of an account runs at a time. */
async function newBacktest(agent: string): Promise<string> {
  const made = await api.until(
    () => api.post('/v1/backtests', replay(agent)),
    ({ status }) => status === 202,
  );
  return made.json.id;
}
async function newApproval(agent: string): Promise<{ event: string; approval: string }> {
  const { json } = await api.until(
    () => api.post(`/v1/agents/${agent}/events`, PAY),
    (answer) => answer.json.policy_result.outcome === 'pending',
  );
  return { event: json.id, approval: json.policy_result.approval_id };
}

/** An agent with one of everything. Both have events in the trace. */
async function thingsOf(trace: string): Promise<Things> {
  const { id: agent, name } = await newAgent();
  const [policy, alert, secret] = [await newPolicy(agent), await newAlert(agent), unique('secret')];
  const { approval } = await newApproval(agent);
  const block = { type: 'block_action', agent_id: agent, conditions: { tool: 'stop' }, actions: ['block'] };
  await api.post('/v1/policies', { name: unique('policy'), ...block });
  await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'stop' } });
  const found = await api.until(
    () => api.get(`/v1/anomalies?agent_id=${agent}`),
    ({ json }) => json.total > 0,
  );
  const anomaly = found.json.items[0].id as string;
  const event = await api.post(`/v1/agents/${agent}/events`, { ...PAY, trace_id: trace, payload: { secret } });
  const delivery = (await api.post(`/v1/alerts/${alert}/test`, undefined)).json.id as string;
  const backtest = await newBacktest(agent);
  const entry = derivedId('auditLog', event.json.id);
  return {
    agent,
    name,
    event: event.json.id,
    entry,
    trace,
    policy,
    alert,
    approval,
    delivery,
    anomaly,
    backtest,
    secret,
  };
}

/** The request to a route about the things of an agent. `made`: things of its own for requests that use them up. */
type Ask = { path?: string; body?: (of: Things) => unknown; made?: (agent: string) => Promise<Partial<Things>> };
const newCheck = () => ({ name: unique('check'), speaks: 'presidio', url: 'https://presidio.example.com/analyze' });
const newOutgoing = () => ({ name: unique('feed'), url: 'https://siem.example.com/', status: 'inactive' });
const fresh = {
  shadow: async (agent: string) => {
    const shadow = { name: unique('shadow'), mode: 'shadow', status: 'inactive', agent_id: agent };
    const never = { type: 'block_action', conditions: { tool: 'never' }, actions: ['log'] };
    return { policy: (await api.post('/v1/policies', { ...shadow, ...never })).json.id as string };
  },
  policy: async (agent: string) => ({ policy: await newPolicy(agent) }),
  alert: async (agent: string) => ({ alert: await newAlert(agent) }),
  backtest: async (agent: string) => ({ backtest: await newBacktest(agent) }),
  check: async () => ({ name: (await api.post('/v1/checks', newCheck())).json.id }),
  verification: async () => {
    await api.post('/v1/audit-logs/verification', {});
    return {};
  },
  outgoing: async () => ({ name: (await api.post('/v1/outgoing-feeds', newOutgoing())).json.id }),
  connection: async () => ({ name: (await api.post('/v1/connections', { name: unique('connection') })).json.id }),
};
const ASKS: Record<string, Ask> = {
  'POST /v1/checks': { body: () => newCheck() },
  'GET /v1/checks': {},
  'GET /v1/checks/{id}': { path: '/v1/checks/:name', made: fresh.check },
  'PATCH /v1/checks/{id}': { path: '/v1/checks/:name', body: () => ({ timeout_ms: 50 }), made: fresh.check },
  'POST /v1/audit-logs/verification': { body: () => ({}) },
  'GET /v1/audit-logs/verification': { made: fresh.verification },
  'DELETE /v1/audit-logs/verification': { made: fresh.verification },
  'POST /v1/outgoing-feeds': { body: () => newOutgoing() },
  'GET /v1/outgoing-feeds': {},
  'GET /v1/outgoing-feeds/{id}': { path: '/v1/outgoing-feeds/:name', made: fresh.outgoing },
  'PATCH /v1/outgoing-feeds/{id}': {
    ...{ path: '/v1/outgoing-feeds/:name', body: () => ({ payload: 'none' }), made: fresh.outgoing },
  },
  'POST /v1/outgoing-feeds/{id}/rotate-secret': {
    ...{ path: '/v1/outgoing-feeds/:name/rotate-secret', made: fresh.outgoing },
  },
  'DELETE /v1/outgoing-feeds/{id}': { path: '/v1/outgoing-feeds/:name', made: fresh.outgoing },
  'POST /v1/checks/{id}/try': { path: '/v1/checks/:name/try', body: () => ({ text: 'x' }), made: fresh.check },
  'DELETE /v1/checks/{id}': { path: '/v1/checks/:name', made: fresh.check },
  'POST /v1/agents': { body: () => ({ name: unique('agent') }) },
  'GET /v1/agents': {},
  'GET /v1/agents/{id}': { path: '/v1/agents/:agent' },
  // An answer that lasts is not asked for here: what it refuses is (stream.path.test.ts has the rest).
  'GET /v1/stream': { path: '/v1/stream?topics=none' },
  'GET /v1/feed': {},
  'GET /v1/feed/stream': { path: '/v1/feed/stream?topics=none' },
  'GET /v1/events/export': { path: '/v1/events/export?type=prompt' },
  'GET /v1/audit-logs/export': { path: '/v1/audit-logs/export?action=agent.deleted' },
  'GET /v1/anomalies/export': {},
  'GET /v1/deliveries/export': {},
  'PATCH /v1/agents/{id}': { path: '/v1/agents/:agent', body: () => ({ description: unique('text') }) },
  'DELETE /v1/agents/{id}': {
    path: '/v1/agents/:agent',
    made: async () => ({ agent: (await newAgent()).id }),
  },
  'GET /v1/erasures/{agent_id}': {
    path: '/v1/erasures/:agent',
    made: async () => {
      const { id } = await newAgent();
      await api.delete(`/v1/agents/${id}`);
      return { agent: id };
    },
  },
  'POST /v1/agents/{id}/events': { path: '/v1/agents/:agent/events', body: () => ({ type: 'custom', payload: {} }) },
  'POST /v1/agents/{id}/events/batch': {
    path: '/v1/agents/:agent/events/batch',
    body: () => [{ type: 'custom', payload: {} }],
  },
  'GET /v1/agents/{id}/events': { path: '/v1/agents/:agent/events' },
  'GET /v1/agents/{id}/events/{event_id}': { path: '/v1/agents/:agent/events/:event' },
  'GET /v1/events': { path: '/v1/events?agent_id=:agent' },
  'GET /v1/events/histogram': { path: '/v1/events/histogram?agent_id=:agent' },
  'GET /v1/events/facets': { path: '/v1/events/facets?agent_id=:agent' },
  'GET /v1/overview': { path: '/v1/overview?agent_id=:agent' },
  'GET /v1/traces': { path: '/v1/traces?agent_id=:agent' },
  'POST /v1/traces': { body: () => ({ resourceSpans: [] }) },
  'POST /v1/logs': { body: () => ({ resourceLogs: [] }) },
  'POST /v1/metrics': { body: () => ({ resourceMetrics: [] }) },
  'POST /v1/hooks/claude-code': { body: () => ({ hook_event_name: 'SessionStart' }) },
  'POST /v1/hooks/gemini-cli': { body: () => ({ hook_event_name: 'SessionStart' }) },
  'POST /v1/hooks/cursor': { body: () => ({ hook_event_name: 'sessionStart' }) },
  'POST /v1/hooks/copilot': { body: () => ({ sessionId: 's', source: 'new' }) },
  'POST /v1/hooks/windsurf': { body: () => ({ agent_action_name: 'post_setup_worktree' }) },
  'POST /v1/data/gatehouse/decision': {
    body: ({ agent }) => ({ input: { agent, type: 'custom', payload: {} } }),
  },
  'POST /access/v1/evaluation': {
    body: ({ agent }) => ({
      subject: { type: 'agent', id: agent },
      action: { name: 'look' },
      resource: { type: 'order', id: '7' },
    }),
  },
  'POST /beta/litellm_basic_guardrail_api': {
    path: '/beta/litellm_basic_guardrail_api?agent=:agent',
    body: () => ({}),
  },
  'GET /v1/traces/{trace_id}': { path: '/v1/traces/:trace' },
  'POST /v1/policies': { body: ({ agent }) => ({ name: unique('policy'), agent_id: agent, ...pays }) },
  'POST /v1/policies/evaluate': {
    body: ({ agent }) => ({ event: { agent_id: agent, type: 'custom', payload: {} } }),
  },
  'GET /v1/policies/ready': {},
  'POST /v1/policies/preview': { body: ({ agent }) => ({ name: unique('policy'), agent_id: agent, ...pays }) },
  'POST /v1/policies/apply': { body: () => ({ owner: unique('owner'), policies: [], dry_run: true }) },
  'GET /v1/policies/{id}/revisions': { path: '/v1/policies/:policy/revisions' },
  'GET /v1/policies/{id}/revisions/{revision}': { path: '/v1/policies/:policy/revisions/1' },
  'POST /v1/policies/{id}/revisions/{revision}/restore': { path: '/v1/policies/:policy/revisions/1/restore' },
  'GET /v1/policies/{id}/shadow-report': { path: '/v1/policies/:policy/shadow-report', made: fresh.shadow },
  'POST /v1/policies/{id}/promote': { path: '/v1/policies/:policy/promote', made: fresh.shadow },
  'GET /v1/policies': { path: '/v1/policies?agent_id=:agent' },
  'GET /v1/policies/{id}': { path: '/v1/policies/:policy' },
  'PATCH /v1/policies/{id}': { path: '/v1/policies/:policy', body: () => ({ severity: 'low' }) },
  'DELETE /v1/policies/{id}': { path: '/v1/policies/:policy', made: fresh.policy },
  'POST /v1/backtests': { body: ({ agent }) => replay(agent) },
  'GET /v1/backtests': { path: '/v1/backtests?agent_id=:agent' },
  'GET /v1/backtests/{id}': { path: '/v1/backtests/:backtest' },
  'DELETE /v1/backtests/{id}': { path: '/v1/backtests/:backtest', made: fresh.backtest },
  'POST /v1/connections': { body: () => ({ name: unique('connection') }) },
  'GET /v1/connections': {},
  'GET /v1/connections/{id}': { path: '/v1/connections/:name', made: fresh.connection },
  'PATCH /v1/connections/{id}': {
    path: '/v1/connections/:name',
    body: () => ({ mode: 'watch' }),
    made: fresh.connection,
  },
  'DELETE /v1/connections/{id}': { path: '/v1/connections/:name', made: fresh.connection },
  'POST /v1/views': { body: () => ({ name: unique('view'), screen: 'events', query: '' }) },
  'GET /v1/views': {},
  'DELETE /v1/views/{id}': {
    path: '/v1/views/:name',
    made: async () => {
      const { json } = await api.post('/v1/views', { name: unique('view'), screen: 'events', query: '' });
      return { name: json.id };
    },
  },
  // Of an agent that is not there: none of those that others ask for may be held.
  'POST /v1/holds': { body: () => ({ reason: 'a case', agent_id: mintId('agent', 1) }) },
  'GET /v1/holds': {},
  'DELETE /v1/holds/{id}': {
    path: '/v1/holds/:name',
    made: async () => ({ name: (await api.post('/v1/holds', { reason: 'a case', trace_id: unique('held') })).json.id }),
  },
  'GET /v1/budgets': {},
  'POST /v1/policies/{id}/reset': {
    path: '/v1/policies/:policy/reset',
    made: async (agent) => {
      const conditions = { limit: { events: 1_000_000 }, window: '1h' };
      const budget = { name: unique('budget'), type: 'budget', agent_id: agent, actions: ['log'], conditions };
      return { policy: (await api.post('/v1/policies', budget)).json.id };
    },
  },
  'GET /v1/prices': {},
  'POST /v1/prices': { body: () => ({ prices: [{ model: 'm', input: '1 USD', output: '1 USD' }] }) },
  'GET /v1/prices/revisions/{revision}': {
    path: '/v1/prices/revisions/:name',
    made: async () => {
      const price = { model: unique('model'), input: '1 USD', output: '1 USD' };
      const { json } = await api.post('/v1/prices', { prices: [price] });
      return { name: String(json.revision) };
    },
  },
  'POST /v1/alerts': { body: ({ agent }) => ({ name: unique('alert'), agent_id: agent, ...hook }) },
  'GET /v1/alerts': {},
  'GET /v1/alerts/{id}': { path: '/v1/alerts/:alert' },
  'PATCH /v1/alerts/{id}': { path: '/v1/alerts/:alert', body: () => ({ throttle_seconds: 1 }) },
  'POST /v1/alerts/{id}/rotate-secret': { path: '/v1/alerts/:alert/rotate-secret' },
  'POST /v1/alerts/{id}/test': { path: '/v1/alerts/:alert/test' },
  'DELETE /v1/alerts/{id}': { path: '/v1/alerts/:alert', made: fresh.alert },
  'GET /v1/deliveries': { path: '/v1/deliveries?agent_id=:agent' },
  'GET /v1/deliveries/{id}': { path: '/v1/deliveries/:delivery' },
  'POST /v1/deliveries/{id}/redeliver': { path: '/v1/deliveries/:delivery/redeliver' },
  'GET /v1/approvals': { path: '/v1/approvals?agent_id=:agent' },
  'GET /v1/approvals/{id}': { path: '/v1/approvals/:approval' },
  'POST /v1/approvals/{id}': {
    path: '/v1/approvals/:approval',
    body: () => ({ decision: 'approve' }),
    made: newApproval,
  },
  'GET /v1/anomalies': { path: '/v1/anomalies?agent_id=:agent' },
  'GET /v1/anomalies/{id}': { path: '/v1/anomalies/:anomaly' },
  'GET /v1/anomalies/{id}/series': { path: '/v1/anomalies/:anomaly/series' },
  'GET /v1/audit-logs': {},
  'GET /v1/audit-logs/{id}': { path: '/v1/audit-logs/:entry' },
  'GET /v1/audit-logs/verify': {},
  'GET /v1/audit-logs/checkpoint': {},
  'POST /v1/audit-logs/compare': { body: () => ({ checkpoint }) },
  'POST /v1/api-keys': { body: () => ({ label: unique('key'), scope: 'read' }) },
  'GET /v1/api-keys': {},
  'DELETE /v1/api-keys/{id}': {
    path: '/v1/api-keys/:name',
    made: async () => ({ name: (await newKey({ scope: 'read' })).id }),
  },
  'GET /v1/session': {},
  'DELETE /v1/session': {},
  'GET /v1/sessions': {},
  'DELETE /v1/sessions/{id}': {
    path: '/v1/sessions/:name',
    made: async () => ({
      name: (await api.call('POST', '/v1/session', { body: { key: service.key }, key: null })).json.id,
    }),
  },
  'GET /v1/usage': {},
  'GET /v1/account': {},
  'PATCH /v1/account': { body: () => ({ agent_down_seconds: 600 }) },
};

const filled = (text: string, of: Things) =>
  text.replace(/:([a-z]+)/g, (all, name: keyof Things) => (name in of ? encodeURIComponent(of[name]) : all));

async function ask(route: Route, as: Api, of: Things, headers: Record<string, string> = {}): Promise<Answer> {
  const known = ASKS[nameOf(route)] ?? {};
  const path = filled(known.path ?? route.path, of);
  return as.call(route.method, path, { headers, ...(known.body === undefined ? {} : { body: known.body(of) }) });
}

const trace = unique('shared trace');
const own = await thingsOf(trace);
const other = await thingsOf(trace);
const everywhere = { policy: await newPolicy(null), alert: await newAlert(null) };
await api.patch(`/v1/policies/${everywhere.policy}`, { status: 'inactive' });

type Kind = { name: string; scope: string; permissions: readonly string[]; bound: boolean; api: Api };
const ALL = ['submit', 'read', 'decide', 'configure'];
async function kindsOfKeys(): Promise<Kind[]> {
  const kind = async (scope: string, given: readonly string[] | undefined, bound: boolean): Promise<Kind> => {
    const key = await newKey({
      scope,
      ...(given === undefined ? {} : { permissions: given }),
      ...(bound ? { agent_id: own.agent } : {}),
    });
    const name = `${bound ? 'bound ' : ''}${scope}${given === undefined ? '' : ` with ${given.join(' ')}`}`;
    return { name, scope, permissions: given ?? (scope === 'read' ? ['read'] : ALL), bound, api: key.api };
  };
  const made = [await kind('admin', undefined, false)];
  for (const bound of [false, true]) {
    for (const scope of ['read', 'write']) made.push(await kind(scope, undefined, bound));
    for (const permission of ALL) made.push(await kind('write', [permission], bound));
    made.push(await kind('read', ['read'], bound), await kind('write', ['submit', 'read'], bound));
  }
  return made;
}
const kinds = await kindsOfKeys();
const checkpoint = (await api.get('/v1/audit-logs/checkpoint')).json;

t.test('every route of the table is known here', async (t) => {
  const withKey = routes.filter(({ needs }) => needs !== null && needs !== 'operator').map(nameOf);
  t.same(Object.keys(ASKS).sort(), withKey.sort());
});

t.test('every route, every kind of key: what is not permitted is 403 and named, the rest is let through', async (t) => {
  for (const route of routes) {
    for (const kind of kinds) {
      const label = `${nameOf(route)} as ${kind.name}`;
      const { needs, besides } = route;
      if (needs === 'operator') {
        const { status, json } = await ask(route, kind.api, own);
        t.match({ status, json }, { status: 401, json: { error: { code: 'invalid_token' } } }, label);
        continue;
      }
      const has = needs === 'admin' ? kind.scope === 'admin' : kind.permissions.includes(needs ?? 'any');
      const isShort = besides !== undefined && !kind.permissions.includes(besides);
      const permitted = (needs === null || needs === 'any' || has) && !isShort;
      const refused = !permitted || (kind.bound && route.bound === 'refused');
      // Where it would be let through things are made for it; a bound key's own agent is not to be deleted.
      const made = refused ? {} : ((await ASKS[nameOf(route)]?.made?.(own.agent)) ?? {});
      const answer = await ask(route, kind.api, { ...own, ...made });
      const { status, json } = answer;
      if (!permitted) {
        const missing = needs === 'admin' ? 'the scope admin' : `the permission ${has ? besides : needs}`;
        const error = json.error ?? json;
        t.match({ status, error }, { status: 403, error: { code: /^(insufficient_scope|7)$/ } }, label);
        t.ok(error.message.includes(missing), `${label}: names ${missing}`);
      } else if (refused) {
        t.match({ status, json }, { status: 403, json: { error: { code: 'insufficient_scope' } } }, label);
        t.ok(json.error.message.includes(own.agent), `${label}: says what the key is bound to`);
      } else if (kind.bound && needs === 'decide') {
        t.match({ status, json }, { status: 403, json: { error: { code: 'own_request' } } }, label);
      } else if (![401, 403, 404].includes(status) && status < 500) t.pass(label);
      else t.fail(label, { status, text: answer.text });
    }
  }
});

t.test(
  "a bound key: another agent's things are as unknown as what never was, and no answer tells of them",
  async (t) => {
    const nobodys: Things = {
      ...{ agent: mintId('agent', 1), name: mintId('apiKey', 1), event: mintId('event', 1), trace: 'no such trace' },
      entry: mintId('auditLog', 1),
      ...{ policy: mintId('policy', 1), alert: mintId('alert', 1), approval: mintId('approval', 1) },
      ...{
        delivery: mintId('delivery', 1),
        anomaly: mintId('anomaly', 1),
        backtest: mintId('backtest', 1),
        secret: 'x',
      },
    };
    const secrets = [other.agent, other.name, other.event, other.policy, other.alert, other.approval, other.delivery];
    secrets.push(other.backtest);
    const { api: bound } = await newKey({ scope: 'write', agent_id: own.agent });
    const same = { 'X-Request-Id': 'same' };
    const seen = ({ status, text }: Answer) => ({ status, text });
    for (const route of routes) {
      if (route.needs === null || route.needs === 'operator' || route.bound === 'refused') continue;
      const label = nameOf(route);
      const theirs = await ask(route, bound, { ...other, trace: unique('trace') }, same);
      const asked = ASKS[label]?.path ?? route.path;
      if (/:(?!trace)/.test(asked)) {
        t.equal(theirs.status, 404, `${label} of another agent`);
        t.same(seen(theirs), seen(await ask(route, bound, nobodys, same)), `${label}: as if it were not there`);
      }
      const mine = route.method === 'GET' ? [await ask(route, bound, own)] : [];
      if (route.method === 'GET') mine.push(await bound.get(filled(asked, own).split('?')[0]!));
      for (const { text } of [theirs, ...mine])
        for (const secret of [...secrets, other.secret]) t.notOk(text.includes(secret), `${label} tells nothing`);
      // A global policy or alert belongs to no one agent.
      if (label.endsWith('/{id}') && (label.includes('policies') || label.includes('alerts'))) {
        const answer = await ask(route, bound, { ...own, ...everywhere });
        t.equal(answer.status, 404, `${label} of a global one`);
      }
    }
    t.match((await api.get(`/v1/policies/${other.policy}`)).json, { severity: null, status: 'active' }, 'untouched');
    t.match((await api.get(`/v1/alerts/${everywhere.alert}`)).json, { throttle_seconds: 0, status: 'active' });
  },
);

t.test('a bound key: lists hold what is of its agent, all of it and nothing else', async (t) => {
  const { api: bound } = await newKey({ scope: 'read', agent_id: own.agent });
  const lists = ['events', 'policies', 'deliveries', 'approvals', 'anomalies'];
  for (const list of lists) {
    const all = await api.until(
      () => api.get(`/v1/${list}?agent_id=${own.agent}`),
      ({ json }) => json.total > 0,
    );
    const mine = await bound.get(`/v1/${list}`);
    t.ok(all.json.total > 0, `there are ${list}`);
    t.equal(mine.json.total, all.json.total, list);
    t.same(new Set(mine.json.items.map((item: { agent_id: string }) => item.agent_id)), new Set([own.agent]), list);
  }
  t.match((await bound.get('/v1/agents')).json, { items: [{ id: own.agent }], total: 1 });
  t.match((await bound.get('/v1/agents?offset=1')).json, { items: [], total: 1 });
  t.match((await bound.get('/v1/agents?status=inactive')).json, { items: [], total: 0 });
  const alerts = (await bound.get('/v1/alerts')).json;
  t.ok(alerts.total > 0 && alerts.items.every((alert: { agent_id: string }) => alert.agent_id === own.agent));

  const [whole, part] = [await api.get(`/v1/traces/${trace}`), await bound.get(`/v1/traces/${trace}`)];
  t.match(whole.json, { event_count: 2, agents: [own.agent, other.agent].sort() });
  t.match(part.json, { event_count: 1, agents: [own.agent], events: [{ id: own.event }] });
  t.equal(part.json.events.length, 1);
  t.match((await bound.get('/v1/traces')).json, { items: [{ event_count: 1, agents: [own.agent] }], total: 1 });

  const logs = (await bound.get('/v1/audit-logs?limit=500')).json.logs as Record<string, never>[];
  const actions = new Set(logs.map(({ action }) => action));
  for (const action of ['agent.registered', 'policy.created', 'alert.created', 'event.submitted', 'event.blocked'])
    t.ok(actions.has(action as never), `${action} is in its audit log`);
  for (const log of logs as never as { actor: string; resource_id: string; details: { agent_id?: string } }[])
    t.ok([log.actor, log.resource_id, log.details.agent_id].some((value) => value?.endsWith(own.agent)));
  t.same((await bound.get(`/v1/audit-logs?actor=agent:${other.agent}`)).json.total, 0);
});

t.test('a bound key that may configure makes and changes nothing but what is of its agent', async (t) => {
  const { api: bound } = await newKey({ scope: 'write', agent_id: own.agent, permissions: ['configure', 'read'] });
  const refusedAt = (answer: Answer, path: string, label: string) =>
    t.match(
      { status: answer.status, json: answer.json },
      { status: 400, json: { error: { code: 'validation_failed', details: [{ path }] } } },
      label,
    );
  const body = () => ({ name: unique('policy'), ...pays });
  refusedAt(await bound.post('/v1/policies', body()), '/agent_id', 'a global policy');
  refusedAt(await bound.post('/v1/policies', { ...body(), agent_id: null }), '/agent_id', 'a global policy');
  refusedAt(await bound.post('/v1/policies', { ...body(), agent_id: other.agent }), '/agent_id', "another's");
  const alert = () => ({ name: unique('alert'), ...hook });
  refusedAt(await bound.post('/v1/alerts', alert()), '/agent_id', 'a global alert');
  const scoped = { ...alert(), agent_id: own.agent, conditions: { agent_id: other.agent } };
  refusedAt(await bound.post('/v1/alerts', scoped), '/conditions/agent_id', 'conditions win');
  const mine = (await bound.post('/v1/alerts', { ...alert(), conditions: { agent_id: own.agent } })).json;
  t.equal(mine.agent_id, own.agent);
  refusedAt(await bound.patch(`/v1/alerts/${mine.id}`, { agent_id: null }), '/agent_id', 'moved to all');
  refusedAt(await bound.patch(`/v1/alerts/${mine.id}`, { agent_id: other.agent }), '/agent_id', 'moved');
  const moved = await bound.patch(`/v1/alerts/${mine.id}`, { conditions: { agent_id: other.agent } });
  refusedAt(moved, '/conditions/agent_id', 'moved by its conditions');

  const kept = { ...alert(), agent_id: other.agent };
  const headers = { 'Idempotency-Key': unique('once') };
  t.match((await api.post('/v1/alerts', kept, { headers })).json, { secret: /^whsec_/ });
  const replayed = await bound.post('/v1/alerts', kept, { headers });
  refusedAt(replayed, '/agent_id', 'the kept answer to another key is not given');
  t.notMatch(replayed.text, /whsec_/);

  t.equal((await bound.patch(`/v1/agents/${own.agent}`, { status: 'inactive' })).status, 200, 'it may stop its agent');
  t.match(await bound.patch(`/v1/agents/${own.agent}`, { status: 'active' }), {
    status: 403,
    json: { error: { code: 'insufficient_scope' } },
  });
  t.equal((await bound.patch(`/v1/agents/${own.agent}`, { description: 'x' })).status, 200);
  t.match((await api.patch(`/v1/agents/${own.agent}`, { status: 'active' })).json, { status: 'active' });
});

t.test('a bound key never decides what its agent asks for, whatever its permissions', async (t) => {
  const { api: bound } = await newKey({ scope: 'write', agent_id: own.agent });
  const decision = { decision: 'approve' };
  t.match(await bound.post(`/v1/approvals/${own.approval}`, decision), {
    status: 403,
    json: { error: { code: 'own_request' } },
  });
  t.match((await api.get(`/v1/approvals/${own.approval}`)).json, { status: 'pending' });
  t.equal((await bound.post(`/v1/approvals/${other.approval}`, decision)).status, 404, "another agent's is unknown");
  const { api: decides } = await newKey({ scope: 'write', permissions: ['decide'] });
  t.match(await decides.post(`/v1/approvals/${other.approval}`, decision), { json: { status: 'approved' } });
  t.match(await decides.post(`/v1/approvals/${own.approval}`, decision), { json: { status: 'approved' } });
  t.match(await bound.post(`/v1/approvals/${own.approval}`, decision), { json: { error: { code: 'own_request' } } });
});

t.test('what does not go together is refused when the key is made, and the field is named', async (t) => {
  const agent_id = own.agent;
  const bad: [object, string, RegExp][] = [
    [{ scope: 'write', agent_id: mintId('agent', 1) }, '/agent_id', /no such agent/],
    [{ scope: 'write', agent_id: 'agt_x' }, '/agent_id', /no such agent/],
    [{ scope: 'write', agent_id: 7 }, '/agent_id', /string/],
    [{ scope: 'admin', agent_id }, '/agent_id', /admin/],
    [{ scope: 'admin', permissions: ['read'] }, '/permissions', /admin/],
    [{ scope: 'read', permissions: ['submit'] }, '/permissions/0', /submit is more than the scope read/],
    [{ scope: 'read', permissions: ['read', 'decide'] }, '/permissions/1', /decide is more/],
    [{ scope: 'write', permissions: [] }, '/permissions', /fewer than 1/],
    [{ scope: 'write', permissions: ['read', 'read'] }, '/permissions', /duplicate/],
    [{ scope: 'write', permissions: ['admin'] }, '/permissions/0', /submit, read, decide, configure/],
    [{ scope: 'write', permissions: 'read' }, '/permissions', /array/],
    [{ scope: 'write', agent: agent_id }, '/agent', /unknown field/],
  ];
  for (const [body, path, message] of bad) {
    const { status, json } = await api.post('/v1/api-keys', { label: unique('key'), ...body });
    const wanted = { status: 400, json: { error: { code: 'validation_failed', details: [{ path, message }] } } };
    t.match({ status, json }, wanted, JSON.stringify(body));
  }
});

t.test('a key says what it may, in its answer, in the list and in the audit log', async (t) => {
  const agent = await newAgent();
  const made: [object, { agent_id: string | null; permissions: string[] }][] = [
    [{ scope: 'read' }, { agent_id: null, permissions: ['read'] }],
    [{ scope: 'write' }, { agent_id: null, permissions: ALL }],
    [{ scope: 'admin' }, { agent_id: null, permissions: ALL }],
    [
      { scope: 'write', agent_id: null, permissions: null },
      { agent_id: null, permissions: ALL },
    ],
    [
      { scope: 'write', agent_id: agent.id, permissions: ['submit'] },
      { agent_id: agent.id, permissions: ['submit'] },
    ],
  ];
  for (const [body, shown] of made) {
    const label = unique('shown');
    const { status, json } = await api.post('/v1/api-keys', { label, ...body });
    t.match({ status, json }, { status: 201, json: { label, ...shown } });
    const { items } = (await api.get('/v1/api-keys?limit=1')).json;
    t.match(items[0], { id: json.id, label, ...shown });
    const { logs } = (await api.get(`/v1/audit-logs?resource_id=${json.id}`)).json;
    t.same(logs[0].details.permissions, shown.permissions);
    t.equal(logs[0].details.agent_id ?? null, shown.agent_id);
  }
});

/**
 * Sends until a key is refused on both fronts: ten times running, since the kernel chooses the front of a connection.
 */
async function refusedEverywhere(t: Test, bound: Api, agent: string): Promise<void> {
  let running = 0;
  for (let i = 0; i < 900 && running < 10; i++) {
    const { status } = await bound.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: {} });
    running = status === 401 ? running + 1 : 0;
    if (status !== 401) await pause(100);
  }
  t.equal(running, 10, 'the key is refused on every front');
}

t.test('the last admin key stays, also when two are revoked at once', async (t) => {
  const first = new Api(t, { url: service.url, key: await keyOfNewAccount(service, unique('account')) });
  const own = async (of: Api) => (await of.get('/v1/api-keys')).json.items as { id: string; scope: string }[];
  const [only] = await own(first);
  const refused = await first.delete(`/v1/api-keys/${only!.id}`);
  t.match(refused, { status: 409, json: { error: { code: 'last_admin_key' } } });
  const expired = { label: 'short', scope: 'admin', expires_at: new Date(Date.now() + 1_500).toISOString() };
  await first.post('/v1/api-keys', expired);
  await first.post('/v1/api-keys', { label: 'not admin', scope: 'write' });
  await pause(1_600);
  t.equal((await first.delete(`/v1/api-keys/${only!.id}`)).status, 409, 'one that has expired is none');
  for (const { id } of await own(first)) if (id !== only!.id) await first.delete(`/v1/api-keys/${id}`);

  let key = first;
  for (let round = 0; round < 20; round++) {
    const { json } = await key.post('/v1/api-keys', { label: unique('admin'), scope: 'admin' });
    const other = new Api(t, { url: service.url, key: json.key });
    const mine = (await own(key)).find(({ id, scope }) => scope === 'admin' && id !== json.id)!;
    const answers = await Promise.all([key.delete(`/v1/api-keys/${json.id}`), other.delete(`/v1/api-keys/${mine.id}`)]);
    // The slower one gets that answer, or has no key any more.
    t.equal(answers.filter(({ status }) => status === 204).length, 1, answers.map(({ status }) => status).join(' '));
    key = answers[0]!.status === 204 ? key : other;
  }
});

t.test('a key that is revoked, or whose agent is deleted, is no key any more', async (t) => {
  const { id: agent } = await newAgent();
  const body = { scope: 'write', agent_id: agent, permissions: ['submit'] };
  const [revoked, orphan, free] = [await newKey(body), await newKey(body), await newKey({ scope: 'write' })];
  for (const key of [revoked, orphan]) {
    const sent = await key.api.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: {} });
    t.equal(sent.status, 201);
  }
  t.equal((await api.delete(`/v1/api-keys/${revoked.id}`)).status, 204);
  await refusedEverywhere(t, revoked.api, agent);
  t.equal((await orphan.api.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: {} })).status, 201);

  t.equal((await free.api.delete(`/v1/agents/${agent}`)).status, 204);
  await refusedEverywhere(t, orphan.api, agent);
  const left = (await api.get('/v1/api-keys?limit=100')).json.items.map(({ id }: { id: string }) => id);
  t.notOk(left.includes(orphan.id), 'it is not listed');
  t.equal((await api.delete(`/v1/api-keys/${orphan.id}`)).status, 404);
  const { logs } = (await api.get(`/v1/audit-logs?resource_id=${orphan.id}&action=api_key.revoked`)).json;
  t.match(logs, [{ actor: `key:${free.id}`, details: { scope: 'write', reason: 'agent_deleted' } }]);
  t.equal((await free.api.get('/v1/agents')).status, 200, 'other keys stand');
});
