// What the WebAssembly module and its host (wasm-instance.ts) agree on about memory: the one source of it, imported by
// both. So it holds integer constants alone. Offsets and sizes are in bytes.

/** The record of an event: u32 type, the bounds of its fields in the body (u32 start, u32 end), flags, counts, bits. */
export const RECORD_BYTES = 448;
export const TYPE = 0;
export const PAYLOAD = 4;
export const TRACE = 12;
export const TIME = 20;
export const FLAGS = 28;
export const MODEL = 40;
export const TOKEN_COUNT = 48; // f64
export const TOKENS_USED = 56; // f64
/** Which of the account's signs occur in payload or trace_id. */
export const BITS = 64;
export const BITS_BYTES = 64;
/** A bit for each watched path that may lead to more than what stands right there: in lists, or in text inside text. */
export const ELSEWHERE = 128;
/** The place of the value at each watched path (u32 start, u32 end): 0 where there is none. */
export const WATCHED = 132;
export const WATCHED_MAX = 32;
/** Strings that may hold JSON: u32 how many, then the bounds of each (u32 start, u32 end, with their quotes). */
export const FORMS = 388;
export const FORMS_MAX = 6;
export const EVENTS_MAX = 100;

// Bits of FLAGS.
/** Some text of it may stand for another than its bytes show: an escape, a character that is folded. */
export const F_ODD = 1;
/** A code point or a control character is written as an escape. */
export const F_ESCAPED = 2;
/** A code point is written as an escape of text inside text, with two backslashes. */
export const F_ESCAPED_INSIDE = 4;
/** A column of the row cannot be written here. */
export const F_COLUMN_OTHER = 16;
export const F_COUNT = 32;
export const F_USED = 64;

// Texts that the host puts ready, by number: u32 address, u32 length each.
export const ROW_HEAD = 0;
/** Columns that are the same in every row, behind the payload; the tail has the request's id and those behind it. */
export const ROW_MIDDLE = 1;
export const ROW_TAIL = 2;
export const SUMMARY_HEAD = 3;
export const SUMMARY_OWNER = 4;
export const SUMMARY_TRACE = 5;
export const SUMMARY_NO_TRACE = 6;
export const REPLY_HEAD = 7;
export const REPLY_TRACE = 8;
export const REPLY_TIME = 9;
export const REPLY_RECEIVED = 10;
export const REPLY_TAIL = 11;
export const REPLY_AGENT = 12;
/** From here on there is one text for each type of event. */
export const TYPES = 5;
export const ROW_TYPE = 13;
export const SUMMARY_TYPE = ROW_TYPE + TYPES;
export const REPLY_TYPE = SUMMARY_TYPE + TYPES;
export const TEXTS = REPLY_TYPE + TYPES;
export const TEXT_BYTES = 8;

/**
 * Two times, each as i64 epoch ms and u16 of the microseconds behind it, as digits of epoch ms (at most 17), and as ISO
 * 8601 (at most 27 characters). The u8 lengths of both stand in front of them.
 */
export const TIME_BYTES = 64;
export const TIME_MICROS = 8;
export const TIME_DIGITS_LENGTH = 10;
export const TIME_ISO_LENGTH = 11;
export const TIME_DIGITS = 12;
export const TIME_ISO = 32;

/**
 * The classes of code points in the table of characters: one stands for itself (0), also where something may be joined
 * with it; it is folded to nothing, or to another text; only the engine can tell; a digit (0 to 9 behind it). Then
 * marks: behind each its place among those of a character, and the same of marks that may be joined with what is
 * before.
 */
export const CLASS_FIRST = 1;
export const CLASS_DROPPED = 2;
export const CLASS_MAPPED = 3;
export const CLASS_ODD = 4;
export const CLASS_DIGIT = 16;
export const CLASS_MARK = 32;
export const CLASS_JOINING = 128;
/** Beyond the planes of living scripts and of signs nothing is looked up. */
export const CODE_POINTS = 0x20000;
/** Behind the classes: what is folded, by rows of 16 code points. */
export const FOLDED_BLOCKS = CODE_POINTS;

/** Bytes of which an event's identifier is made behind its time, a character each: three of the slot, then random. */
export const RANDOM_BYTES = 16;
