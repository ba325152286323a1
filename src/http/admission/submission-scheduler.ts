// A cooperative scheduler for submissions (between admission and a submission's handler): it bounds the work of one
// tick of the event loop.
// Invariant: the submissions of an account run in the order of their arrival, each exactly once; a tick does one slice,
// and at least one submission if any waits.
// Bound: the submissions that load shedding admits (load-shedding.ts).
// Failure: nothing here waits or calls another part. A work must not throw; one that does is a bug and ends the
// process.

// A tick of the loop reads every socket that is ready, and all others wait unseen. If each submission were judged where
// it is read, a tick that reads three times as many as the last one takes three times as long: ticks of 80 and then 250
// ms were what a flood made of the first half second, and callers got a refusal that late. So a tick does the work of
// the submissions that it reads in its first SLICE_MS; the others are only read (30 µs instead of 350 for a batch of
// 100) and wait here, and each tick does a slice of what waits, a short one if many wait. Waiting costs a batch about a
// tenth of its work (its memory is cold when it comes back), so a slice is as long as what 50 ordinary callers bring at
// once. Accounts take turns, one submission each, so a single event of one account does not wait behind the batches of
// another, however many wait.

/** 55 batches of 100, or 500 single events. */
export const SLICE_MS = 20;
/** The slice while many wait: a tenth of what a refusal may take. */
export const OVERLOADED_SLICE_MS = 5;
/** More than this many waiting is more than ordinary load. */
const OVERLOADED_WAITING = 64;

type SubmissionSchedulerOptions = {
  /** Monotonic, ms. */
  now?: () => number;
  /** Calls back when the event loop has been through the sockets that were ready. */
  afterTick?: (callback: () => void) => void;
};

export class SubmissionScheduler {
  readonly #now: () => number;
  readonly #afterTick: (callback: () => void) => void;
  /** When the current tick began; undefined between ticks. */
  #beganMs: number | undefined;
  #isEndAwaited = false;
  /** Has the current tick done its slice while it was reading? */
  #hasWorked = false;
  /** The accounts with waiting submissions; the first one is next. */
  readonly #queues = new Map<string, AccountQueue>();
  #waiting = 0;

  constructor(options: SubmissionSchedulerOptions = {}) {
    this.#now = options.now ?? (() => performance.now());
    this.#afterTick = options.afterTick ?? setImmediate;
  }

  /** Monotonic ms at which the current tick began; the first submission of a tick begins it. */
  tickBeganMs(nowMs: number): number {
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      this.#awaitEnd();
    }
    return this.#beganMs;
  }

  /** Submissions whose work has not begun. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Whether a submission may run at once; the caller then runs it. Otherwise it must be `put`. */
  get isFree(): boolean {
    if (this.waiting > 0) return false;
    const nowMs = this.#now();
    if (nowMs - this.tickBeganMs(nowMs) >= SLICE_MS) return false;
    this.#hasWorked = true;
    return true;
  }

  /** Runs it in one of the next ticks. */
  put(account: string, work: () => void): void {
    let queue = this.#queues.get(account);
    if (queue === undefined) {
      queue = new AccountQueue();
      this.#queues.set(account, queue);
    }
    queue.put(work);
    this.#waiting++;
    this.#awaitEnd();
  }

  #awaitEnd(): void {
    if (this.#isEndAwaited) return;
    this.#isEndAwaited = true;
    this.#afterTick(this.#end);
  }

  readonly #end = (): void => {
    this.#isEndAwaited = false;
    this.#beganMs = undefined;
    if (!this.#hasWorked) this.#slice();
    this.#hasWorked = false;
    if (this.#waiting > 0) this.#awaitEnd();
  };

  #slice(): void {
    if (this.#waiting === 0) return;
    const untilMs = this.#now() + (this.waiting > OVERLOADED_WAITING ? OVERLOADED_SLICE_MS : SLICE_MS);
    do this.#next();
    while (this.#waiting > 0 && this.#now() < untilMs);
  }

  /** One submission of the next account. */
  #next(): void {
    const [[account, queue]] = this.#queues as unknown as [[string, AccountQueue]];
    this.#waiting--;
    const work = queue.take();
    if (queue.isEmpty) this.#queues.delete(account);
    else if (this.#queues.size > 1) {
      this.#queues.delete(account);
      this.#queues.set(account, queue);
    }
    work();
  }
}

/** The waiting submissions of one account, in order. */
class AccountQueue {
  /** Waiting from `#first` on; what is before it is done. */
  #works: (() => void)[] = [];
  #first = 0;

  get isEmpty(): boolean {
    return this.#first === this.#works.length;
  }

  put(work: () => void): void {
    this.#works.push(work);
  }

  take(): () => void {
    const work = this.#works[this.#first++]!;
    if (this.#first > DONE_MAX) {
      this.#works = this.#works.slice(this.#first);
      this.#first = 0;
    }
    return work;
  }
}

/** Done entries that a queue which is never empty keeps before it drops them. */
const DONE_MAX = 1_024;
