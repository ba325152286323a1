// One instance of the WebAssembly module of wasm-codec.ts, and its memory (wasm/layout.ts says what is shared with the
// module). One pass over the body's bytes checks it, marks each event's fields and searches for the account's signs;
// a second pass writes row, summary and reply of each event without a match. Text never becomes a JavaScript string on
// the way. It reads what it is sure to understand: valid JSON whose every element fits the schema, keys without
// escapes, no key twice. For anything else `read` returns null, and json-codec.ts reads the body.
// One instance serves all requests of a process: its memory holds the last body that was read. A submission that waited
// since then loads its body again (`begin`). Memory grows with the largest body, whose size admission bounds.

import assert from 'node:assert';
import { isUtf8 } from 'node:buffer';
import { randomFillSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { EVENT_TYPES } from '../../schemas/closed-sets.ts';

import { BATCH_EVENTS_MAX } from '../../schemas/event.ts';
import { EVENT_COLUMNS, type EventColumn } from '../../schemas/event-row.ts';
import { exactIsoTime, microsOf } from '../../schemas/time.ts';
import type { BufferPool } from '../common/buffer-pool.ts';
import { writeColumn } from '../common/event-row-codec.ts';
import { ID_CHARACTERS, ID_PREFIXES, ID_TIME_CHARACTERS, idTime, putBehindTime } from '../common/ids.ts';
import { type FastBuffer, RowBinaryWriter } from '../common/row-binary.ts';
import { IBAN_LENGTHS } from '../policy/detectors/find-numbers.ts';
import { ALLOWED } from '../policy/judgement.ts';
import { ELEMENTS_MAX, PATHS_MAX, SIGN_BITS, type Sought, SPELLINGS_MAX } from '../policy/sought.ts';
import { assetPath } from '../process/assets.ts';
import { foldingTable } from './folding-table.ts';
import type { Shape } from './json.ts';
import { SoughtTables } from './sought-tables.ts';
import { USAGE_COUNTS, usageTable } from './token-usage.ts';
import * as layout from './wasm/layout.ts';

type Exports = {
  placeKeyHashes(at: number): void;
  placeRecords(at: number): void;
  placeUsage(at: number, shapes: number, names: number): void;
  placeTables(folding: number, ibans: number): void;
  useSigns(at: number, distance: number): void;
  useWatched(at: number): void;
  scan(at: number, length: number, many: number): number;
  begin(blocks: number, times: number, random: number, rows: number, summaries: number, reply: number): void;
  emit(event: number, body: number, first: number): void;
  moveTo(rows: number, summaries: number, reply: number): void;
  rowsEnd(): number;
  summariesEnd(): number;
  replyEnd(): number;
};

/** WebAssembly as Node has it, whose types leave it out. */
declare const WebAssembly: {
  Memory: new (size: { initial: number }) => Memory;
  Module: new (bytes: Buffer) => object;
  Instance: new (module: object, imports: { env: { memory: Memory } }) => { exports: object };
};
type Memory = { readonly buffer: ArrayBuffer; grow(pages: number): number };

const PAGE = 64 * 1024;
export const RECORD_WORDS = layout.RECORD_BYTES / 4;
/**
 * Arrays of records are as long as 1, 2, 4, … 128 events need, and of each length so many words are kept: half a
 * megabyte.
 */
const RECORD_CLASSES = 8;
const RECORD_WORDS_KEPT_MAX = 128 * 1024;
/** Words of a record. Offsets are into the body. */
export const WORD = {
  type: layout.TYPE / 4,
  payload: layout.PAYLOAD / 4,
  payloadEnd: layout.PAYLOAD / 4 + 1,
  trace: layout.TRACE / 4,
  traceEnd: layout.TRACE / 4 + 1,
  time: layout.TIME / 4,
  timeEnd: layout.TIME / 4 + 1,
  flags: layout.FLAGS / 4,
  bits: layout.BITS / 4,
  elsewhere: layout.ELSEWHERE / 4,
  watched: layout.WATCHED / 4,
  forms: layout.FORMS / 4,
} as const;
export const FLAG = { odd: layout.F_ODD, oddColumn: layout.F_COLUMN_OTHER, used: layout.F_USED } as const;

/** Vectors are read whole, so a few bytes of ours follow whatever is read. */
const SLACK = 64;
const TWO_32 = 2 ** 32;
const KEY_HASHES_AT = 1024;
const RECORDS_AT = KEY_HASHES_AT + 65 * 64 * 4;
const BLOCKS_AT = RECORDS_AT + layout.RECORD_BYTES * layout.EVENTS_MAX + SLACK;
const TIMES_AT = align(BLOCKS_AT + layout.TEXTS * layout.TEXT_BYTES);
const RANDOM_AT = align(TIMES_AT + 2 * layout.TIME_BYTES);
/** Drawn at once: a draw costs 4 µs however little it is, a quarter of a single event. */
const RANDOM_BYTES = 1_000 * layout.RANDOM_BYTES;
/** The table that wasm/usage.ts reads, and its sums. */
const USAGE_AT = RANDOM_AT + RANDOM_BYTES;
const USAGE = usageTable();
const FOLDING = foldingTable();
const TEXTS_AT = align(USAGE_AT + USAGE.length + SLACK);
/** The signs and paths of the accounts that were served last; when the room is full it is begun again. */
const TABLES_AT = 96 * 1024;
const TABLES_END = TABLES_AT + 1280 * 1024;
/** The tables of wasm/signs.ts about characters and countries. */
const FOLDING_AT = TABLES_END;
const IBANS_AT = align(FOLDING_AT + FOLDING.length + SLACK);
const BODY_AT = IBANS_AT + 1024;
/**
 * The most bytes of an event in row, summary or reply beside its payload: ids, names, times, a request id and a trace
 * id of 200.
 */
const AROUND_BYTES_MAX = 1024;
/** The bytes around the ids of a request, its own id of 128 characters with it. */
const REQUEST_TEXTS_BYTES = 384;

/**
 * Columns of a row that the module writes, in its order (wasm/write.ts). Behind some of them are columns with one
 * value.
 */
const WRITTEN: readonly EventColumn[] = [
  ...(['account_id', 'agent_id', 'id', 'type', 'trace_id', 'timestamp', 'received_at', 'payload'] as const),
  ...(['model', 'token_count', 'tokens_used', 'request_id', 'timestamp_micros'] as const),
];
const ROW_MIDDLE = constantsBehind('payload');
const ROW_END = constantsBehind('request_id');
assert.deepEqual(
  EVENT_COLUMNS.filter((column) => !('allowed' in column)).map(({ name }) => name),
  WRITTEN,
  'wasm/write.ts writes every column that differs from event to event',
);
assert(
  WRITTEN.every((name) => ['payload', 'request_id'].includes(name) || constantsBehind(name).length === 0),
  'columns with one value follow payload or request_id',
);

assert(layout.BITS_BYTES * 8 === SIGN_BITS, 'every sign of a set needs a bit');
assert(layout.WATCHED_MAX === PATHS_MAX, 'every path that is watched needs its place');
assert(layout.EVENTS_MAX === BATCH_EVENTS_MAX, 'every event of a batch needs a record');
assert(layout.TYPES === EVENT_TYPES.length, 'every type needs its texts');
assert(
  SPELLINGS_MAX * 16 + 4 * 2 ** 15 + 16 * 1024 + 2 * ELEMENTS_MAX + 32 * 1024 + PATHS_MAX * 512 <
    TABLES_END - TABLES_AT,
  'what is sought for a set must fit',
);

export type ScannedBody = {
  readonly bytes: Buffer;
  readonly events: number;
  /** RECORD_WORDS words an event, and perhaps more behind them: see WORD. */
  readonly records: Int32Array;
};

/** `rows` and `summaries` stand until the next body is read or begun; `reply` until `release`. */
type Written = { rows: Buffer; summaries: Buffer; reply: Buffer; release: () => void };
/** The results that encode.ts makes of an event: its row, its summary and its part of the reply. */
export type Inserted = { row: Buffer; summary: string; reply: string };

/** The ids that are the same for all events of a request. */
type RequestIds = { account: string; agentId: string; requestId: string };

const REPLY_OPEN = { one: '', many: '{"results":[' };

export class WasmInstance {
  readonly #memory = new WebAssembly.Memory({ initial: (BODY_AT + 4 * PAGE) / PAGE });
  readonly #wasm: Exports;
  #bytes: FastBuffer;
  #words: Int32Array;
  readonly #tables = new SoughtTables(TABLES_AT, TABLES_END);
  /** The body that lies in memory. */
  #current: ScannedBody | undefined;
  #textsEnd = TEXTS_AT;
  readonly #fixedEnd: number;
  /** Where the ids' ten characters of time lie in the texts. */
  readonly #idTimes = [0, 0, 0];
  readonly #times = [Number.NaN, Number.NaN];
  /** The request whose texts lie ready, and where what differs from request to request lies in them. */
  #account = '';
  #agentId = '';
  #placesOf = { account: [0, 0], agentId: [0, 0, 0], requestId: 0 };
  /** The last time of arrival as ids have it. */
  #idTime = '0'.repeat(ID_TIME_CHARACTERS);
  readonly #starts = { rows: 0, summaries: 0, reply: 0 };
  readonly #buffers: BufferPool;
  readonly #records = new Records();
  #shape: Shape = 'one';
  #written = 0;
  #randomUsed = RANDOM_BYTES;
  /** The random part of the next id that the module makes. */
  #randomAt = 0;

  constructor(buffers: BufferPool) {
    this.#buffers = buffers;
    const module = new WebAssembly.Module(readFileSync(assetPath('build/service/plain.wasm')));
    this.#wasm = new WebAssembly.Instance(module, { env: { memory: this.#memory } }).exports as unknown as Exports;
    this.#bytes = Buffer.from(this.#memory.buffer) as FastBuffer;
    this.#words = new Int32Array(this.#memory.buffer);
    this.#wasm.placeKeyHashes(KEY_HASHES_AT);
    this.#wasm.placeRecords(RECORDS_AT);
    this.#bytes.set(USAGE, USAGE_AT);
    this.#wasm.placeUsage(USAGE_AT, USAGE_COUNTS.shapes, USAGE_COUNTS.names);
    this.#putTables();
    this.#putFixedTexts();
    this.#fixedEnd = this.#textsEnd;
  }

  /**
   * null: json-codec.ts must read it. `sought`: in the payloads; the same object means the same.
   */
  read(bytes: Buffer, shape: Shape, sought: Sought): ScannedBody | null {
    if (!isUtf8(bytes)) return null;
    this.#current = undefined;
    this.#load(bytes);
    const { signs, watched } = this.#tables.of(sought, this.#bytes);
    this.#wasm.useSigns(signs, align(bytes.length + SLACK));
    this.#wasm.useWatched(watched);
    const events = this.#wasm.scan(BODY_AT, bytes.length, shape === 'many' ? 1 : 0);
    if (events === 0) return null;
    const records = this.#records.take(events);
    copyWords(records, 0, this.#words, RECORDS_AT / 4, events * RECORD_WORDS);
    this.#current = { bytes, events, records };
    return this.#current;
  }

  /** To be called once for every body that was read, when it is no longer used. */
  release(body: ScannedBody): void {
    if (this.#current === body) this.#current = undefined;
    this.#records.give(body.records);
  }

  /**
   * Begins to write the events of a body, which may have been read some time ago. `inserted`: those that are going to
   * be; they need room beyond that of an event that is allowed.
   */
  begin(body: ScannedBody, request: RequestIds, shape: Shape, inserted: readonly (Inserted | undefined)[]): void {
    const around = body.events * AROUND_BYTES_MAX + SLACK;
    let [rowBytes, summaryBytes, replyBytes] = [body.bytes.length + around, around, body.bytes.length + around];
    for (const one of inserted) {
      if (one === undefined) continue;
      rowBytes += one.row.length;
      summaryBytes += Buffer.byteLength(one.summary);
      replyBytes += Buffer.byteLength(one.reply);
    }
    const rows = align(BODY_AT + body.bytes.length + SLACK);
    const summaries = align(rows + rowBytes);
    const reply = align(summaries + summaryBytes);
    this.#grow(reply + replyBytes);
    if (this.#current !== body) {
      this.#load(body.bytes);
      copyWords(this.#words, RECORDS_AT / 4, body.records, 0, body.events * RECORD_WORDS);
      this.#current = body;
    }
    this.#putRequest(request);
    this.#starts.rows = rows;
    this.#starts.summaries = summaries;
    this.#starts.reply = reply;
    this.#shape = shape;
    this.#written = 0;
    const opened = REPLY_OPEN[shape];
    if (opened !== '') this.#bytes.latin1Write(opened, reply);
    this.#randomAt = this.#randomness(body.events);
    this.#wasm.begin(BLOCKS_AT, TIMES_AT, this.#randomAt, rows, summaries, reply + opened.length);
  }

  /**
   * Character by character: a call for each text, or one for all of them put together, costs several times as much. A
   * text that is the same as for the request before stays: nearly all of it, as ids are of one length.
   */
  #putRequest({ account, agentId, requestId }: RequestIds): void {
    if (account.length !== this.#account.length || agentId.length !== this.#agentId.length)
      this.#layOut(account, agentId);
    const { account: accountAt, agentId: agentAt, requestId: requestAt } = this.#placesOf;
    if (account !== this.#account) for (const at of accountAt) this.#putText(account, at);
    if (agentId !== this.#agentId) for (const at of agentAt) this.#putText(agentId, at);
    this.#account = account;
    this.#agentId = agentId;
    const end = this.#putShort(requestId, requestAt);
    this.#bytes.set(ROW_END, end);
    this.#place(layout.ROW_TAIL, requestAt, end + ROW_END.length - requestAt);
  }

  /** Puts the texts around an account and an agent whose ids are so long, and notes where these go. */
  #layOut({ length: account }: string, { length: agent }: string): void {
    const most = 2 * account + 3 * agent + REQUEST_TEXTS_BYTES;
    assert(this.#fixedEnd + most <= TABLES_AT, 'the texts have outgrown their place');
    assert(account < 128 && agent < 128, 'ids are short');
    const places = { account: [0, 0], agentId: [0, 0, 0], requestId: 0 };
    const row = this.#fixedEnd;
    places.account[0] = this.#putByte(account, row);
    places.agentId[0] = this.#putByte(agent, places.account[0] + account);
    let at = this.#putEventId(this.#putByte(ID_CHARACTERS, places.agentId[0] + agent), 0);
    this.#place(layout.ROW_HEAD, row, at - row);
    const owner = at;
    places.account[1] = this.#putText('["', at);
    places.agentId[1] = this.#putText('","', places.account[1] + account);
    at = this.#putText('"]', places.agentId[1] + agent);
    this.#place(layout.SUMMARY_OWNER, owner, at - owner);
    const summary = at;
    at = this.#putEventId(this.#putText(',["', at), 1);
    this.#place(layout.SUMMARY_HEAD, summary, at - summary);
    const reply = at;
    at = this.#putEventId(this.#putText('{"id":"', at), 2);
    this.#place(layout.REPLY_HEAD, reply, at - reply);
    places.agentId[2] = this.#putText('","agent_id":"', at);
    places.requestId = places.agentId[2] + agent;
    this.#place(layout.REPLY_AGENT, at, places.requestId - at);
    this.#placesOf = places;
    this.#account = '';
    this.#agentId = '';
  }

  #putByte(byte: number, at: number): number {
    this.#bytes[at] = byte;
    return at + 1;
  }

  /**
   * Prefix and time of the events' ids; answers where the text ends. `which`: of the places to be rewritten with the
   * time.
   */
  #putEventId(at: number, which: 0 | 1 | 2): number {
    const end = this.#putText(this.#idTime, this.#putText(ID_PREFIXES.event, at));
    this.#idTimes[which] = end - ID_TIME_CHARACTERS;
    return end;
  }

  #putText(text: string, at: number): number {
    const bytes = this.#bytes;
    for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
    return at + text.length;
  }

  /** ASCII behind its length, as RowBinary has it. */
  #putShort(text: string, at: number): number {
    assert(text.length < 128 + 1, 'request ids are short');
    if (text.length < 128) this.#bytes[at++] = text.length;
    else {
      this.#bytes[at++] = 0x80;
      this.#bytes[at++] = 1;
    }
    return this.#putText(text, at);
  }

  /**
   * Writes an event that is allowed without a match. Times are epoch ms, `fitsDigits` both; `of`: its id, minted at
   * `receivedAt`, or the slot of its arrival, of which one is made.
   */
  allow(event: number, occurredAt: number, receivedAt: number, of: string | number): void {
    if (this.#times[0] !== occurredAt) this.#putTime(0, occurredAt);
    if (typeof of === 'number') this.#putSlot(of);
    else putBehindTime(of, this.#bytes, this.#randomAt);
    this.#randomAt += layout.RANDOM_BYTES;
    if (this.#times[1] !== receivedAt) {
      this.#putTime(1, receivedAt);
      this.#idTime = idTime(receivedAt);
      for (const at of this.#idTimes) this.#bytes.latin1Write(this.#idTime, at);
    }
    this.#wasm.emit(event, BODY_AT, this.#written++ === 0 ? 1 : 0);
  }

  /** In place of the first random characters of the next id: of a byte there the low five bits count. */
  #putSlot(slot: number): void {
    const at = this.#randomAt;
    this.#bytes[at] = slot >> 10;
    this.#bytes[at + 1] = slot >> 5;
    this.#bytes[at + 2] = slot;
  }

  /** Puts in its place what encode.ts has made of an event. */
  insert({ row, summary, reply }: Inserted): void {
    const [rows, summaries, replies] = [this.#wasm.rowsEnd(), this.#wasm.summariesEnd(), this.#wasm.replyEnd()];
    this.#bytes.set(row, rows);
    const summaryBytes = this.#bytes.utf8Write(`,${summary}`, summaries);
    const replyBytes = this.#bytes.utf8Write(this.#written++ === 0 ? reply : `,${reply}`, replies);
    this.#wasm.moveTo(rows + row.length, summaries + summaryBytes, replies + replyBytes);
  }

  /**
   * The texts that have been written since `begin`: rows end to end, summaries behind their owner and commas between,
   * the whole reply.
   */
  finish(): Written {
    if (this.#shape === 'many') {
      const end = this.#wasm.replyEnd();
      const written = this.#bytes.latin1Write(`],"total":${this.#written}}`, end);
      this.#wasm.moveTo(this.#wasm.rowsEnd(), this.#wasm.summariesEnd(), end + written);
    }
    const { rows, summaries, reply } = this.#views();
    const buffer = this.#buffers.take(reply.length);
    buffer.set(reply);
    return { rows, summaries, reply: buffer.subarray(0, reply.length), release: () => this.#buffers.release(buffer) };
  }

  #views(): { rows: Buffer; summaries: Buffer; reply: Buffer } {
    const { rows, summaries, reply } = this.#starts;
    return {
      rows: this.#bytes.subarray(rows, this.#wasm.rowsEnd()),
      summaries: this.#bytes.subarray(summaries, this.#wasm.summariesEnd()),
      reply: this.#bytes.subarray(reply, this.#wasm.replyEnd()),
    };
  }

  /** Where random bytes for so many ids lie that no id was made of yet. */
  #randomness(ids: number): number {
    const needed = ids * layout.RANDOM_BYTES;
    if (this.#randomUsed + needed > RANDOM_BYTES) {
      randomFillSync(this.#bytes, RANDOM_AT, RANDOM_BYTES);
      this.#randomUsed = 0;
    }
    const at = RANDOM_AT + this.#randomUsed;
    this.#randomUsed += needed;
    return at;
  }

  /** There is room behind it for its folded copy, and for two other texts that it stands for (wasm/signs.ts). */
  #load(bytes: Buffer): void {
    this.#grow(BODY_AT + 4 * align(bytes.length + SLACK) + SLACK);
    this.#bytes.set(bytes, BODY_AT);
  }

  #grow(end: number): void {
    const missing = end - this.#bytes.length;
    if (missing <= 0) return;
    this.#memory.grow(Math.ceil(missing / PAGE));
    this.#bytes = Buffer.from(this.#memory.buffer) as FastBuffer;
    this.#words = new Int32Array(this.#memory.buffer);
  }

  #putTables(): void {
    this.#bytes.set(FOLDING, FOLDING_AT);
    for (const [country, length] of IBAN_LENGTHS)
      this.#bytes[IBANS_AT + (country.charCodeAt(0) - 65) * 26 + country.charCodeAt(1) - 65] = length;
    this.#wasm.placeTables(FOLDING_AT, IBANS_AT);
  }

  #putFixedTexts(): void {
    this.#put(layout.ROW_MIDDLE, ROW_MIDDLE.toString('latin1'));
    EVENT_TYPES.forEach((type, i) => {
      this.#put(layout.ROW_TYPE + i, String.fromCharCode(type.length) + type);
      this.#put(layout.SUMMARY_TYPE + i, `","${type}",`);
    });
    this.#put(layout.SUMMARY_TRACE, ',"');
    this.#put(layout.SUMMARY_NO_TRACE, ',null');
    this.#put(layout.REPLY_TRACE, ',"trace_id":"');
    this.#put(layout.REPLY_TIME, ',"timestamp":"');
    EVENT_TYPES.forEach((type, i) => {
      this.#put(layout.REPLY_TYPE + i, `","type":"${type}","payload":`);
    });
    this.#put(layout.REPLY_RECEIVED, '","received_at":"');
    this.#put(layout.REPLY_TAIL, `","policy_result":${ALLOWED.resultJson}}`);
  }

  #put(number: number, text: string): void {
    const at = this.#textsEnd;
    assert(at + text.length <= TABLES_AT, 'the texts have outgrown their place');
    this.#bytes.latin1Write(text, at);
    this.#place(number, at, text.length);
    this.#textsEnd = at + text.length;
  }

  #place(number: number, at: number, length: number): void {
    const word = (BLOCKS_AT + number * layout.TEXT_BYTES) / 4;
    this.#words[word] = at;
    this.#words[word + 1] = length;
  }

  /** See wasm/layout.ts. */
  #putTime(which: 0 | 1, time: number): void {
    const at = TIMES_AT + which * layout.TIME_BYTES;
    const other = which === 0 ? 1 : 0;
    this.#times[which] = time;
    if (this.#times[other] === time) {
      const from = TIMES_AT + other * layout.TIME_BYTES;
      this.#bytes.copyWithin(at, from, from + layout.TIME_BYTES);
      return;
    }
    const ms = Math.floor(time);
    const [digits, iso] = [String(time), exactIsoTime(time)];
    this.#words[at / 4] = (ms % TWO_32) | 0;
    this.#words[at / 4 + 1] = ms / TWO_32;
    const micros = time === ms ? 0 : microsOf(time);
    this.#bytes[at + layout.TIME_MICROS] = micros;
    this.#bytes[at + layout.TIME_MICROS + 1] = micros >> 8;
    this.#bytes[at + layout.TIME_DIGITS_LENGTH] = digits.length;
    this.#bytes[at + layout.TIME_ISO_LENGTH] = iso.length;
    this.#bytes.latin1Write(digits.padEnd(layout.TIME_ISO - layout.TIME_DIGITS) + iso, at + layout.TIME_DIGITS);
  }
}

