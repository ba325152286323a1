// Runs a program over text as a lazily built DFA: each state is made when the text first leads there, then a character
// costs one look-up (2-4 ns). One pass finds which of the program's patterns occur. Two further directions find
// where: backwards over the whole text (every position at which a match starts) and forwards from one position (its
// longest end). Used by the scanner (data filters), the `matches` operators and redaction.
//
// What bounds the work: a character costs one unit of the caller's budget, a new state about as many units as
// instructions had to be followed, from a budget of its own per automaton and event; a cache that grows past
// its bound is thrown away and begun again. A pattern whose states explode runs out of units and throws OverBudget,
// it does not run on. Everything is counted, nothing is timed, so judgements do not depend on the machine's load.

import { type Budget, OVER_BUDGET } from '../budget.ts';
import {
  ACCEPTING,
  DEAD,
  isHigh,
  isLow,
  MATCHED,
  runBackward,
  runForward,
  runToLastMatch,
  type Tables,
  UNKNOWN,
} from './automaton-loops.ts';
import { DO, KIND, LOOK, type Program } from './program.ts';

/** States and transitions of one automaton, unless its owner says otherwise. 50 ordinary patterns need 50-300 KB. */
const CACHE_BYTES_MAX = 512 * 1024;
/** The shared budget is asked once per this many characters. */
const CHUNK_CHARACTERS = 8_192;
/** What a new state costs beyond the instructions that are followed. */
const STATE_UNITS = 800;
const INSTRUCTION_UNITS = 12;

/** Leaving the inner loop for a closer look, and beginning from one position. */
const LOOK_UNITS = 8;
const START_UNITS = 30;

const NO_PATTERNS: readonly number[] = [];

type State = {
  /**
   * Instructions that wait for what comes next; not yet followed through splits and looks. None: nothing can follow.
   */
  kernel: Int32Array;
  /** Kind of the character just read; KIND.border at a border. Always `other` where the program has no looks. */
  kind: number;
  /** Patterns found at the border before the character just read. */
  found: readonly number[];
  /** The kernel followed through splits and looks, per kind of what comes next. */
  closures: (Int32Array | undefined)[];
  /** The scan that has already taken note of `found`. */
  seenBy: number;
};

/** `search`: any position in the text. `longest`: from one position, forwards. `starts`: the whole text, backwards. */
type Direction = 'search' | 'longest' | 'starts';

export class Automaton {
  readonly program: Program;
  readonly #cacheBytesMax: number;
  readonly #backwards: boolean;
  readonly #everywhere: boolean;
  /** Columns of the table: one per class, one for the border at the end. */
  readonly #width: number;
  readonly #predecessors: Predecessors | null;
  /** `table`: row of the next state; `ACCEPTING - row` if it accepts or is a dead end; UNKNOWN until asked for. */
  readonly #tables: Tables;
  #states: State[] = [];
  #byKey = new Map<string, number>();
  /** Rows to begin with, by kind. */
  #entries: (number | undefined)[] = [];
  #bytes = 0;
  #scan = 0;
  #buildLeft = 0;
  // Set while following instructions: a sparse set over the program.
  readonly #dense: Int32Array;
  readonly #sparse: Int32Array;
  #count = 0;
  /** The set's members as bits: what states are recognised by. */
  readonly #bits: Uint16Array;
  /** Where an inner loop came to a stop. */
  readonly #stopped = new Int32Array(2);

  constructor(program: Program, direction: Direction, cacheBytesMax = CACHE_BYTES_MAX) {
    this.program = program;
    this.#cacheBytesMax = cacheBytesMax;
    this.#backwards = direction === 'starts';
    this.#everywhere = direction !== 'longest';
    this.#width = program.classes + 1;
    this.#predecessors = this.#backwards ? new Predecessors(program) : null;
    const { latin, pages } = program;
    this.#tables = { table: new Int32Array(0), flags: new Uint8Array(0), latin, pages };
    this.#dense = new Int32Array(program.size);
    this.#sparse = new Int32Array(program.size);
    this.#bits = new Uint16Array((program.size >> 4) + 3);
  }

  /** Grants units for building states until the next grant. */
  grant(buildUnits: number): void {
    this.#buildLeft = buildUnits;
  }

  get buildLeft(): number {
    return this.#buildLeft;
  }

