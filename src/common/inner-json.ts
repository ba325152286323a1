// Text inside text: which strings are opened, and what they hold. The one notion of it for policies
// (src/policy/texts/text-forms.ts) and for the search (search/payload-words.ts).
// A string that begins like JSON (an object, an array, a string of JSON that holds one, a fenced block of one, behind
// blanks and comments) is read: as JSON, or where JSON.parse refuses it by the rules of other languages
// (lenient-json.ts). Where there is not one reading (a key twice, too deep, cut, anything else) it is not readable, and
// who asks must not take that for nothing.
// Invariant: prose that happens to begin with a bracket stays prose, by its first characters alone. Linear.
import type { Json } from '../../schemas/common.ts';
import { parseExact, stringEnd } from './exact-json.ts';
import { gapEnd, readLenient, readString } from './lenient-json.ts';
import { JSON_DEPTH_MAX } from './limits.ts';

/** How deep text inside text inside text is looked into. */
export const INNER_LEVELS_MAX = 3;

/**
 * The JSON value in a string. `isExact`: by JSON's own rules, so that its text is that of a document. `value`
 * undefined: it begins like JSON, and there is not one reading.
 */
export type InnerText = { readonly value: Json | undefined; readonly isExact: boolean };

export const NOT_READABLE: InnerText = { value: undefined, isExact: false };

