// Searches for many patterns and detectors in many strings at once: the working part of all data filters of an account.
// A scanner is made of needles. One pass over a string runs every automaton once; plain texts, as long as they are few,
// take String.indexOf instead, which is faster still. Detectors take part with a candidate pattern and settle it
// afterwards.
// Invariant: what becomes of a needle follows from it and the event's strings alone, not from the other needles nor
// from what was scanned before: found, not found, or `over`, not settled within its units, which counts as found (fail
// closed). Detectors are never over. (What is found before a shared automaton is given up would have been found alone:
// alone it takes fewer units.)
// Failure: TooLong where the units of `begin` are not enough: nothing is settled then, and the event has to be
// judged where there are more.

import { remember } from '../../common/maps.ts';
import { Budget, OverBudget, stateUnits, UNCOUNTED_UNITS } from '../budget.ts';
import type { Detector } from '../detectors/detectors.ts';
import { Automaton, unitsOfCharacter } from './automaton.ts';
import { isFastPlain, LiteralSearch } from './literal-search.ts';
import { compileCandidate, type Pattern, Program, shortestMatch } from './program.ts';

// The caller goes over the event's strings once for each pass (`begin`, then `scan` for each string, while `isDone`
// says no). Many needles take several passes, so that others have their turn in between. Where the states of the
// patterns that share an automaton become too many for an event, further passes ask each of them by itself, from the
// event's beginning.

/** A pattern or detector to search for. Needles with the same key are the same. */
export type Needle = { key: string; pattern: Pattern | null; detector: Detector | null };

/** Needles that are asked one by one; null: they are not few. */
export type Few = readonly number[] | null;

export const FOUND = { no: 0, yes: 1, over: 2 } as const;

/**
 * Plain texts up to this many are searched one by one with indexOf; more, or such as it is slow for, go into the
 * automaton.
 */
const PLAIN_MAX = 2;
/** One automaton's bounds: more patterns share more states than they save passes. */
const AUTOMATON_PATTERNS_MAX = 64;
const AUTOMATON_INSTRUCTIONS_MAX = 4_000;
/** Caches of a scanner's automata: of all together, and of each. */
const CACHES_BYTES_MAX = 16 * 1024 * 1024;
const CACHE_BYTES_MAX = 2 * 1024 * 1024;
const CACHE_BYTES_MIN = 128 * 1024;
/** Shared automata that a pass goes through: 64 patterns each. */
const PASS_GROUPS = 4;
/** Patterns that are asked by themselves in one pass: 60 ms at most on a large event. */
const PASS_ALONE = 16;
/** Groups split after one event: laying one out again takes some ms. */
const SPLITS_MAX = 4;
/** Beginning with a string, however short. */
const STRING_UNITS = 20;
/** One detector's check of one whole number, or of one value by its name, about 300 ns. */
const NUMBER_UNITS = 100;
/** The units per character of a detector's settling, at worst. */
export const DETECTOR_UNITS = 1;

export function patternNeedle(pattern: Pattern): Needle {
  return { key: `p${pattern.source}`, pattern, detector: null };
}

export function detectorNeedle(detector: Detector): Needle {
  return { key: `d${detector.name}${detector.regions ?? ''}`, pattern: null, detector };
}

/** Keys come again and again; of so many, and so long, it is remembered: 32 KB. */
const HELD_KEYS_MAX = 512;
const HELD_CHARACTERS_MAX = 64;

type Plain = { needle: number; text: LiteralSearch };

/** A longer key is not shown: no one names a field so. It has so many states of an automaton at most, too. */
const KEY_CHARACTERS_MAX = 1_000;

