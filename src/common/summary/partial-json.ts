// Reads the beginning of a text of JSON, which may end anywhere, as values that keep the place of each in the text (for
// event-summary.ts). Before it: some thousand characters of a stored payload.
// Invariant: linear in the text, at most JSON_DEPTH_MAX calls deep, never throws. A value that is cut off is what is
// there of it; what is deeper, or no JSON, is a raw stretch. Numbers are never converted. Of a key that stands twice
// the last counts.
import { stringEnd } from '../exact-json.ts';
import { stringOf } from '../json-text.ts';
import { JSON_DEPTH_MAX } from '../limits.ts';

/** `raw`: as it is written, to where the text ends. */
export type PartialValue =
  | { kind: 'object'; members: ReadonlyMap<string, PartialValue>; raw: string }
  | { kind: 'list'; items: readonly PartialValue[]; raw: string }
  /** `text`: what the string stands for. */
  | { kind: 'text'; readonly text: string; raw: string }
  | { kind: 'other'; raw: string };

export function readPartial(text: string): PartialValue {
  return new Reader(text).value(JSON_DEPTH_MAX);
}

/** The text of a string that may have lost its end. `written`: with its quotes, but for the second of one cut. */
function meaningOf(written: string): string {
  const isWhole = written.length > 1 && stringEnd(written, 0) === written.length - 1;
  const whole = isWhole ? written : `${withoutCutEscape(written)}"`;
  let meant: string;
  try {
    meant = stringOf(whole);
  } catch {
    // No JSON: an escape that means nothing, or a raw control character.
    meant = whole.slice(1, -1);
  }
  return isWhole ? meant : meant.replace(HALF_A_CHARACTER, '');
}

const HALF_A_CHARACTER = /[\ud800-\udbff]$/;

/** Without an escape at the end that is not whole. */
function withoutCutEscape(written: string): string {
  const at = written.lastIndexOf('\\');
  if (at < 0 || !CUT_ESCAPE.test(written.slice(at))) return written;
  let first = at;
  while (written[first - 1] === '\\') first--;
  // Of an even number each is the first of a pair, or its second.
  return (at - first) % 2 === 0 ? written.slice(0, at) : written;
}

const CUT_ESCAPE = /^\\(?:u[0-9a-fA-F]{0,3})?$/;

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(levels: number): PartialValue {
    this.#skipBlank();
    const start = this.#at;
    const sign = this.#text[start];
    if (sign === '"') {
      const raw = this.#string();
      // Most texts of a payload are never looked at.
      return {
        kind: 'text',
        raw,
        get text() {
          return meaningOf(raw);
        },
      };
    }
    if (levels > 0 && sign === '{')
      return { kind: 'object', members: this.#members(levels - 1), raw: this.#from(start) };
    if (levels > 0 && sign === '[') return { kind: 'list', items: this.#items(levels - 1), raw: this.#from(start) };
    this.#skipRaw();
    return { kind: 'other', raw: this.#from(start) };
  }

  #members(levels: number): Map<string, PartialValue> {
    const members = new Map<string, PartialValue>();
    this.#at++;
    while (this.#hasNext('}')) {
      if (this.#text[this.#at] !== '"') {
        // No key: what stands there is no JSON, and where the next begins is not known.
        this.#at = this.#text.length;
        break;
      }
      const key = meaningOf(this.#string());
      this.#skipBlank();
      if (this.#text[this.#at] !== ':') continue;
      this.#at++;
      this.#skipBlank();
      if (this.#at < this.#text.length) members.set(key, this.value(levels));
    }
    return members;
  }

  #items(levels: number): PartialValue[] {
    const items: PartialValue[] = [];
    this.#at++;
    while (this.#hasNext(']')) {
      const start = this.#at;
      items.push(this.value(levels));
      // A bracket that closes what is not open.
      if (this.#at === start) this.#at++;
    }
    return items;
  }

  /** Is there a member or item behind this place? Goes to it past a comma, or past `close`. */
  #hasNext(close: string): boolean {
    this.#skipBlank();
    if (this.#text[this.#at] === ',') {
      this.#at++;
      this.#skipBlank();
    }
    if (this.#text[this.#at] !== close) return this.#at < this.#text.length;
    this.#at++;
    return false;
  }

  /** With its quotes. */
  #string(): string {
    const start = this.#at;
    this.#at = Math.min(stringEnd(this.#text, start) + 1, this.#text.length);
    return this.#from(start);
  }

  /** A number, a word, or brackets that are too deep: to the comma or bracket behind it. */
  #skipRaw(): void {
    let depth = 0;
    for (; this.#at < this.#text.length; this.#at++) {
      const sign = this.#text[this.#at]!;
      if (sign === '"') this.#at = stringEnd(this.#text, this.#at);
      else if (sign === '{' || sign === '[') depth++;
      else if (sign === '}' || sign === ']') {
        if (depth === 0) break;
        depth--;
      } else if (sign === ',' && depth === 0) break;
    }
    this.#at = Math.min(this.#at, this.#text.length);
  }

  #skipBlank(): void {
    while (BLANK.has(this.#text.charCodeAt(this.#at))) this.#at++;
  }

  #from(start: number): string {
    return this.#text.slice(start, this.#at);
  }
}

const BLANK: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d]);
