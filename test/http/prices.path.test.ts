// Prices against the whole service: the table with its revisions, and what events cost wherever they are read, by every
// way that they come: one by one, in batches, under an Idempotency-Key, large, as spans, as calls of a proxy. A changed
// price changes no stored cost. Sums are reckoned here by hand.
import t from 'tap';
import type { Price } from '../../schemas/price-table.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { attributesOf } from '../support/otlp-protobuf.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService(t);
const api = await Api.described(t, service);
const agent = (await api.post('/v1/agents', { name: 'spender' })).json.id as string;

const price = (model: string, input: string, more: Partial<Price> = {}): Price => ({
  ...{ model, input: `${input} USD`, output: '10 USD', ...more },
});
const used = (model: string, input: number, output: number, more: object = {}) => ({
  ...{ type: 'completion', payload: { model, usage: { prompt_tokens: input, completion_tokens: output } }, ...more },
});

/** Waits until events are priced by this revision: in force within a second. */
async function inForce(revision: number): Promise<void> {
  const { id } = (await api.post('/v1/agents', { name: 'probe', metadata: {} })).json;
  await api.until(
    async () => {
      const made = await api.post(`/v1/agents/${id}/events`, used('probe', 1, 0));
      return api.get(`/v1/agents/${id}/events/${made.json.id}`);
    },
    ({ json }) => json.price_revision === revision,
  );
  t.equal((await api.delete(`/v1/agents/${id}`)).status, 204);
}

const costsOf = async (query: string) =>
  (await api.get(`/v1/events?order=asc&limit=100&${query}`)).json.items.map(
    ({ cost, price_revision: revision }: { cost?: string | null; price_revision?: number }) => [cost, revision],
  );

t.test('an account begins without prices, and its events without costs', async (t) => {
  const empty = await api.get('/v1/prices');
  t.match(empty, { status: 200, json: { revision: 1, currency: null, prices: [], updated_at: null } });
  t.equal(empty.headers.get('etag'), '"1"');
  const { json } = await api.post(`/v1/agents/${agent}/events`, used('m-1', 5, 5, { trace_id: 'before' }));
  const read = (await api.get(`/v1/agents/${agent}/events/${json.id}`)).json;
  t.notOk('cost' in read || 'price_revision' in read);
  t.match((await api.get('/v1/traces/before')).json, { cost: null, unpriced_events: 0, tokens_used: 10 });
  t.notOk('cost' in (await api.get('/v1/overview')).json, 'nor has its overview');
});

t.test('a table is replaced at its revision, kept, and audited', async (t) => {
  const first = [price('m-*', '1'), price('m-1', '2.50', { cached_input: '1.25 USD' })];
  const made = await api.post('/v1/prices', { prices: first }, { headers: { 'if-match': '"1"' } });
  t.match(made, { status: 200, json: { revision: 2, currency: 'USD', prices: first, updated_at: /Z$/ } });
  t.equal(made.headers.get('etag'), '"2"');
  t.same((await api.get('/v1/prices')).json, made.json);
  const late = await api.post('/v1/prices', { prices: [] }, { headers: { 'if-match': '"1"' } });
  t.match(late, { status: 412, json: { error: { code: 'revision_conflict' } } });
  t.equal((await api.post('/v1/prices', { prices: first })).json.revision, 2, 'nothing differs, and nothing is made');
  const second = [price('m-1', '3'), price('new', '1')];
  t.equal((await api.post('/v1/prices', { prices: second })).json.revision, 3);
  t.match((await api.get('/v1/prices/revisions/2')).json, { ...made.json, actor: /^key:/ });
  t.match((await api.get('/v1/prices/revisions/3')).json, { revision: 3, prices: second });
  for (const none of ['1', '4', '0', 'x']) t.equal((await api.get(`/v1/prices/revisions/${none}`)).status, 404, none);
  const { logs } = (await api.get('/v1/audit-logs?action=prices.updated')).json;
  t.match(logs, [
    {
      resource_type: 'prices',
      details: { revision: 3, prices: 2, added: ['new'], changed: ['m-1'], removed: ['m-*'] },
    },
    { actor: /^key:/, details: { revision: 2, prices: 2, added: ['m-*', 'm-1'], changed: [], removed: [] } },
  ]);
});

