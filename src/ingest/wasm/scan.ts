// Reads a body of plain events in one pass: checks the JSON and the form of each event, and writes a record of where its fields
// lie (record.ts). Conservative: what it is not sure to understand as JSON.parse and the schema would is not plain, and `scan`
// answers 0. Keys with escapes, keys that may stand twice in an object (equal hashes), and anything that does not fit are such.
// That the body is UTF-8 has been checked before; behind it lie at least 16 bytes that may be read as well.
import { find } from './find';
import {
  BITS,
  EVENTS_MAX,
  F_COUNT,
  F_ODD,
  F_TOOL,
  F_TOOL_ODD,
  F_U,
  F_USED,
  FLAGS,
  MODEL,
  PAYLOAD,
  RECORD,
  recordOf,
  TIME,
  TOKEN_COUNT,
  TOKENS_USED,
  TOOL,
  TRACE,
} from './record';

const QUOTE: u32 = 0x22;
const BACKSLASH: u32 = 0x5c;
const DEPTH_MAX: i32 = 64;
/** Keys of one object that are compared with each other; an object with more is not plain. */
const KEYS_MAX: i32 = 64;

let p: usize = 0;
let end: usize = 0;
/** Cleared by whatever is not plain; every caller looks at it before it goes on. */
let ok: bool = true;
let flags: i32 = 0;
/** Hashes of the keys of the objects that are open: KEYS_MAX u32 for each depth from 0 to DEPTH_MAX. */
let keyHashes: usize = 0;

export function placeKeyHashes(at: usize): void {
  keyHashes = at;
}

@inline function space(): void {
  while (p < end) {
    const c = <u32>load<u8>(p);
    if (c > 0x20 || (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09)) return;
    p++;
  }
}

@inline function hex(c: u32): i32 {
  if (c - 0x30 <= 9) return <i32>(c - 0x30);
  const l = c | 0x20;
  if (l - 0x61 <= 5) return <i32>(l - 0x61 + 10);
  return -1;
}

/** Four hexadecimal digits at `at`, or -1. */
function hex4(at: usize): i32 {
  if (at + 4 > end) return -1;
  const a = hex(load<u8>(at)), b = hex(load<u8>(at, 1)), c = hex(load<u8>(at, 2)), d = hex(load<u8>(at, 3));
  if ((a | b | c | d) < 0) return -1;
  return (a << 12) | (b << 8) | (c << 4) | d;
}

/** Behind the backslash. Clears `ok` if it is no escape. */
function escape(): void {
  if (p >= end) { ok = false; return; }
  switch (<u32>load<u8>(p++)) {
    case 0x5c: if (p < end && load<u8>(p) == 0x75) flags |= F_U; return;
    case 0x22: case 0x2f: case 0x62: case 0x66: case 0x6e: case 0x72: case 0x74: return;
    case 0x75:
      flags |= F_U;
      if (hex4(p) >= 0) { p += 4; return; }
  }
  ok = false;
}

/** Behind the opening quote; leaves p behind the closing one. `ok` is cleared if there is none, or a control character. */
function text(): void {
  while (p < end) {
    // The body is followed by 16 bytes of ours, so that a whole vector can always be read.
    const v = v128.load(p);
    const odd = <u32>i8x16.bitmask(v128.or(v128.or(i8x16.eq(v, i8x16.splat(0x22)), i8x16.eq(v, i8x16.splat(0x5c))), i8x16.lt_u(v, i8x16.splat(0x20))));
    if (odd == 0) { p += 16; continue; }
    p += <usize>ctz(odd);
    if (p >= end) break;
    const c = <u32>load<u8>(p++);
    if (c == QUOTE) return;
    if (c != BACKSLASH) { ok = false; return; }
    escape();
    if (!ok) return;
  }
  ok = false;
}

/** Whether the string that ends before p - 1 and began at `start` holds no escape and nothing but ASCII. */
function plain(start: usize, stop: usize): bool {
  for (let at = start; at < stop; at++) {
    const c = <u32>load<u8>(at);
    if (c >= 0x80 || c == BACKSLASH) return false;
  }
  return true;
}

/** A key, behind its opening quote. No escapes; not twice in its object, as far as its hash can tell. */
function key(depth: i32, count: i32): void {
  const start = p;
  text();
  if (!ok) return;
  let hash: u32 = 0x811c9dc5;
  for (let at = start; at < p - 1; at++) {
    const c = <u32>load<u8>(at);
    if (c == BACKSLASH) { ok = false; return; }
    hash = (hash ^ c) * 0x01000193;
  }
  if (count >= KEYS_MAX) { ok = false; return; }
  const row = keyHashes + <usize>(depth * KEYS_MAX) * 4;
  for (let i = 0; i < count; i++) {
    if (load<u32>(row + <usize>i * 4) == hash) { ok = false; return; }
  }
  store<u32>(row + <usize>count * 4, hash);
}

@inline function digit(c: u32): bool { return c - 0x30 <= 9; }

