// Bounds the work that one policy does on one event. Work is counted in units of one automaton step over one character,
// 2-3 ns, and every count follows from the policy and the event alone: not from the clock, not from what other policies
// do, not from what the process has learned before. So the same event gets the same verdict each time, here and on
// another front.
// Invariant: a policy that goes over its bound counts as a match with `detail.reason` `budget`, so nothing passes
// because it was too much work to inspect (fail closed).

import { TOO_LONG } from './allowance.ts';

export class OverBudget extends Error {
  override name = 'OverBudget';
}

/** Thrown often and caught close by: made once, since a stack trace costs more than what it would explain. */
export const OVER_BUDGET = new OverBudget('the work of a policy on one event is over its budget');

/**
 * The most units that the states of a pattern can take for an event, or of all patterns of a policy's conditions, so
 * that counting them is not worth it: 10 ms. An event of 2,000 characters under a pattern of ordinary size is below.
 */
export const UNCOUNTED_UNITS = 4_000_000;

export class Budget {
  /** The units that are left of the policy's bound. */
  left = 0;
  /** The units that are left on the loop that answers; over them the event is judged elsewhere, from its beginning. */
  here = 0;
  /** Units of work since `begin`. */
  worked = 0;
  #uncounted = 0;

  constructor(units: number, here = Number.POSITIVE_INFINITY) {
    this.begin(units, here);
  }

  begin(units: number, here = Number.POSITIVE_INFINITY): void {
    this.left = units;
    this.here = here;
    this.worked = 0;
    this.#uncounted = UNCOUNTED_UNITS;
  }

  /** Whether work that takes so much at most has to be counted at all. */
  mayLeaveUncounted(unitsMax: number): boolean {
    if (unitsMax > this.#uncounted) return false;
    this.#uncounted -= unitsMax;
    return true;
  }

  get isOver(): boolean {
    return this.left < 0 || this.here < 0;
  }

  /** Throws OverBudget, or TooLong where only what may be done here is used up. */
  spend(units: number): void {
    this.left -= units;
    this.work(units);
    if (this.left < 0) throw OVER_BUDGET;
  }

  /** Charges work that no policy is charged for here (text-search/automaton.ts), or nowhere. Throws TooLong. */
  work(units: number): void {
    this.worked += units;
    this.here -= units;
    if (this.here < 0) throw TOO_LONG;
  }
}

/** The result of the work; `over` where it is over its budget. */
export function withinBudget<T, O>(work: () => T, over: O): T | O {
  try {
    return work();
  } catch (error) {
    if (error instanceof OverBudget) return over;
    throw error;
  }
}

/**
 * The units that the field conditions of one policy may take on an event whose payload has so many characters: 10 ms on
 * a small one, 250 ms on 1 MiB. Fifty patterns that read everything take half of it.
 */
export function fieldUnits(payloadCharacters: number): number {
  return 4_000_000 + 100 * payloadCharacters;
}

/** The units that expression and schema of one policy may take: 5 ms on a small event, 15 ms on 1 MiB. */
export function expressionUnits(payloadCharacters: number): number {
  return 2_000_000 + 4 * payloadCharacters;
}

/**
 * The units that the states of one pattern may take while it reads the texts of an event with so many characters.
 * Patterns of ordinary form take a tenth; one whose states explode goes over.
 */
export function stateUnits(characters: number): number {
  return 1_000_000 + 8 * characters;
}

/** Finding the paths of one match, 2.5 ms. A path that this does not reach is left out of `detail`. */
export const EXPLAIN_UNITS = 1_000_000;

/**
 * Finding all places of all matches in the stored copy, also where each of nine detectors and fifty patterns matches: 3
 * ms on a small event, 20 ms on 50 KB for one pattern. What is over is replaced whole.
 */
export function redactUnits(characters: number, needles: number): number {
  return 1_000_000 + (100 + 6 * needles) * characters;
}
