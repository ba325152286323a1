// What the search on bytes knows of each code point below 0x20000 (wasm/folding.ts; made once a thread): a byte that
// says what it is to the folded form of its text, and what it is folded to where no neighbour matters. Everything
// follows from policy/texts/folded.ts, which stays the one source of it.
// Most characters stand for themselves. A mark does, too, where it is in its place: Unicode gives marks an order, and
// joins some of them with the character before (NFC_Quick_Check). Which marks, and with what, is found out by
// normalizing them; what is not sure is odd, and left to the engine.
import assert from 'node:assert/strict';
import { ourDigit } from '../policy/detectors/detector-search.ts';
import { isSurrogate } from '../policy/text-search/letter-cases.ts';
import { BELONGING, foldedText, ITSELF, kindOf, SPELLING } from '../policy/texts/folded.ts';
import * as layout from './wasm/layout.ts';

const BLOCK = 256;
const ROW = 16;
/** Hangul is written in syllables, each of a vowel and other letters. */
const SYLLABLES = 0xac00;
const LAST_SYLLABLE = 0xd7a3;
const MARK = /\p{M}/u;
/** Digits of the basic plane are read as ours, too (detector-search.ts). */
const DIGIT = /\p{Nd}/u;
const WIDE_ZERO = 0xff10;
const NOT_ITSELF =
  /[\p{M}\p{Cf}\p{DI}\p{Cc}\p{Zs}\p{Pd}\p{Nd}\u1100-\u115f\ua960-\ua97c\u2028\u2029\u2800\u2212\u2043\u02d7\u2796\ufffc]/u;
/** Combining classes 1 and 240, the first and the last. */
const FIRST_MARK = '\u0334';
const LAST_MARK = '\u0345';

/** Characters that something may be joined with, and those that are joined with something. */
type Joins = { first: Set<string>; second: Set<string> };

/** The classes, then what is folded, as wasm/layout.ts has it. About 100 ms. */
export function foldingTable(): Buffer {
  const classes = Buffer.alloc(layout.CODE_POINTS);
  const joins: Joins = { first: new Set(), second: new Set() };
  const special: number[] = [];
  for (let block = 0; block < layout.CODE_POINTS; block += BLOCK) {
    if (isSurrogate(block)) {
      classes.fill(layout.CLASS_ODD, block, block + BLOCK);
      continue;
    }
    const codePoints = Array.from({ length: BLOCK }, (_, i) => block + i);
    const text = String.fromCodePoint(...codePoints);
    const isPlain = block > 0 && !NOT_ITSELF.test(text) && text.normalize('NFKC') === text;
    if (!isPlain) special.push(...codePoints.filter((u) => u >= 0x7f));
    if (text.normalize('NFD') !== text) for (const u of codePoints) noteJoins(u, joins, classes);
  }
  const ranks = ranksOf(special.map((u) => String.fromCodePoint(u)).filter((one) => MARK.test(one)));
  const folded = new Map<number, string>();
  for (const u of special) {
    const character = String.fromCodePoint(u);
    const plain = foldedText(character);
    classes[u] = classOf(character, plain, { joins, ranks });
    if (classes[u] === layout.CLASS_MAPPED) folded.set(u, plain);
  }
  for (const character of joins.first) {
    const u = character.codePointAt(0)!;
    if (classes[u] === 0) classes[u] = layout.CLASS_FIRST;
  }
  return Buffer.concat([classes, foldedTable(folded)]);
}

function noteJoins(u: number, { first, second }: Joins, classes: Buffer): void {
  if (u >= SYLLABLES && u <= LAST_SYLLABLE) {
    classes[u] = layout.CLASS_FIRST; // what they are joined of are letters
    return;
  }
  const character = String.fromCodePoint(u);
  const parts = character.normalize('NFD');
  if (parts === character) return;
  classes[u] = layout.CLASS_FIRST;
  first.add(character);
  if (parts.normalize('NFC') !== character) return; // it is never made again
  const [base, ...marks] = parts;
  first.add(base!);
  for (const mark of marks) second.add(mark);
}

