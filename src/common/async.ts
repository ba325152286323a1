// Small asynchronous helpers that many parts share. What bounds how much runs at once is p-queue's
// (pipelines/alert/worker.ts) or fair-queue.ts's; waiting is node:timers/promises'.
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs `work` every `everyMs`, and never two runs at once: a run that is due while one is under way is skipped. `work`
 * must not reject.
 */
export class Periodic {
  readonly #everyMs: number;
  readonly #work: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(everyMs: number, work: () => Promise<void>) {
    this.#everyMs = everyMs;
    this.#work = work;
  }

  get isStarted(): boolean {
    return this.#timer !== undefined;
  }

  /** The first run is `everyMs` from now. */
  start(): void {
    this.#timer = setInterval(() => void this.run(), this.#everyMs);
  }

  /** Resolves when the run under way has ended. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#running;
  }

  /** Runs now, or joins the run that is under way. */
  run(): Promise<void> {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }
}

/**
 * Looks again and again until `signal` ends it; between two looks nothing for `waitMs`, or for `idle` times as long as
 * the last one took. `look` must not reject.
 */
export async function lookAgain(
  { signal, waitMs, idle }: { signal: AbortSignal; waitMs: number; idle: number },
  look: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    const begunMs = performance.now();
    await look();
    const restMs = Math.max(waitMs, idle * (performance.now() - begunMs));
    await sleep(restMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

/** On a loop that answers others, who have their turn then. */
const SLICE_MS = 5;

/** For work on a loop that answers others: they have their turn after each slice of it. */
export class Slices {
  #begunMs = performance.now();

  async next(): Promise<void> {
    if (performance.now() - this.#begunMs < SLICE_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#begunMs = performance.now();
  }
}

/** The results of `work` for each item, in their order. */
export async function inSlices<T, R>(items: readonly T[], work: (item: T) => R): Promise<R[]> {
  const slices = new Slices();
  const made: R[] = [];
  for (const item of items) {
    made.push(work(item));
    await slices.next();
  }
  return made;
}

/**
 * ms to wait before try `attempt` (from 1 on): exponential backoff from `minMs` to `maxMs`, with a jitter of a quarter,
 * so that many that failed together do not come back together.
 */
export function backoffMs(attempt: number, { minMs, maxMs }: { minMs: number; maxMs: number }): number {
  const withoutJitter = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, 20));
  return Math.round(withoutJitter * (0.75 + Math.random() / 2));
}

/** The value of `promise`, or of `late()` where it has not settled after `ms`; it is not cancelled then. */
export async function withTimeout<T>(promise: Promise<T>, ms: number, late: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => {
      try {
        resolve(late());
      } catch (error) {
        reject(error);
      }
    }, ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
