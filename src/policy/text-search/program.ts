// Turns RE2 patterns into programs that automata run. re2js parses, checks and simplifies a pattern; its instructions
// are taken over into plain arrays and several patterns are laid side by side into one program, so that one pass finds
// all. Our own automaton runs them, not re2js's engines, because those cannot be stopped half way: the work needs a
// bound on the work, not only linear time (`([a-z]{1,100}){1,5}$` took re2js's NFA 2.3 s on 100 KB, and its DFA has no
// budget). RE2 syntax only: look-around, back-references and possessive quantifiers are refused when the policy is
// created.
import { RE2JS } from 're2js';
import { PATTERN_CHARACTERS_MAX } from '../../common/limits.ts';
import { getOrMake } from '../../common/maps.ts';
import { repeatedSize } from './repeated-size.ts';

/**
 * Instructions of one pattern. 512 characters of plain text need 514; repeats multiply. A step of the automaton costs
 * up to this many units.
 */
const INSTRUCTIONS_MAX = 2_000;

/** re2js is not asked to make more of them, since 140,000 take it 70 ms. An estimate says so beforehand. */
const TRIED_INSTRUCTIONS_MAX = 10 * INSTRUCTIONS_MAX;

/** `\p{L}` and the like of one pattern. Each takes re2js 0.3 ms to write out, and 170 fit into a pattern. */
const UNICODE_CLASSES_MAX = 50;
const ESCAPES = /\\(.)/gsu;

/** Opcodes of re2js that matter; captures and no-ops are skipped over. */
const OP = { ALT: 1, ALT_MATCH: 2, CAPTURE: 3, LOOK: 4, FAIL: 5, MATCH: 6, NOP: 7, RUNE: 8, RUNE_LAST: 11 } as const;

/** Conditions of a LOOK instruction, RE2's bits. */
export const LOOK = {
  beginLine: 1,
  endLine: 2,
  beginText: 4,
  endText: 8,
  wordBoundary: 16,
  noWordBoundary: 32,
} as const;

type Instruction = { op: number; out: number; arg: number; runes: Int32Array; matchRune(rune: number): boolean };

/** One compiled pattern. `bounds` are the code points at which some instruction's answer can change. */
export type Pattern = {
  source: string;
  /** The text that the pattern represents, if it is one plain text. */
  literal: string | null;
  instructions: Instruction[];
  start: number;
  bounds: Int32Array;
};

export class PatternError extends Error {
  override name = 'PatternError';
}

/**
 * Throws PatternError with a sentence for the author of the pattern. `prepare`: what is compiled in place of what the
 * author wrote.
 */
export function compilePattern(source: unknown, prepare = (asWritten: string) => asWritten): Pattern {
  if (typeof source !== 'string') throw new PatternError('must be a string, an RE2 pattern');
  if (source === '') throw new PatternError('must not be empty');
  if (source.length > PATTERN_CHARACTERS_MAX) {
    throw new PatternError(`must have at most ${PATTERN_CHARACTERS_MAX} characters, has ${source.length}`);
  }
  if (!source.isWellFormed()) throw new PatternError('must not hold a lone surrogate');
  const classes = [...source.matchAll(ESCAPES)].filter(([, escaped]) => escaped === 'p' || escaped === 'P').length;
  if (classes > UNICODE_CLASSES_MAX) {
    throw new PatternError(`has ${classes} Unicode classes (\`\\p{…}\`), at most ${UNICODE_CLASSES_MAX} are allowed`);
  }
  return { ...compileCandidate(prepare(source)), source };
}

/** Compiles a detector's pattern: our own, so the bound on what an author may write is not asked. */
export function compileCandidate(source: string): Pattern {
  const repeated = repeatedSize(source);
  if (repeated > TRIED_INSTRUCTIONS_MAX) throw tooLarge(repeated);
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(source);
  } catch (error) {
    throw new PatternError(explain(source, (error as Error).message));
  }
  const re2 = compiled.re2();
  const instructions = re2.prog.inst as Instruction[];
  if (instructions.length > INSTRUCTIONS_MAX) throw tooLarge(instructions.length);
  const literal = re2.prefixComplete && re2.prefix !== '' ? (re2.prefix as string) : null;
  const { start } = re2.prog;
  re2.prog = Object.assign(Object.create(Object.getPrototypeOf(re2.prog)), { inst: distinctOf(instructions) });
  return { source, literal, instructions, start, bounds: re2.dfa.classBounds };
}

/**
 * All that re2js has to look at for the borders of the classes. Repeats share the array of what they take, and re2js
 * walks through it for each of them: of compiling `\p{L}{69}` that was three quarters.
 */
function distinctOf(instructions: readonly Instruction[]): Instruction[] {
  const seen = new Map<Int32Array, Set<number>>();
  return instructions.filter(({ op, runes, arg }) => {
    if (op < OP.RUNE) return op === OP.LOOK;
    const args = seen.get(runes) ?? new Set();
    const isNew = !args.has(arg);
    seen.set(runes, args.add(arg));
    return isNew;
  });
}

