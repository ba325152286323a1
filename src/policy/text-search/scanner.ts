// Searches for many patterns and detectors in many strings at once: the working part of all data filters of an account.
// A scanner is made of needles. One pass over a string runs every automaton once; plain texts, as long as they are few,
// take String.indexOf instead, which is faster still. Detectors take part with a candidate pattern and settle it
// afterwards.
// Invariant: a needle ends as found, not found, or `over`: not settled within the budget, which counts as found (fail
// closed). Every automaton has its own share of units for building states, so one pattern that explodes leaves the
// others sound; automata of several patterns that went over are split in two for the next events, until the one stands
// alone.

import { Budget, OverBudget } from '../budget.ts';
import type { Detector } from '../detectors/detectors.ts';
import { Automaton } from './automaton.ts';
import { isFastPlain, LiteralSearch } from './literal-search.ts';
import { compileCandidate, type Pattern, Program, shortestMatch } from './program.ts';

/** What is searched for. Needles with the same key are the same. */
export type Needle = { key: string; pattern: Pattern | null; detector: Detector | null };

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
/** Groups split after one event: laying one out again takes some ms. */
const SPLITS_MAX = 4;
/** Beginning with a string, however short. */
const STRING_UNITS = 20;
/** One detector's check of one whole number, about 300 ns. */
const NUMBER_UNITS = 100;
/** What a detector's settling costs per character, at worst. */
export const DETECTOR_UNITS = 1;

export function patternNeedle(pattern: Pattern): Needle {
  return { key: `p${pattern.source}`, pattern, detector: null };
}

export function detectorNeedle(detector: Detector): Needle {
  return { key: `d${detector.name}`, pattern: null, detector };
}

type Plain = { needle: number; text: LiteralSearch };

export class Scanner {
  readonly needles: readonly Needle[];
  /** What became of each needle since `begin`. */
  readonly found: Uint8Array;
  readonly #plain: Plain[] = [];
  readonly #cacheBytes: number;
  #groups: Group[];
  /** Needles that inspect whole numbers. */
  readonly #ofNumbers: readonly number[];
  readonly #budget = new Budget(0);
  #wanted: Uint8Array;
  /** Needles that were settled by the latest `scan`. */
  #settled = 0;

