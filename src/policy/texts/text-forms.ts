// What a string of an event is to a policy: the text as it was sent, the folded form where it holds anything beyond
// ASCII, and the value inside where it is JSON. The one definition for patterns, detectors, text operators, redaction
// and paths; a policy that asks for any of them asks all three.
// A string is opened where its first character that is no blank is `{` or `[` and it parses, within the depth of a
// payload; strings of the value inside are opened in turn, to INNER_LEVELS_MAX. Numbers inside are kept as written.
// Invariant: the forms follow from the string alone. The last ones are remembered, since many conditions ask for those
// of the same string, one after the other.
import type { Json } from '../../../schemas/common.ts';
import { parseExact } from '../../common/exact-json.ts';
import { JSON_DEPTH_MAX } from '../../common/limits.ts';
import type { Budget } from '../budget.ts';
import { type Folded, folded, isBeyondAscii } from './folded.ts';

export type InnerValue = Json[] | { [key: string]: Json };
export type TextForms = { readonly folded: Folded | undefined; readonly inner: InnerValue | undefined };

/** How deep text inside text inside text is looked into. */
export const INNER_LEVELS_MAX = 3;

/** Of a text that has no other form than itself. */
export const PLAIN: TextForms = { folded: undefined, inner: undefined };

/** Bounds of what is remembered: strings, and their characters together. */
const KNOWN_MAX = 64;
const KNOWN_CHARACTERS_MAX = 4 * 1024 * 1024;
let known = new Map<string, TextForms>();
let knownCharacters = 0;

/** Opening a text, about 10 ns a character, and folding one. */
const OPENING_UNITS = 3;
export const FOLDING_UNITS = 20;

/**
 * The value inside a text that is itself inside of `level` others; undefined: there is none. What it takes is charged
 * whether or not it is remembered. Throws OverBudget.
 */
export function innerOf(text: string, level: number, budget: Budget): InnerValue | undefined {
  if (level === INNER_LEVELS_MAX || !looksLikeJson(text)) return undefined;
  budget.spend(OPENING_UNITS * text.length);
  return formsOf(text).inner;
}

/** Mostly the same string again, which costs a comparison of pointers. */
let lastPlain = '';

export function formsOf(text: string): TextForms {
  if (text === lastPlain) return PLAIN;
  const mayBeJson = looksLikeJson(text);
  if (!mayBeJson && !isBeyondAscii(text)) {
    lastPlain = text;
    return PLAIN;
  }
  let forms = known.get(text);
  if (forms === undefined) {
    forms = { folded: folded(text), inner: mayBeJson ? parsed(text) : undefined };
    remember(text, forms);
  }
  return forms;
}

const BLANKS = ' \t\n\r';
const OPENS = '{[';
const CLOSES = '}]';

/** By its first and last character: of a text that is not JSON mostly no error has to be made. */
export function looksLikeJson(text: string): boolean {
  if (text.charCodeAt(0) > 0x20 && !OPENS.includes(text[0]!)) return false;
  let first = 0;
  while (first < text.length && BLANKS.includes(text[first]!)) first++;
  if (first >= text.length - 1 || !OPENS.includes(text[first]!)) return false;
  let last = text.length - 1;
  while (BLANKS.includes(text[last]!)) last--;
  return CLOSES.includes(text[last]!);
}

function parsed(text: string): InnerValue | undefined {
  try {
    const value = parseExact(text) as InnerValue;
    return isWithinDepth(value, JSON_DEPTH_MAX) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function isWithinDepth(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  for (const key in value) if (!isWithinDepth((value as Record<string, unknown>)[key], levels - 1)) return false;
  return true;
}

function remember(text: string, forms: TextForms): void {
  knownCharacters += text.length;
  if (known.size >= KNOWN_MAX || knownCharacters > KNOWN_CHARACTERS_MAX) {
    known = new Map();
    knownCharacters = text.length;
  }
  known.set(text, forms);
}
