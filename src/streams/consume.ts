// Fenced drain of one stream for one group (after the append, before a pipeline's effect).
// Order of a batch's life: read -> manifest -> effect -> ack; manifest and ack are scripts that first compare the
// lease. A read changes nothing, so it needs no fence, and the entries need not travel through a script (window.ts):
// a reader under a lost lease can neither keep a manifest nor acknowledge. A group's position in its stream is moved
// by the acknowledgement alone, so nothing is ever pending: what lies behind the position is what is to be done, by
// the holder of the lease. Reading is polling without BLOCK: no reader can be left dangling on a dead connection, and
// Cluster needs nothing special.
// Invariant: a read gives the entries right behind the one that the caller names, in the stream's order, without gaps.
// The caller names the last one that he has in hand, and nothing here remembers how far he is, so an answer that was
// lost is simply given again. (A reader that kept its own position, and moved it between two commands of one read,
// skipped entries when the second failed: with Redis killed under load 4,600 events were never stored and 95,000 stored
// twice.) A lost lease throws LeaseLost and changes nothing; an unreachable Redis throws what the client throws, and
// can be tried again.

import { DEAD_ENTRIES_MAX, READ_BYTES_MAX } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { ensureGroups } from './groups.ts';
import type { Lease } from './lease.ts';
import { type StreamEntry, StreamWindow, type WindowRead } from './window.ts';

/** Fields and values of an entry for the dead stream. */
export type DeadLetterFields = (string | Buffer)[];

/** A command of Redis, its one key (of the stream's slot), further arguments. */
export type BinaryCommandArgs = readonly [command: string, key: string, ...args: (string | number | Buffer)[]];

/**
 * What a new owner must know to write the very same batch. `plan` belongs to the pipeline. `entries`: how many lie
 * between first and last, so that he sees whether it is the very same; earlier versions did not say.
 */
export type Manifest<Plan> = { first: string; last: string; entries?: number; attempts: number; plan: Plan };
export type KeptManifest<Plan> = { manifest: Manifest<Plan>; ageMs: number };

const manifest = new Script<[string, number] | null>('stream-manifest', readAsset('src/redis/stream-manifest.lua'));
const ack = new Script<number | null>('stream-ack', readAsset('src/redis/stream-ack.lua'));

type StreamReaderOptions = {
  redis: Commands;
  keys: Keys;
  stream: string;
  dead: string;
  group: string;
  /** Every group of the stream, made again if they vanish. */
  groups: readonly string[];
  /** A field that this group has no use for and does not hold on to. */
  without?: string;
  /** Shared with other groups' readers of this stream; without it the reader has its own. */
  window?: StreamWindow;
};

export class StreamReader {
  readonly stream: string;
  readonly group: string;
  readonly #options: StreamReaderOptions;
  readonly #lease: Lease;
  readonly #manifestKey: string;
  readonly #watermarkKey: string;
  readonly #window: StreamWindow;
  /** A reader lives as long as its lease. */
  constructor(options: StreamReaderOptions, lease: Lease) {
    this.#options = options;
    this.#lease = lease;
    this.stream = options.stream;
    this.group = options.group;
    this.#window = options.window ?? new StreamWindow({ ...options, bytesMax: READ_BYTES_MAX });
    this.#manifestKey = options.keys.manifest(options.stream, options.group);
    this.#watermarkKey = options.keys.watermark(options.stream, options.group);
  }

  /** The last entry that the group has acknowledged. */
  async position(): Promise<string> {
    return (await this.#options.redis.get(this.#watermarkKey)) ?? '0-0';
  }

  /**
   * The next entries behind `position`, up to about READ_ENTRIES_MAX and READ_BYTES_MAX; none: there are no more for
   * now.
   */
  async read(position: string): Promise<WindowRead> {
    const { without } = this.#options;
    const found = await this.#window.after(this, position);
    this.#window.pass(this, found.entries.at(-1)?.id ?? position);
    return without === undefined ? found : { ...found, entries: found.entries.map((entry) => lacking(entry, without)) };
  }

  /** Nothing more is read. */
  close(): void {
    this.#window.leave(this);
  }

  /** The manifest that this or an earlier owner left, with its age by Redis's clock. */
  async manifest<Plan>(): Promise<KeptManifest<Plan> | null> {
    const [text, ageMs] = await this.#manifest('');
    return text === '' ? null : { manifest: JSON.parse(text) as Manifest<Plan>, ageMs };
  }

  /** Before the effect. A manifest that is written again keeps its age. */
  async keepManifest(next: Manifest<unknown>): Promise<void> {
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

  /**
   * After the effect: of everything up to `last`, with `writes` in the same step. Safe to call again after a lost
   * answer. Throws DeadStreamFull.
   */
  async ack(
    last: string,
    deadLetters: readonly DeadLetterFields[],
    writes: readonly BinaryCommandArgs[] = [],
  ): Promise<void> {
    const { redis, keys, stream, group, groups, dead } = this.#options;
    const args: (string | number | Buffer)[] = [this.#lease.text, group, DEAD_ENTRIES_MAX, last, deadLetters.length];
    for (const entry of deadLetters) args.push(entry.length, ...entry);
    const names = [stream, this.#lease.key, this.#manifestKey, this.#watermarkKey, dead];
    for (const [command, key, ...rest] of writes) {
      if (!names.includes(key)) names.push(key);
      args.push(rest.length + 2, command, names.indexOf(key) + 1, ...rest);
    }
    let acked: number | null;
    try {
      acked = await ack.run(redis, names, args);
    } catch (error) {
      if (!isNoGroup(error)) throw error;
      await ensureGroups(redis, keys, stream, groups);
      acked = await ack.run(redis, names, args);
    }
    if (acked === null) throw this.#lease.lose();
    if (acked < 0) throw new DeadStreamFull(`${dead} holds ${DEAD_ENTRIES_MAX} entries: see gatehouse dead list`);
  }
}

/**
 * Nothing deadLetters may be dropped, so a batch with more to dead-letter waits until an operator has dealt with what
 * is there.
 */
export class DeadStreamFull extends Error {
  override name = 'DeadStreamFull';
}

function lacking(entry: StreamEntry, field: string): StreamEntry {
  if (!entry.fields.has(field)) return entry;
  const fields = new Map(entry.fields);
  fields.delete(field);
  return { id: entry.id, fields };
}

function isNoGroup(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOGROUP');
}
