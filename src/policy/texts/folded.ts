// The folded form of a text: what is left when it is no longer dressed up. NFKC; control, format and tag characters,
// soft hyphens, strokes through letters and other characters that show nothing are dropped; every blank beyond ASCII is
// a space, every dash `-`. Word processors and models write such characters unasked (U+2011, U+202F), others to slip
// past a pattern. Used by text-forms.ts. Letters of other scripts that look alike stay what they are. So do tabs and
// ends of lines: to a policy every blank is one (blanks.ts).
// Invariant: each unit of the folded text comes from a stretch of the text as sent, in the same order, so a finding in
// the one has its place in the other.

import { remember } from '../../common/maps.ts';
import { JOINER, streamSafe } from '../../common/stream-safe.ts';

/** `starts[i]` and `ends[i]`: the stretch of the text as sent that unit i of `text` comes from. */
type Places = { readonly starts: Int32Array; readonly ends: Int32Array };

/** A text that is another one when folded. Where its units come from is asked of few. */
export class Folded {
  readonly text: string;
  readonly #of: string;
  readonly #clusters: Clusters;
  #places: Places | undefined;

  constructor(text: string, of: string, clusters: Clusters) {
    this.text = text;
    this.#of = of;
    this.#clusters = clusters;
  }

  get places(): Places {
    this.#places ??= placesOf(this.#of, this.#clusters);
    return this.#places;
  }
}

/** Anything but what ASCII prints, and its blanks. */
const FOLDABLE = /[^\t-\r -~]/;
const NEXT_FOLDABLE = new RegExp(FOLDABLE, 'g');
/** The same of the text of a payload, in which control characters are escaped. */
const FOLDABLE_IN_JSON = /[^\t-\r -~]|\\[ub]/;
/**
 * A character with the marks that belong to it; Hangul that is spelt out is one syllable. Of so many: a regular
 * expression keeps each of them on a stack of its own, which ends at some millions.
 */
const CHARACTER =
  /[\u1100-\u115f\ua960-\ua97c][\u1160-\u11ff\ud7b0-\ud7fb]{0,999}[\p{M}\p{Cf}\p{DI}]{0,100000}|.[\p{M}\p{Cf}\p{DI}]{0,100000}/suy;
const SHOWS_NOTHING =
  /(?![\t-\r\x85])[\p{Cc}\p{Cf}\p{DI}\ufffc]|[\u0334-\u0338\u20d2\u20d3\u20d8-\u20da\u20e5\u20e6\u20ea\u20eb]/gu;
/** The Braille blank is a symbol to Unicode. */
const BLANK = /[\p{Zs}\u2028\u2029\x85\u2800]/gu;
/** Those of Unicode, and what is used for one: the minus sign and the hyphen bullet. */
const DASH = /[\p{Pd}\u2212\u2043\u02d7\u2796]/gu;

/** Belongs to the character before it. */
const BELONGS = /[\p{M}\p{Cf}\p{DI}]/u;
/** Begins a syllable of Hangul that may be spelt out. */
const SPELLS = /[\u1100-\u115f\ua960-\ua97c]/;

/** Each code point has a kind, looked up once: most of what is beyond ASCII stands for itself. */
const UNKNOWN = 0;
export const ITSELF = 1;
const ANOTHER = 2;
export const SPELLING = 3;
export const BELONGING = 4;
const kinds = new Uint8Array(0x110000);

/** The number of foldings of a few characters that are remembered, as most texts repeat them. */
const FOLDED_MAX = 4_096;
const FOLDED_CHARACTERS_MAX = 8;
const known = new Map<string, string>();

/** Has it anything that may be folded? */
export function isFoldable(text: string): boolean {
  return FOLDABLE.test(text);
}

/** The same of the strings and keys of a payload, by its text. */
export function mayHoldFoldable(payloadText: string): boolean {
  if (payloadText !== lastPayload.text) {
    lastPayload.text = payloadText;
    lastPayload.mayHold = FOLDABLE_IN_JSON.test(payloadText);
  }
  return lastPayload.mayHold;
}

/** It is asked for by each filter, and by what replaces what they find. */
const lastPayload = { text: '', mayHold: false };

/** undefined: it is the text itself. */
export function folded(text: string): Folded | undefined {
  if (!isFoldable(text)) return undefined;
  const clusters = clustersOf(text);
  const whole = clusters && joined(text, clusters);
  return whole === undefined || whole === text ? undefined : new Folded(whole, text, clusters!);
}

