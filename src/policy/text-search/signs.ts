// Signs: texts of which one stands in the bytes of an event wherever a pattern, a text operator or a detector finds
// something (made once for each). The codec on bytes searches for all signs of an account in one pass
// (ingest/wasm/signs.ts) and asks the engine only about the rules whose signs show. A sign is a row of elements: a
// character, a letter in any case, blanks, one character of a class.
// Invariant: sound, not complete. An event that shows none of the signs of a pattern holds nothing that the pattern
// matches; about one that does nothing is known. Characters that JSON writes otherwise (`"`, `/`, blanks) are elements
// of their own, a backslash ends a sign. A text that is folded is searched as it is, and folded
// (ingest/wasm/folding.ts).
import { getOrMake } from '../../common/maps.ts';
import { inAnyCase, isSurrogate } from './letter-cases.ts';
import type { Pattern } from './program.ts';

/** An element is its kind and, in the low byte, a byte of UTF-8 or the number of a class (SIGN_CLASSES). */
export const ELEMENT = { exact: 0, anyCase: 0x100, blanks: 0x200, ofClass: 0x300, escaped: 0x400 } as const;
/** The checks of the text around a sign: ingest/wasm/signs.ts has each. */
export const CHECK = {
  ...{ none: 0, border: 1, email: 2, sevenDigits: 3, card: 4, iban: 5, nineDigits: 6, sixGroups: 7, randomValue: 8 },
  ...{ twelveInGroups: 9, dialledDigits: 10, nineInGroups: 11 },
} as const;
export type Check = (typeof CHECK)[keyof typeof CHECK];
export type Sign = { readonly elements: readonly number[]; readonly check: Check };

/** Elements of a sign, and signs of a pattern. */
const ELEMENTS_MAX = 32;
const SIGNS_MAX = 48;
/** Patterns with more instructions are read by the engine. */
const INSTRUCTIONS_MAX = 2_000;
/** Places at which a sign may begin, beside the beginning. */
const PLACES_MAX = 24;
/** A sign must be as rare as this, in bits: one position in so many shows its fingerprint. */
const RARITY_MIN = 6;
/** It is not looked for further on in a pattern. */
const RARITY_ENOUGH = 13;
const CLASSES_MAX = 256;

/** Characters of which one may stand at an element: 256 bits each. */
export const SIGN_CLASSES: Uint8Array[] = [];
const classNumbers = new Map<string, number>();

/** One of these characters of ASCII; null: there is no room for another class. */
export function classOf(characters: readonly number[]): number | null {
  const bits = new Uint8Array(32);
  for (const c of characters) bits[c >> 3]! |= 1 << (c & 7);
  const name = bits.join();
  let number = classNumbers.get(name);
  if (number === undefined) {
    if (SIGN_CLASSES.length === CLASSES_MAX) return null;
    number = SIGN_CLASSES.push(bits) - 1;
    classNumbers.set(name, number);
  }
  return ELEMENT.ofClass | number;
}

const BACKSLASH = 0x5c;

function isBlank(c: number): boolean {
  return c === 0x20 || (c >= 0x09 && c <= 0x0d);
}

/** The element of a character of ASCII as it stands; null: none. */
export function elementOf(c: number): number | null {
  if (isBlank(c)) return ELEMENT.blanks;
  if (c < 0x20 || c === 0x7f || c === BACKSLASH) return null;
  return c === 0x22 || c === 0x2f ? ELEMENT.escaped | c : c;
}

/** The signs of a text that must occur as it is; null: it holds too little. */
export function signsOfText(text: string, check: Check = CHECK.none): Sign[] | null {
  if (!text.isWellFormed()) return null;
  let best: Sign | null = null;
  let elements: number[] = [];
  const end = () => {
    const sign = { elements: elements.slice(0, ELEMENTS_MAX), check };
    if (best === null || rarityOf(sign) > rarityOf(best)) best = sign;
    elements = [];
  };
  for (const byte of Buffer.from(text)) {
    const element = byte < 0x80 ? elementOf(byte) : byte;
    if (element === null) end();
    else if (element !== ELEMENT.blanks || elements.at(-1) !== ELEMENT.blanks) elements.push(element);
  }
  end();
  return best === null || rarityOf(best) < RARITY_MIN ? null : [best];
}

