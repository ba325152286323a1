// What an account used, for who bills it: recorded events, bytes of their payloads and tokens, by UTC day of arrival
// and by agent (GET /v1/usage). Counted from the stored rows, so what was erased, or is past the retention, is not in
// it.
// One pass for each of both; no payload is read, only how long it is.
import type { ClickHouse } from '../client.ts';
import { boundedSum } from './bounded-sum.ts';
import { type AnyOf, type Excluded, QueryConditions } from './conditions.ts';

type Used = { events: number; bytes: number; tokens: number };
type UsageByDay = { days: (Used & { date: string })[]; agents: (Used & { agent_id: string })[]; rest: Used };

/** `fromMs` and `toMs`: epoch ms, inclusive. `max`: so many agents, those with the most events. */
type UsageQuery = Excluded & { agentId?: AnyOf<string> | undefined; fromMs: number; toMs: number; max: number };

const SUMS = `count() AS events, sum(length(payload)) AS bytes, ${boundedSum('ifNull(tokens_used, 0)')} AS tokens`;
const PLAIN = { settings: { optimize_use_projections: 0 } } as const;

export async function usageByDay(clickhouse: ClickHouse, account: string, asked: UsageQuery): Promise<UsageByDay> {
  const where = new QueryConditions(account)
    .equal('agent_id', asked.agentId)
    .exclude('agent_id', asked.excludeAgents)
    .between('received_at', asked.fromMs, asked.toMs);
  const [days, all] = await Promise.all([
    clickhouse.query<Used & { date: string }>(
      `SELECT toString(toDate(received_at, 'UTC')) AS date, ${SUMS} FROM events WHERE ${where.sql} GROUP BY date ORDER BY date`,
      where.params,
      PLAIN,
    ),
    clickhouse.query<Used & { agent: string }>(
      `SELECT agent_id AS agent, ${SUMS} FROM events WHERE ${where.sql} GROUP BY agent ORDER BY events DESC, agent LIMIT {max:UInt64}`,
      { ...where.params, max: asked.max },
      PLAIN,
    ),
  ]);
  const agents = all.map(({ agent, ...used }) => ({ agent_id: agent, ...used }));
  const rest = { events: 0, bytes: 0, tokens: 0 };
  // Below zero where the sums of all together are bounded.
  for (const name of ['events', 'bytes', 'tokens'] as const)
    rest[name] = Math.max(0, sumOf(days, name) - sumOf(agents, name));
  return { days, agents, rest };
}

function sumOf(rows: readonly Used[], name: keyof Used): number {
  return rows.reduce((sum, row) => sum + row[name], 0);
}
