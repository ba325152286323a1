// What a process has just read of one stream, for all groups that are drained here (under consume.ts, over Redis).
// The groups of a stream want the same entries within a second of each other: read once, they cost Redis and us a
// third, and what is made of an entry's bytes (pipelines/event-summaries.ts) is made once.
// Reads are plain XRANGEs, outside of any script: a reply on its way through Lua is copied and hashed byte by byte, 2
// us an event over three groups. Reading changes nothing and needs no fence; every step that does is fenced
// (consume.ts).
//
//   the foremost reader extends the window at its end; others find there what they have not read yet
//   who asks for what lies behind its end begins a new window; who has fallen behind its beginning reads alone
//
// Invariant: the window is a run of the stream without gaps: it holds every entry behind `#from` up to its last one.
// Failure: whatever the client throws, to all who waited for that read; the next one asks for the same.
import { READ_BYTES_MAX, READ_COUNT_MAX, READ_COUNT_MIN, READ_ENTRIES_MAX } from '../common/limits.ts';
import type { Commands } from '../redis/client.ts';
import { unpackFields } from './packing.ts';
import { compareIds } from './stream-id.ts';

// Why that holds:
// - New entries only come in behind all others, so what a read found between two ids stays all that there is between
//   them.
// - What a read finds is appended only where it was made right behind the window's last entry, else the window begins
//   again with it. That is inspected when the answer is here, not when it was asked for: readers at several positions
//   may have asked meanwhile.
// - A read that fails appends nothing. A reader's position is not kept here to read on from, only to know what no
//   reader needs any more: each call says behind which entry it wants to continue, so nothing can be skipped by an
//   answer that never reached the caller.
// What is removed in between has been acknowledged by every group (trim.ts), so no reader that asks for it holds a
// lease any more. Entries are unpacked here, once for all groups, so every count of bytes is of what they are in
// memory. Bounded: what all readers have passed is dropped, and beyond `bytesMax` the oldest. A read has READ_BYTES_MAX
// by the size of the last read's entries, four entries at the least; after a pause of a second nothing is known of
// their size.

export type StreamEntry = { id: string; fields: ReadonlyMap<string, Buffer> };

/** In order, beginning with the first entry behind the position asked for. `isEnd`: there was no more at the time. */
export type WindowRead = { entries: StreamEntry[]; isEnd: boolean };

/** The end that one reader met a moment ago is the end for those who follow it. */
const END_KNOWN_MS = 10;
/** After this long an entry's usual size is not known any more. */
const SIZE_KNOWN_MS = 1_000;

export class StreamWindow {
  readonly #redis: Commands;
  readonly #stream: string;
  readonly #bytesMax: number;
  /** Id of the last entry that each reader has been given: only to know what may be dropped. */
  readonly #positions = new Map<object, string>();
  /** The window lies behind this id. */
  #from = '0-0';
  #entries: StreamEntry[] = [];
  #bytes = 0;
  #extending: { from: string; found: Promise<WindowRead> } | undefined;
  #count = READ_COUNT_MIN;
  #readAt = Number.NEGATIVE_INFINITY;
  #endMetAt = Number.NEGATIVE_INFINITY;
  /** Rises when everything is forgotten: what was asked for before is not kept. */
  #generation = 0;

  constructor(options: { redis: Commands; stream: string; bytesMax: number }) {
    this.#redis = options.redis;
    this.#stream = options.stream;
    this.#bytesMax = options.bytesMax;
  }

