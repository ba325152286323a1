// Writes row, summary and reply of an event that nothing has matched, from its record and texts that lie ready.
import {
  F_COUNT,
  F_USED,
  FLAGS,
  MODEL,
  PAYLOAD,
  RANDOM_BYTES,
  REPLY_AGENT,
  REPLY_HEAD,
  REPLY_RECEIVED,
  REPLY_TAIL,
  REPLY_TIME,
  REPLY_TRACE,
  REPLY_TYPE,
  ROW_HEAD,
  ROW_MIDDLE,
  ROW_TAIL,
  ROW_TYPE,
  SUMMARY_HEAD,
  SUMMARY_NO_TRACE,
  SUMMARY_OWNER,
  SUMMARY_TRACE,
  SUMMARY_TYPE,
  TEXT_BYTES,
  TIME_BYTES,
  TIME_DIGITS,
  TIME_DIGITS_LENGTH,
  TIME_ISO,
  TIME_ISO_LENGTH,
  TIME_MICROS,
  TOKEN_COUNT,
  TOKENS_USED,
  TRACE,
} from './layout';
import { recordOf } from './record';

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const ARRAY_END: u32 = 0x5d;
/** The texts that are the same for all events of a request. */
let blocks: usize = 0;
let times: usize = 0;
let random: usize = 0;
let rows: usize = 0;
let summaries: usize = 0;
let reply: usize = 0;

export function begin(blocksAt: usize, timesAt: usize, randomAt: usize, rowsAt: usize, summariesAt: usize, replyAt: usize): void {
  blocks = blocksAt;
  times = timesAt;
  random = randomAt;
  rows = rowsAt;
  summaries = block(summariesAt, SUMMARY_OWNER);
  reply = replyAt;
}
export function rowsEnd(): usize { return rows; }
export function summariesEnd(): usize { return summaries; }
export function replyEnd(): usize { return reply; }
export function moveTo(rowsAt: usize, summariesAt: usize, replyAt: usize): void { rows = rowsAt; summaries = summariesAt; reply = replyAt; }

/**
 * Up to here a copy goes by vectors; memory.copy is a call out of WebAssembly, dearer than what most texts here need.
 */
const VECTORS_MAX: usize = 128;

/**
 * Writes, and reads, up to 15 bytes past the end: what follows is written next, or is the slack behind rows, summaries
 * and reply.
 */
@inline function bytes(to: usize, from: usize, length: usize): usize {
  if (length > VECTORS_MAX) memory.copy(to, from, length);
  else for (let at: usize = 0; at < length; at += 16) v128.store(to + at, v128.load(from + at));
  return to + length;
}

@inline function block(to: usize, n: usize): usize {
  return bytes(to, <usize>load<u32>(blocks + n * TEXT_BYTES), <usize>load<u32>(blocks + n * TEXT_BYTES, 4));
}

@inline function varint(to: usize, n: u32): usize {
  while (n > 127) { store<u8>(to++, (n & 127) | 128); n >>>= 7; }
  store<u8>(to++, n);
  return to;
}

/** 16 characters of base32 out of as many random bytes. */
@inline function id(to: usize): usize {
  const v = v128.and(v128.load(random), i8x16.splat(31));
  // 0-9 a-h j k m n p-t v-z: the alphabet in two tables of 16
  const head = i8x16.swizzle(i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66), v);
  const tail = i8x16.swizzle(i8x16(0x67, 0x68, 0x6a, 0x6b, 0x6d, 0x6e, 0x70, 0x71, 0x72, 0x73, 0x74, 0x76, 0x77, 0x78, 0x79, 0x7a), i8x16.sub(v, i8x16.splat(16)));
  v128.store(to, v128.or(head, tail));
  return to + 16;
}

function decimal(to: usize, n: u64): usize {
  if (n == 0) { store<u8>(to, 0x30); return to + 1; }
  let length: usize = 0;
  for (let m = n; m != 0; m /= 10) length++;
  let at = to + length;
  while (n != 0) { const q = n / 10; store<u8>(--at, 0x30 + <u32>(n - q * 10)); n = q; }
  return to + length;
}

/** Writes the row, the summary and the reply of event `n` of the last scan, which nothing has matched. */
export function emit(n: i32, base: usize, first: bool): void {
  const r = recordOf(n);
  const idAt = writeRow(r, base);
  if (!first) store<u8>(reply++, COMMA);
  writeSummary(r, base, idAt);
  writeReply(r, base, idAt);
}

