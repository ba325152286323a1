// How many events of the last day each of some policies matched (GET /v1/policies?activity=true). One query for all of
// a page, by the filter of `matched` (001_events.sql), without payloads.
import type { ClickHouse } from '../client.ts';
import { type Excluded, instant, QueryConditions } from './conditions.ts';

const DAY_MS = 86_400_000;

/** Counts for each policy that matched any event. `nowMs`: epoch ms. */
export async function policyActivity(
  clickhouse: ClickHouse,
  account: string,
  { policies, nowMs, excludeAgents }: Excluded & { policies: readonly string[]; nowMs: number },
): Promise<Map<string, number>> {
  if (policies.length === 0) return new Map();
  const where = new QueryConditions(account)
    .and('hasAny(matched, {terms:Array(String)})', { terms: policies.map((id) => `policy:${id}`) })
    .and(`timestamp > ${instant('since')} AND timestamp <= ${instant('now')}`, { since: nowMs - DAY_MS, now: nowMs })
    .exclude('agent_id', excludeAgents);
  const rows = await clickhouse.query<{ term: string; n: number }>(
    `SELECT arrayJoin(arrayFilter(one -> one IN {terms:Array(String)}, matched)) AS term, count() AS n
     FROM events WHERE ${where.sql} GROUP BY term`,
    where.params,
    { settings: { optimize_use_projections: 0 } },
  );
  return new Map(rows.map(({ term, n }) => [term.slice('policy:'.length), n]));
}
