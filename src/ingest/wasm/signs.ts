// Searches a stretch of bytes for the signs of an account's policies: texts of which one stands wherever a pattern, a
// text operator or a detector would find something (../../policy/text-search/signs.ts). Over-reports, never misses.
// One pass folds the bytes beside the body and looks at what is beyond ASCII (folding.ts); other texts that a stretch
// stands for are searched as well. A second one searches for fingerprints of up to three folded bytes, sixteen
// positions at a time: few by nibble masks, many by a bit of their hash, short ones by masks of the first; not by
// branches, since what shows by chance costs one that was foretold wrongly. There its sign is compared and checked.
// A table (../sign-table.ts): for each byte masks of its low and high nibbles, 16 bytes each; u32 shift of the hash,
// u32 whether the masks say all, u32 positions of entries and of classes; 8 KB, a bit for each hash of sixteen bits;
// the heads, u16 first, u16 count; entries of 16 bytes: u32 key, u32 position of the elements, u8 their number, u8
// place of the fingerprint, u16 bit, u8 check; elements, u16; classes.
// Work is bounded by the length of the stretch: past that every sign counts as found.
import { decode, fold, HAS_DIGITS, HAS_ODD, HAS_OTHER, kindsDecoded, placeFolding, rewrite } from './folding';
import { BITS_BYTES, F_ESCAPED, F_ESCAPED_INSIDE } from './layout';

let table: usize = 0;
/** How far behind the body its folded copy lies. */
let distance: usize = 0;
/** How far behind a stretch the copy lies that is searched. */
let shift: usize = 0;
/** A byte for each pair of letters: the length of the country's IBANs. */
let ibans: usize = 0;
let classes: usize = 0;
/** The work that may still be spent on comparisons in this stretch. */
let left: i32 = 0;
let stretchFrom: usize = 0;
let stretchTo: usize = 0;
/** The value of the stretch: 0 not looked for yet, 1 none, 2 there is one. */
let randomValue: i32 = 0;
let nineDigits: i32 = 0;

const SHIFT: usize = 96;
const ARE_FEW: usize = 100;
const ENTRIES: usize = 104;
const CLASSES: usize = 108;
const BITMAP: usize = 112;
const HEADS: usize = 8304;
const ENTRY_BYTES: usize = 16;
/** Keys of fingerprints of one and two bytes, beside those of three. */
const KEY_ONE: u32 = 0x01000000;
const KEY_TWO: u32 = 0x02000000;
const HASH: u32 = 0x9e3779b1;
const LEFT_MIN: i32 = 4096;

const ELEMENT_CASE: u32 = 1;
const ELEMENT_BLANK: u32 = 2;
const ELEMENT_CLASS: u32 = 3;
const ELEMENT_ESCAPED: u32 = 4;

export function placeTables(folding: usize, countries: usize): void {
  placeFolding(folding);
  ibans = countries;
}

/** `at` 0: nothing is searched for. Behind the body are three places as long as `folded`. */
export function useSigns(at: usize, folded: usize): void {
  table = at;
  distance = folded;
}

@inline export function hasSigns(): bool { return table != 0; }

/** Where a position of the body lies in its folded copy: free until the stretch around it is searched. */
@inline export function foldedAt(p: usize): usize { return p + distance; }

@inline function at(p: usize): u32 { return <u32>load<u8>(p); }
@inline function isDigit(c: u32): bool { return c - 0x30 <= 9; }
@inline function isLetter(c: u32): bool { return (c | 0x20) - 0x61 <= 25; }
@inline function isAlnum(c: u32): bool { return isDigit(c) || isLetter(c); }
@inline function isHex(c: u32): bool { return isDigit(c) || (c | 0x20) - 0x61 <= 5; }

/**
 * Sets the bits of the signs that stand between `from` and `to`, and in what this is folded to. Returns whether it may
 * be read as a text that was not searched. `escapes`: F_ESCAPED, F_ESCAPED_INSIDE; with both there are texts in which
 * some are escapes and some are not. 64 bytes behind it may be read.
 */
