// The record of an event: what scan.ts writes of it and write.ts and fast-codec.ts read. Offsets in bytes.
/** Bytes of an event's record: u32 type, then where its fields lie in the body (u32 start, u32 end), flags, counts, bits. */
export const RECORD: usize = 128;
export const PAYLOAD: usize = 4;
export const TRACE: usize = 12;
export const TIME: usize = 20;
export const FLAGS: usize = 28;
export const TOOL: usize = 32;
export const MODEL: usize = 40;
export const TOKEN_COUNT: usize = 48; // f64
export const TOKENS_USED: usize = 56; // f64
export const BITS: usize = 64;
export const EVENTS_MAX: i32 = 100;

// Bits of FLAGS.
export const F_U: i32 = 1; // `\u` stands in the payload's text
export const F_TOOL: i32 = 2; // payload.tool is plain text
export const F_TOOL_ODD: i32 = 4; // it is anything else
export const F_ODD: i32 = 16; // a column of the row cannot be drawn from here
export const F_COUNT: i32 = 32;
export const F_USED: i32 = 64;

let records: usize = 0;

/** Room for EVENTS_MAX records. */
export function placeRecords(at: usize): void {
  records = at;
}

@inline export function recordOf(event: i32): usize {
  return records + <usize>event * RECORD;
}
