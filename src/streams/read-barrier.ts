// The read barrier: a list that starts after a write was acknowledged shows that write (before a query).
// A stream's last entry id at the start of the read is the target; the read continues once the group's watermark, the
// last id whose effects are durable, has reached it. What arrived later need not be waited for.
// All reads of a process share one poll: a stream is asked once per BARRIER_POLL_MS however many reads wait on it.
// Gives up after READ_WAIT_MS_MAX, or at once if Redis cannot be asked: then the answer is `false` and the read is
// marked incomplete.

import { setTimeout as sleep } from 'node:timers/promises';
import { BARRIER_POLL_MS, READ_WAIT_MS_MAX } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import type { Group } from './groups.ts';
import { compareIds } from './stream-id.ts';

const position = new Script<[string, string]>('stream-position', readAsset('src/redis/stream-position.lua'));

/** How far a group is: `watermark` is durable, `last` is the stream's end (equal to `watermark` if nothing is left). */
export async function positionOf(
  redis: Commands,
  keys: Keys,
  stream: string,
  group: string,
): Promise<{ watermark: string; last: string }> {
  const [watermark, last] = await position.run(redis, [stream, keys.watermark(stream, group)], []);
  return { watermark, last };
}

type Waiter = { target: string | undefined; settle: (complete: boolean) => void };

/** One stream and group with at least one waiter. Lives until the last has left. */
class Watch {
  readonly waiters = new Set<Waiter>();
  running = false;
}

export class ReadBarrier {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #waitMs: number;
  readonly #watches = new Map<string, Watch>();

  constructor(options: { redis: Commands; keys: Keys; waitMs?: number }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#waitMs = options.waitMs ?? READ_WAIT_MS_MAX;
  }

  /** Resolves when events acknowledged so far are stored: of one agent, or (null) of all agents. False: not in time. */
  waitForEvents(account: string, agent: string | null): Promise<boolean> {
    return this.#waitForEventStreams(account, agent, 'store');
  }

  /** Resolves when the anomalies of events acknowledged so far are stored. False: not in time. */
  waitForAnomalies(account: string, agent: string | null): Promise<boolean> {
    return this.#waitForEventStreams(account, agent, 'anomaly');
  }

  /** Resolves when registry changes of the account acknowledged so far are stored. False: not in time. */
  waitForJournal(account: string): Promise<boolean> {
    return this.#wait(this.#keys.journal(this.#keys.shardOf(account)), 'store');
  }

  /** Resolves when all that the audit log of the account has entries of is stored, as verifying needs it. */
  async waitForAuditLog(account: string): Promise<boolean> {
    return (await Promise.all([this.waitForEvents(account, null), this.waitForJournal(account)])).every(Boolean);
  }

  /**
   * Resolves when the approvals of events acknowledged so far are open, and every decision acknowledged so far is
   * stored. False: not in time.
   */
  async waitForApprovals(account: string, agent: string | null): Promise<boolean> {
    const started = performance.now();
    const opened = await this.waitForOpenings(account, agent);
    // Opening is a registry change: it is in the journal once the event streams have been worked through.
    const left = Math.max(0, this.#waitMs - (performance.now() - started));
    const stored = await this.#wait(this.#keys.journal(this.#keys.shardOf(account)), 'store', left);
    return opened && stored;
  }

  /** Resolves when Redis holds the approvals of events acknowledged so far. False: not in time. */
  waitForOpenings(account: string, agent: string | null): Promise<boolean> {
    return this.#waitForEventStreams(account, agent, 'alert');
  }

  async #waitForEventStreams(account: string, agent: string | null, group: Group): Promise<boolean> {
    if (agent !== null) return this.#wait(this.#keys.events(this.#keys.partitionOf(account, agent)), group);
    const all = this.#keys.ofPartitions((partition) => this.#wait(this.#keys.events(partition), group));
    return (await Promise.all(all)).every((complete) => complete);
  }

  #wait(stream: string, group: Group, waitMs = this.#waitMs): Promise<boolean> {
    const name = `${stream} ${group}`;
    const watch = this.#watches.get(name) ?? new Watch();
    this.#watches.set(name, watch);
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiter.settle(false), waitMs);
      const waiter: Waiter = {
        target: undefined,
        settle: (complete) => {
          clearTimeout(timer);
          watch.waiters.delete(waiter);
          resolve(complete);
        },
      };
      watch.waiters.add(waiter);
      if (!watch.running) void this.#run(name, watch, stream, group);
    });
  }

  async #run(name: string, watch: Watch, stream: string, group: Group): Promise<void> {
    watch.running = true;
    while (watch.waiters.size > 0) {
      // Only who waited before the question was sent may take its answer for a target.
      const asked = [...watch.waiters];
      try {
        // The end of the stream is for newcomers; for the others the watermark alone will do, which costs Redis
        // nothing.
        const isNewcomer = asked.some((waiter) => waiter.target === undefined);
        const { watermark, last } = isNewcomer
          ? await positionOf(this.#redis, this.#keys, stream, group)
          : { watermark: (await this.#redis.get(this.#keys.watermark(stream, group))) ?? '0-0', last: '' };
        for (const waiter of asked) {
          waiter.target ??= last;
          if (compareIds(watermark, waiter.target) >= 0) waiter.settle(true);
        }
      } catch {
        for (const waiter of asked) waiter.settle(false);
      }
      const newcomers = [...watch.waiters].some((waiter) => waiter.target === undefined);
      if (watch.waiters.size > 0 && !newcomers) await sleep(BARRIER_POLL_MS);
    }
    watch.running = false;
    if (this.#watches.get(name) === watch) this.#watches.delete(name);
  }
}
