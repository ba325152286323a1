// Work that is written once and done either at once or in steps, with others having their turn in between. A generator
// yields where it may be interrupted; who does the work says whether it is (judging: ingest/ingest.ts).
// Invariant: both give the same result, and throw the same.

export type Steps<T> = Generator<undefined, T, undefined>;
/** A result that is there already, or steps that lead to it: most results of the hot path need none. */
export type Stepped<T> = T | Steps<T>;
/** Resolves when other work was done; undefined: it is not time yet. */
export type Pause = () => Promise<void> | undefined;

/** `T` has no member `next`. */
export function atOnce<T extends object | null>(work: Stepped<T>): T {
  if (!isSteps(work)) return work;
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

export function* steps<T extends object | null>(work: Stepped<T>): Steps<T> {
  return isSteps(work) ? yield* work : work;
}

/** For steps that share state: those of one work are done before the next one begins. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** Rejects with what `pause` rejects with; the steps are ended then. */
  async do<T extends object | null>(work: Stepped<T>, pause: Pause): Promise<T> {
    if (!isSteps(work)) return work;
    const turn = this.#last.then(() => withPauses(work, pause));
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

async function withPauses<T>(work: Steps<T>, pause: Pause): Promise<T> {
  try {
    for (;;) {
      const { done, value } = work.next();
      if (done === true) return value;
      await pause();
    }
  } finally {
    work.return(undefined as never);
  }
}

function isSteps<T extends object | null>(work: Stepped<T>): work is Steps<T> {
  return work !== null && 'next' in work;
}
