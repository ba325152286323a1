// Lists as their callers read them, against the whole service: page by page by cursor, with as much of the payloads as
// they ask for, and what becomes of a cursor where it does not belong. Every answer is held against the service's own
// description.
import t, { type Test } from 'tap';
import { mintId } from '../../src/common/ids.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);

const TRACE_EVENTS = 1_050;
const agent = (await api.post('/v1/agents', { name: 'lists', metadata: {} })).json.id as string;
const rules = {
  type: 'block_action',
  agent_id: agent,
  conditions: { tool: 'pay' },
  actions: ['block'],
  severity: 'high',
};
const policy = (await api.post('/v1/policies', { name: 'no paying', ...rules })).json.id as string;
const filter = { type: 'data_filter', conditions: { detectors: ['email'] }, actions: ['log'] };
await api.post('/v1/policies', { name: 'mail addresses', ...filter });
await api.until(
  () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'pay', to: 'a@example.com' } }),
  ({ json }) => json.policy_result.outcome === 'blocked' && json.policy_result.matches.length === 2,
);
const send = (events: object[]) => api.post(`/v1/agents/${agent}/events/batch`, events);
/** Two of each time, so that time alone does not order them. */
const ofTrace = (i: number) => ({
  type: i % 3 === 0 ? 'prompt' : 'completion',
  trace_id: 'long',
  timestamp: new Date(Date.UTC(2026, 0, 1) + Math.floor(i / 2)).toISOString(),
  payload: { n: i, text: 'ü'.repeat(400) },
});
for (let i = 0; i < TRACE_EVENTS; i += 100)
  await send(Array.from({ length: Math.min(100, TRACE_EVENTS - i) }, (_, k) => ofTrace(i + k)));
for (let i = 0; i < 6; i++) {
  await send([{ type: 'tool_call', trace_id: `short-${i}`, payload: { tool: 'pay', n: i } }]);
  await api.post('/v1/alerts', {
    name: `alert-${i}`,
    trigger: 'agent_down',
    channel: 'webhook',
    target: 'https://x.invalid/',
  });
  await api.post('/v1/api-keys', { label: `key-${i}`, scope: 'read' });
  await api.post('/v1/agents', { name: `agent-${i}` });
  await api.post('/v1/policies', { name: `policy-${i}`, ...rules, conditions: { tool: `${i}` } });
  await api.post(`/v1/alerts/${(await api.get('/v1/alerts?limit=1')).json.items[0].id}/test`, undefined);
}
const holds = { type: 'require_approval', agent_id: agent, conditions: { tool: 'ask' }, actions: ['block'] };
await api.post('/v1/policies', { name: 'ask first', ...holds });
for (let i = 0; i < 5; i++) {
  await api.submitUntil('pending', agent, { type: 'tool_call', payload: { tool: 'ask', n: i } });
}

const LISTS = {
  '/v1/agents?': 'items',
  '/v1/agents?status=active&status=inactive&': 'items',
  '/v1/agents?name=agent-1&name=agent-3&name=agent-4&': 'items',
  '/v1/policies?': 'items',
  '/v1/alerts?': 'items',
  '/v1/api-keys?': 'items',
  '/v1/deliveries?': 'items',
  '/v1/approvals?status=pending&': 'items',
  [`/v1/anomalies?policy_id=${policy}&`]: 'items',
  '/v1/traces?': 'items',
  [`/v1/events?policy_id=${policy}&order=asc&`]: 'items',
  '/v1/events?outcome=blocked&outcome=pending&': 'items',
  [`/v1/agents/${agent}/events?type=tool_call&`]: 'items',
  '/v1/audit-logs?submissions=false&': 'logs',
  '/v1/audit-logs?action=policy.created&action=alert.created&order=asc&': 'logs',
};

type Shown = { id?: string; trace_id?: string };
const nameOf = ({ id, trace_id }: Shown) => id ?? trace_id;

