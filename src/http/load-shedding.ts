// Refuses submissions while a front is behind (503 `unavailable`; after the request limit, before the body is taken in).
//
// Without it a front that is asked for more than it can do refuses nothing: requests wait in the kernel's buffers and in the
// front's own queues, and every answer comes late. A refusal at the head of a request costs a small part of a submission, so
// nearly all of the processor is left for what is let in.
//
//   measure    A request that waits in its socket is invisible until the event loop comes to it. But whatever one turn of
//              the loop meets was there when the turn began, or came in it. So `wait` is counted from the beginning of the
//              turn to the answer: the queue before us, the judging, the counters and the append are all in it. Turns are kept
//              short (turns.ts), so that little is invisible and a refusal is heard soon.
//   work       What is in hand is reckoned in bytes of bodies, with something for each request: a batch of 100 costs a front
//              ten times a single event.
//   calm       Everybody comes in, within the hard bounds (count, backlog, nothing answered for OVERDUE_MS). Pauses (collector,
//              disk, a neighbour on the processor) make some waits long and are forgiven: a queue that drains is no overload.
//   strained   begins when more is in hand than CALM_WORK_MAX, which a burst does not reach and a flood reaches at once; or
//              when, for STANDING_MS, not one submission was answered that had waited less than LONG_MS: the queue stands
//              (CoDel's sign). Then no more work is in hand than is done in WAIT_MS_MAX at the best rate of late. A few are
//              taken in any case, so that a slow machine goes on working. (The age of the oldest as the bound, tried first,
//              lets in three times too much before it notices; somebody who waits 100 ms for his work to begin, as a sign,
//              refused callers of a closed loop of 256 batches, all of whom could be served.)
//   calm again once nobody had to be refused for CALM_MS.
//
// Each account has a share: one that was let in less than an even share lately is refused last (fair-shares.ts).
// Reads, registry and health are never refused here: they are few, and whoever mends things needs them.
// Invariant: a refusal is decided before anything is kept of the request, so it is `recorded: false`. What is taken in hand
// is given back when its exchange is over, however that happens. A body on its way is not in hand, so slow clients are no load.
// Failure: nothing here waits or asks anybody, and the state is a few numbers.
import { SUBMISSIONS_IN_HAND_MAX } from '../limits.ts';
import { RecentMax } from '../recent-max.ts';
import { FairShares } from './fair-shares.ts';
import type { Turns } from './turns.ts';

/** Beside its bytes a request costs as much as so many more: 40 µs for a single event, 350 for a batch of 100 (50 KB). */
const REQUEST_WORK = 4_096;
/**
 * Work in hand that is no overload, whatever the rate of late: 300 batches of 100, or 3,500 single events, a seventh of a second
 * of a front at full load. Where a front has lately done more in WAIT_MS_MAX, it may have that in hand.
 * It bounds memory, too: with reply and entry a batch takes up to five times its body. Without it the first half second of a
 * flood was let in whole: a thousand batches, 390 MB, and all who came meanwhile heard nothing.
 */
export const CALM_WORK_MAX = 16 * 1024 * 1024;
/** A wait that nobody who waits for an answer wants; a closed loop of 64 callers is far from it unless each batch takes 8 ms. */
export const LONG_MS = 500;
/** While it refuses, those who are let in wait about so long: several times what a batch takes at full load. */
export const WAIT_MS_MAX = 200;
/** The rate of work and the shortest waits are taken so often; the best of a second's counts, since a pause says nothing of what can be done. */
const WINDOW_MS = 125;
const RATES_KEPT = 8;
/** A queue that has not been short for so long stands. What gathers in a stall of half a second at half of the load is gone sooner. */
export const STANDING_MS = 250;
export const CALM_MS = 1_000;
/** Nothing was answered for so long: more work in hand would only be lost with it. */
export const OVERDUE_MS = 1_000;
/** Taken whatever the clock says: fewer callers than these are no overload, however slow the machine. */
export const IN_HAND_MIN = 64;
/** An account that is owed its share is refused only past this multiple of the bound. */
const OWED_FACTOR = 2;

export type ShedReason = 'backlog' | 'count' | 'overdue' | 'wait';

export type LoadSheddingOptions = {
  /** Is there no room downstream? */
  backlogFull: () => boolean;
  onShed?: (reason: ShedReason) => void;
  /** For the log: the strain has begun, or has ended after so many refusals. */
  onStrain?: (strained: boolean, refused: number) => void;
  turns: Pick<Turns, 'beganMs'>;
  inHandMax?: number;
  /** Monotonic, ms. */
  now?: () => number;
};

/** What was taken in hand, until it is given back. */
export type Taken = { sinceMs: number; work: number };