/** Characters with what belongs to them, each of its own stretch: all but units that stand for themselves alone. */
type Clusters = { starts: number[]; ends: number[]; texts: string[] };

/** undefined: each is what it was. */
function clustersOf(text: string): Clusters | undefined {
  const clusters: Clusters = { starts: [], ends: [], texts: [] };
  let isChanged = false;
  let kind = kindAt(text, 0);
  for (let i = 0; i < text.length; ) {
    if (text.charCodeAt(i) < 0x80 && text.charCodeAt(i + 1) < 0x80 && kind === ITSELF) {
      i = beforeFoldable(text, i);
      if (i < 0) break;
    }
    let end = i + (isPairAt(text, i) ? 2 : 1);
    let next = kindAt(text, end);
    const isAlone = next !== BELONGING && kind < SPELLING;
    if (!isAlone) {
      CHARACTER.lastIndex = i;
      end = i + CHARACTER.exec(text)![0].length;
      next = kindAt(text, end);
    }
    if (end > i + 1 || kind !== ITSELF) {
      const character = text.slice(i, end);
      const plain = isAlone && kind === ITSELF ? character : foldedCharacter(character);
      isChanged ||= plain !== character;
      clusters.starts.push(i);
      clusters.ends.push(end);
      clusters.texts.push(plain);
    }
    i = end;
    kind = next;
  }
  return isChanged ? clusters : undefined;
}

/** The place of the last character before the next that may be folded; -1: there is none. `from`: of a plain one. */
function beforeFoldable(text: string, from: number): number {
  NEXT_FOLDABLE.lastIndex = from;
  return NEXT_FOLDABLE.test(text) ? NEXT_FOLDABLE.lastIndex - 2 : -1;
}

function joined(text: string, { starts, ends, texts }: Clusters): string {
  const pieces: string[] = [];
  let from = 0;
  for (let i = 0; i < texts.length; i++) {
    if (starts[i]! > from) pieces.push(text.slice(from, starts[i]));
    pieces.push(texts[i]!);
    from = ends[i]!;
  }
  return pieces.join('') + text.slice(from);
}

function placesOf(text: string, clusters: Clusters): Places {
  let length = text.length;
  for (let i = 0; i < clusters.texts.length; i++)
    length += clusters.texts[i]!.length - (clusters.ends[i]! - clusters.starts[i]!);
  const starts = new Int32Array(length);
  const ends = new Int32Array(length);
  let [at, from] = [0, 0];
  for (let i = 0; i <= clusters.texts.length; i++) {
    const start = clusters.starts[i] ?? text.length;
    for (; from < start; from++) {
      starts[at] = from;
      ends[at++] = from + 1;
    }
    from = clusters.ends[i] ?? from;
    for (let left = clusters.texts[i]?.length ?? 0; left > 0; left--) {
      starts[at] = start;
      ends[at++] = from;
    }
  }
  return { starts, ends };
}

function isPairAt(text: string, i: number): boolean {
  return (text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00;
}

function kindAt(text: string, i: number): number {
  if (i >= text.length) return ANOTHER;
  const codePoint = text.codePointAt(i)!;
  const kind = kinds[codePoint]!;
  if (kind !== UNKNOWN) return kind;
  const character = String.fromCodePoint(codePoint);
  const found = kindOf(character);
  kinds[codePoint] = found;
  return found;
}

/**
 * The kind of a character in the folded form of its text: ITSELF, SPELLING, BELONGING, or another text. `plain`: it
 * alone, folded.
 */
export function kindOf(character: string, plain = foldedText(character)): number {
  if (BELONGS.test(character)) return BELONGING;
  if (SPELLS.test(character)) return SPELLING;
  return plain === character ? ITSELF : ANOTHER;
}

function foldedCharacter(character: string): string {
  if (character.length > FOLDED_CHARACTERS_MAX) return foldedText(character);
  return known.get(character) ?? remember(known, character, foldedText(character), FOLDED_MAX);
}

export function foldedText(text: string): string {
  return isFoldable(text) ? normalized(text.replace(SHOWS_NOTHING, '')).replace(BLANK, ' ').replace(DASH, '-') : text;
}

function normalized(text: string): string {
  return streamSafe(text).normalize('NFKC').replaceAll(JOINER, '');
}
