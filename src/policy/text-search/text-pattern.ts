// One RE2 pattern by itself: what `matches` and JSON Schema's `pattern` ask of one text. Plain texts need no automaton.
// Invariant: what a text takes of the budget follows from pattern and text alone (see automaton.ts).

import { getOrMake } from '../../common/maps.ts';
import { type Budget, OVER_BUDGET, OverBudget } from '../budget.ts';
import { Automaton, unitsOfCharacter } from './automaton.ts';
import { LiteralSearch } from './literal-search.ts';
import { type Pattern, Program } from './program.ts';

const made = new WeakMap<Pattern, TextPattern>();

/** One for each pattern: what many fields are asked by is laid out once. */
export function textPatternOf(pattern: Pattern): TextPattern {
  return getOrMake(made, pattern, () => new TextPattern(pattern));
}

class TextPattern {
  readonly source: string;
  readonly #literal: LiteralSearch | null;
  readonly #automaton: Automaton | null;
  readonly #unitsOfCharacter: number;
  readonly #hit = new Uint8Array(1);

  constructor(pattern: Pattern) {
    this.source = pattern.source;
    this.#unitsOfCharacter = unitsOfCharacter(pattern.instructions.length);
    this.#literal = pattern.literal === null ? null : new LiteralSearch(pattern.literal);
    this.#automaton = pattern.literal === null ? new Automaton(new Program([pattern]), 'search') : null;
  }

  /** Does the pattern occur in the text? Throws OverBudget. */
  test(text: string, budget: Budget): boolean {
    if (this.#literal !== null) return this.#literal.isIn(text, budget);
    const automaton = this.#automaton!;
    if (budget.mayLeaveUncounted(this.#unitsOfCharacter * (text.length + 1))) {
      automaton.free();
      return this.#search(text, budget);
    }
    const { left } = budget;
    automaton.meter(Math.max(0, left));
    try {
      return this.#search(text, budget);
    } catch (error) {
      if (!(error instanceof OverBudget) || !automaton.isFull) throw error;
    }
    budget.left = left;
    automaton.meterFromNothing(Math.max(0, left));
    return this.#search(text, budget);
  }

  #search(text: string, budget: Budget): boolean {
    const automaton = this.#automaton!;
    const granted = automaton.unitsLeft;
    this.#hit[0] = 0;
    try {
      const isFound = automaton.search(text, this.#hit, 1, budget) === 0;
      if (granted !== Number.POSITIVE_INFINITY) budget.left -= granted - automaton.unitsLeft;
      if (budget.left >= 0) return isFound;
    } catch (error) {
      // What passes over errors (CEL's `||`) finds it in the budget.
      if (automaton.unitsLeft < 0) budget.left = -1;
      throw error;
    }
    throw OVER_BUDGET;
  }
}
