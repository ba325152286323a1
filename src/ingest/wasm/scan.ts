// Reads a body of plain events in one pass: checks the JSON and the form of each event, and writes a record of where
// its fields lie (layout.ts). Conservative: what it is not sure to understand as JSON.parse and the schema would is not
// plain, and `scan` answers 0. Keys with escapes, keys that may stand twice in an object (equal hashes), and anything
// that does not fit are such. What reads something takes the position where it begins and answers the position behind
// it, or 0: not plain. So the position stays in a register; kept in a global it went through memory a hundred times an
// event. That the body is UTF-8 has been checked before; behind it lie at least 16 bytes that may be read as well.
import {
  BITS,
  EVENTS_MAX,
  F_COLUMN_OTHER,
  F_COUNT,
  F_ESCAPED,
  F_ESCAPED_INSIDE,
  F_ODD,
  F_USED,
  FLAGS,
  FORMS,
  FORMS_MAX,
  MODEL,
  PAYLOAD,
  RECORD_BYTES,
  TIME,
  TOKEN_COUNT,
  TOKENS_USED,
  TRACE,
} from './layout';
import { recordOf } from './record';
import { findSigns, foldedAt, hasSigns } from './signs';
import { digit, hashOf, is4, isDots, isUnit, oddOnes, plain, typeOf } from './bytes';
import { mayBeginJson, mayHoldJson, unescape } from './inner-text';
import { beginUsage, isHolder, isUsage, noteUsage, usageTotal } from './usage';
import { hasBelow, memberOf, noteElsewhere, noteValue, watchPayload } from './watched';

const QUOTE: u32 = 0x22;
const BACKSLASH: u32 = 0x5c;
const COLON: u32 = 0x3a;
const COMMA: u32 = 0x2c;
const OBJECT: u32 = 0x7b;
const OBJECT_END: u32 = 0x7d;
const ARRAY: u32 = 0x5b;
const ARRAY_END: u32 = 0x5d;
const MINUS: u32 = 0x2d;
const DEPTH_MAX: i32 = 64;
/** Keys of one object that are compared with each other; an object with more is not plain. */
const KEYS_MAX: i32 = 64;

/** The first position of the body, and the first behind it. */
let bodyAt: usize = 0;
let end: usize = 0;
/** The flags of the event at hand. */
let flags: i32 = 0;
let record: usize = 0;
/** Its payload has a `tokens_used` that is not null; objects in it that hold token counts as providers write them. */
let isUsedSaid: bool = false;
let usages: i32 = 0;
/** In how many texts inside texts what is read lies. */
let innerLevel: i32 = 0;
/** As common/inner-json.ts has it. */
const INNER_LEVELS_MAX: i32 = 3;
/** Hashes of the keys of the objects that are open: KEYS_MAX u32 for each depth from 0 to DEPTH_MAX. */
let keyHashes: usize = 0;

export function placeKeyHashes(at: usize): void {
  keyHashes = at;
}

/** The character there; 0, which no JSON has, at the end. */
@inline function at(p: usize): u32 {
  return p < end ? <u32>load<u8>(p) : 0;
}

@inline function space(p: usize): usize {
  while (p < end) {
    const c = <u32>load<u8>(p);
    if (c > 0x20 || (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09)) break;
    p++;
  }
  return p;
}

function isHex4(p: usize): bool { return p + 4 <= end && isUnit(p); }

/** Inside of a text it is for the engine to read, but for what was noted where it stands. */
@inline function noteEscape(isOfCodePoint: bool): void {
  if (innerLevel == 0) flags |= F_ESCAPED;
  else if (innerLevel > 1 || !isOfCodePoint) flags |= F_ODD;
}

/** Behind the backslash. */
function escape(p: usize): usize {
  switch (at(p++)) {
    case 0x5c:
      // An escape of text inside text, or further inside.
      if (at(p) == 0x75 && isHex4(p + 1)) flags |= innerLevel == 0 && at(p - 3) != BACKSLASH ? F_ESCAPED_INSIDE : F_ODD;
      return p;
    case 0x22: case 0x2f: case 0x66: case 0x6e: case 0x72: case 0x74: return p;
    case 0x62: noteEscape(false); return p; // a control character is folded
    case 0x75: noteEscape(true); return isHex4(p) ? p + 4 : 0;
  }
  return 0;
}

/** Behind the opening quote. */
function text(p: usize): usize {
  while (p < end) {
    const odd = oddOnes(p);
    if (odd == 0) { p += 16; continue; }
    p += <usize>ctz(odd);
    if (p >= end) return 0;
    const c = <u32>load<u8>(p++);
    if (c == QUOTE) return p;
    if (c != BACKSLASH) return 0;
    p = escape(p);
    if (p == 0) return 0;
  }
  return 0;
}

