// volume_spike: the events of the last ten seconds are far above recent history. Pure, no clock.
//
//   history  at least five minutes of slices were taught
//   count    at least 50 events, and at least twice the level
//   tail     a negative binomial count with this level and the agent's own overdispersion reaches it with chance < 1e-9
// 1e-9 and not 1e-6: the windows are inspected up to 86,400 times a day, and Poisson traffic alone would pass 1e-6 0.2
// times a day.
import { AT, type Baseline, SLICES } from './baseline.ts';
import type { Finding } from './finding.ts';
import { countTail, scoreOfTail } from './tails.ts';

// The level is the larger of two: the fast mean (the last half hour), and what this and the neighbouring hours of the
// day have seen on earlier days (rises at once, falls a fifth a day), so that a morning's start is not news on the
// second morning. Hours never watched count as the busiest one that was. Overdispersion is variance over mean round the
// fast mean, with a memory of half a day: bursts belong to an agent that bursts.
//
// An episode is flagged once, at its beginning, and teaches nothing. It ends after three normal slices in a row, or
// after half an hour, when its own level becomes the baseline.

const EVENTS_MIN = 50;
const MULTIPLE_MIN = 2;
const TAIL_MAX = 1e-9;
const HISTORY_SLICES_MIN = 30;
const FAST_SLICES = 180;
const SLOW_SLICES = 4_320;
/** Until its own is known an agent is taken to have this variance over mean, with the weight of so many slices. */
const PRIOR_DISPERSION = 2;
const PRIOR_SLICES = 30;
/** Slices an hour needs to be taken for known. */
const HOUR_SLICES_MIN = 30;
const HOUR_FALL = 0.2;
const NORMAL_SLICES = 3;
const EPISODE_SECONDS_MAX = 1_800;
/** A count that was inspected is inspected again when it has grown by a fiftieth. */
const LOOK_GROWTH = 1.02;

/** To be called after an event was counted. */
export function volumeSpike(baseline: Baseline): Finding | null {
  const count = baseline.recent;
  if (count < EVENTS_MIN || count < baseline.volumeLook || baseline.volumeSince > 0) return null;
  if (baseline.slices < HISTORY_SLICES_MIN) return null;
  const level = levelOf(baseline);
  const least = Math.max(EVENTS_MIN, MULTIPLE_MIN * level);
  const tail = count < least ? 1 : countTail(count, level, dispersionOf(baseline));
  if (tail >= TAIL_MAX) {
    baseline.volumeLook = Math.max(least, Math.ceil(count * LOOK_GROWTH));
    return null;
  }
  beginVolumeEpisode(baseline);
  return {
    kind: 'volume_spike',
    observed: count,
    baseline: Math.round(level * 100) / 100,
    score: scoreOfTail(tail),
  };
}

export function beginVolumeEpisode(baseline: Baseline): void {
  baseline.volumeSince = baseline.second;
  baseline.volumeNormal = 0;
  baseline.volumeSlices = 0;
  baseline.volumeSum = 0;
  baseline.volumeSquares = 0;
}

/** The current slice is complete: is an episode over? */
export function closeVolumeSlice(baseline: Baseline, count: number): void {
  baseline.volumeLook = 0;
  watchHour(baseline, count);
  if (baseline.volumeSince === 0) return;
  baseline.volumeSlices++;
  baseline.volumeSum += count;
  baseline.volumeSquares += count * count;
  const level = levelOf(baseline);
  const normal = level + 2 * Math.sqrt(level * dispersionOf(baseline)) + 5;
  baseline.volumeNormal = count <= normal ? baseline.volumeNormal + 1 : 0;
  const lasts = baseline.second - baseline.volumeSince >= EPISODE_SECONDS_MAX;
  if (baseline.volumeNormal < NORMAL_SLICES && !lasts) return;
  if (lasts) adopt(baseline);
  baseline.volumeSince = 0;
  // What the last minute holds of the episode is not taught either.
  baseline.volumeSkip = SLICES;
}

/** A slice leaves the last minute. */
export function teachVolume(baseline: Baseline, count: number): void {
  if (baseline.volumeSince > 0) return;
  if (baseline.volumeSkip > 0) {
    baseline.volumeSkip--;
    return;
  }
  const seen = ++baseline.slices;
  const fast = Math.max(1 / seen, 1 / FAST_SLICES);
  const slow = Math.max(1 / seen, 1 / SLOW_SLICES);
  const deviation = count - baseline.mean;
  if (seen > 1) baseline.slowSquares += slow * (deviation * deviation - baseline.slowSquares);
  baseline.slowMean += slow * (count - baseline.slowMean);
  baseline.mean += fast * deviation;
}

/** Where the level of an hour is watched: the hour of the slice that has just been closed. */
function watchHour(baseline: Baseline, count: number): void {
  const hour = Math.floor(baseline.second / 3_600);
  if (hour !== baseline.hour) {
    if (baseline.hourSlices >= HOUR_SLICES_MIN) keepHour(baseline, baseline.hourSum / baseline.hourSlices);
    baseline.hour = hour;
    baseline.hourSum = 0;
    baseline.hourSlices = 0;
  }
  if (baseline.volumeSince > 0) return;
  baseline.hourSum += count;
  baseline.hourSlices++;
}

function keepHour(baseline: Baseline, level: number): void {
  const at = AT.hours + (baseline.hour % 24);
  const kept = baseline.list[at]!;
  baseline.list[at] = level >= kept ? level : kept + HOUR_FALL * (level - kept);
}

/** Events that ten seconds of now usually hold. */
export function levelOf(baseline: Baseline): number {
  const { list, mean, slices } = baseline;
  // The mean of few slices may be too low by chance.
  const known = Math.max(1, Math.min(slices, FAST_SLICES));
  let level = mean + 2 * Math.sqrt((mean * dispersionOf(baseline)) / known);
  const hour = Math.floor(baseline.second / 3_600) % 24;
  let unknown = false;
  for (const neighbour of [hour + 23, hour, hour + 1]) {
    const seen = list[AT.hours + (neighbour % 24)]!;
    if (seen < 0) unknown = true;
    else if (seen > level) level = seen;
  }
  if (unknown) for (let i = 0; i < 24; i++) level = Math.max(level, list[AT.hours + i]!);
  return level;
}

export function dispersionOf({ slices, slowMean, slowSquares }: Baseline): number {
  if (slowMean <= 0) return PRIOR_DISPERSION;
  const squares = slowSquares * slices + PRIOR_DISPERSION * slowMean * PRIOR_SLICES;
  return Math.max(1, squares / (slowMean * (slices + PRIOR_SLICES)));
}

/** The level of an episode that does not end is how this agent is now. */
function adopt(baseline: Baseline): void {
  const mean = baseline.volumeSum / baseline.volumeSlices;
  const variance = baseline.volumeSquares / baseline.volumeSlices - mean * mean;
  const dispersion = Math.max(dispersionOf(baseline), variance / Math.max(mean, Number.MIN_VALUE));
  baseline.mean = mean;
  baseline.slowMean = mean;
  baseline.slowSquares = dispersion * mean;
  baseline.hourSum = mean;
  baseline.hourSlices = 1;
}
