// The heartbeat of ingestion (each front, once a second): while it beats, agents could submit events. While no front
// accepts events, because none runs, Redis is unreachable or the backlog is full, agents cannot be heard, and the watch
// for silent agents counts no silence across such a gap.
// Invariant: a front beats only while it would accept an event. One front is enough: callers reach whichever is there.
// Failure: a beat that fails is a gap if it continues; nothing is made up for.

import { Periodic } from '../common/async.ts';
import { WATCH_GAP_MS, WATCH_TICK_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';

const mark = new Script<number>('gap-mark', readAsset('src/redis/gap-mark.lua'));

type IngestHeartbeatOptions = {
  redis: Commands;
  keys: Keys;
  isAccepting: () => boolean;
  /** For tests; else Redis's clock. */
  now?: () => number;
};

export class IngestHeartbeat {
  readonly #options: IngestHeartbeatOptions;
  readonly #beats = new Periodic(WATCH_TICK_MS, () => this.mark().catch(() => undefined));

  constructor(options: IngestHeartbeatOptions) {
    this.#options = options;
  }

  start(): void {
    this.#beats.start();
    void this.#beats.run();
  }

  stop(): Promise<void> {
    return this.#beats.stop();
  }

  async mark(): Promise<void> {
    const { redis, keys, isAccepting: isOpen, now } = this.#options;
    if (isOpen()) await mark.run(redis, [keys.ingestHeartbeat()], [WATCH_GAP_MS, now?.() ?? '']);
  }
}

/**
 * Answers for a time of Redis's clock (epoch ms) since when events were accepted without a gap; null: they are not
 * accepted.
 */
export async function acceptingSince(redis: Commands, keys: Keys): Promise<(nowMs: number) => number | null> {
  const [since, at] = await redis.hmget(keys.ingestHeartbeat(), 'since', 'at');
  return (nowMs) => (since && at && nowMs - Number(at) <= WATCH_GAP_MS ? Number(since) : null);
}