/** The signs of several of which one must occur; null: one of them has none. */
export function anySigns(signs: readonly (readonly Sign[] | null)[]): Sign[] | null {
  const all: Sign[] = [];
  for (const of of signs) {
    if (of === null) return null;
    all.push(...of);
  }
  return all;
}

const known = new WeakMap<Pattern, Sign[] | null>();

/** null: none are known, so the pattern has to be asked. */
export function signsOfPattern(pattern: Pattern): readonly Sign[] | null {
  return getOrMake(known, pattern, () => new Graph(pattern).signs());
}

/** Opcodes of re2js: see program.ts. */
const OP = { alt: 1, altMatch: 2, fail: 5, match: 6, rune: 8, rune1: 9, runeLast: 11 } as const;

/** Elements so far, and the instruction that comes next; null: the match is complete, or goes on unknown. */
type Partial = { elements: readonly number[]; next: number | null };

class Graph {
  readonly #instructions: Pattern['instructions'];
  readonly #start: number;

  constructor({ instructions, start }: Pattern) {
    this.#instructions = instructions;
    this.#start = start;
  }

  signs(): Sign[] | null {
    if (this.#instructions.length > INSTRUCTIONS_MAX) return null;
    const whole = this.#best(this.#start);
    if (whole !== null && raritiesOf(whole) >= RARITY_ENOUGH) return whole;
    // Alternatives, each by its own rarest place.
    const begins = this.#reach(this.#start);
    const parts = begins.length < 2 || begins.length > SIGNS_MAX ? null : begins.map((begin) => this.#best(begin));
    const separate = parts === null ? null : anySigns(parts);
    const best =
      separate !== null && separate.length <= SIGNS_MAX && raritiesOf(separate) > raritiesOf(whole) ? separate : whole;
    return raritiesOf(best) < RARITY_MIN ? null : best;
  }

  /** The rarest signs through which every way from there to a match goes. */
  #best(from: number): Sign[] | null {
    let best = this.#from(from);
    if (raritiesOf(best) >= RARITY_ENOUGH) return best;
    let places = 0;
    for (let at = 0; at < this.#instructions.length && places < PLACES_MAX; at++) {
      if (at === from || !this.#isRune(at) || this.#elementsAt(at) === null || !this.#isMandatory(from, at)) continue;
      places++;
      const signs = this.#from(at);
      if (raritiesOf(signs) > raritiesOf(best)) best = signs;
    }
    return best;
  }

  /** The texts that may stand from there on, as far as they are few. */
  #from(at: number): Sign[] | null {
    let partials: Partial[] = [{ elements: [], next: at }];
    for (let length = 0; length < ELEMENTS_MAX; length++) {
      const longer = partials.flatMap((partial) => this.#longer(partial));
      if (longer.length > SIGNS_MAX || longer.length === 0) break;
      partials = longer;
      if (partials.every(({ next }) => next === null)) break;
    }
    if (partials.some(({ elements }) => elements.length === 0)) return null;
    return withoutLonger(partials).map(({ elements }) => ({ elements, check: CHECK.none }));
  }

  #longer(partial: Partial): Partial[] {
    const { elements, next } = partial;
    if (next === null) return [partial];
    const last = elements.at(-1);
    const longer: Partial[] = [];
    for (const at of this.#reach(next, last === ELEMENT.blanks)) {
      const { op, out } = this.#instructions[at]!;
      if (op === OP.match) longer.push({ elements, next: null });
      else {
        const ways = this.#elementsAt(at);
        if (ways === null) longer.push({ elements, next: null });
        for (const own of ways ?? [])
          if (last !== ELEMENT.blanks || own[0] !== ELEMENT.blanks)
            longer.push({ elements: [...elements, ...own].slice(0, ELEMENTS_MAX), next: out });
      }
    }
    return longer;
  }

  #isRune(at: number): boolean {
    const { op } = this.#instructions[at]!;
    return op >= OP.rune && op <= OP.runeLast;
  }

