// Refuses submissions while a front is overloaded (503 `unavailable`; after the request limit, before the body is
// kept).
// Each account has a share: an account that was admitted less than an even share lately is refused last
// (fair-shares.ts). Reads, the registry and health checks are never refused here: they are few, and an operator who
// repairs something needs them.
// Invariant: a refusal is decided before anything of the request is kept, so it is `recorded: false`. An admitted
// request is released when its exchange ends, however it ends. A body that is still arriving is not in flight, so slow
// clients are no load.
// Failure: nothing here waits or calls another part; the state is a few numbers.
import { SUBMISSIONS_IN_FLIGHT_MAX } from '../../common/limits.ts';
import { RecentMax } from '../../common/recent-max.ts';
import { FairShares } from './fair-shares.ts';
import type { SubmissionScheduler } from './submission-scheduler.ts';

// Without this a front that gets more than it can do refuses nothing: requests wait in the kernel's buffers and in the
// front's own queues, and every answer is late. A refusal at the head of a request costs a small part of a submission,
// so nearly all of the processor is left for the admitted ones.
//
//   measure      A request that waits in its socket is invisible until the event loop reads it. But whatever one tick
//                of the loop reads was there when the tick began, or came during it. So `wait` runs from the beginning
//                of the tick to the answer: it includes the queue, the judgement, the counters and the append. Ticks
//                are kept short (submission-scheduler.ts), so that little is invisible.
//   work         What is in flight is counted in bytes of bodies, plus a fixed cost a request: a batch of 100 costs a
//                front ten times a single event.
//   normal       Everything is admitted, within the hard bounds (count, backlog, nothing answered for OVERDUE_MS).
//                Pauses (garbage collector, disk, another process) make some waits long and are tolerated: a queue that
//                drains is no overload.
//   overloaded   begins when more work is in flight than NORMAL_WORK_MAX, which a burst does not reach and a flood
//                reaches at once; or when every submission that was answered in the last STANDING_MS had waited longer
//                than LONG_MS: the queue is standing (the sign that CoDel uses). Then the work in flight is bounded by
//                what is done in WAIT_MS_MAX at the best recent rate. IN_FLIGHT_MIN are admitted in any case, so that a
//                slow machine continues working. (Two other signs were tried first. The age of the oldest request as
//                the bound admits three times too much before it reacts. A wait of 100 ms before work begins refused
//                callers of a closed loop of 256 batches, all of whom could be served.)
//   normal again after RECOVERED_MS without a refusal.

/** Fixed cost of a request, in bytes: 40 µs for a single event, 350 for a batch of 100 (50 KB). */
const REQUEST_WORK = 4_096;
/**
 * Work in flight that is never an overload: 300 batches of 100, or 3,500 single events, a seventh of a second of a
 * front at full load. A front that lately did more in WAIT_MS_MAX may have that in flight.
 * It bounds memory, too: with reply and entry a batch takes up to five times its body. Without it the first half second
 * of a flood was admitted whole: a thousand batches, 390 MB, and no caller was answered meanwhile.
 */
export const NORMAL_WORK_MAX = 16 * 1024 * 1024;
/** A wait that counts as overload. A closed loop of 64 callers stays far below it unless each batch takes 8 ms. */
const LONG_MS = 500;
/** While it refuses, admitted requests wait about this long: several times what a batch takes at full load. */
export const WAIT_MS_MAX = 200;
/**
 * The window in which the rate of work and the shortest wait are measured. The best of a second's windows counts: a
 * pause says nothing about capacity.
 */
const WINDOW_MS = 125;
const RATES_KEPT = 8;
/**
 * A queue that has not been short for this long is standing. What gathers in a stall of half a second at half load
 * drains sooner.
 */
export const STANDING_MS = 250;
export const RECOVERED_MS = 1_000;
/** After this long without an answer more work in flight would only be lost with it. */
export const OVERDUE_MS = 1_000;
/** Admitted in any case: fewer callers are no overload, however slow the machine is. */
export const IN_FLIGHT_MIN = 64;
/** An account below its share is refused only above this multiple of the bound. */
const OWED_FACTOR = 2;

export type ShedReason = 'backlog' | 'count' | 'overdue' | 'wait';

export type LoadSheddingOptions = {
  /** Is there no room downstream? */
  backlogFull: () => boolean;
  onShed?: (reason: ShedReason) => void;
  /** For the log: an overload has begun, or has ended after `refused` refusals. */
  onOverload?: (isOverloaded: boolean, refused: number) => void;
  scheduler: Pick<SubmissionScheduler, 'tickBeganMs'>;
  inFlightMax?: number;
  /** Monotonic, ms. */
  now?: () => number;
};

/** An admitted submission, until it is released. */
export type Admitted = { sinceMs: number; work: number };

