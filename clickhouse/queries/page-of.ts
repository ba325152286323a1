// A page of a replacing table, and how many rows fit in all: the two queries of every plain list (anomalies, approvals, deliveries).
// Both read with FINAL and under the same conditions, so items and total speak of the same rows.
import type { ClickHouse } from '../client.ts';
import type { Conditions } from './conditions.ts';

export type PageQuery = {
  table: 'anomalies' | 'approvals' | 'deliveries';
  columns: string;
  where: Conditions;
  orderBy: string;
  limit: number;
  offset: number;
};

export async function pageOf<Row>(
  clickhouse: ClickHouse,
  { table, columns, where, orderBy, limit, offset }: PageQuery,
): Promise<{ rows: Row[]; total: number }> {
  const from = `FROM ${table} FINAL WHERE ${where.sql}`;
  const [rows, [counted]] = await Promise.all([
    clickhouse.query<Row>(`SELECT ${columns} ${from} ORDER BY ${orderBy} LIMIT {limit:UInt64} OFFSET {offset:UInt64}`, {
      ...where.params,
      limit,
      offset,
    }),
    clickhouse.query<{ total: number }>(`SELECT count() AS total ${from}`, where.params),
  ]);
  return { rows, total: counted?.total ?? 0 };
}
