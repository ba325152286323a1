// What lies behind a place in the audit chains, in the order in which it was committed (read by the feed,
// src/audit/feed.ts). The chains are that order: an entry gets its number after its row was stored, numbers have
// no holes, and a block comes to `audit_chain` behind all blocks before it. A row is then found by the id that its
// entry has; what was erased, or is past the retention, is not there any more.
// Invariant: nothing here looks at times to say what is new.
import type { Anomaly } from '../../schemas/anomaly.ts';
import { ANOMALY_KINDS } from '../../schemas/closed-sets.ts';
import { anomalyId } from '../../src/common/anomaly-id.ts';
import { timeOfId } from '../../src/common/ids.ts';
import type { ClickHouse, QueryParams } from '../client.ts';
import { BLOCK_ENTRIES_MAX } from './chain-blocks.ts';
import { instant, QueryConditions } from './conditions.ts';
import { type EventKey, KEY_COLUMNS } from './event-rows.ts';
import { ANOMALY_COLUMNS, type AnomalyRow, anomalyOf } from './list-anomalies.ts';
import { RECORDED_COLUMNS, type RecordedRow } from './list-audit-logs.ts';

/** The last entry of a chain that was read. */
export type ChainPlace = { chain: string; n: number };
/** A block without its contents. */
export type BlockHead = { chain: string; first: number; count: number };
/** Entries of a chain, both inclusive. */
export type ChainSlice = { chain: string; from: number; to: number };

type OfAccount = { account: string; excludeAgents: readonly string[] };

/** Where each chain of the account ends. */
export async function chainPlaces(clickhouse: ClickHouse, account: string): Promise<ChainPlace[]> {
  return clickhouse.query<ChainPlace>(
    `SELECT chain, toInt64(max(first_n + count - 1)) AS n FROM audit_chain
     WHERE account_id = {account:String} GROUP BY chain`,
    { account },
  );
}

/** Blocks that hold one of the `reach` entries behind these places, or the one at them; in order, chain by chain. */
export async function blocksBehind(
  clickhouse: ClickHouse,
  account: string,
  { places, reach }: { places: readonly ChainPlace[]; reach: number },
): Promise<BlockHead[]> {
  const ranges = places.map(({ chain, n }) => ({ chain, from: Math.max(1, n + 1 - BLOCK_ENTRIES_MAX), to: n + reach }));
  const where = within(account, ranges);
  return clickhouse.query<BlockHead>(
    `SELECT chain, toInt64(first_n) AS first, count FROM audit_chain FINAL WHERE ${where.sql} ORDER BY chain, first_n`,
    where.params,
  );
}

/** The first block behind each place, for chains that have one. */
export async function nextBlocks(
  clickhouse: ClickHouse,
  account: string,
  places: readonly ChainPlace[],
): Promise<ChainPlace[]> {
  const where = within(
    account,
    places.map(({ chain, n }) => ({ chain, from: n + 1, to: Number.MAX_SAFE_INTEGER })),
  );
  return clickhouse.query<ChainPlace>(
    `SELECT chain, toInt64(min(first_n)) AS n FROM audit_chain WHERE ${where.sql} GROUP BY chain`,
    where.params,
  );
}

/** The ids of these entries, 128 bits, by chain and number; empty: the contents have expired. */
export async function chainedIds(
  clickhouse: ClickHouse,
  account: string,
  slices: readonly ChainSlice[],
): Promise<Map<string, Map<number, Buffer>>> {
  const where = within(
    account,
    slices.map(({ chain, from, to }) => ({ chain, from: Math.max(1, from + 1 - BLOCK_ENTRIES_MAX), to })),
  );
  const rows = await clickhouse.query<{ chain: string; n: number; last: number; packed: string[] }>(
    `SELECT chain, toInt64(greatest(first_n, from_n)) AS n, toInt64(least(first_n + count - 1, to_n)) AS last,
       arrayMap(id -> hex(id), arraySlice(ids, n - toInt64(first_n) + 1, last - n + 1)) AS packed,
       transform(toString(chain), {chains:Array(String)}, {froms:Array(UInt64)}, toUInt64(0)) AS from_n,
       transform(toString(chain), {chains:Array(String)}, {tos:Array(UInt64)}, toUInt64(0)) AS to_n
     FROM audit_chain FINAL WHERE (${where.sql}) AND first_n + count > from_n`,
    {
      ...where.params,
      chains: slices.map(({ chain }) => chain),
      froms: slices.map(({ from }) => from),
      tos: slices.map(({ to }) => to),
    },
  );
  const found = new Map<string, Map<number, Buffer>>();
  for (const { chain, n, last, packed } of rows) {
    const byNumber = found.get(chain) ?? new Map<number, Buffer>();
    found.set(chain, byNumber);
    for (let i = n; i <= last; i++) byNumber.set(i, Buffer.from(packed[i - n] ?? '', 'hex'));
  }
  return found;
}

