// How much work the policies of an account may make on the loop that answers, before the rest of it is done elsewhere
// (the judging thread, ingest/judging-worker.ts). Work is counted in the units of budget.ts, not by the clock.
// Between the front's submissions and the engine. Invariant: a verdict never depends on it. Who runs out of it is not
// judged here at all (TooLong), and is judged from the beginning where only the budgets of an event hold.
// Failure: none; an account that is forgotten begins with a full allowance.
import { KEY_CACHE_MAX } from '../common/limits.ts';

/** Of one request: 5 ms. Ordinary events under 50 policies take a hundredth of it. */
const REQUEST_UNITS = 2_000_000;
/** Of one account in a second: a tenth of a core, so that many of its requests together make no other account wait. */
const UNITS_A_SECOND = 40_000_000;
/** What it may take at once: four requests that take all that one may. */
const BURST_UNITS = 8_000_000;

/** The event was not judged: it takes more work than the loop that answers may do for it. */
export class TooLong extends Error {
  override name = 'TooLong';
}

/** Thrown where a stack would say nothing. */
export const TOO_LONG = new TooLong('judged elsewhere');

/** Of one account, while one of its requests is judged. */
export class Allowance {
  /** Of the request. */
  left = 0;
  #ofAccount = BURST_UNITS;
  #filledMs = 0;

  begin(nowMs: number): this {
    this.#ofAccount = Math.min(BURST_UNITS, this.#ofAccount + ((nowMs - this.#filledMs) * UNITS_A_SECOND) / 1000);
    this.#filledMs = nowMs;
    this.left = Math.min(REQUEST_UNITS, this.#ofAccount);
    return this;
  }

  /** Throws TooLong where it was more than was left. */
  spend(units: number): void {
    this.#ofAccount -= units;
    this.left -= units;
    if (this.left < 0) throw TOO_LONG;
  }
}

export class Allowances {
  #accounts = new Map<string, Allowance>();

  /** For the account's next request. `nowMs`: monotonic. */
  begin(account: string, nowMs: number): Allowance {
    let allowance = this.#accounts.get(account);
    if (allowance === undefined) {
      if (this.#accounts.size >= KEY_CACHE_MAX) this.#accounts = new Map();
      allowance = new Allowance();
      this.#accounts.set(account, allowance);
    }
    return allowance.begin(nowMs);
  }
}
