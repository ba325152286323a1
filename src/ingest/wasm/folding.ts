// Characters beyond ASCII, as far as the folded form of a text goes (policy/texts/folded.ts), on bytes: the copy in
// which signs are searched for (signs.ts), and the other texts that a stretch stands for. ../folding-table.ts has a
// byte for each code point below 0x20000 that says what it is, and what it is folded to.
// Invariant: where nothing is odd, the folded form of each string of the stretch is what `rewrite` makes of it, and the
// stretch itself where there is nothing else in it. What depends on its neighbours is looked at here, or odd.
// A stretch is JSON: what is written stays JSON, but for code points that are no longer escaped.
import { copyRun, isUnit, unit } from './bytes';
import {
  CLASS_DIGIT,
  CLASS_DROPPED,
  CLASS_FIRST,
  CLASS_JOINING,
  CLASS_MAPPED,
  CLASS_MARK,
  CLASS_ODD,
  CODE_POINTS,
  FOLDED_BLOCKS,
} from './layout';

/** The characters in a stretch: only the engine can fold some, some become others, some are digits of other scripts. */
export const HAS_ODD: i32 = 1, HAS_OTHER: i32 = 2, HAS_DIGITS: i32 = 4;

const BACKSLASH: u32 = 0x5c;
const LETTER_U: u32 = 0x75;
/** Marks of one character that are gone through to find what they are of. */
const MARKS_MAX = 8;
/** A text may become longer by so much. */
const LONGER_MAX: usize = 16;

let table: usize = 0;
/** The text that was decoded last has control characters, which are folded to nothing. */
let hasControls: bool = false;

export function placeFolding(at: usize): void {
  table = at;
}

@inline function at(p: usize): u32 { return <u32>load<u8>(p); }

@inline function digitsOf(v: v128): v128 { return i8x16.le_u(i8x16.sub(v, i8x16.splat(0x30)), i8x16.splat(9)); }

/** The positions of sixteen at which `isBorderBefore` (signs.ts) is sure to say no. */
@inline function behindAlnum(p: usize): v128 {
  const before = v128.load(p - 1);
  const letters = i8x16.le_u(i8x16.sub(v128.or(before, i8x16.splat(0x20)), i8x16.splat(0x61)), i8x16.splat(25));
  const escapes = v128.or(i8x16.eq(v128.load(p - 2), i8x16.splat(0x5c)), i8x16.eq(v128.load(p - 3), i8x16.splat(0x25)));
  const unicode = v128.and(i8x16.eq(v128.load(p - 5), i8x16.splat(0x75)), i8x16.eq(v128.load(p - 6), i8x16.splat(0x5c)));
  return v128.andnot(v128.or(letters, digitsOf(before)), v128.or(escapes, unicode));
}

/** Writes the copy of a stretch, so far behind it: letters small, digits 0, or 1 behind a letter or digit. */
export function fold(from: usize, to: usize, shift: usize): i32 {
  let kinds = 0;
  for (let p = from; p < to; p += 16) {
    const v = v128.load(p);
    const digits = digitsOf(v);
    const folded = v128.bitselect(i8x16.splat(0x30), v128.or(v, i8x16.splat(0x20)), digits);
    v128.store(p + shift, v128.or(folded, v128.and(v128.and(digits, behindAlnum(p)), i8x16.splat(1))));
    const others = v128.or(i8x16.ge_u(v, i8x16.splat(<i8>0xc0)), i8x16.eq(v, i8x16.splat(0x7f)));
    let set = <u32>i8x16.bitmask(others);
    if (set == 0) continue;
    if (to - p < 16) set &= (1 << <u32>(to - p)) - 1;
    while (set != 0) {
      kinds |= kindAt(p + <usize>ctz(set), from);
      set &= set - 1;
    }
  }
  // What is searched reads on past the end.
  v128.store(((to + 15) & ~15) + shift, i8x16.splat(0));
  return kinds;
}

@inline function classOf(u: u32): i32 {
  return u < <u32>CODE_POINTS ? <i32>load<u8>(table + <usize>u) : CLASS_ODD;
}

