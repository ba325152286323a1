// Bounds the work that policies do on one event (at most 50 ms of CPU, whatever the policies and the payload).
// Work is counted in units of one automaton step over one character, 2-3 ns, not by the clock: the same event is
// judged alike on a busy machine and an idle one. Who runs out throws OverBudget; the engine lets that count as a match
// with `detail.reason` `budget`, so nothing passes because it was too much work to inspect (fail closed).

export class OverBudget extends Error {
  override name = 'OverBudget';
}

/** Thrown often and caught close by: made once, since a stack trace costs more than what it would explain. */
export const OVER_BUDGET = new OverBudget('the work on one event is over its budget');

export class Budget {
  left: number;

  constructor(units: number) {
    this.left = units;
  }

  spend(units: number): void {
    this.left -= units;
    if (this.left < 0) throw OVER_BUDGET;
  }
}

/** Field conditions of all rules together: paths through arrays, text operators. */
export const FIELD_UNITS = 4_000_000;
/**
 * Finding the paths of conditions of rate limits that are over. Those of other matches have what is left of
 * FIELD_UNITS.
 */
export const EXPLAIN_UNITS = 500_000;
/** CEL expressions and JSON Schemas of all rules together. */
export const EXPRESSION_UNITS = 2_000_000;
/**
 * Characters that data filters read, times the automata that read them: 1 MiB through one automaton is a quarter of it.
 */
export const SCAN_UNITS = 4_000_000;
/**
 * Building automata while scanning, shared out evenly among them, so that a pattern whose automaton explodes takes
 * nothing from others.
 */
export const BUILD_UNITS = 3_000_000;
/** Finding the paths of matches in the stored copy. */
export const REDACT_UNITS = 4_000_000;

// Together 17 million units: about 40 ms if one event exhausts every one of them.
