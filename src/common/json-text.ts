// Finds its way in the text of a JSON value, so that a message of MCP, a hook or a query is judged and passed on as the
// text that came: numbers keep their digits, strings their escapes. Nothing here writes a value that it has read.
// Before it: a line or a body. Invariant: `withoutRepeatedKeys` leaves one reading, the one of JSON.parse, where a key
// stands twice in an object; all other functions are given a text that it returned. No function calls itself, so a
// depth costs no stack.
// Failure: SyntaxError of JSON.parse for what is no JSON.
import { stringEnd } from './exact-json.ts';
import { applied, type TextEdit } from './text-edits.ts';

/** The place of a value in a text: `end` is behind it. */
type TextSpan = { start: number; end: number };
/** `from`: where its key begins. */
export type Member = TextSpan & { key: string; from: number };

const isBlank = (unit: number): boolean => unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09;

/** For values of our own. */
export const jsonOf = (value: unknown): string => JSON.stringify(value);

/** The value of a string of JSON. `text`: with its quotes. */
export function stringOf(text: string): string {
  return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
}

/** The text where each object has a key once: of several the last, as JSON.parse reads it. */
export function withoutRepeatedKeys(text: string): string {
  JSON.parse(text);
  const cuts: TextEdit[] = [];
  const open: (Map<string, TextSpan> | undefined)[] = [];
  let at: { key: string; start: number } | undefined;
  const waiting: (typeof at)[] = [];
  const close = (end: number) => {
    const members = open.at(-1);
    if (members === undefined || at === undefined) return;
    const before = members.get(at.key);
    if (before !== undefined) cuts.push({ ...before, text: '' });
    members.set(at.key, { start: at.start, end });
    at = undefined;
  };
  for (let i = 0; i < text.length; i++) {
    const sign = text[i];
    if (sign === '"') {
      const end = stringEnd(text, i);
      if (open.at(-1) !== undefined && at === undefined) at = { key: stringOf(text.slice(i, end + 1)), start: i };
      i = end;
    } else if (sign === '{' || sign === '[') {
      waiting.push(at);
      open.push(sign === '{' ? new Map() : undefined);
      at = undefined;
    } else if (sign === ',') close(i + 1);
    else if (sign === '}' || sign === ']') {
      close(i);
      open.pop();
      at = waiting.pop();
    }
  }
  return cuts.length === 0 ? text : spliced(text, withoutInner(cuts));
}

/** Those that lie in no other. */
function withoutInner(edits: readonly TextEdit[]): TextEdit[] {
  let end = -1;
  return [...edits]
    .sort((a, b) => a.start - b.start || b.end - a.end)
    .filter((edit) => {
      if (edit.start < end) return false;
      end = edit.end;
      return true;
    });
}

/** `edits` do not overlap. */
export function spliced(text: string, edits: readonly TextEdit[]): string {
  return applied(
    text,
    [...edits].sort((a, b) => a.start - b.start),
  );
}

export function textAt(text: string, { start, end }: TextSpan): string {
  return text.slice(start, end);
}

/** undefined: the value that begins there is no object. */
export function membersOf(text: string, start = 0): Map<string, Member> | undefined {
  const open = skipBlank(text, start);
  if (text[open] !== '{') return undefined;
  const members = new Map<string, Member>();
  for (let i = skipBlank(text, open + 1); i < text.length && text[i] !== '}'; ) {
    const keyEnd = stringEnd(text, i) + 1;
    const key = stringOf(text.slice(i, keyEnd));
    const value = skipBlank(text, skipBlank(text, keyEnd) + 1);
    const end = valueEnd(text, value);
    members.set(key, { key, from: i, start: value, end });
    i = skipBlank(text, end);
    if (text[i] === ',') i = skipBlank(text, i + 1);
  }
  return members;
}

/** undefined: the value that begins there is no array. */
export function itemsOf(text: string, start = 0): TextSpan[] | undefined {
  const open = skipBlank(text, start);
  if (text[open] !== '[') return undefined;
  const items: TextSpan[] = [];
  for (let i = skipBlank(text, open + 1); i < text.length && text[i] !== ']'; ) {
    const end = valueEnd(text, i);
    items.push({ start: i, end });
    i = skipBlank(text, end);
    if (text[i] === ',') i = skipBlank(text, i + 1);
  }
  return items;
}

/** An object of some of its members, each in its own words. */
export function objectOf(text: string, members: Iterable<Member>): string {
  return `{${[...members].map(({ from, end }) => text.slice(from, end)).join(',')}}`;
}

/** The string at a member; undefined: it is missing, or no string. */
export function stringAt(text: string, span: TextSpan | undefined): string | undefined {
  return span !== undefined && text[span.start] === '"' ? stringOf(textAt(text, span)) : undefined;
}

/** Strings, and numbers and booleans as they are written, at any depth. */
export function scalarsOf(text: string): Set<string> {
  const found = new Set<string>();
  for (let i = 0; i < text.length; i++) {
    if (/[\s{}[\],:]/.test(text[i]!)) continue;
    const end = valueEnd(text, i);
    found.add(text[i] === '"' ? stringOf(text.slice(i, end)) : text.slice(i, end));
    i = end - 1;
  }
  return found;
}

/**
 * The value of `key` in the outermost object of a text that may be cut off or broken; undefined: no scalar is found.
 */
export function scalarIn(text: string, key: string): string | undefined {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const sign = text[i];
    if (sign === '{' || sign === '[') depth++;
    else if (sign === '}' || sign === ']') depth--;
    else if (sign === '"') {
      const end = stringEnd(text, i) + 1;
      const found =
        depth === 1 && text.slice(i, end) === `"${key}"` ? SCALAR_BEHIND.exec(text.slice(end, end + 300)) : null;
      if (found !== null) return found[1];
      i = end - 1;
    }
  }
  return undefined;
}

const SCALAR_BEHIND =
  /^\s*:\s*("(?:[^"\\\p{Cc}]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=[\s,}])/u;

function skipBlank(text: string, start: number): number {
  let i = start;
  while (i < text.length && isBlank(text.charCodeAt(i))) i++;
  return i;
}

function valueEnd(text: string, start: number): number {
  if (text[start] === '"') return stringEnd(text, start) + 1;
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const sign = text[i]!;
    if (sign === '"') i = stringEnd(text, i);
    else if (sign === '{' || sign === '[') depth++;
    else if (sign === '}' || sign === ']') {
      if (depth === 0) return i;
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && (sign === ',' || sign === ':' || isBlank(text.charCodeAt(i)))) return i;
  }
  return text.length;
}
