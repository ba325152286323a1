// What `q` means, and its predicate over an event's payload (words or a quoted phrase in the payload).
// Words: all must occur, anywhere. "A quoted phrase", or a word with punctuation inside (user@example.com): its words
// next to each other. Case does not matter. A word is a run of letters and digits; punctuation of any script parts
// words. Scripts that are written without spaces (Han, kana, Thai, …) have no word borders: there, any part of the text
// will do.
// Invariant: the predicate alone is exact; the text index `payload_words` only spares reading, so a part that has none
// yet answers the same.
import type { QueryParams } from '../client.ts';

/**
 * Must be the expression of the index payload_words in 001_events.sql, to the letter: it is compared as an expression.
 */
export const PAYLOAD_WORDS =
  "lowerUTF8(replaceRegexpAll(if(empty(search_text), replaceRegexpAll(payload, '\\\\\\\\[\"\\\\\\\\/bfnrt]', ' '), search_text), '[\\\\x{80}-\\\\x{BF}\\\\x{2000}-\\\\x{2BFF}\\\\x{3000}-\\\\x{303F}\\\\x{FE10}-\\\\x{FE1F}\\\\x{FE30}-\\\\x{FE6F}\\\\x{FF00}-\\\\x{FF0F}\\\\x{FF1A}-\\\\x{FF20}\\\\x{FF3B}-\\\\x{FF40}\\\\x{FF5B}-\\\\x{FF65}\\\\x{1F000}-\\\\x{1FAFF}]', ' '))";

/** Marks outside ASCII that part words, as they are in PAYLOAD_WORDS. */
const MARKS =
  "'[\\\\x{80}-\\\\x{BF}\\\\x{2000}-\\\\x{2BFF}\\\\x{3000}-\\\\x{303F}\\\\x{FE10}-\\\\x{FE1F}\\\\x{FE30}-\\\\x{FE6F}\\\\x{FF00}-\\\\x{FF0F}\\\\x{FF1A}-\\\\x{FF20}\\\\x{FF3B}-\\\\x{FF40}\\\\x{FF5B}-\\\\x{FF65}\\\\x{1F000}-\\\\x{1FAFF}]'";

/** All of ASCII that is neither letter nor digit, and the same marks as in PAYLOAD_WORDS. */
const SEPARATORS =
  /(?:[^0-9A-Za-z\u{80}-\u{10FFFF}]|[\u{80}-\u{BF}\u{2000}-\u{2BFF}\u{3000}-\u{303F}\u{FE10}-\u{FE1F}\u{FE30}-\u{FE6F}\u{FF00}-\u{FF0F}\u{FF1A}-\u{FF20}\u{FF3B}-\u{FF40}\u{FF5B}-\u{FF65}\u{1F000}-\u{1FAFF}])+/u;
const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

const BORDER = '[^a-z0-9\\x{80}-\\x{10ffff}]';
/** ClickHouse takes at most 64 words in one hasAllTokens. */
const WORDS_MAX = 64;

/** Each term is a run of words that must stand next to each other. */
export type Search = { terms: string[][] };

/** Reads `q`. No terms: there is nothing in it that could be found. */
export function parseSearch(q: string): Search {
  const terms: string[][] = [];
  for (const [, phrase, word] of q.matchAll(/"([^"]*)"?|([^\s"]+)/gu)) {
    const words = (phrase ?? word ?? '').split(SEPARATORS).filter((part) => part !== '');
    if (words.length > 0) terms.push(words);
  }
  return { terms };
}

/** Text of ours made ready for a predicate, as PAYLOAD_WORDS does it with a payload. */
export function wordsOf(text: string): string {
  return `lowerUTF8(replaceRegexpAll(${text}, ${MARKS}, ' '))`;
}

/** The predicate over `words`, and its parameters. A search without terms finds nothing. */
export function searchCondition({ terms }: Search, words = PAYLOAD_WORDS): { sql: string; params: QueryParams } {
  if (terms.length === 0) return { sql: 'false', params: {} };
  const whole = [...new Set(terms.flat().filter((word) => !WITHOUT_SPACES.test(word)))];
  const patterns = terms.filter((words) => words.length > 1 || WITHOUT_SPACES.test(words[0]!)).map(pattern);
  const params: QueryParams = {};
  const clauses: string[] = [];
  for (let i = 0; i < whole.length; i += WORDS_MAX) {
    params[`words${i}`] = whole.slice(i, i + WORDS_MAX).join(' ');
    clauses.push(`hasAllTokens(${words}, tokens(lowerUTF8({words${i}:String}), 'splitByNonAlpha'))`);
  }
  for (const [i, text] of patterns.entries()) {
    params[`pattern${i}`] = text;
    clauses.push(`match(${words}, lowerUTF8({pattern${i}:String}))`);
  }
  return { sql: clauses.join(' AND '), params };
}

/** Words hold letters and digits only, so nothing in them means anything to a regular expression. */
function pattern(words: string[]): string {
  const before = WITHOUT_SPACES.test(words[0]!) ? '' : `(?:^|${BORDER})`;
  const after = WITHOUT_SPACES.test(words.at(-1)!) ? '' : `(?:$|${BORDER})`;
  return `${before}${words.join(`${BORDER}+`)}${after}`;
}