function tooLarge(instructions: number): PatternError {
  return new PatternError(
    `is too large: its repeats make ${instructions} instructions, at most ${INSTRUCTIONS_MAX} are allowed`,
  );
}

function explain(source: string, message: string): string {
  if (/\(\?<?[=!]/.test(source)) return 'is not RE2: look-ahead and look-behind are not supported';
  if (/\\[1-9]/.test(source) && message.includes('escape')) return 'is not RE2: back-references are not supported';
  if (/\(\?>|[*+?}]\+/.test(source)) return 'is not RE2: atomic groups and possessive quantifiers are not supported';
  return `is not an RE2 pattern: ${message.replace(/^error parsing regexp: /, '')}`;
}

/** The kinds of characters for `^`, `$` and `\b`. BEGIN and END represent the borders of the text. */
export const KIND = { other: 0, newline: 1, word: 2, border: 3 } as const;

/** The operations of a program's instructions. */
export const DO = { split: 1, look: 2, rune: 3, match: 4, fail: 5 } as const;

/**
 * Patterns side by side. Instruction `i` does `ops[i]`; `outs[i]` follows, `args[i]` is the second way of a split, the
 * bits of a look, or which pattern a match belongs to. Characters fall into `classes` classes; rune instruction `i`
 * takes class `c` if `takes[rows[i] + c]` is 1. Instructions that take the same characters have the same row:
 * `\p{L}{300}` has one, and laying it out costs one instruction's work.
 */
export class Program {
  readonly size: number;
  readonly ops: Uint8Array;
  readonly outs: Int32Array;
  readonly args: Int32Array;
  readonly starts: Int32Array;
  readonly patterns: number;
  readonly looks: boolean;
  readonly classes: number;
  readonly takes: Uint8Array;
  readonly rows: Int32Array;
  /** Class of each of the first 256 code points. */
  readonly latin: Uint16Array;
  /** Classes of the basic plane, 256 code points a page, made when a text first needs them. */
  readonly pages: (Uint16Array | undefined)[] = new Array<undefined>(256).fill(undefined);
  readonly kinds: Uint8Array;
  readonly #bounds: Int32Array;
  readonly #classOfInterval: Uint16Array;

  constructor(patterns: readonly Pattern[]) {
    const all: Instruction[] = [];
    const bases = patterns.map((pattern) => all.push(...pattern.instructions) - pattern.instructions.length);
    this.patterns = patterns.length;
    this.size = all.length;
    this.ops = new Uint8Array(this.size);
    this.outs = new Int32Array(this.size);
    this.args = new Int32Array(this.size);
    patterns.forEach((pattern, p) => {
      this.#takeOver(pattern, p, bases[p]!);
    });
    this.starts = Int32Array.from(patterns, (pattern, p) => bases[p]! + skip(pattern.instructions, pattern.start));
    this.looks = this.ops.includes(DO.look);
    this.#bounds = intervals(patterns, this.looks);
    const distinct = new DistinctRunes();
    const runeSets = all.map((instruction, i) => (this.ops[i] === DO.rune ? distinct.numberOf(instruction) : 0));
    const { classOfInterval, classes } = this.#partition(distinct.all);
    this.#classOfInterval = classOfInterval;
    this.classes = classes;
    this.latin = Uint16Array.from({ length: 256 }, (_, rune) => this.#search(rune));
    this.rows = Int32Array.from(runeSets, (set) => set * classes);
    this.kinds = new Uint8Array(classes);
    this.takes = new Uint8Array(distinct.all.length * classes);
    // One code point speaks for its class: the first interval of each class is the one that made it.
    for (let cls = 0; cls < classes; cls++)
      this.#describeClass(distinct.all, this.#bounds[classOfInterval.indexOf(cls)]!, cls);
  }

  classOf(rune: number): number {
    if (rune < 256) return this.latin[rune]!;
    if (rune > 0xffff) return this.#search(rune);
    const page = rune >> 8;
    this.pages[page] ??= Uint16Array.from({ length: 256 }, (_, i) => this.#search(page * 256 + i));
    return this.pages[page][rune & 255]!;
  }

  #takeOver(pattern: Pattern, p: number, base: number): void {
    const { instructions } = pattern;
    instructions.forEach(({ op, out, arg }, i) => {
      const at = base + i;
      this.outs[at] = base + skip(instructions, out);
      if (op === OP.ALT || op === OP.ALT_MATCH) {
        this.ops[at] = DO.split;
        this.args[at] = base + skip(instructions, arg);
      } else if (op === OP.LOOK) {
        this.ops[at] = DO.look;
        this.args[at] = arg;
      } else if (op === OP.MATCH) {
        this.ops[at] = DO.match;
        this.args[at] = p;
      } else if (op >= OP.RUNE && op <= OP.RUNE_LAST) this.ops[at] = DO.rune;
      else this.ops[at] = DO.fail; // FAIL itself; captures and no-ops are never reached
    });
  }

  /** Merges intervals that no instruction distinguishes into one class. */
  #partition(runeSets: readonly Instruction[]): { classOfInterval: Uint16Array; classes: number } {
    const { length } = this.#bounds;
    const classOfInterval = new Uint16Array(length);
    let classes = 1;
    const refine = (inside: (rune: number) => boolean) => {
      const split = new Map<number, number>();
      const before = new Set<number>();
      for (let i = 0; i < length; i++) if (!inside(this.#bounds[i]!)) before.add(classOfInterval[i]!);
      for (let i = 0; i < length; i++) {
        const old = classOfInterval[i]!;
        if (!before.has(old) || !inside(this.#bounds[i]!)) continue;
        if (!split.has(old)) split.set(old, classes++);
        classOfInterval[i] = split.get(old)!;
      }
    };
    if (this.looks) for (const kind of [KIND.newline, KIND.word]) refine((rune) => kindOf(rune) === kind);
    for (const instruction of runeSets) refine((rune) => instruction.matchRune(rune));
    return { classOfInterval, classes };
  }

  #describeClass(runeSets: readonly Instruction[], rune: number, cls: number): void {
    this.kinds[cls] = this.looks ? kindOf(rune) : KIND.other;
    runeSets.forEach((instruction, set) => {
      if (instruction.matchRune(rune)) this.takes[set * this.classes + cls] = 1;
    });
  }

  #search(rune: number): number {
    const bounds = this.#bounds;
    let lo = 0;
    let hi = bounds.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (bounds[mid]! <= rune) lo = mid + 1;
      else hi = mid;
    }
    return this.#classOfInterval[lo - 1]!;
  }
}

/** Instructions that take different characters, numbered. Looked up by a hash: as text, `\p{L}` alone is 8 KB. */
class DistinctRunes {
  readonly all: Instruction[] = [];
  /** Repeats share the array of what they take. */
  readonly #byArray = new Map<Int32Array, number[]>();
  readonly #byHash = new Map<number, number[]>();

  numberOf(instruction: Instruction): number {
    const { runes } = instruction;
    const numbers = getOrMake(this.#byArray, runes, () => []);
    const variant = variantOf(instruction);
    numbers[variant] ??= this.#numberOfContent(instruction);
    return numbers[variant];
  }

  #numberOfContent(instruction: Instruction): number {
    const hash = hashOf(instruction);
    const alike = this.#byHash.get(hash) ?? [];
    const known = alike.find((number) => takeTheSame(this.all[number]!, instruction));
    if (known !== undefined) return known;
    const number = this.all.push(instruction) - 1;
    alike.push(number);
    this.#byHash.set(hash, alike);
    return number;
  }
}

function takeTheSame(a: Instruction, b: Instruction): boolean {
  if (a.runes.length !== b.runes.length || variantOf(a) !== variantOf(b)) return false;
  for (let i = 0; i < a.runes.length; i++) if (a.runes[i] !== b.runes[i]) return false;
  return true;
}

/** The variant of an instruction beside its characters (case folding): it counts for single ones alone. */
function variantOf({ runes, arg }: Instruction): number {
  return runes.length === 1 ? arg : 0;
}

function hashOf(instruction: Instruction): number {
  let hash = variantOf(instruction);
  const { runes } = instruction;
  for (let i = 0; i < runes.length; i++) hash = (Math.imul(hash, 31) + runes[i]!) | 0;
  return hash;
}

/** The instruction that really follows: captures and no-ops do nothing. */
function skip(instructions: readonly Instruction[], pc: number): number {
  while (instructions[pc]!.op === OP.CAPTURE || instructions[pc]!.op === OP.NOP) pc = instructions[pc]!.out;
  return pc;
}

/** First code points of the intervals in which every instruction answers alike, beginning with 0. */
function intervals(patterns: readonly Pattern[], looks: boolean): Int32Array {
  const bounds = new Set<number>([0]);
  for (const pattern of patterns) for (const bound of pattern.bounds) bounds.add(bound);
  if (looks) for (const bound of [10, 11, 48, 58, 65, 91, 95, 96, 97, 123]) bounds.add(bound);
  return Int32Array.from(bounds).sort();
}

function kindOf(rune: number): number {
  if (rune === 10) return KIND.newline;
  const word = (rune >= 48 && rune <= 57) || (rune >= 65 && rune <= 90) || rune === 95 || (rune >= 97 && rune <= 122);
  return word ? KIND.word : KIND.other;
}

/** Code points of the shortest text that a pattern matches: breadth first over its instructions. */
export function shortestMatch({ instructions, start }: Pattern): number {
  const seen = new Set<number>();
  let frontier = new Set<number>([start]);
  for (let length = 0; frontier.size > 0; length++) {
    const next = new Set<number>();
    for (const pc of frontier) {
      if (seen.has(pc)) continue;
      seen.add(pc);
      const { op, out, arg } = instructions[pc]!;
      if (op === OP.MATCH) return length;
      if (op >= OP.RUNE && op <= OP.RUNE_LAST) next.add(out);
      else if (op !== OP.FAIL) frontier.add(out);
      if (op === OP.ALT || op === OP.ALT_MATCH) frontier.add(arg);
    }
    frontier = next;
  }
  return Number.POSITIVE_INFINITY;
}
