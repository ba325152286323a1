// What is past the retention: no read shows it, and it is deleted from merged parts, of every table whose rows expire;
// what an account keeps longer, or holds, stays and is read. Needs redis-server and the engine.
import t, { type Test } from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { countBy } from '../../clickhouse/queries/count-events.ts';
import { getEvent } from '../../clickhouse/queries/get-event.ts';
import { EXPIRING_TABLES } from '../../clickhouse/queries/kept-rows.ts';
import { getAnomaly, listAnomalies } from '../../clickhouse/queries/list-anomalies.ts';
import { listApprovals } from '../../clickhouse/queries/list-approvals.ts';
import { listAuditLogs } from '../../clickhouse/queries/list-audit-logs.ts';
import { listDeliveries } from '../../clickhouse/queries/list-deliveries.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { getTrace, listTraces } from '../../clickhouse/queries/traces.ts';
import { RowExpiry } from '../../pipelines/store/row-expiry.ts';
import type { Hold } from '../../schemas/hold.ts';
import type { OwnRetention } from '../../schemas/retention.ts';
import { derivedId, mintId } from '../../src/common/ids.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { keptOf, type RetentionSettings } from '../../src/registry/accounts/account-retention.ts';
import type { AccountRecord } from '../../src/registry/accounts/accounts.ts';
import { connectStore, type Store } from '../registry/harness.ts';
import { eventually, silent } from '../streams/harness.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { startRedis } from '../support/redis.ts';

const DAY_MS = 86_400_000;
/** In the middle of a month, so that one has rows on both sides of thirty days. */
const NOW = Date.UTC(2026, 8, 20, 15);
const SETTINGS: RetentionSettings = { retentionDays: 30, retentionMinDays: 1, retentionMaxDays: 100 };
/** Days ago: in a month that is past whole, in one that is past in part, and young ones. */
const AGES = [60, 31, 30, 29, 0];
const TYPES = ['prompt', 'tool_call'] as const;
/** So many, or the engine does not use projections. */
const COPIES = 300;

type World = {
  store: Store;
  raw: ClickHouse;
  read: ClickHouse;
  expiry: RowExpiry;
  accounts: Map<string, AccountRecord>;
};

async function makeWorld(t: Test): Promise<World> {
  const { makeDatabase, url } = await startClickHouse(t);
  const raw = makeDatabase();
  const accounts = new Map<string, AccountRecord>();
  const read = new ClickHouse({
    ...{ url, database: raw.database, queryTimeoutSeconds: 60 },
    keptOf: (account) => keptOf(accounts.get(account)!, SETTINGS, NOW),
  });
  t.teardown(() => read.close());
  await migrate(raw, { retentionDays: 100 });
  const { address } = await startRedis(t);
  const store = await connectStore(t, address);
  const metrics = new Metrics({ processName: 'test' });
  const expiry = new RowExpiry({
    ...{ ...store, clickhouse: raw, metrics, log: silent, retention: SETTINGS, lookMs: 0, now: () => NOW },
  });
  return { store, raw, read, expiry, accounts };
}

type Own = { retention?: OwnRetention; holds?: Hold[] };

async function addAccount({ store, accounts }: World, own: Own = {}): Promise<string> {
  const id = mintId('account', NOW);
  const at = new Date(NOW).toISOString();
  const record: AccountRecord = {
    id,
    name: id,
    request_limit: null,
    agent_down_seconds: null,
    created_at: at,
    updated_at: at,
    ...own,
  };
  accounts.set(id, record);
  await store.redis.hset(store.keys.accounts(store.keys.shardOf(id)), id, JSON.stringify(record));
  return id;
}

function hold(what: { agent_id?: string; trace_id?: string }): Hold {
  const nothing = { agent_id: null, trace_id: null };
  return { id: 'hld_1', reason: 'a case', ...nothing, ...what, created_at: '', created_by: 'system' };
}

/** An agent with events of each age and type, and one row of each other table for each age. Parts are merged. */
async function fill({ raw }: World, account: string, agent: string): Promise<TestEvent[]> {
  const events = AGES.flatMap((age) =>
    TYPES.flatMap((type) =>
      Array.from({ length: COPIES }, (_, i) => {
        const received_at = NOW - age * DAY_MS - i;
        const of = { account_id: account, agent_id: agent, received_at, type, trace_id: `of ${age} days` };
        // Of the caller's clock nothing depends.
        return plainEvent({ ...of, timestamp: NOW - i, payload: '{"note":"needle"}' });
      }),
    ),
  );
  for (const age of AGES) {
    const some = events.filter(({ trace_id: trace }) => trace === `of ${age} days`);
    await raw.insertEvents(some.map(encodeStored), `${account} ${agent} ${age}`);
    await raw.insertRows(...anomaliesOf(some[0]!));
    await raw.insertRows(...approvalsOf(some[0]!));
    await raw.insertRows(...deliveriesOf(some[0]!));
  }
  return events;
}