export function findSigns(from: usize, to: usize, bits: usize, escapes: i32): bool {
  if (table == 0) return false;
  let kinds = fold(from, to, distance);
  if (!search(from, to, distance, bits)) return true;
  if ((kinds & HAS_ODD) != 0) return true;
  if (escapes == (F_ESCAPED | F_ESCAPED_INSIDE)) return true;
  if (escapes == 0) return kinds != 0 && !searchOthers(from, to, 3 * distance, kinds, bits);
  const copy = from + 2 * distance, end = decode(from, to, copy, escapes == F_ESCAPED ? 1 : 2);
  if (end == 0) return true;
  kinds = fold(copy, end, 0 - distance) | kindsDecoded();
  if ((kinds & HAS_ODD) != 0 || !search(copy, end, 0 - distance, bits)) return true;
  return kinds != 0 && !searchOthers(copy, end, distance, kinds, bits);
}

/** The same in other texts that a stretch stands for, written so far behind it; false: not all was searched. */
function searchOthers(from: usize, to: usize, behind: usize, kinds: i32, bits: usize): bool {
  if ((kinds & HAS_DIGITS) != 0 && !searchOther(from, to, behind, HAS_DIGITS, bits)) return false;
  if ((kinds & HAS_OTHER) == 0) return true;
  if (!searchOther(from, to, behind, HAS_OTHER, bits)) return false;
  return (kinds & HAS_DIGITS) == 0 || searchOther(from, to, behind, HAS_OTHER | HAS_DIGITS, bits);
}

function searchOther(from: usize, to: usize, behind: usize, kinds: i32, bits: usize): bool {
  const copy = from + behind, end = rewrite(from, to, copy, kinds);
  if (end == 0) return false;
  const folded = 0 - 2 * distance;
  fold(copy, end, folded);
  return search(copy, end, folded, bits);
}

/** The signs that stand in a stretch whose folded copy lies so far behind it; false: too much was compared. */
function search(from: usize, to: usize, folded: usize, bits: usize): bool {
  shift = folded;
  left = LEFT_MIN + <i32>(to - from);
  stretchFrom = from;
  stretchTo = to;
  randomValue = 0;
  nineDigits = 0;
  classes = <usize>load<u32>(table, CLASSES);
  const areFew = load<u32>(table, ARE_FEW) != 0;
  for (let p = from; p < to; p += 16) {
    const f = p + shift;
    let mayStand = masked(f, 0);
    if (areFew) mayStand = v128.and(mayStand, v128.and(masked(f + 1, 32), masked(f + 2, 64)));
    const short = <u32>i8x16.bitmask(i8x16.ne(mayStand, i8x16.splat(0)));
    let set = areFew ? short : short | hashed(f);
    if (set == 0) continue;
    if (to - p < 16) set &= (1 << <u32>(to - p)) - 1;
    while (set != 0) {
      const bit = ctz(set);
      const here = p + <usize>bit;
      set &= set - 1;
      const key = load<u32>(here + shift);
      lookUp(here, key & 0xffffff, bits);
      if ((short & (1 << bit)) == 0) continue;
      lookUp(here, (key & 0xffff) | KEY_TWO, bits);
      lookUp(here, (key & 0xff) | KEY_ONE, bits);
    }
    if (left < 0) {
      memory.fill(bits, 0xff, BITS_BYTES);
      return false;
    }
  }
  return true;
}

/** The masks' bits for the bytes at sixteen positions. */
@inline function masked(folded: usize, masks: usize): v128 {
  const v = v128.load(folded);
  const low = i8x16.swizzle(v128.load(table + masks), v128.and(v, i8x16.splat(15)));
  return v128.and(low, i8x16.swizzle(v128.load(table + masks, 16), i8x16.shr_u(v, 4)));
}

/** A bit for each of sixteen positions whose three bytes may be a fingerprint. */
@inline function hashed(f: usize): u32 {
  return shows(f) | shows(f + 1) << 1 | shows(f + 2) << 2 | shows(f + 3) << 3
    | shows(f + 4) << 4 | shows(f + 5) << 5 | shows(f + 6) << 6 | shows(f + 7) << 7
    | shows(f + 8) << 8 | shows(f + 9) << 9 | shows(f + 10) << 10 | shows(f + 11) << 11
    | shows(f + 12) << 12 | shows(f + 13) << 13 | shows(f + 14) << 14 | shows(f + 15) << 15;
}

