// Memory for bytes that are here as long as a request or an entry is: taken, filled, given back, taken again.
// A fresh Buffer of this size is memory beside the JavaScript heap, and V8 answers every few megabytes of it with a
// collection: a quarter of a front's main thread in batches went there, and as much again in its helpers.
// Invariant: a slab has one holder. Whoever cannot be sure that nobody reads it any more (a socket that failed, a request that
// broke off) does not give it back; the collector takes it then.
// Bounded: at most KEPT_BYTES_MAX lie here unused; what is larger than SLAB_BYTES_MAX is made and dropped.
import assert from 'node:assert';

const SLAB_BYTES_MIN = 1024;
const CLASSES = 12;
/** Larger ones are rare (bodies of several megabytes), and each would hold the room of a thousand usual ones. */
export const SLAB_BYTES_MAX = SLAB_BYTES_MIN << (CLASSES - 1);
/** A tenth of what a front may take; in full use about 200 batches on their way. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

export class Slabs {
  readonly #free: Buffer[][] = Array.from({ length: CLASSES }, () => []);
  readonly #keptMax: number;
  #kept = 0;

  constructor(keptMax = KEPT_BYTES_MAX) {
    this.#keptMax = keptMax;
  }

  /** Bytes that lie here unused. */
  get kept(): number {
    return this.#kept;
  }

  /** At least so long. What stands in it is anybody's. */
  take(bytes: number): Buffer {
    const at = classOf(bytes);
    if (at >= CLASSES) return Buffer.allocUnsafeSlow(bytes);
    const slab = this.#free[at]!.pop();
    if (slab === undefined) return Buffer.allocUnsafeSlow(SLAB_BYTES_MIN << at);
    this.#kept -= slab.length;
    return slab;
  }

  /** The very Buffer that `take` gave, once, when nobody reads it any more. */
  give(slab: Buffer): void {
    if (slab.length > SLAB_BYTES_MAX || this.#kept + slab.length > this.#keptMax) return;
    const at = classOf(slab.length);
    assert(slab.length === SLAB_BYTES_MIN << at, 'not a slab');
    this.#free[at]!.push(slab);
    this.#kept += slab.length;
  }

  /** A longer one with the same `used` bytes; the shorter one goes back. */
  grow(slab: Buffer, used: number, bytes: number): Buffer {
    const longer = this.take(Math.max(bytes, 2 * slab.length));
    longer.set(slab.subarray(0, used));
    this.give(slab);
    return longer;
  }
}

function classOf(bytes: number): number {
  return bytes <= SLAB_BYTES_MIN ? 0 : 22 - Math.clz32(bytes - 1);
}