function number(): void {
  if (p < end && load<u8>(p) == 0x2d) p++;
  if (p >= end) { ok = false; return; }
  const c = <u32>load<u8>(p);
  if (c == 0x30) p++;
  else if (digit(c)) { do { p++; } while (p < end && digit(load<u8>(p))); }
  else { ok = false; return; }
  if (p < end && load<u8>(p) == 0x2e) {
    p++;
    if (p >= end || !digit(load<u8>(p))) { ok = false; return; }
    do { p++; } while (p < end && digit(load<u8>(p)));
  }
  if (p < end && (<u32>load<u8>(p) | 0x20) == 0x65) {
    p++;
    if (p < end && (load<u8>(p) == 0x2b || load<u8>(p) == 0x2d)) p++;
    if (p >= end || !digit(load<u8>(p))) { ok = false; return; }
    do { p++; } while (p < end && digit(load<u8>(p)));
  }
}

function word(a: u32): void {
  // true, null: as one 32-bit word; false: its first four, then e
  if (p + 4 > end) { ok = false; return; }
  const w = load<u32>(p);
  if (w == 0x65757274 || w == 0x6c6c756e) { p += 4; return; }
  if (w == 0x736c6166 && p + 5 <= end && load<u8>(p, 4) == 0x65) { p += 5; return; }
  ok = false;
}

/** Any value, p at its first character. `depth`: of the containers around it. */
function value(depth: i32): void {
  if (p >= end) { ok = false; return; }
  const c = <u32>load<u8>(p);
  if (c == QUOTE) { p++; text(); }
  else if (c == 0x7b) object(depth + 1);
  else if (c == 0x5b) array(depth + 1);
  else if (c == 0x2d || digit(c)) number();
  else word(c);
}

function array(depth: i32): void {
  if (depth > DEPTH_MAX) { ok = false; return; }
  p++;
  space();
  if (p < end && load<u8>(p) == 0x5d) { p++; return; }
  while (true) {
    space();
    value(depth);
    if (!ok) return;
    space();
    if (p >= end) { ok = false; return; }
    const c = <u32>load<u8>(p++);
    if (c == 0x5d) return;
    if (c != 0x2c) { ok = false; return; }
  }
}

/** Reads a key and its colon; p is at the value then. */
@inline function member(depth: i32, count: i32): usize {
  space();
  if (p >= end || load<u8>(p) != 0x22) { ok = false; return 0; }
  const start = ++p;
  key(depth, count);
  if (!ok) return 0;
  const stop = p - 1;
  space();
  if (p >= end || load<u8>(p) != 0x3a) { ok = false; return 0; }
  p++;
  space();
  return stop;
}

/** Behind a member's value: true if another member follows. */
@inline function another(): bool {
  space();
  if (p >= end) { ok = false; return false; }
  const c = <u32>load<u8>(p++);
  if (c == 0x2c) return true;
  if (c != 0x7d) ok = false;
  return false;
}

function object(depth: i32): void {
  if (depth > DEPTH_MAX) { ok = false; return; }
  p++;
  space();
  if (p < end && load<u8>(p) == 0x7d) { p++; return; }
  let count = 0;
  do {
    member(depth, count++);
    if (!ok) return;
    value(depth);
    if (!ok) return;
  } while (another());
}

@inline function place(at: usize, start: usize, stop: usize): void {
  store<u32>(at, <u32>start);
  store<u32>(at, <u32>stop, 4);
}

@inline function is4(at: usize, w: u32): bool { return load<u32>(at) == w; }

/** The payload: an object whose own keys tell of columns. `base` is the body's start, `r` the event's record. */
function payload(depth: i32, r: usize, base: usize): void {
  if (p >= end || load<u8>(p) != 0x7b) { ok = false; return; }
  store<u32>(r + PAYLOAD, <u32>(p - base));
  p++;
  space();
  if (p < end && load<u8>(p) == 0x7d) p++;
  else {
    let count = 0;
    do {
      space();
      const start = p + 1;
      const stop = member(depth, count++);
      if (!ok) return;
      const from = p;
      value(depth);
      if (!ok) return;
      column(start, stop - start, from, r, base);
    } while (another());
    if (!ok) return;
  }
  store<u32>(r + PAYLOAD, <u32>(p - base), 4);
}

function column(name: usize, length: usize, from: usize, r: usize, base: usize): void {
  if (length == 4) {
    if (!is4(name, 0x6c6f6f74)) return; // tool
    if (load<u8>(from) == 0x22 && plain(from + 1, p - 1)) {
      flags |= F_TOOL;
      place(r + TOOL, from + 1 - base, p - 1 - base);
    } else flags |= F_TOOL_ODD;
  } else if (length == 5) {
    if (!is4(name, 0x65646f6d) || load<u8>(name, 4) != 0x6c) return; // model
    if (load<u8>(from) != 0x22) return; // no text, no model
    if (p - from - 2 > 200 || !plain(from + 1, p - 1)) { flags |= F_ODD; return; }
    place(r + MODEL, from + 1 - base, p - 1 - base);
  } else if (length == 11) {
    if (is4(name, 0x656b6f74) && is4(name + 4, 0x6f635f6e) && is4(name + 7, 0x746e756f)) whole(from, r, TOKEN_COUNT, F_COUNT); // token_count
    else if (is4(name, 0x656b6f74) && is4(name + 4, 0x755f736e) && is4(name + 7, 0x64657375)) whole(from, r, TOKENS_USED, F_USED); // tokens_used
  }
}

