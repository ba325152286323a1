// Traces listed by each of their values, searched for words, and with what was asked first, against a plain reckoning
// over the same events. Many are equal, so that ties count. What holds while rows arrive is also in
// cursors.clickhouse.test.ts.
import t from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { summariesOf } from '../../clickhouse/queries/get-event.ts';
import { SEARCHED_TRACES_MAX } from '../../clickhouse/queries/trace-search.ts';
import { getTrace, listTraces } from '../../clickhouse/queries/traces.ts';
import { ORDERS, TRACE_SORTS, type TraceSort } from '../../schemas/closed-sets.ts';
import type { Position } from '../../schemas/paging.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
const [account, other] = [mintId('account', BASE), mintId('account', BASE)];
const agents = [0, 1].map((i) => mintId('agent', BASE + i));
const WORDS = ['alpha', 'beta', 'gamma'];

const clickhouse = (await startClickHouse(t)).makeDatabase();
await migrate(clickhouse, { retentionDays: 36_500 });

type Priced = TestEvent & { cost: number | null; priced_by: string };

/** Few different values of each kind. */
const events: Priced[] = Array.from({ length: 40 }, (_, trace) =>
  Array.from({ length: 1 + (trace % 3) }, (_, i) => {
    const isAsked = i === 1 || (i === 0 && trace % 4 === 0);
    const outcome = (['allowed', 'blocked', 'allowed', 'pending'] as const)[(trace + i) % 4]!;
    const event = plainEvent({
      ...{ account_id: account, agent_id: agents[(trace + i) % 2]!, trace_id: `trace-${trace}` },
      ...{ received_at: BASE + trace, timestamp: BASE + Math.floor(trace / 5) * 1000 + i * 100 * (trace % 2) },
      type: isAsked ? 'prompt' : i === 2 ? 'error' : 'tool_call',
      payload: isAsked
        ? `{"prompt":"${WORDS[trace % 3]} of trace ${trace}, ${i}"}`
        : `{"tool":"find","arguments":{"n":${trace}.0,"i":${i}}}`,
      tokens_used: trace % 5 === 0 ? null : trace % 4,
      ...{ outcome, reason: outcome === 'allowed' ? '' : 'policy', policy_result: '' },
    });
    // Without prices, without one for its model, or three sums that occur again and again.
    const cost = trace % 6 < 2 ? null : (trace % 3) * 1_500;
    return { ...event, cost, priced_by: trace % 6 === 0 ? '' : 'USD 2' };
  }),
).flat();
await clickhouse.insertEvents(events.map(encodeStored), 'traces');
const foreign = plainEvent({ ...{ account_id: other, agent_id: agents[0]!, received_at: BASE, trace_id: 'trace-0' } });
await clickhouse.insertEvents([{ ...foreign, payload: '{"prompt":"alpha foreign"}' }].map(encodeStored), 'foreign');
/** Every second event that waited was denied. */
const denied = new Set(events.filter(({ outcome }, i) => outcome === 'pending' && i % 2 === 0).map(({ id }) => id));
const at = new Date(BASE).toISOString();
await clickhouse.insertRows(
  'approvals',
  [...denied].map((event_id, revision) => ({
    ...{
      account_id: account,
      agent_id: agents[0],
      id: mintId('approval', BASE),
      event_id,
      policy_id: 'pol_1',
      revision,
    },
    ...{ policy_name: 'p', status: 'denied', outcome: 'blocked', on_timeout: 'deny', expires_at: at, created_at: at },
    decided_at: at,
  })),
);

type Reckoned = { id: string; first: Priced; events: Priced[] };

function traces(of: readonly Priced[] = events): Reckoned[] {
  return [...new Set(of.map(({ trace_id: id }) => id))].map((id) => {
    const all = of.filter((event) => event.trace_id === id).sort(inTime);
    return { id, first: all[0]!, events: all };
  });
}

function inTime(a: TestEvent, b: TestEvent): number {
  return a.timestamp - b.timestamp || (a.id < b.id ? -1 : 1);
}

const isBlocked = ({ id, outcome }: TestEvent) => outcome === 'blocked' || denied.has(id);
const VALUES: Record<TraceSort, (trace: Reckoned) => number> = {
  started_at: ({ first }) => first.timestamp,
  duration: ({ events: all }) => all.at(-1)!.timestamp - all[0]!.timestamp,
  tokens: ({ events: all }) =>
    all.every(({ tokens_used: n }) => n === null) ? -1 : all.reduce((sum, { tokens_used: n }) => sum + (n ?? 0), 0),
  cost: ({ events: all }) =>
    all.every(({ cost: n }) => n === null) ? -1 : all.reduce((sum, { cost: n }) => sum + (n ?? 0), 0),
  events: ({ events: all }) => all.length,
  blocked: ({ events: all }) => all.filter(isBlocked).length,
  errors: ({ events: all }) => all.filter(({ type }) => type === 'error').length,
};

function sorted(of: Reckoned[], sort: TraceSort, order: 'asc' | 'desc'): string[] {
  const turn = order === 'asc' ? 1 : -1;
  return of.sort((a, b) => turn * (VALUES[sort](a) - VALUES[sort](b) || inTime(a.first, b.first))).map(({ id }) => id);
}

