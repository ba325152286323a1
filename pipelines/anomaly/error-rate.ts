// error_rate: the share of `error` events is far above the agent's usual share. Pure, no clock.
//
//   history  at least 50 events were taught
//   count    at least 5 errors, and at least twice the usual share
//   tail     that many errors of that many events have a chance < 1e-6, and < 0.001 over all looks of a day
// Inspected, with each error: the last 60 s, and their newest one and two slices, in which a sudden failure shows
// before it has outweighed the minute of good events before it.
import { AT, type Baseline, SLICE_SECONDS, SLICES } from './baseline.ts';
import type { Finding } from './finding.ts';
import { binomialTail, scoreOfTail } from './tails.ts';

// The usual share is that of the last twelve hours or so, plus what chance may have hidden: few events know little.
// Where errors come in clumps, how far two events of a slice go together is learnt (the intraclass correlation); it
// says by how much the variance of the errors inspected exceeds a binomial one, and counts are divided by that before
// the tail is asked for.
//
// An episode is flagged once and teaches nothing. It ends when six looks in a row (ten seconds each, in which the agent
// spoke) with 20 events in them were normal, after five minutes of silence, or after half an hour: then its share
// becomes the baseline.

const ERRORS_MIN = 5;
const MULTIPLE_MIN = 2;
const TAIL_MAX = 1e-6;
/** Over all looks of a day: a tenth of what is promised. */
const CHANCE_PER_DAY = 0.001;
const SLICES_PER_DAY = 8_640;
const HISTORY_EVENTS_MIN = 50;
/** A smaller share counts as one in a thousand: five errors among thousands of events are no finding. */
const SHARE_MIN = 0.001;
/** The weight that a slice keeps when the next one is taught: twelve hours of memory. */
const KEPT = 1 - 1 / 4_320;
/** Until its own is known an agent is taken to have this correlation, with the weight of so many pairs' variance. */
const PRIOR_CORRELATION = 0.05;
const PRIOR_PAIRS = 5;
/**
 * A mean correlation hides that some clumps hold much more than others: measured with clusters of which each tenth
 * errs.
 */
const CAUTION = 3;
const NORMAL_LOOKS = 6;
const NORMAL_EVENTS = 20;
const NORMAL_TAIL_MIN = 0.05;
const SILENT_LOOKS_MAX = 30;
const EPISODE_SECONDS_MAX = 1_800;

/** To be called after an error was counted. */
export function errorRate(baseline: Baseline): Finding | null {
  if (baseline.errorSince > 0 || baseline.events < HISTORY_EVENTS_MIN) return null;
  if (errorsOf(baseline, SLICES).errors < ERRORS_MIN) return null;
  const usual = shareOf(baseline);
  const looks = 3 * SLICES_PER_DAY * Math.max(1, baseline.mean) * usual;
  const tailMax = Math.min(TAIL_MAX, CHANCE_PER_DAY / looks);
  for (const slices of [1, 2, SLICES]) {
    const looked = errorsOf(baseline, slices);
    const { events, errors } = looked;
    if (errors < ERRORS_MIN || errors < MULTIPLE_MIN * usual * events) continue;
    const tail = tailOf(baseline, looked, usual);
    if (tail >= tailMax) continue;
    beginErrorEpisode(baseline);
    return {
      kind: 'error_rate',
      observed: errors / events,
      baseline: Math.round(usualShare(baseline) * 1e6) / 1e6,
      score: scoreOfTail(tail),
      of: events,
      seconds: slices * SLICE_SECONDS,
    };
  }
  return null;
}

/** The current slice is complete: is an episode over? */
export function closeErrorSlice(baseline: Baseline, events: number): void {
  if (baseline.errorSince === 0) return;
  const minute = errorsOf(baseline, SLICES);
  const normal = tailOf(baseline, minute, shareOf(baseline)) > NORMAL_TAIL_MIN;
  if (!normal) {
    baseline.errorNormal = 0;
    baseline.errorNormalEvents = 0;
  } else if (events > 0) {
    baseline.errorNormal = Math.floor(baseline.errorNormal) + 1;
    baseline.errorNormalEvents += events;
  } else {
    // A look without events is a fraction of one: silence alone ends the episode in the end.
    baseline.errorNormal += NORMAL_LOOKS / SILENT_LOOKS_MAX;
  }
  const hasRecovered = baseline.errorNormal >= NORMAL_LOOKS;
  const spoke = baseline.errorNormalEvents >= NORMAL_EVENTS || minute.events === 0;
  const lasts = baseline.second - baseline.errorSince >= EPISODE_SECONDS_MAX;
  if (lasts) adopt(baseline);
  else if (!(hasRecovered && spoke)) return;
  baseline.errorSince = 0;
  baseline.errorSkip = SLICES;
}