  /**
   * Which patterns occur in the text: sets `found[pattern]` to 1. Stops early once `missing` patterns have been set
   * that were 0 before. Answers how many are still missing, below 0 where several more were found at once. Throws
   * OverBudget.
   */
  search(text: string, found: Uint8Array, missing: number, budget: Budget): number {
    const scan = ++this.#scan;
    let at = this.#enter(KIND.border);
    for (let i = 0; i < text.length; ) {
      const stop = Math.min(text.length, i + CHUNK_CHARACTERS);
      budget.spend(stop - i);
      while (i < stop) {
        at = runForward(text, i, stop, at, this.#tables, this.#stopped);
        i = this.#stopped[0]!;
        if (i >= stop) break;
        const unit = text.charCodeAt(i);
        budget.spend(LOOK_UNITS);
        const next = this.#next(at, this.#classAt(text, i, unit));
        at = next < 0 ? ACCEPTING - next : next;
        if (next < 0) missing = this.#note(at, scan, found, missing);
        if (missing <= 0) return missing;
        i += isHigh(unit) && isLow(text, i + 1) ? 2 : 1;
      }
    }
    const last = this.#next(at, this.program.classes);
    return last < 0 ? this.#note(ACCEPTING - last, scan, found, missing) : missing;
  }

  /** End of the longest match that starts at `from`; -1 if none does. */
  longest(text: string, from: number, budget: Budget): number {
    budget.spend(START_UNITS);
    let at = this.#enter(from === 0 ? KIND.border : this.#kindBefore(text, from));
    let best = -1;
    for (let i = from; i < text.length; ) {
      const stop = Math.min(text.length, i + CHUNK_CHARACTERS);
      this.#stopped[1] = best;
      const begun = i;
      at = runToLastMatch(text, i, stop, at, this.#tables, this.#stopped);
      i = this.#stopped[0]!;
      best = this.#stopped[1]!;
      budget.spend(i - begun + LOOK_UNITS);
      if (i >= stop) continue;
      const unit = text.charCodeAt(i);
      const next = this.#next(at, this.#classAt(text, i, unit));
      at = next < 0 ? ACCEPTING - next : next;
      if (next < 0) {
        const flags = this.#tables.flags[at]!;
        if ((flags & MATCHED) !== 0) best = i;
        if ((flags & DEAD) !== 0) return best;
      }
      i += isHigh(unit) && isLow(text, i + 1) ? 2 : 1;
    }
    return this.#isAccepting(this.#next(at, this.program.classes)) ? text.length : best;
  }

  /**
   * Marks every position at which some match starts: `marks[position]` becomes 1; `marks` has one element more than the
   * text.
   */
  starts(text: string, marks: Uint8Array, budget: Budget): void {
    let at = this.#enter(KIND.border);
    for (let i = text.length; i > 0; ) {
      const stop = Math.max(0, i - CHUNK_CHARACTERS);
      const begun = i;
      at = runBackward(text, i, stop, at, this.#tables, marks, this.#stopped);
      i = this.#stopped[0]!;
      budget.spend(begun - i + LOOK_UNITS);
      if (i <= stop) continue;
      const from = i > 1 && isLow(text, i - 1) && isHigh(text.charCodeAt(i - 2)) ? i - 2 : i - 1;
      const next = this.#next(at, this.#classAt(text, from, text.charCodeAt(from)));
      at = next < 0 ? ACCEPTING - next : next;
      if (this.#isAccepting(next)) marks[i] = 1;
      i = from;
    }
    if (this.#isAccepting(this.#next(at, this.program.classes))) marks[0] = 1;
  }

  #isAccepting(entry: number): boolean {
    return entry < 0 && (this.#tables.flags[ACCEPTING - entry]! & MATCHED) !== 0;
  }

  /** The entry for a class; made if it is not there yet. */
  #next(at: number, cls: number): number {
    const next = this.#tables.table[at + cls]!;
    return next === UNKNOWN ? this.#step(at, cls) : next;
  }

  /** The row to begin with, behind a character of this kind. */
  #enter(kindBefore: number): number {
    const kind = this.program.looks ? kindBefore : KIND.other;
    const known = this.#entries[kind];
    if (known !== undefined) return known;
    this.#count = 0;
    for (const seed of this.#seeds()) this.#add(seed);
    const entry = this.#intern(kind, NO_PATTERNS);
    const row = entry < 0 ? ACCEPTING - entry : entry;
    this.#entries[kind] = row;
    return row;
  }

  #note(at: number, scan: number, found: Uint8Array, missing: number): number {
    const state = this.#stateAt(at);
    if (state.seenBy === scan) return missing;
    state.seenBy = scan;
    for (const pattern of state.found) {
      if (found[pattern] === 0) {
        found[pattern] = 1;
        missing--;
      }
    }
    return missing;
  }

  #classAt(text: string, i: number, unit: number): number {
    if (unit < 256) return this.program.latin[unit]!;
    return this.program.classOf(isHigh(unit) && isLow(text, i + 1) ? text.codePointAt(i)! : unit);
  }

  #kindBefore(text: string, place: number): number {
    const unit = text.charCodeAt(place - 1);
    return unit < 128 ? this.program.kinds[this.program.latin[unit]!]! : KIND.other;
  }

  #stateAt(at: number): State {
    return this.#states[at / this.#width]!;
  }

