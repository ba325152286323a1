// Summaries as every pipeline reads them (right after an entry was read).
// The groups of a process are given the same entries (src/streams/window.ts), so an entry's summaries are parsed for
// the first and remembered, by the very bytes, for as long as these are in memory. A summary is never changed.
// A summary comes from a front, perhaps of another version: one that lacks what pipelines rely on makes its entry
// unreadable, and the entry is dead-lettered rather than stumbled over later.
import { decodeEntry, ENTRY_FIELD, EntryFormatError, type EventEntry, type EventSummary } from '../schemas/entry.ts';

const parsed = new WeakMap<Buffer, EventSummary[]>();

/** Throws EntryFormatError. */
export function readEntry(fields: ReadonlyMap<string, Buffer>): EventEntry {
  const text = fields.get(ENTRY_FIELD.summaries);
  const known = text && parsed.get(text);
  if (known !== undefined) return { summaries: known, rows: fields.get(ENTRY_FIELD.rows) ?? NO_ROWS };
  const entry = decodeEntry(fields);
  for (const summary of entry.summaries) checkDigest(summary);
  parsed.set(text!, entry.summaries);
  return entry;
}

const NO_ROWS = Buffer.alloc(0);

function checkDigest(summary: EventSummary): void {
  const sound =
    typeof summary?.id === 'string' &&
    typeof summary.account === 'string' &&
    typeof summary.agent === 'string' &&
    Number.isFinite(summary.occurredAt) &&
    Number.isSafeInteger(summary.receivedAt) &&
    Number.isSafeInteger(summary.rowBytes) &&
    summary.rowBytes > 0;
  if (!sound) throw new EntryFormatError('a summary lacks its ids, its times or its length');
}
