// Events of accounts that are over their share of the loop that answers (policy/allowance.ts) are judged here, on that
// loop still: a slice of one submission each time it comes round, so that in between all others have their answers.
// Stands on the path of a submission (ingest.ts), between reading and counters.
// Invariant: one submission is under way, an account has one and WAITING_MAX in line, accounts take turns. A slice ends
// between two events. More in line is refused for that account alone (503), as is who waits for too long.
// Failure: none of its own; what a step throws ends the submission. Who has left meanwhile is not judged on.
import { setImmediate as nextRound } from 'node:timers/promises';
import { notRecorded, type ServiceError } from '../common/errors.ts';
import { FairQueue, QueueFull } from '../common/fair-queue.ts';

/** An account has so many in line: each keeps its body in memory, a quarter of a megabyte at most. */
const WAITING_MAX = 256;
/** In line: longer than callers wait for an answer. */
const WAIT_MS_MAX = 10_000;
/** As long as reading a batch holds the loop up. */
const SLICE_MS = 1;

export class JudgingSlices {
  readonly #queue = new FairQueue({ max: 1, accountMax: 1, waitingMax: WAITING_MAX });

  /** `step`: judges one event, and says whether there was one. Rejects with what the caller is answered. */
  async judge(account: string, caller: { readonly isGone: boolean }, step: () => boolean): Promise<void> {
    const waiting = new AbortController();
    const late = setTimeout(() => waiting.abort(refusal('has waited too long')), WAIT_MS_MAX);
    try {
      await this.#queue.run(account, waiting.signal, async () => {
        clearTimeout(late);
        while (!caller.isGone && isLeft(step)) await nextRound();
      });
    } catch (error) {
      throw error instanceof QueueFull ? refusal(`is in line: ${error.message}`) : error;
    } finally {
      clearTimeout(late);
    }
  }
}

/** One slice; are events left? */
function isLeft(step: () => boolean): boolean {
  const until = performance.now() + SLICE_MS;
  do if (!step()) return false;
  while (performance.now() < until);
  return true;
}

function refusal(why: string): ServiceError {
  return notRecorded(`What of this account takes long to judge ${why}`);
}