t.test('what is no price table is refused with the place', async (t) => {
  const before = (await api.get('/v1/prices')).json;
  for (const [prices, path] of [
    [[price('a', '1'), { ...price('b', '1'), output: '1 EUR' }], '/prices/1/output'],
    [[{ ...price('a', '1'), input: '1 EUR', output: '1 EUR' }], '/prices/0/input'],
    [[price('a', '1.1234567')], '/prices/0/input'],
    [[price('a', '1', { from: '2026-02-30' })], '/prices/0/from'],
    [[price('a', '1'), price('a', '2', { from: '2026-01-01' })], '/prices/1/model'],
    [[{ model: 'a', input: '1 USD' }], '/prices/0/output'],
    [Array.from({ length: 501 }, (_, i) => price(`m${i}`, '1')), '/prices'],
  ] as const) {
    const { status, json } = await api.post('/v1/prices', { prices });
    t.match({ status, path: json.error.details[0].path }, { status: 400, path });
    if (path === '/prices/1/model') t.match(json.error.details[0].message, /for some of these days at \/prices\/0/);
  }
  t.same((await api.get('/v1/prices')).json, before);
});

t.test('every way in is priced, and every way out shows it', async (t) => {
  const prices = [price('m-1', '2.50', { cached_input: '1.25 USD' }), price('probe', '1'), price('dear', '1000')];
  const { revision } = (await api.post('/v1/prices', { prices })).json;
  await inForce(revision);
  const cached = { prompt_tokens: 1117, completion_tokens: 46, prompt_tokens_details: { cached_tokens: 1024 } };
  const one = { type: 'completion', trace_id: 'priced', payload: { response: { model: 'm-1', usage: cached } } };
  const made = await api.post(`/v1/agents/${agent}/events`, one);
  t.notOk('cost' in made.json, 'not in the answer to a submission');
  const batch = [
    used('m-1', 100, 10, { trace_id: 'priced' }),
    { type: 'prompt', trace_id: 'priced', payload: { model: 'm-1', prompt: 'without tokens' } },
    { type: 'nonsense' },
    used('unheard-of', 100, 10, { trace_id: 'priced' }),
  ];
  await api.post(`/v1/agents/${agent}/events/batch`, batch);
  const headers = { 'idempotency-key': 'once' };
  for (let i = 0; i < 2; i++)
    await api.post(`/v1/agents/${agent}/events`, used('m-1', 4, 1, { trace_id: 'priced' }), { headers });
  const large = { ...used('dear', 10, 0), trace_id: 'priced' };
  Object.assign(large.payload, { response: 'x '.repeat(150_000) });
  await api.post(`/v1/agents/${agent}/events`, large);

  // 93 * 2.50 + 1024 * 1.25 + 46 * 10 = 1972.5; 100 * 2.50 + 10 * 10; none; unknown; 4 * 2.50 + 10; 10 * 1000
  const wanted = ['0.001973 USD', '0.00035 USD', undefined, null, '0.00002 USD', '0.01 USD'];
  t.same(
    await costsOf('trace_id=priced'),
    wanted.map((cost) => [cost, cost === undefined ? undefined : revision]),
  );
  const single = await api.get(`/v1/agents/${agent}/events/${made.json.id}`);
  t.match(single.json, { cost: '0.001973 USD', price_revision: revision });
  const sums = { cost: '0.012343 USD', unpriced_events: 1 };
  t.match((await api.get('/v1/traces/priced')).json, sums);
  t.match((await api.get('/v1/traces/priced?limit=2')).json, sums, 'of a page of it, too');
  const sorted = (await api.get('/v1/traces?sort=cost')).json.items;
  t.match(sorted[0], { trace_id: 'priced', ...sums });
  t.equal(sorted.at(-1).trace_id, 'before', 'what is not known comes last');

  const lines = (await api.get('/v1/events/export?trace_id=priced&order=asc')).text.trim().split('\n');
  t.same(
    lines.map((line) => JSON.parse(line).cost),
    wanted,
  );
  const csv = (await api.get('/v1/events/export?trace_id=priced&order=asc&format=csv&payload=none')).text;
  t.match(csv.split('\r\n')[0], /,tokens_used,cost,currency,model,duration_ms$/);
  t.match(csv.split('\r\n')[1], /,1163,0\.001973,USD,,$/);
  t.match(csv.split('\r\n')[4], /,110,,,unheard-of,$/);
});

