// Digests as every pipeline reads them (right after an entry was read).
// The groups of a process are given the same entries (src/streams/window.ts), so an entry's digests are parsed for the first
// and remembered, by the very bytes, for as long as these are in memory. Nobody changes a digest.
// A digest comes from a front, perhaps of another version: one that lacks what pipelines rely on makes its entry unreadable,
// and the entry is parked rather than stumbled over later.
import { decodeEntry, ENTRY_FIELD, EntryFormatError, type EventDigest, type EventEntry } from '../schemas/entry.ts';

const parsed = new WeakMap<Buffer, EventDigest[]>();

/** Throws EntryFormatError. */
export function readEntry(fields: ReadonlyMap<string, Buffer>): EventEntry {
  const text = fields.get(ENTRY_FIELD.digests);
  const known = text && parsed.get(text);
  if (known !== undefined) return { digests: known, rows: fields.get(ENTRY_FIELD.rows) ?? NO_ROWS };
  const entry = decodeEntry(fields);
  for (const digest of entry.digests) checkDigest(digest);
  parsed.set(text!, entry.digests);
  return entry;
}

const NO_ROWS = Buffer.alloc(0);

function checkDigest(digest: EventDigest): void {
  const sound =
    typeof digest?.id === 'string' &&
    typeof digest.account === 'string' &&
    typeof digest.agent === 'string' &&
    Number.isSafeInteger(digest.occurredAt) &&
    Number.isSafeInteger(digest.receivedAt) &&
    Number.isSafeInteger(digest.rowBytes) &&
    digest.rowBytes > 0;
  if (!sound) throw new EntryFormatError('a digest lacks its ids, its times or its length');
}
