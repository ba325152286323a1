// Searches one plain text in another in linear time. String.indexOf is by far the fastest, and linear for texts of
// 7-250 characters (measured: at most 5 ns a character); shorter ones cost up to 17 ns, longer ones up to 3 µs a
// character on periodic texts, where V8's search falls back to the naive one. Those are searched by Knuth, Morris and
// Pratt (2 ns).
import type { Budget } from '../budget.ts';

const INDEX_OF_MIN = 7;
const INDEX_OF_MAX = 250;

/** Is String.indexOf linear for this text? */
export function isFastPlain(wanted: string): boolean {
  return wanted.length === 1 || (wanted.length >= INDEX_OF_MIN && wanted.length <= INDEX_OF_MAX);
}

export class LiteralSearch {
  readonly text: string;
  /** For each length of a partial match: the length of the next shorter one. Null where indexOf does it. */
  readonly #borders: Int32Array | null;

  constructor(text: string) {
    this.text = text;
    this.#borders = isFastPlain(text) ? null : borders(text);
  }

  isIn(text: string, budget: Budget): boolean {
    return this.indexIn(text, 0, budget) >= 0;
  }

  indexIn(text: string, from: number, budget: Budget): number {
    budget.spend(10 + text.length - from);
    if (this.#borders === null || this.text.length > text.length) return text.indexOf(this.text, from);
    const { text: wanted } = this;
    for (let i = from, matched = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      while (matched > 0 && wanted.charCodeAt(matched) !== unit) matched = this.#borders[matched]!;
      if (wanted.charCodeAt(matched) === unit) matched++;
      if (matched === wanted.length) return i - matched + 1;
    }
    return -1;
  }
}

function borders(text: string): Int32Array {
  const table = new Int32Array(text.length + 1);
  for (let i = 1, matched = 0; i < text.length; i++) {
    while (matched > 0 && text[matched] !== text[i]) matched = table[matched]!;
    if (text[matched] === text[i]) matched++;
    table[i + 1] = matched;
  }
  return table;
}