/** The same, of text without escapes. */
@inline function literal(p: usize): usize {
  while (p < end) {
    const odd = oddOnes(p);
    if (odd == 0) { p += 16; continue; }
    p += <usize>ctz(odd);
    return at(p) == QUOTE ? p + 1 : 0;
  }
  return 0;
}

/** One digit at least. */
@inline function digits(p: usize): usize {
  if (!digit(at(p))) return 0;
  do { p++; } while (digit(at(p)));
  return p;
}

function number(p: usize): usize {
  if (at(p) == MINUS) p++;
  p = at(p) == 0x30 ? p + 1 : digits(p);
  if (p != 0 && at(p) == 0x2e) p = digits(p + 1);
  if (p != 0 && (at(p) | 0x20) == 0x65) {
    p++;
    // A whole number that is written with an exponent has digits that do not stand there.
    if (at(p) == MINUS) p++;
    else {
      flags |= F_ODD;
      if (at(p) == 0x2b) p++;
    }
    p = digits(p);
  }
  return p;
}

/** true, null: as one 32-bit word; false: its first four, then e. */
function word(p: usize): usize {
  if (p + 4 > end) return 0;
  const w = load<u32>(p);
  if (w == 0x65757274 || w == 0x6c6c756e) return p + 4;
  return w == 0x736c6166 && at(p + 4) == 0x65 ? p + 5 : 0;
}

/** Notes a string that may hold JSON which is not read here. */
function noteForm(open: usize, stop: usize): void {
  const count = load<u32>(record, FORMS);
  if (count == FORMS_MAX) { flags |= F_ODD; return; }
  store<u32>(record, count + 1, FORMS);
  place(record + FORMS + 4 + (<usize>count << 3), open - bodyAt, stop - bodyAt);
}

/**
 * Says whether a string holds one document of JSON as it is written, whose own strings are all texts or such documents:
 * then its texts stand in its bytes. What is watched below the node and is found in it is noted. `depth`: of the
 * containers around it.
 */
function isDocument(open: usize, stop: usize, depth: i32, node: usize): bool {
  if (innerLevel == INNER_LEVELS_MAX) return false;
  const from = innerLevel == 0 ? foldedAt(open) : open;
  const to = unescape(open + 1, stop - 1, from);
  if (to == 0) return false;
  const outerEnd = end, outerFlags = flags;
  end = to;
  innerLevel++;
  let p = space(from);
  p = at(p) == OBJECT ? object(p + 1, depth + 1, node, PLAIN) : at(p) == ARRAY ? value(p, depth, node) : 0;
  const isWhole = p != 0 && space(p) == end;
  innerLevel--;
  end = outerEnd;
  if (!isWhole) flags = outerFlags;
  return isWhole;
}

function string(p: usize, depth: i32, node: usize): usize {
  const stop = text(p + 1);
  if (stop == 0) return 0;
  const mayHold = (hasSigns() || innerLevel > 0 || hasBelow(node)) && mayHoldJson(p + 1);
  if (mayHold && isDocument(p, stop, depth, node)) return stop;
  if (hasBelow(node) && mayBeginJson(at(p + 1))) noteElsewhere(node);
  if (!mayHold) return stop;
  if (innerLevel > 0) return 0;
  noteForm(p, stop);
  return stop;
}

/** Any value. `depth`: of the containers around it; `node`: by which it is watched. */
function value(p: usize, depth: i32, node: usize): usize {
  const c = at(p);
  if (c == QUOTE) return string(p, depth, node);
  if (c == OBJECT) return object(p + 1, depth + 1, node, PLAIN);
  if (c == ARRAY) {
    if (hasBelow(node)) noteElsewhere(node);
    return array(p + 1, depth + 1);
  }
  return c == MINUS || digit(c) ? number(p) : word(p);
}

/** Behind its bracket. */
function array(p: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  p = space(p);
  if (at(p) == ARRAY_END) return p + 1;
  while (true) {
    p = value(space(p), depth, 0);
    if (p == 0) return 0;
    p = space(p);
    const c = at(p++);
    if (c == ARRAY_END) return p;
    if (c != COMMA) return 0;
  }
}

/** The key of the member that was begun last. */
let keyStart: usize = 0;
let keyLength: usize = 0;
let keyHash: u32 = 0;

/**
 * The value of the next member, whose key is not twice in its object, as far as its hash shows. `count`: of keys
 * before it.
 */
function member(p: usize, depth: i32, count: i32): usize {
  p = named(space(p));
  if (p == 0 || count >= KEYS_MAX) return 0;
  const hash = hashOf(keyStart, keyLength);
  const row = keyHashes + <usize>(depth * KEYS_MAX) * 4;
  for (let i = 0; i < count; i++) if (load<u32>(row + <usize>i * 4) == hash) return 0;
  store<u32>(row + <usize>count * 4, hash);
  keyHash = hash;
  return p;
}

