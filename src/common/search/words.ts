// What a word is to a search: the one definition, for what is stored and for what is asked (payload-words.ts and the
// store pipeline before it, clickhouse/queries/search.ts after it).
//
//   colours  codes of terminals that set a colour are dropped; other control sequences are borders
//   folded   format characters and others that show nothing are dropped; NFKC; full case folding; NFKC
//   words    a run of letters, digits and marks. Whatever is \p{P}, \p{S}, a blank or a control ends it, and so does a
//            change between three kinds of script
//
// The kinds: scripts that are written without spaces, of which any part is found (the word begins with PART); Hangul,
// of which any beginning is found (BEGINNING); all others, which are found whole. A symbol is a word, each by itself.
// Invariant: the words follow from the text and the Unicode data of Node.js alone, and the words of words are the same
// words. Nothing throws; the time is linear in the text.

import { streamSafe } from '../stream-safe.ts';

/** Begins a word of a script without spaces. No word holds a control character, so it cannot be mistaken. */
export const PART = '\x01';
/** Begins a word of Hangul. */
export const BEGINNING = '\x02';

// biome-ignore-start lint/suspicious/noControlCharactersInRegex: escape sequences are made of them
/** Select Graphic Rendition, and the character set that `tput sgr0` selects with it. */
const COLOURS = /(?:\x1b\[|\x9b)[\d;:]*m|\x1b[()][0-9A-Z]/g;
/** Moves of the cursor and the like: what stands on either side was never side by side. */
const CONTROL_SEQUENCE = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]/g;
const BEYOND_ASCII = /[^\x00-\x7f]/;
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: escape sequences are made of them

/** As in the folded form of policies (src/policy/texts/folded.ts): variation selectors are among them. */
const SHOWS_NOTHING = /[\p{Cf}\p{DI}]/gu;
const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u;

// Sets of characters are written for the flag `v`, which literals may not have yet.
/** Letters of these scripts: without shared ones, as ʼ; with those that only they use and no script has: ー, 〱, 〆. */
const WITHOUT_SPACES =
  '[[\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Thai}\\p{sc=Laoo}\\p{sc=Khmr}\\p{sc=Mymr}\\u3006\\u302a-\\u302d\\u3031-\\u3035\\u303c\\u3099\\u309a\\u30fc]&&[\\p{L}\\p{M}\\p{N}]]';