/** A slice leaves the last minute. */
export function teachErrors(baseline: Baseline, events: number, errors: number): void {
  if (baseline.errorSince > 0) {
    baseline.episodeEvents += events;
    baseline.episodeErrors += errors;
    return;
  }
  if (baseline.errorSkip > 0) {
    baseline.errorSkip--;
    return;
  }
  if (events === 0) return;
  const share = usualShare(baseline);
  const deviation = errors - events * share;
  if (baseline.events >= HISTORY_EVENTS_MIN) {
    baseline.errorSquares = baseline.errorSquares * KEPT + deviation * deviation;
    const variance = events * share * (1 - share);
    baseline.errorVariance = baseline.errorVariance * KEPT + variance;
    baseline.errorPairs = baseline.errorPairs * KEPT + (events - 1) * variance;
  }
  baseline.events = baseline.events * KEPT + events;
  baseline.errors = baseline.errors * KEPT + errors;
}

/** The share so far, held off from 0 and 1. */
function usualShare({ events, errors }: Baseline): number {
  return Math.max(SHARE_MIN, (errors + 0.5) / (events + 1));
}

/** The share that it may well be, as far as is known: what an alarm is measured against. */
function shareOf(baseline: Baseline): number {
  const { events, errors, errorSquares, errorVariance } = baseline;
  const share = Math.max(SHARE_MIN, (errors + 1) / (events + 2));
  const clumping = Math.max(1, (errorSquares + 1) / (errorVariance + 1));
  return Math.min(0.999, share + 2 * Math.sqrt((share * (1 - share) * clumping) / Math.max(1, events)));
}

/** How far two events of a slice go together in being errors: 0 not at all, 1 wholly. */
function correlationOf({ errorSquares, errorVariance, errorPairs }: Baseline): number {
  const excess = Math.max(0, errorSquares - errorVariance);
  return Math.min(1, (excess + PRIOR_CORRELATION * PRIOR_PAIRS) / (errorPairs + PRIOR_PAIRS));
}

function tailOf(baseline: Baseline, { events, errors, pairs }: Looked, share: number): number {
  const clumping = 1 + (CAUTION * correlationOf(baseline) * pairs) / Math.max(1, events);
  return binomialTail(errors / clumping, events / clumping, share);
}

/** `pairs`: for each event the others of its slice, summed. */
type Looked = { events: number; errors: number; pairs: number };

/** Sums up the newest slices, the current one among them. */
function errorsOf({ list, second, mean }: Baseline, slices: number): Looked {
  const newest = Math.floor(second / SLICE_SECONDS) + SLICES;
  let [events, errors, pairs] = [0, 0, 0];
  for (let i = 0; i < slices; i++) {
    const place = (newest - i) % SLICES;
    const count = list[AT.sliceEvents + place]!;
    events += count;
    // A slice that has just begun holds the same clumps as a whole one.
    pairs += count * Math.max(0, count - 1, mean - 1);
    errors += list[AT.sliceErrors + place]!;
  }
  return { events, errors, pairs };
}

export function beginErrorEpisode(baseline: Baseline): void {
  baseline.errorSince = baseline.second;
  baseline.errorNormal = 0;
  baseline.errorNormalEvents = 0;
  baseline.episodeEvents = 0;
  baseline.episodeErrors = 0;
}

/** The share of an episode that does not end is how this agent is now. */
function adopt(baseline: Baseline): void {
  if (baseline.episodeEvents < HISTORY_EVENTS_MIN) return;
  baseline.events = baseline.episodeEvents;
  baseline.errors = baseline.episodeErrors;
}
