// The counts of an overview (GET /v1/overview): a window beside the same time a day and a week before. Each function is
// one query, and one more where events waited for an approval, or have a cost. They read the projection by time; where
// agents are named, the primary key. No payload is read.
// Invariant: outcomes are final ones (final-outcome.ts), so a count is that of the list with the same filter.
// Failure: a ClickHouseError; each part fails alone.
import type { ClickHouse, QueryParams } from '../client.ts';
import { boundedSum } from './bounded-sum.ts';
import { type AnyOf, type Excluded, instant, isoTime, QueryConditions } from './conditions.ts';
import { filtersOf, settingsOf } from './event-filter.ts';
import { decidedAs, deniedByAgent, type Settling, waysDecided } from './final-outcome.ts';
import { deliveriesLike } from './list-deliveries.ts';

/** Epoch ms, both inclusive. */
export type CountedWindow = { fromMs: number; toMs: number };
/** The window, a day before, a week before. */
type CountedWindows = readonly [CountedWindow, CountedWindow, CountedWindow];
type Three = [number, number, number];

export type OverviewOf = Excluded &
  Settling & {
    windows: CountedWindows;
    agentId?: AnyOf<string> | undefined;
    signal?: AbortSignal | undefined;
  };

/** In how many equal parts of the window an agent's events are counted. */
const OVERVIEW_PARTS = 24;
const PLAIN = { optimize_use_projections: 0 } as const;

type FigureRow = { events: Three; blocked: Three; errors: Three; pending: Three };

export async function overviewFigures(
  clickhouse: ClickHouse,
  account: string,
  of: OverviewOf,
): Promise<Omit<FigureRow, 'pending'>> {
  const where = eventsOf(account, of);
  const options = { settings: settingsOf({ agentId: of.agentId }), ...signalOf(of) };
  const count = async (more: string) => {
    const [row] = await clickhouse.query<FigureRow>(
      `SELECT ${each((inside) => `countIf(${inside})`)} AS events,
         ${each((inside) => `countIf(${inside} AND outcome = 'blocked')`)} AS blocked,
         ${each((inside) => `countIf(${inside} AND type = 'error')`)} AS errors,
         ${each((inside) => `countIf(${inside} AND outcome = 'pending')`)} AS pending
       FROM events WHERE ${where.sql}${more}`,
      where.params,
      options,
    );
    return row!;
  };
  const { pending, ...counted } = await count('');
  if (pending.every((n) => n === 0) || !(await waysDecided(clickhouse, account, of.settle)).includes('blocked'))
    return counted;
  const denied = await count(` AND outcome = 'pending' AND id IN ${decidedAs('blocked')}`);
  return { ...counted, blocked: counted.blocked.map((n, i) => n + denied.events[i]!) as Three };
}

type SumsOf = { values: [value: string, sum: number][]; other: number };
type Sums = { total: Three; model: SumsOf; agent: SumsOf };

/** Lists at most `max` models and agents each, those with the highest sums: of tokens, or of costs in millionths. */
export async function overviewSums(
  clickhouse: ClickHouse,
  account: string,
  { max, column, ...of }: OverviewOf & { max: number; column: 'tokens_used' | 'cost' },
): Promise<Sums> {
  const where = eventsOf(account, of).and(`${column} IS NOT NULL`);
  const sums = each((inside) => boundedSum(`if(${inside}, ifNull(${column}, 0), 0)`));
  const rows = await clickhouse.query<{ of: 'all' | 'model' | 'agent'; value: string; sums: Three }>(
    `SELECT multiIf(grouping(model, agent) = 3, 'all', grouping(model, agent) = 1, 'model', 'agent') AS of,
       if(of = 'model', model, agent) AS value, ${sums} AS sums
     FROM (SELECT toString(model) AS model, toString(agent_id) AS agent, timestamp, ${column} FROM events WHERE ${where.sql})
     GROUP BY GROUPING SETS ((), (model), (agent))
     ORDER BY sums[1] DESC, value LIMIT {max:UInt64} BY of`,
    { ...where.params, max },
    { settings: settingsOf({ agentId: of.agentId }), ...signalOf(of) },
  );
  const total = rows.find((row) => row.of === 'all')?.sums ?? [0, 0, 0];
  const by = (kind: 'model' | 'agent'): SumsOf => {
    const values = rows
      .filter((row) => row.of === kind && row.sums[0] !== 0)
      .map(({ value, sums }): [string, number] => [value, sums[0]]);
    return { values, other: Math.max(0, total[0] - values.reduce((sum, [, n]) => sum + n, 0)) };
  };
  return { total, model: by('model'), agent: by('agent') };
}

