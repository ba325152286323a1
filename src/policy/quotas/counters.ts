// The counters behind rate_limit policies (between judgement and decision). They live in Redis, which all processes
// share. One script call takes permits of many counters of one hash tag in one step: the counters of an event
// partition's agents, or of a registry shard's accounts. All calls of a tick are sent together and cost one round trip.
// Time is Redis's own (src/redis/rate-window.lua has the guarantees).
// Invariant: a permit is granted by Redis or not at all. A failure rejects the whole of `take`, whatever Redis counted;
// the caller then refuses the submissions (the limit fails closed). Permits that were counted stay counted: too few
// events pass, never too many.
import { readAsset } from '../../process/assets.ts';
import { type Commands, sendTogether } from '../../redis/client.ts';
import { Script } from '../../redis/script.ts';
import { type LeaseGrant, type LeaseRequest, NO_LEASE } from './quota-lease.ts';

export type CounterCheck = {
  key: string;
  threshold: number;
  windowMs: number;
  /** Permits asked for at once. */
  count: number;
  /** Events over the threshold are counted, too: rules without `block`. */
  countsWhenOver: boolean;
  /** Permits to lease in advance, and leased ones that come back: see quota-lease.ts. Left out: none. */
  lease?: LeaseRequest;
};

/**
 * How many of the `count` stay within the threshold, first come first; when they were counted, epoch ms by Redis's
 * clock; and in how many ms the next permit is free (0: all were granted).
 */
export type CounterGrant = { granted: number; freeInMs: number } & LeaseGrant;

/** A script holds Redis up for others: 0.4 ms for fifty counters, 29 us for one. */
const COUNTERS_AT_ONCE = 50;
/** The script's answer has so many numbers for each counter. */
const NUMBERS_A_COUNTER = 5;

export class Counters {
  readonly #redis: Commands;
  readonly #script = new Script<number[]>('rate-window', readAsset('src/redis/rate-window.lua'));

  constructor(redis: Commands) {
    this.#redis = redis;
  }

  /** In the order of the checks; of one counter's the earlier comes first. Throws RedisUnavailable. */
  async take(checks: readonly CounterCheck[]): Promise<CounterGrant[]> {
    const grants = new Array<CounterGrant>(checks.length);
    const calls: Promise<void>[] = [];
    sendTogether(this.#redis, () => {
      for (const indexes of callsOf(checks)) calls.push(this.#call(checks, indexes, grants));
    });
    await Promise.all(calls);
    return grants;
  }

  /** `indexes`: the checks that go into one call. */
  async #call(checks: readonly CounterCheck[], indexes: readonly number[], grants: CounterGrant[]): Promise<void> {
    const keys: string[] = [];
    const args: (number | string)[] = [];
    for (const index of indexes) {
      const { key, threshold, windowMs, count, countsWhenOver, lease = NO_LEASE } = checks[index]!;
      keys.push(key);
      args.push(
        threshold,
        windowMs,
        count,
        countsWhenOver ? '1' : '0',
        lease.lease,
        lease.returned,
        lease.returnedBucket,
      );
    }
    const reply = await this.#script.run(this.#redis, keys, args);
    const atMs = reply[NUMBERS_A_COUNTER * indexes.length]!;
    for (const [i, index] of indexes.entries()) {
      const at = NUMBERS_A_COUNTER * i;
      const [granted, leased, bucket, usableMs, freeInMs] = reply.slice(at, at + NUMBERS_A_COUNTER);
      grants[index] = {
        granted: granted!,
        leased: leased!,
        bucket: bucket!,
        usableMs: usableMs!,
        freeInMs: freeInMs!,
        atMs,
      };
    }
  }
}

/** Groups the indexes of checks by hash tag, in order: one group is one call. */
function callsOf(checks: readonly CounterCheck[]): number[][] {
  if (checks.length <= 1) return checks.length === 0 ? [] : [[0]];
  const calls: number[][] = [];
  const open = new Map<string, number[]>();
  for (const [index, { key }] of checks.entries()) {
    const tag = key.slice(0, key.indexOf('}'));
    let call = open.get(tag);
    if (call === undefined || call.length === COUNTERS_AT_ONCE) {
      call = [];
      open.set(tag, call);
      calls.push(call);
    }
    call.push(index);
  }
  return calls;
}
