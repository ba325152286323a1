// Rows as they were chained: what a verification of the audit chain reads back and hashes again (src/audit).
// Event rows come as the bytes of RowBinary, with the columns and in the order of the insert; entries of the audit log
// by their fields. A range of time is read in pieces: one that is larger than READ_BYTES_MAX is halved.
// Invariant: what is held at once is one piece, whatever the rows are.
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import type { ClickHouse, QueryOptions, QueryParams } from '../client.ts';
import { ClickHouseError } from '../errors.ts';

export type RecordedEntry = {
  id: string;
  action: string;
  actor: string;
  resource_type: string;
  resource_id: string;
  details: string;
  createdMs: number;
  about_agent: string;
};
/** From inclusive, to exclusive; Infinity: no end. */
type Range = { account: string; fromMs: number; toMs: number };

const READ_BYTES_MAX = 32 * 1024 * 1024;
/** A single millisecond is read whole. */
const MILLISECOND_BYTES_MAX = 256 * 1024 * 1024;
const TOO_MANY_ROWS_OR_BYTES = 396;
/** Rows asked for by id: of the largest payloads they fit into MILLISECOND_BYTES_MAX. */
const IDS_AT_ONCE = 100;

const EVENT_COLUMNS = EVENT_ROW_COLUMNS.join(', ');
const ENTRY_COLUMNS =
  'id, action, actor, resource_type, resource_id, details, toUnixTimestamp64Milli(created_at) AS createdMs, about_agent';

/** `onBytes` gets whole rows, some at a time, in no order. */
export function eventRowsBetween(clickhouse: ClickHouse, range: Range, onBytes: (rows: Buffer) => void): Promise<void> {
  return inPieces(range, async (piece, bytesMax) => {
    const { sql, params } = condition('received_at', piece);
    onBytes(
      await clickhouse.queryBinary(`SELECT ${EVENT_COLUMNS} FROM events WHERE ${sql}`, params, bounded(bytesMax)),
    );
  });
}

export async function eventRowsById(
  clickhouse: ClickHouse,
  account: string,
  ids: readonly string[],
  onBytes: (rows: Buffer) => void,
): Promise<void> {
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
    const params = { account, ids: ids.slice(i, i + IDS_AT_ONCE) };
    const sql = `SELECT ${EVENT_COLUMNS} FROM events WHERE account_id = {account:String} AND id IN {ids:Array(String)}`;
    onBytes(await clickhouse.queryBinary(sql, params, bounded(MILLISECOND_BYTES_MAX)));
  }
}

export function recordedBetween(
  clickhouse: ClickHouse,
  range: Range,
  onEntry: (entry: RecordedEntry) => void,
): Promise<void> {
  return inPieces(range, async (piece, bytesMax) => {
    const { sql, params } = condition('created_at', piece);
    const query = `SELECT ${ENTRY_COLUMNS} FROM audit_log FINAL WHERE ${sql}`;
    for (const entry of await clickhouse.query<RecordedEntry>(query, params, bounded(bytesMax))) onEntry(entry);
  });
}

export async function recordedById(
  clickhouse: ClickHouse,
  account: string,
  ids: readonly string[],
): Promise<RecordedEntry[]> {
  const found: RecordedEntry[] = [];
  for (let i = 0; i < ids.length; i += IDS_AT_ONCE) {
    const query = `SELECT ${ENTRY_COLUMNS} FROM audit_log FINAL WHERE account_id = {account:String} AND id IN {ids:Array(String)}`;
    found.push(...(await clickhouse.query<RecordedEntry>(query, { account, ids: ids.slice(i, i + IDS_AT_ONCE) })));
  }
  return found;
}

/** Reads the entries of an action that is rare. */
export function recordedOfAction(clickhouse: ClickHouse, account: string, action: string): Promise<RecordedEntry[]> {
  return clickhouse.query<RecordedEntry>(
    `SELECT ${ENTRY_COLUMNS} FROM audit_log FINAL WHERE account_id = {account:String} AND action = {action:String}
     ORDER BY created_at`,
    { account, action },
  );
}

function condition(column: string, { account, fromMs, toMs }: Range): { sql: string; params: QueryParams } {
  const from = `account_id = {account:String} AND ${column} >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`;
  const params: QueryParams = { account, from: Math.max(0, fromMs) };
  if (!Number.isFinite(toMs)) return { sql: from, params };
  return {
    sql: `${from} AND ${column} < fromUnixTimestamp64Milli({to:Int64}, 'UTC')`,
    params: { ...params, to: toMs },
  };
}

function bounded(bytesMax: number): QueryOptions {
  return {
    settings: { max_result_bytes: String(bytesMax), result_overflow_mode: 'throw', optimize_use_projections: 0 },
  };
}

async function inPieces(range: Range, read: (piece: Range, bytesMax: number) => Promise<void>): Promise<void> {
  const { fromMs, toMs } = range;
  if (toMs - fromMs <= 1) return read(range, MILLISECOND_BYTES_MAX);
  try {
    return await read(range, READ_BYTES_MAX);
  } catch (error) {
    if (!(error instanceof ClickHouseError) || error.code !== TOO_MANY_ROWS_OR_BYTES) throw error;
  }
  // Without an end: what has arrived, and what says it will.
  const middle = Number.isFinite(toMs) ? Math.floor((fromMs + toMs) / 2) : Math.max(fromMs + 1, Date.now());
  await inPieces({ ...range, toMs: middle }, read);
  await inPieces({ ...range, fromMs: middle }, read);
}
