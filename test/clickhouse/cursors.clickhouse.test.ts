// Lists read by cursor, while rows arrive: whatever comes in between two pages, before, behind or beside the place
// where the reader stands, each item that was there when the list began is shown once and in order. And a page that
// lies deep is as cheap as the first.

import t, { type Test } from 'tap';
import { RecordingClickHouse } from '../../bench/recording-clickhouse.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { listAnomalies } from '../../clickhouse/queries/list-anomalies.ts';
import { listApprovals } from '../../clickhouse/queries/list-approvals.ts';
import { listAuditLogs } from '../../clickhouse/queries/list-audit-logs.ts';
import { listDeliveries } from '../../clickhouse/queries/list-deliveries.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { getTrace, listTraces } from '../../clickhouse/queries/traces.ts';
import { ORDERS, OUTCOMES, TRACE_SORTS } from '../../schemas/closed-sets.ts';

import type { Listed, PageStart } from '../../schemas/paging.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
const account = mintId('account', BASE);
const agents = [0, 1, 2].map((i) => mintId('agent', BASE + i));
const iso = (ms: number) => new Date(ms).toISOString();

/** A fixed stream of numbers: a failure is the same failure the next time. */
let state = 23;
function pick(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

const server = await startClickHouse(t);
const clickhouse = server.makeDatabase();
await migrate(clickhouse, { retentionDays: 36_500 });

let inserts = 0;
/** When it is, epoch ms; what is inserted arrives within the next few. */
let clock = BASE;
/** Few different times, so that pages end in the middle of equal ones. */
async function insertEvents(count: number, receivedAt: number, more: (i: number) => Partial<TestEvent> = () => ({})) {
  const events = Array.from({ length: count }, (_, i) => {
    const outcome = OUTCOMES[Math.max(0, pick(6) - 3)]!;
    return plainEvent({
      account_id: account,
      agent_id: agents[pick(3)]!,
      received_at: receivedAt + pick(5),
      timestamp: BASE - pick(12) * 1000,
      timestamp_micros: [0, 0, 1, 456, 999][pick(5)]!,
      trace_id: `trace-${pick(9)}`,
      payload: JSON.stringify({ text: pick(2) === 0 ? 'alpha' : 'beta', n: i }),
      type: pick(4) === 0 ? 'error' : 'custom',
      tokens_used: pick(4) === 0 ? null : pick(3),
      outcome,
      reason: outcome === 'allowed' ? '' : 'policy',
      ...more(i),
    });
  });
  await clickhouse.insertEvents(events.map(encodeStored), `events-${++inserts}`);
}

async function insertRecords(count: number, at: number) {
  const rows = <T extends object>(make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
  const common = () => ({ account_id: account, agent_id: agents[pick(3)]!, revision: ++inserts });
  const time = () => iso(at + pick(3));
  await Promise.all([
    clickhouse.insertRows(
      'anomalies',
      rows(() => ({
        ...{ account_id: account, agent_id: agents[pick(3)]!, id: mintId('anomaly', at), kind: 'error_rate' },
        ...{ severity: 'low', message: 'm', timestamp: iso(BASE - pick(5) * 1000), created_at: iso(at) },
      })),
    ),
    clickhouse.insertRows(
      'approvals',
      rows(() => ({
        ...{ ...common(), id: mintId('approval', at), event_id: mintId('event', at), policy_id: 'pol_1' },
        ...{ policy_name: 'p', status: 'pending', outcome: 'pending', on_timeout: 'deny', expires_at: iso(at) },
        created_at: time(),
      })),
    ),
    clickhouse.insertRows(
      'deliveries',
      rows(() => ({
        ...{ ...common(), id: mintId('delivery', BASE + pick(1000)), alert_id: 'alr_1', alert_name: 'a', target: 'x' },
        ...{ trigger: 'agent_down', severity: 'high', channel: 'webhook', status: 'pending', count: 1, test: false },
        ...{ attempts: '[]', created_at: iso(at), updated_at: iso(at), signal: '{}' },
      })),
    ),
    clickhouse.insertRows(
      'audit_log',
      rows((i) => ({
        ...{ account_id: account, id: mintId('auditLog', at), action: 'policy.updated', actor: 'key:1' },
        ...{ resource_type: 'policy', resource_id: `pol_${i}`, details: '{}', created_at: time() },
      })),
    ),
  ]);
}

type List = (page: PageStart) => Promise<Listed<string>>;
/** Ids of what a list of ours answers. */
const idsOf = async <T extends { id: string }>(listed: Promise<Listed<T>>): Promise<Listed<string>> => {
  const { items, ...rest } = await listed;
  return { ...rest, items: items.map(({ id }) => id) };
};

async function walk(
  list: List,
  limit: number,
  between: () => Promise<void> = async () => undefined,
): Promise<string[]> {
  const seen: string[] = [];
  clock += 1_000;
  const begunAt = clock;
  let start: PageStart = { limit, offset: 0, begunAt };
  for (;;) {
    const { items, next } = await list(start);
    seen.push(...items);
    if (next === null) return seen;
    if (items.length !== limit) throw new Error(`${items.length} of ${limit} items, and more behind them`);
    await between();
    start = { limit, offset: 0, after: next, begunAt };
  }
}

const LISTS: Record<string, List> = {
  events: (page) => idsOf(listEvents(clickhouse, account, page)),
  'events, oldest first': (page) => idsOf(listEvents(clickhouse, account, { ...page, order: 'asc' })),
  'events of an agent': (page) => idsOf(listEvents(clickhouse, account, { ...page, agentId: agents[0] })),
  'events of an agent, oldest first': (page) =>
    idsOf(listEvents(clickhouse, account, { ...page, agentId: agents[0], order: 'asc' })),
  'events of two agents': (page) =>
    idsOf(listEvents(clickhouse, account, { ...page, agentId: agents.slice(1), type: 'custom' })),
  'a search': (page) => idsOf(listEvents(clickhouse, account, { ...page, q: 'alpha' })),
  'blocked events': (page) => idsOf(listEvents(clickhouse, account, { ...page, outcome: ['blocked', 'pending'] })),
  traces: async (page) => {
    const { items, ...rest } = await listTraces(clickhouse, account, page);
    return { ...rest, items: items.map((trace) => trace.trace_id) };
  },
  'traces of an agent': async (page) => {
    const { items, ...rest } = await listTraces(clickhouse, account, { ...page, agentId: agents[1] });
    return { ...rest, items: items.map((trace) => trace.trace_id) };
  },
  ...Object.fromEntries(
    TRACE_SORTS.flatMap((sort) => ORDERS.map((order) => ({ sort, order }))).map(({ sort, order }) => [
      `traces by ${sort}, ${order}`,
      async (page: PageStart) => {
        const { items, ...rest } = await listTraces(clickhouse, account, { ...page, sort, order });
        return { ...rest, items: items.map((trace) => trace.trace_id) };
      },
    ]),
  ),
  'traces with a word': async (page) => {
    const { items, ...rest } = await listTraces(clickhouse, account, { ...page, q: 'alpha', sort: 'events' });
    return { ...rest, items: items.map((trace) => trace.trace_id) };
  },
  'one trace': async (page) => {
    const { events, trace, next } = (await getTrace(clickhouse, account, 'trace-7', page))!;
    return { items: events.map(({ id }) => id), positions: [], total: trace.event_count, next };
  },
  'audit log': (page) => idsOf(listAuditLogs(clickhouse, account, page)),
  'audit log, oldest first': (page) => idsOf(listAuditLogs(clickhouse, account, { ...page, order: 'asc' })),
  'audit log without submissions': (page) => idsOf(listAuditLogs(clickhouse, account, { ...page, submissions: false })),
  'audit log, searched': (page) => idsOf(listAuditLogs(clickhouse, account, { ...page, q: 'policy' })),
  anomalies: (page) => idsOf(listAnomalies(clickhouse, account, page)),
  approvals: (page) => idsOf(listApprovals(clickhouse, account, page)),
  deliveries: (page) => idsOf(listDeliveries(clickhouse, account, page)),
};

await insertEvents(90, BASE);
await insertRecords(40, BASE);

async function compare(t: Test, list: List, limit: number, between?: () => Promise<void>): Promise<void> {
  const { items: whole, total, next } = await list({ limit: 5_000, offset: 0 });
  t.equal(next, null);
  t.equal(whole.length, total, 'all of it');
  const walked = await walk(list, limit, between);
  t.equal(new Set(walked).size, walked.length, 'nothing twice');
  const known = new Set(whole);
  t.same(
    walked.filter((id) => known.has(id)),
    whole,
    'all that was there, in order',
  );
  if (between === undefined) t.equal(walked.length, whole.length);
}

t.test('pages put together are the whole list', async (t) => {
  for (const [name, list] of Object.entries(LISTS)) {
    const { total } = await list({ limit: 1, offset: 0 });
    t.ok(total! > 8, `${name}: ${total}`);
    for (const limit of [7, total!, total! - 1]) await compare(t, list, limit);
  }
});

t.test('nothing is shown twice or passed over while rows arrive', async (t) => {
  for (const [name, list] of Object.entries(LISTS)) {
    const { total } = await list({ limit: 1, offset: 0 });
    // After the list began, and before, beside and behind what has been shown.
    const arrive = async () => {
      clock += 1_000;
      await insertEvents(4, clock);
      await insertRecords(2, clock);
    };
    await t.test(name, (t) => compare(t, list, Math.ceil(total! / 4), arrive));
  }
});

t.test('what is behind a cursor is not counted again', async (t) => {
  for (const [name, list] of Object.entries(LISTS)) {
    const { next } = await list({ limit: 3, offset: 0 });
    if (name !== 'one trace') t.equal((await list({ limit: 3, offset: 0, after: next! })).total, null, name);
  }
});

t.test('a page that lies deep reads no more than the first', async (t) => {
  const own = mintId('account', BASE);
  const count = 30_000;
  for (let i = 0; i < count; i += 10_000) {
    const more = (k: number) => ({ account_id: own, timestamp: BASE - (i + k) * 10, received_at: BASE - (i + k) * 10 });
    await insertEvents(10_000, BASE, (k) => ({ ...more(k), trace_id: '', outcome: 'allowed', reason: '' }));
  }
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  const recording = new RecordingClickHouse({ url: server.url, database: clickhouse.database });
  t.teardown(() => recording.close());
  const reads = async (read: () => Promise<unknown>) => {
    recording.rowsRead = 0;
    await read();
    return recording.rowsRead;
  };
  const lists: Record<string, (page: PageStart) => Promise<Listed<unknown>>> = {
    timeline: (page) => listEvents(recording, own, page),
    'oldest first': (page) => listEvents(recording, own, { ...page, order: 'asc' }),
    'of an agent': (page) => listEvents(recording, own, { ...page, agentId: agents[0] }),
    'audit log': (page) => listAuditLogs(recording, own, page),
  };
  for (const [name, list] of Object.entries(lists)) {
    const place = async (offset: number) => (await list({ limit: 1, offset })).next!;
    const [near, far] = [await place(10), await place(name === 'of an agent' ? 8_000 : 27_000)];
    const [first, deep] = [
      await reads(() => list({ limit: 50, offset: 0, after: near })),
      await reads(() => list({ limit: 50, offset: 0, after: far })),
    ];
    t.ok(deep <= 1.5 * first + 2_048, `${name}: ${deep} rows read at depth, ${first} at the beginning`);
    t.ok(deep < count / 3, `${name}: ${deep} of ${count}`);
  }
});
