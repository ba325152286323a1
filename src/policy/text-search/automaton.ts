// Runs a program over text as a lazily built DFA: each state is made when the text first leads there, then a character
// costs one look-up (2-4 ns). One pass finds which of the program's patterns occur. Two further directions find
// where: backwards over the whole text (every position at which a match starts) and forwards from one position (its
// longest end). Used by the scanner (data filters), the `matches` operators and redaction.
//
// What bounds the work: a character costs one unit of the caller's budget, and a way from state to state as many as
// building it takes, from units that `meter` grants, the first time that it is gone since then, whether or not it was
// there before. So what a text is charged follows from pattern and text alone, and a pattern whose states explode runs
// out of units for the same texts each time. What is really built is charged to the loop that waits for it
// (`Budget.here`). Everything is counted, nothing is timed.

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

// Where a text is so short that its ways cannot be many, `free` leaves them uncounted, which is faster.
// A cache that grows past its bound is thrown away. Where that happens after `meter`, the count would be wrong: the
// search ends, `isFull` says so, and the caller searches again after `meterFromNothing`: then the cache is thrown away
// and begun again at the same places of a text each time.

/** States and transitions of one automaton, unless its owner says otherwise. 50 ordinary patterns need 50-300 KB. */
const CACHE_BYTES_MAX = 512 * 1024;
/** The shared budget is asked once per this many characters. */
const CHUNK_CHARACTERS = 8_192;
/** The units of a new way beyond the instructions that are followed. */
const STATE_UNITS = 800;
const INSTRUCTION_UNITS = 12;
/** Going a way that is there for the first time since `meter`. */
const WAY_UNITS = 8;

/** Leaving the inner loop for a closer look, and beginning from one position. */
const LOOK_UNITS = 8;
/** A character of `longest`, which begins again at each start and often ends soon: 6-10 ns. */
const LONGEST_UNITS = 3;
const START_UNITS = 30;

const NO_PATTERNS: readonly number[] = [];

