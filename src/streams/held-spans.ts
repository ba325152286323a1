// Holds requests of spans whose owner is not known yet, since the span around them is sent later (beside span-notes.ts,
// for ingest/spans-intake.ts). A request is held as it came, and recorded again as a whole: what of it is recorded
// already is found.
// Invariant: what is held is in Redis's file before its sender is answered, and stays until it is recorded. It is taken
// by one front at a time; one that ends with it leaves it to the others after TAKEN_MS.
// Failure: ServiceError unavailable where Redis is away. Where there is no room nothing is held, and the caller records
// it as it is.
import { randomUUID } from 'node:crypto';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { redisTime } from '../redis/time.ts';
import { nothingRecorded } from './append-once.ts';

/** `head`: what the holder has to know of the body, as its text. `key`: where it lies. */
export type HeldRequest = {
  account: string;
  head: string;
  /** Since it is held, by the clock of Redis. */
  ageMs: number;
  key: { partition: number; entry: string; body: string; bytes: string };
};

/** The largest request fits twice. */
const ACCOUNT_BYTES_MAX = 16 * 1024 * 1024;
const BYTES_MAX = 64 * 1024 * 1024;
/** A look reads so many of each partition; what is behind them is held for longer. */
const LOOKED_AT_MAX = 50;
/** Recording the largest request takes a second. */
const TAKEN_MS = 30_000;

const hold = new Script<0 | 1>('spans-hold', readAsset('src/redis/spans-hold.lua'), { acknowledges: true });
const end = new Script<0 | 1>('spans-held-end', readAsset('src/redis/spans-held-end.lua'));

export class HeldSpans {
  readonly #redis: Commands;
  readonly #keys: Keys;

  constructor({ redis, keys }: { redis: Commands; keys: Keys }) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** False: there is no room. */
  async hold(account: string, head: string, body: Buffer): Promise<boolean> {
    const id = randomUUID();
    const partition = this.#keys.partitionOf(account, id);
    const args = [account, ACCOUNT_BYTES_MAX, BYTES_MAX / this.#keys.partitions];
    const held = await hold.run(this.#redis, this.#keysOf(partition, id), [...args, head, body, id]).catch(fails);
    return held === 1;
  }

  /** The oldest of each partition. */
  async oldest(): Promise<HeldRequest[]> {
    const all = await Promise.all(
      this.#keys.ofPartitions((partition) =>
        this.#redis.xrange(this.#keys.heldSpans(partition), '-', '+', 'COUNT', LOOKED_AT_MAX),
      ),
    );
    if (all.every((entries) => entries.length === 0)) return [];
    const nowMs = await redisTime(this.#redis);
    return all.flatMap((entries, partition) =>
      entries.map(([entry, fields]) => {
        const [, account = '', , head = '', , body = '', , bytes = ''] = fields;
        const ageMs = nowMs - Number.parseInt(entry, 10);
        return { account, head, ageMs, key: { partition, entry, body, bytes } };
      }),
    );
  }

  /** Its body; undefined: another front has it, or has recorded it. */
  async take({ key: { partition, body } }: HeldRequest): Promise<Buffer | undefined> {
    const taken = await this.#redis.set(this.#keys.heldSpansTaken(partition, body), '1', 'PX', TAKEN_MS, 'NX');
    if (taken === null) return undefined;
    return (await this.#redis.getBuffer(this.#keys.heldSpansBody(partition, body))) ?? undefined;
  }

  /** It is recorded, or cannot be. */
  async end({ account, key: { partition, entry, body, bytes } }: HeldRequest): Promise<void> {
    await end.run(this.#redis, this.#keysOf(partition, body), [entry, account, bytes]);
  }

  #keysOf(partition: number, body: string): string[] {
    const keys = this.#keys;
    return [keys.heldSpans(partition), keys.heldSpansBytes(partition), keys.heldSpansBody(partition, body)];
  }
}

function fails(cause: unknown): never {
  throw nothingRecorded(cause);
}