/** `from` and `to`: of a block's first entry, inclusive. Each chain is a range of the primary key. */
function within(account: string, ranges: readonly ChainSlice[]): { sql: string; params: QueryParams } {
  const params: Record<string, string | number> = { account };
  const clauses = ranges.map(({ chain, from, to }, i) => {
    Object.assign(params, { [`chain${i}`]: chain, [`from${i}`]: from, [`to${i}`]: to });
    return `(chain = {chain${i}:String} AND first_n BETWEEN {from${i}:UInt64} AND {to${i}:UInt64})`;
  });
  return { sql: `account_id = {account:String} AND (${clauses.join(' OR ') || 'false'})`, params };
}

/** By id, where these events are. */
export async function feedEventKeys(
  clickhouse: ClickHouse,
  { account, excludeAgents }: OfAccount,
  ids: readonly string[],
): Promise<Map<string, EventKey>> {
  if (ids.length === 0) return new Map();
  const where = withIds(account, 'received_at', ids).exclude('agent_id', excludeAgents);
  const keys = await clickhouse.query<EventKey>(`SELECT ${KEY_COLUMNS} FROM events WHERE ${where.sql}`, where.params, {
    settings: { preferred_optimize_projection_name: 'by_arrival' },
  });
  return new Map(keys.map((key) => [key.id, key]));
}

/** By id, what the audit log has beside events. */
export async function feedRecordedRows(
  clickhouse: ClickHouse,
  { account, excludeAgents }: OfAccount,
  ids: readonly string[],
): Promise<Map<string, RecordedRow>> {
  if (ids.length === 0) return new Map();
  const where = withIds(account, 'created_at', ids);
  // An `agent.deleted` is the account's, not the agent's.
  if (excludeAgents.length > 0)
    where.and("(action = 'agent.deleted' OR about_agent NOT IN {excluded:Array(String)})", { excluded: excludeAgents });
  const rows = await clickhouse.query<RecordedRow>(
    `SELECT ${RECORDED_COLUMNS} FROM audit_log FINAL WHERE ${where.sql}`,
    where.params,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** By event, the anomalies that were found at it. */
export async function feedAnomalies(
  clickhouse: ClickHouse,
  { account, excludeAgents }: OfAccount,
  events: readonly string[],
): Promise<Map<string, Anomaly[]>> {
  if (events.length === 0) return new Map();
  const eventOf = new Map(events.flatMap((event) => ANOMALY_KINDS.map((kind) => [anomalyId(event, kind), event])));
  const where = withIds(account, 'created_at', [...eventOf.keys()]).exclude('agent_id', excludeAgents);
  const rows = await clickhouse.query<AnomalyRow>(
    `SELECT ${ANOMALY_COLUMNS} FROM anomalies FINAL WHERE ${where.sql} ORDER BY id`,
    where.params,
  );
  const found = new Map<string, Anomaly[]>();
  for (const row of rows) {
    const event = eventOf.get(row.id)!;
    found.set(event, [...(found.get(event) ?? []), anomalyOf(row)]);
  }
  return found;
}

/** An id is minted with the very millisecond that the row has. */
function withIds(account: string, time: string, ids: readonly string[]): QueryConditions {
  const times = ids.map(timeOfId);
  return new QueryConditions(account)
    .and(`${time} BETWEEN ${instant('least')} AND ${instant('most')}`, {
      least: times.reduce((a, b) => Math.min(a, b)),
      most: times.reduce((a, b) => Math.max(a, b)),
    })
    .and('id IN {ids:Array(String)}', { ids });
}
