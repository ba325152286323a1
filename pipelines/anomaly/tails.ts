// Upper tails of the two counting distributions behind the rate detectors, both by the regularised incomplete beta
// function of @stdlib. Pure. A count that nothing could reach has tail 0, one that is always reached has tail 1.
// Both take real counts, so that a count divided by its overdispersion can be asked for.
import betainc from '@stdlib/math-base-special-betainc';

/** P(X ≥ k) of n trials with chance p. */
export function binomialTail(k: number, n: number, p: number): number {
  if (k <= 0) return 1;
  if (k > n) return 0;
  return betainc(p, k, n - k + 1);
}

/**
 * Variance over mean from which a count differs from a Poisson one: below it the sum is the same, and the formula
 * breaks down.
 */
const DISPERSION_MIN = 1.02;

/** P(X ≥ k) of a negative binomial count with this mean and this variance over mean; with 1 that is a Poisson count. */
export function countTail(k: number, mean: number, dispersion: number): number {
  if (k <= 0) return 1;
  if (mean <= 0) return 0;
  const ratio = Math.max(dispersion, DISPERSION_MIN);
  return betainc((ratio - 1) / ratio, k, mean / (ratio - 1));
}

/** −log10 of a tail: 9 is one in a thousand million. */
export function scoreOfTail(tail: number): number {
  return tail > 0 ? Math.min(SCORE_MAX, Math.round(-100 * Math.log10(tail)) / 100) : SCORE_MAX;
}

/** Beyond it a double's tail is 0. */
const SCORE_MAX = 300;
