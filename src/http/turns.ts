// Turns of the event loop, as submissions meet them (between the door and a submission's handler): when the present one began, and
// whose work is done in it.
//
// A turn of the loop reads every socket that has something, and whoever it does not come to waits unseen. If each submission
// were judged where it is met, a turn that meets three times as many as the last one lasts three times as long: turns of 80 and
// then 250 ms were what a flood made of the first half second, and callers heard a refusal as late as that. So a turn does
// the work of the submissions that it meets in its first SLICE_MS; the others are only read (30 µs instead of 350 for a batch of
// 100) and wait here, and each turn does a slice of what waits, a short one if it is many. Waiting costs a batch about a tenth of its
// work (it is kept, and comes back when it is cold), so a slice is as long as what 50 ordinary callers bring at once.
//
// What waits has one line for each account, and the lines take turns: who sends one event waits for one work of each other account, not for
// the sixteen batches of a megabyte that another has sent before.
//
// Invariant: an account's are done in the order of arrival; each work is run exactly once; a turn does one slice, and at least one work if any
// waits.
// Bounded by those who are let in (load-shedding.ts).
// Failure: nothing here waits or asks anybody. A work must not throw; one that does is a bug and ends the process, as anywhere.

/** 55 batches of 100, or 500 single events. */
export const SLICE_MS = 20;
/** While many wait: a tenth of what a refusal may take. */
export const CROWDED_SLICE_MS = 5;
/** So many waiting are no ordinary load. */
const CROWD = 64;

export type TurnsOptions = {
  /** Monotonic, ms. */
  now?: () => number;
  /** Calls back when the event loop has been through the sockets that were ready. */
  afterTurn?: (callback: () => void) => void;
};

export class Turns {
  readonly #now: () => number;
  readonly #afterTurn: (callback: () => void) => void;
  /** When the present turn began; undefined between turns. */
  #beganMs: number | undefined;
  #isEndAwaited = false;
  /** Has the present turn done its slice where it met them? */
  #hasWorked = false;
  /** Accounts of whose works some wait; the first one's turn is next. */
  readonly #lines = new Map<string, Line>();
  #waiting = 0;

  constructor(options: TurnsOptions = {}) {
    this.#now = options.now ?? (() => performance.now());
    this.#afterTurn = options.afterTurn ?? setImmediate;
  }

  /** When the present turn began; the first submission of a turn begins it. */
  beganMs(nowMs: number): number {
    if (this.#beganMs === undefined) {
      this.#beganMs = nowMs;
      this.#awaitEnd();
    }
    return this.#beganMs;
  }

  /** How many wait for their work to begin. */
  get waiting(): number {
    return this.#waiting;
  }

  /** May work begin at once, and then does? Else it has to be `put`. */
  get isFree(): boolean {
    if (this.waiting > 0) return false;
    const nowMs = this.#now();
    if (nowMs - this.beganMs(nowMs) >= SLICE_MS) return false;
    this.#hasWorked = true;
    return true;
  }

  /** Runs it in one of the next turns. */
  put(account: string, work: () => void): void {
    let line = this.#lines.get(account);
    if (line === undefined) {
      line = new Line();
      this.#lines.set(account, line);
    }
    line.put(work);
    this.#waiting++;
    this.#awaitEnd();
  }

  #awaitEnd(): void {
    if (this.#isEndAwaited) return;
    this.#isEndAwaited = true;
    this.#afterTurn(this.#end);
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
    const untilMs = this.#now() + (this.waiting > CROWD ? CROWDED_SLICE_MS : SLICE_MS);
    do this.#next();
    while (this.#waiting > 0 && this.#now() < untilMs);
  }

  /** One work of the account whose turn it is. */
  #next(): void {
    const [[account, line]] = this.#lines as unknown as [[string, Line]];
    this.#waiting--;
    const work = line.take();
    if (line.isEmpty) this.#lines.delete(account);
    else if (this.#lines.size > 1) {
      this.#lines.delete(account);
      this.#lines.set(account, line);
    }
    work();
  }
}

/** Works of one account, in order. */
class Line {
  /** From `#first` on; what is before it has been done. */
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

/** Places of works that have been done, before a line that never empties lets go of them. */
const DONE_MAX = 1_024;
