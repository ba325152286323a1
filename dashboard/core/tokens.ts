// Lays a payload's JSON text out in lines, one a scalar, a bracket or a key, without ever making a value of it: what is
// shown of a line is a piece of the text as it was sent. Runs on the page for small payloads and in tokens-worker.ts
// for large ones. Lines are numbers in one array (FIELDS each), so that the worker hands over a million of them without
// copying.
// Invariant: every character of the text that is no white space belongs to exactly one line. Linear in the text.
// Failure: text that is no JSON (it cannot be, the service has checked it) ends the layout where it stops making sense.
import { endOfString, endOfValue, endOfWord, skipSpace } from './json.ts';

/**
 * A line has these fields: depth, start and end of its key (-1: none), start and end of its value, kind, line of what
 * it is in, place in it.
 */
export const FIELDS = 8;
export const KIND = { open: 0, close: 1, text: 2, number: 3, word: 4, empty: 5 } as const;

export type Layout = {
  text: string;
  /** FIELDS numbers a line. */
  lines: Int32Array;
  count: number;
};

export function layOut(text: string): Layout {
  let lines = new Int32Array(1024 * FIELDS);
  let count = 0;
  const put = (...fields: number[]) => {
    if ((count + 1) * FIELDS > lines.length) {
      const larger = new Int32Array(lines.length * 2);
      larger.set(lines);
      lines = larger;
    }
    lines.set(fields, count++ * FIELDS);
  };
  /** Lines that are open, and how many members each has had. */
  const parents: number[] = [];
  const members: number[] = [];
  let keyFrom = -1;
  let keyTo = -1;
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const depth = parents.length;
    const parent = depth === 0 ? -1 : parents[depth - 1]!;
    const char = text[at]!;
    if (char === ',') {
      members[depth - 1]!++;
      at++;
      continue;
    }
    if (char === '}' || char === ']') {
      const opened = parents.pop() ?? -1;
      members.pop();
      put(depth - 1, -1, -1, at, at + 1, KIND.close, opened, 0);
      at++;
      continue;
    }
    const inObject = parent >= 0 && text[lines[parent * FIELDS + 3]!] === '{';
    if (inObject && keyFrom < 0) {
      keyFrom = at;
      keyTo = endOfString(text, at);
      at = skipSpace(text, keyTo) + 1; // behind the colon
      continue;
    }
    const place = members[depth - 1] ?? 0;
    if (char === '{' || char === '[') {
      const closing = skipSpace(text, at + 1);
      const isEmpty = text[closing] === '}' || text[closing] === ']';
      put(depth, keyFrom, keyTo, at, isEmpty ? closing + 1 : at + 1, isEmpty ? KIND.empty : KIND.open, parent, place);
      if (!isEmpty) {
        parents.push(count - 1);
        members.push(0);
      }
      at = isEmpty ? closing + 1 : at + 1;
    } else {
      const end = char === '"' ? endOfString(text, at) : endOfWord(text, at);
      const kind = char === '"' ? KIND.text : /[-0-9]/.test(char) ? KIND.number : KIND.word;
      put(depth, keyFrom, keyTo, at, end, kind, parent, place);
      at = end;
    }
    keyFrom = -1;
    keyTo = -1;
  }
  return { text, lines: lines.slice(0, count * FIELDS), count };
}

const field = ({ lines }: Layout, line: number, which: number) => lines[line * FIELDS + which]!;

export type Line = {
  depth: number;
  /** As it was sent, with its quotes; '' : none. */
  key: string;
  from: number;
  to: number;
  kind: number;
  /** Does another member follow? Then a comma is shown. */
  comma: boolean;
};

export function lineOf(layout: Layout, line: number): Line {
  const keyFrom = field(layout, line, 1);
  const to = field(layout, line, 4);
  return {
    depth: field(layout, line, 0),
    key: keyFrom < 0 ? '' : layout.text.slice(keyFrom, field(layout, line, 2)),
    from: field(layout, line, 3),
    to,
    kind: field(layout, line, 5),
    comma: layout.text[skipSpace(layout.text, to)] === ',',
  };
}

/** The line of the value at a JSON Pointer; -1: there is none. Of repeated keys the last, as the service reads them. */
export function lineAt(layout: Layout, pointer: string): number {
  let parent = 0;
  for (const part of pointer.split('/').slice(1)) {
    const wanted = part.replaceAll('~1', '/').replaceAll('~0', '~');
    const isArray = layout.text[field(layout, parent, 3)] === '[';
    let found = -1;
    for (let line = parent + 1; line < layout.count; line++) {
      if (field(layout, line, 6) !== parent) {
        if (field(layout, line, 0) <= field(layout, parent, 0)) break;
        continue;
      }
      if (field(layout, line, 5) === KIND.close) break;
      if (isArray ? String(field(layout, line, 7)) === wanted : keyText(layout, line) === wanted) found = line;
    }
    if (found < 0) return -1;
    parent = found;
  }
  return parent;
}

/** The whole value that begins at a line, as it was sent. */
export function valueAt(layout: Layout, line: number): string {
  const from = field(layout, line, 3);
  return layout.text.slice(from, endOfValue(layout.text, from));
}

