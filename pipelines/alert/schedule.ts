// When a delivery is tried again (decisions 7), and when its host is left alone (used by the worker). Pure but for what it counts.
import type { AttemptResult } from './channel.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Waits after the first attempt, the second …: ten attempts in 75 h 35 min, as Standard Webhooks lays down. */
export const RETRY_MS: readonly number[] = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];
/** Each way: what failed together does not come back together. */
const JITTER = 0.1;
/** A target may ask for a longer wait than the schedule's, but for none longer than its longest. */
const RETRY_AFTER_MS_MAX = 24 * HOUR_MS;

/** When attempt number `tries` has failed at `now`. null: it was the last. `random` gives 0 to 1. */
export function nextAttemptAt(
  tries: number,
  { now, retryAfterMs = 0, endsAt }: { now: number; retryAfterMs?: number | undefined; endsAt: number },
  random: () => number,
): number | null {
  const wait = RETRY_MS[tries - 1];
  if (wait === undefined) return null;
  const jittered = wait * (1 - JITTER + 2 * JITTER * random());
  const at = Math.round(now + Math.max(jittered, Math.min(retryAfterMs, RETRY_AFTER_MS_MAX)));
  return at > endsAt ? null : at;
}

/** Failures on end after which a host is left alone, and for how long before one attempt asks again. */
export const BREAKER_FAILURES = 5;
export const BREAKER_OPEN_MS = 60 * SECOND_MS;
/** Hosts remembered as failing, at about 100 bytes each. */
const BREAKERS_MAX = 10_000;

/**
 * Breakers of all lanes, in this process alone: each process finds out for itself, at the price of five attempts.
 *   closed      attempts go out
 *   open        none does until `probeAt`; what is due waits and uses up nothing
 *   half open   from then on one at a time; taken: closed, failed: open again
 */
export class Breakers {
  readonly #lanes = new Map<string, { failures: number; probeAt: number }>();

  /** How many attempts may run at once: 0, 1, or as many as one likes. */
  places(lane: string, now: number): number {
    const state = this.#lanes.get(lane);
    if (state === undefined || state.failures < BREAKER_FAILURES) return Number.POSITIVE_INFINITY;
    return now < state.probeAt ? 0 : 1;
  }

  /** Epoch ms until which an open one stays so; undefined: not open. */
  openUntil(lane: string, now: number): number | undefined {
    return this.places(lane, now) === 0 ? this.#lanes.get(lane)!.probeAt : undefined;
  }

  /** An attempt that the host took, refused or answered shows it alive; a host that fails to answer soundly is counted. */
  note(lane: string, { outcome, statusCode }: AttemptResult, { isMail, now }: { isMail: boolean; now: number }): void {
    // A mail server that answers is alive, whatever it says of one mail box: all mail goes through it.
    if (outcome !== 'retry' || (isMail && statusCode !== null)) {
      this.#lanes.delete(lane);
      return;
    }
    const failures = (this.#lanes.get(lane)?.failures ?? 0) + 1;
    this.#lanes.delete(lane);
    this.#lanes.set(lane, { failures, probeAt: now + BREAKER_OPEN_MS });
    // The one that failed longest ago is forgotten first: at worst it costs five more attempts.
    if (this.#lanes.size > BREAKERS_MAX) this.#lanes.delete(this.#lanes.keys().next().value!);
  }
}
