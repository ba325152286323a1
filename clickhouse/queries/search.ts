// What `q` means, and its predicates (asked by lists, counts, exports and the audit log). A question goes through the
// same tokenizer as what is stored (src/common/search/words.ts): words, all of which must occur, anywhere; a "quoted
// phrase", or what has a border of words inside (user@example.com, iPhone的价格), is its words next to each other.
//
// Two texts are searched:
//   a payload   its search text, in the column `words`, or itself where that is empty (search/payload-words.ts). The
//               text index search_words answers for single words alone; phrases, parts of more than two characters and
//               symbols of ASCII are looked for in the rows that it leaves.
//   any other   as the audit log's entries: folded by ClickHouse, whose NFKC_Casefold is that of the tokenizer, and
//               matched by its borders.
// Invariant: the predicate alone is exact; the index only spares reading, so a part that has none yet answers the same.
import { BEGINNING, PART, wordsOf } from '../../src/common/search/words.ts';
import type { QueryParams } from '../client.ts';

/** A payload that has no search text, which is ASCII: in small letters, its escapes as blanks. */
const OWN_TEXT =
  "lowerUTF8(replaceRegexpAll(replaceRegexpAll(payload, '\\\\\\\\[\"\\\\\\\\/bfnrt]', ' '), '[\\\\x{80}-\\\\x{BF}\\\\x{2000}-\\\\x{2BFF}\\\\x{3000}-\\\\x{303F}\\\\x{FE10}-\\\\x{FE1F}\\\\x{FE30}-\\\\x{FE6F}\\\\x{FF00}-\\\\x{FF0F}\\\\x{FF1A}-\\\\x{FF20}\\\\x{FF3B}-\\\\x{FF40}\\\\x{FF5B}-\\\\x{FF65}\\\\x{1F000}-\\\\x{1FAFF}]', ' '))";

/** Beginnings of Hangul are in the index up to so many syllables; most words have fewer. */
const BEGINNING_MAX = 8;
const WHOLES = "replaceRegexpAll(words, '\\\\x01[^ ]*', '')";
/** N-grams of parts, of 1 and 2 characters. One that lies across two parts has a blank in it, which splits it. */
const PARTS = [1, 2].map(
  (length) => `arrayStringConcat(ngrams(arrayStringConcat(extractAll(words, '\\\\x01([^ ]+)'), ' '), ${length}), ' ')`,
);
const BEGINNINGS = Array.from(
  { length: BEGINNING_MAX },
  (_, i) => `arrayStringConcat(extractAll(words, '\\\\x02([^ ]{${i + 1}})'), ' ')`,
);

/**
 * A text whose tokens are all that the index knows. Must be the expression of the index search_words in
 * 001_events.sql, to the letter: it is compared as an expression. Without lambdas: the engine writes some of them
 * otherwise and then does not find the index, and none of them works where only some parts have it (26.7). A text, not
 * an array: functions of tokens split elements of an array that no index is at hand for.
 */
export const SEARCH_TOKENS = `if(empty(words), ${OWN_TEXT}, concatWithSeparator(' ', ${[WHOLES, ...PARTS, ...BEGINNINGS].join(', ')}))`;

const SEARCH_TEXT = `if(empty(words), ${OWN_TEXT}, words)`;

/** ClickHouse takes at most 64 words in one hasAllTokens. */
const TOKENS_MAX = 64;

/** Each term is a run of words, as wordsOf gives them, that must stand next to each other. */
type Search = { terms: string[][] };
type Condition = { sql: string; params: QueryParams };
/**
 * `unindexed`: the same for parts that the index is not made of yet, where every row is looked at: a cheap condition
 * first, that lets few rows pass, and the exact one behind it. undefined: there is no cheaper one than `sql`.
 */
export type PayloadCondition = Condition & { unindexed?: { first: string; exact: string } };

/** Reads `q`. No terms: there is nothing in it that could be found. */
export function parseSearch(q: string): Search {
  const terms: string[][] = [];
  for (const [, phrase, word] of q.matchAll(/"([^"]*)"?|([^\s"]+)/gu)) {
    const words = wordsOf(phrase ?? word ?? '');
    if (words.length > 0) terms.push(words);
  }
  return { terms };
}

/** The condition that a payload holds all terms. */
export function payloadCondition({ terms }: Search): PayloadCondition {
  if (terms.length === 0) return { sql: 'false', params: {} };
  const params: QueryParams = {};
  const tokens = [...new Set(terms.flat().flatMap(tokensOf))];
  const sets: string[] = [];
  for (let i = 0; i < tokens.length; i += TOKENS_MAX) {
    params[`tokens${i}`] = tokens.slice(i, i + TOKENS_MAX);
    sets.push(`{tokens${i}:Array(String)}`);
  }
  const patterns: string[] = [];
  for (const [i, term] of terms.filter((words) => !isByTokens(words)).entries()) {
    params[`pattern${i}`] = patternOf(term, OF_SEARCH_TEXT);
    // What is its own search text is ASCII, so for other words no payload has to be read.
    const text = term.every((word) => ASCII.test(word)) ? SEARCH_TEXT : 'words';
    patterns.push(`match(${text}, {pattern${i}:String})`);
  }
  const all = (text: string) => [...sets.map((set) => `hasAllTokens(${text}, ${set})`), ...patterns].join(' AND ');
  const sql = all(SEARCH_TOKENS);
  if (tokens.length === 0) return { sql, params };
  const first = tokens.slice(0, LOOKED_FOR_MAX).map((token, i) => {
    params[`look${i}`] = token;
    return occurs(`{look${i}:String}`);
  });
  return { sql, params, unindexed: { first: first.join(' AND '), exact: all(UNINDEXED_TOKENS) } };
}

