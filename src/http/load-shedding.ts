// Refuses submissions while a front is behind (503 `unavailable`; after the request limit, before the body is taken in).
//
// Without it a front that is asked for more than it can do refuses nothing: requests wait in the kernel's buffers and in the
// front's own queues, and every answer comes late. A refusal at the head of a request costs a small part of a submission, so
// nearly all of the processor is left for what is let in.
//
//   measure    A request that waits in its socket is invisible until the event loop comes to it. But whatever one turn of
//              the loop meets was there when the turn began, or came in it. So `wait` is counted from the beginning of the
//              turn to the answer: the queue before us, the judging, the counters and the append are all in it.
//   calm       Everybody comes in, within the hard bounds (count, backlog, nothing answered for OVERDUE_MS). Pauses (collector,
//              disk, a neighbour on the processor) make some waits long and are forgiven: a queue that drains is no overload.
//   strained   begins when, for STANDING_MS, not one submission was answered that had waited less than LONG_MS: the queue
//              stands (CoDel's sign); or when so many were met in one turn that it has lasted for CALM_TURN_MS_MAX. Then no
//              more are in hand than are served in WAIT_MS_MAX at the best rate of late, and no turn takes more than what it
//              meets in its first TURN_MS_MAX. The one bounds the wait of those who are let in, the other of those who are
//              refused. A few are taken in any case, so that a slow machine goes on working.
//              (The age of the oldest in hand as the bound, tried first, lets in three times too much before it notices.)
//   calm again once nobody had to be refused for CALM_MS.
//
// Each account has a share: one that was let in less than an even share lately is refused last (fair-shares.ts).
// Reads, registry and health are never refused here: they are few, and whoever mends things needs them.
// Invariant: a refusal is decided before anything is kept of the request, so it is `recorded: false`. What is taken in hand
// is given back when its exchange is over, however that happens. A body on its way is not in hand, so slow clients are no load.
// Failure: nothing here waits or asks anybody, and the state is a few numbers.
import { SUBMISSIONS_IN_HAND_MAX } from '../limits.ts';
import { FairShares } from './fair-shares.ts';

/** A wait that nobody who waits for an answer wants; a closed loop of 64 callers is far from it unless each batch takes 8 ms. */
export const LONG_MS = 500;
/** While it refuses, those who are let in wait about so long: several times what a batch takes at full load. */
export const WAIT_MS_MAX = 200;
/** A turn that has lasted so long takes no more: those who are still in their sockets shall hear soon. Eight batches of 100. */
export const TURN_MS_MAX = 5;
/** In calm a turn may last so long with IN_HAND_MIN taken: it takes a pause of 200 ms at half of the load to get there. */
export const CALM_TURN_MS_MAX = 100;
/** Rates and shortest waits are taken so often; the best of a second's counts, since a pause says nothing of what can be done. */
const WINDOW_MS = 125;
const RATES_KEPT = 8;
/** A queue that has not been short for so long stands. What gathers in a stall of half a second at half of the load is gone sooner. */
export const STANDING_MS = 250;
export const CALM_MS = 1_000;
/** Nothing was answered for so long: more work in hand would only be lost with it. */
export const OVERDUE_MS = 1_000;
/** Taken whatever the clock says, in all and in one turn: fewer callers than these are no overload, however slow the machine. */
export const IN_HAND_MIN = 64;
export const OF_TURN_MIN = 4;
/** An account that is owed its share is refused only past this multiple of both bounds. */
const OWED_FACTOR = 2;

export type ShedReason = 'backlog' | 'count' | 'overdue' | 'wait' | 'turn';

export type LoadSheddingOptions = {
  /** Is there no room downstream? */
  backlogFull: () => boolean;
  onShed?: (reason: ShedReason) => void;
  /** For the log: the strain has begun, or has ended after so many refusals. */
  onStrain?: (strained: boolean, refused: number) => void;
  inHandMax?: number;
  /** Monotonic, ms. */
  now?: () => number;
  /** Calls back when the event loop has been through the sockets that were ready. */
  afterTurn?: (callback: () => void) => void;
};

export class LoadShedding {
  readonly #options: LoadSheddingOptions;
  readonly #inHandMax: number;
  readonly #now: () => number;
  readonly #afterTurn: (callback: () => void) => void;
  readonly #shares = new FairShares();
  /** When the present turn of the loop began; undefined between turns. */
  #turnMs: number | undefined;
  #takenInTurn = 0;
  #inHand = 0;
  #answeredMs = 0;
  #strained = false;
  #refused = 0;
  #refusedMs = 0;
  /** Of the window that is open: its beginning, how many were served in it, and the shortest wait of these. */
  #windowMs = 0;
  #served = 0;
  #shortestMs = Number.POSITIVE_INFINITY;
  /** Served a ms in each of the last windows. */
  readonly #rates = new Array<number>(RATES_KEPT).fill(0);
  #windows = 0;
  #inHandStrained = IN_HAND_MIN;
  /** Windows in a row in which nobody waited a short time. */
  #longWindows = 0;
  #longestMs = 0;

