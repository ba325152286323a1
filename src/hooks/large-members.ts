// Takes what makes a hook larger than an event out of its bytes, before they are read as JSON: reading 8 MB on the loop
// that answers would make everyone wait (between the body and src/http/handlers/decision-points/hook-routes.ts; in
// `gatehouse hook` before it is sent).
// Invariant: what is left out is one member each, with its size in its place. One pass, whatever the bytes: some 10 ms.
// Failure: none. What is no JSON is left for the parser to refuse.
import { HOOK_MEMBER_BYTES_KEPT } from '../common/limits.ts';

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];
const BLANK = 0x20;

/** As it stands in the place of what is left out. */
const leftOut = (bytes: number): string => `{"left_out_bytes":${bytes}}`;
export const LEFT_OUT = /\{"left_out_bytes":(\d{1,15})\}/g;

/** Leaves large members out of a hook, or out of the objects in it where the tool has what it is about in one. */
export function withoutLargeMembers(body: Buffer, { inner }: { inner?: string }): Buffer {
  const depth = inner === undefined ? 1 : 2;
  const parts: Buffer[] = [];
  let from = 0;
  let at = 0;
  let start = -1;
  for (let i = 0; i < body.length; i++) {
    const byte = body[i]!;
    if (byte === QUOTE) i = stringEnd(body, i);
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) at++;
    else if (byte === COLON && at === depth) start = behindBlanks(body, i + 1);
    else if (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      if (at === depth && start >= 0) {
        const bytes = i - start;
        if (bytes > HOOK_MEMBER_BYTES_KEPT) {
          parts.push(body.subarray(from, start), Buffer.from(leftOut(bytes)));
          from = i;
        }
        start = -1;
      }
      if (byte !== COMMA) at--;
    }
  }
  return Buffer.concat([...parts, body.subarray(from)]);
}

/** The place of the closing quote, or of the end. */
function stringEnd(body: Buffer, open: number): number {
  let i = open + 1;
  while (i < body.length && body[i] !== QUOTE) i += body[i] === BACKSLASH ? 2 : 1;
  return i;
}

function behindBlanks(body: Buffer, start: number): number {
  let i = start;
  while (i < body.length && body[i]! <= BLANK) i++;
  return i;
}
