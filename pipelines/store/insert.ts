// Inserts the rows of one month, and finds the rows that ClickHouse will not take (the last step before the ack).
// The rows form a fixed binary tree: all of them, then halves, down to single rows. A node is inserted whole, with a
// token that holds a hash of its ids. ClickHouse drops an insert whose token it knows, whatever the rows ("token wins
// over data"), so a token must never represent two sets of rows; with the hash in it, it cannot.
// A node is halved for one of two reasons: ClickHouse refused its data, or some of its rows are there already.
// Who writes the batch again, or at the same time, walks the same tree, sends the same nodes under the same tokens, and
// ClickHouse keeps one of each.
// Invariant: each row ends stored, found stored, or returned as bad. Bad is a row that was refused alone, twice: the
// table may have been mended in between.
// More than DEAD_LETTER_ROWS_MAX bad rows throw: that is not poison but a table that does not fit, and dead-lettering
// it all would be losing it. Whatever else an insert throws is thrown on, for the batch to be tried again.
import type { SummarizedRow } from '../../schemas/entry.ts';
import { DEAD_LETTER_ROWS_MAX } from '../../src/common/limits.ts';
import { hashOf } from './rows.ts';

export type BadRow = { row: SummarizedRow; reason: string };

export class TableRefuses extends Error {
  override name = 'TableRefuses';
}

type InsertOptions = {
  /** Begins every token: names the batch and the month. */
  tokenPrefix: string;
  insert: (rows: SummarizedRow[], token: string) => Promise<void>;
  /** Ids that are stored already, where that had to be asked. */
  existing: ReadonlySet<string> | null;
  /** Is this error ClickHouse's verdict on the rows? */
  isBadData: (error: unknown) => boolean;
  /** Before the first half is inserted. */
  beforeSplit: () => Promise<void>;
};

/** Returns the bad rows: each was refused alone, and again after all others had been tried. */
export async function insertRows(rows: readonly SummarizedRow[], options: InsertOptions): Promise<BadRow[]> {
  const refused: BadRow[] = [];
  await insertNode(rows, options, refused);
  const bad: BadRow[] = [];
  for (const { row } of refused) await insertNode([row], options, bad);
  return bad;
}

async function insertNode(rows: readonly SummarizedRow[], options: InsertOptions, bad: BadRow[]): Promise<void> {
  const { existing } = options;
  const missing =
    existing === null ? rows.length : rows.reduce((count, row) => count + (existing.has(row.summary.id) ? 0 : 1), 0);
  if (missing === 0) return;
  if (missing === rows.length) {
    try {
      return await options.insert([...rows], `${options.tokenPrefix}:${hashOf(rows.map((row) => row.summary.id))}`);
    } catch (error) {
      if (!options.isBadData(error)) throw error;
      if (rows.length === 1) return setAside(rows[0]!, error, bad);
    }
  }
  await options.beforeSplit();
  const middle = rows.length >> 1;
  await insertNode(rows.slice(0, middle), options, bad);
  await insertNode(rows.slice(middle), options, bad);
}

function setAside(row: SummarizedRow, error: unknown, bad: BadRow[]): void {
  const reason = error instanceof Error ? error.message : String(error);
  bad.push({ row, reason });
  if (bad.length > DEAD_LETTER_ROWS_MAX)
    throw new TableRefuses(`ClickHouse refused ${bad.length} rows of one batch one by one, the last with: ${reason}`);
}