/** A whole number of at most 15 digits, as f64. Another number is looked at elsewhere; what is no number is no count. */
function whole(from: usize, r: usize, at: usize, flag: i32): void {
  const c = <u32>load<u8>(from);
  if (!digit(c) && c != 0x2d) return;
  if (c == 0x2d || p - from > 15) { flags |= F_ODD; return; }
  let sum: f64 = 0;
  for (let i = from; i < p; i++) {
    const d = <u32>load<u8>(i);
    if (!digit(d)) { flags |= F_ODD; return; }
    sum = sum * 10 + <f64>(d - 0x30);
  }
  flags |= flag;
  store<f64>(r + at, sum);
}

/** One event: type, payload, trace_id?, timestamp?, and nothing else. */
function event(depth: i32, r: usize, base: usize): void {
  if (p >= end || load<u8>(p) != 0x7b) { ok = false; return; }
  memory.fill(r, 0, RECORD);
  store<i32>(r, -1);
  flags = 0;
  p++;
  let count = 0;
  let seen = 0;
  do {
    space();
    const start = p + 1;
    const stop = member(depth, count++);
    if (!ok) return;
    const length = stop - start;
    if (length == 7 && is4(start, 0x6c796170) && is4(start + 3, 0x64616f6c)) { // payload
      const from = p;
      payload(depth + 1, r, base);
      if (!ok) return;
      find(from, p, r + BITS);
      seen |= 1;
    } else if (length == 4 && is4(start, 0x65707974)) { // type
      kind(r);
      if (!ok) return;
      seen |= 2;
    } else if (length == 8 && load<u64>(start) == 0x64695f6563617274) { // trace_id
      if (!ascii(r, TRACE, 200, base)) return;
    } else if (length == 9 && load<u64>(start) == 0x6d617473656d6974 && load<u8>(start, 8) == 0x70) { // timestamp
      if (!ascii(r, TIME, 40, base)) return;
    } else { ok = false; return; }
  } while (another());
  if (seen != 3) ok = false;
  store<i32>(r, flags, FLAGS);
}

/** A string of 1 to `max` plain characters; its place goes into the record. */
function ascii(r: usize, at: usize, max: usize, base: usize): bool {
  if (p >= end || load<u8>(p) != 0x22) { ok = false; return false; }
  const start = ++p;
  text();
  if (!ok) return false;
  const stop = p - 1;
  if (stop == start || stop - start > max || !plain(start, stop)) { ok = false; return false; }
  place(r + at, start - base, stop - base);
  return true;
}

function kind(r: usize): void {
  if (p + 2 > end || load<u8>(p) != 0x22) { ok = false; return; }
  const start = ++p;
  text();
  if (!ok) return;
  const length = p - 1 - start;
  let type = -1;
  if (length == 9 && load<u64>(start) == 0x6c61635f6c6f6f74 && load<u8>(start, 8) == 0x6c) type = 2; // tool_call
  else if (length == 10 && load<u64>(start) == 0x6974656c706d6f63 && load<u16>(start, 8) == 0x6e6f) type = 1; // completion
  else if (length == 6 && is4(start, 0x6d6f7270) && load<u16>(start, 4) == 0x7470) type = 0; // prompt
  else if (length == 6 && is4(start, 0x74737563) && load<u16>(start, 4) == 0x6d6f) type = 4; // custom
  else if (length == 5 && is4(start, 0x6f727265) && load<u8>(start, 4) == 0x72) type = 3; // error
  if (type < 0) ok = false;
  else store<i32>(r, type);
}

/** Returns the number of events, or 0: not plain. `many`: a batch. */
export function scan(base: usize, length: usize, many: bool): i32 {
  p = base;
  end = base + length;
  ok = true;
  let n = 0;
  space();
  if (!many) {
    event(1, recordOf(0), base);
    n = 1;
  } else {
    let depth = 1;
    let wrapped = false;
    if (p < end && load<u8>(p) == 0x7b) {
      wrapped = true;
      depth = 2;
      p++;
      space();
      const start = p + 1;
      const stop = member(1, 0);
      if (!ok) return 0;
      if (stop - start != 6 || !is4(start, 0x6e657665) || load<u16>(start, 4) != 0x7374) return 0; // events
    }
    if (p >= end || load<u8>(p) != 0x5b) return 0;
    p++;
    while (true) {
      space();
      if (n == EVENTS_MAX) return 0;
      event(depth + 1, recordOf(n), base);
      if (!ok) return 0;
      n++;
      space();
      if (p >= end) return 0;
      const c = <u32>load<u8>(p++);
      if (c == 0x5d) break;
      if (c != 0x2c) return 0;
    }
    if (wrapped && another()) return 0;
  }
  if (!ok) return 0;
  space();
  return p == end ? n : 0;
}