  /** Follows one class (or the border, class number `classes`) from a state; fills the table; answers the entry. */
  #step(at: number, cls: number): number {
    const { program } = this;
    const state = this.#stateAt(at);
    const atBorder = cls === program.classes;
    const kind = !program.looks ? KIND.other : atBorder ? KIND.border : program.kinds[cls]!;
    state.closures[kind] ??= this.#close(state.kernel, state.kind, kind);
    const closure = state.closures[kind];
    this.#spendBuild(STATE_UNITS + INSTRUCTION_UNITS * closure.length);
    const found = this.#foundIn(closure);
    this.#count = 0;
    if (!atBorder) this.#consume(closure, cls);
    if (!atBorder && this.#everywhere) for (const seed of this.#seeds()) this.#add(seed);
    const resets = this.#byKey;
    const next = this.#intern(kind, found);
    // If the cache was begun again meanwhile, the state we came from is gone, and so is its row.
    if (this.#byKey === resets) this.#tables.table[at + cls] = next;
    return next;
  }

  #seeds(): Int32Array {
    return this.#backwards ? this.#predecessors!.matches : this.program.starts;
  }

  #add(pc: number): void {
    const place = this.#sparse[pc]!;
    if (place < this.#count && this.#dense[place] === pc) return;
    this.#sparse[pc] = this.#count;
    this.#dense[this.#count++] = pc;
  }

  /** All instructions reachable from the kernel without reading, at the border between characters of these kinds. */
  #close(kernel: Int32Array, kindRead: number, kindNext: number): Int32Array {
    const [before, after] = this.#backwards ? [kindNext, kindRead] : [kindRead, kindNext];
    const holds = this.program.looks ? looksThatHold(before, after) : 0;
    this.#count = 0;
    for (const pc of kernel) this.#add(pc);
    for (let i = 0; i < this.#count; i++) {
      if (this.#predecessors === null) this.#followForwards(this.#dense[i]!, holds);
      else this.#followBackwards(this.#dense[i]!, holds, this.#predecessors);
    }
    return this.#dense.slice(0, this.#count);
  }

