// How long it took what an event is about, where its payload says so (`duration_ms`, as spans of OpenTelemetry have
// it), for rows of lists. Like the summary it is made when a row is read, of the first characters of the payload and
// the last of a longer one (event-summary.ts).
// Invariant: a member of the payload itself, whole, and a number, or nothing; what is in the midst of a long payload is
// not looked for. Work is bounded by the ends and KEYS_MAX. Never throws.
import type { PayloadEnds } from './event-summary.ts';
import { type PartialValue, readPartial } from './partial-json.ts';

const NAME = 'duration_ms';
const KEY = `"${NAME}"`;
/** Further inside of an end of a payload there may be as many keys of this name as it has room for. */
const KEYS_MAX = 8;

/** In ms. undefined: it says none. */
export function eventDuration({ head, tail }: PayloadEnds): number | undefined {
  const said = inHead(head, tail !== '') ?? inTail(tail);
  if (said === undefined || !NUMBER.test(said)) return undefined;
  const ms = Number(said);
  return ms <= Number.MAX_SAFE_INTEGER ? ms : undefined;
}

/** As JSON has it that is not negative. */
const NUMBER = /^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function inHead(head: string, isCut: boolean): string | undefined {
  if (!head.includes(KEY)) return undefined;
  const members = membersOf(head);
  const said = members.get(NAME)?.raw;
  // Its last digits may be missing.
  const mayGoOn = isCut && [...members.keys()].at(-1) === NAME && head.endsWith(said ?? '');
  return mayGoOn ? undefined : said?.trim();
}

/** A member of the payload itself is one behind which nothing ends but the payload. */
function inTail(tail: string): string | undefined {
  let at = tail.length;
  for (let keys = 0; keys < KEYS_MAX && at > 0; keys++) {
    at = tail.lastIndexOf(KEY, at - 1);
    if (at < 0) return undefined;
    const text = `{${tail.slice(at)}`;
    // A quote inside of a string has a backslash in front.
    if (tail[at - 1] !== '\\' && readPartial(text).raw.length === text.trimEnd().length)
      return membersOf(text).get(NAME)?.raw.trim();
  }
  return undefined;
}

function membersOf(text: string): ReadonlyMap<string, PartialValue> {
  const payload = readPartial(text);
  return payload.kind === 'object' ? payload.members : NOTHING;
}

const NOTHING: ReadonlyMap<string, PartialValue> = new Map();