  constructor(needles: readonly Needle[]) {
    this.needles = needles;
    this.found = new Uint8Array(needles.length);
    this.#wanted = new Uint8Array(needles.length).fill(1);
    const plain = needles.flatMap((needle, i) => {
      const text = plainText(needle);
      return text === null || !isFastPlain(text) ? [] : [{ needle: i, text: new LiteralSearch(text) }];
    });
    if (plain.length <= PLAIN_MAX) this.#plain = plain;
    this.#ofNumbers = needles.flatMap((needle, i) => (needle.detector?.findsNumber === undefined ? [] : [i]));
    const rest = needles.map((_, i) => i).filter((i) => !this.#plain.some((one) => one.needle === i));
    const packed = pack(rest, needles);
    this.#cacheBytes = Math.max(CACHE_BYTES_MIN, Math.min(CACHE_BYTES_MAX, CACHES_BYTES_MAX / packed.length));
    this.#groups = packed.map((members) => new Group(members, needles, this.#cacheBytes));
  }

  /** Forgets what was found; grants the units of one event. Only needles that are `wanted` are searched for. */
  begin(units: number, buildUnits: number, wanted: Uint8Array): void {
    this.found.fill(FOUND.no);
    this.#wanted = wanted;
    this.#budget.left = units;
    for (const group of this.#groups) group.begin(buildUnits / this.#groups.length, wanted);
  }

  get unitsLeft(): number {
    return Math.max(0, this.#budget.left);
  }

  get buildUnitsUsed(): number {
    return this.#groups.reduce((sum, group) => sum + group.buildUnitsUsed, 0);
  }

  /** Does this text hold any needle at all? Leaves what was found untouched; what cannot be settled counts as held. */
  holds(text: string): boolean {
    try {
      return (
        this.#plain.some((plain) => plain.text.isIn(text, this.#budget)) ||
        this.#groups.some((group) => group.holds(text, this.#budget))
      );
    } catch (error) {
      if (error instanceof OverBudget) return true;
      throw error;
    }
  }

  /** Does any needle inspect whole numbers? */
  get looksAtNumbers(): boolean {
    return this.#ofNumbers.length > 0;
  }

  /** Inspects one whole number, as `scan` at a string. */
  scanNumber(digits: string, key: string): boolean {
    this.#settled = 0;
    for (const needle of this.#ofNumbers) {
      if (this.found[needle] !== FOUND.no || this.#wanted[needle] === 0) continue;
      try {
        this.#budget.spend(NUMBER_UNITS);
        if (!this.needles[needle]!.detector!.findsNumber!(digits, key)) continue;
      } catch (error) {
        this.#over(error, needle);
        continue;
      }
      this.found[needle] = FOUND.yes;
      this.#settled++;
      for (const group of this.#groups) group.settled(needle);
    }
    return this.#settled > 0;
  }

  /** Looks through one string; true if this settled a needle that was not settled before. Never throws. */
  scan(text: string): boolean {
    this.#settled = 0;
    for (const plain of this.#plain) {
      if (this.found[plain.needle] === FOUND.no && this.#wanted[plain.needle] === 1) this.#scanPlain(plain, text);
    }
    for (const group of this.#groups) {
      if (group.missing > 0 && text.length >= group.lengthMin) this.#scanGroup(group, text);
    }
    return this.#settled > 0;
  }

  /** Splits some of what went over, so that the next event finds out more. Called after an event that had an `over`. */
  adapt(): void {
    let splits = SPLITS_MAX;
    if (!this.#groups.some((group) => group.wentOver && group.members.length > 1)) return;
    this.#groups = this.#groups.flatMap((group) => {
      if (!group.wentOver || group.members.length === 1 || splits-- <= 0) return [group];
      const half = group.members.length >> 1;
      return [group.members.slice(0, half), group.members.slice(half)].map(
        (members) => new Group(members, this.needles, this.#cacheBytes),
      );
    });
  }

  #scanPlain({ needle, text: wanted }: Plain, text: string): void {
    try {
      if (wanted.isIn(text, this.#budget)) this.#settle(needle, text);
    } catch (error) {
      this.#over(error, needle);
    }
  }

  #scanGroup(group: Group, text: string): void {
    try {
      this.#budget.spend(STRING_UNITS);
      if (!group.search(text, this.#budget)) return;
    } catch (error) {
      group.wentOver = true;
      group.missing = 0;
      for (const needle of group.members) {
        if (this.found[needle] === FOUND.no && this.#wanted[needle] === 1) this.#over(error, needle);
      }
      return;
    }
    for (let m = 0; m < group.members.length; m++) {
      const needle = group.members[m]!;
      if (group.hits[m] === 0 || this.found[needle] !== FOUND.no || this.#wanted[needle] === 0) continue;
      try {
        if (this.#settle(needle, text)) group.missing--;
        else group.hits[m] = 0;
      } catch (error) {
        this.#over(error, needle);
        group.missing--;
      }
    }
  }

  /** A pattern that was hit is found; a detector looks closer. */
  #settle(needle: number, text: string): boolean {
    const { detector } = this.needles[needle]!;
    if (detector !== null) {
      this.#budget.spend(DETECTOR_UNITS * text.length);
      if (!detector.finds.some((find) => find(text, 0, this.#budget) !== null)) return false;
    }
    this.found[needle] = FOUND.yes;
    this.#settled++;
    return true;
  }

  #over(error: unknown, needle: number): void {
    if (!(error instanceof OverBudget)) throw error;
    this.found[needle] = FOUND.over;
    this.#settled++;
  }
}

/**
 * Needles that share an automaton. `hits[m]` says that member m occurs, or that its candidate does, in the latest text.
 */
class Group {
  readonly members: readonly number[];
  readonly hits: Uint8Array;
  /** Shorter texts cannot hold any of the members. */
  readonly lengthMin: number;
  missing = 0;
  wentOver = false;
  #granted = 0;
  readonly #automaton: Automaton;

  constructor(members: readonly number[], needles: readonly Needle[], cacheBytesMax: number) {
    this.members = members;
    this.hits = new Uint8Array(members.length);
    const patterns = members.map((member) => patternOf(needles[member]!));
    this.lengthMin = Math.min(...patterns.map(shortestMatch));
    this.#automaton = new Automaton(new Program(patterns), 'search', cacheBytesMax);
  }

  /** What is not wanted counts as hit already. */
  begin(buildUnits: number, wanted: Uint8Array): void {
    this.missing = 0;
    for (let m = 0; m < this.members.length; m++) {
      const isWanted = wanted[this.members[m]!]!;
      this.hits[m] = 1 - isWanted;
      this.missing += isWanted;
    }
    this.#granted = buildUnits;
    this.#automaton.grant(buildUnits);
  }

  /** It was found elsewhere, so it need not be searched here. */
  settled(needle: number): void {
    const m = this.members.indexOf(needle);
    if (m < 0 || this.hits[m] === 1) return;
    this.hits[m] = 1;
    this.missing--;
  }

  get buildUnitsUsed(): number {
    return this.#granted - this.#automaton.buildLeft;
  }

  /** A detector's candidate is enough here: this decides what may be shown of a key. */
  holds(text: string, budget: Budget): boolean {
    if (text.length < this.lengthMin) return false;
    // Fewer than none missing: several were found at once.
    return this.#automaton.search(text, new Uint8Array(this.members.length), 1, budget) <= 0;
  }

  /** True if something new was hit. */
  search(text: string, budget: Budget): boolean {
    return this.#automaton.search(text, this.hits, this.missing, budget) < this.missing;
  }
}

/** A pattern that is one plain text is searched for without an automaton. */
function plainText({ pattern }: Needle): string | null {
  return pattern === null ? null : pattern.literal;
}

/** Compiled once per process: there are nine. */
const candidates = new Map<string, Pattern>();

/** What the automaton searches for. */
export function patternOf({ pattern, detector }: Needle): Pattern {
  if (pattern !== null) return pattern;
  const known = candidates.get(detector!.name);
  if (known !== undefined) return known;
  const compiled = compileCandidate(detector!.candidate);
  candidates.set(detector!.name, compiled);
  return compiled;
}

function pack(indexes: readonly number[], needles: readonly Needle[]): number[][] {
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