/** The value behind a key and its colon, whatever the key is. */
@inline function named(p: usize): usize {
  if (at(p) != QUOTE) return 0;
  keyStart = p + 1;
  p = literal(keyStart);
  if (p == 0) return 0;
  keyLength = p - 1 - keyStart;
  p = space(p);
  return at(p) == COLON ? space(p + 1) : 0;
}

/** The node of that member; 0: it is not watched. Inside of a text it is elsewhere. */
@inline function watchedMember(node: usize): usize {
  if (node == 0) return 0;
  const member = memberOf(node, keyHash, keyStart, keyLength);
  if (member == 0 || innerLevel == 0) return member;
  noteElsewhere(node);
  return 0;
}

/** The kinds of objects in an event, beside JSON. */
const PLAIN: i32 = 0, PAYLOAD_ITSELF: i32 = 1, HOLDER: i32 = 2, USAGE: i32 = 3;

/** Behind its brace. */
function object(p: usize, depth: i32, node: usize, kind: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  p = space(p);
  if (at(p) == OBJECT_END) return p + 1;
  let count = 0;
  while (true) {
    const content = member(p, depth, count++);
    if (content == 0) return 0;
    const start = keyStart, length = keyLength;
    const inner = watchedMember(node);
    p = kind == PLAIN ? value(content, depth, inner) : memberOfKind(content, depth, inner, kind);
    if (p == 0) return 0;
    if (inner != 0) noteValue(inner, content - bodyAt, p - bodyAt);
    if (kind == PAYLOAD_ITSELF) column(start, length, content, p, record);
    else if (kind == USAGE) noteUsage(start, length, content, p);
    p = space(p);
    const c = at(p++);
    if (c == OBJECT_END) return p;
    if (c != COMMA) return 0;
  }
}

/** Any value, of the member that was begun last: an object may hold counts of tokens, or what does. */
function memberOfKind(p: usize, depth: i32, node: usize, kind: i32): usize {
  if (at(p) == OBJECT && kind != USAGE) {
    if (isUsage(keyStart, keyLength)) {
      usages++;
      return object(p + 1, depth + 1, node, USAGE);
    }
    if (kind == PAYLOAD_ITSELF && isHolder(keyStart, keyLength)) return object(p + 1, depth + 1, node, HOLDER);
  }
  return value(p, depth, node);
}

@inline function place(record: usize, start: usize, stop: usize): void {
  store<u32>(record, <u32>start);
  store<u32>(record, <u32>stop, 4);
}

/** The payload: an object whose own keys give columns. `r`: the event's record. */
function payload(p: usize, depth: i32, r: usize): usize {
  if (at(p) != OBJECT) return 0;
  const from = p;
  isUsedSaid = false;
  usages = 0;
  beginUsage();
  p = object(p + 1, depth, watchPayload(r), PAYLOAD_ITSELF);
  if (p == 0) return 0;
  if (usages > 0 && !isUsedSaid) use(r);
  place(r + PAYLOAD, from - bodyAt, p - bodyAt);
  return p;
}

/**
 * The token counts of providers become the event's. Of several such objects the first counts: that is looked
 * at elsewhere.
 */
function use(r: usize): void {
  const total = usageTotal();
  if (usages > 1 || total == -2) flags |= F_COLUMN_OTHER;
  else if (total >= 0) {
    flags |= F_USED;
    store<f64>(r, total, TOKENS_USED);
  }
}

/** A member of the payload, its value from `from` to `to`. */
@inline function column(name: usize, length: usize, from: usize, to: usize, r: usize): void {
  if (length == 5) {
    if (!is4(name, 0x65646f6d) || load<u8>(name, 4) != 0x6c) return; // model
    if (load<u8>(from) != QUOTE) return; // no text, no model
    if (to - from - 2 > 200 || !plain(from + 1, to - 1)) { flags |= F_COLUMN_OTHER; return; }
    place(r + MODEL, from + 1 - bodyAt, to - 1 - bodyAt);
  } else if (length == 11) {
    if (is4(name, 0x656b6f74) && is4(name + 4, 0x6f635f6e) && is4(name + 7, 0x746e756f)) whole(from, to, r, TOKEN_COUNT, F_COUNT); // token_count
    else if (is4(name, 0x656b6f74) && is4(name + 4, 0x755f736e) && is4(name + 7, 0x64657375)) { // tokens_used
      isUsedSaid = load<u8>(from) != 0x6e; // not null
      whole(from, to, r, TOKENS_USED, F_USED);
    }
  }
}

