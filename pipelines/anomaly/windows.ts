// The moving windows of one agent: its last ten seconds, second by second, and its last minute in slices of ten seconds
// (before the rate detectors look; after the clock of arrival has been read). Pure.
//
// Time is the newest arrival seen. An event that comes later than a newer one is counted where the windows stand:
// fronts differ by milliseconds, and a count that is a little late does no harm. One that lies more than a minute back
// is old news and not counted; a hundred such in a row mean that a clock was set back, and the windows begin again from
// there. A slice is taught to the baselines when it leaves the minute, so that what is noticed within a minute has
// taught nothing. Silence teaches for five minutes, then time stands still for the agent: who comes back after a night
// is not new. Work is bounded: at most 36 slices are closed for one event, however long the silence was.
import { AT, type Baseline, SLICE_SECONDS, SLICES } from './baseline.ts';
import { closeErrorSlice, teachErrors } from './error-rate.ts';
import { closeVolumeSlice, teachVolume } from './volume-spike.ts';

const SILENT_SLICES_MAX = 30;
const BEHIND_SECONDS_MAX = SLICES * SLICE_SECONDS;
const BEHIND_IN_A_ROW_MAX = 100;

/** Counts one event that arrived in this second. False: it lies too far back to be counted. */
export function countEvent(baseline: Baseline, second: number, isError: boolean): boolean {
  if (second > baseline.second) moveOn(baseline, second);
  else if (second < baseline.second - BEHIND_SECONDS_MAX && !setBack(baseline, second)) return false;
  baseline.behind = 0;
  const { list } = baseline;
  const now = baseline.second;
  const slice = Math.floor(now / SLICE_SECONDS) % SLICES;
  list[AT.seconds + (now % SLICE_SECONDS)]! += 1;
  list[AT.sliceEvents + slice]! += 1;
  if (isError) list[AT.sliceErrors + slice]! += 1;
  baseline.recent++;
  return true;
}

function moveOn(baseline: Baseline, second: number): void {
  const { list } = baseline;
  const passed = Math.min(SLICE_SECONDS, second - baseline.second);
  for (let i = 1; i <= passed; i++) {
    const at = AT.seconds + ((baseline.second + i) % SLICE_SECONDS);
    baseline.recent -= list[at]!;
    list[at] = 0;
  }
  // The newest seconds are those up to `second`, not up to what was passed: a longer silence clears all of them.
  if (passed === SLICE_SECONDS) baseline.recent = 0;
  const from = Math.floor(baseline.second / SLICE_SECONDS);
  const closed = Math.min(SLICES + SILENT_SLICES_MAX, Math.floor(second / SLICE_SECONDS) - from);
  const first = baseline.second === 0;
  baseline.second = second;
  if (first || closed === 0) return;
  // Slices are numbered so that the last one closed is the one before `second`, over whatever silence.
  const to = Math.floor(second / SLICE_SECONDS);
  for (let i = closed - 1; i >= 0; i--) closeSlice(baseline, i === closed - 1 ? from : to - i - 1, to - i);
}

/** Closes slice `old` and begins slice `next`, in whose place the oldest one leaves the minute. */
function closeSlice(baseline: Baseline, old: number, next: number): void {
  const { list } = baseline;
  const before = old % SLICES;
  closeVolumeSlice(baseline, list[AT.sliceEvents + before]!);
  closeErrorSlice(baseline, list[AT.sliceEvents + before]!);
  const place = next % SLICES;
  teachVolume(baseline, list[AT.sliceEvents + place]!);
  teachErrors(baseline, list[AT.sliceEvents + place]!, list[AT.sliceErrors + place]!);
  list[AT.sliceEvents + place] = 0;
  list[AT.sliceErrors + place] = 0;
}

function setBack(baseline: Baseline, second: number): boolean {
  if (++baseline.behind < BEHIND_IN_A_ROW_MAX) return false;
  baseline.list.fill(0, AT.seconds, AT.hours);
  baseline.recent = 0;
  baseline.volumeSkip = SLICES - 1;
  baseline.second = second;
  baseline.volumeSince = Math.min(baseline.volumeSince, second);
  baseline.errorSince = Math.min(baseline.errorSince, second);
  baseline.heldAt = Math.min(baseline.heldAt, second);
  baseline.tokensSince = Math.min(baseline.tokensSince, second);
  baseline.generationSince = Math.min(baseline.generationSince, second);
  return true;
}