t.test('the overview has the cost by model and agent, beside the day and the week before', async (t) => {
  const key = await keyOfNewAccount(service, 'overview of costs');
  const of = new Api(t, { url: service.url, key });
  const [a, b] = [
    (await of.post('/v1/agents', { name: 'a' })).json.id as string,
    (await of.post('/v1/agents', { name: 'b' })).json.id as string,
  ];
  const { revision } = (await of.post('/v1/prices', { prices: [price('x', '1'), price('y', '2')] })).json;
  const at = (day: number, more: object) => ({ ...more, timestamp: `2026-05-${day}T10:00:00Z` });
  const probe = { ...used('x', 1, 0), timestamp: '2020-01-01T00:00:00Z' };
  await of.until(
    async () => of.get(`/v1/agents/${a}/events/${(await of.post(`/v1/agents/${a}/events`, probe)).json.id}`),
    ({ json }) => json.price_revision === revision,
  );
  await of.post(`/v1/agents/${a}/events/batch`, [
    ...[
      at(20, used('x', 1_000, 0)),
      at(20, used('y', 1_000, 0)),
      at(20, used('none', 5, 5)),
      at(19, used('x', 300, 0)),
    ],
    at(19, used('none', 5, 5)),
  ]);
  await of.post(`/v1/agents/${b}/events/batch`, [at(20, used('y', 500, 100)), at(20, { type: 'prompt', payload: {} })]);
  const found = (await of.get('/v1/overview?from=2026-05-20T00:00:00Z&to=2026-05-20T12:00:00Z')).json;
  t.same(found.cost, {
    total: { now: '0.005 USD', day_before: '0.0003 USD', week_before: null },
    unpriced_events: { now: 1, day_before: 1, week_before: 0 },
    model: {
      values: [
        { value: 'y', cost: '0.004 USD' },
        { value: 'x', cost: '0.001 USD' },
      ],
      other: '0.00 USD',
    },
    agent_id: {
      values: [
        { value: a, name: 'a', cost: '0.003 USD' },
        { value: b, name: 'b', cost: '0.002 USD' },
      ],
      other: '0.00 USD',
    },
  });
  const bound = (await of.get(`/v1/overview?agent_id=${b}&from=2026-05-20T00:00:00Z&to=2026-05-20T12:00:00Z`)).json;
  t.match(bound.cost, { total: { now: '0.002 USD', day_before: null }, unpriced_events: { now: 0 } });
});

t.test('spans are priced by their own counts', async (t) => {
  const { revision } = (await api.get('/v1/prices')).json;
  const now = `${Date.now()}000000`;
  const span = {
    ...{ traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), name: 'chat', startTimeUnixNano: now, endTimeUnixNano: now },
    attributes: attributesOf({
      ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm-1', 'gen_ai.usage.output_tokens': 10 },
      ...{ 'gen_ai.usage.input_tokens': 100, 'gen_ai.usage.cached_tokens': 40 },
    }),
  };
  const resource = { attributes: attributesOf({ 'service.name': 'spender' }) };
  const sent = await fetch(`${service.url}/v1/traces`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] }),
  });
  t.equal(sent.status, 200);
  // 60 * 2.50 + 40 * 1.25 + 10 * 10
  t.same(await costsOf(`trace_id=${span.traceId}&type=completion`), [['0.0003 USD', revision]]);
});

