// Is an insert under one of these tokens still running, and can a token be known although its rows never came? The
// store pipeline asks both about a batch of its own whose earlier try ended without an answer
// (pipelines/store/verify-insert.ts).
import type { ClickHouse } from '../client.ts';

export type ConcurrentDuplicates = {
  /** Inserts under a token that begins like this that have not ended yet. */
  running: number;
  /**
   * Replicated tables keep a token and its part in one step: no token is known without its rows, and another replica
   * may lag behind.
   */
  tokensAreTrue: boolean;
};

export async function concurrentDuplicates(clickhouse: ClickHouse, tokenPrefix: string): Promise<ConcurrentDuplicates> {
  const [row] = await clickhouse.query<{ running: number; replicated: number }>(
    `SELECT (SELECT count() FROM system.processes WHERE startsWith(Settings['insert_deduplication_token'], {prefix:String})) AS running,
       (SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'events' AND engine NOT IN ('MergeTree')) AS replicated`,
    { prefix: tokenPrefix },
  );
  return { running: Number(row?.running ?? 0), tokensAreTrue: Number(row?.replicated ?? 0) > 0 };
}

/** Whether events lie in a plain table of one engine: what it has stored, it shows. Throws where there is no table. */
export async function isPlainTable(clickhouse: ClickHouse): Promise<boolean> {
  const [row] = await clickhouse.query<{ engine: string }>(
    "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
  );
  if (row === undefined) throw new Error('there is no table events');
  return row.engine === 'MergeTree';
}
