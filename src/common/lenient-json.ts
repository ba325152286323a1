// Reads text that is written like JSON by another language's rules: Python's literals and JavaScript's (for
// inner-json.ts, of text that JSON.parse refuses). What both would read alike, or one of them alone can read, has one
// reading; everything else has none.
// Taken beyond JSON: NaN and infinities, `None True False undefined`, text in single quotes, escapes of either language
// that mean the same in both, raw control characters in text, keys without quotes, tuples and sets, commas before a
// closing bracket, comments. Not taken: a key twice, more than JSON_DEPTH_MAX levels, calls, anything else.
// Invariant: linear in the length of the text; never throws. Failure: undefined, there is not one reading.
import type { Json } from '../../schemas/common.ts';
import { exactNumber, LongNumber } from './exact-number.ts';
import { JSON_DEPTH_MAX } from './limits.ts';

/** `end`: behind what was read. */
type ReadString = { text: string; end: number };

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const NAME = /-?[\p{ID_Start}$_][\p{ID_Continue}$]*/uy;
const PREFIX = /[uUbB](?=["'])/y;
const PART_OF_NAME = /[\p{ID_Continue}$.]/u;

/** The values of words. A number that JSON does not have is text, so that a comparison of numbers says so. */
const WORDS: ReadonlyMap<string, Json> = new Map<string, Json>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['null', null],
  ['None', null],
  ['undefined', null],
  ...['NaN', 'nan', 'Infinity', '-Infinity', 'inf', '-inf'].map((word): [string, Json] => [word, word]),
]);

/** The value that a whole text stands for; undefined: there is not one reading. */
export function readLenient(text: string): Json | undefined {
  try {
    return new Reader(text).whole();
  } catch (error) {
    if (error === NOT_ONE_READING) return undefined;
    throw error;
  }
}

/** Behind blanks, what shows nothing, and comments. `line`: what begins a comment beside those of JavaScript. */
export function gapEnd(text: string, start: number, line = ''): number {
  let at = start;
  for (;;) {
    const unit = text.charCodeAt(at);
    if (unit <= 0x20 || (unit >= 0x7f && SHOWS_NOTHING.test(text[at]!))) at++;
    else if (text[at] === line || (unit === SLASH && text.charCodeAt(at + 1) === SLASH)) at = endOr(text, '\n', at);
    else if (unit === SLASH && text.charCodeAt(at + 1) === STAR) at = endOr(text, '*/', at + 2);
    else return at;
  }
}

function endOr(text: string, closing: string, from: number): number {
  const found = text.indexOf(closing, from);
  return found < 0 ? text.length : found + closing.length;
}

const SLASH = 0x2f;
const STAR = 0x2a;
/** The Braille blank is a symbol to Unicode. */
const SHOWS_NOTHING = /[\s\p{Cf}\p{Cc}\u2800]/u;

/** The string that opens with the quote at `open`; undefined: it is not closed, or an escape has not one meaning. */
export function readString(text: string, open: number): ReadString | undefined {
  const quote = text[open]!;
  const parts: string[] = [];
  let copied = open + 1;
  for (let i = open + 1; i < text.length; ) {
    if (text[i] === quote) {
      parts.push(text.slice(copied, i));
      return { text: parts.join(''), end: i + 1 };
    }
    if (text[i] !== '\\') {
      i++;
      continue;
    }
    ESCAPE.lastIndex = i;
    const found = ESCAPE.exec(text);
    if (found === null) return undefined;
    const meant = meaningOf(found[0]);
    if (meant === undefined) return undefined;
    parts.push(text.slice(copied, i), meant);
    i += found[0].length;
    copied = i;
  }
  return undefined;
}

