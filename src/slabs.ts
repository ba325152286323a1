// Memory for bytes that are here as long as a request or an entry is: taken, filled, given back, taken again.
// A fresh Buffer of this size is memory beside the JavaScript heap, and V8 answers every few megabytes of it with a
// collection: a quarter of a front's main thread in batches went there, and as much again in its helpers.
// One pool serves a whole front (bodies, entries, replies, records): what is taken is counted by nobody here, since those who
// take have bounds of their own; the pool bounds what lies unused. `take` never waits and never fails.
// Invariant: a slab has one holder. Whoever cannot be sure that nobody reads it any more (a socket that failed, a request that
// broke off) does not give it back; the collector takes it then.
// Bounded: at most KEPT_BYTES_MAX lie here unused; what is larger than SLAB_BYTES_MAX is made and dropped. At the bound room is
// made by dropping slabs of the size that nobody has asked for the longest: else a burst of large bodies would fill the pool for
// good, and everybody who needs small ones would be without.
import assert from 'node:assert';

const SLAB_BYTES_MIN = 1024;
/** The largest is that of a whole batch: made anew for each, eight of them at a time had V8 collect for 30 ms again and again. */
const CLASSES = 14;
export const SLAB_BYTES_MAX = SLAB_BYTES_MIN << (CLASSES - 1);
/**
 * What a front has in use when a flood of batches begins (120 MB: 430 of them in hand, with replies and entries). In ordinary full use it is
 * 20. With 32 MB kept the rest was made anew as the flood came and went, 160 MB a second: 14 full collections in two seconds, and refusals
 * were heard after 40 to 108 ms (p99) instead of 15. It raises nothing: what is kept had been in use.
 */
const KEPT_BYTES_MAX = 128 * 1024 * 1024;

export class Slabs {
  readonly #free: Buffer[][] = Array.from({ length: CLASSES }, () => []);
  /** When each size was asked for last, by the count of all that was asked for. */
  readonly #askedAt = new Float64Array(CLASSES);
  #asked = 0;
  readonly #keptMax: number;
  readonly #allocate: (bytes: number) => Buffer;
  #kept = 0;

  /** `allocate`: of memory that other threads see, too, where they are to read it. */
  constructor(keptMax = KEPT_BYTES_MAX, allocate: (bytes: number) => Buffer = Buffer.allocUnsafeSlow) {
    this.#keptMax = keptMax;
    this.#allocate = allocate;
  }

  /** Bytes that lie here unused. */
  get kept(): number {
    return this.#kept;
  }

  /** At least so long. What stands in it is anybody's. */
  take(bytes: number): Buffer {
    const at = classOf(bytes);
    if (at >= CLASSES) return this.#allocate(bytes);
    this.#askedAt[at] = ++this.#asked;
    const slab = this.#free[at]!.pop();
    if (slab === undefined) return this.#allocate(SLAB_BYTES_MIN << at);
    this.#kept -= slab.length;
    return slab;
  }

  /** The very Buffer that `take` gave, once, when nobody reads it any more. */
  give(slab: Buffer): void {
    if (slab.length > SLAB_BYTES_MAX) return;
    const at = classOf(slab.length);
    assert(slab.length === SLAB_BYTES_MIN << at, 'not a slab');
    while (this.#kept + slab.length > this.#keptMax) if (!this.#dropOlderThan(at)) return;
    this.#free[at]!.push(slab);
    this.#kept += slab.length;
  }

  /** Drops one of the size that was asked for longest ago; false: there is none that was asked for before this one. */
  #dropOlderThan(at: number): boolean {
    let oldest = at;
    for (let i = 0; i < CLASSES; i++)
      if (this.#free[i]!.length > 0 && this.#askedAt[i]! < this.#askedAt[oldest]!) oldest = i;
    if (oldest === at) return false;
    this.#kept -= this.#free[oldest]!.pop()!.length;
    return true;
  }

  /** A longer one with the same `used` bytes; the shorter one goes back. */
  grow(slab: Buffer, used: number, bytes: number): Buffer {
    const longer = this.take(Math.max(bytes, 2 * slab.length));
    longer.set(slab.subarray(0, used));
    this.give(slab);
    return longer;
  }
}

export function sharedMemory(bytes: number): Buffer {
  return Buffer.from(new SharedArrayBuffer(bytes));
}

function classOf(bytes: number): number {
  return bytes <= SLAB_BYTES_MIN ? 0 : 22 - Math.clz32(bytes - 1);
}
