// Says that events can be handed in (beside the path; each front once a second), so that a silence that is ours is not taken
// for an agent's: while no front takes events in, because none runs, Redis is away or the backlog is full, agents cannot
// speak, and the watch over them counts no silence that reaches over such a gap.
// Invariant: a front marks only while it would take an event in. One open front will do: callers reach what is there.
// A mark that fails is a gap if it goes on; there is nothing to make up for.
import { readAsset } from '../assets.ts';
import { WATCH_GAP_MS, WATCH_TICK_MS } from '../limits.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';

const mark = new Script<number>('gap-mark', readAsset('src/redis/gap-mark.lua'));

export type OpenDoorsOptions = {
  redis: Commands;
  keys: Keys;
  isOpen: () => boolean;
  /** For tests; else Redis's clock. */
  now?: () => number;
};

export class OpenDoors {
  readonly #options: OpenDoorsOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: OpenDoorsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.mark().catch(() => undefined), WATCH_TICK_MS);
    void this.mark().catch(() => undefined);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async mark(): Promise<void> {
    const { redis, keys, isOpen, now } = this.#options;
    if (isOpen()) await mark.run(redis, [keys.openDoors()], [WATCH_GAP_MS, now?.() ?? '']);
  }
}

/** Since when events could be handed in without a gap, at `nowMs` of Redis's clock; null: they cannot be now. */
export async function openSince(redis: Commands, keys: Keys): Promise<(nowMs: number) => number | null> {
  const [since, at] = await redis.hmget(keys.openDoors(), 'since', 'at');
  return (nowMs) => (since && at && nowMs - Number(at) <= WATCH_GAP_MS ? Number(since) : null);
}
