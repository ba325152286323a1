// What every pipeline relies on in a digest (right after an entry is decoded).
// A digest comes from a front, perhaps of another version: one that lacks what is needed here makes its entry unreadable,
// and the entry is parked rather than stumbled over later.
import { EntryFormatError, type EventDigest } from '../schemas/entry.ts';

/** Throws EntryFormatError. */
export function checkDigest(digest: EventDigest): void {
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