  /** The next instructions, or the match. `pastBlanks`: behind blanks further ones are none of their own. */
  #reach(from: number, pastBlanks = false): number[] {
    const seen = new Set<number>();
    const reached: number[] = [];
    const open = [from];
    while (open.length > 0) {
      const at = open.pop()!;
      if (seen.has(at)) continue;
      seen.add(at);
      const { op, out, arg } = this.#instructions[at]!;
      if (op === OP.fail) continue;
      if (op === OP.match) reached.push(at);
      else if (this.#isRune(at)) {
        const ways = pastBlanks ? this.#elementsAt(at) : null;
        const others = ways?.filter(([element]) => element !== ELEMENT.blanks);
        if (others?.length !== ways?.length) open.push(out);
        if (others?.length !== 0) reached.push(at);
      } else {
        open.push(out);
        if (op === OP.alt || op === OP.altMatch) open.push(arg);
      }
    }
    return reached;
  }

  /** No way from there leads to a match without it. */
  #isMandatory(from: number, at: number): boolean {
    const seen = new Set<number>([at]);
    const open = [from];
    while (open.length > 0) {
      const here = open.pop()!;
      if (seen.has(here)) continue;
      seen.add(here);
      const { op, out, arg } = this.#instructions[here]!;
      if (op === OP.match) return false;
      if (op === OP.fail) continue;
      open.push(out);
      if (op === OP.alt || op === OP.altMatch) open.push(arg);
    }
    return true;
  }

  /** The ways in which it may stand there, each a row; null: what it takes cannot be searched for. */
  #elementsAt(at: number): Ways | null {
    return elementsOf(this.#instructions[at]!);
  }
}

/** A sign shows wherever one shows that begins with it: repeats (`x{4,}`) come to many of these. */
function withoutLonger(partials: readonly Partial[]): Partial[] {
  const shorter = new Set<string>();
  const inOrder = [...partials].sort((a, b) => a.elements.length - b.elements.length);
  return inOrder.filter(({ elements }) => {
    let name = '';
    for (const element of elements) {
      name += `${element},`;
      if (shorter.has(name)) return false;
    }
    shorter.add(name);
    return true;
  });
}

type Instruction = Pattern['instructions'][number];
type Ways = readonly (readonly number[])[];

const FOLD_CASE = 1;
/** Repeats share the array of what they take. */
const knownElements = new WeakMap<Int32Array, (Ways | null | undefined)[]>();

function elementsOf(instruction: Instruction): Ways | null {
  const { op, runes, arg } = instruction;
  if (op !== OP.rune && op !== OP.rune1) return null;
  const variant = runes.length === 1 ? arg & FOLD_CASE : 0;
  const variants = getOrMake(knownElements, runes, () => []);
  if (variants[variant] === undefined) variants[variant] = readElements(instruction);
  return variants[variant]!;
}

