// An erasure in a table that is large enough for its projections to be read: nothing counts the erased rows, before and
// after the parts are rewritten. (Over a few hundred rows the engine reads the rows themselves, and a projection that
// lies is not noticed.)
import t from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { eraseAgent, partsToRewrite, rewriteErased } from '../../clickhouse/queries/erase-agent.ts';
import { listAuditLogs } from '../../clickhouse/queries/list-audit-logs.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { listTraces } from '../../clickhouse/queries/traces.ts';
import { mintId } from '../../src/common/ids.ts';
import { eventually } from '../streams/harness.ts';
import { encodeStored, plainEvent, startClickHouse } from '../support/clickhouse.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
const INSERTS = 3;
const EVENTS = 4_000;

const account = mintId('account', BASE);
const agents = Array.from({ length: 4 }, (_, i) => mintId('agent', BASE + i));

function rowOf(i: number): Buffer {
  const event = {
    account_id: account,
    agent_id: agents[i % agents.length]!,
    received_at: BASE + i,
    trace_id: `trace-${i % 100}-${i % agents.length}`,
    outcome: i % 8 < 4 ? ('allowed' as const) : ('blocked' as const),
  };
  return encodeStored(plainEvent(event));
}

async function seen(clickhouse: ClickHouse) {
  const page = { limit: 50, offset: 0 };
  const timeline = await listEvents(clickhouse, account, page);
  const since = await listEvents(clickhouse, account, { ...page, from: BASE + EVENTS });
  const audit = await listAuditLogs(clickhouse, account, page);
  const ofLast = await listEvents(clickhouse, account, { ...page, agentId: agents.at(-1)! });
  const blocked = await listEvents(clickhouse, account, { ...page, outcome: 'blocked' });
  const ofFirst = await listEvents(clickhouse, account, { ...page, agentId: agents[0]!, type: 'custom' });
  return {
    ofFirst: ofFirst.total,
    ofLast: ofLast.total,
    blocked: blocked.total,
    timeline: timeline.total,
    items: timeline.items.length,
    since: since.total,
    audit: audit.total,
    logs: audit.items.length,
    traces: (await listTraces(clickhouse, account, page)).total,
  };
}

t.test('nothing counts the events of an erased agent, whether its parts have been rewritten or not', async (t) => {
  const { makeDatabase } = await startClickHouse(t);
  const clickhouse = makeDatabase();
  await migrate(clickhouse, { retentionDays: 365 });
  for (let i = 0; i < INSERTS; i++) {
    const rows = Array.from({ length: EVENTS }, (_, k) => rowOf(i * EVENTS + k));
    await clickhouse.insertEvents(rows, `insert-${i}`);
  }
  const whole = INSERTS * EVENTS;
  const expected = (left: number) => ({
    ofFirst: left === 1 ? whole / agents.length : 0,
    ofLast: whole / agents.length,
    blocked: (whole * left) / 2,
    timeline: whole * left,
    items: 50,
    since: (whole - EVENTS) * left,
    audit: whole * left * 1.5, // a blocked event has two entries
    logs: 50,
    traces: 100 * left,
  });
  t.same(await seen(clickhouse), expected(1));
  t.equal(await partsToRewrite(clickhouse), 'none');
  for (const [i, agent] of agents.slice(0, 2).entries()) {
    await eraseAgent(clickhouse, account, agent);
    const left = 1 - (i + 1) / agents.length;
    t.same(await seen(clickhouse), expected(left), 'erased');
    t.equal(await partsToRewrite(clickhouse), 'some');
    await rewriteErased(clickhouse);
    await eventually(async () => (await partsToRewrite(clickhouse)) === 'none');
    t.same(await seen(clickhouse), expected(left), 'rewritten');
  }
  // As a merge of two parts that lost theirs leaves it.
  await clickhouse.command(
    'ALTER TABLE events CLEAR PROJECTION by_time, CLEAR PROJECTION by_arrival, CLEAR PROJECTION counts',
    {},
    { mutations_sync: '2' },
  );
  t.equal(await partsToRewrite(clickhouse), 'some');
  await rewriteErased(clickhouse);
  await eventually(async () => (await partsToRewrite(clickhouse)) === 'none');
  const [bytes] = await clickhouse.query<{ stored: number; without: number }>(
    `SELECT sum(rows) AS stored, countIf(name NOT IN
       (SELECT parent_name FROM system.projection_parts WHERE database = currentDatabase() AND active AND name = 'by_time')) AS without
     FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active AND rows > 0`,
  );
  t.same(bytes, { stored: whole / 2, without: 0 }, 'the bytes are gone, and the projections are back');
});
