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

/** Edits of the decoded text, in order, as those of the raw one. */
export function editsInRaw(raw: string, edits: readonly TextEdit[]): readonly TextEdit[] {
  let backslash = raw.indexOf('\\');
  if (backslash < 0) return edits;
  /** By how much a position of the raw text is further than that of the decoded one. */
  let further = 0;
  const inRaw = (decoded: number) => {
    while (backslash >= 0 && backslash - further < decoded) {
      const units = raw[backslash + 1] === 'u' ? 6 : 2;
      further += units - 1;
      backslash = raw.indexOf('\\', backslash + units);
    }
    return decoded + further;
  };
  return edits.map(({ start, end, text }) => ({ start: inRaw(start), end: inRaw(end), text }));
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