function readElements(instruction: Instruction): Ways | null {
  const { runes, arg } = instruction;
  const takes = (rune: number) => instruction.matchRune(rune);
  const beyond = beyondAscii(runes, (arg & FOLD_CASE) !== 0 && runes.length === 1);
  if (beyond === null || takes(BACKSLASH)) return null;
  const ways = new Set(
    beyond
      .filter((rune) => takes(rune) && !isSurrogate(rune))
      .map((rune) => [...Buffer.from(String.fromCodePoint(rune))]),
  );
  const plain: number[] = [];
  let hasBlanks = false;
  for (let c = 0; c < 0x7f; c++) {
    if (!takes(c)) continue;
    if (isBlank(c)) hasBlanks = true;
    else if (c >= 0x20) {
      const element = elementOf(c)!;
      if (element < 0x80) plain.push(c);
      else ways.add([element]);
    }
  }
  if (hasBlanks) ways.add([ELEMENT.blanks]);
  if (plain.length > 0) {
    const element = elementOfAny(plain);
    if (element === null) return null;
    ways.add([element]);
  }
  return ways.size === 0 ? null : [...ways];
}

function elementOfAny(characters: readonly number[]): number | null {
  const [first, second] = characters;
  if (characters.length === 1) return first!;
  const isOneLetter = characters.length === 2 && first! >= 0x41 && first! <= 0x5a && second === (first! | 0x20);
  return isOneLetter ? ELEMENT.anyCase | second! : classOf(characters);
}

const BEYOND_MAX = 16;

/** The code points beyond ASCII that an instruction may take; null: too many. */
function beyondAscii(runes: Int32Array, isFolded: boolean): number[] | null {
  if (runes.length === 1) {
    const [rune] = runes;
    // Those beyond ASCII that are a letter of it in another case the codec says of the whole event.
    if (rune! < 0x80) return [];
    return isFolded ? inAnyCase(rune!) : [rune!];
  }
  const beyond: number[] = [];
  for (let i = 0; i + 1 < runes.length; i += 2) {
    const [lo, hi] = [Math.max(0x80, runes[i]!), runes[i + 1]!];
    if (hi - lo >= BEYOND_MAX || beyond.length > BEYOND_MAX) return null;
    for (let rune = lo; rune <= hi; rune++) beyond.push(rune);
  }
  return beyond;
}

/** A stretch of a sign by which it is searched for. */
type Fingerprint = { place: number; bytes: readonly (readonly number[])[]; rarity: number };

/** Bytes of a fingerprint, and how many there may be of one. */
const FINGERPRINT_MAX = 3;
const SPELLINGS_MAX = 64;

/** Folded: a digit at what may be a border, and one behind a letter or a digit. */
const DIGITS: readonly number[] = [0x30, 0x31];
/** These checks say no where a letter or a digit is before the sign. */
const AT_BORDERS: ReadonlySet<Check> = new Set([
  ...[CHECK.border, CHECK.card, CHECK.iban, CHECK.twelveInGroups, CHECK.dialledDigits, CHECK.nineInGroups],
]);