const timeOf = ({ received_at: at }: TestEvent) => new Date(at).toISOString().replace('T', ' ').replace('Z', '');
type Rows = [table: string, rows: object[]];

function anomaliesOf(event: TestEvent): Rows {
  const { account_id, agent_id, id: event_id } = event;
  const of = { account_id, agent_id, event_id, kind: 'volume_spike', severity: 'low', message: '', observed: 1 };
  return [
    'anomalies',
    [{ ...of, id: derivedId('anomaly', event_id), timestamp: timeOf(event), created_at: timeOf(event) }],
  ];
}

function approvalsOf(event: TestEvent): Rows {
  const { account_id, agent_id, id: event_id } = event;
  const of = {
    account_id,
    agent_id,
    event_id,
    policy_id: 'pol_1',
    policy_name: 'p',
    status: 'denied',
    outcome: 'blocked',
  };
  const at = { created_at: timeOf(event), expires_at: timeOf(event), decided_at: timeOf(event), revision: 1 };
  return ['approvals', [{ ...of, ...at, id: derivedId('approval', event_id), on_timeout: 'deny' }]];
}

function deliveriesOf(event: TestEvent): Rows {
  const { account_id, agent_id } = event;
  const of = { account_id, agent_id, alert_id: 'alr_1', alert_name: 'a', trigger: 'agent_down', revision: 1 };
  const more = { severity: 'high', channel: 'webhook', target: 't', status: 'delivered', count: 1, test: false };
  const row = { ...of, ...more, attempts: '[]', signal: '{}', created_at: timeOf(event), updated_at: timeOf(event) };
  return ['deliveries', [{ ...row, id: derivedId('delivery', event.id) }]];
}

/** How much of each a caller sees. */
async function seen({ read }: World, account: string, events: readonly TestEvent[]) {
  const page = { limit: 1, offset: 0 };
  const total = async (listed: Promise<{ total: number | null }>) => (await listed).total;
  const agentId = events[0]!.agent_id;
  const single = await Promise.all(
    AGES.map((age) => {
      const { id } = events.find(({ trace_id: trace }) => trace === `of ${age} days`)!;
      return getEvent(read, account, agentId, id);
    }),
  );
  const traces = await Promise.all(AGES.map((age) => getTrace(read, account, `of ${age} days`)));
  const anomalies = await Promise.all(
    AGES.map((age) => {
      const { id } = events.find(({ trace_id: trace }) => trace === `of ${age} days`)!;
      return getAnomaly(read, account, derivedId('anomaly', id));
    }),
  );
  const counted = await countBy(read, account, { by: 'type', max: 5, filter: {} });
  return {
    events: await total(listEvents(read, account, page)),
    ofAgent: await total(listEvents(read, account, { ...page, agentId })),
    found: await total(listEvents(read, account, { ...page, q: 'needle' })),
    counted: Object.fromEntries(counted.values),
    audit: await total(listAuditLogs(read, account, page)),
    traces: await total(listTraces(read, account, page)),
    single: AGES.filter((_, i) => single[i] !== null),
    wholeTraces: AGES.filter((_, i) => traces[i] !== null),
    anomalies: await total(listAnomalies(read, account, page)),
    oneAnomaly: AGES.filter((_, i) => anomalies[i] !== null),
    approvals: await total(listApprovals(read, account, page)),
    deliveries: await total(listDeliveries(read, account, page)),
  };
}

/** The results of queries when events of these ages are there: of both types, or of one. */
function sight(both: readonly number[], { prompts = [] as readonly number[], others = both } = {}) {
  const tool_call = both.length * COPIES;
  const prompt = (both.length + prompts.length) * COPIES;
  const events = tool_call + prompt;
  const ages = AGES.filter((age) => both.includes(age) || prompts.includes(age));
  const [anomalies, approvals, deliveries] = [others.length, others.length, others.length];
  return {
    ...{ events, ofAgent: events, found: events, audit: events, traces: ages.length, single: ages, wholeTraces: ages },
    counted: { ...(prompt > 0 && { prompt }), ...(tool_call > 0 && { tool_call }) },
    ...{ anomalies, approvals, deliveries, oneAnomaly: AGES.filter((age) => others.includes(age)) },
  };
}

/** Until a look has found nothing left. */
async function expireAll({ expiry, store: { redis, keys } }: World): Promise<void> {
  await redis.set(keys.retentionApplied(), 1);
  const done = await eventually(async () => {
    await expiry.look();
    return (await redis.get(keys.retentionApplied())) === String(NOW);
  });
  if (!done) throw new Error('it was not applied');
}

