// Copies a file and says the SHA-256 of its bytes (for both ways, backup and restore).
// Invariant: what is summed is what is written. Memory: a piece of a stream, whatever the size.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, open, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const PIECE_BYTES = 1024 * 1024;

/** `size`: so many bytes from its beginning. `to` left out: the bytes are summed alone. */
export async function checkedCopy(from: string | FileHandle, size: number, to?: string): Promise<string> {
  const handle = typeof from === 'string' ? await open(from) : from;
  const hash = createHash('sha256');
  const summed = new Transform({
    transform(piece: Buffer, _encoding, next) {
      hash.update(piece);
      next(null, to === undefined ? undefined : piece);
    },
  });
  try {
    if (to !== undefined) await mkdir(path.dirname(to), { recursive: true, mode: 0o700 });
    if (size === 0) {
      // A column whose values are all empty has such a file.
      if (to !== undefined) await writeFile(to, '', { flag: 'wx', mode: 0o600 });
    } else {
      const write = to === undefined ? [] : [createWriteStream(to, { flags: 'wx', mode: 0o600 })];
      const range = { start: 0, end: size - 1, autoClose: false, highWaterMark: PIECE_BYTES };
      const read = createReadStream('', { ...range, fd: handle });
      await pipeline([read, summed, ...write]);
    }
  } finally {
    if (typeof from === 'string') await handle.close();
  }
  return hash.digest('hex');
}
