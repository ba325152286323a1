// What stored events have used of a budget, by scope and part of its window (where counters begin, or have lost their
// state, and for `gatehouse budgets check`).
// Where a policy is new, calls from before it are charged by what their rows say of tokens and cost, if it asks for no
// condition and is per agent or account: `past`.
// One pass over the rows of the window; no payload is read.
import type { SettledAmount, SettledQuery } from '../../schemas/budget.ts';
import type { ClickHouse } from '../client.ts';
import { boundedSum } from './bounded-sum.ts';
import { QueryConditions } from './conditions.ts';

const AMOUNTS = {
  money: 'if(startsWith(priced_by, {currency:String}), cost, NULL)',
  tokens: 'tokens_used',
  events: 'toNullable(1)',
} as const;

/** The highest sum. No limit is so high; counters stop there, too (spend.lua). */
const SPENT_MAX = 9_000_000_000_000_000;

export async function settledAmounts(
  clickhouse: ClickHouse,
  account: string,
  asked: SettledQuery,
): Promise<SettledAmount[]> {
  const { policyId: policy, unit, fromMs, toMs, rollingMs: rolling, part, past } = asked;
  const sums = new Map<string, SettledAmount>();
  const add = (rows: readonly SettledAmount[]) => {
    for (const row of rows) {
      const key = `${row.scope}/${row.part}`;
      const known = sums.get(key);
      if (known === undefined) sums.set(key, row);
      else known.amount += row.amount;
    }
  };
  const parts =
    'if({rolling:UInt64} = 0, {part:UInt64}, intDiv(toUnixTimestamp64Milli(received_at) * 60, {rolling:UInt64}))';
  const where = new QueryConditions(account).between('received_at', fromMs, toMs).and("settled != ''", {});
  add(
    await clickhouse.query(
      `SELECT s.3 AS scope, any(s.4) AS shown, toInt64(${parts}) AS part, ${boundedSum('s.5', SPENT_MAX)} AS amount
       FROM events ARRAY JOIN JSONExtract(settled, 'Array(Tuple(String, String, String, String, Int64))') AS s
       WHERE ${where.sql} AND s.1 = {policy:String} AND s.2 = {unit:String} GROUP BY scope, part`,
      { ...where.params, policy, unit, rolling, part },
    ),
  );
  if (past === undefined || past.beforeMs <= fromMs) return [...sums.values()];
  const before = new QueryConditions(account)
    .between('received_at', fromMs, Math.min(toMs, past.beforeMs - 1))
    .equal('type', ['completion'])
    .and('position(settled, {policy:String}) = 0', { policy })
    .equal('agent_id', past.agentId === null ? undefined : [past.agentId]);
  const [scope, shown] = past.per === 'agent' ? ['agent_id', 'agent_id'] : ["'all'", "''"];
  const amount = boundedSum(AMOUNTS[past.of], SPENT_MAX);
  add(
    await clickhouse.query(
      `SELECT ${scope} AS scope, any(${shown}) AS shown, toInt64(${parts}) AS part, ${amount} AS amount
       FROM events WHERE ${before.sql} GROUP BY scope, part HAVING ${amount} > 0`,
      { ...before.params, rolling, part, currency: past.currency },
    ),
  );
  return [...sums.values()];
}
