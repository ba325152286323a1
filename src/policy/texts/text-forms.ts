// What a string of an event is to a policy: the text as it was sent, the folded form where it has one, and the value
// inside where it is text inside text (src/common/inner-json.ts). The one definition for patterns, detectors, text
// operators, redaction and paths; a policy that asks for any of them asks all three.
// Strings of the value inside are opened in turn, to INNER_LEVELS_MAX; what would have to be opened deeper counts as
// not readable. Numbers inside are kept as written.
// Invariant: the forms follow from the string alone. The last ones are remembered, since many conditions ask for those
// of the same string, one after the other.
import { isNumber } from '../../common/exact-number.ts';
import { INNER_LEVELS_MAX, type InnerText, innerText, mayHoldJson, NOT_READABLE } from '../../common/inner-json.ts';
import type { Budget } from '../budget.ts';
import { type Folded, folded, isFoldable } from './folded.ts';

export type TextForms = { readonly folded: Folded | undefined; readonly inner: InnerText | undefined };

/** The forms of a text that has no other form than itself. */
export const PLAIN: TextForms = { folded: undefined, inner: undefined };

/** Bounds of what is remembered: strings, and their characters together. */
const KNOWN_MAX = 64;
const KNOWN_CHARACTERS_MAX = 4 * 1024 * 1024;
const known = new Map<string, TextForms>();
/** Characters of all known; and the last plain text, mostly the same again, which costs a comparison of pointers. */
const memory = { characters: 0, lastPlain: '' };

/** Opening a text, about 10 ns a character, and folding one. */
const OPENING_UNITS = 3;
export const FOLDING_UNITS = 20;

/**
 * The value of the JSON in a text that is itself inside of `level` others; undefined: nothing. The work is charged
 * whether or not it is remembered. Throws OverBudget.
 */
export function innerOf(text: string, level: number, budget: Budget): InnerText | undefined {
  if (!mayHoldJson(text)) return undefined;
  budget.spend(OPENING_UNITS * text.length);
  return innerAt(formsOf(text), level);
}

/** The value of the JSON in a text of these forms, itself inside of `level` others. */
export function innerAt({ inner }: TextForms, level: number): InnerText | undefined {
  return inner !== undefined && level >= INNER_LEVELS_MAX ? NOT_READABLE : inner;
}

export function formsOf(text: string): TextForms {
  if (text === memory.lastPlain) return PLAIN;
  if (!mayHoldJson(text) && !isFoldable(text)) {
    memory.lastPlain = text;
    return PLAIN;
  }
  let forms = known.get(text);
  if (forms === undefined) {
    forms = { folded: folded(text), inner: innerText(text) };
    remember(text, forms);
  }
  return forms;
}

function remember(text: string, forms: TextForms): void {
  memory.characters += text.length;
  if (known.size >= KNOWN_MAX || memory.characters > KNOWN_CHARACTERS_MAX) {
    known.clear();
    memory.characters = text.length;
  }
  known.set(text, forms);
}

/** Numbers that are written with an exponent: their digits do not stand there. */
const EXPONENT = /\d[eE]\+?\d/;

/**
 * Do the characters of all texts that are found in a string stand in it, or as escapes that are read on bytes (those of
 * one letter, and of code points by the rules of JSON)? Not so where what it holds cannot be read, or is escaped by
 * other rules. What their folded forms are follows from their characters.
 */
export function isWhatItShows(text: string, level = 0): boolean {
  const inner = innerAt({ folded: undefined, inner: innerText(text) }, level);
  if (inner === undefined) return true;
  if (inner.value === undefined || EXPONENT.test(text)) return false;
  return holdsWhatItShows(inner.value, inner.isExact ? undefined : { text, at: 0 }, level + 1);
}

/** `within`: the text in which texts must stand as they are, one behind the other; undefined: escaped as in JSON. */
function holdsWhatItShows(value: unknown, within: Reading | undefined, level: number): boolean {
  if (typeof value === 'string') return isShown(value, within) && isWhatItShows(value, level);
  if (typeof value !== 'object' || value === null || isNumber(value)) return true;
  if (Array.isArray(value)) return value.every((item) => holdsWhatItShows(item, within, level));
  return Object.entries(value).every(([key, item]) => isShown(key, within) && holdsWhatItShows(item, within, level));
}

type Reading = { readonly text: string; at: number };

function isShown(text: string, within: Reading | undefined): boolean {
  if (text.includes('\b')) return false;
  if (within === undefined || isWritten(text, within)) return true;
  const written = text.replaceAll(ESCAPED, (c) => ESCAPES[c]!);
  return isWritten(written, within) || isWritten(written.replaceAll('"', '\\"'), within);
}

/** So many characters may stand between two texts: what is looked for in vain is looked for no further. */
const BETWEEN_MAX = 256;

function isWritten(text: string, within: Reading): boolean {
  const { at } = within;
  const found = within.text.slice(at, at + text.length + BETWEEN_MAX).indexOf(text);
  if (found >= 0) within.at = at + found + text.length;
  return found >= 0;
}

const ESCAPED = /[\\\n\r\t\f]/g;
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t', '\f': '\\f' };
