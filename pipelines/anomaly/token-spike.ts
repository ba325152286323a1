// token_spike: a completion whose tokens are far above the agent's own history. Pure, no clock.
//
// It must pass five tests:
//   size     1,000 tokens or more: what is less costs little, however much it is beside the usual
//   history  20 completions were seen before it; one of 0 tokens is none (a count that was not known, an error)
//   score    (log tokens − mean) / deviation > 4, both exponentially weighted and clipped
//   multiple at least twice the usual
//   tail     beyond the point that the agent's own tail would pass by chance 0.002 times a day
import { AT, type Baseline, HELD, TOPS } from './baseline.ts';
import type { Finding } from './finding.ts';

// A score of 4 alone would not do: one in 30,000 of log-normal tokens passes it, and one in 30 of Pareto ones. So the
// tail is learnt: the largest 40 log values of the last 20,000 to 40,000 completions give its slope (Hill's estimator,
// as Weissman extrapolates it), and the few values behind the slope are allowed for (an exponential tail with a slope
// known from k values is predicted by a Lomax one: β·k·((pN/k)^(−1/k) − 1) beyond the k-th value). A light tail has a
// steep slope and a near limit.
//
// A spike does not enter the history: it is held back. Five within six hours are believed, all at once: then that is
// how this agent is. So a lasting change of level is flagged five times and then becomes the baseline.

const HISTORY_MIN = 20;
/** Tokens. */
const SPIKE_MIN = 1_000;
const SCORE_MIN = 4;
const MULTIPLE_MIN = 2;
/**
 * Chance alarms a day (and over the first completions, a life) that the limit is set for; a fifth of what is promised.
 */
const CHANCE_PER_DAY = 0.002;
/** Mean and deviation follow the last 500 or so completions. */
const MEMORY = 500;
/** Deviations beyond which a value moves mean and deviation no further. */
const CLIP = 3;
/** Least deviation and slope, in logs: an agent whose completions all cost the same is not alarmed by 5 %. */
const SPREAD_MIN = 0.05;
const SLOPE_MIN = 0.03;
const GENERATION = 20_000;
const GENERATION_SECONDS = 7 * 86_400;
const GENERATION_LEAST = 200;
const HELD_SECONDS = 6 * 3_600;

/** Standard deviations in a mean absolute one, of a normal distribution. */
const NORMAL = 1.2533;

export function tokenSpike(baseline: Baseline, tokens: number): Finding | null {
  if (tokens <= 0) return null;
  const value = Math.log(Math.max(1, tokens));
  if (tokens >= SPIKE_MIN && baseline.completions >= HISTORY_MIN) {
    if (!(baseline.completions < baseline.tokenLimitUntil)) workOutLimit(baseline);
    if (value > baseline.tokenLimit) {
      const deviation = Math.max(SPREAD_MIN, NORMAL * baseline.tokenSpread);
      const score = (value - baseline.tokenMean) / deviation;
      if (score > SCORE_MIN && value - baseline.tokenMean > Math.log(MULTIPLE_MIN)) {
        const usual = Math.exp(baseline.tokenMean);
        hold(baseline, value);
        return {
          kind: 'token_spike',
          observed: tokens,
          baseline: Math.round(usual),
          score: Math.round(score * 100) / 100,
        };
      }
    }
  }
  learn(baseline, value);
  return null;
}

function learn(baseline: Baseline, value: number): void {
  const seen = ++baseline.completions;
  if (seen === 1) {
    baseline.tokenMean = value;
    baseline.tokensSince = baseline.second;
    baseline.generationSince = baseline.second;
  }
  const weight = Math.max(1 / seen, 1 / MEMORY);
  let deviation = value - baseline.tokenMean;
  if (seen > HISTORY_MIN) {
    const bound = CLIP * Math.max(SPREAD_MIN, NORMAL * baseline.tokenSpread);
    deviation = Math.max(-bound, Math.min(bound, deviation));
  }
  baseline.tokenMean += weight * deviation;
  if (seen > 1) {
    const weightOfSpread = Math.max(1 / (seen - 1), 1 / MEMORY);
    baseline.tokenSpread += weightOfSpread * (Math.abs(deviation) - baseline.tokenSpread);
  }
  keepTop(baseline, value);
  const old =
    baseline.second - baseline.generationSince > GENERATION_SECONDS && baseline.generation >= GENERATION_LEAST;
  if (baseline.generation >= GENERATION || old) nextGeneration(baseline);
}

/** The largest values of this generation, in falling order. */
function keepTop(baseline: Baseline, value: number): void {
  const { list } = baseline;
  const kept = Math.min(TOPS, baseline.generation);
  baseline.generation++;
  const end = AT.tops + kept;
  if (kept === TOPS && value <= list[end - 1]!) return;
  let at = kept === TOPS ? end - 1 : end;
  for (; at > AT.tops && list[at - 1]! < value; at--) list[at] = list[at - 1]!;
  list[at] = value;
  baseline.tokenLimitUntil = 0;
}

function nextGeneration(baseline: Baseline): void {
  baseline.list.copyWithin(AT.topsBefore, AT.tops, AT.tops + TOPS);
  baseline.generationBefore = baseline.generation;
  baseline.generation = 0;
  baseline.generationSince = baseline.second;
  baseline.tokenLimitUntil = 0;
}

function hold(baseline: Baseline, value: number): void {
  if (baseline.second - baseline.heldAt > HELD_SECONDS) baseline.heldCount = 0;
  baseline.heldAt = baseline.second;
  baseline.list[AT.held + baseline.heldCount++] = value;
  if (baseline.heldCount < HELD) return;
  baseline.heldCount = 0;
  for (let i = 0; i < HELD; i++) learn(baseline, baseline.list[AT.held + i]!);
}

/** Only to be called with at least HISTORY_MIN completions. */
function workOutLimit(baseline: Baseline): void {
  const tops = largest(baseline);
  const count = baseline.generation + baseline.generationBefore;
  // Of few values the upper half; else all that are kept.
  const behind = Math.min(tops.length - 1, Math.floor(count / 2));
  const edge = tops[behind]!;
  let excess = 0;
  for (let i = 0; i < behind; i++) excess += tops[i]! - edge;
  const slope = Math.max(SLOPE_MIN, excess / behind);
  const days = Math.max(1, (baseline.second - baseline.tokensSince) / 86_400);
  const chance = CHANCE_PER_DAY / (baseline.completions / days);
  const reach = Math.min(1, (chance * count) / behind) ** (-1 / behind) - 1;
  baseline.tokenLimit = edge + slope * behind * reach;
  baseline.tokenLimitUntil = Math.ceil(baseline.completions * 1.05) + 1;
}

/** The largest values of both generations, in falling order. */
function largest(baseline: Baseline): number[] {
  const { list, generation, generationBefore } = baseline;
  const all = [
    ...list.subarray(AT.tops, AT.tops + Math.min(TOPS, generation)),
    ...list.subarray(AT.topsBefore, AT.topsBefore + Math.min(TOPS, generationBefore)),
  ];
  return all.sort((a, b) => b - a).slice(0, TOPS);
}