type Costs = Sums & {
  /** One of the price tables that were asked. */
  by: string;
  /** Events whose cost is known, and those that say tokens whose cost is not. */
  priced: Three;
  unpriced: Three;
};

/** null: no prices were asked. */
export async function overviewCosts(
  clickhouse: ClickHouse,
  account: string,
  of: OverviewOf & { max: number },
): Promise<Costs | null> {
  const where = eventsOf(account, of).and("priced_by != ''");
  const [row] = await clickhouse.query<{ by: string; priced: Three; unpriced: Three }>(
    `SELECT max(priced_by) AS by, ${each((inside) => `countIf(${inside} AND cost IS NOT NULL)`)} AS priced,
       ${each((inside) => `countIf(${inside} AND cost IS NULL)`)} AS unpriced FROM events WHERE ${where.sql}`,
    where.params,
    { settings: settingsOf({ agentId: of.agentId }), ...signalOf(of) },
  );
  if (row === undefined || row.by === '') return null;
  return { ...row, ...(await overviewSums(clickhouse, account, { ...of, column: 'cost' })) };
}

/** Ids of agents that sent in the window: with most blocked and failed events first, of equal ones the last to send. */
export async function troubledSenders(
  clickhouse: ClickHouse,
  account: string,
  { max, ...of }: OverviewOf & { max: number },
): Promise<string[]> {
  const { fromMs: from, toMs: to } = of.windows[0];
  const where = filtersOf(account, { ...of, from, to });
  const rows = await clickhouse.query<{ agent_id: string }>(
    `SELECT agent_id FROM events WHERE ${where.sql}
     GROUP BY agent_id ORDER BY countIf(outcome = 'blocked' OR type = 'error') DESC, max(timestamp) DESC, agent_id
     LIMIT {max:UInt64}`,
    { ...where.params, max },
    { settings: settingsOf({ agentId: of.agentId }), ...signalOf(of) },
  );
  return rows.map(({ agent_id: id }) => id);
}

type AgentCounts = { events: number; blocked: number; errors: number; anomalies: number; parts: number[] };
type AgentRow = { agent_id: string; part: number; n: number; blocked: number; errors: number; pending: number };

/** Counts for each of these agents, also for one that did nothing. */
export async function overviewAgents(
  clickhouse: ClickHouse,
  account: string,
  { agents, windows: [{ fromMs, toMs }], settle, ...of }: OverviewOf & { agents: readonly string[] },
): Promise<Map<string, AgentCounts>> {
  const counts = new Map(agents.map((id): [string, AgentCounts] => [id, quiet()]));
  if (agents.length === 0) return counts;
  const where = filtersOf(account, { agentId: agents, from: fromMs, to: toMs });
  const options = { settings: PLAIN, ...signalOf(of) };
  const params = { ...where.params, first: fromMs, span: toMs - fromMs + 1 };
  const flagged = new QueryConditions(account).equal('agent_id', agents).between('timestamp', fromMs, toMs);
  const [rows, anomalies] = await Promise.all([
    clickhouse.query<AgentRow>(
      `SELECT agent_id, intDiv((toUnixTimestamp64Milli(timestamp) - {first:Int64}) * ${OVERVIEW_PARTS}, {span:Int64}) AS part,
         count() AS n, countIf(outcome = 'blocked') AS blocked, countIf(type = 'error') AS errors,
         countIf(outcome = 'pending') AS pending
       FROM events WHERE ${where.sql} GROUP BY agent_id, part`,
      params,
      options,
    ),
    clickhouse.query<{ agent_id: string; n: number }>(
      `SELECT agent_id, count() AS n FROM anomalies FINAL WHERE ${flagged.sql} GROUP BY agent_id`,
      flagged.params,
      signalOf(of),
    ),
  ]);
  for (const { agent_id: id, part, n, blocked, errors } of rows) {
    const one = counts.get(id)!;
    one.parts[part]! += n;
    one.events += n;
    one.blocked += blocked;
    one.errors += errors;
  }
  for (const { agent_id: id, n } of anomalies) counts.get(id)!.anomalies = n;
  if (rows.every(({ pending }) => pending === 0)) return counts;
  const denied = await deniedByAgent(clickhouse, account, { where, options, settle });
  for (const { agent_id: id, n } of denied) counts.get(id)!.blocked += n;
  return counts;
}

