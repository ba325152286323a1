// What is searched of a payload: its search text, made when its row is stored (pipelines/store/stored-rows.ts) and kept
// in the column `words`. The words of its strings, keys among them, and of its numbers and literals as they are
// written, in their order; of text inside text those of what it holds. One blank before and behind each word.
//
// Of most payloads nothing has to be kept: where all is ASCII, without `\u` and without text inside text that has
// escapes of its own, the words can be seen in the payload itself, and the search text is empty. ClickHouse finds them
// there by an expression (clickhouse/queries/search.ts); a property test holds the two to each other.
//
// Invariant: the payload is JSON, checked when it was taken in. Bounded: what does not fit into two characters for each
// byte of the payload is not searched. That is a text of symbols alone, or of characters of which NFKC makes eighteen.
import { isAscii } from 'node:buffer';
import { numberEnd, stringEnd } from '../exact-json.ts';
import { INNER_LEVELS_MAX, innerText } from '../inner-json.ts';
import { wordsBeside, wordsOf } from './words.ts';

/** Stands between the words in their order and those beside them: no phrase goes across. */
const BORDER = '\x03';
const CHARACTERS_A_BYTE = 2;
const CHARACTERS_LEAST = 4 * 1024;

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
/** Where a string may begin with text inside text. */
const MAY_OPEN = /"(?:[ \t]|\\[nrt])*[{[]/;
const LITERAL = /[a-z]+/y;

/** `payload`: JSON in UTF-8. Empty: the payload is its own search text. */
export function searchTextOf(payload: Buffer): string {
  if (!isAscii(payload)) return collected(payload.toString('utf8'), payload.length);
  if (payload.includes('\\u')) return collected(payload.toString('latin1'), payload.length);
  if (!payload.includes('\\\\')) return '';
  const text = payload.toString('latin1');
  return MAY_OPEN.test(text) ? collected(text, payload.length) : '';
}

type Words = { inOrder: string[]; beside: string[]; left: number };

function collected(text: string, bytes: number): string {
  const words: Words = { inOrder: [], beside: [], left: CHARACTERS_A_BYTE * bytes + CHARACTERS_LEAST };
  collect(text, 0, words);
  const { inOrder, beside } = words;
  const known = new Set(beside.length === 0 ? [] : inOrder);
  const more = [...new Set(beside)].filter((word) => !known.has(word));
  // Never empty: that would say that the payload is its own.
  if (more.length === 0) return ` ${inOrder.join(' ')} `;
  return ` ${inOrder.join(' ')} ${BORDER} ${more.join(` ${BORDER} `)} `;
}

function collect(json: string, level: number, words: Words): void {
  for (let i = 0; i < json.length && words.left > 0; i++) {
    const unit = json.charCodeAt(i);
    if (unit === QUOTE) {
      const end = stringEnd(json, i);
      collectString(json.slice(i, end + 1), level, words);
      i = end;
    } else if (unit === MINUS || (unit >= ZERO && unit <= NINE)) {
      const end = numberEnd(json, i);
      add(json.slice(i, end), words);
      i = end - 1;
    } else if (unit >= 0x61 && unit <= 0x7a) {
      LITERAL.lastIndex = i;
      const [literal] = LITERAL.exec(json)!;
      add(literal, words);
      i += literal.length - 1;
    }
  }
}

/** `written`: with its quotes. */
function collectString(written: string, level: number, words: Words): void {
  const text = written.includes('\\') ? (JSON.parse(written) as string) : written.slice(1, -1);
  if (level < INNER_LEVELS_MAX && isDocument(text)) collect(text, level + 1, words);
  else add(text, words);
}

/** Text inside text whose words are those of its strings: an object or an array by JSON's own rules. */
function isDocument(text: string): boolean {
  const inner = innerText(text);
  return inner?.isExact === true && typeof inner.value === 'object';
}

function add(text: string, words: Words): void {
  const found = wordsOf(text);
  for (const word of found) {
    words.left -= word.length + 1;
    if (words.left <= 0) return;
    words.inOrder.push(word);
  }
  for (const word of wordsBeside(text, found)) {
    words.left -= word.length + 3;
    if (words.left > 0) words.beside.push(word);
  }
}