  #followForwards(pc: number, holds: number): void {
    const { ops, outs, args } = this.program;
    if (ops[pc] === DO.split) {
      this.#add(outs[pc]!);
      this.#add(args[pc]!);
    } else if (ops[pc] === DO.look && (args[pc]! & ~holds) === 0) this.#add(outs[pc]!);
  }

  #followBackwards(pc: number, holds: number, predecessors: Predecessors): void {
    const { ops, args } = this.program;
    for (const before of predecessors.silent[pc]!) {
      if (ops[before] === DO.split || (args[before]! & ~holds) === 0) this.#add(before);
    }
  }

  #consume(closure: Int32Array, cls: number): void {
    const { ops, outs, takes, rows } = this.program;
    for (const pc of closure) {
      if (this.#predecessors === null) {
        if (ops[pc] === DO.rune && takes[rows[pc]! + cls] === 1) this.#add(outs[pc]!);
      } else {
        for (const before of this.#predecessors.reading[pc]!) if (takes[rows[before]! + cls] === 1) this.#add(before);
      }
    }
  }

  #foundIn(closure: Int32Array): readonly number[] {
    const { ops, args } = this.program;
    const found: number[] = [];
    if (this.#predecessors !== null) {
      const { isStart } = this.#predecessors;
      for (let i = 0; i < closure.length; i++) if (isStart[closure[i]!] === 1) return [0];
    } else for (let i = 0; i < closure.length; i++) if (ops[closure[i]!] === DO.match) found.push(args[closure[i]!]!);
    return found.length === 0 ? NO_PATTERNS : found.sort((a, b) => a - b);
  }

  #spendBuild(units: number): void {
    this.#buildLeft -= units;
    if (this.#buildLeft < 0) throw OVER_BUDGET;
  }

  /** The entry for the state whose kernel is in the set; the state is made if it is new. */
  #intern(kind: number, found: readonly number[]): number {
    const key = this.#keyOf(kind, found);
    let index = this.#byKey.get(key);
    if (index === undefined) {
      const kernel = this.#dense.slice(0, this.#count);
      const bytes = 300 + 5 * this.#width + 10 * kernel.length + 2 * key.length;
      if (this.#bytes + bytes > this.#cacheBytesMax) this.#forget();
      this.#bytes += bytes;
      index = this.#states.push({ kernel, kind, found, closures: [], seenBy: 0 }) - 1;
      this.#byKey.set(key, index);
      this.#grow(index + 1);
      this.#tables.flags[index * this.#width] = (found.length > 0 ? MATCHED : 0) | (this.#count === 0 ? DEAD : 0);
    }
    const row = index * this.#width;
    return found.length > 0 || this.#count === 0 ? ACCEPTING - row : row;
  }

  #keyOf(kind: number, found: readonly number[]): string {
    const bits = this.#bits;
    bits.fill(0);
    for (let i = 0; i < this.#count; i++) bits[this.#dense[i]! >> 4]! |= 1 << (this.#dense[i]! & 15);
    bits[bits.length - 1] = kind;
    const key = String.fromCharCode.apply(null, bits as unknown as number[]);
    return found.length === 0 ? key : key + String.fromCharCode(...found);
  }

  #grow(states: number): void {
    const needed = states * this.#width;
    const { table, flags } = this.#tables;
    if (needed <= table.length) return;
    const size = Math.max(needed, 2 * table.length, 8 * this.#width);
    this.#tables.table = new Int32Array(size).fill(UNKNOWN, table.length);
    this.#tables.table.set(table);
    this.#tables.flags = new Uint8Array(size);
    this.#tables.flags.set(flags);
  }

  #forget(): void {
    this.#states = [];
    this.#byKey = new Map();
    this.#entries = [];
    this.#tables.table = new Int32Array(0);
    this.#tables.flags = new Uint8Array(0);
    this.#bytes = 0;
  }
}

/** For going backwards: who leads to an instruction, by reading a character or silently. */
class Predecessors {
  readonly silent: number[][];
  readonly reading: number[][];
  readonly matches: Int32Array;
  /** 1 for instructions with which a pattern begins. */
  readonly isStart: Uint8Array;

  constructor({ size, ops, outs, args, starts }: Program) {
    this.silent = Array.from({ length: size }, () => []);
    this.reading = Array.from({ length: size }, () => []);
    const matches: number[] = [];
    for (let pc = 0; pc < size; pc++) {
      if (ops[pc] === DO.rune) this.reading[outs[pc]!]!.push(pc);
      if (ops[pc] === DO.split || ops[pc] === DO.look) this.silent[outs[pc]!]!.push(pc);
      if (ops[pc] === DO.split) this.silent[args[pc]!]!.push(pc);
      if (ops[pc] === DO.match) matches.push(pc);
    }
    this.matches = Int32Array.from(matches);
    this.isStart = new Uint8Array(size);
    for (const start of starts) this.isStart[start] = 1;
  }
}

function looksThatHold(before: number, after: number): number {
  let holds: number = (before === KIND.word) === (after === KIND.word) ? LOOK.noWordBoundary : LOOK.wordBoundary;
  if (before === KIND.border) holds |= LOOK.beginText | LOOK.beginLine;
  else if (before === KIND.newline) holds |= LOOK.beginLine;
  if (after === KIND.border) holds |= LOOK.endText | LOOK.endLine;
  else if (after === KIND.newline) holds |= LOOK.endLine;
  return holds;
}