/**
 * A whole number of at most 15 digits, as f64. Another number is inspected elsewhere; what is no number is no count.
 */
function whole(from: usize, to: usize, r: usize, field: usize, flag: i32): void {
  const c = <u32>load<u8>(from);
  if (!digit(c) && c != MINUS) return;
  if (c == MINUS || to - from > 15) { flags |= F_COLUMN_OTHER; return; }
  let sum: u64 = 0;
  for (let i = from; i < to; i++) {
    const d = <u32>load<u8>(i);
    if (!digit(d)) { flags |= F_COLUMN_OTHER; return; }
    sum = sum * 10 + <u64>(d - 0x30);
  }
  flags |= flag;
  store<f64>(r + field, <f64>sum);
}

/** One event: type, payload, trace_id?, timestamp?, and nothing else. */
function event(p: usize, depth: i32, r: usize): usize {
  if (at(p) != OBJECT) return 0;
  for (let i: usize = 0; i < <usize>RECORD_BYTES; i += 16) v128.store(r + i, i8x16.splat(0));
  store<i32>(r, -1);
  flags = 0;
  record = r;
  p++;
  let count = 0;
  let seen = 0;
  while (true) {
    const content = member(p, depth, count++);
    if (content == 0) return 0;
    const start = keyStart;
    const length = keyLength;
    if (length == 7 && is4(start, 0x6c796170) && is4(start + 3, 0x64616f6c)) { // payload
      p = payload(content, depth + 1, r);
      if (p == 0) return 0;
      if (findSigns(content, p, r + BITS, flags & (F_ESCAPED | F_ESCAPED_INSIDE))) flags |= F_ODD;
      seen |= 1;
    } else if (length == 4 && is4(start, 0x65707974)) { // type
      p = kind(content, r);
      seen |= 2;
    } else if (length == 8 && load<u64>(start) == 0x64695f6563617274) { // trace_id
      if (isNull(content)) p = content + 4;
      else {
        p = ascii(content, r, TRACE, 200);
        if (p == 0 || isDots(content, p)) return 0;
        if (findSigns(content, p, r + BITS, 0)) flags |= F_ODD;
      }
    } else if (length == 9 && load<u64>(start) == 0x6d617473656d6974 && load<u8>(start, 8) == 0x70) { // timestamp
      p = isNull(content) ? content + 4 : ascii(content, r, TIME, 40);
    } else return 0;
    if (p == 0) return 0;
    p = space(p);
    const c = at(p++);
    if (c == OBJECT_END) break;
    if (c != COMMA) return 0;
  }
  store<i32>(r, flags, FLAGS);
  return seen == 3 ? p : 0;
}

/** The same as a field that is left out. What follows the word shows whether it is one. */
@inline function isNull(p: usize): bool { return at(p) == 0x6e && p + 4 <= end && is4(p, 0x6c6c756e); }

/** A string of 1 to `max` plain characters; its position goes into the record. */
function ascii(p: usize, r: usize, field: usize, max: usize): usize {
  if (at(p) != QUOTE) return 0;
  const start = p + 1;
  p = literal(start);
  if (p == 0) return 0;
  const stop = p - 1;
  if (stop == start || stop - start > max || !plain(start, stop)) return 0;
  place(r + field, start - bodyAt, stop - bodyAt);
  return p;
}

function kind(p: usize, r: usize): usize {
  if (at(p) != QUOTE) return 0;
  const start = p + 1;
  p = literal(start);
  if (p == 0) return 0;
  const length = p - 1 - start;
  const type = typeOf(start, length);
  if (type < 0) return 0;
  store<i32>(r, type);
  return p;
}

/** Returns the number of events, or 0: not plain. `many`: a batch. */
export function scan(base: usize, length: usize, many: bool): i32 {
  bodyAt = base;
  end = base + length;
  let p = space(base);
  let events = 1;
  if (many) {
    const isWrapped = at(p) == OBJECT;
    if (isWrapped) {
      p = named(space(p + 1));
      if (p == 0 || keyLength != 6 || !is4(keyStart, 0x6e657665) || load<u16>(keyStart, 4) != 0x7374) return 0; // events
    }
    if (at(p) != ARRAY) return 0;
    events = 0;
    do {
      if (events == EVENTS_MAX) return 0;
      p = event(space(p + 1), isWrapped ? 3 : 2, recordOf(events));
      if (p == 0) return 0;
      events++;
      p = space(p);
    } while (at(p) == COMMA);
    if (at(p) != ARRAY_END) return 0;
    if (isWrapped) {
      p = space(p + 1);
      if (at(p) != OBJECT_END) return 0;
    }
    p++;
  } else {
    p = event(p, 1, recordOf(0));
    if (p == 0) return 0;
  }
  return space(p) == end ? events : 0;
}
