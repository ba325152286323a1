// Searches for many literals in a stretch of bytes, sixteen positions at a time (after a payload or a trace_id has been
// checked, per event). A table (../literal-table.ts): nibble masks of the literals' fingerprints, three bytes each in
// eight buckets (16 bytes a half, six of them); u32 shift of the hash, u32 which short lengths there are, u32 position
// of the entries, u32 unused; the hash's heads, u16 first, u16 count; the entries: u32 key, u32 position of the text,
// u16 length, u16 how far before the fingerprint the literal begins, u32 number. Where the masks show something, the
// hash of what is there leads to the literals. Work is bounded by the length of the stretch: past that every literal
// counts as found, and the engine looks closer.
import { BITS_BYTES } from './layout';

let masks: usize = 0;
let literals: bool = false;
/** What may still be compared in this stretch. */
let left: i32 = 0;

const SHIFT: usize = 96;
const SHORT: usize = 100;
const ENTRIES: usize = 104;
const HEADS: usize = 112;
/** Keys of literals of two bytes and of one, beside those of three. */
const KEY_TWO: u32 = 0x01000000;
const KEY_ONE: u32 = 0x02000000;
const LEFT_MIN: i32 = 4096;

export function useLiterals(at: usize): void {
  masks = at;
  literals = at != 0;
}

/**
 * Sets the bits of the literals that stand between `from` and `to`. Returns whether anything there is beyond ASCII, or
 * is DEL.
 */
export function find(from: usize, to: usize, bits: usize): bool {
  if (!literals) return false;
  left = LEFT_MIN + <i32>(to - from);
  const lo0 = v128.load(masks), hi0 = v128.load(masks, 16);
  const lo1 = v128.load(masks, 32), hi1 = v128.load(masks, 48);
  const lo2 = v128.load(masks, 64), hi2 = v128.load(masks, 80);
  const low = i8x16.splat(15);
  const short = load<u32>(masks, SHORT);
  let all = i8x16.splat(0);
  for (let at = from; at < to; at += 16) {
    const a = v128.load(at), b = v128.load(at, 1), c = v128.load(at, 2);
    all = v128.or(all, v128.or(a, i8x16.add(a, i8x16.splat(1))));
    let m = v128.and(i8x16.swizzle(lo0, v128.and(a, low)), i8x16.swizzle(hi0, i8x16.shr_u(a, 4)));
    m = v128.and(m, v128.and(i8x16.swizzle(lo1, v128.and(b, low)), i8x16.swizzle(hi1, i8x16.shr_u(b, 4))));
    m = v128.and(m, v128.and(i8x16.swizzle(lo2, v128.and(c, low)), i8x16.swizzle(hi2, i8x16.shr_u(c, 4))));
    if (!v128.any_true(m)) continue;
    let set = <u32>i8x16.bitmask(i8x16.ne(m, i8x16.splat(0)));
    while (set != 0) {
      const here = at + <usize>ctz(set);
      set &= set - 1;
      const key = load<u32>(here) & 0xffffff;
      lookUp(here, key, from, to, bits);
      if ((short & 2) != 0) lookUp(here, (key & 0xffff) | KEY_TWO, from, to, bits);
      if ((short & 1) != 0) lookUp(here, (key & 0xff) | KEY_ONE, from, to, bits);
    }
    if (left < 0) {
      memory.fill(bits, 0xff, BITS_BYTES);
      return true;
    }
  }
  // What follows in the last vector counts, too: then the event is inspected more closely than it need be.
  return i8x16.bitmask(all) != 0;
}

@inline function lookUp(at: usize, key: u32, from: usize, to: usize, bits: usize): void {
  const head = masks + HEADS + (<usize>((key * 0x9e3779b1) >> load<u32>(masks, SHIFT)) << 2);
  const count = <usize>load<u16>(head, 2);
  if (count != 0) candidates(at, key, <usize>load<u16>(head), count, from, to, bits);
}

function candidates(at: usize, key: u32, first: usize, count: usize, from: usize, to: usize, bits: usize): void {
  const entries = <usize>load<u32>(masks, ENTRIES);
  for (let i = first; i < first + count; i++) {
    const entry = entries + (i << 4);
    left--;
    if (load<u32>(entry) != key) continue;
    const start = at - <usize>load<u16>(entry, 10);
    const length = <usize>load<u16>(entry, 8);
    if (start < from || start + length > to) continue;
    left -= <i32>(length >> 3);
    if (memory.compare(start, <usize>load<u32>(entry, 4), length) != 0) continue;
    const number = <u32>load<u32>(entry, 12);
    const word = bits + <usize>((number >> 5) << 2);
    store<u32>(word, load<u32>(word) | (1 << (number & 31)));
  }
}
