// How far the pipelines are with what has come in, for those who follow it live (under src/http/answers/live.ts).
// A stream's watermark is the last entry whose effects are durable; its milliseconds are Redis's clock at the append.
// Whatever arrived ARRIVAL_LAG_MS before the lowest watermark of all partitions is stored, since an event is appended
// within that time of its arrival. All who follow share one question a PROGRESS_EVERY_MS. Failure: Redis cannot be
// asked; the promise rejects, and is asked again next time.
import { ARRIVAL_LAG_MS, PROGRESS_EVERY_MS } from '../common/limits.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import type { Group } from './groups.ts';
import { positionOf } from './read-barrier.ts';

type Settled = {
  /** Epoch ms: what arrived until then is there. */
  untilMs: number;
  /** Changes whenever there may be something new. */
  mark: string;
};

export class Progress {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #known = new Map<string, { askedMs: number; found: Promise<Settled> }>();

  constructor({ redis, keys }: { redis: Commands; keys: Keys }) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** The progress of events: stored (`store`), or inspected for what is unusual (`anomaly`). */
  ofEvents(group: Group): Promise<Settled> {
    const streams = this.#keys.ofPartitions(this.#keys.events);
    return this.#shared(`events ${group}`, () => this.#read(streams, group));
  }

  /** The progress of changes of the account's registry. */
  ofJournal(account: string): Promise<Settled> {
    const shard = this.#keys.shardOf(account);
    return this.#shared(`journal ${shard}`, () => this.#read([this.#keys.journal(shard)], 'store'));
  }

  #shared(name: string, read: () => Promise<Settled>): Promise<Settled> {
    const nowMs = performance.now();
    const known = this.#known.get(name);
    if (known !== undefined && nowMs - known.askedMs < PROGRESS_EVERY_MS) return known.found;
    const found = read();
    this.#known.set(name, { askedMs: nowMs, found });
    found.catch(() => this.#known.delete(name));
    return found;
  }

  async #read(streams: readonly string[], group: Group): Promise<Settled> {
    const askedMs = Date.now();
    const positions = await Promise.all(streams.map((stream) => positionOf(this.#redis, this.#keys, stream, group)));
    const settled = positions.map(({ watermark, last }) =>
      watermark === last ? askedMs : Number(watermark.split('-')[0]),
    );
    return {
      untilMs: Math.min(...settled) - ARRIVAL_LAG_MS,
      mark: positions.map(({ watermark }) => watermark).join(),
    };
  }
}