export class LoadShedding {
  readonly #options: LoadSheddingOptions;
  readonly #inHandMax: number;
  readonly #now: () => number;
  readonly #shares = new FairShares();
  #inHand = 0;
  /** In hand. */
  #work = 0;
  #answeredMs = 0;
  #strained = false;
  #refused = 0;
  #refusedMs = 0;
  /** Of the window that is open: its beginning, how many were served in it, their work, and the shortest wait of them. */
  #windowMs = 0;
  #served = 0;
  #workDone = 0;
  #shortestMs = Number.POSITIVE_INFINITY;
  /** Work done a ms in each of the last windows. */
  readonly #rates = new Array<number>(RATES_KEPT).fill(0);
  #windows = 0;
  /** Work that is done in WAIT_MS_MAX at the best of these rates. */
  #workOfWait = 0;
  /** Windows in a row in which nobody waited a short time. */
  #longWindows = 0;
  readonly #longestMs = new RecentMax();

  constructor(options: LoadSheddingOptions) {
    this.#options = options;
    this.#inHandMax = options.inHandMax ?? SUBMISSIONS_IN_HAND_MAX;
    this.#now = options.now ?? (() => performance.now());
  }

  get inHand(): number {
    return this.#inHand;
  }

  get strained(): boolean {
    return this.#strained;
  }

  /** The longest wait of a submission that was served in the last minute. */
  longestWaitMs(): number {
    return this.#longestMs.max(this.#now());
  }

  /** undefined: come in. Cheap; asked at the head, and again when the body is there. */
  refuses(account: string): ShedReason | undefined {
    const nowMs = this.#now();
    this.#options.turns.beganMs(nowMs);
    if (nowMs - this.#windowMs >= WINDOW_MS) this.#closeWindow(nowMs);
    const reason = this.#reason(nowMs, this.#strained && this.#shares.isOwed(account, nowMs) ? OWED_FACTOR : 1);
    if (reason === undefined) {
      if (this.#strained && nowMs - this.#refusedMs > CALM_MS) this.#calmDown();
      return undefined;
    }
    if (reason !== 'backlog') this.#refusedMs = nowMs;
    this.#refused++;
    this.#options.onShed?.(reason);
    return reason;
  }

  /** A submission whose body is there is taken in hand. `bytes`: of the body. */
  take(account: string, bytes: number): Taken {
    const nowMs = this.#now();
    const sinceMs = this.#options.turns.beganMs(nowMs);
    const work = REQUEST_WORK + bytes;
    if (this.#inHand === 0) this.#answeredMs = nowMs;
    if (this.#strained) this.#shares.note(account, work);
    this.#inHand++;
    this.#work += work;
    return { sinceMs, work };
  }

  /** Its exchange is over. `served`: with success; a refusal is quick and says nothing of the queue. */
  giveBack({ sinceMs, work }: Taken, served: boolean): void {
    const nowMs = this.#now();
    this.#inHand--;
    this.#work -= work;
    this.#answeredMs = nowMs;
    if (!served) return;
    this.#served++;
    this.#workDone += work;
    const waitedMs = nowMs - sinceMs;
    if (waitedMs < this.#shortestMs) this.#shortestMs = waitedMs;
    this.#longestMs.note(waitedMs, nowMs);
  }

  #reason(nowMs: number, factor: number): ShedReason | undefined {
    if (this.#options.backlogFull()) return 'backlog';
    if (this.#inHand >= this.#inHandMax) return 'count';
    if (this.#inHand < IN_HAND_MIN) return undefined;
    if (nowMs - this.#answeredMs > OVERDUE_MS) return 'overdue';
    if (!this.#strained && this.#work >= Math.max(CALM_WORK_MAX, this.#workOfWait)) this.#strain(nowMs);
    if (!this.#strained) return undefined;
    return this.#inHand >= IN_HAND_MIN * factor && this.#work >= this.#workOfWait * factor ? 'wait' : undefined;
  }

  #closeWindow(nowMs: number): void {
    // With nobody in hand there is no queue, whatever was long ago. A window in which nobody was served says nothing by
    // itself, but behind a long one it is no better than that.
    if (this.#shortestMs <= LONG_MS || this.#inHand === 0) this.#longWindows = 0;
    else if (this.#served > 0 || this.#longWindows > 0) this.#longWindows++;
    if (!this.#strained && this.#longWindows * WINDOW_MS >= STANDING_MS) this.#strain(nowMs);
    this.#rates[this.#windows++ % RATES_KEPT] = this.#workDone / (nowMs - this.#windowMs);
    this.#workOfWait = Math.max(...this.#rates) * WAIT_MS_MAX;
    this.#windowMs = nowMs;
    this.#served = 0;
    this.#workDone = 0;
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
