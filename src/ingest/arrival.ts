// When the events of a submission arrived, and the moments that their ids are made of (between decision and encoding).
// An event arrived when it was encoded, or, if a rate limit counted it, when it was counted: so the events that are
// kept show that the limit held.
// Invariant: moments of one submission rise in its order, so it keeps its order wherever it is read; and they lie
// behind those of every submission that this process had answered before this one was read. Neither moves a counted
// event by more than a lease lags behind (quota-lease.ts).

import { idAt } from '../common/ids.ts';
import { QUOTA_LEASE_MS } from '../common/limits.ts';
import { type Moment, SLOTS, SLOTS_BY_TIME, type SteadyClock } from '../common/steady-clock.ts';
import type { Decided } from './resolve-quotas.ts';

/** The moment of each element; those of refused elements are of no use. Nothing is allocated for an event. */
export class Arrivals {
  readonly #first: Moment;
  /** Where they are not neighbours in one millisecond. */
  readonly #each: readonly Moment[] | undefined;
  /** Ids of elements that had to have one before they were encoded. */
  #ids: string[] | undefined;

  private constructor(first: Moment, each?: readonly Moment[]) {
    this.#first = first;
    this.#each = each;
  }

  /** `readAt`: when the body was read, by the same clock. */
  static of(clock: Pick<SteadyClock, 'now' | 'take'>, judged: readonly (Decided | null)[], readAt: number): Arrivals {
    if (!isCounted(judged)) return new Arrivals(clock.take(judged.length));
    const each = momentsOf(timesOf(judged, readAt, clock.now()));
    return new Arrivals(each[0]!, each);
  }

  /** Epoch ms, whole. */
  msOf(element: number): number {
    return this.#each === undefined ? this.#first.ms : this.#each[element]!.ms;
  }

  slotOf(element: number): number {
    return this.#each === undefined ? this.#first.slot + element : this.#each[element]!.slot;
  }

  of(element: number): Moment {
    return { ms: this.msOf(element), slot: this.slotOf(element) };
  }

  /** The id of the event, from now on. */
  fix(element: number): string {
    this.#ids ??= [];
    this.#ids[element] = this.idOf(element);
    return this.#ids[element];
  }

  /** undefined: it has none yet. */
  fixedId(element: number): string | undefined {
    return this.#ids?.[element];
  }

  idOf(element: number): string {
    return this.#ids?.[element] ?? idAt('event', this.of(element));
  }
}

function isCounted(judged: readonly (Decided | null)[]): boolean {
  for (const one of judged) if (one !== null && one.countedAt !== undefined) return true;
  return false;
}

/** Epoch ms, none before the one in front of it. What was not counted arrived before what was counted behind it. */
function timesOf(judged: readonly (Decided | null)[], readAt: number, nowMs: number): number[] {
  const times = new Array<number>(judged.length);
  let behind = nowMs;
  for (let i = judged.length - 1; i >= 0; i--) {
    const countedAt = judged[i]?.countedAt;
    times[i] = countedAt === undefined ? behind : behindReading(countedAt, readAt);
    behind = Math.min(behind, times[i]!);
  }
  for (let i = 1; i < times.length; i++) times[i] = Math.max(times[i]!, times[i - 1]!);
  return times;
}

/** The time of an event that is counted off a lease: dated back by as long as its grant was under way. */
function behindReading(countedAt: number, readAt: number): number {
  return countedAt < readAt && readAt - countedAt < QUOTA_LEASE_MS ? readAt : countedAt;
}

function momentsOf(times: readonly number[]): Moment[] {
  const moments: Moment[] = [];
  let last: Moment | undefined;
  for (const at of times) {
    const ms = Math.floor(at);
    // There is always room behind it for what comes at the same time.
    let slot = Math.min(Math.floor((at - ms) * SLOTS_BY_TIME), SLOTS - times.length);
    if (last?.ms === ms) slot = Math.max(slot, last.slot + 1);
    last = { ms, slot };
    moments.push(last);
  }
  return moments;
}