t.test('a changed price holds for what comes then, and what is stored keeps its cost', async (t) => {
  const before = await costsOf('trace_id=priced');
  const { revision } = (await api.post('/v1/prices', { prices: [price('m-1', '25'), price('probe', '1')] })).json;
  await inForce(revision);
  await api.post(`/v1/agents/${agent}/events`, used('m-1', 100, 10, { trace_id: 'dearer' }));
  t.same(await costsOf('trace_id=dearer'), [['0.0026 USD', revision]]);
  t.same(await costsOf('trace_id=priced'), before);
  const { revision: last } = (await api.post('/v1/prices', { prices: [] })).json;
  t.equal(last, revision + 1);
  await api.until(
    async () => {
      const made = await api.post(`/v1/agents/${agent}/events`, used('m-1', 1, 1));
      return api.get(`/v1/agents/${agent}/events/${made.json.id}`);
    },
    ({ json }) => !('price_revision' in json),
  );
  t.equal((await api.get('/v1/prices')).json.currency, 'USD', 'without prices the currency stays');
});

t.test('keys see and change what their scope says', async (t) => {
  const withKey = async (body: object) => {
    const { key } = (await api.post('/v1/api-keys', { label: 'one', ...body })).json;
    return { key: key as string };
  };
  const prices = [price('m-1', '1')];
  const reader = await withKey({ scope: 'read' });
  t.equal((await api.get('/v1/prices', reader)).status, 200);
  t.equal((await api.post('/v1/prices', { prices }, reader)).status, 403);
  const bound = await withKey({ scope: 'write', agent_id: agent });
  t.equal((await api.get('/v1/prices', bound)).status, 403, 'they are of the whole account');
  const stranger = { key: await keyOfNewAccount(service, 'strangers to prices') };
  t.equal((await api.get('/v1/prices', stranger)).json.revision, 1, 'another account has its own');
  t.equal((await api.get('/v1/prices/revisions/2', stranger)).status, 404);
});

t.test('counts over time and by value have costs where they are asked for', async (t) => {
  const { id } = (await api.post('/v1/agents', { name: 'counted' })).json;
  const model = `counted-${id}`;
  t.equal((await api.post('/v1/prices', { prices: [price(model, '1')] })).status, 200);
  await inForce((await api.get('/v1/prices')).json.revision);
  const at = (minute: number) => ({ timestamp: `2026-01-01T00:0${minute}:00Z` });
  const sent = [used(model, 1e6, 0, at(0)), used(model, 0, 1e6, at(0)), used('free', 5, 5, at(2))];
  for (const event of sent) t.equal((await api.post(`/v1/agents/${id}/events`, event)).status, 201);
  const range = `agent_id=${id}&from=2026-01-01T00:00:00Z&to=2026-01-01T00:02:59Z`;
  const facets = (await api.get(`/v1/events/facets?costs=true&${range}`)).json;
  const [priced, free] = [
    { value: model, count: 2, cost: '11.00 USD' },
    { value: 'free', count: 1, cost: null },
  ];
  t.same(facets.model.values, [priced, free]);
  t.match(
    facets.agent_id.values.find(({ value }: { value: string }) => value === id),
    { count: 3, cost: '11.00 USD' },
  );
  t.match(facets.type.values, [{ value: 'completion', cost: '11.00 USD' }]);
  t.notOk('cost' in facets.outcome.values[0]);
  const { buckets } = (await api.get(`/v1/events/histogram?costs=true&buckets=3&${range}`)).json;
  t.same(
    buckets.map(({ cost }: { cost: unknown }) => cost),
    ['11.00 USD', null, null],
  );
  const plain = (await api.get(`/v1/events/histogram?${range}`)).json;
  t.notOk('cost' in plain.buckets[0] || 'cost' in (await api.get(`/v1/events/facets?${range}`)).json.model.values[0]);
  t.match(await api.get('/v1/events/facets?costs=1'), { status: 400 });
});