/** 1 where the three bytes there may be a fingerprint. */
@inline function shows(folded: usize): u32 {
  const hash = (load<u32>(folded) & 0xffffff) * HASH;
  return <u32>load<u8>(table + BITMAP + <usize>(hash >> 19)) >> (hash >> 16 & 7) & 1;
}

@inline function lookUp(p: usize, key: u32, bits: usize): void {
  const head = table + HEADS + (<usize>((key * HASH) >> load<u32>(table, SHIFT)) << 2);
  const count = <usize>load<u16>(head, 2);
  if (count != 0) candidates(p, key, <usize>load<u16>(head), count, bits);
}

function candidates(p: usize, key: u32, first: usize, count: usize, bits: usize): void {
  let entry = <usize>load<u32>(table, ENTRIES) + first * ENTRY_BYTES;
  const end = entry + count * ENTRY_BYTES;
  for (; entry < end; entry += ENTRY_BYTES) {
    left--;
    if (load<u32>(entry) != key) continue;
    const number = <u32>load<u16>(entry, 10);
    const word = bits + <usize>((number >> 5) << 2);
    const bit: u32 = 1 << (number & 31);
    if ((load<u32>(word) & bit) != 0) continue;
    if (stands(entry, p)) store<u32>(word, load<u32>(word) | bit);
  }
}

/** Does the sign of an entry stand there, its fingerprint at `p`? */
function stands(entry: usize, p: usize): bool {
  const elements = <usize>load<u32>(entry, 4);
  const count = <usize>load<u8>(entry, 8), place = <usize>load<u8>(entry, 9);
  left -= <i32>(count >> 2);
  let end = p, first = place;
  if (<u32>load<u16>(elements + (place << 1)) >> 8 == ELEMENT_BLANK) {
    // It is the last byte of the blanks: they are gone through backwards.
    if (at(p) != 0x20 && (p <= stretchFrom || at(p - 1) != 0x5c)) return false;
    first++;
    end++;
  }
  const from = end;
  for (let i = first; i < count; i++) {
    const element = <u32>load<u16>(elements + (i << 1));
    const kind = element >> 8, wanted = element & 0xff;
    if (kind == ELEMENT_BLANK) {
      const behind = blanks(end);
      if (behind == end) return false;
      end = behind;
      continue;
    }
    if (kind == ELEMENT_ESCAPED) while (end < stretchTo && at(end) == 0x5c) end++;
    if (end >= stretchTo || !fits(kind, wanted, at(end))) return false;
    end++;
  }
  let start = from;
  for (let i = first; i > 0; i--) {
    const element = <u32>load<u16>(elements + (i - 1 << 1));
    const kind = element >> 8, wanted = element & 0xff;
    if (kind == ELEMENT_BLANK) {
      let isBlank = false;
      while (start > stretchFrom) {
        if (at(start - 1) == 0x20) start--;
        else {
          if (!isBlankLetter(at(start - 1)) || start < stretchFrom + 2 || at(start - 2) != 0x5c) break;
          // With more than one backslash the letter may be one of the text, behind a backslash of the text.
          if (at(start - 3) == 0x5c) return true;
          start -= 2;
        }
        isBlank = true;
      }
      if (!isBlank) return false;
      continue;
    }
    if (start <= stretchFrom || !fits(kind, wanted, at(start - 1))) return false;
    start--;
    if (kind == ELEMENT_ESCAPED) while (start > stretchFrom && at(start - 1) == 0x5c) start--;
  }
  return check(<u32>load<u8>(entry, 12), start, end);
}

@inline function fits(kind: u32, wanted: u32, c: u32): bool {
  if (kind == ELEMENT_CASE) return (c | 0x20) == wanted;
  if (kind == ELEMENT_CLASS) return (load<u8>(classes + <usize>(wanted << 5) + (c >> 3)) & (1 << (c & 7))) != 0;
  return c == wanted;
}

@inline function isBlankLetter(c: u32): bool { return c == 0x6e || c == 0x74 || c == 0x72 || c == 0x66; }