let rowLength: usize = 0;

/** RowBinary, the columns in the order of schemas/event-row.ts. Returns where the random part of the id lies. */
function writeRow(r: usize, base: usize): usize {
  const flags = load<i32>(r, FLAGS);
  let to = block(rows, ROW_HEAD);
  const idAt = to;
  to = id(to);
  random += RANDOM_BYTES;
  to = block(to, ROW_TYPE + <usize>load<u32>(r));
  to = varied(to, r, base, TRACE);
  to = bytes(to, times, 8);
  to = bytes(to, times + TIME_BYTES, 8);
  to = varied(to, r, base, PAYLOAD);
  to = block(to, ROW_MIDDLE);
  to = varied(to, r, base, MODEL);
  to = count(to, r + TOKEN_COUNT, (flags & F_COUNT) != 0);
  to = count(to, r + TOKENS_USED, (flags & F_USED) != 0);
  to = block(to, ROW_TAIL);
  store<u16>(to, load<u16>(times, TIME_MICROS));
  to += 2;
  rowLength = to - rows;
  rows = to;
  return idAt;
}

/** AllowedTuple of schemas/entry.ts. */
function writeSummary(r: usize, base: usize, idAt: usize): void {
  let to = block(summaries, SUMMARY_HEAD);
  to = bytes(to, idAt, 16);
  to = block(to, SUMMARY_TYPE + <usize>load<u32>(r));
  to = comma(digitsOf(to, times));
  to = comma(digitsOf(to, times + TIME_BYTES));
  to = decimal(to, rowLength);
  const isCounted = (load<i32>(r, FLAGS) & F_USED) != 0;
  if (lengthOf(r, TRACE) != 0) to = quoted(block(to, SUMMARY_TRACE), r, base, TRACE);
  else if (isCounted) to = block(to, SUMMARY_NO_TRACE);
  if (isCounted) to = decimal(comma(to), <u64>load<f64>(r, TOKENS_USED));
  store<u8>(to++, ARRAY_END);
  summaries = to;
}

@inline function digitsOf(to: usize, time: usize): usize {
  return bytes(to, time + TIME_DIGITS, <usize>load<u8>(time, TIME_DIGITS_LENGTH));
}

@inline function isoOf(to: usize, time: usize): usize {
  return bytes(to, time + TIME_ISO, <usize>load<u8>(time, TIME_ISO_LENGTH));
}

@inline function comma(to: usize): usize {
  store<u8>(to, COMMA);
  return to + 1;
}

function writeReply(r: usize, base: usize, idAt: usize): void {
  let to = block(reply, REPLY_HEAD);
  to = bytes(to, idAt, 16);
  to = block(to, REPLY_AGENT);
  to = block(to, REPLY_TYPE + <usize>load<u32>(r));
  to = bytes(to, base + <usize>load<u32>(r, PAYLOAD), lengthOf(r, PAYLOAD));
  if (lengthOf(r, TRACE) != 0) to = quoted(block(to, REPLY_TRACE), r, base, TRACE);
  to = block(to, REPLY_TIME);
  to = isoOf(to, times);
  to = block(to, REPLY_RECEIVED);
  to = isoOf(to, times + TIME_BYTES);
  to = block(to, REPLY_TAIL);
  reply = to;
}

@inline function lengthOf(r: usize, field: usize): usize {
  return <usize>(load<u32>(r + field, 4) - load<u32>(r + field));
}

/** A field's bytes behind their length. */
@inline function varied(to: usize, r: usize, base: usize, field: usize): usize {
  const length = lengthOf(r, field);
  return bytes(varint(to, <u32>length), base + <usize>load<u32>(r + field), length);
}

/** A field's bytes, and the quote that closes them. */
@inline function quoted(to: usize, r: usize, base: usize, field: usize): usize {
  to = bytes(to, base + <usize>load<u32>(r + field), lengthOf(r, field));
  store<u8>(to, QUOTE);
  return to + 1;
}

/** Nullable(Int64). */
@inline function count(to: usize, at: usize, isThere: bool): usize {
  store<u8>(to, isThere ? 0 : 1);
  if (!isThere) return to + 1;
  store<i64>(to, <i64>load<f64>(at), 1);
  return to + 9;
}
