// Fenced reading of one stream for one group (step 13 on the path: after the append, before a pipeline's effect).
// Order of a batch's life: read -> manifest -> effect -> ack; each of the three is one script that first compares the lease.
// Reading is polling without BLOCK: no reader can be left dangling on a dead connection, and Cluster needs nothing special.
// Invariant: entries come in stream order, each once per owner: first the history (read and unacknowledged, by whomever),
// then new ones. Each read starts behind the last entry that arrived here, so an answer that was lost is simply given again.
// A lost lease throws LeaseLost and changes nothing; an unreachable Redis throws what the client throws, and can be tried again.

import { readAsset } from '../assets.ts';
import { DEAD_ENTRIES_MAX, READ_BYTES_MAX, READ_ENTRIES_MAX } from '../limits.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { CONSUMER, ensureGroups } from './groups.ts';
import type { Lease } from './lease.ts';

export type StreamEntry = {
  id: string;
  /** Empty if the entry was deleted after it had been read. */
  fields: ReadonlyMap<string, Buffer>;
};

/** Fields and values of an entry for the dead stream. */
export type ParkedEntry = (string | Buffer)[];

/** A command of Redis, its one key (of the stream's slot), further arguments. */
export type Words = readonly [command: string, key: string, ...args: (string | number | Buffer)[]];

/** What a new owner must know to write the very same batch. `plan` belongs to the pipeline. */
export type Manifest = { first: string; last: string; attempts: number; plan: unknown };
export type KeptManifest = { manifest: Manifest; ageMs: number };

const read = new Script<[Buffer, Buffer[]][] | null>('stream-read', readAsset('src/redis/stream-read.lua'));
const manifest = new Script<[string, number] | null>('stream-manifest', readAsset('src/redis/stream-manifest.lua'));
const ack = new Script<number | null>('stream-ack', readAsset('src/redis/stream-ack.lua'));

export type StreamReaderOptions = {
  redis: Commands;
  keys: Keys;
  stream: string;
  dead: string;
  group: string;
  /** Every group of the stream, made again if they vanish. */
  groups: readonly string[];
  /** A field that this group has no use for and that need not travel. */
  without?: string;
};

export class StreamReader {
  readonly stream: string;
  readonly group: string;
  readonly #options: StreamReaderOptions;
  readonly #lease: Lease;
  readonly #manifestKey: string;
  readonly #watermarkKey: string;
  /** Id of the last entry that arrived here. */
  #last = '0';

  /** A reader lives as long as its lease. */
  constructor(options: StreamReaderOptions, lease: Lease) {
    this.#options = options;
    this.#lease = lease;
    this.stream = options.stream;
    this.group = options.group;
    this.#manifestKey = options.keys.manifest(options.stream, options.group);
    this.#watermarkKey = options.keys.watermark(options.stream, options.group);
  }

  /** The next entries in order, up to READ_ENTRIES_MAX and about READ_BYTES_MAX; none: there are no more for now. */
  async read(): Promise<StreamEntry[]> {
    const { redis, keys, stream, group, groups, without } = this.#options;
    const args = [this.#lease.text, group, CONSUMER, this.#last, READ_ENTRIES_MAX, READ_BYTES_MAX, without ?? ''];
    let reply: [Buffer, Buffer[]][] | null;
    try {
      reply = await read.runBuffer(redis, [stream, this.#lease.key], args);
    } catch (error) {
      if (!isNoGroup(error)) throw error;
      await ensureGroups(redis, keys, stream, groups);
      return [];
    }
    if (reply === null) throw this.#lease.lose();
    const entries = reply.map(([id, fields]) => ({ id: id.toString('latin1'), fields: toMap(fields) }));
    if (entries.length > 0) this.#last = entries.at(-1)!.id;
    return entries;
  }

  /** The manifest that this or an earlier owner left, with its age by Redis's clock. */
  async manifest(): Promise<KeptManifest | null> {
    const [text, ageMs] = await this.#manifest('');
    return text === '' ? null : { manifest: JSON.parse(text) as Manifest, ageMs };
  }

  /** Before the effect. A manifest that is written again keeps its age. */
  async keepManifest(next: Manifest): Promise<void> {
    await this.#manifest(JSON.stringify(next));
  }

  async #manifest(text: string): Promise<[string, number]> {
    const reply = await manifest.run(
      this.#options.redis,
      [this.#lease.key, this.#manifestKey],
      [this.#lease.text, text],
    );
    if (reply === null) throw this.#lease.lose();
    return reply;
  }

  /** After the effect: `ids` in order, `writes` in the same step. Safe to call again after a lost answer. Throws DeadStreamFull. */
  async ack(ids: readonly string[], parked: readonly ParkedEntry[], writes: readonly Words[] = []): Promise<void> {
    const { redis, stream, group, dead } = this.#options;
    const counts = [DEAD_ENTRIES_MAX, ids.length, parked.length];
    const args: (string | number | Buffer)[] = [this.#lease.text, group, ...counts, ...ids];
    for (const entry of parked) args.push(entry.length, ...entry);
    const names = [stream, this.#lease.key, this.#manifestKey, this.#watermarkKey, dead];
    for (const [command, key, ...rest] of writes) {
      if (!names.includes(key)) names.push(key);
      args.push(rest.length + 2, command, names.indexOf(key) + 1, ...rest);
    }
    const acked = await ack.run(redis, names, args);
    if (acked === null) throw this.#lease.lose();
    if (acked < 0) throw new DeadStreamFull(`${dead} holds ${DEAD_ENTRIES_MAX} entries: see gatehouse dead list`);
  }
}

/** Nothing parked may be dropped, so a batch with more to park waits until somebody has dealt with what is there. */
export class DeadStreamFull extends Error {
  override name = 'DeadStreamFull';
}

function toMap(fields: readonly Buffer[]): ReadonlyMap<string, Buffer> {
  const map = new Map<string, Buffer>();
  for (let i = 0; i + 1 < fields.length; i += 2) map.set(fields[i]!.toString('latin1'), fields[i + 1]!);
  return map;
}

function isNoGroup(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOGROUP');
}