/** Behind blanks and escapes of blanks, as deep inside texts as they may be. */
function blanks(p: usize): usize {
  while (p < stretchTo) {
    const c = at(p);
    if (c == 0x20) { p++; continue; }
    if (c != 0x5c) break;
    let q = p;
    while (q < stretchTo && at(q) == 0x5c) q++;
    if (!isBlankLetter(at(q))) break;
    p = q + 1;
  }
  return p;
}

const CHECK_BORDER: u32 = 1;
const CHECK_EMAIL: u32 = 2;
const CHECK_SEVEN_DIGITS: u32 = 3;
const CHECK_CARD: u32 = 4;
const CHECK_IBAN: u32 = 5;
const CHECK_NINE_DIGITS: u32 = 6;
const CHECK_SIX_GROUPS: u32 = 7;
const CHECK_RANDOM: u32 = 8;
const CHECK_TWELVE_IN_GROUPS: u32 = 9;
const CHECK_DIALLED_DIGITS: u32 = 10;
const CHECK_NINE_IN_GROUPS: u32 = 11;

/** The check of a sign beside its text (Check in policy/text-search/signs.ts). */
function check(kind: u32, start: usize, end: usize): bool {
  switch (kind) {
    case CHECK_BORDER: return isBorderBefore(start);
    case CHECK_EMAIL: return isEmail(start, end);
    case CHECK_SEVEN_DIGITS: return digitsFrom(start) >= 7;
    case CHECK_DIALLED_DIGITS: return isBorderBefore(start) && digitsFrom(start) >= 9;
    case CHECK_TWELVE_IN_GROUPS: return !isDigit(at(end)) && isBorderBefore(start) && digitsFrom(start) >= 12;
    case CHECK_NINE_IN_GROUPS: return !isDigit(at(end)) && isBorderBefore(start) && digitsFrom(start) >= 9;
    case CHECK_CARD: return isBorderBefore(start) && isCard(start);
    case CHECK_IBAN: return isBorderBefore(start) && isIban(start);
    case CHECK_NINE_DIGITS: return hasNineDigits();
    case CHECK_SIX_GROUPS: return hasSixGroups(start + 1);
    case CHECK_RANDOM: return hasRandomValue();
  }
  return true;
}

/** No letter or digit is before it, but the end of an escape or of a percent code. */
function isBorderBefore(p: usize): bool {
  if (p <= stretchFrom || !isAlnum(at(p - 1))) return true;
  if (at(p - 2) == 0x5c || at(p - 3) == 0x25) return true;
  return at(p - 5) == 0x75 && at(p - 6) == 0x5c;
}

@inline function isDomain(c: u32): bool { return isAlnum(c) || c == 0x2d || c == 0x5f || c > 0x7f || c == 0x5c; }

/** Behind a sign of `@`: a domain with a dot in it; in front: the end of a local part. */
function isEmail(start: usize, end: usize): bool {
  if (start <= stretchFrom) return false;
  const b = at(start - 1);
  if (!isAlnum(b) && b < 0x80 && b != 0x5f && b != 0x25 && b != 0x2b && b != 0x2d && b != 0x27 && !(b == 0x22 && at(start - 2) == 0x5c)) return false;
  for (let p = end; p < stretchTo; p++) {
    const c = at(p);
    if (c == 0x2e) return p > end && isDomain(at(p + 1));
    if (!isDomain(c)) return false;
  }
  return false;
}

/** Digits from there on, with what may part the groups of a number between them. */
function digitsFrom(p: usize): i32 {
  let n = 0, gap = 0;
  for (; p < stretchTo && n < 12; p++) {
    const c = at(p);
    if (isDigit(c)) { n++; gap = 0; continue; }
    if (c == 0x5c) {
      // A dot may be written as an escape, at any depth.
      if (at(p + 1) == 0x75) p += 5;
      continue;
    }
    if (c == 0x28 || c == 0x29) continue;
    if (++gap > 4) break;
    if (c > 0x7f || c == 0x20 || (c >= 0x2b && c <= 0x2f && c != 0x2c) || c == 0x5f || c == 0x25 || c == 0x3a) continue;
    break;
  }
  return n;
}

