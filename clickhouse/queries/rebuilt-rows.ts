// Rows that were stored before migration 013 get the index and their search text in the background: the statements of
// it (pipelines/store/search-rebuild.ts runs them), and whether it has ended (asked by searches beyond ASCII).
// The state is a setting among the migrations (version 0), so that it goes with the tables: a restored backup of before
// is rebuilt again.
// Invariant: until it has ended, a row is found by what found it before (search.ts).
import type { ClickHouse, QueryParams } from '../client.ts';

export type RebuildState = {
  /** Epoch ms at which it began. */
  since: number;
  /** Partitions whose parts have the index, and those whose rows have their search text. */
  indexed: string[];
  worded: string[];
  done: boolean;
};

const SETTING = 'search_rebuild';
/** Between two looks of a process whether the rebuilding has ended. */
const LOOK_MS = 10_000;

const known = new WeakMap<ClickHouse, { isRebuilt: boolean; askedAt: number }>();

/** Once it is, it stays so; asked at most every LOOK_MS until then. */
export async function isSearchRebuilt(clickhouse: ClickHouse): Promise<boolean> {
  const last = known.get(clickhouse);
  const now = performance.now();
  if (last !== undefined && (last.isRebuilt || now - last.askedAt < LOOK_MS)) return last.isRebuilt;
  const isRebuilt = (await rebuildState(clickhouse))?.done === true;
  known.set(clickhouse, { isRebuilt, askedAt: now });
  return isRebuilt;
}

/** undefined: it has not begun. */
export async function rebuildState(clickhouse: ClickHouse): Promise<RebuildState | undefined> {
  const [row] = await clickhouse.query<{ checksum: string }>(
    `SELECT checksum FROM migrations FINAL WHERE version = 0 AND name = '${SETTING}'`,
  );
  return row && (JSON.parse(row.checksum) as RebuildState);
}

export async function noteRebuild(clickhouse: ClickHouse, state: RebuildState): Promise<void> {
  await clickhouse.insertRows('migrations', [{ version: 0, name: SETTING, checksum: JSON.stringify(state) }]);
}

/** Of the events, the newest first, with their rows. */
export async function eventPartitions(clickhouse: ClickHouse): Promise<{ partition: string; rows: number }[]> {
  return clickhouse.query(
    `SELECT partition_id AS partition, sum(rows) AS rows FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND active GROUP BY partition ORDER BY partition DESC`,
  );
}

/** Has ClickHouse make the index of parts that have none: some 20 us of CPU a row. Returns at once. */
export async function indexPartition(clickhouse: ClickHouse, partition: string): Promise<void> {
  await clickhouse.command(
    `ALTER TABLE events MATERIALIZE INDEX search_words IN PARTITION ID '${safe(partition)}'`,
    {},
    { mutations_sync: '0' },
  );
}

export type PendingRow = { account: string; agent: string; at: string; id: string; payload: string };
export type RowPosition = Omit<PendingRow, 'payload'>;

/** Rows without a search text that may need one, in the order of the primary key. `since`: epoch ms of arrival. */
export async function pendingRows(
  clickhouse: ClickHouse,
  { partition, after, since, max }: { partition: string; after: RowPosition | undefined; since: number; max: number },
): Promise<PendingRow[]> {
  const behind =
    "AND (account_id, agent_id, timestamp, id) > ({after_account:String}, {after_agent:String}, toDateTime64({after_at:String}, 6, 'UTC'), {after_id:String})";
  return clickhouse.query<PendingRow>(
    `SELECT account_id AS account, agent_id AS agent, toString(timestamp) AS at, id, payload FROM events
     WHERE _partition_id = {partition:String} AND received_at >= fromUnixTimestamp64Milli({since:Int64}) AND empty(words)
       AND match(payload, '[^\\\\x00-\\\\x7f]|\\\\\\\\[u\\\\\\\\]') ${after === undefined ? '' : behind}
     ORDER BY account_id, agent_id, timestamp, id LIMIT {max:UInt64}`,
    { partition, since, max, ...(after && named(after)) },
    { settings: { optimize_use_projections: 0 } },
  );
}

/** Not as `account`: that would be a turn of the account's. */
function named({ account, agent, at, id }: RowPosition): QueryParams {
  return { after_account: account, after_agent: agent, after_at: at, after_id: id };
}

/** Search texts on their way into the events. A chunk's name says when it was begun, epoch ms. */
export async function stageWords(
  clickhouse: ClickHouse,
  chunk: string,
  rows: readonly { id: string; words: string }[],
): Promise<void> {
  await clickhouse.insertRows(
    'search_rebuild',
    rows.map((row) => ({ chunk, ...row })),
  );
}

/**
 * Has ClickHouse write a chunk's search texts into its partition, and the index of the parts that change. Returns at
 * once; the chunk has to be there until it is done. Both arrays come of one subquery, so they fit each other.
 */
export async function applyWords(clickhouse: ClickHouse, partition: string, chunk: string): Promise<void> {
  const staged = `(SELECT (groupArray(id), groupArray(words)) FROM search_rebuild WHERE chunk = '${safe(chunk)}')`;
  await clickhouse.command(
    `ALTER TABLE events UPDATE words = transform(id, tupleElement(${staged}, 1), tupleElement(${staged}, 2), words)
     IN PARTITION ID '${safe(partition)}' WHERE id IN (SELECT id FROM search_rebuild WHERE chunk = '${safe(chunk)}')`,
    {},
    { mutations_sync: '0' },
  );
}

export async function dropChunks(clickhouse: ClickHouse, begunBefore: number): Promise<void> {
  const chunks = await clickhouse.query<{ chunk: string }>(
    `SELECT DISTINCT partition AS chunk FROM system.parts
     WHERE database = currentDatabase() AND table = 'search_rebuild' AND active`,
  );
  for (const { chunk } of chunks)
    if (Number.parseInt(chunk, 10) <= begunBefore)
      await clickhouse.command(`ALTER TABLE search_rebuild DROP PARTITION '${safe(chunk)}'`);
}

/** What is being changed in the events now, and what went wrong with it. */
export async function runningMutations(clickhouse: ClickHouse): Promise<{ id: string; fault: string }[]> {
  return clickhouse.query(
    `SELECT mutation_id AS id, latest_fail_reason AS fault FROM system.mutations
     WHERE database = currentDatabase() AND table = 'events' AND NOT is_done AND NOT is_killed`,
  );
}

export async function killMutation(clickhouse: ClickHouse, id: string): Promise<void> {
  await clickhouse.command(
    `KILL MUTATION WHERE database = currentDatabase() AND table = 'events' AND mutation_id = '${safe(id)}'`,
  );
}

/** Names of ours and of the engine: letters, digits and a few signs. */
function safe(name: string): string {
  if (!/^[\w.-]+$/.test(name)) throw new Error(`${name} is no name of a partition, chunk or mutation`);
  return name;
}
