// Makes sure of rows that were sent again after a try without an answer (between a batch's inserts and its
// acknowledgement). A table that is not replicated writes an insert's token to its log first and shows the part
// afterwards, as two steps on disk. An engine that is killed between them comes back with a token that it knows and
// rows that it does not have; the insert that is sent again is answered as done and nothing is stored (engine 26.7;
// half a millisecond wide on a quiet machine). So after such a try the rows are asked for, and what is not there is
// inserted under a token that was never used.
// Invariant: who writes the batch again, or at the same time, goes through the same rounds with the same tokens, so
// each is stored once; a late duplicate of the first try finds its token known. An insert is one part, so of its rows
// all are there or none. After ROUNDS_MAX rounds the rows are taken for expired or removed by hand: each round has
// needed a kill at that very place.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ConcurrentDuplicates } from '../../clickhouse/queries/concurrent-duplicates.ts';
import type { SummarizedRow } from '../../schemas/entry.ts';
import type { BadRow } from './insert.ts';

//   ask      which of the rows are not there?                                none, nearly always: done
//   wait     an insert of the same token that still runs may just have logged it: until none does, and ask again
//   insert   what is not there, under the token of this round; its own token may be as false, so ask again

const ROUNDS_MAX = 5;
/** Longer than any insert may take; then the batch is tried again. */
const WAIT_MS_MAX = 150_000;
const POLL_MS = 50;

/** Inserts of this batch are still running, so it cannot be said yet what they have stored. */
class StillInserting extends Error {
  override name = 'StillInserting';
}

type InsertVerifyOptions = {
  tokenPrefix: string;
  existing: (rows: readonly SummarizedRow[]) => Promise<ReadonlySet<string>>;
  duplicates: (tokenPrefix: string) => Promise<ConcurrentDuplicates>;
  insert: (rows: readonly SummarizedRow[], tokenPrefix: string) => Promise<BadRow[]>;
  /** Rows were answered as stored and are not there. */
  lost: (rows: number, round: number) => void;
};

/** `rows`: answered as stored. Returns those that ClickHouse refused now. */
export async function insertLost(rows: readonly SummarizedRow[], options: InsertVerifyOptions): Promise<BadRow[]> {
  const bad: BadRow[] = [];
  let lost = await notThere(rows, options);
  for (let round = 1; lost.length > 0; round++) {
    if (await tokensAreTrue(options)) return bad;
    lost = await notThere(lost, options);
    if (lost.length === 0) break;
    options.lost(lost.length, round);
    if (round > ROUNDS_MAX) break;
    bad.push(...(await options.insert(lost, `${options.tokenPrefix}:again${round}`)));
    const refused = new Set(bad.map(({ row }) => row));
    lost = await notThere(
      lost.filter((row) => !refused.has(row)),
      options,
    );
  }
  return bad;
}

async function notThere(rows: readonly SummarizedRow[], { existing }: InsertVerifyOptions): Promise<SummarizedRow[]> {
  if (rows.length === 0) return [];
  const there = await existing(rows);
  return rows.filter(({ summary }) => !there.has(summary.id));
}

async function tokensAreTrue({ duplicates, tokenPrefix }: InsertVerifyOptions): Promise<boolean> {
  return (await whenQuiet(tokenPrefix, duplicates)).tokensAreTrue;
}

/** Resolves once no insert under such a token is running, or none could be misleading. Throws StillInserting. */
export async function whenQuiet(
  tokenPrefix: string,
  duplicates: (tokenPrefix: string) => Promise<ConcurrentDuplicates>,
): Promise<ConcurrentDuplicates> {
  for (const until = performance.now() + WAIT_MS_MAX; performance.now() < until; await sleep(POLL_MS)) {
    const found = await duplicates(tokenPrefix);
    if (found.tokensAreTrue || found.running === 0) return found;
  }
  throw new StillInserting(`inserts of ${tokenPrefix} are still running`);
}
