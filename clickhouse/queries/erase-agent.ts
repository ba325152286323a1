// Takes everything of one agent out of the tables: its events (and with them their audit entries), anomalies,
// deliveries, approvals, audit entries about it, its rows of the registry, and the policies scoped to it with all their
// revisions. The bare `agent.deleted` stays, as does the registry's note that it is deleted. Idempotent. Returns once
// no query sees the rows. Their bytes go with the merges that follow; those of events with `rewriteErased`, which also
// gives the parts their projections back: until then a timeline reads such parts row by row, with the same result.
// Before it: the tombstone is set and the streams have drained past it, so no row of the agent can come after.
import type { ClickHouse } from '../client.ts';
import { BY_TIME } from './event-filter.ts';

const OF_AGENT = 'agent_id = {agent:String}';
/** Which rows go, of each table that has rows of an agent. */
const ROWS = {
  ...{ events: OF_AGENT, anomalies: OF_AGENT, deliveries: OF_AGENT, approvals: OF_AGENT },
  audit_log: "about_agent = {agent:String} AND action != 'agent.deleted'",
  registry: `record != '' AND (kind = 'agent' AND id = {agent:String} OR kind = 'policy' AND JSONExtractString(record, 'agent_id') = {agent:String})`,
  policy_revisions: OF_AGENT,
};

/** All that `events` has (001_events.sql). A DELETE drops them together, so the first represents all. */
const PROJECTIONS = [BY_TIME, 'by_arrival', 'counts'] as const;

/** A DELETE masks rows of these. */
const MASKED = Object.keys(ROWS).filter((table) => table !== 'events');
const MASKED_TABLES = MASKED.map((table) => `'${table}'`).join(', ');
const ALL_TABLES = `'events', ${MASKED_TABLES}`;

export async function eraseAgent(clickhouse: ClickHouse, account: string, agentId: string): Promise<void> {
  for (const [table, rows] of Object.entries(ROWS)) {
    const deletion = `DELETE FROM ${table} WHERE account_id = {account:String} AND ${rows}`;
    await clickhouse.command(deletion, { account, agent: agentId }, { lightweight_deletes_sync: '2' });
  }
}

/**
 * Are there parts to be rewritten: such as hold erased rows, or of `events` have no projections? (Two that lost theirs
 * may have been merged since.) `running`: a rewrite or another mutation has not ended.
 */
export async function partsToRewrite(clickhouse: ClickHouse): Promise<'none' | 'some' | 'running'> {
  const of = "database = currentDatabase() AND table = 'events'";
  const ofAll = `database = currentDatabase() AND table IN (${ALL_TABLES})`;
  const [row] = await clickhouse.query<{ running: number; parts: number }>(
    `SELECT (SELECT count() FROM system.mutations WHERE ${ofAll} AND NOT is_done) AS running,
       (SELECT countIf(has_lightweight_delete OR table = 'events' AND rows > 0 AND name NOT IN
          (SELECT parent_name FROM system.projection_parts WHERE ${of} AND active AND name = '${PROJECTIONS[0]}'))
        FROM system.parts WHERE ${ofAll} AND active) AS parts`,
  );
  if (Number(row?.running ?? 0) > 0) return 'running';
  return Number(row?.parts ?? 0) > 0 ? 'some' : 'none';
}

/**
 * Has ClickHouse rewrite these parts, without erased rows and with projections: about 4 µs of CPU a row. Returns at
 * once. All in one statement, since projections that are made of rows with a mask hold the masked ones, too.
 */
export async function rewriteErased(clickhouse: ClickHouse): Promise<void> {
  const masked = await clickhouse.query<{ table: string }>(
    `SELECT DISTINCT table FROM system.parts WHERE database = currentDatabase() AND table IN (${MASKED_TABLES}) AND active AND has_lightweight_delete`,
  );
  for (const { table } of masked)
    await clickhouse.command(`ALTER TABLE ${table} APPLY DELETED MASK`, {}, { mutations_sync: '0' });
  await clickhouse.command(
    `ALTER TABLE events APPLY DELETED MASK, ${PROJECTIONS.map((name) => `MATERIALIZE PROJECTION ${name}`).join(', ')}`,
    {},
    { mutations_sync: '0' },
  );
}

/**
 * Epoch ms at which the oldest part was written that has been replaced and is still on disk (for some minutes).
 * Infinity: there is none.
 */
export async function oldestReplacedPart(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.query<{ parts: number; oldest: number }>(
    `SELECT count() AS parts, toUnixTimestamp(min(modification_time)) * 1000 AS oldest FROM system.parts
       WHERE database = currentDatabase() AND table IN (${ALL_TABLES}) AND NOT active`,
  );
  return Number(row?.parts ?? 0) === 0 ? Number.POSITIVE_INFINITY : Number(row!.oldest);
}