  constructor(options: LoadSheddingOptions) {
    this.#options = options;
    this.#inHandMax = options.inHandMax ?? SUBMISSIONS_IN_HAND_MAX;
    this.#now = options.now ?? (() => performance.now());
    this.#afterTurn = options.afterTurn ?? setImmediate;
  }

  get inHand(): number {
    return this.#inHand;
  }

  get strained(): boolean {
    return this.#strained;
  }

  /** The longest wait of a submission that was served since the last call. */
  takeLongestWaitMs(): number {
    const longestMs = this.#longestMs;
    this.#longestMs = 0;
    return longestMs;
  }

  /** undefined: come in. Cheap; asked at the head, and again when the body is there. */
  refuses(account: string): ShedReason | undefined {
    const nowMs = this.#now();
    const turnMs = nowMs - this.#turnAt(nowMs);
    const reason = this.#reason(nowMs, turnMs, this.#strained && this.#shares.isOwed(account, nowMs) ? OWED_FACTOR : 1);
    if (reason === undefined) {
      if (this.#strained && nowMs - this.#refusedMs > CALM_MS) this.#calmDown();
      return undefined;
    }
    if (reason !== 'backlog') this.#refusedMs = nowMs;
    this.#refused++;
    this.#options.onShed?.(reason);
    return reason;
  }

  /** A submission whose body is there is taken in hand. `bytes`: of the body. Answers since when it has waited. */
  take(account: string, bytes: number): number {
    const nowMs = this.#now();
    const sinceMs = this.#turnAt(nowMs);
    if (this.#inHand === 0) this.#answeredMs = nowMs;
    if (this.#strained) this.#shares.note(account, bytes);
    this.#takenInTurn++;
    this.#inHand++;
    return sinceMs;
  }

  /** Its exchange is over. `served`: with success; a refusal is quick and says nothing of the queue. */
  giveBack(sinceMs: number, served: boolean): void {
    const nowMs = this.#now();
    this.#inHand--;
    this.#answeredMs = nowMs;
    if (!served) return;
    this.#served++;
    const waitedMs = nowMs - sinceMs;
    if (waitedMs < this.#shortestMs) this.#shortestMs = waitedMs;
    if (waitedMs > this.#longestMs) this.#longestMs = waitedMs;
  }

  #reason(nowMs: number, turnMs: number, factor: number): ShedReason | undefined {
    if (this.#options.backlogFull()) return 'backlog';
    if (this.#inHand >= this.#inHandMax) return 'count';
    if (this.#inHand >= IN_HAND_MIN && nowMs - this.#answeredMs > OVERDUE_MS) return 'overdue';
    if (!this.#strained && turnMs > CALM_TURN_MS_MAX && this.#takenInTurn >= IN_HAND_MIN) this.#strain(nowMs);
    if (!this.#strained) return undefined;
    if (this.#takenInTurn >= OF_TURN_MIN && turnMs > TURN_MS_MAX * factor) return 'turn';
    return this.#inHand >= this.#inHandStrained * factor ? 'wait' : undefined;
  }

  /** When the present turn began; the first submission of a turn begins it. */
  #turnAt(nowMs: number): number {
    if (this.#turnMs !== undefined) return this.#turnMs;
    if (nowMs - this.#windowMs >= WINDOW_MS) this.#closeWindow(nowMs);
    this.#turnMs = nowMs;
    this.#takenInTurn = 0;
    this.#afterTurn(this.#endTurn);
    return nowMs;
  }

  readonly #endTurn = (): void => {
    this.#turnMs = undefined;
  };

  #closeWindow(nowMs: number): void {
    // With nobody in hand there is no queue, whatever was long ago. A window in which nobody was served says nothing by
    // itself, but behind a long one it is no better than that.
    if (this.#shortestMs <= LONG_MS || this.#inHand === 0) this.#longWindows = 0;
    else if (this.#served > 0 || this.#longWindows > 0) this.#longWindows++;
    if (!this.#strained && this.#longWindows * WINDOW_MS >= STANDING_MS) this.#strain(nowMs);
    this.#rates[this.#windows++ % RATES_KEPT] = this.#served / (nowMs - this.#windowMs);
    this.#inHandStrained = Math.max(IN_HAND_MIN, Math.max(...this.#rates) * WAIT_MS_MAX);
    this.#windowMs = nowMs;
    this.#served = 0;
    this.#shortestMs = Number.POSITIVE_INFINITY;
  }

  #strain(nowMs: number): void {
    this.#strained = true;
    this.#refused = 0;
    this.#refusedMs = nowMs;
    this.#options.onStrain?.(true, 0);
  }

  #calmDown(): void {
    this.#strained = false;
    this.#shares.clear();
    this.#options.onStrain?.(false, this.#refused);
  }
}
