// Places at one counter that a front holds in advance (step 8 of the path). While a limit is far away, an event that comes alone would
// wait for a trip to Redis only to hear that there is room; so a counter in steady use is asked for the places of the next
// HELD_MS together with those of the events at hand, and the events that follow find theirs here.
// Invariant: a place that is held has been counted by Redis, in the sub-bucket in which it is used, and is used once. So no window of
// the counter ever has more than its threshold, whoever holds what, and the times that events carry show it.
// The price: what is held and not used is missing elsewhere until it is given back, at the latest HELD_MS + HELD_BACK_MS later, which is
// less than the sixtieth of a window by which places free late anyway. Redis grants a small share of what is free
// (src/redis/rate-window.lua), so that a limit that comes near is asked for event by event again.
// Failure: what a process held when it was killed, or when its giving back was lost, stays taken for one window: too few pass, never too many.
import { HELD_BACK_MS, HELD_MS, HELD_PLACES_MIN } from '../limits.ts';

/** What a call asks of a counter beside the places of its events. `back`: unused ones of an earlier hold, counted in `backBucket`. */
export type HoldAsked = { hold: number; back: number; backBucket: number };
/** What Redis granted: places in a sub-bucket that lasts `usableMs` more after `atMs`, epoch ms by Redis's clock. */
export type HoldGranted = { held: number; bucket: number; usableMs: number; atMs: number };

export const NOTHING_ASKED: HoldAsked = Object.freeze({ hold: 0, back: 0, backBucket: 0 });
/** Sub-buckets of a window, as the script has them. */
const BUCKETS = 60;
/** A shorter time says little of a rate: four events of one tick are no thousand a second. */
const RATE_MS_MIN = HELD_MS / 4;

/** Times are monotonic ms where not said otherwise. */
export class HeldPlaces {
  #left = 0;
  #untilMs = 0;
  #bucket = 0;
  /** Redis's clock, epoch ms, at a moment that was over at `#answeredMs`. */
  #atMs = 0;
  #answeredMs = 0;
  /** Places that were asked for since `#sinceMs`: how many a hold should have. */
  #used = 0;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #isAsked = false;

  get left(): number {
    return this.#left;
  }

  /** All or none. */
  take(places: number, nowMs: number): boolean {
    if (places > this.#left || nowMs >= this.#untilMs) return false;
    this.#left -= places;
    this.#used += places;
    return true;
  }

  /** What `take` has just given. */
  putBack(places: number): void {
    this.#left += places;
    this.#used -= places;
  }

  /** Epoch ms by Redis's clock: not later than now, and inside the sub-bucket in which the places were counted. */
  timeAt(nowMs: number): number {
    return this.#atMs + Math.floor(nowMs - this.#answeredMs);
  }

  /** How long after a hold was granted whatever is left of it must go back; undefined: there is nothing left. */
  backInMs(nowMs: number): number | undefined {
    return this.#left === 0 ? undefined : Math.max(0, this.#untilMs + HELD_BACK_MS - nowMs);
  }

  /** For a call that asks for so many places of events: what it should ask for besides. Nothing is left here then. */
  ask(places: number, windowMs: number, nowMs: number): HoldAsked {
    const [back, backBucket] = [this.#left, this.#bucket];
    this.#left = 0;
    this.#used += places;
    const hold = this.#isAsked || places === 0 || !mayHold(windowMs) ? 0 : this.#expected(nowMs);
    if (hold > 0) this.#isAsked = true;
    return hold === 0 && back === 0 ? NOTHING_ASKED : { hold, back, backBucket };
  }

  /** By the rate at which places were asked for; 0: too few. */
  #expected(nowMs: number): number {
    const elapsedMs = nowMs - this.#sinceMs;
    const expected = Math.floor((this.#used * HELD_MS) / Math.max(elapsedMs, RATE_MS_MIN));
    const isEnough = expected >= HELD_PLACES_MIN;
    if (isEnough || elapsedMs >= HELD_MS) {
      this.#used = 0;
      this.#sinceMs = nowMs;
    }
    return isEnough ? expected : 0;
  }

  /**
   * The answer to `ask`; undefined: there was none, or nobody knows. The sub-bucket counts from when the call was sent, since
   * Redis looked at its clock after that.
   */
  answered({ hold }: HoldAsked, granted: HoldGranted | undefined, sentMs: number, nowMs: number): void {
    if (hold === 0) return;
    this.#isAsked = false;
    if (granted === undefined || granted.held === 0) return;
    this.#left = granted.held;
    this.#bucket = granted.bucket;
    this.#untilMs = sentMs + Math.min(HELD_MS, granted.usableMs);
    this.#atMs = granted.atMs;
    this.#answeredMs = nowMs;
  }
}

/** Whether what is held is back before a place would have to be free. */
function mayHold(windowMs: number): boolean {
  return windowMs >= BUCKETS * (HELD_MS + HELD_BACK_MS);
}