t.test('every list goes on by cursor, in the order and with the total that it began with', async (t) => {
  for (const [path, name] of Object.entries(LISTS)) {
    const whole = (await api.get(`${path}limit=100`)).json;
    t.ok(whole.total >= 3, `${path}: ${whole.total}`);
    t.equal(whole.next_cursor, null, 'nothing behind the whole');
    const seen: Shown[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { status, json } = await api.get(`${path}limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      t.equal(status, 200);
      t.match(json, { total: whole.total, limit: 2, offset: seen.length });
      seen.push(...json[name]);
      cursor = json.next_cursor as string | null;
    }
    t.same(seen.map(nameOf), whole[name].map(nameOf), path);
    const behind = (await api.get(`${path}limit=2&offset=1`)).json.next_cursor as string | null;
    if (behind === null) continue;
    const third = (await api.get(`${path}limit=1&cursor=${behind}`)).json;
    t.match(third, { offset: 3 }, 'a list may begin by offset');
    t.same(third[name].map(nameOf), whole[name].slice(3, 4).map(nameOf));
  }
});

t.test('a cursor that does not belong is refused, by its name', async (t) => {
  const other = await keyOfNewAccount(service, 'another');
  const refuse = async (path: string, as = api) => {
    const { status, json } = await as.get(path);
    t.equal(status, 400, path);
    t.match(json.error, { code: 'validation_failed', details: [{ path: 'cursor' }] });
  };
  const next = async (path: string) => (await api.get(`${path}limit=1`)).json.next_cursor as string;
  for (const path of Object.keys(LISTS)) {
    const cursor = await next(path);
    await refuse(`${path}cursor=${cursor}&offset=1`);
    await refuse(`${path}cursor=${cursor}x`);
    await refuse(`${path}cursor=nonsense`);
    if (!path.startsWith(`/v1/agents/`)) await refuse(`${path}cursor=${cursor}`, api.as(other));
    for (const another of [
      '/v1/agents?status=inactive&',
      '/v1/events?',
      '/v1/traces/long?',
      '/v1/audit-logs?',
      '/v1/alerts?',
    ])
      if (another !== path) await refuse(`${another}cursor=${cursor}`);
  }
  await refuse(`/v1/events?type=error&cursor=${await next('/v1/events?type=prompt&')}`);
  await refuse(`/v1/events?order=asc&cursor=${await next('/v1/events?')}`);
});

t.test('every event of a long trace is shown, page by page', async (t) => {
  const first = (await api.get('/v1/traces/long')).json;
  t.match(first, { event_count: TRACE_EVENTS, next_cursor: String });
  t.equal(first.events.length, 1_000);
  const second = (await api.get(`/v1/traces/long?cursor=${first.next_cursor}`)).json;
  t.match(second, { event_count: TRACE_EVENTS, next_cursor: null, started_at: first.started_at, counts: first.counts });
  const all = [...first.events, ...second.events] as { payload: { n: number }; timestamp: string; id: string }[];
  t.same(
    all.map(({ payload }) => payload.n).sort((a, b) => a - b),
    Array.from({ length: TRACE_EVENTS }, (_, i) => i),
    'each once',
  );
  const times = all.map(({ timestamp }) => timestamp);
  t.same(times, times.toSorted(), 'in time order');
  const small = (await api.get('/v1/traces/long?limit=3&payload=none')).json;
  const more = (await api.get(`/v1/traces/long?limit=3&cursor=${small.next_cursor}`)).json;
  t.same(
    [...small.events, ...more.events].map(({ id }) => id),
    all.slice(0, 6).map(({ id }) => id),
  );
  t.notOk('payload' in small.events[0]);
  for (const query of ['limit=0', 'limit=1001', 'offset=0', 'payload=some'])
    t.equal((await api.get(`/v1/traces/long?${query}`)).status, 400, query);
  t.equal((await api.get('/v1/traces/none?limit=5')).status, 404);
});

t.test('lists hold as much of each payload as is asked for', async (t) => {
  const check = async (t: Test, path: string, name: string) => {
    const full = (await api.get(`${path}limit=60`)).json[name];
    for (const [mode, keys] of [
      ['full', ['payload']],
      ['preview', ['payload_preview', 'payload_bytes']],
      ['none', ['payload_bytes']],
    ] as const) {
      const { json, text } = await api.get(`${path}limit=60&payload=${mode}`);
      t.equal(json[name].length, full.length);
      for (const [i, event] of (json[name] as Record<string, unknown>[]).entries()) {
        const { payload, ...rest } = full[i];
        const sent = JSON.stringify(payload);
        const whole = {
          payload,
          payload_preview: [...sent].slice(0, 256).join(''),
          payload_bytes: Buffer.byteLength(sent),
        };
        const wanted = { ...rest, ...Object.fromEntries(keys.map((key) => [key, whole[key]])) };
        if (!t.strictSame(event, wanted, `${path} ${mode}`)) return;
      }
      const rest = full.reduce(
        (sum: number, { payload: _, ...event }: { payload: object }) => sum + JSON.stringify(event).length,
        0,
      );
      if (mode === 'none') t.ok(text.length < rest + 40 * full.length + 500, `${text.length} characters`);
    }
  };
  await check(t, '/v1/events?', 'items');
  await check(t, '/v1/events?q=pay&', 'items');
  await check(t, `/v1/agents/${agent}/events?type=completion&`, 'items');
  await check(t, '/v1/traces/long?', 'events');
  t.equal((await api.get('/v1/events?payload=half')).status, 400);
});

t.test('counts of events stand under the filters of the list, and are those of the list', async (t) => {
  const total = async (query: string) => (await api.get(`/v1/events?limit=1&${query}`)).json.total as number;
  for (const query of [
    '',
    'outcome=blocked',
    `policy_id=${policy}`,
    'type=prompt&type=completion',
    'q=nothing-has-this',
  ]) {
    const { json } = await api.get(`/v1/events/histogram?by=type&buckets=30&${query}`);
    const buckets = json.buckets as { total: number; counts: Record<string, number> }[];
    const sum = (of: (one: (typeof buckets)[number]) => number) => buckets.reduce((all, one) => all + of(one), 0);
    t.equal(
      sum((one) => one.total),
      await total(query),
      query,
    );
    t.equal(
      sum((one) => Object.values(one.counts).reduce((a, b) => a + b, 0)),
      await total(query),
      query,
    );
  }
  const { json } = await api.get('/v1/events/facets?outcome=blocked');
  t.equal(json.total, await total('outcome=blocked'));
  const of = (facet: string, value: string) =>
    json[facet].values.find((one: { value: string }) => one.value === value) as { count: number; name?: string };
  t.equal(of('outcome', 'allowed').count, await total('outcome=allowed'), 'its own filter is left out');
  t.match(of('policy_id', policy), { count: await total('outcome=blocked'), name: String });
  t.ok(json.agent_id.values.every(({ name }: { name?: string }) => typeof name === 'string'));
  t.match((await api.get('/v1/events/histogram?from=2001-01-01T00:00:00Z&to=2001-01-01T00:00:10Z&buckets=10')).json, {
    from: '2001-01-01T00:00:00.000Z',
    bucket_ms: 5_000,
    buckets: [{ total: 0 }, { total: 0 }, { total: 0 }],
  });
  const days = 'from=2001-07-01T00:00:00Z&to=2001-07-02T00:00:00Z&buckets=2';
  t.match((await api.get(`/v1/events/histogram?${days}&zone=Asia/Kathmandu`)).json, {
    from: '2001-06-30T18:15:00.000Z',
    bucket_ms: 86_400_000,
    buckets: [{ at: '2001-06-30T18:15:00.000Z' }, { at: '2001-07-01T18:15:00.000Z' }],
  });
  t.match((await api.get('/v1/events/histogram?from=2001-01-01T00:00:00Z&to=2000-01-01T00:00:00Z')).json, {
    error: { code: 'validation_failed', details: [{ path: 'from', message: /after to/ }] },
  });
  for (const [name, value] of [
    ['by', 'colour'],
    ['buckets', '0'],
    ['buckets', '501'],
    ['from', 'noon'],
    ['limit', '5'],
    ['zone', 'Mars/Olympus'],
  ])
    t.match((await api.get(`/v1/events/histogram?${name}=${value}`)).json, {
      error: { code: 'validation_failed', details: [{ path: name }] },
    });
});

t.test('events are found by what matched them', async (t) => {
  const total = async (query: string) => (await api.get(`/v1/events?${query}`)).json.total as number;
  const blocked = await total('outcome=blocked');
  t.ok(blocked > 6);
  t.equal(await total(`policy_id=${policy}`), blocked);
  t.equal(await total(`policy_id=${policy}&policy_id=${mintId('policy', 0)}`), blocked);
  t.equal(await total('severity=high'), blocked);
  t.equal(await total('severity=low&severity=critical'), 0);
  t.ok((await total('detector=email')) >= 1);
  t.equal(await total('detector=jwt'), 0);
  t.equal(await total('reason=policy'), await total('outcome=blocked&outcome=pending'));
  t.equal(await total('reason=agent_inactive&reason=approval'), 0);
  t.equal(await total('type=prompt&type=completion'), TRACE_EVENTS);
  for (const query of ['severity=dire', 'reason=none', `policy_id=${'x'.repeat(201)}`, 'type=prompt&type=shout'])
    t.equal((await api.get(`/v1/events?${query}`)).status, 400, query);
});

t.test('agents are listed with what they did in the last day', async (t) => {
  const agent = (await api.post('/v1/agents', { name: 'active' })).json.id;
  const idle = (await api.post('/v1/agents', { name: 'idle' })).json.id;
  const now = Date.now();
  const send = (hoursAgo: number, payload: object) =>
    api.post(`/v1/agents/${agent}/events`, {
      ...{ type: 'custom', payload, timestamp: new Date(now - hoursAgo * 3_600_000).toISOString() },
    });
  for (const hoursAgo of [0.1, 0.2, 5.5, 23.4, 25]) await send(hoursAgo, {});
  await api.patch(`/v1/agents/${agent}`, { status: 'inactive' });
  await api.untilOutcome('blocked', () => send(1.5, {}));
  const { json } = await api.get('/v1/agents?activity=true&limit=100');
  const of = (id: string) => json.items.find((one: { id: string }) => one.id === id).activity;
  const { hourly, events_24h: events, blocked_24h: blocked } = of(agent);
  t.same([hourly[23], hourly[18], hourly[0]], [2, 1, 1], 'by the hour');
  t.equal(
    events,
    hourly.reduce((sum: number, n: number) => sum + n, 0),
  );
  t.ok(blocked >= 1 && blocked === hourly[22], 'blocked ones among them');
  t.same(of(idle), { events_24h: 0, blocked_24h: 0, hourly: Array(24).fill(0) });
  const plain = (await api.get('/v1/agents?limit=100')).json.items;
  t.notOk(
    plain.some((one: object) => 'activity' in one),
    'only where it is asked for',
  );
});

t.test('approvals are listed with the events that they are about', async (t) => {
  const { json } = await api.get('/v1/approvals?expand=event&limit=100');
  t.ok(json.items.length > 0);
  for (const { event, event_id: id, agent_id: agent, outcome } of json.items) {
    t.match(event, { id, agent_id: agent, policy_result: { outcome } });
    const { summary, ...whole } = event;
    t.match(summary, /^ask\(n: \d\)$/);
    t.same(whole, (await api.get(`/v1/agents/${agent}/events/${id}`)).json, 'as it is by itself');
  }
  const light = (await api.get('/v1/approvals?expand=event&payload=none&limit=1')).json.items[0];
  t.same(
    Object.keys(light.event).filter((name) => name.startsWith('payload')),
    ['payload_bytes'],
  );
  t.notOk('event' in (await api.get('/v1/approvals?limit=1')).json.items[0]);
  t.equal((await api.get('/v1/approvals?expand=agent')).status, 400);
});

t.test('a row of a list says in a sentence what it is about, however much of the payload comes with it', async (t) => {
  const text = `Where is "it"? ${'x'.repeat(6_000)}`;
  const traced = { trace_id: 'says', timestamp: '2026-01-02T00:00:00Z' };
  await send([
    { ...traced, type: 'prompt', payload: { model: 'm-1', messages: [{ role: 'user', content: text }] } },
    {
      ...traced,
      type: 'tool_call',
      payload: { tool: 'pay', arguments: { amount: 1 }, tokens_used: 7, duration_ms: 12.5 },
    },
    { ...traced, type: 'error', payload: { error: { type: 'timeout', message: 'after 30 s' } } },
  ]);
  const [asked, called, failed] = [/^Where is "it"\? x+…$/, /^pay\(amount: 1\)$/, /^timeout: after 30 s$/];
  type Row = { summary: string; model?: string; tokens_used?: number };
  for (const payload of ['full', 'preview', 'none']) {
    const { items } = (await api.get(`/v1/events?trace_id=says&order=asc&payload=${payload}`)).json as { items: Row[] };
    t.match(items, [{ summary: asked, model: 'm-1' }, { summary: called, tokens_used: 7 }, { summary: failed }]);
    t.notOk('model' in items[1]! || 'tokens_used' in items[0]!, 'left out where there is none');
    const { events } = (await api.get(`/v1/traces/says?payload=${payload}`)).json as { events: Row[] };
    t.same(
      events.map(({ summary }) => summary),
      items.map(({ summary }) => summary),
      `of a trace, ${payload}`,
    );
  }
  const csv = await api.get('/v1/events/export?format=csv&trace_id=says&payload=none&order=asc');
  t.match(csv.text, /summary,tokens_used,cost,currency,model,duration_ms\r\n/);
  t.match(csv.text, /pay\(amount: 1\),7,,,,12\.5\r\n/, 'what the columns of the page show');
  t.match(csv.text, /…",,,,m-1,\r\n/);
  t.match((await api.get('/v1/traces?q=%22after%2030%20s%22')).json, {
    total: 1,
    items: [{ trace_id: 'says', asked }],
  });
  const first = (await api.get('/v1/traces?sort=tokens&limit=1')).json;
  t.match(first.items, [{ trace_id: 'says' }]);
  t.equal((await api.get(`/v1/traces?sort=events&limit=1&cursor=${first.next_cursor}`)).status, 400, 'another order');
  const waiting = (await api.get('/v1/approvals?status=pending&expand=event&payload=none')).json.items;
  t.match(
    waiting,
    Array.from({ length: 5 }, () => ({ event: { summary: /^ask\(n: \d\)$/ } })),
  );
});

t.test('anomalies and entries of the audit log say what their event says, where they are asked to', async (t) => {
  const plain = (await api.get(`/v1/anomalies?policy_id=${policy}`)).json.items;
  t.ok(plain.length > 0 && plain.every((one: object) => !('summary' in one)));
  const anomalies = (await api.get(`/v1/anomalies?policy_id=${policy}&expand=summary`)).json.items;
  t.ok(
    anomalies.every(({ summary }: { summary: string }) => summary.startsWith('pay(')),
    'each of the call that was blocked',
  );
  const blocked = (await api.get('/v1/audit-logs?action=event.blocked&expand=summary')).json.logs;
  const said = blocked.map(({ summary }: { summary: unknown }) => summary);
  t.ok(said.includes('pay(n: 0)') && said.every((one: unknown) => typeof one === 'string'), `${said}`);
  const registered = (await api.get('/v1/audit-logs?action=agent.registered&expand=summary')).json.logs;
  t.ok(registered.length > 0 && registered.every(({ summary }: { summary: null }) => summary === null));
});