const BEGINS = '{["\'`#';
/** Behind an opening brace: a key that is no string, as literals of either language have them. */
const KEY = /-?[\p{ID_Continue}$][\p{ID_Continue}$.+-]{0,999}/uy;
/** A mark of redaction is none. */
const OTHER_KEY = /\.\.\.|\[(?!redacted:)/y;
/** Before an item, as JavaScript takes them (`!0`, `+"1"`). */
const OPERATORS = /[-+!~][-+!~\s]{0,99}/y;
/** Behind an opening bracket: an item that is no string, or none; `void 0` is an item. */
const ITEM = /(?=,)|\.?\d[\w.+-]{0,999}|(?:[tT]rue|[fF]alse|null|None|undefined|NaN|nan|Infinity|inf)\b|void 0/y;
const TOKEN_CHARACTERS_MAX = 1_000;
/** How JSON begins: to have JSON.parse refuse a text takes some microseconds. */
const EXACT = /\{[ \t\n\r]*["}]|\[[ \t\n\r]*(?:["{[\]\d-]|true|false|null)/y;
const ESCAPED_KEY = /^[{[][\s{[]*\\+"/;
/** Passes over the quotes of a string in a string, and so on, with blanks that may be escaped. */
const QUOTES = /(?:[\s"']|\\+[bfnrtv0]?)*/y;
const OPENS = /[{[]/;
const FENCE = /```[^\n`]{0,100}\n/y;

/** By its first characters: of most strings nothing more has to be asked. */
export function mayHoldJson(text: string): boolean {
  const first = text.charCodeAt(0);
  if (text[0] === '/') return text[1] === '/' || text[1] === '*';
  return first <= 0x20 || first >= 0x7f || BEGINS.includes(text[0]!);
}

/** undefined: it is a text and nothing else. */
export function innerText(text: string): InnerText | undefined {
  if (!mayHoldJson(text)) return undefined;
  const start = gapEnd(text, 0, '#');
  switch (text[start]) {
    case '{':
    case '[':
      return read(text, start, text.length);
    case '"':
    case "'":
      return readQuoted(text, start);
    case '`':
      return readFenced(text, start);
    default:
      return undefined;
  }
}

function read(text: string, start: number, end: number): InnerText | undefined {
  if (end === text.length && closes(text) && matchEnd(text, EXACT, start) > 0) {
    const value = exactValue(text);
    if (value !== undefined) return { value, isExact: true };
  }
  const whole = text.slice(start, end);
  const isLike = beginsLikeJson(whole);
  if (!isLike && !closes(whole)) return undefined;
  const value = readLenient(whole) ?? escapedText(whole);
  if (value !== undefined) return { value, isExact: false };
  return isLike ? NOT_READABLE : undefined;
}

/** The JSON of which a text is the inside of a string, `{\"key\": …}`. */
function escapedText(text: string): string | undefined {
  if (!ESCAPED_KEY.test(text)) return undefined;
  const string = readString(`"${text}"`, 0);
  return string !== undefined && string.end === text.length + 2 ? string.text : undefined;
}

/** A string of JSON; in other quotes, one that holds JSON. */
function readQuoted(text: string, start: number): InnerText | undefined {
  const exact = text[start] === '"' ? exactValue(text) : undefined;
  if (exact !== undefined) return { value: exact, isExact: true };
  const from = matchEnd(text, QUOTES, start);
  if (!OPENS.test(text[from] ?? '') || !beginsLikeJson(unescaped(text.slice(from)))) return undefined;
  const string = readString(text, start);
  if (string === undefined || gapEnd(text, string.end) < text.length) return NOT_READABLE;
  return { value: string.text, isExact: false };
}

/**
 * Reads the text inside of a string, well enough to see how it begins: blanks that are escaped, and other characters.
 */
function unescaped(text: string): string {
  return text.replaceAll(/\\+[bfnrtv0]/g, ' ').replaceAll('\\', '');
}

/** The value in the first fenced block, where that begins like JSON. */
function readFenced(text: string, start: number): InnerText | undefined {
  const end = matchEnd(text, FENCE, start);
  if (end === 0) return undefined;
  const from = gapEnd(text, end);
  if (text[from] !== '{' && text[from] !== '[') return undefined;
  const close = text.indexOf('\n```', from);
  return read(text, from, close < 0 ? text.length : close);
}

/** Does it open an object or array, with a first key or item that shows what it is? */
function beginsLikeJson(text: string): boolean {
  let at = 0;
  for (let depth = 0; depth <= JSON_DEPTH_MAX; depth++) {
    const open = text[at];
    if (open !== '{' && open !== '[') return false;
    at = gapEnd(text, at + 1, '#');
    if (open === '[') at = matchEnd(text, OPERATORS, at) || at;
    if (STRING.test(text[at] ?? '')) return isStringOfJson(text, open, at);
    if (open === '{') return isFollowed(text, KEY, at, ':') || matchEnd(text, OTHER_KEY, at) > 0;
    if (isFollowed(text, ITEM, at, ',') || isFollowed(text, ITEM, at, undefined)) return true;
    if (text[at] === '/') return isPatternOfList(text, at);
  }
  return true;
}

/** Behind what a form takes there; 0: it takes nothing. */
function matchEnd(text: string, form: RegExp, at: number): number {
  form.lastIndex = at;
  return form.test(text) ? form.lastIndex : 0;
}

/**
 * Does a form take something there, and behind a gap follows that? `next` undefined: the end of the text. A token that
 * goes on for longer than a form looks is no word of prose.
 */
function isFollowed(text: string, form: RegExp, at: number, next: string | undefined): boolean {
  const end = matchEnd(text, form, at);
  if (end - at >= TOKEN_CHARACTERS_MAX) return true;
  return end > 0 && text[gapEnd(text, end)] === next;
}

const FLAGS = /[dgimsuvy]{0,8}/y;

/** Does a pattern stand there, as JavaScript writes one (`/[/]x/g`), and behind it the comma of a list? */
function isPatternOfList(text: string, at: number): boolean {
  let isInClass = false;
  const limit = at + TOKEN_CHARACTERS_MAX;
  for (let i = at + 1; i < text.length && text[i] !== '\n'; i++) {
    if (i === limit) return true;
    const c = text[i];
    if (c === '\\') i++;
    else if (c === '[' || c === ']') isInClass = c === '[';
    else if (c === '/' && !isInClass) return i > at + 1 && text[gapEnd(text, matchEnd(text, FLAGS, i + 1))] === ',';
  }
  return false;
}

/** The first character of a string, itself or as part of another. */
const STRING = /["'\\]/;

/**
 * By what follows the first string behind a bracket. A command line may begin with `[ "$x" ] &&` or `{ "$x" y; }`; one
 * that is cut is taken for JSON.
 */
function isStringOfJson(text: string, open: string, at: number): boolean {
  if (text[at] === '\\') return STRING.test(text[at + 1] ?? '');
  const next = text[gapEnd(text, stringEnd(text, at) + 1)];
  if (next === undefined || next === ',') return true;
  return open === '{' ? next === ':' || next === '}' : next === ']' && text[at - 1] === open;
}

function closes(text: string): boolean {
  let last = text.length - 1;
  while (text.charCodeAt(last) <= 0x20) last--;
  return text[last] === '}' || text[last] === ']';
}

/** The value of a text by JSON's own rules; undefined: none, or a key stands twice in it, or it is too deep. */
export function exactValue(text: string): Json | undefined {
  try {
    const value = parseExact(text);
    const keys = countKeys(value, JSON_DEPTH_MAX);
    return keys === 0 || keys === membersOf(text) ? value : undefined;
  } catch (error) {
    // RangeError: it is nested deeper than the stack.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Keys of all objects inside a parsed value; NaN where it is nested deeper than `levels`. */
export function countKeys(value: Json, levels: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  if (levels === 0) return Number.NaN;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') count += countKeys(item, levels - 1);
    return count;
  }
  // JSON.parse makes own properties only, `__proto__` among them, so for-in would be right but for the prototype chain.
  for (const key of Object.keys(value)) {
    count++;
    const item = value[key];
    if (typeof item === 'object') count += countKeys(item!, levels - 1);
  }
  return count;
}

/** Members of all objects of a text that is JSON, those whose key stands twice among them. */
function membersOf(json: string): number {
  let members = 0;
  for (let i = 0; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    if (unit === QUOTE) i = stringEnd(json, i);
    else if (unit === COLON) members++;
  }
  return members;
}

const QUOTE = 0x22;
const COLON = 0x3a;