async function allPages(page: Omit<Parameters<typeof listTraces>[2], 'limit' | 'offset'>, limit: number) {
  const ids: string[] = [];
  let after: Position | undefined;
  let total: number | null = null;
  for (;;) {
    const listed = await listTraces(clickhouse, account, { ...page, limit, offset: 0, after, begunAt: BASE + 10_000 });
    ids.push(...listed.items.map(({ trace_id }) => trace_id));
    if (after === undefined) total = listed.total;
    if (listed.next === null) return { ids, total };
    after = listed.next;
  }
}

t.test('by each value, either way, page by page, equal ones by when they began', async (t) => {
  for (const sort of TRACE_SORTS)
    for (const order of ORDERS) {
      const wanted = sorted(traces(), sort, order);
      const { ids, total } = await allPages({ sort, order }, 7);
      t.same(ids, wanted, `${sort}, ${order}`);
      t.equal(total, wanted.length);
      const ofAgent = events.filter(({ agent_id: id }) => id === agents[0]);
      const bound = await allPages({ sort, order, onlyAgent: agents[0] }, 9);
      t.same(bound.ids, sorted(traces(ofAgent), sort, order), `${sort}, ${order}, as one agent sees them`);
    }
});

t.test('what arrived after the list began moves nothing in it', async (t) => {
  const before = await allPages({ sort: 'events', order: 'desc' }, 50);
  const last = before.ids.at(-1)!;
  const late = Array.from({ length: 5 }, () =>
    plainEvent({ ...{ account_id: account, agent_id: agents[0]!, trace_id: last, received_at: BASE + 20_000 } }),
  );
  await clickhouse.insertEvents(late.map(encodeStored), 'late');
  t.same(await allPages({ sort: 'events', order: 'desc' }, 7), before);
  const { items } = await listTraces(clickhouse, account, { sort: 'events', limit: 1, offset: 0 });
  t.equal(items[0]!.trace_id, last, 'a list that begins now has it');
  await clickhouse.command(`DELETE FROM events WHERE received_at >= fromUnixTimestamp64Milli(${BASE + 20_000})`);
});

t.test('words are found in any event of a trace', async (t) => {
  for (const q of ['alpha', '"of trace"', 'find', 'foreign', '"beta of trace 1"']) {
    const words = q.replaceAll('"', '');
    const wanted = traces().filter(({ events: all }) =>
      all.some(({ payload }) => new RegExp(`\\b${words}\\b`).test(payload)),
    );
    const { ids, total } = await allPages({ q }, 4);
    t.same(ids, sorted(wanted, 'started_at', 'desc'), q);
    t.equal(total, wanted.length, q);
  }
  const from = BASE + 3_000;
  const later = traces().filter(
    ({ first, events: all }) => first.timestamp >= from && /alpha/.test(all.map((e) => e.payload).join()),
  );
  t.same((await allPages({ q: 'alpha', from, sort: 'events' }, 3)).ids, sorted(later, 'events', 'desc'));
});

t.test('a word that is in very many traces is refused, and says what to do', async (t) => {
  const account = mintId('account', BASE);
  const many = Array.from({ length: SEARCHED_TRACES_MAX + 1 }, (_, i) =>
    plainEvent({
      account_id: account,
      agent_id: agents[0]!,
      received_at: BASE,
      timestamp: BASE + i,
      trace_id: `t${i}`,
      payload: '{"a":"common"}',
    }),
  );
  await clickhouse.insertEvents(many.map(encodeStored), 'many');
  const ask = (from?: number) => listTraces(clickhouse, account, { q: 'common', from, limit: 1, offset: 0 });
  await t.rejects(ask(), { code: 'validation_failed', details: [{ path: 'q', message: /more than 1,000 traces/ }] });
  t.equal((await ask(BASE + 1)).total, SEARCHED_TRACES_MAX, 'from later on they are few enough');
});

t.test('what was asked is the first prompt, or the first event', async (t) => {
  const { items } = await listTraces(clickhouse, account, { limit: 100, offset: 0 });
  const known = new Map(traces().map((trace) => [trace.id, trace]));
  for (const { trace_id: id, asked } of items) {
    const { events: all } = known.get(id)!;
    const event = all.find(({ type }) => type === 'prompt') ?? all[0]!;
    const { prompt, arguments: given } = JSON.parse(event.payload) as { prompt?: string; arguments?: { i: number } };
    const n = id.slice('trace-'.length);
    t.equal(asked, prompt ?? `find(n: ${n}.0, i: ${given!.i})`, id);
    t.equal((await getTrace(clickhouse, account, id))!.trace.asked, asked, 'and so says the trace itself');
  }
  t.equal(
    (await getTrace(clickhouse, account, 'trace-2', { limit: 1 }))!.trace.asked,
    'gamma of trace 2, 1',
    'of a page',
  );
});

t.test('events by their ids say the same, those of others nothing', async (t) => {
  const found = await summariesOf(clickhouse, account, [events[1]!.id, foreign.id, 'nothing', mintId('event', BASE)]);
  t.equal(found.size, 1);
  t.match(found.get(events[1]!.id), /of trace|find\(/);
  t.same(await summariesOf(clickhouse, account, []), new Map());
});