/** The units that a pattern of so many instructions can take for one character, at most. */
export function unitsOfCharacter(instructions: number): number {
  return STATE_UNITS + INSTRUCTION_UNITS * instructions;
}

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
  /**
   * `table`: row of the next state; `ACCEPTING - row` if it accepts or is a dead end; UNKNOWN where the automaton must
   * be asked. It is one of the two below: all ways that are there, or those that have been gone since `meter`.
   */
  readonly #tables: Tables;
  #built = new Int32Array(0);
  #counted = new Int32Array(0);
  /** Ways that have been gone since `meter`: their indexes in the table. */
  #gone: number[] = [];
  #states: State[] = [];
  #byKey = new Map<string, number>();
  /** Rows to begin with, by kind. */
  #entries: (number | undefined)[] = [];
  #bytes = 0;
  #scan = 0;
  #unitsLeft = 0;
  /** Since `meter`: may the cache be thrown away, and was it too small? */
  #mayForget = true;
  #isFull = false;
  /** The budget of the search at hand. */
  #budget!: Budget;
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
    this.#tables = { table: this.#built, flags: new Uint8Array(0), latin, pages };
    this.#dense = new Int32Array(program.size);
    this.#sparse = new Int32Array(program.size);
    this.#bits = new Uint16Array((program.size >> 4) + 3);
  }

  /** Counts no ways until the next `meter`. */
  free(): void {
    this.#tables.table = this.#built;
    this.#begin(Number.POSITIVE_INFINITY, true);
  }

  /** Grants units until the next `meter` or `free`: see above. */
  meter(units: number): void {
    if (this.#bytes > this.#cacheBytesMax / 2) this.#forget();
    for (const way of this.#gone) this.#counted[way] = UNKNOWN;
    this.#gone.length = 0;
    this.#tables.table = this.#counted;
    this.#begin(units, false);
  }

  meterFromNothing(units: number): void {
    if (this.#states.length > 0) this.#forget();
    this.#tables.table = this.#counted;
    this.#begin(units, true);
  }

  #begin(units: number, mayForget: boolean): void {
    this.#unitsLeft = units;
    this.#mayForget = mayForget;
    this.#isFull = false;
  }

  /** The units that are left of what was granted; below 0 where it was not enough. */
  get unitsLeft(): number {
    return this.#unitsLeft;
  }

  /** The cache was too small for what has been searched since `meter`. */
  get isFull(): boolean {
    return this.#isFull;
  }

  /**
   * Which patterns occur in the text: sets `found[pattern]` to 1. Stops early once `missing` patterns have been set
   * that were 0 before. Answers how many are still missing, below 0 where several more were found at once. Throws
   * OverBudget.
   */
  search(text: string, found: Uint8Array, missing: number, budget: Budget): number {
    const scan = ++this.#scan;
    this.#budget = budget;
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
    this.#budget = budget;
    let at = this.#enter(from === 0 ? KIND.border : this.#kindBefore(text, from));
    let best = -1;
    for (let i = from; i < text.length; ) {
      const stop = Math.min(text.length, i + CHUNK_CHARACTERS);
      this.#stopped[1] = best;
      const begun = i;
      at = runToLastMatch(text, i, stop, at, this.#tables, this.#stopped);
      i = this.#stopped[0]!;
      best = this.#stopped[1]!;
      budget.spend(LONGEST_UNITS * (i - begun) + LOOK_UNITS);
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
    this.#budget = budget;
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

  /** The entry for a class. */
  #next(at: number, cls: number): number {
    const next = this.#tables.table[at + cls]!;
    return next === UNKNOWN ? this.#firstTime(at, cls) : next;
  }

  /** Goes a way for the first time since `meter`. */
  #firstTime(at: number, cls: number): number {
    const { program } = this;
    const state = this.#stateAt(at);
    const kind = !program.looks ? KIND.other : cls === program.classes ? KIND.border : program.kinds[cls]!;
    state.closures[kind] ??= this.#close(state.kernel, state.kind, kind);
    const closure = state.closures[kind];
    const units = STATE_UNITS + INSTRUCTION_UNITS * closure.length;
    this.#unitsLeft -= units;
    if (this.#unitsLeft < 0) throw OVER_BUDGET;
    const known = this.#built[at + cls]!;
    this.#budget.work(known === UNKNOWN ? units : WAY_UNITS);
    const states = this.#byKey;
    const next = known === UNKNOWN ? this.#step(at, cls, kind, closure) : known;
    // If the cache was begun again meanwhile, the state we came from is gone, and so is its row.
    if (this.#byKey !== states || this.#tables.table === this.#built) return next;
    this.#counted[at + cls] = next;
    this.#gone.push(at + cls);
    return next;
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
  #step(at: number, cls: number, kind: number, closure: Int32Array): number {
    const atBorder = cls === this.program.classes;
    const found = this.#foundIn(closure);
    this.#count = 0;
    if (!atBorder) this.#consume(closure, cls);
    if (!atBorder && this.#everywhere) for (const seed of this.#seeds()) this.#add(seed);
    const states = this.#byKey;
    const next = this.#intern(kind, found);
    if (this.#byKey === states) this.#built[at + cls] = next;
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

  /** The entry for the state whose kernel is in the set; the state is made if it is new. */
  #intern(kind: number, found: readonly number[]): number {
    const key = this.#keyOf(kind, found);
    let index = this.#byKey.get(key);
    if (index === undefined) {
      const kernel = this.#dense.slice(0, this.#count);
      const bytes = 300 + 9 * this.#width + 10 * kernel.length + 2 * key.length;
      if (this.#bytes + bytes > this.#cacheBytesMax) this.#makeRoom();
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
    const isFree = table === this.#built;
    this.#built = longer(this.#built, size);
    this.#counted = longer(this.#counted, size);
    this.#tables.table = isFree ? this.#built : this.#counted;
    this.#tables.flags = new Uint8Array(size);
    this.#tables.flags.set(flags);
  }

  #makeRoom(): void {
    if (!this.#mayForget) {
      this.#isFull = true;
      throw OVER_BUDGET;
    }
    this.#forget();
  }

  #forget(): void {
    this.#gone = [];
    const isFree = this.#tables.table === this.#built;
    this.#built = new Int32Array(0);
    this.#counted = new Int32Array(0);
    this.#tables.table = isFree ? this.#built : this.#counted;
    this.#states = [];
    this.#byKey = new Map();
    this.#entries = [];
    this.#tables.flags = new Uint8Array(0);
    this.#bytes = 0;
  }
}

/** A table with room for more ways, none of which is known. */
function longer(table: Int32Array, size: number): Int32Array<ArrayBuffer> {
  const made = new Int32Array(size).fill(UNKNOWN, table.length);
  made.set(table);
  return made;
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