/** Records for reuse, so that reading a body allocates only its result. */
class Records {
  readonly #free: Int32Array[][] = Array.from({ length: RECORD_CLASSES }, () => []);

  /** Returns at least so many bytes; their contents are undefined. */
  take(events: number): Int32Array {
    const at = recordClass(events);
    return this.#free[at]!.pop() ?? new Int32Array(RECORD_WORDS << at);
  }

  /** The very array that `take` gave, once. */
  give(records: Int32Array): void {
    const free = this.#free[recordClass(records.length / RECORD_WORDS)]!;
    if ((free.length + 1) * records.length <= RECORD_WORDS_KEPT_MAX) free.push(records);
  }
}

function recordClass(events: number): number {
  return 32 - Math.clz32(events - 1);
}

/** Whether the digits of a time are as many as `emit` writes: from 2001 to 2286. */
export function fitsDigits(ms: number): boolean {
  return ms >= 1e12 && ms < 1e13;
}

/** As many as a call pays for; a single event's are fewer. */
const WORDS_BY_CALL_MIN = 128;

function copyWords(to: Int32Array, at: number, from: Int32Array, start: number, count: number): void {
  if (count >= WORDS_BY_CALL_MIN) to.set(from.subarray(start, start + count), at);
  else for (let i = 0; i < count; i++) to[at + i] = from[start + i]!;
}

/** RowBinary of the columns behind that one which have one value in every row that the module writes. */
function constantsBehind(name: EventColumn): Buffer {
  const writer = new RowBinaryWriter(AROUND_BYTES_MAX);
  for (let i = EVENT_COLUMNS.findIndex((column) => column.name === name) + 1; i < EVENT_COLUMNS.length; i++) {
    const column = EVENT_COLUMNS[i]!;
    if (!('allowed' in column)) break;
    writeColumn(writer, column.kind, column.allowed);
  }
  return writer.bytes();
}

function align(at: number): number {
  return (at + 15) & ~15;
}