export class LoadShedding {
  readonly #options: LoadSheddingOptions;
  readonly #inFlightMax: number;
  readonly #now: () => number;
  readonly #shares = new FairShares();
  #inFlight = 0;
  /** In flight, see REQUEST_WORK. */
  #work = 0;
  #answeredMs = 0;
  #isOverloaded = false;
  #refused = 0;
  #refusedMs = 0;
  /** The current window: its beginning, how many requests were served in it, their work, and their shortest wait. */
  #windowMs = 0;
  #served = 0;
  #workDone = 0;
  #shortestMs = Number.POSITIVE_INFINITY;
  /** Work done a ms in each of the last windows. */
  readonly #rates = new Array<number>(RATES_KEPT).fill(0);
  #windows = 0;
  /** Work that is done in WAIT_MS_MAX at the best of these rates. */
  #workOfWait = 0;
  /** Windows in a row without a short wait. */
  #longWindows = 0;
  readonly #longestMs = new RecentMax();

  constructor(options: LoadSheddingOptions) {
    this.#options = options;
    this.#inFlightMax = options.inFlightMax ?? SUBMISSIONS_IN_FLIGHT_MAX;
    this.#now = options.now ?? (() => performance.now());
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  get isOverloaded(): boolean {
    return this.#isOverloaded;
  }

  /** The longest wait of a submission that was served in the last minute. */
  longestWaitMs(): number {
    return this.#longestMs.max(this.#now());
  }

  /** undefined: it may be admitted. Cheap; called at the head of a request, and again when its body is there. */
  refuses(account: string): ShedReason | undefined {
    const nowMs = this.#now();
    this.#options.scheduler.tickBeganMs(nowMs);
    if (nowMs - this.#windowMs >= WINDOW_MS) this.#closeWindow(nowMs);
    const reason = this.#reason(nowMs, this.#isOverloaded && this.#shares.isOwed(account, nowMs) ? OWED_FACTOR : 1);
    if (reason === undefined) {
      if (this.#isOverloaded && nowMs - this.#refusedMs > RECOVERED_MS) this.#endOverload();
      return undefined;
    }
    if (reason !== 'backlog') this.#refusedMs = nowMs;
    this.#refused++;
    this.#options.onShed?.(reason);
    return reason;
  }

  /** Counts a submission whose body is there as in flight. `bytes`: of the body. */
  admit(account: string, bytes: number): Admitted {
    const nowMs = this.#now();
    const sinceMs = this.#options.scheduler.tickBeganMs(nowMs);
    const work = REQUEST_WORK + bytes;
    if (this.#inFlight === 0) this.#answeredMs = nowMs;
    if (this.#isOverloaded) this.#shares.note(account, work);
    this.#inFlight++;
    this.#work += work;
    return { sinceMs, work };
  }

  /** Its exchange is over. `served`: it succeeded; a refusal is quick and says nothing about the queue. */
  release({ sinceMs, work }: Admitted, served: boolean): void {
    const nowMs = this.#now();
    this.#inFlight--;
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
    if (this.#inFlight >= this.#inFlightMax) return 'count';
    if (this.#inFlight < IN_FLIGHT_MIN) return undefined;
    if (nowMs - this.#answeredMs > OVERDUE_MS) return 'overdue';
    if (!this.#isOverloaded && this.#work >= Math.max(NORMAL_WORK_MAX, this.#workOfWait)) this.#beginOverload(nowMs);
    if (!this.#isOverloaded) return undefined;
    return this.#inFlight >= IN_FLIGHT_MIN * factor && this.#work >= this.#workOfWait * factor ? 'wait' : undefined;
  }

  #closeWindow(nowMs: number): void {
    // With nothing in flight there is no queue. A window in which nothing was served says nothing by itself, but after
    // a long one it is no better.
    if (this.#shortestMs <= LONG_MS || this.#inFlight === 0) this.#longWindows = 0;
    else if (this.#served > 0 || this.#longWindows > 0) this.#longWindows++;
    if (!this.#isOverloaded && this.#longWindows * WINDOW_MS >= STANDING_MS) this.#beginOverload(nowMs);
    this.#rates[this.#windows++ % RATES_KEPT] = this.#workDone / (nowMs - this.#windowMs);
    this.#workOfWait = Math.max(...this.#rates) * WAIT_MS_MAX;
    this.#windowMs = nowMs;
    this.#served = 0;
    this.#workDone = 0;
    this.#shortestMs = Number.POSITIVE_INFINITY;
  }

  #beginOverload(nowMs: number): void {
    this.#isOverloaded = true;
    this.#refused = 0;
    this.#refusedMs = nowMs;
    this.#options.onOverload?.(true, 0);
  }

  #endOverload(): void {
    this.#isOverloaded = false;
    this.#shares.clear();
    this.#options.onOverload?.(false, this.#refused);
  }
}