/** Letters small, digits one of two: as ingest/wasm/signs.ts folds. */
function foldByte(byte: number): readonly number[] {
  return isDigit(byte) ? DIGITS : [byte | 0x20];
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Folded: a blank or a backslash; a blank, or the letter of its escape. */
const BLANKS_BEGIN: readonly number[] = [0x20, 0x7c];
const BLANKS_END: readonly number[] = [0x20, 0x6e, 0x74, 0x72, 0x66];
const fingerprints = new WeakMap<Sign, Fingerprint | null>();

/** The rarest; null: there is none. */
export function fingerprintOf(sign: Sign): Fingerprint | null {
  let best = fingerprints.get(sign);
  if (best !== undefined) return best;
  best = null;
  const folded = sign.elements.map(foldedOf);
  if (AT_BORDERS.has(sign.check)) folded[0] = folded[0]?.filter((byte) => byte !== DIGITS[1]) ?? null;
  const isBlanks = (at: number) => sign.elements[at] === ELEMENT.blanks;
  for (let place = 0; place < folded.length; place++) {
    let spellings = 1;
    let rarity = 0;
    const bytes: (readonly number[])[] = [];
    for (let i = place; i < folded.length && bytes.length < FINGERPRINT_MAX; i++) {
      // Blanks have an unknown length: they begin a fingerprint by their end, and end it by their beginning.
      const some = isBlanks(i) ? (i === place ? BLANKS_END : BLANKS_BEGIN) : folded[i];
      spellings *= some?.length ?? 0;
      if (some === null || some === undefined || spellings > SPELLINGS_MAX) break;
      rarity -= Math.log2(some.reduce((sum, byte) => sum + shareOf(byte, bytes.at(-1)), 0));
      bytes.push(some);
      if (isCommon(bytes)) rarity = COMMON_RARITY;
      if (best === null || rarity > best.rarity) best = { place, bytes: [...bytes], rarity };
      if (isBlanks(i) && i > place) break;
    }
  }
  fingerprints.set(sign, best);
  return best;
}

/** Parts of words that nearly every event has, as `tokens_used`: rarer by their letters than they are. */
const COMMON: ReadonlySet<string> = new Set(['tok', 'oke', 'ken']);
const COMMON_RARITY = 8;

function isCommon(bytes: readonly (readonly number[])[]): boolean {
  return bytes.every(({ length }) => length === 1) && COMMON.has(String.fromCharCode(...bytes.map(([byte]) => byte!)));
}

function foldedOf(element: number): readonly number[] | null {
  const low = element & 0xff;
  switch (element - low) {
    case ELEMENT.exact:
      return foldByte(low);
    case ELEMENT.anyCase:
      return [low];
    case ELEMENT.ofClass:
      return foldedClass(SIGN_CLASSES[low]!);
    default:
      return null;
  }
}

function foldedClass(bits: Uint8Array): readonly number[] {
  const folded = new Set<number>();
  for (let c = 0; c < 0x80; c++)
    if ((bits[c >> 3]! & (1 << (c & 7))) !== 0) for (const byte of foldByte(c)) folded.add(byte);
  return [...folded];
}

/** How many of a thousand bytes of JSON texts they are. */
const SHARES: Readonly<Record<string, number>> = {
  ...{ ' ': 140, e: 85, t: 62, a: 60, o: 55, i: 53, n: 53, s: 48, r: 45, '"': 45, l: 32, h: 30, d: 30, c: 28 },
  ...{ '0': 12, '1': 33 },
  ...{
    u: 22,
    m: 20,
    p: 20,
    ',': 16,
    f: 15,
    g: 14,
    ':': 14,
    y: 12,
    '.': 10,
    w: 10,
    b: 10,
    '|': 10,
    _: 8,
    v: 8,
    '-': 6,
    k: 5,
  },
  ...{ '/': 5, '{': 4, '}': 4, "'": 3, '=': 3 },
};
const OTHER_SHARE = 1.5;

function shareOf(byte: number, before: readonly number[] | undefined): number {
  if (byte === DIGITS[1] && before?.some(isDigit)) return 0.5; // digits stand in rows
  return (SHARES[String.fromCharCode(byte)] ?? OTHER_SHARE) / 1000;
}

function rarityOf(sign: Sign): number {
  return fingerprintOf(sign)?.rarity ?? 0;
}

/** The rarity of the most common sign. */
function raritiesOf(signs: readonly Sign[] | null): number {
  return signs === null || signs.length === 0 ? 0 : Math.min(...signs.map(rarityOf));
}

/** The longest text of each sign that stands as it is; null: one of them has none. */
export function literalsOf(signs: readonly Sign[]): string[] | null {
  const literals = signs.map(literalOf);
  return literals.every((literal) => literal !== '') ? [...new Set(literals)] : null;
}

function literalOf({ elements }: Sign): string {
  let best: number[] = [];
  let row: number[] = [];
  for (const element of [...elements, ELEMENT.blanks]) {
    if (element < 0x100) row.push(element);
    else {
      if (row.length > best.length) best = row;
      row = [];
    }
  }
  // A character of several bytes may have been cut.
  return Buffer.from(best).toString().replaceAll('\ufffd', '');
}
