// How much work the policies of an account may make on the loop that answers, before it takes turns there with others
// (ingest/judging-slices.ts), and how much one event may, before it is judged elsewhere (the judging thread,
// ingest/judging-worker.ts). Work is counted in the units of budget.ts, not by the clock.
// Between the front's submissions and the engine. Invariant: a verdict never depends on it. What is over it is not
// judged at all (TooLong), and is judged from the event's beginning later. Of shadows it is the bound, and beside units
// their time is measured, since what units do not count (making values of a payload, matches by the hundred) is most
// of what many shadows of ordinary form cost: they are skipped (shadows.ts).
// Failure: none; an account that is forgotten begins with a full allowance.
import { KEY_CACHE_MAX } from '../common/limits.ts';

/** `request`: of one request; `second`: of one account in a second; `burst`: what it may take at once. */
type AllowanceUnits = { request: number; second: number; burst: number; time?: AllowanceTime; isApart?: true };
/** In ms, of one account: in a second, and at once. */
type AllowanceTime = { second: number; burst: number };

/**
 * Charged is what is judged on values. Looking for what rules demand is not: it is linear, a few ns a byte, and a
 * request's bytes are bounded. What an account may take at once and in a second is half a core, of which ordinary
 * accounts need little: over it, its events take turns, a slice each time the loop comes round.
 */
const LOOP = { second: 80_000_000, burst: 8_000_000 };
/** The units that one event may take on the loop: 5 ms. */
const EVENT_UNITS_MAX = 1_000_000;
/**
 * The time of all shadows of an account together: a quarter of the account's, and a twentieth of a core. What is saved
 * up is a rush of some thousand events, or the pauses of a machine under load.
 */
const SHADOW_TIME: AllowanceTime = { second: 50, burst: 500 };
const SHADOW_UNITS: AllowanceUnits = {
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

/** The part of an allowance that the engine reads and charges. */
export type Allowed = {
  /** Units that may be taken now. */
  readonly left: number;
  /** Nothing may be begun. */
  readonly isSpent: boolean;
  /** Is it of the loop that answers? */
  readonly isHere: boolean;
  /** Throws TooLong where it was more than was left. */
  spend(units: number): void;
};

/** Units of one account that its events may take on the loop. */
class LoopShare implements Allowed {
  readonly left = EVENT_UNITS_MAX;
  readonly isHere = true;
  /** As this, for who waits for its turn already. It is charged all the same. */
  readonly inTurn: Allowed = {
    ...{ left: EVENT_UNITS_MAX, isHere: true, isSpent: false },
    spend: (units) => this.spend(units),
  };
  #units = LOOP.burst;
  #filledMs = 0;

  begin(nowMs: number): this {
    this.#units = Math.min(LOOP.burst, this.#units + ((nowMs - this.#filledMs) * LOOP.second) / 1000);
    this.#filledMs = nowMs;
    return this;
  }

  get isSpent(): boolean {
    return this.#units <= 0;
  }

  spend(units: number): void {
    // What was done in its turns keeps it waiting no longer than a full allowance takes to come.
    this.#units = Math.max(-LOOP.burst, this.#units - units);
    if (units > EVENT_UNITS_MAX) throw TOO_LONG;
  }
}

/** The units that the shadows of one account may take, while one of its requests is judged. */
export class Allowance implements Allowed {
  /** The units that are left to the request. */
  left = 0;
  readonly #units: AllowanceUnits;
  #ofAccount: number;
  #filledMs = 0;
  /** Time that is left to the account. */
  #ms: number;

  constructor(units: AllowanceUnits) {
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

  get isSpent(): boolean {
    return this.left <= 0 || this.#ms <= 0;
  }

  get isHere(): boolean {
    return this.#units.isApart !== true;
  }

  /** Charges the time that so many events have taken. */
  spendTime(ms: number, events: number): void {
    this.#ms -= Math.min(ms, events * EVENT_MS_MAX);
  }

  spend(units: number): void {
    this.#ofAccount -= units;
    this.left -= units;
    if (this.left < 0) throw TOO_LONG;
  }
}

/** The allowances of accounts, each made by `make` when it is asked for. */
export class Allowances<T extends { begin(nowMs: number): T }> {
  readonly #make: () => T;
  #accounts = new Map<string, T>();

  constructor(make: () => T) {
    this.#make = make;
  }

  /** For the account's next request. `nowMs`: monotonic. */
  begin(account: string, nowMs: number): T {
    let allowance = this.#accounts.get(account);
    if (allowance === undefined) {
      if (this.#accounts.size >= KEY_CACHE_MAX) this.#accounts = new Map();
      allowance = this.#make();
      this.#accounts.set(account, allowance);
    }
    return allowance.begin(nowMs);
  }
}

export function loopShares(): Allowances<LoopShare> {
  return new Allowances(() => new LoopShare());
}

export function shadowAllowances(units = SHADOW_UNITS): Allowances<Allowance> {
  return new Allowances(() => new Allowance(units));
}
