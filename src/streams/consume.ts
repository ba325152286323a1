// Reads one stream for one group, and ends its batches under the lease (after the append, before a pipeline's effect).
// Order of a batch's life: read -> manifest -> effect -> ack; manifest and ack are scripts that first compare the
// lease. A read changes nothing, so it needs no fence, and the entries need not travel through a script (window.ts):
// a reader under a lost lease can neither keep a manifest nor acknowledge. A group's position in its stream is moved
// by the acknowledgement alone, so nothing is ever pending: what lies behind the position is what is to be done, by
// the holder of the lease. Reading is polling without BLOCK: no reader can be left dangling on a dead connection, and
// Cluster needs nothing special.
// Invariant: a read gives the entries right behind the one that the caller names, in the stream's order, without gaps.
// A lost lease throws LeaseLost and changes nothing; an unreachable Redis throws what the client throws, and can be
// tried again.

import { DEAD_ENTRIES_MAX, READ_BYTES_MAX } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { ensureGroups } from './groups.ts';
import type { Lease } from './lease.ts';
import { withRun } from './redis-run.ts';
import { type StreamEntry, StreamWindow, type WindowRead } from './window.ts';

// The lease also knows which run of Redis was read from (redis-run.ts): after a failover or a restart, by which
// entries, manifests and positions may have gone back, each step is refused as with a lost lease, and the next owner
// compares what is there with what was stored (drain.ts).
// The caller names the last entry in hand, and nothing here remembers how far the caller is, so an answer that was lost
// is simply given again. (A reader that kept its own position, and moved it between two commands of one read, skipped
// entries when the second failed: with Redis killed under load 4,600 events were never stored and 95,000 stored twice.)

/** Fields and values of an entry for the dead stream. */
export type DeadLetterFields = (string | Buffer)[];

/** A command of Redis, its one key (of the stream's slot), further arguments. */
export type BinaryCommandArgs = readonly [command: string, key: string, ...args: (string | number | Buffer)[]];

/**
 * The facts that a new owner must know to write the very same batch. `plan` belongs to the pipeline. `entries`: how
 * many lie between first and last, so that the new owner sees whether it is the very same.
 */
type Manifest<Plan> = { first: string; last: string; entries: number; attempts: number; plan: Plan };
export type KeptManifest<Plan> = { manifest: Manifest<Plan>; ageMs: number };

const begin = new Script<[watermark: string, run: string, kept: string, last: string, from: string]>(
  'stream-begin',
  withRun(readAsset('src/redis/stream-begin.lua')),
);
/**
 * Notes the batch before its next step, whose effects are then on their way: a Redis that is promoted must know which
 * batch it was.
 */
const manifest = new Script<[string, number] | null>(
  'stream-manifest',
  withRun(readAsset('src/redis/stream-manifest.lua')),
  { acknowledges: true },
);
const ack = new Script<number | null>('stream-ack', withRun(readAsset('src/redis/stream-ack.lua')));
const write = new Script<number | null>('stream-write', withRun(readAsset('src/redis/stream-write.lua')));

/**
 * `comparedTo`: the group does not know this run of Redis, and what lies up to there may have been dealt with; null:
 * it does. `comparedFrom`: the position when its comparison began; batches of it, and owners, may have ended since.
 */
type Begin = { position: string; comparedTo: string | null; comparedFrom: string };

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
  readonly #runKey: string;
  readonly #comparedFromKey: string;
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
    this.#runKey = options.keys.run(options.stream, options.group);
    this.#comparedFromKey = options.keys.comparedFrom(options.stream, options.group);
  }

  /** `position`: the last entry that the group has acknowledged. Before anything else. */
  async begin(): Promise<Begin> {
    const names = [this.stream, this.#watermarkKey, this.#runKey, this.#comparedFromKey];
    const [position, run, kept, last, comparedFrom] = await begin.run(this.#options.redis, names, []);
    this.#lease.run = run;
    if (run !== '' && run === kept) return { position, comparedTo: null, comparedFrom };
    // Of what other readers hold of it some may not be there.
    this.#window.forget();
    return { position, comparedTo: last, comparedFrom };
  }

  /** After what `begin` said is to be compared: keeps this run of Redis as the group's. */
  async endCompared(): Promise<void> {
    const { run } = this.#lease;
    await this.write([['del', this.#comparedFromKey], ...(run === '' ? [] : [['set', this.#runKey, run] as const])]);
  }

  /** The pipeline's writes beside any batch. */
  async write(writes: readonly BinaryCommandArgs[]): Promise<void> {
    const { run } = this.#lease;
    const names = [this.#lease.key];
    const args = [this.#lease.text, run, ...indexed(names, writes)];
    const written = await ofThisRun(this.#lease, () => write.run(this.#options.redis, names, args));
    if (written === null) throw this.#lease.lose();
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
    const reply = await ofThisRun(this.#lease, () =>
      manifest.run(
        this.#options.redis,
        [this.#lease.key, this.#manifestKey],
        [this.#lease.text, text, this.#lease.run],
      ),
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
    const fixed = [this.#lease.text, group, DEAD_ENTRIES_MAX, last, this.#lease.run, deadLetters.length];
    const args: (string | number | Buffer)[] = fixed;
    for (const entry of deadLetters) args.push(entry.length, ...entry);
    const names = [stream, this.#lease.key, this.#manifestKey, this.#watermarkKey, dead];
    args.push(...indexed(names, writes));
    const send = () => ofThisRun(this.#lease, () => ack.run(redis, names, args));
    let acked: number | null;
    try {
      acked = await send();
    } catch (error) {
      if (!isNoGroup(error)) throw error;
      await ensureGroups(redis, keys, stream, groups);
      acked = await send();
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

/** Words of the writes; their keys are added to `names`. */
function indexed(names: string[], writes: readonly BinaryCommandArgs[]): (string | number | Buffer)[] {
  return writes.flatMap(([command, key, ...rest]) => {
    if (!names.includes(key)) names.push(key);
    return [rest.length + 2, command, names.indexOf(key) + 1, ...rest];
  });
}

/** In another run of Redis the lease counts for nothing: what was read under it is to be read again. */
async function ofThisRun<T>(lease: Lease, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    throw error instanceof Error && error.message.includes('OTHERRUN') ? lease.lose() : error;
  }
}

function isNoGroup(error: unknown): boolean {
  return error instanceof Error && error.message.includes('NOGROUP');
}
