// One RE2 pattern by itself: what `matches` and JSON Schema's `pattern` ask of one text. Plain texts need no automaton.
// Work is bounded like a scan's (see automaton.ts): throws OverBudget, which the engine counts as a match.

import { BUILD_UNITS, type Budget } from '../budget.ts';
import { Automaton } from './automaton.ts';
import { LiteralSearch } from './literal-search.ts';
import { type Pattern, Program } from './program.ts';

/** Units for building states that one test may take: a tenth of a scan's, since a policy may hold many. */
const TEST_BUILD_UNITS = BUILD_UNITS / 10;

const made = new WeakMap<Pattern, TextPattern>();

/** One for each pattern: what many fields are asked by is laid out once. */
export function textPatternOf(pattern: Pattern): TextPattern {
  let one = made.get(pattern);
  if (one === undefined) {
    one = new TextPattern(pattern);
    made.set(pattern, one);
  }
  return one;
}

class TextPattern {
  readonly source: string;
  readonly #literal: LiteralSearch | null;
  readonly #automaton: Automaton | null;
  readonly #hit = new Uint8Array(1);

  constructor(pattern: Pattern) {
    this.source = pattern.source;
    this.#literal = pattern.literal === null ? null : new LiteralSearch(pattern.literal);
    this.#automaton = pattern.literal === null ? new Automaton(new Program([pattern]), 'search') : null;
  }

  /** Does the pattern occur in the text? States that had to be built are charged to the budget, too. */
  test(text: string, budget: Budget): boolean {
    if (this.#literal !== null) return this.#literal.isIn(text, budget);
    const automaton = this.#automaton!;
    const granted = Math.max(0, Math.min(TEST_BUILD_UNITS, budget.left));
    this.#hit[0] = 0;
    automaton.grant(granted);
    try {
      return automaton.search(text, this.#hit, 1, budget) === 0;
    } finally {
      budget.left -= granted - automaton.buildLeft;
    }
  }
}