type Marks = { joins: Joins; ranks: ReadonlyMap<string, number> };

function classOf(character: string, plain: string, { joins: { first, second }, ranks }: Marks): number {
  const kind = kindOf(character, plain);
  const u = character.codePointAt(0)!;
  const isDigit = u < 0x10000 && DIGIT.test(character);
  if (kind === SPELLING) return layout.CLASS_ODD;
  if (plain === '') return layout.CLASS_DROPPED;
  if (plain !== character) {
    const isWide = u >= WIDE_ZERO && u < WIDE_ZERO + 10;
    return kind === BELONGING || (isDigit && !isWide) ? layout.CLASS_ODD : layout.CLASS_MAPPED;
  }
  const mayJoin = first.has(character);
  if (isDigit) return mayJoin ? layout.CLASS_ODD : layout.CLASS_DIGIT + digitOf(character);
  if (kind === ITSELF || !MARK.test(character)) return kind === ITSELF ? 0 : layout.CLASS_ODD;
  const rank = ranks.get(character) ?? 0;
  if (mayJoin && (rank > 0 || second.has(character))) return layout.CLASS_ODD;
  if (second.has(character)) return layout.CLASS_JOINING + rank;
  return rank > 0 ? layout.CLASS_MARK + rank : 0;
}

function digitOf(character: string): number {
  const value = Number(ourDigit(character));
  assert(value < 10, 'digits come in rows of ten');
  return value;
}

/** Marks that Unicode puts into an order, each with the place of its combining class, from 1. */
function ranksOf(marks: readonly string[]): Map<string, number> {
  const ordered: string[][] = [];
  for (const mark of marks) {
    if (mark.normalize('NFD') !== mark) continue;
    if (!isBehind(mark, FIRST_MARK) && !isBehind(LAST_MARK, mark) && mark !== FIRST_MARK && mark !== LAST_MARK)
      continue;
    let [low, high] = [0, ordered.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBehind(mark, ordered[middle]![0]!)) low = middle + 1;
      else high = middle;
    }
    const same = ordered[low];
    if (same !== undefined && !isBehind(same[0]!, mark)) same.push(mark);
    else ordered.splice(low, 0, [mark]);
  }
  assert(ordered.length < layout.CLASS_JOINING - layout.CLASS_MARK, 'every combining class needs its place');
  return new Map(ordered.flatMap((same, i) => same.map((mark) => [mark, i + 1] as const)));
}

/** Does one mark belong behind another? */
function isBehind(one: string, other: string): boolean {
  return one !== other && `x${one}${other}`.normalize('NFD') === `x${other}${one}`;
}

/**
 * For each row of 16 code points u16: where its own 16 u16 lie, each the place of a text (its length, then UTF-8), from
 * the beginning of the table. As it stands in JSON.
 */
function foldedTable(folded: ReadonlyMap<number, string>): Buffer {
  const rows = [...new Set([...folded.keys()].map((u) => u >> 4))];
  const heads = (layout.CODE_POINTS / ROW) * 2;
  const textsAt = heads + rows.length * ROW * 2;
  const table = Buffer.alloc(textsAt);
  rows.forEach((row, i) => {
    table.writeUInt16LE(heads + i * ROW * 2, row * 2);
  });
  const places = new Map<string, number>();
  const texts: Buffer[] = [];
  let end = textsAt;
  for (const [u, text] of folded) {
    if (!places.has(text)) {
      const bytes = Buffer.from(text.replaceAll(/["\\]/g, '\\$&'));
      texts.push(Buffer.from([bytes.length]), bytes);
      places.set(text, end);
      end += 1 + bytes.length;
    }
    table.writeUInt16LE(places.get(text)!, table.readUInt16LE((u >> 4) * 2) + (u & 15) * 2);
  }
  return Buffer.concat([table, ...texts]);
}
