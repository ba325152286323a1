// What a recovery of the audit chain compares (pipelines/store/chain-recovery.ts): the ids of rows that were stored
// since a time, and the ids that the chains hold since then. Ids alone, without contents.
import { RowBinaryReader } from '../../src/common/row-binary.ts';
import type { ClickHouse } from '../client.ts';

type StoredId = { account: string; agent: string; id: string; atMs: number };

const SQL = {
  events: `SELECT account_id AS account, agent_id AS agent, id, toUnixTimestamp64Milli(received_at) AS atMs FROM events
    WHERE received_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') LIMIT {most:UInt64}`,
  audit_log: `SELECT account_id AS account, about_agent AS agent, id, toUnixTimestamp64Milli(created_at) AS atMs
    FROM audit_log FINAL WHERE created_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') LIMIT {most:UInt64}`,
};

/** null: there are more than `rowsMax`. */
export async function storedSince(
  clickhouse: ClickHouse,
  { table, fromMs, rowsMax }: { table: keyof typeof SQL; fromMs: number; rowsMax: number },
): Promise<StoredId[] | null> {
  const rows = await clickhouse.query<StoredId>(SQL[table], { from: Math.max(0, fromMs), most: rowsMax + 1 });
  return rows.length > rowsMax ? null : rows;
}

/** `onIds` gets packed ids, 16 bytes each, of blocks of any account whose last entry is not older. */
export async function chainedIdsSince(
  clickhouse: ClickHouse,
  { chain, fromMs }: { chain: string; fromMs: number },
  onIds: (ids: Buffer) => void,
): Promise<void> {
  const bytes = await clickhouse.queryBinary(
    `SELECT ids FROM audit_chain FINAL WHERE chain = {chain:String}
       AND last_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')`,
    { chain, from: Math.max(0, fromMs) },
  );
  const reader = new RowBinaryReader(bytes);
  while (!reader.done) onIds(reader.fixedArray(16));
}
