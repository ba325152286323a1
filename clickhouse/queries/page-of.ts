// A page of a replacing table, and how many rows fit in all: the two queries of every plain list (anomalies, approvals,
// deliveries). Newest first. Both read with FINAL and under the same conditions, so items and total speak of the same
// rows; behind a cursor nothing is counted.
import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import type { ClickHouse } from '../client.ts';
import type { QueryConditions } from './conditions.ts';

type PageQuery<Row> = {
  table: 'anomalies' | 'approvals' | 'deliveries';
  columns: string;
  where: QueryConditions;
  /** The primary key's column of time; without one the id alone gives the order. */
  time?: 'timestamp' | 'created_at';
  page: PageStart;
  positionOf: (row: Row) => Position;
};

export async function pageOf<Row>(clickhouse: ClickHouse, query: PageQuery<Row>): Promise<Listed<Row>> {
  const { table, columns, where, time, page, positionOf } = query;
  const { limit, offset, after } = page;
  const from = `FROM ${table} FINAL WHERE`;
  const count = `SELECT count() AS total ${from} ${where.sql}`;
  const counted = after === undefined ? clickhouse.query<{ total: number }>(count, where.params) : undefined;
  if (time !== undefined) where.after(after, { time, id: 'id' });
  else if (after !== undefined) where.and('id < {after_id:String}', { after_id: after.id });
  const order = `ORDER BY ${time === undefined ? '' : `${time} DESC, `}id DESC`;
  const [rows, total] = await Promise.all([
    clickhouse.query<Row>(
      `SELECT ${columns} ${from} ${where.sql} ${order} LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
      { ...where.params, limit: limit + 1, offset },
    ),
    counted,
  ]);
  const shown = cut(rows, limit, positionOf);
  return {
    items: shown.rows,
    positions: shown.positions,
    total: total === undefined ? null : (total[0]?.total ?? 0),
    next: shown.next,
  };
}
