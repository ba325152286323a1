// Where a check found something, from the positions in its answer to those in our texts (for formats that have any).
// They count characters: code points of Unicode, as Python does, of which none is cut. Spans may overlap, in any order.
// Invariant: a position that does not fit is Nonsense, so the whole answer is an error: a service that counts bytes or
// UTF-16 must not have something else redacted than what it found. Where its positions happen to fit, that cannot be
// seen here; POST /v1/checks/{id}/try shows what stands there.
import type { FoundSpan } from '../../../schemas/external-check.ts';
import { labelsIn, Nonsense, scoreIn } from './format.ts';

type Given = Readonly<Record<string, unknown>>;

export class FoundPlaces {
  readonly #texts: readonly string[];
  readonly #units: (Int32Array | null | undefined)[] = [];

  constructor(texts: readonly string[]) {
    this.#texts = texts;
  }

  /** Reads `{text, start, end, label, score}`; `text` may be left out where there is one. Throws Nonsense. */
  ofText(span: Given): FoundSpan {
    const text = span['text'] ?? (this.#texts.length === 1 ? 0 : undefined);
    if (!isIndex(text) || text >= this.#texts.length) throw new Nonsense();
    return { text, ...this.#within(text, span), ...saidOf(span, 'label') };
  }

  /** Reads places in texts that went as one. What is found in several of them is a span of each. Throws Nonsense. */
  ofJoined(spans: readonly Given[], partedBy: string): FoundSpan[] {
    const joined = new FoundPlaces([this.#texts.join(partedBy)]);
    const begins: number[] = [];
    for (let i = 0, begin = 0; i < this.#texts.length; begin += this.#texts[i++]!.length + partedBy.length)
      begins.push(begin);
    // Some analyzers say what they found and not where.
    return spans
      .filter(({ start, end }) => start !== undefined || end !== undefined)
      .flatMap((span) => {
        const said = saidOf(span, 'entity_type');
        return this.#parts(joined.#within(0, span), begins).map((part) => ({ ...part, ...said }));
      });
  }

  #parts({ start, end }: Pick<FoundSpan, 'start' | 'end'>, begins: readonly number[]) {
    const parts: Pick<FoundSpan, 'text' | 'start' | 'end'>[] = [];
    for (let i = lastAtMost(begins, start); i < begins.length && begins[i]! < end; i++) {
      const [from, to] = [Math.max(0, start - begins[i]!), Math.min(this.#texts[i]!.length, end - begins[i]!)];
      if (from < to) parts.push({ text: i, start: from, end: to });
    }
    return parts;
  }

  #within(text: number, { start, end }: Given): Pick<FoundSpan, 'start' | 'end'> {
    const units = this.#unitsOf(text);
    const length = units === null ? this.#texts[text]!.length : units.length - 1;
    if (!isIndex(start) || !isIndex(end) || start >= end || end > length) throw new Nonsense();
    return units === null ? { start, end } : { start: units[start]!, end: units[end]! };
  }

  /** Where each character begins, and the end; null: each is one code unit. */
  #unitsOf(text: number): Int32Array | null {
    const known = this.#units[text];
    if (known !== undefined) return known;
    const value = this.#texts[text]!;
    const units = /[\ud800-\udbff]/.test(value) ? beginsOf(value) : null;
    this.#units[text] = units;
    return units;
  }
}

function beginsOf(text: string): Int32Array {
  const begins: number[] = [];
  for (let at = 0; at < text.length; at += text.codePointAt(at)! > 0xffff ? 2 : 1) begins.push(at);
  return Int32Array.from([...begins, text.length]);
}

function isIndex(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function saidOf(span: Given, label: string): Pick<FoundSpan, 'label' | 'score'> {
  const { [label]: given, score } = span;
  return { label: given == null ? null : (labelsIn([given])[0] ?? null), score: score == null ? null : scoreIn(score) };
}

/** The last place whose number is at most this one. */
function lastAtMost(rising: readonly number[], most: number): number {
  let [low, high] = [0, rising.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rising[middle]! <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}