export class Scanner {
  readonly needles: readonly Needle[];
  /** The result for each needle since `begin`, as in FOUND. */
  readonly found: Uint8Array;
  readonly #plain: Plain[] = [];
  readonly #cacheBytes: number;
  #groups: Group[];
  /** Needles that inspect whole numbers, and values by what they are called. */
  readonly #ofNumbers: readonly number[];
  readonly #ofNamed: readonly number[];
  readonly #budget = new Budget(Number.POSITIVE_INFINITY);
  #wanted: Uint8Array;
  #characters = 0;
  #pass = 0;
  /** Needles that are still to be asked by themselves. */
  #separate: readonly number[] = [];
  /** The groups that the pass at hand searches for beside numbers and plain texts, which belong to the first one. */
  #searching: readonly Group[] = [];
  /** Needles that are asked one by one, in place of all groups; null: they are not. */
  #few: Few = null;
  /** The candidates of needles as V8 reads them; null: it does not, or it is a pattern. */
  readonly #candidates: readonly (RegExp | null)[];
  /** Needles that were settled by the latest `scan`. */
  #settled = 0;
  /** The answers of `holds` for keys. */
  readonly #held = new Map<string, boolean>();

  constructor(needles: readonly Needle[]) {
    this.needles = needles;
    this.#candidates = needles.map(({ detector }) => (detector === null ? null : quickOf(detector)));
    this.found = new Uint8Array(needles.length);
    this.#wanted = new Uint8Array(needles.length).fill(1);
    const plain = needles.flatMap((needle, i) => {
      const text = plainText(needle);
      return text === null || !isFastPlain(text) ? [] : [{ needle: i, text: new LiteralSearch(text) }];
    });
    if (plain.length <= PLAIN_MAX) this.#plain = plain;
    this.#ofNumbers = needles.flatMap((needle, i) => (needle.detector?.findsNumber === undefined ? [] : [i]));
    this.#ofNamed = needles.flatMap((needle, i) => (needle.detector?.findsNamed === undefined ? [] : [i]));
    const rest = needles.map((_, i) => i).filter((i) => !this.#plain.some((one) => one.needle === i));
    const packed = pack(rest, needles);
    this.#cacheBytes = Math.max(CACHE_BYTES_MIN, Math.min(CACHE_BYTES_MAX, CACHES_BYTES_MAX / packed.length));
    this.#groups = packed.map((members) => new Group(members, needles, this.#cacheBytes));
  }

  /**
   * Forgets what was found, and begins the first pass over an event. Only needles that are `wanted` are searched for.
   * `characters`: of the event, from which follows what the states of one pattern may take. `here`: units for all of
   * it. `few`: what `fewOf` says of those that are wanted.
   */
  begin(wanted: Uint8Array, characters: number, here = Number.POSITIVE_INFINITY, few: Few = this.fewOf(wanted)): void {
    this.found.fill(FOUND.no);
    this.#wanted = wanted;
    this.#characters = characters;
    this.#budget.begin(Number.POSITIVE_INFINITY, here);
    this.#pass = 0;
    this.#few = few;
    if (this.#few !== null) {
      this.#searching = NO_GROUPS;
      return;
    }
    if (this.#isAnyOver()) this.#split();
    for (const group of this.#groups) group.begin(wanted, characters, 'warm');
    this.#searching = this.#groups.length <= PASS_GROUPS ? this.#groups : this.#groups.slice(0, PASS_GROUPS);
  }

  /** Which needles are asked one by one, in place of an automaton. */
  fewOf(wanted: Uint8Array): Few {
    return fewOf(this.#candidates, wanted);
  }

  /** Units of work since `begin`. */
  get worked(): number {
    return this.#budget.worked;
  }

  /** Have all passes been made? Begins the next one otherwise. */
  isDone(): boolean {
    if (this.#few !== null || (this.#groups.length <= PASS_GROUPS && !this.#isAnyOver())) return true;
    do this.#searching = this.#nextPass();
    while (this.#searching.length > 0 && !this.#searching.some((group) => group.missing > 0));
    return this.#searching.length === 0;
  }

  /** None: it was the last. */
  #nextPass(): readonly Group[] {
    if (this.#pass !== ALONE) {
      const from = ++this.#pass * PASS_GROUPS;
      if (from < this.#groups.length) return this.#groups.slice(from, from + PASS_GROUPS);
      this.#pass = ALONE;
      this.#separate = this.#groups.filter((group) => group.isOver).flatMap((group) => group.members);
    }
    const missing = this.#separate.filter((needle) => this.#isSearchedFor(needle));
    this.#separate = missing.slice(PASS_ALONE);
    return missing.slice(0, PASS_ALONE).map((needle) => this.#alone(needle));
  }

  #isAnyOver(): boolean {
    for (const group of this.#groups) if (group.isOver) return true;
    return false;
  }

  /** Its states are not kept: they were too many. */
  #alone(needle: number): Group {
    const group = new Group([needle], this.needles, CACHE_BYTES_MAX);
    group.begin(this.#wanted, this.#characters, 'cold');
    return group;
  }

  /** Does this text hold any needle at all? Leaves what was found untouched; what cannot be settled counts as held. */
  holds(text: string): boolean {
    const known = this.#held.get(text);
    if (known !== undefined) return known;
    const isHeld =
      this.#plain.some((plain) => plain.text.isIn(text, this.#budget)) ||
      this.#groups.some((group) => group.holds(text, this.#budget));
    return text.length > HELD_CHARACTERS_MAX ? isHeld : remember(this.#held, text, isHeld, HELD_KEYS_MAX);
  }

  /** Does any needle inspect whole numbers? */
  get looksAtNumbers(): boolean {
    return this.#ofNumbers.length > 0;
  }

  get looksAtNames(): boolean {
    return this.#ofNamed.length > 0;
  }

  /** Inspects one whole number, as `scan` does a string. */
  scanNumber(digits: string, key: string): boolean {
    return this.#scanBy(this.#ofNumbers, ({ findsNumber }) => findsNumber!(digits, key));
  }

  /** Inspects one string by what it is called. */
  scanNamed(name: string, value: string): boolean {
    return this.#scanBy(this.#ofNamed, ({ findsNamed }) => findsNamed!(name, value) !== null);
  }

  /** By needles that need no automaton: in the first pass. */
  #scanBy(needles: readonly number[], finds: (detector: Detector) => boolean): boolean {
    this.#settled = 0;
    if (this.#pass !== 0) return false;
    for (const needle of needles) {
      if (!this.#isSearchedFor(needle)) continue;
      this.#budget.spend(NUMBER_UNITS);
      if (!finds(this.needles[needle]!.detector!)) continue;
      this.#note(needle, FOUND.yes);
      for (const group of this.#groups) group.settled(needle);
    }
    return this.#settled > 0;
  }

  /** Looks through one string; true if this settled a needle that was not settled before. Throws TooLong. */
  scan(text: string): boolean {
    this.#settled = 0;
    if (this.#few !== null) return this.#scanFew(this.#few, text);
    if (this.#pass === 0)
      for (const { needle, text: wanted } of this.#plain) {
        if (this.#isSearchedFor(needle) && wanted.isIn(text, this.#budget)) this.#note(needle, FOUND.yes);
      }
    for (const group of this.#searching) {
      if (group.missing > 0 && text.length >= group.lengthMin) this.#scanGroup(group, text);
    }
    return this.#settled > 0;
  }

  #scanFew(few: readonly number[], text: string): boolean {
    this.#budget.spend(STRING_UNITS);
    for (const needle of few) {
      if (!this.#isSearchedFor(needle) || !this.#candidates[needle]!.test(text)) continue;
      if (this.#isSettled(needle, text)) this.#note(needle, FOUND.yes);
    }
    return this.#settled > 0;
  }

  #isSearchedFor(needle: number): boolean {
    return this.found[needle] === FOUND.no && this.#wanted[needle] === 1;
  }

  #note(needle: number, found: number): void {
    this.found[needle] = found;
    this.#settled++;
  }

  /** Fewer patterns share fewer states. */
  #split(): void {
    let splits = SPLITS_MAX;
    this.#groups = this.#groups.flatMap((group) => {
      if (!group.isOver || group.members.length === 1 || splits-- <= 0) return [group];
      const half = group.members.length >> 1;
      return [group.members.slice(0, half), group.members.slice(half)].map(
        (members) => new Group(members, this.needles, this.#cacheBytes),
      );
    });
  }

  #scanGroup(group: Group, text: string): void {
    this.#budget.spend(STRING_UNITS);
    if (!group.search(text, this.#budget)) return;
    if (group.isOver && this.#pass === ALONE) {
      this.#note(group.members[0]!, FOUND.over);
      return;
    }
    for (let m = 0; m < group.members.length; m++) {
      const needle = group.members[m]!;
      if (group.hits[m] === 0 || !this.#isSearchedFor(needle)) continue;
      if (this.#isSettled(needle, text)) {
        this.#note(needle, FOUND.yes);
        group.missing--;
      } else group.hits[m] = 0;
    }
  }

  /** A pattern that was hit is found; a detector looks closer. */
  #isSettled(needle: number, text: string): boolean {
    const { detector } = this.needles[needle]!;
    if (detector === null) return true;
    this.#budget.spend(DETECTOR_UNITS * text.length);
    return detector.finds.some((find) => find(text, 0, this.#budget) !== null);
  }
}

/** The passes in which patterns are asked by themselves. */
const ALONE = -1;

/**
 * Needles that share an automaton. `hits[m]` says that member m occurs, or that its candidate does, in the latest text.
 */
class Group {
  readonly members: readonly number[];
  readonly hits: Uint8Array;
  /** Shorter texts cannot hold any of the members. */
  readonly lengthMin: number;
  missing = 0;
  /** Its states were too many for this event. */
  isOver = false;
  readonly #automaton: Automaton;
  readonly #program: Program;
  readonly #cacheBytesMax: number;
  /** For keys, where the other's states are too many. */
  #ofKeys: Automaton | undefined;
  /** The units of the largest pattern. Those of detectors are ours, and never counted. */
  readonly #unitsOfCharacter: number;

  constructor(members: readonly number[], needles: readonly Needle[], cacheBytesMax: number) {
    this.members = members;
    this.hits = new Uint8Array(members.length);
    const patterns = members.map((member) => patternOf(needles[member]!));
    const sizes = members.map((member) => needles[member]!.pattern?.instructions.length);
    const counted = sizes.filter((size) => size !== undefined);
    this.#unitsOfCharacter = counted.length === 0 ? 0 : unitsOfCharacter(Math.max(...counted));
    this.lengthMin = Math.min(...patterns.map(shortestMatch));
    this.#program = new Program(patterns);
    this.#cacheBytesMax = cacheBytesMax;
    this.#automaton = new Automaton(this.#program, 'search', cacheBytesMax);
  }

  /** Begins an event. Needles that are not wanted count as hit already. `cold`: with states built from nothing. */
  begin(wanted: Uint8Array, characters: number, states: 'warm' | 'cold'): void {
    this.missing = 0;
    this.isOver = false;
    for (let m = 0; m < this.members.length; m++) {
      const isWanted = wanted[this.members[m]!]!;
      this.hits[m] = 1 - isWanted;
      this.missing += isWanted;
    }
    if (characters * this.#unitsOfCharacter <= UNCOUNTED_UNITS) this.#automaton.free();
    else if (states === 'warm') this.#automaton.meter(stateUnits(characters));
    else this.#automaton.meterFromNothing(stateUnits(characters));
  }

  /** It was found elsewhere, so it need not be searched here. */
  settled(needle: number): void {
    const m = this.members.indexOf(needle);
    if (m < 0 || this.hits[m] === 1) return;
    this.hits[m] = 1;
    this.missing--;
  }

  /**
   * A detector's candidate is enough here: this decides what may be shown of a key. It follows from the key alone, not
   * from the states that there are, so that one event has one answer.
   */
  holds(text: string, budget: Budget): boolean {
    if (text.length < this.lengthMin) return false;
    if (text.length > KEY_CHARACTERS_MAX) return true;
    const hits = new Uint8Array(this.members.length);
    const isHeld = this.#search(text, hits, 1, budget);
    if (!this.isOver) return isHeld;
    this.#ofKeys ??= new Automaton(this.#program, 'search', this.#cacheBytesMax);
    this.#ofKeys.free();
    return this.#ofKeys.search(text, hits.fill(0), 1, budget) < 1;
  }

  /** True if something new was hit, or it is over. */
  search(text: string, budget: Budget): boolean {
    return this.#search(text, this.hits, this.missing, budget);
  }

  #search(text: string, hits: Uint8Array, missing: number, budget: Budget): boolean {
    if (this.isOver) return true;
    try {
      // Fewer than none missing: several were found at once.
      return this.#automaton.search(text, hits, missing, budget) < missing;
    } catch (error) {
      if (!(error instanceof OverBudget) || !(this.#automaton.isFull || this.#automaton.unitsLeft < 0)) throw error;
      this.isOver = true;
      this.missing = 0;
      return true;
    }
  }
}

/** A pattern that is one plain text is searched for without an automaton. */
function plainText({ pattern }: Needle): string | null {
  return pattern === null ? null : pattern.literal;
}

const NO_GROUPS: readonly Group[] = [];
/**
 * So few detectors are asked one by one: an expression reads a character in 1 to 2 ns, an automaton in 5. (All nine:
 * 18 ns either way.)
 */
const FEW_MAX = 3;
const quick = new Map<string, RegExp | null>();

/** null: they are many, or there is a pattern among them, or a detector whose candidate is no expression of V8's. */
function fewOf(candidates: readonly (RegExp | null)[], wanted: Uint8Array): Few {
  const few: number[] = [];
  for (let needle = 0; needle < wanted.length; needle++) {
    if (wanted[needle] === 0) continue;
    if (few.length === FEW_MAX || candidates[needle] === null) return null;
    few.push(needle);
  }
  return few;
}

/** null: V8 does not read it. Candidates take no more than a bounded number of characters from where they begin. */
function quickOf({ candidate }: Detector): RegExp | null {
  let expression = quick.get(candidate);
  if (expression === undefined) {
    expression = candidate.includes('(?i:') ? null : new RegExp(candidate, 'u');
    quick.set(candidate, expression);
  }
  return expression;
}

/** Compiled once per process: there are nine, and one for phones in regions. */
const candidates = new Map<string, Pattern>();

/** The pattern that the automaton searches for. */
export function patternOf({ pattern, detector }: Needle): Pattern {
  if (pattern !== null) return pattern;
  const known = candidates.get(detector!.candidate);
  if (known !== undefined) return known;
  const compiled = compileCandidate(detector!.candidate);
  candidates.set(detector!.candidate, compiled);
  return compiled;
}

/**
 * Which needles share an automaton. Detectors that look at digits, those that look at letters, and patterns each go
 * with their kind: the states of a shared automaton are those of its patterns multiplied where the same characters move
 * several of them. (Nine detectors and 40 patterns: 140 us an event of 500 bytes in one, 20 in three.)
 */
function pack(indexes: readonly number[], needles: readonly Needle[]): number[][] {
  const kinds = new Map<string, number[]>();
  for (const index of indexes) {
    const kind = needles[index]!.detector?.looksAt ?? 'patterns';
    kinds.set(kind, [...(kinds.get(kind) ?? []), index]);
  }
  return [...kinds.values()].flatMap((ofKind) => packed(ofKind, needles));
}

function packed(indexes: readonly number[], needles: readonly Needle[]): number[][] {
  const groups: number[][] = [];
  let room = 0;
  for (const index of indexes) {
    const size = patternOf(needles[index]!).instructions.length;
    if (groups.length === 0 || groups.at(-1)!.length === AUTOMATON_PATTERNS_MAX || room < size) {
      groups.push([]);
      room = AUTOMATON_INSTRUCTIONS_MAX;
    }
    groups.at(-1)!.push(index);
    room -= size;
  }
  return groups;
}