/** Escapes that mean the same wherever they are allowed. */
const ESCAPE =
  /\\(?:["'`\\/bfnrtv]|0(?!\d)|\r\n|[\n\r\u2028\u2029]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{0*[0-9a-fA-F]{1,6}\}|U[0-9a-fA-F]{8})/y;
const MEANT: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', 0: '\0' };

function meaningOf(written: string): string | undefined {
  const kind = written[1]!;
  if ('xuU'.includes(kind)) {
    const unit = Number.parseInt(written.slice(2).replace('{', ''), 16);
    return unit > 0x10ffff ? undefined : String.fromCodePoint(unit);
  }
  if (MEANT[kind] !== undefined) return MEANT[kind];
  // A line end that is escaped goes on with the next line.
  return '\n\r\u2028\u2029'.includes(kind) ? '' : kind;
}

const NOT_ONE_READING = Symbol('not one reading');

function refuse(): never {
  throw NOT_ONE_READING;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): Json {
    this.#skipGap();
    const value = this.#value(JSON_DEPTH_MAX);
    this.#skipGap();
    return this.#at === this.#text.length ? value : refuse();
  }

  #value(levels: number): Json {
    const first = this.#text[this.#at];
    if (first === '{') return levels === 0 ? refuse() : this.#braces(levels - 1);
    if (first === '[') return levels === 0 ? refuse() : this.#items(']', levels - 1);
    if (first === '(') return levels === 0 ? refuse() : this.#items(')', levels - 1);
    return this.#scalar();
  }

  /** An object, or a set: of what stands in it as a list. */
  #braces(levels: number): Json {
    const start = this.#at++;
    this.#skipGap();
    if (this.#taken('}')) return {};
    const isKey = !'{[('.includes(this.#text[this.#at] ?? '') && this.#key() !== undefined;
    this.#skipGap();
    const isObject = isKey && this.#text[this.#at] === ':';
    this.#at = start;
    return isObject ? this.#members(levels) : this.#items('}', levels);
  }

  #items(close: string, levels: number): Json[] {
    const items: Json[] = [];
    this.#at++;
    for (this.#skipGap(); !this.#taken(close); this.#skipGap()) {
      items.push(this.#value(levels));
      this.#separator(close);
    }
    return items;
  }

  #members(levels: number): Json {
    const members: { [key: string]: Json } = {};
    this.#at++;
    for (this.#skipGap(); !this.#taken('}'); this.#skipGap()) {
      const key = this.#key();
      if (Object.hasOwn(members, key)) refuse();
      this.#skipGap();
      if (!this.#taken(':')) refuse();
      this.#skipGap();
      const value = this.#value(levels);
      // `__proto__` is a key like any other.
      if (key === '__proto__')
        Object.defineProperty(members, key, { value, writable: true, enumerable: true, configurable: true });
      else members[key] = value;
      this.#separator('}');
    }
    return members;
  }

  /** A comma, or what closes is next. */
  #separator(close: string): void {
    this.#skipGap();
    if (!this.#taken(',') && this.#text[this.#at] !== close) refuse();
  }

  #key(): string {
    const name = this.#isPrefix() ? undefined : this.#token(NAME);
    if (name !== undefined && !name.startsWith('-')) return name;
    this.#at -= name?.length ?? 0;
    const scalar = this.#scalar();
    return scalar instanceof LongNumber ? scalar.text : String(scalar);
  }

  #scalar(): Json {
    if (this.#isPrefix()) this.#at++;
    const first = this.#text[this.#at];
    if (first === '"' || first === "'") return this.#string();
    const number = this.#token(NUMBER);
    if (number !== undefined) return exactNumber(number) as Json;
    const value = WORDS.get(this.#token(NAME) ?? '');
    return value === undefined ? refuse() : value;
  }

  /** The token of this form here; undefined: none. A letter or digit that follows makes it another token. */
  #token(form: RegExp): string | undefined {
    form.lastIndex = this.#at;
    const token = form.exec(this.#text)?.[0];
    if (token === undefined) return undefined;
    this.#at += token.length;
    return PART_OF_NAME.test(this.#text[this.#at] ?? '') ? refuse() : token;
  }

  #string(): string {
    const read = readString(this.#text, this.#at);
    if (read === undefined) return refuse();
    this.#at = read.end;
    return read.text;
  }

  #isPrefix(): boolean {
    PREFIX.lastIndex = this.#at;
    return PREFIX.test(this.#text);
  }

  #taken(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #skipGap(): void {
    this.#at = gapEnd(this.#text, this.#at, '#');
  }
}
