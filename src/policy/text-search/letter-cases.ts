// The characters that are one letter in another case, as patterns that ignore case take them (signs.ts).
import { lazily } from '../../common/lazily.ts';

/** No script beyond it has letters in two cases. */
const CASED_MAX = 0x1f000;

/** Small letters by their capital: some have two, as the sigma. 20 ms, when first asked for. */
const byCapital = lazily(() => {
  const known = new Map<string, number[]>();
  for (let small = 0x80; small < CASED_MAX; small++) {
    if (isSurrogate(small)) continue;
    const character = String.fromCodePoint(small);
    const capital = character.toUpperCase();
    if (capital !== character) known.set(capital, [...(known.get(capital) ?? []), small]);
  }
  return known;
});

export function isSurrogate(codePoint: number): boolean {
  return codePoint >= 0xd800 && codePoint < 0xe000;
}

/** A code point with those that differ from it in case alone, and perhaps more. */
export function inAnyCase(codePoint: number): number[] {
  const character = String.fromCodePoint(codePoint);
  const [small, capital] = [character.toLowerCase(), character.toUpperCase()];
  const others = [capital, small.toUpperCase()].flatMap((one) => byCapital().get(one) ?? []);
  return [...new Set([codePoint, small.codePointAt(0)!, capital.codePointAt(0)!, ...others])];
}
