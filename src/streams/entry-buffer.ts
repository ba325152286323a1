// A stream entry while it fills (inside Appender), and the bytes of its XADD as they go to Redis. Rows and summaries
// are copied once, from where they were made to what the socket sends, or packed from there (packing.ts). ioredis would
// put each argument into a Buffer of its own and all of them into another.
//
//   | room for the head | rows, request by request | summaries, put here when the entry is closed |
//
// Invariant: nothing of the callers' memory is held; once `command` was called nothing is added any more.
// Failure: memory runs back to the pool by `release` alone, and only when Redis has answered: until then a socket may
// read it.
import assert from 'node:assert';
import { Command } from 'ioredis';
import { ENTRY_FIELD, ENTRY_VERSION } from '../../schemas/entry.ts';
import type { BufferPool } from '../common/buffer-pool.ts';
import { type PackedEntry, packEntry } from './packing.ts';

/** An XADD whose bytes lie ready. Its key is an argument, too, since a Cluster is asked by it. */
class EntryCommand extends Command {
  readonly #bytes: Buffer;

  constructor(key: string, bytes: Buffer) {
    super('xadd', [key], { replyEncoding: 'latin1' });
    this.#bytes = bytes;
  }

  override toWritable(): Buffer {
    return this.#bytes;
  }
}

/** A length has so many digits at most, with the line ends around it. */
const LENGTH_BYTES_MAX = 16;
/** Between rows and summaries, and behind them. */
const AROUND_SUMMARIES_BYTES_MAX = 48;
const [COMMA, OPEN, CLOSE] = [0x2c, 0x5b, 0x5d];

export class EntryBuffer {
  readonly #buffers: BufferPool;
  readonly #key: string;
  readonly #rowsAt: number;
  #bytes: Buffer;
  #end: number;
  #summaries: Buffer;
  #summariesEnd = 0;
  #length = 0;
  /** Before the last addition. */
  #before = { end: 0, summariesEnd: 0, length: 0 };
  /** Nothing is added to what was packed elsewhere. */
  #packed: PackedEntry | undefined;

  /** `bytes`: of what is going to be added first. */
  constructor(buffers: BufferPool, key: string, bytes: number) {
    this.#buffers = buffers;
    this.#key = key;
    this.#rowsAt = headOf(key, ENTRY_VERSION).length + LENGTH_BYTES_MAX;
    this.#end = this.#rowsAt;
    this.#bytes = buffers.take(this.#rowsAt + bytes);
    this.#summaries = buffers.take(bytes / 4);
  }

  static ofPacked(buffers: BufferPool, key: string, packed: PackedEntry): EntryBuffer {
    const { rows, summaries } = packed;
    const buffer = new EntryBuffer(buffers, key, rows.length + summaries.length + AROUND_SUMMARIES_BYTES_MAX);
    buffer.#packed = packed;
    buffer.#length = rows.length + summaries.length;
    return buffer;
  }

  get isOpen(): boolean {
    return this.#packed === undefined;
  }

  /** The size of rows and summaries as they were added. */
  get length(): number {
    return this.#length;
  }

  /** Both are copied. A text may hold several summaries, separated by commas. */
  add(rows: Buffer, summaries: readonly (string | Buffer)[]): void {
    this.#before.end = this.#end;
    this.#before.summariesEnd = this.#summariesEnd;
    this.#before.length = this.#length;
    const end = this.#end + rows.length;
    if (end > this.#bytes.length) this.#bytes = this.#buffers.grow(this.#bytes, this.#end, end);
    this.#bytes.set(rows, this.#end);
    this.#end = end;
    for (const summary of summaries) this.#addDigest(summary);
    this.#length = this.#end - this.#rowsAt + this.#summariesEnd;
  }

  /** Forgets the last addition; once. */
  takeBack(): void {
    this.#end = this.#before.end;
    this.#summariesEnd = this.#before.summariesEnd;
    this.#length = this.#before.length;
  }

  #addDigest(summary: string | Buffer): void {
    // A UTF-16 unit is at most three bytes of UTF-8; before and behind it stands one byte.
    const longest = this.#summariesEnd + 2 + (typeof summary === 'string' ? 3 : 1) * summary.length;
    if (longest > this.#summaries.length)
      this.#summaries = this.#buffers.grow(this.#summaries, this.#summariesEnd, longest);
    this.#summaries[this.#summariesEnd++] = this.#summariesEnd === 1 ? OPEN : COMMA;
    if (typeof summary === 'string') this.#summariesEnd += this.#summaries.write(summary, this.#summariesEnd);
    else {
      this.#summaries.set(summary, this.#summariesEnd);
      this.#summariesEnd += summary.length;
    }
  }

  /** Closes the entry. */
  command(): Command {
    if (this.#packed !== undefined) {
      const { version, summaries, rows } = this.#packed;
      this.#bytes.set(rows, this.#rowsAt);
      this.#end = this.#rowsAt + rows.length;
      return this.#finish(version, summaries);
    }
    this.#summaries[this.#summariesEnd++] = CLOSE;
    const rows = this.#bytes.subarray(this.#rowsAt, this.#end);
    const entry = packEntry(this.#summaries.subarray(0, this.#summariesEnd), rows);
    if (entry.rows !== rows) this.#replaceRows(entry.rows, entry.summaries.length);
    return this.#finish(entry.version, entry.summaries);
  }

  /** The buffer that they filled is of no use any more: it need not wait for Redis. */
  #replaceRows(rows: Buffer, summariesBytes: number): void {
    this.#buffers.release(this.#bytes);
    this.#end = this.#rowsAt + rows.length;
    this.#bytes = this.#buffers.take(this.#end + summariesBytes + AROUND_SUMMARIES_BYTES_MAX);
    this.#bytes.set(rows, this.#rowsAt);
  }

  /** Head and summaries around the rows. */
  #finish(version: number, summaries: Buffer): Command {
    const needed = this.#end + summaries.length + AROUND_SUMMARIES_BYTES_MAX;
    if (needed > this.#bytes.length) this.#bytes = this.#buffers.grow(this.#bytes, this.#end, needed);
    const bytes = this.#bytes;
    const head = `${headOf(this.#key, version)}$${this.#end - this.#rowsAt}\r\n`;
    const start = this.#rowsAt - head.length;
    assert(start >= 0, 'no room for the head');
    bytes.write(head, start, 'latin1');
    let at = this.#end;
    at += bytes.write(`\r\n${bulk(ENTRY_FIELD.summaries)}$${summaries.length}\r\n`, at, 'latin1');
    bytes.set(summaries, at);
    at += summaries.length;
    at += bytes.write('\r\n', at, 'latin1');
    return new EntryCommand(this.#key, bytes.subarray(start, at));
  }

  /** Redis has answered the command: its bytes are no longer read. */
  release(): void {
    this.#buffers.release(this.#bytes);
    this.#buffers.release(this.#summaries);
  }
}

/** All of the command that comes before the length of the rows; as long for every version. */
function headOf(key: string, version: number): string {
  return (
    `*9\r\n$4\r\nXADD\r\n${bulk(key)}${bulk('*')}` +
    `${bulk(ENTRY_FIELD.version)}${bulk(String(version))}${bulk(ENTRY_FIELD.rows)}`
  );
}

/** ASCII, as Redis's protocol has it. */
function bulk(text: string): string {
  return `$${text.length}\r\n${text}\r\n`;
}
