// Reads the values of a payload by name and place, on the layout of its tokens: looking for messages takes members of
// members, and makes no values, since numbers would lose their digits.
// Invariant: linear in the text, however deep it is: one pass links each line with the next member of its parent.
// Failure: what is not there is undefined; of keys that are there twice the last counts, as the service reads them.
import { FIELDS, isDocument, KIND, keyText, type Layout, layOut, meaningOf, readable, valueAt } from './tokens.ts';

/** A document is a payload, or JSON that stood as text in one. */
type Document = { layout: Layout; first: Int32Array; next: Int32Array };

/** A value of a payload. */
export class Value {
  readonly #of: Document;
  readonly #line: number;

  constructor(of: Document, line: number) {
    this.#of = of;
    this.#line = line;
  }

  get kind(): 'object' | 'list' | 'text' | 'number' | 'word' {
    const char = this.#of.layout.text[this.#field(3)];
    if (char === '{') return 'object';
    if (char === '[') return 'list';
    const kind = this.#field(5);
    return kind === KIND.text ? 'text' : kind === KIND.number ? 'number' : 'word';
  }

  /** Members of an object by name; none of anything else. */
  members(): Map<string, Value> {
    const found = new Map<string, Value>();
    if (this.kind === 'object')
      for (const line of this.#lines()) found.set(keyText(this.#of.layout, line), this.#at(line));
    return found;
  }

  /** Elements of a list, at most `max`; none of anything else. */
  items(max = Number.POSITIVE_INFINITY): Value[] {
    const found: Value[] = [];
    if (this.kind !== 'list') return found;
    for (const line of this.#lines()) {
      if (found.length >= max) break;
      found.push(this.#at(line));
    }
    return found;
  }

  /** The last of the names that are there: `{a: {b: 1}}` has `get('a', 'b')`. */
  get(...names: string[]): Value | undefined {
    let here: Value | undefined = this;
    for (const name of names) here = here?.members().get(name);
    return here;
  }

  /** The characters that a string of JSON stands for; undefined: it is no string. */
  get text(): string | undefined {
    return this.kind === 'text' ? meaningOf(this.sent) : undefined;
  }

  /** As it was sent. */
  get sent(): string {
    return valueAt(this.#of.layout, this.#line);
  }

  /** For a person, JSON inside of a text line by line; numbers as they were sent. */
  get readable(): string {
    return readable(this.sent);
  }

  get isNothing(): boolean {
    const kind = this.#field(5);
    if (kind === KIND.open) return false;
    return kind === KIND.empty || this.sent === 'null' || this.sent === '""';
  }

  /** The JSON document that stands in a text; itself where it is no such text. */
  get opened(): Value {
    const text = this.text;
    return text !== undefined && isDocument(text) ? payloadValue(text) : this;
  }

  *#lines(): Generator<number> {
    for (let line = this.#of.first[this.#line]!; line >= 0; line = this.#of.next[line]!) yield line;
  }

  #at(line: number): Value {
    return new Value(this.#of, line);
  }

  #field(which: number): number {
    return this.#of.layout.lines[this.#line * FIELDS + which]!;
  }
}

/** Reads a JSON text. */
export function payloadValue(text: string): Value {
  const layout = layOut(text);
  const first = new Int32Array(layout.count).fill(-1);
  const next = new Int32Array(layout.count).fill(-1);
  const last = new Int32Array(layout.count).fill(-1);
  for (let line = 1; line < layout.count; line++) {
    const parent = layout.lines[line * FIELDS + 6]!;
    if (parent < 0 || layout.lines[line * FIELDS + 5] === KIND.close) continue;
    if (last[parent]! < 0) first[parent] = line;
    else next[last[parent]!] = line;
    last[parent] = line;
  }
  return new Value({ layout, first, next }, 0);
}
