// How far the registry's journal has come, to compare with a Redis that may have been put back to an earlier state.
import type { ClickHouse } from '../client.ts';
import { ClickHouseError } from '../errors.ts';

/** Account -> the newest revision that is stored of it. Empty where there are no tables yet. */
export async function registryRevisions(clickhouse: ClickHouse): Promise<Map<string, number>> {
  try {
    const rows = await clickhouse.query<{ account: string; revision: number }>(
      'SELECT account_id AS account, max(revision) AS revision FROM registry GROUP BY account_id',
    );
    return new Map(rows.map(({ account, revision }) => [account, Number(revision)]));
  } catch (error) {
    if (error instanceof ClickHouseError && error.isNotMigrated) return new Map();
    throw error;
  }
}
