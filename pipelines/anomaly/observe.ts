// What one event means to one agent's baseline (called for each event of the stream, in order): counts it, asks the
// detectors, returns what they flag. Pure: everything it knows of time is the event's own.
// It sees every event of the service, so the way through without a finding is a few additions and comparisons.
import type { EventSummary } from '../../schemas/entry.ts';
import type { Baseline } from './baseline.ts';
import { beginErrorEpisode, errorRate } from './error-rate.ts';
import type { Finding } from './finding.ts';
import { tokenSpike } from './token-spike.ts';
import { beginVolumeEpisode, volumeSpike } from './volume-spike.ts';
import { countEvent } from './windows.ts';

/** The fields of an event that the detectors inspect. */
export type Observed = Pick<EventSummary, 'type' | 'receivedAt' | 'tokensUsed'> &
  Partial<Pick<EventSummary, 'occurredAt' | 'observed'>>;

/**
 * When an event counts, epoch ms: at its arrival; one that was reported after the fact when it happened, or a collector
 * that sends what has gathered would look like a spike.
 */
export function countsAt({ receivedAt, occurredAt, observed }: Observed): number {
  return observed === true ? Math.min(receivedAt, Math.floor(occurredAt ?? receivedAt)) : receivedAt;
}

const NOTHING: readonly Finding[] = [];

export function observe(baseline: Baseline, event: Observed): readonly Finding[] {
  const { type, tokensUsed } = event;
  const isError = type === 'error';
  const counted = countEvent(baseline, Math.floor(countsAt(event) / 1000), isError);
  const tokens = type === 'completion' && tokensUsed !== undefined ? tokenSpike(baseline, tokensUsed) : null;
  const errors = counted && isError ? errorRate(baseline) : null;
  const volume = counted ? volumeSpike(baseline) : null;
  if (tokens === null && errors === null && volume === null) return NOTHING;
  return [tokens, errors, volume].filter((finding) => finding !== null);
}

/** Says whether an episode is on, so that its end is noticed and kept at once. */
export function inEpisode({ volumeSince, errorSince }: Baseline): boolean {
  return volumeSince > 0 || errorSince > 0;
}

/** For an episode that another event has flagged, or not flagged after all. Token spikes have none. */
export function setEpisode(baseline: Baseline, kind: Finding['kind'], isOn: boolean): void {
  if (kind === 'volume_spike' && isOn !== baseline.volumeSince > 0) {
    if (isOn) beginVolumeEpisode(baseline);
    else baseline.volumeSince = 0;
  }
  if (kind === 'error_rate' && isOn !== baseline.errorSince > 0) {
    if (isOn) beginErrorEpisode(baseline);
    else baseline.errorSince = 0;
  }
}