/** Each is a look at all rows; the rarest word is not known. */
const LOOKED_FOR_MAX = 3;
/** The engine is not to see the index in it: it would take its column for one of a part that has none. */
const UNINDEXED_TOKENS = `concat(${SEARCH_TOKENS}, '')`;

/** Whatever has a token has its text somewhere: in a search text, or in a payload of ASCII, in any case of letters. */
function occurs(token: string): string {
  return `if(empty(words), positionCaseInsensitive(payload, ${token}), position(words, ${token})) > 0`;
}

/** The condition that any other text holds all terms. `text`: our own SQL. */
export function textCondition({ terms }: Search, text: string): Condition {
  if (terms.length === 0) return { sql: 'false', params: {} };
  const params: QueryParams = {};
  const clauses = terms.map((term, i) => {
    params[`text${i}`] = patternOf(term, OF_FOLDED_TEXT);
    // Named once: of 250 terms a statement would be too long.
    return `match(${i === 0 ? `(${foldedText(text)} AS folded_text)` : 'folded_text'}, {text${i}:String})`;
  });
  return { sql: clauses.join(' AND '), params };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const ASCII = /^[\x00-\x7f]*$/;
const isPart = (word: string) => word.startsWith(PART);
const isBeginning = (word: string) => word.startsWith(BEGINNING);
const isSymbol = (word: string) => /^[\p{S}\p{Me}]$/u.test(word);
const charactersOf = (word: string) => [...(isPart(word) || isBeginning(word) ? word.slice(1) : word)];

const isAsciiSymbol = (word: string) => /^[$+<=>^`|~]$/.test(word);

/** The tokens that the index has of each text that holds the word; none for symbols of ASCII, which end its tokens. */
function tokensOf(word: string): string[] {
  if (isAsciiSymbol(word)) return [];
  const characters = charactersOf(word);
  if (isBeginning(word)) return [characters.slice(0, BEGINNING_MAX).join('')];
  if (!isPart(word) || characters.length === 1) return [characters.join('')];
  return characters.slice(1).map((character, i) => characters[i]! + character);
}

/** Does a text that has the tokens hold the term? */
function isByTokens(words: readonly string[]): boolean {
  const [word = ''] = words;
  if (words.length > 1 || isAsciiSymbol(word)) return false;
  const { length } = charactersOf(word);
  return isPart(word) ? length <= 2 : !isBeginning(word) || length <= BEGINNING_MAX;
}

/** How words stand in a text. */
type Borders = {
  /** The characters that may stand before and after a word that is found whole. */
  border: string;
  /** Ends a word and is none. */
  separator: string;
  /** Are two words that nothing separates next to each other? Only where their scripts differ, or one is a symbol. */
  meetsAt: (left: string, right: string) => boolean;
  beginning: string;
  restOfBeginning: string;
};

/** A search text has a blank before and behind each word, a payload itself what JSON and its text have. */
const OF_SEARCH_TEXT: Borders = {
  border: '[^0-9a-z\\x{80}-\\x{10ffff}]',
  separator: '[\\x01\\x02\\t\\n\\r !"#%&\'()*,\\-./:;?@\\[\\\\\\]_{}\\x7f]',
  meetsAt: (left, right) => isSymbol(left) || isSymbol(right),
  beginning: '\\x02',
  restOfBeginning: '[^ ]*',
};

const WITHOUT_SPACES =
  '\\p{Han}\\p{Hiragana}\\p{Katakana}\\p{Thai}\\p{Lao}\\p{Khmer}\\p{Myanmar}\\x{3031}-\\x{3035}ー〆〼';
const OF_FOLDED_TEXT: Borders = {
  border: `[\\p{P}\\p{S}\\p{Z}\\p{Cc}\\p{Me}\\p{Hangul}${WITHOUT_SPACES}]`,
  separator: '[\\p{P}\\p{Z}\\p{Cc}]',
  meetsAt: (left, right) =>
    isSymbol(left) || isSymbol(right) || isPart(left) !== isPart(right) || isBeginning(left) !== isBeginning(right),
  beginning: '(?:^|[^\\p{Hangul}])',
  restOfBeginning: '[\\p{Hangul}\\p{M}]*',
};

function patternOf(words: readonly string[], borders: Borders): string {
  let pattern = '';
  for (const [i, word] of words.entries()) {
    const isLast = i === words.length - 1;
    const isWhole = !isPart(word) && !isBeginning(word) && !isSymbol(word);
    if (i > 0) pattern += `${borders.separator}${borders.meetsAt(words[i - 1]!, word) ? '*' : '+'}`;
    else if (isBeginning(word)) pattern += borders.beginning;
    else if (isWhole) pattern += `(?:^|${borders.border})`;
    pattern += charactersOf(word)
      .join('')
      .replace(/[$+^|]/g, '\\$&');
    if (isBeginning(word) && !isLast) pattern += borders.restOfBeginning;
    if (isWhole && isLast) pattern += `(?:$|${borders.border})`;
  }
  return pattern;
}

/** As the tokenizer folds a text. Colours of terminals are not looked for in what is ours. */
function foldedText(text: string): string {
  return `replaceAll(replaceRegexpAll(normalizeUTF8NFKCCasefold(${text}), '\\\\p{Cf}', ''), 'i\u0307', 'i')`;
}
