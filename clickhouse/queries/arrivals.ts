// What has come since a position, in the order in which it came: for those who follow it live
// (src/http/answers/live.ts).
// Events and anomalies by when they arrived and were flagged; approvals and deliveries by the revision that made them
// so, each change once. Outcomes of events are those of the time of arrival; a decision is reported as a change of its
// approval.
import type { Anomaly } from '../../schemas/anomaly.ts';
import type { Approval } from '../../schemas/approval.ts';
import type { PayloadMode } from '../../schemas/closed-sets.ts';
import type { Delivery } from '../../schemas/delivery.ts';
import type { Position } from '../../schemas/paging.ts';
import type { ClickHouse } from '../client.ts';
import { type Excluded, instant, QueryConditions, valuesOf } from './conditions.ts';
import { conditionsOf, type EventFilter } from './event-filter.ts';
import { type EventRow, rowColumns } from './event-rows.ts';
import { ANOMALY_COLUMNS, type AnomalyRow, anomalyOf } from './list-anomalies.ts';
import { APPROVAL_COLUMNS, type ApprovalRow, approvalOf } from './list-approvals.ts';
import { DELIVERY_COLUMNS, type DeliveryRow, deliveryOf } from './list-deliveries.ts';

type Came<Row, At> = {
  /** The oldest of them, at most `max`. */
  rows: { row: Row; at: At }[];
  /** Further ones, which are only counted. */
  skipped: number;
};

type Since = { after: Position; untilMs: number; max: number };

export async function arrivedEvents(
  clickhouse: ClickHouse,
  account: string,
  { after, untilMs, max, filter, payload }: Since & { filter: EventFilter; payload: PayloadMode },
): Promise<Came<EventRow, Position>> {
  const conditions = conditionsOf(account, filter);
  const where = came(conditions.equal('outcome', filter.outcome).equal('reason', filter.reason), {
    ...{ column: 'received_at', after, untilMs },
  });
  const from = `FROM events WHERE ${where.sql}`;
  const read = await clickhouse.query<EventRow>(
    `SELECT ${rowColumns(payload)} ${from} ORDER BY received_at, id LIMIT {max:UInt64}`,
    { ...where.params, max: max + 1 },
    { settings: { optimize_use_projections: 0 } },
  );
  const rows = read.slice(0, max).map((row) => ({ row, at: { at: row.received_at_ms, id: row.id } }));
  return { rows, skipped: read.length > max ? (await countOf(clickhouse, from, where)) - max : 0 };
}

export async function flaggedAnomalies(
  clickhouse: ClickHouse,
  account: string,
  { after, untilMs, max, filter }: Since & { filter: EventFilter },
): Promise<Came<Anomaly, Position>> {
  const where = new QueryConditions(account)
    .equal('agent_id', filter.agentId)
    .exclude('agent_id', filter.excludeAgents)
    .equal('severity', filter.severity)
    .equal('policy_id', filter.policyId);
  came(where, { column: 'created_at', after, untilMs });
  const from = `FROM anomalies FINAL WHERE ${where.sql}`;
  const read = await clickhouse.query<AnomalyRow>(
    `SELECT ${ANOMALY_COLUMNS} ${from} ORDER BY created_at, id LIMIT {max:UInt64}`,
    { ...where.params, max: max + 1 },
  );
  const rows = read.slice(0, max).map((row) => ({ row: anomalyOf(row), at: { at: row.created_ms, id: row.id } }));
  return { rows, skipped: read.length > max ? (await countOf(clickhouse, from, where)) - max : 0 };
}

/** `until`: a revision, inclusive; left out: up to the newest. */
type Changes = Excluded & { after: number; until?: number; max: number; filter: EventFilter };

export async function changedApprovals(
  clickhouse: ClickHouse,
  account: string,
  { after, until = Number.MAX_SAFE_INTEGER, max, filter }: Changes,
): Promise<Came<Approval, number>> {
  const where = new QueryConditions(account)
    .equal('agent_id', filter.agentId)
    .exclude('agent_id', filter.excludeAgents)
    .equal('policy_id', filter.policyId)
    .and('revision > {after:UInt64} AND revision <= {until:UInt64}', { after, until });
  const read = await clickhouse.query<ApprovalRow & { revision: number }>(
    `SELECT ${APPROVAL_COLUMNS}, toInt64(revision) AS revision FROM approvals FINAL WHERE ${where.sql} ORDER BY revision LIMIT {max:UInt64} WITH TIES`,
    { ...where.params, max },
  );
  return { rows: read.map((row) => ({ row: approvalOf(row), at: Number(row.revision) })), skipped: 0 };
}

export async function changedDeliveries(
  clickhouse: ClickHouse,
  account: string,
  { after, until = Number.MAX_SAFE_INTEGER, max, filter }: Changes,
): Promise<Came<Delivery, number>> {
  const where = new QueryConditions(account)
    .equal('agent_id', filter.agentId)
    .and('revision > {after:UInt64} AND revision <= {until:UInt64}', { after, until });
  if (filter.policyId !== undefined)
    where.and('hasAny(policy_ids, {policy_ids:Array(String)})', { policy_ids: valuesOf(filter.policyId) });
  if (filter.excludeAgents !== undefined && filter.excludeAgents.length > 0)
    where.and("ifNull(agent_id, '') NOT IN {excluded:Array(String)}", { excluded: filter.excludeAgents });
  const read = await clickhouse.query<DeliveryRow & { revision: number }>(
    `SELECT ${DELIVERY_COLUMNS}, toInt64(revision) AS revision FROM deliveries FINAL WHERE ${where.sql} ORDER BY revision LIMIT {max:UInt64} WITH TIES`,
    { ...where.params, max },
  );
  return { rows: read.map(({ revision, ...row }) => ({ row: deliveryOf(row), at: Number(revision) })), skipped: 0 };
}

/** The highest revision of a table that the journal feeds; 0: it has no rows of the account. */
export async function newestRevision(
  clickhouse: ClickHouse,
  account: string,
  table: 'approvals' | 'deliveries',
): Promise<number> {
  const where = new QueryConditions(account);
  const [row] = await clickhouse.query<{ newest: number }>(
    `SELECT toInt64(max(revision)) AS newest FROM ${table} WHERE ${where.sql}`,
    where.params,
  );
  return Number(row?.newest ?? 0);
}

function came(
  where: QueryConditions,
  { column, after, untilMs }: { column: string; after: Position; untilMs: number },
): QueryConditions {
  return where
    .after(after, { time: column, id: 'id', order: 'asc' })
    .and(`${column} <= ${instant('until')}`, { until: untilMs });
}

async function countOf(clickhouse: ClickHouse, from: string, where: QueryConditions): Promise<number> {
  const [row] = await clickhouse.query<{ n: number }>(`SELECT count() AS n ${from}`, where.params, {
    settings: { optimize_use_projections: 0 },
  });
  return Number(row?.n ?? 0);
}
