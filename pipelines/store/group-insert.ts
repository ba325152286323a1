// One insert of the rows of several streams' batches (between their manifests and their chains), and what a batch does
// that was part of one and does not know how it ended. Each batch has a manifest and an acknowledgement of its own; all
// their manifests name the group's token before the insert is sent, and only an insert that was answered while every
// batch's lease still held counts as done.
// Invariant: of a batch's rows none is stored twice, since after the claim nothing else can come under the group's
// token, and before `split` is noted nothing is sent under another. None is lost, since no process takes the token
// itself for rows: they are asked for. A token that ClickHouse may have forgotten (an untracked batch) is not claimed:
// its insert is over long since. Only where tables are not replicated: there an answer speaks of this engine, and what
// it has it shows. A replica may lag behind.

import type { ConcurrentDuplicates } from '../../clickhouse/queries/concurrent-duplicates.ts';
import type { SummarizedRow } from '../../schemas/entry.ts';
import type { BarrierOutcome, GroupPart } from '../commit-barrier.ts';
import { byMonth } from './rows.ts';
import { whenQuiet } from './verify-insert.ts';

//   done      all rows are stored
//   alone     nothing was sent, or ClickHouse refused the rows as they were sent: the batch takes the token out of its
//             manifest and continues as if it had been alone from the start
//   unknown   no answer, a lease that ran out meanwhile, a new owner with an old manifest:
//     ask       which rows are there? All of them, most often: then they are stored. Else
//     claim     the batch sends its own rows under the group's token. Now that token is known, and the group insert,
//               should it still be on its way, will be dropped; either it was first, or this was, or another batch's
//               claim
//     wait      an insert under that token that still runs may have logged it and not shown its rows yet: until none
//               does
//     note      `split` replaces the token in the manifest: from here on the process that has the batch asks which rows
//               are there

type GroupInsertOptions = {
  token: string;
  insert: (rows: readonly SummarizedRow[], token: string) => Promise<void>;
  /** Is this error ClickHouse's verdict on the rows? */
  isBadData: (error: unknown) => boolean;
};

/** Rows of each month are an insert of their own. Never rejects. */
export async function insertGroup(
  parts: readonly GroupPart[],
  { token, insert, isBadData }: GroupInsertOptions,
): Promise<BarrierOutcome> {
  let sent = 0;
  try {
    for (const [month, rows] of byMonth(parts.flatMap((part) => part.rows))) {
      for (const part of parts) await part.ensureHeld();
      sent++;
      await insert(rows, monthly(token, month));
    }
    for (const part of parts) await part.ensureHeld();
    return 'done';
  } catch (error) {
    return sent === 0 || (sent === 1 && isBadData(error)) ? 'alone' : 'unknown';
  }
}

type ClaimOptions = GroupInsertOptions & {
  duplicates: (tokenPrefix: string) => Promise<ConcurrentDuplicates>;
};

/** Afterwards no insert under the group's token can store a row. The rows may be there or not. */
export async function claimToken(rows: readonly SummarizedRow[], options: ClaimOptions): Promise<void> {
  for (const [month, same] of byMonth(rows)) {
    try {
      await options.insert(same, monthly(options.token, month));
    } catch (error) {
      // Then it would refuse the group insert, too, which holds these rows.
      if (!options.isBadData(error)) throw error;
    }
  }
  await whenQuiet(options.token, options.duplicates);
}

function monthly(token: string, month: number): string {
  return `${token}:${month}`;
}