/** Lines of the members of what is opened at a line. */
export function membersOf(layout: Layout, parent: number): number[] {
  const found: number[] = [];
  for (let line = parent + 1; line < layout.count; line++) {
    if (field(layout, line, 0) <= field(layout, parent, 0)) break;
    if (field(layout, line, 6) === parent && field(layout, line, 5) !== KIND.close) found.push(line);
  }
  return found;
}

/** Deeper lines stand no further in: text inside text may be nested a hundred thousand deep. */
const INDENT_MAX = 40;

/** One line each, indented, for an editor. `drawn`: how a string or a key is written. */
export function indented(text: string, drawn: (token: string, indent: string) => string = (token) => token): string {
  const layout = layOut(text);
  return Array.from({ length: layout.count }, (_, at) => {
    const { depth, key, from, to, kind, comma } = lineOf(layout, at);
    const indent = '  '.repeat(Math.min(depth, INDENT_MAX));
    const value = text.slice(from, to);
    const shown = kind === KIND.text ? drawn(value, indent) : value;
    return `${indent}${key === '' ? '' : `${drawn(key, indent)}: `}${shown}${comma ? ',' : ''}`;
  }).join('\n');
}

export function keyText(layout: Layout, line: number): string {
  return meaningOf(layout.text.slice(field(layout, line, 1), field(layout, line, 2)));
}

/** The text that a string of JSON says; any other token as it is, since reading would change the digits of a number. */
export function meaningOf(token: string): string {
  if (token[0] !== '"') return token;
  if (!token.includes('\\')) return token.slice(1, -1);
  try {
    return JSON.parse(token) as string;
  } catch {
    return token;
  }
}

/** As deep as the service looks into text inside text. */
const LEVELS_MAX = 3;
const INNER_CHARACTERS_MAX = 100_000;

/** A value for a person: what a string says, JSON inside of it line by line; an object or a list so in all its strings. */
export function readable(value: string, level = 0): string {
  const text = value[0] === '"' ? meaningOf(value) : value;
  if (value[0] === '"' && (level >= LEVELS_MAX || !isDocument(text))) return text;
  return indented(text, (token, indent) => `"${readable(token, level + 1).replaceAll('\n', `\n${indent}  `)}"`);
}

const SHORT_CHARACTERS = 60;

/** A value beside words: what fits into a line stays in one. */
export function readableShort(value: string): string {
  if (value.length <= SHORT_CHARACTERS && !value.includes('\\')) return value;
  return value[0] === '"' ? `"${readable(value)}"` : readable(value);
}

/** Is it JSON of an object or a list, short enough to be looked into? */
export function isDocument(text: string): boolean {
  if (text.length > INNER_CHARACTERS_MAX || !/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const ESCAPED: Record<string, string> = { b: ' ', f: ' ', n: ' ', r: ' ', t: ' ' };

/** The beginning of a payload, which may end anywhere, on one line: what its strings say, a break of a line as a space. */
export function readablePreview(text: string): string {
  const once = text.replace(/\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))/g, (_all, code: string | undefined, char: string) =>
    code === undefined ? (ESCAPED[char] ?? char) : String.fromCharCode(Number.parseInt(code, 16)),
  );
  // of text inside text
  return once.replace(/\\u([0-9a-fA-F]{4})/g, (_all, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
}

/** Says for each line in what words are looked for: the text as it was sent, and as it is read. */
export function searchedOf(layout: Layout): string[] {
  return Array.from({ length: layout.count }, (_, line) => {
    const { key, from, to } = lineOf(layout, line);
    const value = layout.text.slice(from, to);
    const read = value.startsWith('"') ? `"${readable(value)}"` : value;
    const sent = layout.text.slice(startOf(layout, line), to);
    return folded(key === '' && read === sent ? sent : `${sent}\n${key === '' ? '' : `"${meaningOf(key)}": `}${read}`);
  });
}

/** Lines in which the words stand, whatever their case; at most `max`. `searched`: of `searchedOf`. */
export function linesWith(searched: readonly string[], words: string, max = 10_000): number[] {
  const wanted = folded(words);
  const found: number[] = [];
  if (wanted === '') return found;
  for (let line = 0; line < searched.length && found.length < max; line++)
    if (searched[line]!.includes(wanted)) found.push(line);
  return found;
}

const BEYOND_ASCII = /[\u0080-\uffff]/;
const SHOWS_NOTHING = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/** As the service folds what it searches: `İ` is `i`, `ß` is `ss`, a ligature its letters, a letter with its mark one. */
function folded(text: string): string {
  if (!BEYOND_ASCII.test(text)) return text.toLowerCase();
  const plain = text.replace(SHOWS_NOTHING, '').normalize('NFKC');
  return plain
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
    .replaceAll('i\u0307', 'i')
    .replaceAll('ς', 'σ');
}

function startOf(layout: Layout, line: number): number {
  const key = field(layout, line, 1);
  return key < 0 ? field(layout, line, 3) : key;
}
