// How the two large fields of an event entry lie in Redis (entry-buffer.ts and append-once.ts pack them, window.ts
// unpacks). The rows of one entry resemble each other, and whatever Redis does with an entry it does by the byte: it
// takes it from the socket, keeps it, writes it to its file and gives it to readers. With LZ4 an entry of real agent
// runs is a quarter as long, for 1.3 us of a front's CPU an event of 576 bytes and 0.6 us of a pipeline's; Redis needs
// a quarter of the time.
// Invariant: `unpackFields` of what was packed gives the very bytes. No code behind it meets a packed entry that can be
// read. Bounded: what a block says of its own length is believed as far as LZ4 can reach, 255 times its bytes.
// Failure: an entry that cannot be unpacked stays as it is; its version says that it is packed, so decodeEntry refuses
// it and the pipeline dead-letters it.
// LZ4 in WebAssembly: its memory grows to what the largest entry needs and stays so. A native one (lz4-napi) is up to a
// third faster by itself, but what it returns is freed in bursts after collections, in which callers wait.
import { compress, decompress } from 'lz4-wasm-nodejs';
import { ENTRY_FIELD, ENTRY_VERSION, PACKED_ENTRY_VERSION } from '../../schemas/entry.ts';

/**
 * Shorter ones go as they are. So what is packed came in under load, when entries grow and Redis is pressed; an entry
 * of one batch of 70 KB costs a front as much as it spares Redis, and its callers wait for it: at half load p99 11
 * instead of 8 ms.
 */
export const PACKED_BYTES_MIN = 128 * 1024;

/** Little-endian, before the block. */
const LENGTH_BYTES = 4;
/** A block's longest match costs a byte for each 255. */
const LZ4_RATIO_MAX = 255;

const VERSION = Buffer.from(String(ENTRY_VERSION));

/** An LZ4 block behind the length of what is in it. At most 0.4 % and 20 bytes longer than `bytes`. */
export function pack(bytes: Buffer): Buffer {
  return bufferOf(compress(bytes));
}

/** Throws where `packed` is not what `pack` makes. */
export function unpack(packed: Buffer): Buffer {
  if (packed.length <= LENGTH_BYTES) throw new Error(`${packed.length} bytes are no block`);
  const length = packed.readUInt32LE(0);
  if (length > LZ4_RATIO_MAX * packed.length) throw new Error(`${packed.length} bytes cannot hold ${length}`);
  const bytes = bufferOf(decompress(packed));
  if (bytes.length !== length) throw new Error(`${bytes.length} bytes where ${length} were said`);
  return bytes;
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}

/** The fields of an entry as they go to Redis. */
export type PackedEntry = { version: number; summaries: Buffer; rows: Buffer };

/** The form of an entry that goes to Redis: packed where that is worth it. */
export function packEntry(summaries: Buffer, rows: Buffer): PackedEntry {
  return summaries.length + rows.length < PACKED_BYTES_MIN
    ? { version: ENTRY_VERSION, summaries, rows }
    : { version: PACKED_ENTRY_VERSION, summaries: pack(summaries), rows: pack(rows) };
}

/** An entry's fields as `decodeEntry` reads them; the same Map where they were not packed or cannot be unpacked. */
export function unpackFields(fields: ReadonlyMap<string, Buffer>): ReadonlyMap<string, Buffer> {
  if (fields.get(ENTRY_FIELD.version)?.toString('latin1') !== String(PACKED_ENTRY_VERSION)) return fields;
  const plain = new Map(fields).set(ENTRY_FIELD.version, VERSION);
  try {
    for (const name of [ENTRY_FIELD.summaries, ENTRY_FIELD.rows]) {
      const packed = fields.get(name);
      if (packed !== undefined) plain.set(name, unpack(packed));
    }
    return plain;
  } catch {
    return fields;
  }
}
