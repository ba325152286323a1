// What agents did in the last day, hour by hour (GET /v1/agents?activity=true). One query for all agents of a page, and
// one more where something of theirs waited for an approval; both read the agents' own places in the primary key and no
// payload. Hours are those before now, not those of a clock: the last one ends now. Outcomes are final ones
// (final-outcome.ts).
import type { AgentActivity } from '../../schemas/agent.ts';
import type { ClickHouse } from '../client.ts';
import { instant, QueryConditions } from './conditions.ts';
import { deniedByAgent, type Settling } from './final-outcome.ts';

const HOURS = 24;
const HOUR_MS = 3_600_000;

/** Counts for each of these agents, also for one that did nothing. `nowMs`: epoch ms. */
export async function agentActivity(
  clickhouse: ClickHouse,
  account: string,
  { agents, nowMs, settle }: { agents: readonly string[]; nowMs: number } & Settling,
): Promise<Map<string, AgentActivity>> {
  const activity = new Map(agents.map((id): [string, AgentActivity] => [id, quiet()]));
  if (agents.length === 0) return activity;
  const since = nowMs - HOURS * HOUR_MS;
  const where = new QueryConditions(account)
    .and('agent_id IN {agents:Array(String)}', { agents })
    .and(`timestamp > ${instant('since')} AND timestamp <= ${instant('now')}`, { since, now: nowMs });
  const rows = await clickhouse.query<{ agent_id: string; hour: number; n: number; blocked: number; pending: number }>(
    `SELECT agent_id, intDiv(toUnixTimestamp64Milli(timestamp) - {since:Int64} - 1, ${HOUR_MS}) AS hour, count() AS n,
       countIf(outcome = 'blocked') AS blocked, countIf(outcome = 'pending') AS pending
     FROM events WHERE ${where.sql} GROUP BY agent_id, hour`,
    where.params,
    PLAIN,
  );
  for (const { agent_id: id, hour, n, blocked } of rows) {
    const one = activity.get(id)!;
    one.hourly[hour]! += n;
    one.events_24h += n;
    one.blocked_24h += blocked;
  }
  if (rows.every(({ pending }) => pending === 0)) return activity;
  const denied = await deniedByAgent(clickhouse, account, { where, options: PLAIN, settle });
  for (const { agent_id: id, n } of denied) activity.get(id)!.blocked_24h += n;
  return activity;
}

const PLAIN = { settings: { optimize_use_projections: 0 } } as const;

function quiet(): AgentActivity {
  return { events_24h: 0, blocked_24h: 0, hourly: Array.from({ length: HOURS }, () => 0) };
}
