// A lease of permits of one counter, which a front uses without a round trip (between judgement and decision).
// While a limit is far away, a single event would wait for Redis only to learn that there is room. So a counter in
// steady use is asked for the permits of the next QUOTA_LEASE_MS together with those of the events at hand.
// Invariant: Redis has counted every leased permit, in the sub-bucket in which it is used, and it is used once. So no
// window of the counter exceeds its threshold, and the times that events carry show it.
// Cost: unused permits are missing elsewhere until they are returned, at the latest QUOTA_LEASE_MS + QUOTA_RETURN_MS
// later, which is less than the sixtieth of a window by which permits free late anyway. Redis leases a small share of
// what is free (src/redis/rate-window.lua), so a limit that comes near is asked for event by event again.
// Failure: the permits of a process that was killed, or whose return was lost, stay counted for one window: too few
// events pass, never too many.
import { LEASED_PERMITS_MIN, QUOTA_LEASE_MS, QUOTA_RETURN_MS } from '../../common/limits.ts';

/**
 * The part of a call beside the permits of its events. `returned`: unused permits of an earlier lease, counted in
 * `returnedBucket`.
 */
export type LeaseRequest = { lease: number; returned: number; returnedBucket: number };
/** Permits in a sub-bucket that lasts `usableMs` more after `atMs` (epoch ms by Redis's clock). */
export type LeaseGrant = { leased: number; bucket: number; usableMs: number; atMs: number };

export const NO_LEASE: LeaseRequest = Object.freeze({ lease: 0, returned: 0, returnedBucket: 0 });
/** Sub-buckets of a window, as the script has them. */
const BUCKETS = 60;
/** A rate over a shorter time is not reliable: four events of one tick are not a thousand a second. */
const RATE_MS_MIN = QUOTA_LEASE_MS / 4;

/** Times are monotonic ms where not said otherwise. */
export class QuotaLease {
  #left = 0;
  #untilMs = 0;
  #bucket = 0;
  /** Redis's clock, epoch ms, at a moment that was over at `#answeredMs`. */
  #atMs = 0;
  #answeredMs = 0;
  /** Permits that were used since `#sinceMs`: the size of the next lease follows from it. */
  #used = 0;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #isRequested = false;

  get left(): number {
    return this.#left;
  }

  /** Where the permits are counted. */
  get bucket(): number {
    return this.#bucket;
  }

  /** All or none. */
  take(permits: number, nowMs: number): boolean {
    if (permits > this.#left || nowMs >= this.#untilMs) return false;
    this.#left -= permits;
    this.#used += permits;
    return true;
  }

  /** Puts back the permits of the last `take`. */
  undo(permits: number): void {
    this.#left += permits;
    this.#used -= permits;
  }

  /** Epoch ms by Redis's clock: not later than now, and inside the sub-bucket in which the permits were counted. */
  timeAt(nowMs: number): number {
    return this.#atMs + Math.floor(nowMs - this.#answeredMs);
  }

  /** In how many ms the unused permits must be returned; undefined: none are left. */
  returnInMs(nowMs: number): number | undefined {
    return this.#left === 0 ? undefined : Math.max(0, this.#untilMs + QUOTA_RETURN_MS - nowMs);
  }

  /** The lease that a call for `permits` of events asks for besides. The unused permits go with it. */
  request(permits: number, windowMs: number, nowMs: number): LeaseRequest {
    const [returned, returnedBucket] = [this.#left, this.#bucket];
    this.#left = 0;
    this.#used += permits;
    const lease = this.#isRequested || permits === 0 || !mayLease(windowMs) ? 0 : this.#expected(nowMs);
    if (lease > 0) this.#isRequested = true;
    return lease === 0 && returned === 0 ? NO_LEASE : { lease, returned, returnedBucket };
  }

  /** The size of a lease by the rate at which permits were used; 0: the rate is too low for one. */
  #expected(nowMs: number): number {
    const elapsedMs = nowMs - this.#sinceMs;
    const expected = Math.floor((this.#used * QUOTA_LEASE_MS) / Math.max(elapsedMs, RATE_MS_MIN));
    const isEnough = expected >= LEASED_PERMITS_MIN;
    if (isEnough || elapsedMs >= QUOTA_LEASE_MS) {
      this.#used = 0;
      this.#sinceMs = nowMs;
    }
    return isEnough ? expected : 0;
  }

  /**
   * The answer to `request`; undefined: the call failed. The lease runs from when the call was sent, since Redis read
   * its clock after that.
   */
  granted({ lease }: LeaseRequest, granted: LeaseGrant | undefined, sentMs: number, nowMs: number): void {
    if (lease === 0) return;
    this.#isRequested = false;
    if (granted === undefined || granted.leased === 0) return;
    this.#left = granted.leased;
    this.#bucket = granted.bucket;
    this.#untilMs = sentMs + Math.min(QUOTA_LEASE_MS, granted.usableMs);
    this.#atMs = granted.atMs;
    this.#answeredMs = nowMs;
  }
}

/** Is a lease returned before its permits would have to be free? */
function mayLease(windowMs: number): boolean {
  return windowMs >= BUCKETS * (QUOTA_LEASE_MS + QUOTA_RETURN_MS);
}
