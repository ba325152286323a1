// Bytes of JSON by themselves: digits, hashes, what stands in sixteen of them (of scan.ts).

@inline export function hex(c: u32): i32 {
  if (c - 0x30 <= 9) return <i32>(c - 0x30);
  const l = c | 0x20;
  if (l - 0x61 <= 5) return <i32>(l - 0x61 + 10);
  return -1;
}

/** Are there four digits of one? */
@inline export function isUnit(p: usize): bool {
  return (hex(load<u8>(p)) | hex(load<u8>(p, 1)) | hex(load<u8>(p, 2)) | hex(load<u8>(p, 3))) >= 0;
}

@inline export function unit(p: usize): u32 {
  return <u32>(hex(load<u8>(p)) << 12 | hex(load<u8>(p, 1)) << 8 | hex(load<u8>(p, 2)) << 4 | hex(load<u8>(p, 3)));
}

/**
 * A bit for each quote, backslash and control character. A whole vector can always be read: 16 bytes of ours follow the
 * body.
 */
@inline export function oddOnes(p: usize): u32 {
  const v = v128.load(p);
  const quotes = i8x16.eq(v, i8x16.splat(0x22)), backslashes = i8x16.eq(v, i8x16.splat(0x5c));
  return <u32>i8x16.bitmask(v128.or(v128.or(quotes, backslashes), i8x16.le_u(v, i8x16.splat(0x1f))));
}

/** Is there nothing but ASCII without a backslash? */
export function plain(start: usize, stop: usize): bool {
  for (let from = start; from < stop; from += 16) {
    const v = v128.load(from);
    let odd = <u32>i8x16.bitmask(v128.or(v, i8x16.eq(v, i8x16.splat(0x5c))));
    if (stop - from < 16) odd &= (1 << <u32>(stop - from)) - 1;
    if (odd != 0) return false;
  }
  return true;
}

/**
 * Copies sixteen bytes of a stretch, of which `room` are left; there is place for all. Returns how many of them count:
 * those before the first of `stops`.
 */
@inline export function copyRun(v: v128, stops: v128, room: usize, out: usize): usize {
  v128.store(out, v);
  const n: usize = <usize>ctz(<u32>i8x16.bitmask(stops) | 0x10000);
  return n > room ? room : n;
}

/** Eight bytes at a time; what is read past the end is cut off. */
@inline export function hashOf(start: usize, length: usize): u32 {
  let hash: u64 = <u64>length + 1;
  let left = length;
  while (left > 8) {
    hash = (hash ^ load<u64>(start)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    start += 8;
    left -= 8;
  }
  if (left > 0) hash ^= load<u64>(start) & (<u64>-1 >> <u64>((8 - left) << 3));
  return <u32>((hash * 0x9e3779b97f4a7c15) >> 32);
}

@inline export function digit(c: u32): bool { return c - 0x30 <= 9; }

@inline export function is4(p: usize, w: u32): bool { return load<u32>(p) == w; }

/** `"."` or `".."`: no trace may be called so. */
@inline export function isDots(from: usize, to: usize): bool {
  return to - from <= 4 && load<u8>(from, 1) == 0x2e && (to - from == 3 || load<u8>(from, 2) == 0x2e);
}

/** The number of a type of events by its name; -1: it is none. */
export function typeOf(start: usize, length: usize): i32 {
  if (length == 9 && load<u64>(start) == 0x6c61635f6c6f6f74 && load<u8>(start, 8) == 0x6c) return 2; // tool_call
  if (length == 10 && load<u64>(start) == 0x6974656c706d6f63 && load<u16>(start, 8) == 0x6e6f) return 1; // completion
  if (length == 6 && is4(start, 0x6d6f7270) && load<u16>(start, 4) == 0x7470) return 0; // prompt
  if (length == 6 && is4(start, 0x74737563) && load<u16>(start, 4) == 0x6d6f) return 4; // custom
  if (length == 5 && is4(start, 0x6f727265) && load<u8>(start, 4) == 0x72) return 3; // error
  return -1;
}