  /** Bytes held here. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Some of the entries behind `position`, from the next one on; at least one if there are any. */
  async after(reader: object, position: string): Promise<WindowRead> {
    this.#positions.set(reader, position);
    const held = this.#heldAfter(position);
    if (held !== undefined && held.entries.length > 0) return held;
    if (compareIds(position, this.#from) < 0) return this.#read(position);
    if (this.#extending?.from !== position) this.#extending = { from: position, found: this.#extend(position) };
    return this.#extending.found;
  }

  /** This reader has been given everything up to `position`. */
  pass(reader: object, position: string): void {
    this.#positions.set(reader, position);
    this.#drop();
  }

  /** Forgets the entries that are held: they may not be in the stream any more. */
  forget(): void {
    this.#generation++;
    this.#from = '0-0';
    this.#entries = [];
    this.#bytes = 0;
    this.#extending = undefined;
    this.#endMetAt = Number.NEGATIVE_INFINITY;
  }

  /** This reader wants nothing any more. */
  leave(reader: object): void {
    this.#positions.delete(reader);
    this.#drop();
  }

  /** Undefined where the window does not reach `position`. */
  #heldAfter(position: string): WindowRead | undefined {
    if (compareIds(position, this.#from) < 0) return undefined;
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareIds(this.#entries[middle]!.id, position) <= 0) low = middle + 1;
      else high = middle;
    }
    let [end, bytes] = [low, 0];
    while (end < this.#entries.length && end - low < READ_ENTRIES_MAX && bytes < READ_BYTES_MAX)
      bytes += bytesOf(this.#entries[end++]!);
    const isEnd = end === this.#entries.length && performance.now() - this.#endMetAt < END_KNOWN_MS;
    return { entries: this.#entries.slice(low, end), isEnd };
  }

  async #extend(position: string): Promise<WindowRead> {
    const generation = this.#generation;
    try {
      const found = await this.#read(position);
      if (generation !== this.#generation) return found;
      const end = this.#entries.at(-1)?.id ?? this.#from;
      if (end !== position) {
        this.#from = position;
        this.#entries = [];
        this.#bytes = 0;
      }
      for (const entry of found.entries) {
        this.#entries.push(entry);
        this.#bytes += bytesOf(entry);
      }
      this.#endMetAt = found.isEnd ? performance.now() : Number.NEGATIVE_INFINITY;
      this.#drop();
      return found;
    } finally {
      if (this.#extending?.from === position) this.#extending = undefined;
    }
  }

  async #read(position: string): Promise<WindowRead> {
    const now = performance.now();
    if (now - this.#readAt > SIZE_KNOWN_MS) this.#count = READ_COUNT_MIN;
    this.#readAt = now;
    const count = this.#count;
    const range = [this.#stream, `(${position}`, '+', 'COUNT', count];
    const reply = (await this.#redis.callBuffer('XRANGE', ...range)) as [Buffer, Buffer[]][];
    const entries = reply.map(([id, fields]) => ({ id: id.toString('latin1'), fields: unpackFields(toMap(fields)) }));
    if (entries.length > 0) {
      const largest = entries.reduce((most, entry) => Math.max(most, bytesOf(entry)), 1);
      this.#count = Math.min(READ_COUNT_MAX, Math.max(READ_COUNT_MIN, Math.floor(READ_BYTES_MAX / largest)));
    }
    return { entries, isEnd: entries.length < count };
  }

  /** Drops the entries that every reader has passed, and those that are too much. */
  #drop(): void {
    let passed: string | undefined;
    for (const position of this.#positions.values())
      if (passed === undefined || compareIds(position, passed) < 0) passed = position;
    let count = 0;
    for (const entry of this.#entries) {
      const isPassed = passed === undefined || compareIds(entry.id, passed) <= 0;
      if (!isPassed && this.#bytes <= this.#bytesMax) break;
      this.#bytes -= bytesOf(entry);
      this.#from = entry.id;
      count++;
    }
    this.#entries.splice(0, count);
  }
}

function bytesOf({ fields }: StreamEntry): number {
  let bytes = 0;
  for (const value of fields.values()) bytes += value.length;
  return bytes;
}

function toMap(fields: readonly Buffer[]): ReadonlyMap<string, Buffer> {
  const map = new Map<string, Buffer>();
  for (let i = 0; i + 1 < fields.length; i += 2) map.set(fields[i]!.toString('latin1'), fields[i + 1]!);
  return map;
}
