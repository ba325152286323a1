// Takes what makes a hook larger than an event out of its bytes, before they are read as JSON: reading 8 MB on the loop
// that answers would make everyone wait (between the body and src/http/handlers/decision-points/hook-routes.ts).
// Invariant: what is left out is one string each, with its size in its place; the work is bounded whatever the bytes.
// Failure: undefined where it is large in another way. What is no JSON is left for the parser to refuse.
import { HOOK_MEMBER_BYTES_KEPT } from '../common/limits.ts';

/** Quotes that are looked at: some 30 ms. A result of 8 MB that is source text has fewer. */
const QUOTES_MAX = 400_000;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** As it stands in the place of what is left out. */
export const leftOut = (bytes: number): string => `{"left_out_bytes":${bytes}}`;
export const LEFT_OUT = /\{"left_out_bytes":(\d{1,15})\}/g;

export function withoutLargeStrings(body: Buffer): Buffer | undefined {
  const parts: Buffer[] = [];
  let from = 0;
  let open = -1;
  let at = -1;
  for (let quotes = 0; quotes < QUOTES_MAX; quotes++) {
    at = body.indexOf(QUOTE, at + 1);
    if (at < 0) return Buffer.concat([...parts, body.subarray(from)]);
    if (open < 0) open = at;
    else if (!isEscaped(body, at)) {
      const bytes = at + 1 - open;
      if (bytes > HOOK_MEMBER_BYTES_KEPT && !isKey(body, at + 1)) {
        parts.push(body.subarray(from, open), Buffer.from(leftOut(bytes)));
        from = at + 1;
      }
      open = -1;
    }
  }
  return undefined;
}

function isEscaped(body: Buffer, at: number): boolean {
  let first = at;
  while (body[first - 1] === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

function isKey(body: Buffer, behind: number): boolean {
  let at = behind;
  while (at < body.length && body[at]! <= 0x20) at++;
  return body[at] === COLON;
}
