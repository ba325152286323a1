// Looks for many literals in a stretch of bytes, sixteen places at a time (after the payload has been checked, per event).
// The literals: fingerprints of three bytes each in eight buckets, as nibble masks (16 bytes a half, six of them), then
// 8 pairs of u16: first, count of a bucket's literals in the list, then the list: u32 place of the bytes, u16 length,
// u16 how far before the fingerprint the literal begins, u32 number.
let masks: usize = 0;
let literals: bool = false;
let scratch: usize = 0;

export function useLiterals(at: usize): void {
  masks = at;
  literals = at != 0;
}

/** Sets the bits of the literals that stand between `from` and `to`. */
export function find(from: usize, to: usize, bits: usize): void {
  if (!literals) return;
  const lo0 = v128.load(masks), hi0 = v128.load(masks, 16);
  const lo1 = v128.load(masks, 32), hi1 = v128.load(masks, 48);
  const lo2 = v128.load(masks, 64), hi2 = v128.load(masks, 80);
  const low = i8x16.splat(15);
  for (let at = from; at < to; at += 16) {
    const a = v128.load(at), b = v128.load(at, 1), c = v128.load(at, 2);
    let m = v128.and(i8x16.swizzle(lo0, v128.and(a, low)), i8x16.swizzle(hi0, i8x16.shr_u(a, 4)));
    m = v128.and(m, v128.and(i8x16.swizzle(lo1, v128.and(b, low)), i8x16.swizzle(hi1, i8x16.shr_u(b, 4))));
    m = v128.and(m, v128.and(i8x16.swizzle(lo2, v128.and(c, low)), i8x16.swizzle(hi2, i8x16.shr_u(c, 4))));
    if (!v128.any_true(m)) continue;
    let set = <u32>i8x16.bitmask(i8x16.ne(m, i8x16.splat(0)));
    v128.store(scratch, m);
    while (set != 0) {
      const i = <usize>ctz(set);
      set &= set - 1;
      candidates(at + i, <u32>load<u8>(scratch + i), from, to, bits);
    }
  }
}

function candidates(at: usize, buckets: u32, from: usize, to: usize, bits: usize): void {
  while (buckets != 0) {
    const bucket = <usize>ctz(buckets);
    buckets &= buckets - 1;
    const first = <usize>load<u16>(masks + 96 + bucket * 4);
    const count = <usize>load<u16>(masks + 96 + bucket * 4, 2);
    for (let i = first; i < first + count; i++) {
      const entry = masks + 128 + i * 12;
      const start = at - <usize>load<u16>(entry, 6);
      const length = <usize>load<u16>(entry, 4);
      if (start < from || start + length > to) continue;
      if (memory.compare(start, <usize>load<u32>(entry), length) != 0) continue;
      const number = <u32>load<u32>(entry, 8);
      const word = bits + <usize>((number >> 5) << 2);
      store<u32>(word, load<u32>(word) | (1 << (number & 31)));
    }
  }
}

/** 16 bytes to work in. */
export function placeScratch(at: usize): void {
  scratch = at;
}
