// What all patterns of one policy may cost together: compiling them, and laying them out when an event has to be looked
// at. Without it a policy of 450 fields with `\p{L}{300}` each, 16 KB of text, took 9 s to compile, and 190 data
// filters within every other bound 18 s to be laid out. It is between those who read conditions and program.ts; a
// policy is compiled in one go, so there is one allowance at a time. Invariant: a source is compiled once for a policy,
// however many of its parts ask for it.
// Failure: PatternError for the pattern with which the policy goes over.
import { compilePattern, type Pattern, PatternError } from './program.ts';

/**
 * Instructions, and one for each so many borders of what a class of characters takes: `\p{L}` has 1,300. About 3 µs
 * each.
 */
const POLICY_INSTRUCTIONS_MAX = 6_000;
const CLASS_BORDERS = 32;

class Allowance {
  left = POLICY_INSTRUCTIONS_MAX;
  readonly patterns = new Map<string, Pattern>();
  readonly compiled: ReadonlyMap<string, Pattern>;

  constructor(compiled: ReadonlyMap<string, Pattern>) {
    this.compiled = compiled;
  }
}

const NONE: ReadonlyMap<string, Pattern> = new Map();

let current: Allowance | undefined;

/** Runs `compile`, which compiles one policy. `compiled`: patterns that have been compiled for it already. */
export function forOnePolicy<T>(compile: () => T, compiled = NONE): T {
  const before = current;
  current = new Allowance(compiled);
  try {
    return compile();
  } finally {
    current = before;
  }
}

/** Throws PatternError. */
export function policyPattern(source: unknown): Pattern {
  if (current === undefined || typeof source !== 'string') return compilePattern(source);
  const known = current.patterns.get(source);
  if (known !== undefined) return known;
  // The rest of a policy that has gone over is not inspected: each pattern of it could cost as much as all that are
  // allowed.
  if (current.left < 0) throw tooLarge();
  const pattern = current.compiled.get(source) ?? compilePattern(source);
  current.left -= costOf(pattern);
  if (current.left < 0) throw tooLarge();
  current.patterns.set(source, pattern);
  return pattern;
}

const PATTERN_KEYS: ReadonlySet<string> = new Set(['patterns', 'matches', 'pattern']);

/**
 * Texts in a policy's conditions that are patterns, by where they are: for compiling them one by one. Those of
 * expressions are left out.
 */
export function patternSources(conditions: unknown): string[] {
  const sources = new Set<string>();
  const visit = (value: unknown, isPattern: boolean): void => {
    if (typeof value === 'string') {
      if (isPattern) sources.add(value);
    } else if (Array.isArray(value)) for (const item of value) visit(item, isPattern);
    else if (typeof value === 'object' && value !== null)
      for (const [key, item] of Object.entries(value)) visit(item, PATTERN_KEYS.has(key));
  };
  visit(conditions, false);
  return [...sources];
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
