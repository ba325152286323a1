// Finds in the raw text of a JSON string what was found in the decoded one (used by redact-payload.ts). Invariant: no
// escape is cut.
import type { TextEdit } from '../../common/text-edits.ts';

const BACKSLASH = 0x5c;

/** For each code unit of the decoded string, and for its end: where it starts in the raw one. */
export function placesIn(raw: string): Int32Array {
  const places = new Int32Array(raw.length + 1);
  let decoded = 0;
  for (let i = 0; i < raw.length; i += raw.charCodeAt(i) !== BACKSLASH ? 1 : raw[i + 1] === 'u' ? 6 : 2)
    places[decoded++] = i;
  places[decoded] = raw.length;
  return places.subarray(0, decoded + 1);
}

/** From the decoded text to the raw one. `places` null: they are the same. */
export function inRaw({ start, end, text }: TextEdit, places: Int32Array | null): TextEdit {
  return places === null ? { start, end, text } : { start: places[start]!, end: places[end]!, text };
}

/** The code unit of the decoded text whose escape holds a position of the raw one. */
export function decodedStart(places: Int32Array | null, at: number): number {
  if (places === null) return at;
  let low = 0;
  let high = places.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (places[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Behind the last code unit of the decoded text of which something is before a position of the raw one. */
export function decodedEnd(places: Int32Array | null, at: number): number {
  if (places === null) return at;
  const start = decodedStart(places, at);
  return places[start] === at ? start : start + 1;
}
