// What a detector says when it flags: numbers only, so that a batch's manifest can keep many of them, and how they are
// shown to people. Pure: the same finding gives the same severity and sentence in whichever process writes its row.
import type { AnomalyKind, Severity } from '../../schemas/closed-sets.ts';

/** The kinds that need an agent's history. */
export type LearnedKind = Exclude<AnomalyKind, 'blocked_event'>;

/** `of` and `seconds`: the events inspected and the time they lie in, for shares. */
export type Finding = {
  kind: LearnedKind;
  observed: number;
  baseline: number;
  score: number;
  of?: number;
  seconds?: number;
};

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const rough = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 2 });
const percent = new Intl.NumberFormat('en-US', { style: 'percent', maximumSignificantDigits: 2 });

/** Multiples of the usual (for error_rate: shares of all events) from which on it is medium, high, critical. */
const STEPS: Record<LearnedKind, readonly [number, number, number]> = {
  token_spike: [5, 20, 100],
  error_rate: [0.1, 0.3, 0.7],
  volume_spike: [4, 10, 50],
};

export function severityOf({ kind, observed, baseline }: Finding): Severity {
  const far = kind === 'error_rate' ? observed : observed / Math.max(baseline, Number.MIN_VALUE);
  const [medium, high, critical] = STEPS[kind];
  if (far >= critical) return 'critical';
  if (far >= high) return 'high';
  return far >= medium ? 'medium' : 'low';
}

export function descriptionOf({ kind, observed, baseline, of = 0, seconds = 0 }: Finding): string {
  if (kind === 'token_spike')
    return `A completion used ${whole.format(observed)} tokens; this agent usually uses about ${rough.format(baseline)}.`;
  if (kind === 'volume_spike')
    return `${whole.format(observed)} events in the last 10 seconds; this agent usually sends about ${rough.format(baseline)}.`;
  const errors = whole.format(Math.round(observed * of));
  return `${errors} of ${whole.format(of)} events in the last ${seconds} seconds were errors (${percent.format(observed)}); for this agent about ${percent.format(baseline)} is usual.`;
}
