// What a recovery of the audit chain compares (pipelines/store/chain-recovery.ts), slice by slice of time: the ids of
// rows that were stored, and the ids that the chains hold of that time. Ids alone, without contents.
// Invariant: a slice has about `rowsMax` rows at most, whatever the history is; ten seconds are the least.
import { RowBinaryReader } from '../../src/common/row-binary.ts';
import type { ClickHouse } from '../client.ts';

type StoredId = { account: string; agent: string; id: string; atMs: number };
/** From inclusive, to exclusive. */
export type Slice = { fromMs: number; toMs: number };
type Table = 'events' | 'audit_log';

const TIME = { events: 'received_at', audit_log: 'created_at' };
const AGENT = { events: 'agent_id', audit_log: 'about_agent' };
const BUCKET_MS = 10_000;
/** A day of buckets. */
const BUCKETS_AT_ONCE = 8_640;
/** A row's own time and that in its id come of the same clock, some milliseconds apart. */
const APART_MS = 60_000;

/** The times since `fromMs` in which there are rows, in order. */
export async function* slicesSince(
  clickhouse: ClickHouse,
  { table, fromMs, rowsMax }: { table: Table; fromMs: number; rowsMax: number },
): AsyncGenerator<Slice> {
  for (let from = Math.max(0, fromMs); ; ) {
    const buckets = await clickhouse.query<{ bucket: number; rows: number }>(
      `SELECT intDiv(toUnixTimestamp64Milli(${TIME[table]}), ${BUCKET_MS}) AS bucket, count() AS rows FROM ${table}
       WHERE ${TIME[table]} >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')
       GROUP BY bucket ORDER BY bucket LIMIT ${BUCKETS_AT_ONCE}`,
      { from },
    );
    let open: (Slice & { rows: number }) | undefined;
    for (const { bucket, rows } of buckets) {
      if (open !== undefined && open.rows + rows > rowsMax) {
        yield { fromMs: open.fromMs, toMs: open.toMs };
        open = undefined;
      }
      open ??= { fromMs: Math.max(from, bucket * BUCKET_MS), toMs: 0, rows: 0 };
      open.toMs = (bucket + 1) * BUCKET_MS;
      open.rows += rows;
    }
    if (open === undefined) return;
    yield { fromMs: open.fromMs, toMs: open.toMs };
    if (buckets.length < BUCKETS_AT_ONCE) return;
    from = open.toMs;
  }
}

export function storedBetween(clickhouse: ClickHouse, table: Table, { fromMs, toMs }: Slice): Promise<StoredId[]> {
  const time = TIME[table];
  return clickhouse.query<StoredId>(
    `SELECT account_id AS account, ${AGENT[table]} AS agent, id, toUnixTimestamp64Milli(${time}) AS atMs
     FROM ${table} ${table === 'audit_log' ? 'FINAL' : ''}
     WHERE ${time} >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND ${time} < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
     ORDER BY ${time}`,
    { from: fromMs, to: toMs },
  );
}

/**
 * Packed ids, 16 bytes each, of any account's entries that arrived about then. A block lies between the first arrival
 * of its entries and the time at which it was made.
 */
export async function chainedIdsBetween(
  clickhouse: ClickHouse,
  { chain, fromMs, toMs }: Slice & { chain: string },
  onIds: (ids: Buffer) => void,
): Promise<void> {
  const bytes = await clickhouse.queryBinary(
    `SELECT arrayFilter(id -> reinterpretAsUInt64(reverse(substring(id, 1, 6))) BETWEEN {from:UInt64} AND {to:UInt64}, ids)
     FROM audit_chain FINAL WHERE chain = {chain:String}
       AND from_at <= fromUnixTimestamp64Milli({to:Int64}, 'UTC') AND last_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`,
    { chain, from: Math.max(0, fromMs - APART_MS), to: toMs + APART_MS },
  );
  const reader = new RowBinaryReader(bytes);
  while (!reader.done) onIds(reader.fixedArray(16));
}
