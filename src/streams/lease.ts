// Leases: who reads a stream for a group (before every read; the members' fair share decides who tries).
// A lease is a key `<owner>:<fence>` that expires; the fence rises with each change of owner, and every read, manifest
// and acknowledgement is a script that compares the key with the reader's text first. So an owner that was paused past
// its lease and wakes up can do nothing to the stream, whatever it still believes.
// For steps outside Redis, which no script can fence, `ensureHeld` asks our own monotonic clock: it only says yes
// while the last confirmed renewal is younger than the lease's life less a margin.
// An owner that comes back under its own name need not wait for its old lease to expire: it takes a new fence at once.

import { Periodic } from '../common/async.ts';
import { LEASE_MARGIN_MS, LEASE_MS, LEASE_RENEW_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import { Script } from '../redis/script.ts';
import { withRun } from './redis-run.ts';

/** The lease ran out or has another owner: drop everything that was read under it. */
export class LeaseLost extends Error {
  override name = 'LeaseLost';
}

const acquire = new Script<string | null>('lease-acquire', readAsset('src/redis/lease-acquire.lua'));
const renew = new Script<number>('lease-renew', withRun(readAsset('src/redis/lease-renew.lua')));
const release = new Script<number>('lease-release', readAsset('src/redis/lease-release.lua'));

type LeaseKeys = { lease: string; fence: string };

export class Lease {
  readonly key: string;
  /** `<owner>:<fence>`, what scripts compare. */
  readonly text: string;
  readonly #redis: Commands;
  /** Monotonic ms at which the last confirmed renewal was sent. */
  #confirmedAt: number;
  #lost = false;
  /** The run of Redis in which it was begun to read; '' for any. In another one what is in hand is stale. */
  run = '';

  constructor(redis: Commands, key: string, text: string, confirmedAt: number) {
    this.#redis = redis;
    this.key = key;
    this.text = text;
    this.#confirmedAt = confirmedAt;
  }

  /** Throws LeaseLost; any other error means that Redis could not be asked. */
  async renew(): Promise<void> {
    if (this.#lost) throw this.lose();
    const sentAt = performance.now();
    if ((await renew.run(this.#redis, [this.key], [this.text, LEASE_MS, this.run])) !== 1) throw this.lose();
    this.#confirmedAt = sentAt;
  }

  /** Right before a step outside Redis. Throws LeaseLost if the lease may be another's by now. */
  async ensureHeld(): Promise<void> {
    if (this.#lost) throw this.lose();
    if (performance.now() - this.#confirmedAt > LEASE_MS - LEASE_MARGIN_MS) await this.renew();
  }

  /** Lets others in at once. */
  async release(): Promise<void> {
    this.#lost = true;
    await release.run(this.#redis, [this.key], [this.text]);
  }

  /** The error for a script's "no longer yours". */
  lose(): LeaseLost {
    this.#lost = true;
    return new LeaseLost(`lease ${this.key} is no longer ${this.text}`);
  }
}

/**
 * `retake`: a lease under our own name is taken over at once; for the first try of a process only, so that two
 * processes of one name do not take turns.
 */
export async function acquireLease(
  redis: Commands,
  keys: LeaseKeys,
  options: { owner: string; retake: boolean },
): Promise<Lease | null> {
  const sentAt = performance.now();
  const text = await acquire.run(
    redis,
    [keys.lease, keys.fence],
    [options.owner, LEASE_MS, options.retake ? '1' : '0'],
  );
  return text === null ? null : new Lease(redis, keys.lease, text, sentAt);
}

/**
 * Renews the lease while `work` is at it, and releases it then. `lost`: aborted with LeaseLost where it is another's; a
 * renewal that fails otherwise is tried again.
 */
export async function whileHeld<T>(lease: Lease, work: (lost: AbortSignal) => Promise<T>): Promise<T> {
  const lost = new AbortController();
  const renewing = new Periodic(LEASE_RENEW_MS, async () => {
    try {
      await lease.renew();
    } catch (error) {
      if (error instanceof LeaseLost) lost.abort(error);
    }
  });
  renewing.start();
  try {
    return await work(lost.signal);
  } finally {
    await renewing.stop();
    await lease.release().catch(() => undefined);
  }
}
