// The backlog's bound (before judgement): above it event writes get 503 and reads continue.
// Two measures, polled: entries in the longest stream, and bytes that Redis uses, since what fills Redis is not only
// streams. What is kept under Idempotency-Keys is left out: it has a bound of its own, within which it goes by itself.
// At 70 % of Redis's own `maxmemory` writes are refused in any case: counters, leases and the drain live in the rest.
// Where INFO is refused (managed services, users of an ACL) the bytes are those of the event streams alone, by MEMORY
// USAGE, and Redis's own `maxmemory` is not known.
// Between polls the answer is a field read, so the hot path pays nothing. If Redis cannot be asked the last answer
// stands: the append that follows will fail by itself, and say so.

import { Cluster } from 'ioredis';
import { Periodic } from '../common/async.ts';
import { BACKLOG_POLL_MS, BACKLOG_SHARE_MAX, IDEMPOTENCY_SHARE_MAX } from '../common/limits.ts';
import { type Commands, sendTogether } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';

/** `idempotencyBytes`: of what is kept under Idempotency-Keys, which is no backlog and has a bound of its own. */
type BacklogState = {
  entries: number;
  usedBytes: number;
  bytesMax: number;
  full: boolean;
  idempotencyBytes: number;
};

export class Backlog {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #entriesMax: number;
  readonly #bytesMax: number;
  readonly #idempotencyBytesMax: number;
  #maxmemory = 0;
  #state: BacklogState;
  readonly #polls = new Periodic(BACKLOG_POLL_MS, () => this.#ask());

  constructor(options: {
    redis: Commands;
    keys: Keys;
    entriesMax: number;
    bytesMax: number;
    idempotencyBytesMax: number;
  }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#entriesMax = options.entriesMax;
    this.#bytesMax = options.bytesMax;
    this.#idempotencyBytesMax = options.idempotencyBytesMax;
    this.#state = { entries: 0, usedBytes: 0, bytesMax: options.bytesMax, full: false, idempotencyBytes: 0 };
  }

  full(): boolean {
    return this.#state.full;
  }

  /**
   * Bytes that may be kept under Idempotency-Keys: as the settings say, and no more than its share of the smallest
   * node.
   */
  get idempotencyBytesMax(): number {
    if (this.#maxmemory === 0) return this.#idempotencyBytesMax;
    return Math.min(this.#idempotencyBytesMax, this.#maxmemory * IDEMPOTENCY_SHARE_MAX);
  }

  /** For metrics: entries of the longest stream, bytes of the fullest Redis node and its bound. */
  state(): BacklogState {
    return this.#state;
  }

  /** Resolves after the first poll. */
  async start(): Promise<void> {
    this.#polls.start();
    await this.#polls.run();
  }

  stop(): Promise<void> {
    return this.#polls.stop();
  }

  async #ask(): Promise<void> {
    try {
      const partitions = Array.from({ length: this.#keys.partitions }, (_, partition) => partition);
      const nodes = this.#redis instanceof Cluster ? this.#redis.nodes('master') : [this.#redis];
      const asked = sendTogether(
        this.#redis,
        () =>
          [
            Promise.all(partitions.map((partition) => this.#redis.xlen(this.#keys.events(partition)))),
            Promise.all(partitions.map((partition) => this.#redis.hget(this.#keys.idempotencyBytes(partition), ''))),
            Promise.all(nodes.map((node) => node.info('memory').then(memoryOf))).catch(() =>
              this.#streamBytes(nodes.length),
            ),
          ] as const,
      );
      const [lengths, kept, memory] = await Promise.all(asked);
      this.#maxmemory = Math.min(...memory.map(({ max }) => max));
      const idempotencyBytes = kept.reduce((sum, bytes) => sum + Number(bytes ?? 0), 0);
      this.#state = this.#judge(Math.max(...lengths), memory, idempotencyBytes);
    } catch {
      // The last answer stands.
    }
  }

  /** Streams are spread evenly over the nodes, as far as is known. */
  async #streamBytes(nodes: number): Promise<{ used: number; max: number }[]> {
    const streams = Array.from({ length: this.#keys.partitions }, (_, partition) => this.#keys.events(partition));
    const bytes = await Promise.all(streams.map((stream) => this.#redis.memory('USAGE', stream)));
    return [{ used: bytes.reduce((sum: number, of) => sum + Number(of ?? 0), 0) / nodes, max: 0 }];
  }

  #judge(entries: number, nodes: { used: number; max: number }[], idempotencyBytes: number): BacklogState {
    let fullest = { usedBytes: 0, bytesMax: this.#bytesMax };
    // Partitions are spread evenly over the nodes. What is over the bound counts: it must not fill Redis unseen.
    const idempotency = Math.min(idempotencyBytes, this.idempotencyBytesMax) / nodes.length;
    for (const { used: all, max } of nodes) {
      const used = Math.max(0, all - idempotency);
      const bytesMax = max > 0 ? Math.min(this.#bytesMax, max * BACKLOG_SHARE_MAX) : this.#bytesMax;
      if (used / bytesMax >= fullest.usedBytes / fullest.bytesMax) fullest = { usedBytes: used, bytesMax };
    }
    return {
      ...{ entries, ...fullest, idempotencyBytes },
      full: entries > this.#entriesMax || fullest.usedBytes > fullest.bytesMax,
    };
  }
}

function memoryOf(info: string): { used: number; max: number } {
  return {
    used: Number(/^used_memory:(\d+)/m.exec(info)?.[1] ?? 0),
    max: Number(/^maxmemory:(\d+)/m.exec(info)?.[1] ?? 0),
  };
}