t.test('rows that are past are read no more at once, and are gone from merged parts after a cycle', async (t) => {
  const world = await makeWorld(t);
  const account = await addAccount(world);
  const events = await fill(world, account, mintId('agent', NOW));
  for (const table of EXPIRING_TABLES) await world.raw.command(`OPTIMIZE TABLE ${table} FINAL`);
  const kept = sight([30, 29, 0]);
  t.same(await seen(world, account, events), kept, 'none is deleted yet');
  const stored = async () => {
    const counts = EXPIRING_TABLES.map((table) => `SELECT '${table}' AS name, count() AS n FROM ${table}`);
    const rows = await world.raw.query<{ name: string; n: number }>(counts.join(' UNION ALL '));
    return Object.fromEntries(rows.map(({ name, n }) => [name, n]));
  };
  const all = AGES.length;
  t.same(await stored(), { events: all * 2 * COPIES, anomalies: all, approvals: all, deliveries: all });
  await expireAll(world);
  t.same(await stored(), { events: 3 * 2 * COPIES, anomalies: 3, approvals: 3, deliveries: 3 });
  const [parts] = await world.raw.query<{ stored: number; without: number }>(
    `SELECT sum(rows) AS stored, countIf(table = 'events' AND name NOT IN (SELECT parent_name FROM system.projection_parts
       WHERE database = currentDatabase() AND active AND name = 'by_time')) AS without
     FROM system.parts WHERE database = currentDatabase() AND table IN ('events', 'anomalies', 'approvals', 'deliveries') AND active AND rows > 0`,
  );
  t.same(parts, { stored: 3 * 2 * COPIES + 9, without: 0 }, 'the parts do not have them, and have their projections');
  t.same(await seen(world, account, events), kept);
  world.accounts.set(account, { ...world.accounts.get(account)!, retention: { days: 100, days_by_type: {} } });
  t.same(await seen(world, account, events), kept, 'also for who may see all of it');
});

t.test(
  'an account keeps for as long as it has set, each type of event by itself, within what is allowed',
  async (t) => {
    const world = await makeWorld(t);
    const agent = mintId('agent', NOW);
    const longer = await addAccount(world, { retention: { days: 40, days_by_type: {} } });
    const byType = await addAccount(world, { retention: { days: 29, days_by_type: { prompt: 400 } } });
    const other = await addAccount(world);
    const all = [
      [longer, sight([31, 30, 29, 0])],
      // The most that is allowed is 100 days. What hangs on events stays as long as any of their types.
      [byType, sight([29, 0], { prompts: [60, 31, 30], others: AGES })],
      [other, sight([30, 29, 0])],
    ] as const;
    const events = new Map<string, TestEvent[]>();
    for (const [account] of all) events.set(account, await fill(world, account, agent));
    for (const when of ['before', 'after']) {
      // `sight` looks for a single event by its prompt, which is the first.
      for (const [account, expected] of all) t.same(await seen(world, account, events.get(account)!), expected, when);
      await expireAll(world);
    }
  },
);

t.test('what is under a hold is kept and read whatever its age, until it is released', async (t) => {
  const world = await makeWorld(t);
  const [agent, heldAgent] = [mintId('agent', NOW), mintId('agent', NOW)];
  const whole = await addAccount(world, { holds: [hold({})] });
  const ofAgent = await addAccount(world, { holds: [hold({ agent_id: heldAgent })] });
  const ofTrace = await addAccount(world, { holds: [hold({ trace_id: 'of 60 days' })] });
  const wholeEvents = await fill(world, whole, agent);
  await fill(world, ofAgent, agent);
  const heldEvents = await fill(world, ofAgent, heldAgent);
  const traceEvents = await fill(world, ofTrace, agent);
  for (const table of EXPIRING_TABLES) await world.raw.command(`OPTIMIZE TABLE ${table} FINAL`);
  for (const when of ['before', 'after']) {
    t.same(await seen(world, whole, wholeEvents), sight(AGES), `the account, ${when}`);
    const held = await seen(world, ofAgent, heldEvents);
    t.match(held, {
      events: (3 + AGES.length) * 2 * COPIES,
      ofAgent: AGES.length * 2 * COPIES,
      single: AGES,
      anomalies: 8,
    });
    t.same(await seen(world, ofTrace, traceEvents), sight([60, 30, 29, 0], { others: AGES }), `the trace, ${when}`);
    await expireAll(world);
  }
  const record = { ...world.accounts.get(whole)!, holds: [] };
  world.accounts.set(whole, record);
  await world.store.redis.hset(
    world.store.keys.accounts(world.store.keys.shardOf(whole)),
    whole,
    JSON.stringify(record),
  );
  t.same(await seen(world, whole, wholeEvents), sight([30, 29, 0]), 'released');
  await expireAll(world);
  const [left] = await world.raw.query<{ n: number }>(
    'SELECT count() AS n FROM events WHERE account_id = {account:String}',
    {
      account: whole,
    },
  );
  t.equal(left!.n, 3 * 2 * COPIES, 'and deleted');
});
