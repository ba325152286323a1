// Finds the word that the author meant to write (used for the mistakes of a policy, never while an event is judged).
import { exactJson } from '../../common/exact-json.ts';

/**
 * Are two words the same but for one insertion, deletion, substitution or transposition of neighbours? Equal ones are
 * not.
 */
export function isOneEditAway(a: string, b: string): boolean {
  if (a === b || Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  const [restOfA, restOfB] = [a.slice(start), b.slice(start)];
  if (restOfA.slice(1) === restOfB || restOfA === restOfB.slice(1) || restOfA.slice(1) === restOfB.slice(1))
    return true;
  return (
    restOfA[0] === restOfB[1] &&
    restOfA[1] === restOfB[0] &&
    restOfA.length > 1 &&
    restOfA.slice(2) === restOfB.slice(2)
  );
}

/**
 * The word of a list that was meant: written otherwise (`toolCall`), with one edit, or cut short; undefined: none is
 * near.
 */
export function meant<T extends string>(word: string, words: readonly T[]): T | undefined {
  const plain = plainForm(word);
  if (plain === '') return undefined;
  return (
    words.find((other) => plainForm(other) === plain) ??
    words.find((other) => isOneEditAway(plainForm(other), plain)) ??
    (plain.length < CUT_SHORT_MIN ? undefined : words.find((other) => isBegunBy(plainForm(other), plain)))
  );
}

/** Shorter beginnings say nothing. */
const CUT_SHORT_MIN = 4;

function isBegunBy(a: string, b: string): boolean {
  return a.startsWith(b) || (a.length >= CUT_SHORT_MIN && b.startsWith(a));
}

function plainForm(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** A value as a mistake shows it, cut. */
export function shownValue(value: unknown): string {
  const text = exactJson(value) ?? String(value);
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX).toWellFormed()}…` : text;
}

const SHOWN_CHARACTERS_MAX = 60;