/** The character that begins there in UTF-8. */
@inline function codePointAt(p: usize): u32 {
  const c = at(p);
  if (c < 0x80) return c;
  if (c < 0xe0) return (c & 31) << 6 | (at(p + 1) & 63);
  if (c < 0xf0) return (c & 15) << 12 | (at(p + 1) & 63) << 6 | (at(p + 2) & 63);
  return (c & 7) << 18 | (at(p + 1) & 63) << 12 | (at(p + 2) & 63) << 6 | (at(p + 3) & 63);
}

@inline function widthOf(first: u32): usize {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

@inline function kindAt(p: usize, from: usize): i32 {
  const u = codePointAt(p);
  const kind = classOf(u);
  return kind <= CLASS_FIRST ? 0 : kindOf(kind, u, p, from);
}

function kindOf(kind: i32, u: u32, p: usize, from: usize): i32 {
  if (kind >= CLASS_MARK) return isInPlace(kind, p, from) ? 0 : HAS_ODD;
  if (kind >= CLASS_DIGIT) return HAS_DIGITS;
  if (kind == CLASS_ODD) return HAS_ODD;
  return isWideDigit(u) ? HAS_OTHER | HAS_DIGITS : HAS_OTHER;
}

@inline function isWideDigit(u: u32): bool { return u - 0xff10 <= 9; }

/** Its place among the marks of a character; 0: any. */
@inline function rankOf(kind: i32): i32 {
  return kind >= CLASS_JOINING ? kind - CLASS_JOINING : kind >= CLASS_MARK ? kind - CLASS_MARK : 0;
}

/** Is a mark the same when its text is folded: neither put elsewhere nor joined with what it belongs to? */
function isInPlace(kind: i32, p: usize, from: usize): bool {
  let before = classBefore(p, from);
  if (isFolded(before)) return false;
  const rank = rankOf(kind);
  if (rank != 0 && rankOf(before) > rank) return false;
  if (kind < CLASS_JOINING) return true;
  for (let i = 0; rankOf(before) != 0; i++) {
    if (i == MARKS_MAX) return false;
    p = startBefore(p);
    before = classBefore(p, from);
    if (isFolded(before)) return false;
  }
  return before != CLASS_FIRST;
}

@inline function isFolded(kind: i32): bool {
  return kind == CLASS_DROPPED || kind == CLASS_MAPPED || kind == CLASS_ODD;
}

@inline function startBefore(p: usize): usize {
  do { p--; } while ((at(p) & 0xc0) == 0x80);
  return p;
}

/** The class of the character before; of none, that of a blank. Behind an escape it counts once that is decoded. */
function classBefore(p: usize, from: usize): i32 {
  if (p <= from) return 0;
  const c = at(p - 1);
  if (c >= 0x80) return classOf(codePointAt(startBefore(p)));
  return (c | 0x20) - 0x61 <= 25 ? CLASS_FIRST : 0;
}

/** Is the character there folded to a blank, or to nothing? Others may be, too. */
export function mayBeBlank(p: usize): bool {
  const kind = classOf(codePointAt(p));
  return kind == CLASS_DROPPED || kind == CLASS_MAPPED;
}

/**
 * Writes a stretch with its code points no longer escaped, but for control characters and what JSON must escape.
 * Returns where it ends, never longer than it was; 0: it stands for no text, or for what is read again. `backslashes`:
 * of an escape; with two of them, as text inside text has them, ASCII is for the engine.
 */
export function decode(from: usize, to: usize, out: usize, backslashes: usize): usize {
  hasControls = false;
  while (from < to) {
    const v = v128.load(from), n = copyRun(v, i8x16.eq(v, i8x16.splat(0x5c)), to - from, out);
    from += n;
    out += n;
    if (n == 16 || from >= to) continue;
    if (!isEscape(from, backslashes)) {
      if (at(from + 1) == 0x62) hasControls = true;
      store<u16>(out, load<u16>(from));
      from += 2;
      out += 2;
      continue;
    }
    let u = unit(from + backslashes + 1);
    from += backslashes + 5;
    if (u - 0xd800 <= 0x7ff) {
      if (u >= 0xdc00 || !isEscape(from, backslashes)) return 0;
      const low = unit(from + backslashes + 1) - 0xdc00;
      if (low > 0x3ff) return 0;
      u = 0x10000 + (u - 0xd800 << 10) + low;
      from += backslashes + 5;
    }
    if (u < 0x80 && backslashes > 1) return 0;
    out = u < 0x80 ? decodedAscii(u, from, out) : decoded(u, out);
    if (out == 0) return 0;
  }
  return out;
}

@inline function isEscape(p: usize, backslashes: usize): bool {
  if (at(p) != BACKSLASH || at(p + backslashes) != LETTER_U) return false;
  return backslashes == 1 || (at(p + 1) == BACKSLASH && isUnit(p + 3));
}

/** `behind` its escape. */
function decodedAscii(u: u32, behind: usize, out: usize): usize {
  switch (u) {
    case 0x0b: case BACKSLASH: return 0;
    case 0x09: store<u16>(out, 0x745c); return out + 2;
    case 0x0a: store<u16>(out, 0x6e5c); return out + 2;
    case 0x0c: store<u16>(out, 0x665c); return out + 2;
    case 0x0d: store<u16>(out, 0x725c); return out + 2;
    case 0x22: store<u16>(out, 0x225c); return out + 2;
  }
  if (u >= 0x20) {
    store<u8>(out, <u8>u);
    return out + 1;
  }
  hasControls = true;
  memory.copy(out, behind - 6, 6);
  return out + 6;
}

function decoded(u: u32, out: usize): usize {
  if (u < 0x800) {
    store<u16>(out, <u16>(0x80c0 | u >> 6 | (u & 63) << 8));
    return out + 2;
  }
  if (u < 0x10000) {
    store<u32>(out, 0x8080e0 | u >> 12 | (u >> 6 & 63) << 8 | (u & 63) << 16);
    return out + 3;
  }
  store<u32>(out, 0x808080f0 | u >> 18 | (u >> 12 & 63) << 8 | (u >> 6 & 63) << 16 | (u & 63) << 24);
  return out + 4;
}

/** The kinds of characters in the text that was decoded last, beside those that its bytes show. */
@inline export function kindsDecoded(): i32 { return hasControls ? HAS_OTHER : 0; }

/**
 * Writes what a stretch stands for where nothing in it is odd or escaped: folded (`kinds` has HAS_OTHER), with digits
 * of other scripts as ours (HAS_DIGITS), or both. Returns where it ends; 0: it becomes too long.
 */
export function rewrite(from: usize, to: usize, out: usize, kinds: i32): usize {
  const isFolding = (kinds & HAS_OTHER) != 0, hasOurs = (kinds & HAS_DIGITS) != 0;
  const limit = out + (to - from) + LONGER_MAX;
  while (from < to) {
    if (out > limit) return 0;
    const v = v128.load(from);
    const others = v128.or(v, v128.or(i8x16.eq(v, i8x16.splat(0x5c)), i8x16.eq(v, i8x16.splat(0x7f))));
    const n = copyRun(v, others, to - from, out);
    from += n;
    out += n;
    if (n == 16 || from >= to) continue;
    const c = at(from);
    let width = widthOf(c);
    let isDropped = isFolding && c == 0x7f;
    if (c == BACKSLASH) {
      const letter = at(from + 1);
      width = letter == LETTER_U ? 6 : 2;
      isDropped = isFolding && (letter == LETTER_U || letter == 0x62);
    } else if (c >= 0x80) {
      const u = codePointAt(from);
      const kind = classOf(u);
      if (kind > CLASS_FIRST && kind < CLASS_MARK) {
        if (kind >= CLASS_DIGIT) {
          if (hasOurs) {
            store<u8>(out++, <u8>(0x30 + kind - CLASS_DIGIT));
            isDropped = true;
          }
        } else if (isFolding || (hasOurs && isWideDigit(u))) {
          if (kind == CLASS_MAPPED) out = mapped(u, out);
          isDropped = true;
        }
      }
    }
    if (!isDropped) {
      store<u64>(out, load<u64>(from));
      out += width;
    }
    from += width;
  }
  return out;
}

/** Writes the text that a code point is folded to, and returns where it ends. */
function mapped(u: u32, out: usize): usize {
  const blocks = table + FOLDED_BLOCKS;
  const block = <usize>load<u16>(blocks + (<usize>(u >> 4) << 1));
  const text = blocks + <usize>load<u16>(blocks + block + (<usize>(u & 15) << 1));
  const length = <usize>load<u8>(text);
  memory.copy(out, text + 1, length);
  return out + length;
}
