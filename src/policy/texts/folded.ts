// The folded form of a text: what is left when it is no longer dressed up. NFKC; format and tag characters, soft
// hyphens and other characters that show nothing are dropped; every blank beyond ASCII is a space, every dash `-`. Word
// processors and models write such characters unasked (U+2011, U+202F), others to slip past a pattern. Used by
// text-forms.ts. Letters of other scripts that look alike stay what they are.
// Invariant: each unit of the folded text comes from a stretch of the text as sent, in the same order, so a finding in
// the one has its place in the other.

import { JOINER, streamSafe } from '../../common/stream-safe.ts';

/** `starts[i]` and `ends[i]`: the stretch of the text as sent that unit i of `text` comes from. */
export type Folded = { text: string; starts: Int32Array; ends: Int32Array };

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const BEYOND_ASCII = /[^\x00-\x7f]/;
/**
 * A character with the marks that belong to it; Hangul that is spelt out is one syllable. Of so many: a regular
 * expression keeps each of them on a stack of its own, which ends at some millions.
 */
const CHARACTER =
  /[\u1100-\u115f\ua960-\ua97c][\u1160-\u11ff\ud7b0-\ud7fb]{0,999}[\p{M}\p{Cf}\p{DI}]{0,100000}|.[\p{M}\p{Cf}\p{DI}]{0,100000}/gsu;
const SHOWS_NOTHING = /[\p{Cf}\p{DI}]/gu;
const BLANK = /[\p{Zs}\u2028\u2029\u0085]/gu;
/** Those of Unicode, and what is used for one: the minus sign and the hyphen bullet. */
const DASH = /[\p{Pd}\u2212\u2043\u02d7\u2796]/gu;

export function isBeyondAscii(text: string): boolean {
  return BEYOND_ASCII.test(text);
}

/** undefined: it is the text itself. */
export function folded(text: string): Folded | undefined {
  if (!isBeyondAscii(text)) return undefined;
  const parts: string[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { 0: character, index } of text.matchAll(CHARACTER)) {
    const plain = foldedText(character);
    parts.push(plain);
    for (let i = 0; i < plain.length; i++) {
      starts.push(index);
      ends.push(index + character.length);
    }
  }
  const whole = parts.join('');
  return whole === text ? undefined : { text: whole, starts: Int32Array.from(starts), ends: Int32Array.from(ends) };
}

export function foldedText(text: string): string {
  return isBeyondAscii(text)
    ? normalized(text.replace(SHOWS_NOTHING, '')).replace(BLANK, ' ').replace(DASH, '-')
    : text;
}

function normalized(text: string): string {
  return streamSafe(text).normalize('NFKC').replaceAll(JOINER, '');
}
