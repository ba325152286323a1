// Fields and their values in what was recorded, to be suggested while a policy is written: read off the beginnings of
// payloads that lists have, so a text may end anywhere.
// Invariant: a value is suggested only whole, with the characters that it was sent with. Lists are passed over.
import { endOfString, endOfValue, endOfWord, skipSpace } from './json.ts';
import { meaningOf } from './tokens.ts';

/** Paths (`payload.arguments.amount`), the most frequent first, each with JSON texts of its values. */
type RecordedFields = Map<string, string[]>;

const PATHS_MAX = 40;
const VALUES_MAX = 20;
/** A longer one says nothing in a menu. */
const VALUE_CHARACTERS_MAX = 80;
/** Other keys would have to be quoted in a path. */
export const PLAIN_KEY = /^[A-Za-z_][\w-]*$/;

export function recordedFields(previews: readonly string[]): RecordedFields {
  const found = new Map<string, { times: number; values: Set<string> }>();
  const note = (path: string, value: string) => {
    const field = found.get(path) ?? { times: 0, values: new Set<string>() };
    found.set(path, field);
    field.times++;
    if (value.length <= VALUE_CHARACTERS_MAX && field.values.size < VALUES_MAX) field.values.add(value);
  };
  for (const text of previews) readMembers(text, skipSpace(text, 0), 'payload', note);
  const often = [...found].sort(([, a], [, b]) => b.times - a.times).slice(0, PATHS_MAX);
  return new Map(often.map(([path, { values }]) => [path, [...values]]));
}

/** Where the object ends that begins at `at`; the length of the text where it is cut off. */
function readMembers(text: string, at: number, path: string, note: (path: string, value: string) => void): number {
  if (text[at] !== '{') return text.length;
  for (let from = skipSpace(text, at + 1); from < text.length; ) {
    if (text[from] === '}') return from + 1;
    const keyTo = endOfString(text, from);
    const valueFrom = skipSpace(text, skipSpace(text, keyTo) + 1);
    if (text[from] !== '"' || valueFrom >= text.length) return text.length;
    const key = meaningOf(text.slice(from, keyTo));
    const place = `${path}.${key}`;
    const isPlain = PLAIN_KEY.test(key);
    const to = valueEnd(text, valueFrom, place, isPlain ? note : () => undefined);
    if (to >= text.length) return text.length;
    if (isPlain && !'{['.includes(text[valueFrom]!)) note(place, text.slice(valueFrom, to));
    from = skipSpace(text, to);
    if (text[from] === ',') from = skipSpace(text, from + 1);
  }
  return text.length;
}

function valueEnd(text: string, at: number, path: string, note: (path: string, value: string) => void): number {
  if (text[at] === '{') return readMembers(text, at, path, note);
  if (text[at] === '[') return endOfValue(text, at);
  return text[at] === '"' ? endOfString(text, at) : endOfWord(text, at);
}
