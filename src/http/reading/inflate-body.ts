// Inflates a body that came with `Content-Encoding: gzip` (between the body's last byte and what reads it; events,
// batches, spans). What a trailer says to be small is inflated at once, within INFLATED_AT_ONCE_BYTES whatever the
// trailer says; the rest in the helper threads of Node.js, piece by piece, so that the loop copies 64 KiB at a time and
// no more.
// Invariant: no more than `bytesMax` comes out, one piece is inflated beyond it at most, and what comes out is counted
// in the same budget as what comes in. A body is all of its members and nothing else: what is cut off, has a wrong
// checksum or is followed by other bytes is refused whole. An account has one body in the helper threads, so those of
// others have the next turn.
// Failure: `malformed_json`, `payload_too_large`, `unavailable`; nothing is held then.
import { createGunzip, gunzipSync } from 'node:zlib';
import type { BufferPool } from '../../common/buffer-pool.ts';
import { notRecorded, ServiceError } from '../../common/errors.ts';
import { FairQueue, QueueFull } from '../../common/fair-queue.ts';
import { type BodyBudget, noRoom, SHARED_BYTES_MIN, sharedBuffers } from './read-body.ts';

/** 0.3 ms of the loop that answers; a hop to a helper thread and back costs a tenth of it, and its turn. */
const INFLATED_AT_ONCE_BYTES = 64 * 1024;
const PIECE_BYTES = 64 * 1024;
/** Inflations take so many of the four helper threads, which look names up and read files as well. */
const INFLATIONS_AT_ONCE = 2;
/** One account has so many waiting: a second of bodies that are refused at 8 MiB. */
const WAITING_MAX = 64;
/** CRC-32 and the size, modulo 2^32, of the last member. */
const TRAILER_BYTES = 8;

type Inflation = {
  account: string;
  bytesMax: number;
  /** Has the client left? Then what is left of it is not inflated. */
  isGone: () => boolean;
};

/** `release`: the bytes are no longer read. To be called once. */
export type InflatedBody = { bytes: Buffer; release: () => void };

export class BodyInflater {
  readonly #budget: BodyBudget;
  readonly #buffers: BufferPool;
  readonly #queue = new FairQueue({ max: INFLATIONS_AT_ONCE, accountMax: 1, waitingMax: WAITING_MAX });

  constructor(budget: BodyBudget, buffers: BufferPool) {
    this.#budget = budget;
    this.#buffers = buffers;
  }

  /** Throws or rejects with ServiceError. `body` is read until the promise is settled. */
  inflate(body: Buffer, inflation: Inflation): InflatedBody | Promise<InflatedBody> {
    const atOnce = Math.min(INFLATED_AT_ONCE_BYTES, inflation.bytesMax);
    if (saidSize(body) <= atOnce && body.length <= atOnce) {
      const bytes = inflateNow(body, atOnce);
      if (bytes !== undefined) return this.#counted(bytes);
    }
    return this.#queued(body, inflation);
  }

  #counted(bytes: Buffer): InflatedBody {
    if (!this.#budget.take(bytes.length)) throw noRoom();
    return { bytes, release: () => this.#budget.give(bytes.length) };
  }

  async #queued(body: Buffer, inflation: Inflation): Promise<InflatedBody> {
    try {
      return await this.#queue.run(inflation.account, undefined, async () => {
        const pieces = new Pieces(this.#budget, this.#buffers, inflation);
        try {
          await inflateInto(pieces, body);
          return { bytes: pieces.bytes, release: () => pieces.release() };
        } catch (error) {
          pieces.release();
          throw error;
        }
      });
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
      throw notRecorded(`Too many bodies of this account are being inflated: ${error.message}`);
    }
  }
}

/** The trailer's word alone, and of the last member alone. */
function saidSize(body: Buffer): number {
  return body.length < TRAILER_BYTES ? 0 : body.readUInt32LE(body.length - 4);
}

/** undefined: more than `bytesMax` comes out. */
function inflateNow(body: Buffer, bytesMax: number): Buffer | undefined {
  try {
    const options = { maxOutputLength: bytesMax, info: true } as const;
    const { buffer, engine } = gunzipSync(body, options) as unknown as {
      buffer: Buffer;
      engine: { bytesWritten: number };
    };
    if (engine.bytesWritten !== body.length) throw FOLLOWED;
    return buffer;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw notGzip(error as Error);
  }
}

function inflateInto(pieces: Pieces, body: Buffer): Promise<void> {
  const gunzip = createGunzip({ chunkSize: PIECE_BYTES });
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      gunzip.destroy();
      reject(error);
    };
    gunzip.on('data', (piece: Buffer) => {
      try {
        pieces.take(piece);
      } catch (error) {
        fail(error);
      }
    });
    gunzip.on('error', (error) => fail(notGzip(error)));
    gunzip.on('end', () => (gunzip.bytesWritten === body.length ? resolve() : fail(notGzip(FOLLOWED))));
    gunzip.end(body);
  });
}

/** The bytes that were inflated so far, in one buffer. */
class Pieces {
  readonly #budget: BodyBudget;
  readonly #inflation: Inflation;
  #buffers: BufferPool;
  #buffer: Buffer;
  #bytes = 0;

  constructor(budget: BodyBudget, buffers: BufferPool, inflation: Inflation) {
    this.#budget = budget;
    this.#inflation = inflation;
    this.#buffers = buffers;
    this.#buffer = buffers.take(PIECE_BYTES);
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#bytes);
  }

  /** Throws ServiceError. */
  take(piece: Buffer): void {
    const { account, bytesMax, isGone } = this.#inflation;
    if (isGone()) throw new ServiceError('unavailable', 'The caller has left; nothing was recorded.');
    const end = this.#bytes + piece.length;
    if (end > bytesMax) throw inflatesTooLarge(bytesMax);
    if (!this.#budget.take(piece.length, account)) throw noRoom();
    this.#makeRoom(end);
    this.#buffer.set(piece, this.#bytes);
    this.#bytes = end;
  }

  /** Grows the buffer. A large body moves to shared memory: the judging thread judges it there. */
  #makeRoom(end: number): void {
    if (end > SHARED_BYTES_MIN && this.#buffers !== sharedBuffers) {
      const buffer = sharedBuffers.take(end);
      buffer.set(this.bytes);
      this.#buffers.release(this.#buffer);
      this.#buffers = sharedBuffers;
      this.#buffer = buffer;
    } else if (end > this.#buffer.length) this.#buffer = this.#buffers.grow(this.#buffer, this.#bytes, end);
  }

  release(): void {
    this.#budget.give(this.#bytes, this.#inflation.account);
    this.#bytes = 0;
    this.#buffers.release(this.#buffer);
  }
}

const FOLLOWED = new Error('bytes follow it');

function notGzip(cause: Error): ServiceError {
  const why = cause.message.replace('unexpected end of file', 'it ends too early');
  const message = `The body is not gzip, which its Content-Encoding says it is: ${why}.`;
  return new ServiceError('malformed_json', message, { recorded: false });
}

function inflatesTooLarge(bytesMax: number): ServiceError {
  const message = `The body is larger than ${bytesMax} bytes when it is inflated.`;
  return new ServiceError('payload_too_large', message, { recorded: false });
}
