// The backlog's bound (before judgement): above it event writes get 503 and reads go on.
// Two measures, polled: entries in the longest stream, and bytes that Redis uses, since what fills Redis is not only streams.
// At 70 % of Redis's own `maxmemory` writes are refused in any case: counters, leases and the drain live in the rest.
// Between polls the answer is a field read, so the hot path pays nothing. If Redis cannot be asked the last answer stands:
// the append that follows will fail by itself, and say so.
import { Cluster } from 'ioredis';
import { BACKLOG_POLL_MS, BACKLOG_SHARE_MAX } from '../limits.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';

export type BacklogState = { entries: number; usedBytes: number; bytesMax: number; full: boolean };

export class Backlog {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #entriesMax: number;
  readonly #bytesMax: number;
  #state: BacklogState;
  #timer: NodeJS.Timeout | undefined;
  #asking: Promise<void> | undefined;

  constructor(options: { redis: Commands; keys: Keys; entriesMax: number; bytesMax: number }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#entriesMax = options.entriesMax;
    this.#bytesMax = options.bytesMax;
    this.#state = { entries: 0, usedBytes: 0, bytesMax: options.bytesMax, full: false };
  }

  full(): boolean {
    return this.#state.full;
  }

  /** For metrics: entries of the longest stream, bytes of the fullest Redis node and its bound. */
  state(): BacklogState {
    return this.#state;
  }

  /** Resolves after the first look. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.#look(), BACKLOG_POLL_MS);
    await this.#look();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#asking;
  }

  #look(): Promise<void> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(): Promise<void> {
    try {
      const partitions = Array.from({ length: this.#keys.partitions }, (_, partition) => partition);
      const nodes = this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis];
      const [lengths, memory] = await Promise.all([
        Promise.all(partitions.map((partition) => this.#redis.xlen(this.#keys.events(partition)))),
        Promise.all(nodes.map(async (node) => memoryOf(await node.info('memory')))),
      ]);
      this.#state = this.#judge(Math.max(...lengths), memory);
    } catch {
      // The last answer stands.
    }
  }

  #judge(entries: number, nodes: { used: number; max: number }[]): BacklogState {
    let fullest = { usedBytes: 0, bytesMax: this.#bytesMax };
    for (const { used, max } of nodes) {
      const bytesMax = max > 0 ? Math.min(this.#bytesMax, max * BACKLOG_SHARE_MAX) : this.#bytesMax;
      if (used / bytesMax >= fullest.usedBytes / fullest.bytesMax) fullest = { usedBytes: used, bytesMax };
    }
    return { entries, ...fullest, full: entries > this.#entriesMax || fullest.usedBytes > fullest.bytesMax };
  }
}

function memoryOf(info: string): { used: number; max: number } {
  return {
    used: Number(/^used_memory:(\d+)/m.exec(info)?.[1] ?? 0),
    max: Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0),
  };
}
