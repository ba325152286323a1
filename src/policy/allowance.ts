// How much work the policies of an account may make on the loop that answers, before the rest of it is done elsewhere
// (the judging thread, ingest/judging-worker.ts). Work is counted in the units of budget.ts, not by the clock.
// Between the front's submissions and the engine. Invariant: a verdict never depends on it. Who runs out of it is not
// judged here at all (TooLong), and is judged from the beginning where only the budgets of an event hold. Of shadows
// alone it is the bound, and beside units their time is measured, since what units do not count (making values of a
// payload, matches by the hundred) is most of what many shadows of ordinary form cost: they are skipped (shadows.ts).
// Failure: none; an account that is forgotten begins with a full allowance.
import { KEY_CACHE_MAX } from '../common/limits.ts';

/** `request`: of one request; `second`: of one account in a second; `burst`: what it may take at once. */
type AllowanceUnits = { request: number; second: number; burst: number; time?: AllowanceTime; isApart?: true };
/** In ms, of one account: in a second, and at once. */
type AllowanceTime = { second: number; burst: number };

/**
 * Charged is what is judged on values. Looking for what rules demand is not: it is linear, a few ns a byte, and a
 * request's bytes are bounded. A request has 5 ms. An account has a fifth of a core, so that many of its requests
 * together make no other account wait: 15,000 recorded events a second under nine detectors and forty patterns, 5,200
 * units each. At once it may take what four requests may.
 */
const LOOP_UNITS: AllowanceUnits = { request: 2_000_000, second: 80_000_000, burst: 8_000_000 };
/**
 * The time of all shadows of an account together: a quarter of the account's, and a twentieth of a core. What is saved
 * up is a rush of some thousand events, or the pauses of a machine under load.
 */
const SHADOW_TIME: AllowanceTime = { second: 50, burst: 500 };
export const SHADOW_UNITS: AllowanceUnits = {
  ...{ request: 1_000_000, second: 20_000_000, burst: 4_000_000 },
  time: SHADOW_TIME,
};
/** One event counts no more than this: the rest was a pause of the process. */
const EVENT_MS_MAX = 3;
/** The same in the judging thread, where large events are judged: a request has 50 ms, in slices. */
export const SHADOW_UNITS_APART: AllowanceUnits = {
  request: 20_000_000,
  second: 40_000_000,
  burst: 40_000_000,
  isApart: true,
};

/** The event was not judged: it takes more work than the loop that answers may do for it. */
export class TooLong extends Error {
  override name = 'TooLong';
}

/** Thrown where a stack would say nothing. */
export const TOO_LONG = new TooLong('judged elsewhere');

/** The allowance of one account, while one of its requests is judged. */
export class Allowance {
  /** The time that is left to the request. */
  left = 0;
  readonly #units: AllowanceUnits;
  #ofAccount: number;
  #filledMs = 0;
  /** Time that is left to the account. */
  #ms: number;

  constructor(units = LOOP_UNITS) {
    this.#units = units;
    this.#ofAccount = units.burst;
    this.#ms = units.time?.burst ?? Number.POSITIVE_INFINITY;
  }

  begin(nowMs: number): this {
    const { request, second, burst, time } = this.#units;
    this.#ofAccount = Math.min(burst, this.#ofAccount + ((nowMs - this.#filledMs) * second) / 1000);
    if (time !== undefined) this.#ms = Math.min(time.burst, this.#ms + ((nowMs - this.#filledMs) * time.second) / 1000);
    this.#filledMs = nowMs;
    this.left = Math.min(request, this.#ofAccount);
    return this;
  }

  /** Nothing is left: there is no use in beginning. */
  get isSpent(): boolean {
    return this.left <= 0 || this.#ms <= 0;
  }

  /** Is it of the loop that answers? */
  get isHere(): boolean {
    return this.#units.isApart !== true;
  }

  /** What so many events have taken. */
  spendTime(ms: number, events: number): void {
    this.#ms -= Math.min(ms, events * EVENT_MS_MAX);
  }

  /** Throws TooLong where it was more than was left. */
  spend(units: number): void {
    this.#ofAccount -= units;
    this.left -= units;
    if (this.left < 0) throw TOO_LONG;
  }
}

export class Allowances {
  readonly #units: AllowanceUnits;
  #accounts = new Map<string, Allowance>();

  constructor(units = LOOP_UNITS) {
    this.#units = units;
  }

  /** For the account's next request. `nowMs`: monotonic. */
  begin(account: string, nowMs: number): Allowance {
    let allowance = this.#accounts.get(account);
    if (allowance === undefined) {
      if (this.#accounts.size >= KEY_CACHE_MAX) this.#accounts = new Map();
      allowance = new Allowance(this.#units);
      this.#accounts.set(account, allowance);
    }
    return allowance.begin(nowMs);
  }
}
