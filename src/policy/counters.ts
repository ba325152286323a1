// The counters behind rate_limit policies (step 9 of the path: between judge and decide), kept in Redis, which all processes
// share. One script call takes any number of places at one counter, in one step; all calls of a tick go out together and are
// one round trip. Time is Redis's own (see src/redis/rate-window.lua for what is guaranteed).
// Invariant: a place is granted by Redis or not at all. Any failure rejects the whole of `take`, whatever was counted; the
// caller then refuses the submissions (fail closed). Places that were taken meanwhile stay taken: too few pass, never too many.
import { readAsset } from '../assets.ts';
import type { Commands } from '../redis/client.ts';
import { Script } from '../redis/script.ts';

export type CounterCheck = {
  key: string;
  threshold: number;
  windowMs: number;
  /** Places asked for at once. */
  count: number;
  /** What is over takes a place, too: rules without `block`. */
  takesPlaceWhenOver: boolean;
};

/** How many of the `count` stay within the threshold, first come first; and when they were counted, epoch ms by Redis's clock. */
export type Taken = { granted: number; atMs: number };

export class Counters {
  readonly #redis: Commands;
  readonly #script = new Script<[granted: number, atMs: number]>('rate-window', readAsset('src/redis/rate-window.lua'));

  constructor(redis: Commands) {
    this.#redis = redis;
  }

  /** In the order of the checks. Throws RedisUnavailable. */
  take(checks: readonly CounterCheck[]): Promise<Taken[]> {
    return Promise.all(
      checks.map(async ({ key, threshold, windowMs, count, takesPlaceWhenOver }) => {
        const args = [threshold, windowMs, count, takesPlaceWhenOver ? '1' : '0'];
        const [granted, atMs] = await this.#script.run(this.#redis, [key], args);
        return { granted, atMs };
      }),
    );
  }
}