export async function overviewAnomalies(clickhouse: ClickHouse, account: string, of: OverviewOf): Promise<Three> {
  const where = new QueryConditions(account).equal('agent_id', of.agentId).exclude('agent_id', of.excludeAgents);
  within(where, of.windows);
  const [row] = await clickhouse.query<{ counts: Three }>(
    `SELECT ${each((inside) => `countIf(${inside})`)} AS counts FROM anomalies FINAL WHERE ${where.sql}`,
    where.params,
    signalOf(of),
  );
  return row!.counts;
}

type WaitingApproval = { id: string; agent_id: string; created_at: string; expires_at: string };

/** The number of pending approvals, and the oldest of them. */
export async function overviewApprovals(
  clickhouse: ClickHouse,
  account: string,
  of: OverviewOf,
): Promise<{ pending: number; oldest: WaitingApproval | null }> {
  const where = new QueryConditions(account)
    .equal('agent_id', of.agentId)
    .exclude('agent_id', of.excludeAgents)
    .and("status = 'pending'");
  const [row] = await clickhouse.query<{
    pending: number;
    id: string;
    agent: string;
    created: number;
    expires: number;
  }>(
    `SELECT count() OVER () AS pending, id, agent_id AS agent, toUnixTimestamp64Milli(created_at) AS created,
       toUnixTimestamp64Milli(expires_at) AS expires
     FROM approvals FINAL WHERE ${where.sql} ORDER BY created_at, id LIMIT 1`,
    where.params,
    signalOf(of),
  );
  if (row === undefined) return { pending: 0, oldest: null };
  const { pending, id, agent, created, expires } = row;
  return { pending, oldest: { id, agent_id: agent, created_at: isoTime(created), expires_at: isoTime(expires) } };
}

/** By when they last changed. */
export async function overviewDeliveries(
  clickhouse: ClickHouse,
  account: string,
  { windows: [{ fromMs, toMs }], ...of }: OverviewOf,
): Promise<{ failed: number; kept_mails: number }> {
  const { agentId, excludeAgents } = of;
  const where = deliveriesLike(account, { agentId, excludeAgents, from: fromMs, to: toMs });
  const [row] = await clickhouse.query<{ failed: number; kept_mails: number }>(
    `SELECT countIf(status = 'failed') AS failed, countIf(ifNull(transport, '') = 'outbox') AS kept_mails
     FROM deliveries FINAL WHERE ${where.sql}`,
    where.params,
    signalOf(of),
  );
  return row!;
}

function eventsOf(account: string, { windows, agentId, excludeAgents }: OverviewOf): QueryConditions {
  return within(filtersOf(account, { agentId, excludeAgents }), windows);
}

const AT = [0, 1, 2] as const;

/** Windows that are longer than a day overlap, so each is a condition of its own. */
function insideOf(i: number): string {
  return `(timestamp >= ${instant(`from_${i}`)} AND timestamp <= ${instant(`to_${i}`)})`;
}

function within(where: QueryConditions, windows: CountedWindows): QueryConditions {
  const params: QueryParams = {};
  for (const i of AT) Object.assign(params, { [`from_${i}`]: windows[i].fromMs, [`to_${i}`]: windows[i].toMs });
  return where.and(`(${AT.map(insideOf).join(' OR ')})`, params);
}

function each(expression: (inside: string) => string): string {
  return `[${AT.map((i) => expression(insideOf(i))).join(', ')}]`;
}

function signalOf({ signal }: { signal?: AbortSignal | undefined }): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

function quiet(): AgentCounts {
  return { events: 0, blocked: 0, errors: 0, anomalies: 0, parts: Array.from({ length: OVERVIEW_PARTS }, () => 0) };
}
