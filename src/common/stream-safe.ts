// Text as Unicode's Stream-Safe Text Format has it (UAX 15), to be normalized: runs of marks are of a bounded length.
// Used before each normalization of what a caller sent (folded.ts of the policies, words.ts of the search).
// Normalizing puts the marks of a character into order by exchanging neighbours: half a million of them took two and a
// half minutes, on the loop that answers everyone.

/** Belongs to the characters that show nothing, which both callers drop: in no text of theirs is it but by this. */
export const JOINER = '\u034f';
/** No language has a tenth of it. */
const MANY = 30;
const MANY_MARKS = new RegExp(`\\p{M}{${MANY}}`, 'gu');

export function streamSafe(text: string): string {
  return text.length < MANY ? text : text.replace(MANY_MARKS, `$&${JOINER}`);
}
