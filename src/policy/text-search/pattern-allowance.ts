// What all patterns of one policy may cost together: compiling them, and laying them out when an event has to be looked
// at. Without it a policy of 450 fields with `\p{L}{300}` each, 16 KB of text, took 9 s to compile, and 190 data
// filters within every other bound 18 s to be laid out. It is between those who read conditions and program.ts, and is
// handed to each of them. Invariant: a source is compiled once for a policy, however many of its parts ask for it.
// Failure: PatternError for the pattern with which the policy goes over.
import { patternOfBlanks } from '../texts/blanks.ts';
import { compilePattern, type Pattern, PatternError } from './program.ts';

/**
 * Instructions, and one for each so many borders of what a class of characters takes: `\p{L}` has 1,300. About 3 µs
 * each.
 */
const POLICY_INSTRUCTIONS_MAX = 6_000;
const CLASS_BORDERS = 32;

/** `exact`: of an expression or a schema, to which a space is a space. */
type Blanks = 'any' | 'exact';

/** One policy's. */
export class PatternAllowance {
  #left = POLICY_INSTRUCTIONS_MAX;
  readonly #patterns = new Map<string, Pattern>();
  readonly #compiled: ReadonlyMap<string, Pattern>;

  /** `compiled`: patterns that have been compiled for the policy already, by the keys of `patternSources`. */
  constructor(compiled: ReadonlyMap<string, Pattern> = new Map()) {
    this.#compiled = compiled;
  }

  /** Throws PatternError. */
  pattern(source: unknown, blanks: Blanks = 'any'): Pattern {
    if (typeof source !== 'string') return compiledAlone(source, blanks);
    const key = keyOf(source, blanks);
    const known = this.#patterns.get(key);
    if (known !== undefined) return known;
    // The rest of a policy that has gone over is not inspected: each pattern of it could cost as much as all that are
    // allowed.
    if (this.#left < 0) throw tooLarge();
    const pattern = this.#compiled.get(key) ?? compiledAlone(source, blanks);
    this.#left -= costOf(pattern);
    if (this.#left < 0) throw tooLarge();
    this.#patterns.set(key, pattern);
    return pattern;
  }

  /** The pattern, or what is wrong with it. */
  read(source: unknown): Pattern | string {
    return orMistake(() => this.pattern(source));
  }
}

/** The pattern outside of any allowance, or what is wrong with it. */
export function readAlone({ source, blanks }: Source): Pattern | string {
  return orMistake(() => compiledAlone(source, blanks));
}

function compiledAlone(source: unknown, blanks: Blanks): Pattern {
  return compilePattern(source, blanks === 'any' ? patternOfBlanks : undefined);
}

function orMistake(compile: () => Pattern): Pattern | string {
  try {
    return compile();
  } catch (error) {
    if (error instanceof PatternError) return error.message;
    throw error;
  }
}

function keyOf(source: string, blanks: Blanks): string {
  return `${blanks} ${source}`;
}

const PATTERN_KEYS: ReadonlyMap<string, Blanks> = new Map([
  ['patterns', 'any'],
  ['matches', 'any'],
  ['pattern', 'exact'],
]);

/** `key`: under which an allowance takes the pattern. */
type Source = { key: string; source: string; blanks: Blanks };

/**
 * Texts in a policy's conditions that are patterns, by where they are: for compiling them one by one. Those of
 * expressions are left out.
 */
export function patternSources(conditions: unknown): Source[] {
  const sources = new Map<string, Source>();
  const visit = (value: unknown, blanks: Blanks | undefined): void => {
    if (typeof value === 'string') {
      if (blanks === undefined) return;
      const key = keyOf(value, blanks);
      sources.set(key, { key, source: value, blanks });
    } else if (Array.isArray(value)) for (const item of value) visit(item, blanks);
    else if (typeof value === 'object' && value !== null)
      for (const [key, item] of Object.entries(value)) visit(item, PATTERN_KEYS.get(key));
  };
  visit(conditions, undefined);
  return [...sources.values()];
}

function tooLarge(): PatternError {
  return new PatternError(
    `is too large together with the policy's other patterns: their repeats and classes make more than ${POLICY_INSTRUCTIONS_MAX} instructions`,
  );
}

/** Plain texts are searched for without an automaton. */
function costOf({ literal, instructions }: Pattern): number {
  if (literal !== null) return 0;
  let borders = 0;
  for (const runes of new Set(instructions.map((instruction) => instruction.runes))) borders += runes?.length ?? 0;
  return instructions.length + Math.floor(borders / CLASS_BORDERS);
}
