// The counters of a rate limit, replayed over events in the order in which they were counted (of a backtest).
// The same sliding window as src/redis/rate-window.lua keeps: 60 sub-buckets, counted conservatively. An event's time
// is the one at which it was counted, which a counted event carries as its arrival; so a place is taken in the
// sub-bucket in which it was taken then. Times are whole milliseconds: borders of sub-buckets are met exactly where
// they lie between two of them, as in windows of whole multiples of 3 s.
// An event that another limit blocks takes a place until its submission has been asked for whole, as live: those behind
// it in the same request are refused, though the place is given back then.
// Invariant: what is kept goes on exactly where it stood. Failure: more counters than are kept throws TooManyCounters.
import { BACKTEST_BUCKETS_MAX, BACKTEST_COUNTERS_MAX } from '../../common/limits.ts';
import type { RateCheck } from '../judgement.ts';

const BUCKETS = 60;
/** Takes between two looks for counters that have left the window. */
const SWEEP_EVERY = 20_000;

export class TooManyCounters extends Error {
  override name = 'TooManyCounters';
}

/** `taken`: sub-bucket and places, alternating, in the order of time; `sum`: of all places. */
type Counter = { taken: number[]; sum: number };
/** A place that is given back: which counter, which sub-bucket. */
type Lent = [name: string, bucket: number];
/** As it is kept: JSON. */
export type KeptCounters = {
  counters: readonly (readonly [name: string, taken: readonly number[]])[];
  lent: readonly Lent[];
};
type Limit = Pick<RateCheck, 'threshold' | 'windowMs' | 'countsWhenOver'>;

export class ReplayedCounters {
  readonly #counters: Map<string, Counter>;
  #lent: Lent[];
  /** Sub-buckets of all counters. */
  #buckets = 0;
  #takes = 0;

  constructor({ counters, lent }: KeptCounters = { counters: [], lent: [] }) {
    this.#lent = [...lent];
    this.#counters = new Map(counters.map(([name, taken]) => [name, { taken: [...taken], sum: sumOf(taken) }]));
    for (const { taken } of this.#counters.values()) this.#buckets += taken.length / 2;
  }

  kept(): KeptCounters {
    const counters = [...this.#counters].map(([name, { taken }]) => [name, taken] as const);
    return { counters, lent: this.#lent };
  }

  /**
   * ms until a place is free; 0: there was one, and it is taken. `isLent`: until `release`. Times must not fall.
   * Throws TooManyCounters.
   */
  take(name: string, { threshold, windowMs, countsWhenOver }: Limit, atMs: number, isLent = false): number {
    const bucket = Math.floor((atMs * BUCKETS) / windowMs);
    if (++this.#takes % SWEEP_EVERY === 0) this.#sweep(bucket);
    const counter = this.#counter(name);
    this.#leave(counter, bucket);
    const isOver = counter.sum >= threshold;
    if (!isOver || countsWhenOver) {
      this.#add(counter, bucket);
      if (isLent) this.#lent.push([name, bucket]);
    }
    return isOver ? freeInMs(counter, { threshold, windowMs, atMs }) : 0;
  }

  /** Gives back the places of events that another limit blocked. */
  release(): void {
    if (this.#lent.length === 0) return;
    for (const [name, bucket] of this.#lent) {
      const counter = this.#counters.get(name);
      const at = counter?.taken.findIndex((value, i) => i % 2 === 0 && value === bucket) ?? -1;
      if (at < 0) continue;
      counter!.sum--;
      // One that is empty leaves with its time.
      counter!.taken[at + 1]!--;
    }
    this.#lent = [];
  }

  #counter(name: string): Counter {
    let counter = this.#counters.get(name);
    if (counter === undefined) {
      if (this.#counters.size >= BACKTEST_COUNTERS_MAX) throw tooMany();
      counter = { taken: [], sum: 0 };
      this.#counters.set(name, counter);
    }
    return counter;
  }

  /** Takes off what lies outside the window that ends with `bucket`. */
  #leave(counter: Counter, bucket: number): void {
    const { taken } = counter;
    let left = 0;
    while (left < taken.length && taken[left]! < bucket - BUCKETS) {
      counter.sum -= taken[left + 1]!;
      left += 2;
    }
    if (left === 0) return;
    taken.splice(0, left);
    this.#buckets -= left / 2;
  }

  #add(counter: Counter, bucket: number): void {
    const { taken } = counter;
    counter.sum++;
    if (taken.at(-2) === bucket) taken[taken.length - 1]!++;
    else {
      if (++this.#buckets > BACKTEST_BUCKETS_MAX) throw tooMany();
      taken.push(bucket, 1);
    }
  }

  #sweep(bucket: number): void {
    for (const [name, counter] of this.#counters) {
      this.#leave(counter, bucket);
      if (counter.taken.length === 0) this.#counters.delete(name);
    }
  }
}

export function tooMany(): TooManyCounters {
  return new TooManyCounters('a replayed policy counts more apart than is kept');
}

function sumOf(taken: readonly number[]): number {
  return taken.reduce((sum, places, i) => sum + (i % 2 === 1 ? places : 0), 0);
}

/** Until enough has left the window for one more place. */
function freeInMs(
  { taken, sum }: Counter,
  { threshold, windowMs, atMs }: { threshold: number; windowMs: number; atMs: number },
): number {
  let missing = sum - threshold + 1;
  for (let i = 0; i < taken.length; i += 2) {
    missing -= taken[i + 1]!;
    if (missing <= 0) return Math.max(1, Math.ceil(((taken[i]! + BUCKETS + 1) * windowMs) / BUCKETS - atMs));
  }
  return windowMs;
}
