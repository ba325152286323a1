// When a delivery is tried again, and when its target or its host is left alone (used by the worker).
// Pure but for what it counts.
import { hostOfLane } from '../../src/registry/alerts/deliveries.ts';
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

/** Failures on end after which a target or a host is left alone, and for how long before one attempt asks again. */
export const BREAKER_FAILURES = 5;
export const BREAKER_OPEN_MS = 60 * SECOND_MS;
/** Targets, and hosts, remembered as failing, at about 100 bytes each. */
const BREAKERS_MAX = 10_000;

type State = { failures: number; probeAt: number };

/**
 * Failures on end by name. The one that failed longest ago is forgotten first: at worst it costs five more attempts.
 */
class FailureCounts {
  readonly #states = new Map<string, State>();

  get(name: string): State | undefined {
    return this.#states.get(name);
  }

  clear(name: string): void {
    this.#states.delete(name);
  }

  add(name: string, now: number): void {
    const failures = (this.#states.get(name)?.failures ?? 0) + 1;
    this.#states.delete(name);
    this.#states.set(name, { failures, probeAt: now + BREAKER_OPEN_MS });
    if (this.#states.size > BREAKERS_MAX) this.#states.delete(this.#states.keys().next().value!);
  }
}

/**
 * Breakers of all targets and hosts, in this process alone: each process finds out for itself, at the price of five
 * attempts.
 *   closed      attempts go out
 *   open        none does until `probeAt`; what is due waits and uses up nothing
 *   half open   from then on one at a time; taken: closed, failed: open again
 * A target that fails, however it does, opens its own. A host's opens only where no connection can be had: any answer,
 * and a connection that breaks later, shows that the host lives, and its other targets have nothing to do with it.
 * Lanes go by `<account>/<lane>`; a target of two accounts is two, a host of two is one.
 */
export class Breakers {
  readonly #targets = new FailureCounts();
  readonly #hosts = new FailureCounts();

  /** How many attempts may run at once: 0, 1, or as many as one likes. */
  places(name: string, now: number): number {
    return Math.min(...this.#states(name).map((state) => placesOf(state, now)));
  }

  /** Its host is asked whether it lives: by one attempt, to whichever target. */
  isHostProbed(name: string, now: number): boolean {
    return placesOf(this.#hosts.get(hostOf(name)), now) === 1;
  }

  /** Its last attempt failed, or no connection to its host was had: others go first. */
  isFailing(name: string): boolean {
    return this.#states(name).some((state) => state !== undefined);
  }

  /** Epoch ms until which an open one stays so; undefined: not open. */
  openUntil(name: string, now: number): number | undefined {
    const open = this.#states(name).flatMap((state) => (placesOf(state, now) === 0 ? [state!.probeAt] : []));
    return open.length === 0 ? undefined : Math.max(...open);
  }

  note(name: string, { outcome, statusCode, reached }: AttemptResult, now: number): void {
    if (outcome === 'retry') this.#targets.add(name, now);
    else this.#targets.clear(name);
    if (statusCode === null && reached === false) this.#hosts.add(hostOf(name), now);
    else this.#hosts.clear(hostOf(name));
  }

  #states(name: string): [target: State | undefined, host: State | undefined] {
    return [this.#targets.get(name), this.#hosts.get(hostOf(name))];
  }
}

function placesOf(state: State | undefined, now: number): number {
  if (state === undefined || state.failures < BREAKER_FAILURES) return Number.POSITIVE_INFINITY;
  return now < state.probeAt ? 0 : 1;
}

/** The host of a lane, whose name among all is `<account>/<lane>`. */
export function hostOf(name: string): string {
  return hostOfLane(name.slice(name.indexOf('/') + 1));
}
