// Text inside text, as far as its first characters and its escapes go (of scan.ts, which reads what is inside): the
// part of common/inner-json.ts that can be said on bytes. Positions are in a string of JSON, whose closing quote bounds
// what is looked at.
// Invariant: a string that inner-json.ts might open is never passed over; what is not unescaped here is left to it.
import { copyRun, digit } from './bytes';
import { mayBeBlank } from './folding';

const QUOTE: u32 = 0x22;
const BACKSLASH: u32 = 0x5c;
const OBJECT: u32 = 0x7b;
const ARRAY: u32 = 0x5b;

@inline function at(p: usize): u32 { return <u32>load<u8>(p); }

/**
 * A bracket, a quote or a comment of either kind, or an escape, behind blanks. `p`: behind the opening quote.
 */
export function mayHoldJson(p: usize): bool {
  if ((at(p) | 0x20) - 0x61 <= 25) return false;
  while (true) {
    const c = at(p);
    if (c == 0x20) { p++; continue; }
    if (c == 0x2f) return at(p + 1) == 0x2f || at(p + 1) == 0x2a;
    if (c >= 0x7f) return mayBeBlank(p);
    if (c != BACKSLASH) return c == OBJECT || c == ARRAY || c == 0x27 || c == 0x60 || c == 0x23;
    const escaped = at(p + 1); // n, r, t
    if (escaped != 0x6e && escaped != 0x72 && escaped != 0x74) return escaped != BACKSLASH;
    p += 2;
  }
}

/** Letters, digits and the end of the text do not; the rest is for the engine to look at. */
@inline export function mayBeginJson(first: u32): bool {
  return !digit(first) && (first | 0x20) - 0x61 > 25 && first != QUOTE;
}

/**
 * Writes the text of a string, its content from `from` to `to`, to another place, which may be where it stands itself.
 * Returns where it ends; 0: it has an escape of a code point.
 */
export function unescape(from: usize, to: usize, out: usize): usize {
  const isApart = out >= to;
  while (from < to) {
    const c = at(from);
    if (c == BACKSLASH) {
      const plain = escapedBy(at(from + 1));
      if (plain == 0) return 0;
      store<u8>(out++, <u8>plain);
      from += 2;
      continue;
    }
    if (!isApart) {
      store<u8>(out++, <u8>c);
      from++;
      continue;
    }
    // Sixteen at a time, as far as they go: there is room behind what is written.
    const v = v128.load(from), n = copyRun(v, i8x16.eq(v, i8x16.splat(0x5c)), to - from, out);
    from += n;
    out += n;
  }
  return out;
}

/** The character that a backslash and this letter stand for; 0: a code point. */
@inline function escapedBy(letter: u32): u32 {
  switch (letter) {
    case 0x6e: return 0x0a;
    case 0x74: return 0x09;
    case 0x72: return 0x0d;
    case 0x66: return 0x0c;
    case 0x62: return 0x08;
    case 0x75: return 0;
  }
  return letter;
}
