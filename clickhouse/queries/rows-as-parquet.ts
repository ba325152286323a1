// Makes a file of Parquet of rows of the feed, by the engine's own format (for outgoing feeds): it is asked for rows
// that are in the statement, and reads no table.
// Invariant: `data` is the text of the row, character by character. The statement is not kept in ClickHouse's log of
// queries, since it holds what users sent. Failure: ClickHouseError.
import type { ClickHouseSettings } from '@clickhouse/client';
import type { ClickHouse } from '../client.ts';

/** `at`: epoch ms. */
type FileRow = { topic: string; id: string; at: number; agent_id: string | null; data: string };

const COLUMNS = "topic String, id String, at DateTime64(3, ''UTC''), agent_id Nullable(String), data String";
/** A batch has one row in any case, and each character of it may be escaped. */
const STATEMENT_BYTES_MAX = 16 * 1024 * 1024;

export function rowsAsParquet(clickhouse: ClickHouse, rows: readonly FileRow[], signal: AbortSignal): Promise<Buffer> {
  const lines = rows.map((row) => JSON.stringify({ ...row, at: new Date(row.at).toISOString() })).join('\n');
  // What is between two marks is text as it stands; a mark that the text has would end it.
  let mark = '$rows$';
  for (let n = 0; lines.includes(mark); n++) mark = `$rows${n}$`;
  const settings: ClickHouseSettings = {
    max_query_size: String(STATEMENT_BYTES_MAX),
    log_queries: 0,
    date_time_input_format: 'best_effort',
    output_format_parquet_string_as_string: 1,
  };
  const sql = `SELECT * FROM format(JSONEachRow, '${COLUMNS}', ${mark}${lines}${mark})`;
  return clickhouse.queryBinary(sql, {}, { signal, settings, format: 'Parquet' });
}
