// Counts of tokens in the answers of providers (a payload's `usage` and the like), where it says no `tokens_used`
// itself. A table (../token-usage.ts, which says what the shapes are): room for a sum of each shape, u64; then the
// names, 40 bytes each: u32 length, u32 shape, the text. Names have 8 to 31 bytes.
// The names of what holds them are here, too, by their texts.
// Conservative: what is no whole number of at most 15 digits, where one of the names stands, is inspected elsewhere.
let sums: usize = 0;
let names: usize = 0;
let namesEnd: usize = 0;
/** A bit for each shape of which the payload at hand has had a member; in the order in which they count. */
let seen: u32 = 0;
let odd: bool = false;
/** A bit for each length that a name has. */
let lengths: u32 = 0;

const NAME_BYTES: usize = 40;

export function placeUsage(at: usize, shapes: i32, count: i32): void {
  sums = at;
  names = at + <usize>(shapes << 3);
  namesEnd = names + <usize>count * NAME_BYTES;
  for (let name = names; name < namesEnd; name += NAME_BYTES) lengths |= 1 << load<u32>(name);
}

@inline export function beginUsage(): void {
  seen = 0;
  odd = false;
}

/** usage, totalUsage, usageMetadata, usage_metadata: a provider's answer holds token counts under these. */
export function isUsage(name: usize, length: usize): bool {
  if (length == 10) return load<u64>(name) == 0x6173556c61746f74 && load<u16>(name, 8) == 0x6567; // totalUsage
  if (length != 5 && length != 13 && length != 14) return false;
  if (!is4(name, 0x67617375) || load<u8>(name, 4) != 0x65) return false;
  if (length == 5) return true;
  return length == 13
    ? load<u64>(name, 5) == 0x617461646174654d // Metadata
    : load<u64>(name, 5) == 0x7461646174656d5f && load<u8>(name, 13) == 0x61; // _metadata
}

/** response, message, result, output, completion, metadata: they may hold an answer as it came (../token-usage.ts). */
export function isHolder(name: usize, length: usize): bool {
  if (length == 6) {
    return (is4(name, 0x75736572) && load<u16>(name, 4) == 0x746c) // result
      || (is4(name, 0x7074756f) && load<u16>(name, 4) == 0x7475); // output
  }
  if (length == 7) return is4(name, 0x7373656d) && is4(name + 3, 0x65676173); // message
  if (length == 8) {
    const text = load<u64>(name);
    return text == 0x65736e6f70736572 || text == 0x617461646174656d; // response, metadata
  }
  return length == 10 && load<u64>(name) == 0x6974656c706d6f63 && load<u16>(name, 8) == 0x6e6f; // completion
}

@inline function is4(p: usize, w: u32): bool { return load<u32>(p) == w; }

/** A member of the object: its name, and its value from `from` to `to`. */
export function noteUsage(name: usize, length: usize, from: usize, to: usize): void {
  if (length > 31 || (lengths & (1 << <u32>length)) == 0) return;
  const head = load<u64>(name);
  for (let one = names; one < namesEnd; one += NAME_BYTES) {
    if (load<u64>(one, 8) != head || load<u32>(one) != <u32>length) continue;
    if (!isSame(one + 8, name, length)) continue;
    add(load<u32>(one, 4), from, to);
    return;
  }
}

/** Compares two names of that length, whose first eight bytes are the same. */
@inline function isSame(a: usize, b: usize, length: usize): bool {
  if (length > 16 && load<u64>(a, 8) != load<u64>(b, 8)) return false;
  if (length > 24 && load<u64>(a, 16) != load<u64>(b, 16)) return false;
  return load<u64>(a + length - 8) == load<u64>(b + length - 8);
}

function add(shape: u32, from: usize, to: usize): void {
  if (load<u8>(from) == 0x6e) return; // null
  if (to - from > 15) { odd = true; return; }
  let sum: u64 = 0;
  for (let i = from; i < to; i++) {
    const digit = <u32>load<u8>(i) - 0x30;
    if (digit > 9) { odd = true; return; }
    sum = sum * 10 + <u64>digit;
  }
  const bit: u32 = 1 << shape;
  const at = sums + (<usize>shape << 3);
  store<u64>(at, ((seen & bit) != 0 ? load<u64>(at) : 0) + sum);
  seen |= bit;
}

/** The tokens; negative: there are none (-1), or the JavaScript reader must decide (-2). */
@inline export function usageTotal(): f64 {
  if (odd) return -2;
  return seen == 0 ? -1 : <f64>load<u64>(sums + (<usize>ctz(seen) << 3));
}