@inline function runEnd(p: usize): usize {
  while (p < stretchTo && isDigit(at(p))) p++;
  return p;
}

/** 12 to 19 digits in one piece: first digit of a network, checksum. */
function isCard(start: usize): bool {
  const end = runEnd(start), n = end - start;
  if (n < 12 || n > 19 || isLetter(at(end)) || at(start) - 0x32 > 4) return false;
  let sum: u32 = 0, twice = false;
  for (let p = end; p > start; twice = !twice) {
    let d = at(--p) - 0x30;
    if (twice) { d <<= 1; if (d > 9) d -= 9; }
    sum += d;
  }
  return sum % 10 == 0;
}

/** Letters and digits, as many as the country's have, with separators between; mod 97. */
function isIban(start: usize): bool {
  const length = <i32>load<u8>(ibans + <usize>(((at(start) | 0x20) - 0x61) * 26 + (at(start + 1) | 0x20) - 0x61));
  if (length == 0) return false;
  let n = 0, gap = 0, rest: u32 = 0, head: u32 = 0;
  for (let p = start; n < length; p++) {
    if (p >= stretchTo) return false;
    const c = at(p);
    if (c == 0x5c) {
      // A dot may be written as an escape, at any depth.
      if (at(p + 1) == 0x75) p += 5;
      continue;
    }
    if (!isAlnum(c)) {
      if (++gap > 3 || (c != 0x20 && c < 0x80 && (c < 0x2b || c > 0x2f) && c != 0x3a && c != 0x5f && c != 0x25)) return false;
      // %20
      if (c == 0x25) { if (at(p + 1) != 0x32 || at(p + 2) != 0x30) return false; p += 2; }
      continue;
    }
    gap = 0;
    const value = isDigit(c) ? c - 0x30 : (c | 0x20) - 0x57;
    if (n < 4) head = isDigit(c) ? head * 10 + value : head * 100 + value;
    else rest = (isDigit(c) ? rest * 10 + value : rest * 100 + value) % 97;
    n++;
  }
  // Country and check digits go behind the rest: two letters and two digits make six.
  return (<u64>rest * 1000000 + <u64>head) % 97 == 1;
}

/** `p`: of a colon; five further groups of hex digits, each with a colon behind it. */
function hasSixGroups(p: usize): bool {
  for (let k = 0; k < 5; k++) {
    if (at(p) != 0x3a) return false;
    const from = ++p;
    while (p < stretchTo && isHex(at(p)) && p - from < 5) p++;
    if (p == from || p - from > 4) return false;
  }
  return at(p) == 0x3a;
}

/** Is there, anywhere in the stretch, a row of just nine digits? */
function hasNineDigits(): bool {
  if (nineDigits == 0) nineDigits = lookForNineDigits() ? 2 : 1;
  return nineDigits == 2;
}

function lookForNineDigits(): bool {
  for (let p = stretchFrom; p < stretchTo; p++) {
    if (!isDigit(at(p))) continue;
    const end = runEnd(p);
    // What is before it may be the end of an escape or of a percent code.
    if (end - p >= 9 && end - p <= 13) return true;
    p = end;
  }
  return false;
}

@inline function isOfValue(c: u32): bool {
  return isAlnum(c) || c == 0x5f || c == 0x2d || c == 0x2e || c == 0x2b || c == 0x2f || c == 0x3d || c == 0x7e || c == 0x5c;
}

/** Is there, anywhere in the stretch, a row of twenty characters in which letters and digits change three times? */
function hasRandomValue(): bool {
  if (randomValue == 0) randomValue = lookForRandomValue() ? 2 : 1;
  return randomValue == 2;
}

function lookForRandomValue(): bool {
  let n = 0, changes = 0, before = 0;
  for (let p = stretchFrom; p < stretchTo; p++) {
    const c = at(p);
    if (!isOfValue(c)) { n = 0; changes = 0; before = 0; continue; }
    const kind = isDigit(c) ? 1 : isLetter(c) ? 2 : 0;
    if (kind != 0 && before != 0 && kind != before) changes++;
    before = kind;
    if (++n >= 20 && changes >= 3) return true;
  }
  return false;
}
