// A pool of buffers for bytes that live as long as a request or a stream entry (bodies, entries, replies, records).
// A fresh Buffer of such a size is memory outside the JavaScript heap, and V8 answers every few megabytes of it with a
// collection: that was a quarter of a front's main thread in batches, and as much again in its helper threads.
// One pool serves a whole front. `take` never waits and never fails: its callers have bounds of their own, and the pool
// bounds what lies unused.
// Invariant: a buffer has one holder. A holder that cannot be sure that nothing reads the buffer any more (a socket
// that failed, a request that was aborted) does not release it; the collector frees it then.
// Bound: at most KEPT_BYTES_MAX unused; larger buffers than BUFFER_BYTES_MAX are not kept. At the bound the pool drops
// buffers of the size that was asked for the longest ago; otherwise a burst of large bodies would fill it for good.
import assert from 'node:assert';

const BUFFER_BYTES_MIN = 1024;
/** The largest holds a whole batch: eight fresh ones at a time made V8 collect for 30 ms again and again. */
const CLASSES = 14;
export const BUFFER_BYTES_MAX = BUFFER_BYTES_MIN << (CLASSES - 1);
/**
 * The bytes that a front uses when a flood of batches begins (120 MB: 430 of them in flight, with replies and entries).
 * At ordinary full load it is 20 MB. With a bound of 32 MB the rest was allocated again as the flood came and went, 160
 * MB a second: 14 full collections in two seconds, and refusals took 40 to 108 ms (p99) instead of 15. The bound costs
 * nothing: what is kept had been in use.
 */
const KEPT_BYTES_MAX = 128 * 1024 * 1024;

export class BufferPool {
  readonly #free: Buffer[][] = Array.from({ length: CLASSES }, () => []);
  /** For each size the number of the last request for it, of all requests. */
  readonly #askedAt = new Float64Array(CLASSES);
  #asked = 0;
  readonly #keptMax: number;
  readonly #allocate: (bytes: number) => Buffer;
  #kept = 0;

  /** `allocate`: shared memory where other threads read the buffers. */
  constructor(keptMax = KEPT_BYTES_MAX, allocate: (bytes: number) => Buffer = Buffer.allocUnsafeSlow) {
    this.#keptMax = keptMax;
    this.#allocate = allocate;
  }

  /** Unused bytes in the pool. */
  get kept(): number {
    return this.#kept;
  }

  /** Returns a buffer of at least `bytes`; its contents are undefined. */
  take(bytes: number): Buffer {
    const at = classOf(bytes);
    if (at >= CLASSES) return this.#allocate(bytes);
    this.#askedAt[at] = ++this.#asked;
    const buffer = this.#free[at]!.pop();
    if (buffer === undefined) return this.#allocate(BUFFER_BYTES_MIN << at);
    this.#kept -= buffer.length;
    return buffer;
  }

  /** Takes back the very Buffer that `take` returned, once, when nothing reads it any more. */
  release(buffer: Buffer): void {
    if (buffer.length > BUFFER_BYTES_MAX) return;
    const at = classOf(buffer.length);
    assert(buffer.length === BUFFER_BYTES_MIN << at, 'not a buffer of the pool');
    while (this.#kept + buffer.length > this.#keptMax) if (!this.#dropOlderThan(at)) return;
    this.#free[at]!.push(buffer);
    this.#kept += buffer.length;
  }

  /**
   * Drops a buffer of the size that was asked for the longest ago; false: no other size was asked for before this one.
   */
  #dropOlderThan(at: number): boolean {
    let oldest = at;
    for (let i = 0; i < CLASSES; i++)
      if (this.#free[i]!.length > 0 && this.#askedAt[i]! < this.#askedAt[oldest]!) oldest = i;
    if (oldest === at) return false;
    this.#kept -= this.#free[oldest]!.pop()!.length;
    return true;
  }

  /** Returns a longer buffer with the same `used` bytes; the shorter one is released. */
  grow(buffer: Buffer, used: number, bytes: number): Buffer {
    const longer = this.take(Math.max(bytes, 2 * buffer.length));
    longer.set(buffer.subarray(0, used));
    this.release(buffer);
    return longer;
  }
}

export function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes));
}

function classOf(bytes: number): number {
  return bytes <= BUFFER_BYTES_MIN ? 0 : 22 - Math.clz32(bytes - 1);
}
