// The price table of an account as it was at one of its revisions (GET /v1/prices/revisions/{revision}).
import type { PriceTable, PriceTableRevision } from '../../schemas/price-table.ts';
import type { ClickHouse } from '../client.ts';
import { QueryConditions } from './conditions.ts';

/** null: there is none of this number, or not yet. */
export async function getPriceRevision(
  clickhouse: ClickHouse,
  account: string,
  revision: number,
): Promise<PriceTableRevision | null> {
  const { sql, params } = new QueryConditions(account).and('id = {number:UInt64}', { number: revision });
  const [row] = await clickhouse.query<{ actor: string; record: string }>(
    `SELECT actor, record FROM price_revisions FINAL WHERE ${sql} LIMIT 1`,
    params,
  );
  return row === undefined ? null : { ...(JSON.parse(row.record) as PriceTable), actor: row.actor };
}
