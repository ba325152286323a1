// The records of the body that was scanned last (layout.ts says what is in one).
import { RECORD_BYTES } from './layout';

let records: usize = 0;

/** Room for EVENTS_MAX records. */
export function placeRecords(at: usize): void {
  records = at;
}

@inline export function recordOf(event: i32): usize {
  return records + <usize>event * RECORD_BYTES;
}