const HANGUL = '[\\p{sc=Hangul}&&\\p{L}]';
/** Enclosing marks are signs around a character: the keycap of 1️⃣ is none of the number's. */
const SYMBOL = '[\\p{S}\\p{Me}]';
const ENDS = `[\\p{P}\\p{Z}\\p{Cc}${SYMBOL}]`;
const MARKS = '[\\p{M}--\\p{Me}]';
/** Regular expressions keep each step of a run on a stack of their own, which ends at some millions. */
const RUN_MAX = 100_000;
const WORD = new RegExp(
  [
    SYMBOL,
    `${WITHOUT_SPACES}[${WITHOUT_SPACES}${MARKS}]{0,${RUN_MAX}}`,
    `${HANGUL}[${HANGUL}${MARKS}]{0,${RUN_MAX}}`,
    `[[^]--[${ENDS}${WITHOUT_SPACES}${HANGUL}]]{1,${RUN_MAX}}`,
  ].join('|'),
  'gv',
);
const IS_PART = new RegExp(`^${WITHOUT_SPACES}`, 'v');
const IS_HANGUL = new RegExp(`^${HANGUL}`, 'v');
/** The first of these scripts, Thai, begins here. */
const FIRST_WITHOUT_SPACES = 0x0e00;
const DRESSES = '[\\p{S}\\p{No}]';
/** Symbols and numbers of which NFKC may make letters or digits: ™, ㎏, ², ½. */
const DRESSED = new RegExp(`[${DRESSES}--\\p{ASCII}]{1,${RUN_MAX}}`, 'gv');
const ASCII_WORD = /[0-9a-z]+|[$+<=>^`|~]/g;

/** In their order. */
export function wordsOf(text: string): string[] {
  const plain = withoutControls(text);
  if (isAsciiOnly(plain)) return asciiWords(plain);
  const words: string[] = [];
  for (const piece of piecesOf(plain))
    for (const word of isAsciiOnly(piece) ? asciiWords(piece) : split(folded(piece))) words.push(word);
  return words;
}

const SMALL_CHEROKEE = /[\u13f8-\u13fd\uab70-\uabbf]+/g;

/** Fewer characters of ASCII between two others are not worth a piece of their own. */
const PIECE_CHARACTERS = 64;

/**
 * The text in pieces that have nothing to do with each other: nothing composes across a space, which ends a word before
 * and after. Most of a text of Latin script is ASCII, and five times faster by itself.
 */
function* piecesOf(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const start = beyondAscii(text, at);
    let end = start;
    for (let next = start; next - end < PIECE_CHARACTERS && next < text.length; next = beyondAscii(text, end)) {
      const space = text.indexOf(' ', next);
      end = space === -1 ? text.length : space;
    }
    const space = text.lastIndexOf(' ', start);
    const from = Math.max(at, space);
    if (from > at) yield text.slice(at, from);
    if (end > from) yield text.slice(from, end);
    at = end;
  }
}

/** Where the next character beyond ASCII is; the text's length: there is none. */
function beyondAscii(text: string, from: number): number {
  for (let i = from; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return i;
  return text.length;
}

function isAsciiOnly(text: string): boolean {
  return !BEYOND_ASCII.test(text);
}

function asciiWords(text: string): string[] {
  return text.toLowerCase().match(ASCII_WORD) ?? [];
}

/**
 * Words of a text besides its own, each for itself: `Acme™` is the word `acmetm`, since NFKC comes first, but `acme`
 * and `tm` are looked for, too.
 */
export function wordsBeside(text: string, words: readonly string[]): string[] {
  if (isAsciiOnly(text)) return [];
  let isDressed = false;
  const separated = text.replace(DRESSED, (run) => {
    const plain = run.normalize('NFKC');
    if (plain === run || !LETTER_OR_DIGIT.test(plain)) return run;
    isDressed = true;
    return ` ${run} `;
  });
  if (!isDressed) return [];
  const known = new Set(words);
  return [...new Set(wordsOf(separated))].filter((word) => !known.has(word));
}

/** Without what colours a terminal or moves its cursor. */
export function withoutControls(text: string): string {
  return text.includes('\x1b') || text.includes('\x9b')
    ? text.replace(COLOURS, '').replace(CONTROL_SEQUENCE, ' ')
    : text;
}

/** NFKC_Casefold, with what a dot adds to an `i` dropped: `İstanbul` is `istanbul`. */
export function folded(text: string): string {
  const shown = streamSafe(text.toWellFormed().replace(SHOWS_NOTHING, '')).normalize('NFKC');
  return caseFolded(shown).normalize('NFKC').replace(SHOWS_NOTHING, '').replaceAll('i\u0307', 'i');
}

/**
 * Full case folding (C and F of CaseFolding.txt). Upper case knows that ß is SS, lower case that ẞ is ß. The one letter
 * that has upper case and no folding is the dotless ı; Cherokee folds to its large letters.
 */
function caseFolded(text: string): string {
  const one = (part: string) => part.toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ');
  const small = text.includes('ı') ? text.split('ı').map(one).join('ı') : one(text);
  return small.replace(SMALL_CHEROKEE, (letters) => letters.toUpperCase());
}

function split(text: string): string[] {
  const runs = text.match(WORD) ?? [];
  return text.length < RUN_MAX ? runs.map(marked) : joined(text, runs);
}

/** Runs that were cut for their length are one word again. */
function joined(text: string, runs: readonly string[]): string[] {
  const words: string[] = [];
  let end = 0;
  let isCut = false;
  for (const run of runs) {
    const word = marked(run);
    const last = words.at(-1);
    if (isCut && last !== undefined && kindOf(last) === kindOf(word) && text.startsWith(run, end))
      words[words.length - 1] = last + run;
    else words.push(word);
    end = text.indexOf(run, end) + run.length;
    isCut = run.length >= RUN_MAX;
  }
  return words;
}

function kindOf(word: string): string {
  return word.startsWith(PART) || word.startsWith(BEGINNING) ? word[0]! : '';
}

function marked(word: string): string {
  if (word.charCodeAt(0) < FIRST_WITHOUT_SPACES) return word;
  if (IS_PART.test(word)) return PART + word;
  return IS_HANGUL.test(word) ? BEGINNING + word : word;
}
