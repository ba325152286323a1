// Deletes what is past the retention (asked by the pipelines' worker, row-expiry.ts): a month in which nothing can be
// kept is dropped, of others the rows that are not kept are deleted by a mutation, which rewrites the parts that have
// any and leaves the rest. Not by a TTL of the tables: a merged part is looked at again when the old one says so, a
// change would rewrite every part at once, and none knows accounts or holds.
// Invariant: a row goes only where `keptRows` does not hold for it.
import type { KeptTimes } from '../../schemas/retention.ts';
import type { ClickHouse, QueryOptions } from '../client.ts';
import { accountLiteral, EXPIRING_TABLES, type ExpiringTable, instantLiteral, keptRows } from './kept-rows.ts';

/** `own`: of accounts that keep otherwise than the others. */
type KeptRowsOf = { others: KeptTimes; own: ReadonlyMap<string, KeptTimes> };
/** A month of a table; epoch ms. */
export type ExpiringPartition = { table: ExpiringTable; partition: string; rows: number; fromMs: number; toMs: number };

const ARRIVED: Record<ExpiringTable, string> = {
  events: 'received_at',
  anomalies: 'created_at',
  approvals: 'created_at',
  deliveries: 'created_at',
};
/** In one condition: some 100 kB of text. */
const ACCOUNTS_AT_ONCE = 500;
const TABLES = EXPIRING_TABLES.map((table) => `'${table}'`).join(', ');
/** The accounts that are left out of a condition are all named in it. */
const LONG_TEXT = {
  max_query_size: String(64 * 1024 * 1024),
  max_ast_elements: '2000000',
  max_expanded_ast_elements: '2000000',
};
const GIVES_WAY: NonNullable<QueryOptions['settings']> = { ...LONG_TEXT, max_threads: 1, optimize_use_projections: 0 };

/** Months that have rows, the oldest first. */
export async function expiringPartitions(clickhouse: ClickHouse): Promise<ExpiringPartition[]> {
  const found = await clickhouse.query<{ table: ExpiringTable; partition: string; total: number }>(
    `SELECT table, partition_id AS partition, toUInt64(sum(parts.rows)) AS total FROM system.parts AS parts
     WHERE database = currentDatabase() AND table IN (${TABLES}) AND active AND rows > 0
     GROUP BY table, partition_id ORDER BY partition, table`,
  );
  return found.map(({ table, partition, total }) => {
    const [year, month] = [Number(partition.slice(0, 4)), Number(partition.slice(4))];
    return { table, partition, rows: Number(total), fromMs: Date.UTC(year, month - 1), toMs: Date.UTC(year, month) };
  });
}

/** Which rows of a table are past, a condition for each so many accounts. */
export function pastConditions(table: ExpiringTable, { others, own }: KeptRowsOf): string[] {
  const accounts = [...own.keys()].sort();
  const conditions: string[] = [];
  for (let i = 0; i < accounts.length; i += ACCOUNTS_AT_ONCE) {
    const some = accounts.slice(i, i + ACCOUNTS_AT_ONCE);
    const kept = some.map((id) => `account_id = ${accountLiteral(id)}, ${keptRows(table, own.get(id)!)}`);
    const before = Math.max(...some.map((id) => own.get(id)!.wholeFromMs));
    conditions.push(
      past(
        table,
        `account_id IN (${some.map(accountLiteral).join(', ')})`,
        before,
        `multiIf(${kept.join(', ')}, true)`,
      ),
    );
  }
  const rest = accounts.length === 0 ? 'true' : `account_id NOT IN (${accounts.map(accountLiteral).join(', ')})`;
  return [...conditions, past(table, rest, others.wholeFromMs, keptRows(table, others))];
}

/** The first comparison says nothing new, but an index knows it. */
function past(table: ExpiringTable, accounts: string, beforeMs: number, kept: string): string {
  return `${ARRIVED[table]} < ${instantLiteral(beforeMs)} AND ${accounts} AND NOT (${kept})`;
}

/** Epoch ms: of no account is anything kept that arrived before. */
export function pastWholeMs({ others, own }: KeptRowsOf): number {
  return Math.min(...[others, ...own.values()].map(leastMs));
}

function leastMs({ fromMs, byType, othersFromMs, held }: KeptTimes): number {
  if (held.all || held.agents.length + held.traces.length > 0) return 0;
  return Math.min(fromMs, othersFromMs, ...byType.map(([, ms]) => ms));
}

export async function countPast(
  clickhouse: ClickHouse,
  { table, partition }: ExpiringPartition,
  condition: string,
): Promise<number> {
  const [row] = await clickhouse.query<{ n: number }>(
    `SELECT count() AS n FROM ${table} WHERE _partition_id = '${safe(partition)}' AND ${condition}`,
    {},
    { settings: GIVES_WAY },
  );
  return Number(row!.n);
}

/** Has ClickHouse delete them. Returns at once. */
export async function deletePast(
  clickhouse: ClickHouse,
  { table, partition }: ExpiringPartition,
  condition: string,
): Promise<void> {
  await clickhouse.command(
    `ALTER TABLE ${table} DELETE IN PARTITION ID '${safe(partition)}' WHERE ${condition}`,
    {},
    { ...LONG_TEXT, mutations_sync: '0' },
  );
}

export async function dropPartition(clickhouse: ClickHouse, { table, partition }: ExpiringPartition): Promise<void> {
  await clickhouse.command(`ALTER TABLE ${table} DROP PARTITION ID '${safe(partition)}'`);
}

/** The mutations that run in these tables now, ours and others, and their last fault. */
export async function runningChanges(
  clickhouse: ClickHouse,
): Promise<{ table: string; id: string; fault: string; isOurs: boolean }[]> {
  return clickhouse.query(
    `SELECT table, mutation_id AS id, latest_fail_reason AS fault, startsWith(command, '(DELETE') OR startsWith(command, 'DELETE') AS isOurs
     FROM system.mutations
     WHERE database = currentDatabase() AND table IN (${TABLES}) AND NOT is_done AND NOT is_killed`,
  );
}

export async function giveUpChange(
  clickhouse: ClickHouse,
  { table, id }: { table: string; id: string },
): Promise<void> {
  await clickhouse.command(
    `KILL MUTATION WHERE database = currentDatabase() AND table = '${safe(table)}' AND mutation_id = '${safe(id)}'`,
  );
}

function safe(name: string): string {
  if (!/^[\w.-]+$/.test(name)) throw new Error(`${name} is no name of a table, partition or mutation`);
  return name;
}
