// The counters behind rate_limit policies (step 9 of the path: between judge and decide), kept in Redis, which all processes
// share. One script call takes any number of places at the counters of one hash tag, in one step: those of an event partition's agents,
// or of a registry shard's accounts. All calls of a tick go out together and are one round trip. Time is Redis's own
// (see src/redis/rate-window.lua for what is guaranteed).
// Invariant: a place is granted by Redis or not at all. Any failure rejects the whole of `take`, whatever was counted; the
// caller then refuses the submissions (fail closed). Places that were taken meanwhile stay taken: too few pass, never too many.
import { readAsset } from '../assets.ts';
import { type Commands, sendTogether } from '../redis/client.ts';
import { Script } from '../redis/script.ts';
import { type HoldAsked, type HoldGranted, NOTHING_ASKED } from './held-places.ts';

export type CounterCheck = {
  key: string;
  threshold: number;
  windowMs: number;
  /** Places asked for at once. */
  count: number;
  /** What is over takes a place, too: rules without `block`. */
  takesPlaceWhenOver: boolean;
  /** Places to be held in advance, and such as come back: see held-places.ts. Left out: none. */
  held?: HoldAsked;
};

/** How many of the `count` stay within the threshold, first come first; and when they were counted, epoch ms by Redis's clock. */
export type Taken = { granted: number } & HoldGranted;

/** A script holds Redis up for others: 0.4 ms for fifty counters, 29 us for one. */
const COUNTERS_AT_ONCE = 50;
/** Of the script's answer. */
const NUMBERS_A_COUNTER = 4;

export class Counters {
  readonly #redis: Commands;
  readonly #script = new Script<number[]>('rate-window', readAsset('src/redis/rate-window.lua'));

  constructor(redis: Commands) {
    this.#redis = redis;
  }

  /** In the order of the checks; of one counter's the earlier comes first. Throws RedisUnavailable. */
  async take(checks: readonly CounterCheck[]): Promise<Taken[]> {
    const taken = new Array<Taken>(checks.length);
    const calls: Promise<void>[] = [];
    sendTogether(this.#redis, () => {
      for (const places of callsOf(checks)) calls.push(this.#call(checks, places, taken));
    });
    await Promise.all(calls);
    return taken;
  }

  /** `places`: of the checks to be made in one call. */
  async #call(checks: readonly CounterCheck[], places: readonly number[], taken: Taken[]): Promise<void> {
    const keys: string[] = [];
    const args: (number | string)[] = [];
    for (const place of places) {
      const { key, threshold, windowMs, count, takesPlaceWhenOver, held = NOTHING_ASKED } = checks[place]!;
      keys.push(key);
      args.push(threshold, windowMs, count, takesPlaceWhenOver ? '1' : '0', held.hold, held.back, held.backBucket);
    }
    const reply = await this.#script.run(this.#redis, keys, args);
    const atMs = reply[NUMBERS_A_COUNTER * places.length]!;
    for (const [i, place] of places.entries()) {
      const [granted, held, bucket, usableMs] = reply.slice(NUMBERS_A_COUNTER * i, NUMBERS_A_COUNTER * (i + 1));
      taken[place] = { granted: granted!, held: held!, bucket: bucket!, usableMs: usableMs!, atMs };
    }
  }
}

/** Places of checks that go into one call: of one hash tag, in their order. */
function callsOf(checks: readonly CounterCheck[]): number[][] {
  if (checks.length <= 1) return checks.length === 0 ? [] : [[0]];
  const calls: number[][] = [];
  const open = new Map<string, number[]>();
  for (const [place, { key }] of checks.entries()) {
    const tag = key.slice(0, key.indexOf('}'));
    let call = open.get(tag);
    if (call === undefined || call.length === COUNTERS_AT_ONCE) {
      call = [];
      open.set(tag, call);
      calls.push(call);
    }
    call.push(place);
  }
  return calls;
}
