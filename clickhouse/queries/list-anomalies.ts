// Lists anomalies, and finds one (GET /v1/anomalies), newest first by `timestamp`, equal times by id; totals exact.
// FINAL: an anomaly that was written twice is one.

import type { Anomaly } from '../../schemas/anomaly.ts';
import type { AnomalyKind, Severity } from '../../schemas/closed-sets.ts';

import type { Listed, PageStart } from '../../schemas/paging.ts';
import type { ClickHouse } from '../client.ts';
import { type AnyOf, type Excluded, isoTime, QueryConditions } from './conditions.ts';
import { pageOf } from './page-of.ts';

type AnomalyPage = PageStart &
  Excluded & {
    agentId?: AnyOf<string> | undefined;
    kind?: AnyOf<AnomalyKind> | undefined;
    severity?: AnyOf<Severity> | undefined;
    /** The policy that blocked the event. */
    policyId?: AnyOf<string> | undefined;
    /** Epoch ms, inclusive. */
    from?: number | undefined;
    to?: number | undefined;
  };

export type AnomalyRow = Omit<Anomaly, 'timestamp' | 'created_at'> & { timestamp_ms: number; created_ms: number };

export const ANOMALY_COLUMNS = `id, agent_id, event_id, policy_id, kind, severity, observed, baseline, score, message,
  toUnixTimestamp64Milli(timestamp) AS timestamp_ms, toUnixTimestamp64Milli(created_at) AS created_ms`;

export async function listAnomalies(
  clickhouse: ClickHouse,
  account: string,
  page: AnomalyPage,
): Promise<Listed<Anomaly>> {
  const where = new QueryConditions(account)
    .equal('agent_id', page.agentId)
    .exclude('agent_id', page.excludeAgents)
    .equal('kind', page.kind)
    .equal('severity', page.severity)
    .equal('policy_id', page.policyId)
    .between('timestamp', page.from, page.to);
  const listed = await pageOf<AnomalyRow>(clickhouse, {
    ...{ table: 'anomalies', columns: ANOMALY_COLUMNS, where, time: 'timestamp', page },
    positionOf: (row) => ({ at: row.timestamp_ms, id: row.id }),
  });
  return { ...listed, items: listed.items.map(anomalyOf) };
}

/** `id` must be well formed (isId). null: there is none, or its agent is being erased. */
export async function getAnomaly(
  clickhouse: ClickHouse,
  account: string,
  id: string,
  { excludeAgents }: Excluded = {},
): Promise<Anomaly | null> {
  const where = new QueryConditions(account).equal('id', id).exclude('agent_id', excludeAgents);
  const [row] = await clickhouse.query<AnomalyRow>(
    `SELECT ${ANOMALY_COLUMNS} FROM anomalies FINAL WHERE ${where.sql} LIMIT 1`,
    where.params,
  );
  return row === undefined ? null : anomalyOf(row);
}

export function anomalyOf({ timestamp_ms, created_ms, ...row }: AnomalyRow): Anomaly {
  return { ...row, timestamp: isoTime(timestamp_ms), created_at: isoTime(created_ms) };
}
