// Question: how often does each kind of anomaly speak on steady traffic (at most 0.01 times per agent and day), how
// surely and how soon does it find a spike, and what does an event cost?
// Method: simulated arrivals (anomaly-traffic.ts) go through the real detectors under the arrivals' own clock; no
// Redis, no ClickHouse. Steady: per shape `hours` agent-hours, agents of 96 h each from their first event on, at rates
// from 0.01 to 20 events a second. Spikes: agents warmed for 30 h; every 10 min a copy of the baseline (through its
// serialised form) is given a spike: tokens ×10 (one completion), error share 2 % → 40 %, volume ×10. Found: within 60
// s. Seeded: a run can be repeated.
import { Baseline, decodeBaseline, encodeBaseline } from '../pipelines/anomaly/baseline.ts';
import type { LearnedKind } from '../pipelines/anomaly/finding.ts';
import { observe } from '../pipelines/anomaly/observe.ts';
import { SHAPES, type Shape, type Spike, Traffic } from './anomaly-traffic.ts';

export const RATES = [0.01, 0.03, 0.1, 0.3, 1, 3, 5, 10, 20] as const;
export const KINDS: readonly LearnedKind[] = ['token_spike', 'error_rate', 'volume_spike'];
const AGENT_HOURS = 96;
const FALSE_PER_DAY_MAX = 0.01;
const FOUND_MIN = 0.99;
const WARM_SECONDS = 30 * 3_600;
const BRANCH_SECONDS = 600;
const BRANCHES_AN_AGENT = 50;
const SPIKE_SECONDS = 60;
const SOON_SECONDS = 10;
/** A Monday, 13 h UTC: workdays begin in the middle of one. */
const FROM = Date.UTC(2026, 0, 5, 13) / 1000;

export const SPIKES: Record<LearnedKind, Spike> = {
  token_spike: { tokens: 10 },
  error_rate: { errorShare: 0.4 },
  volume_spike: { volume: 10 },
};

export type Steady = {
  shape: Shape;
  agents: number;
  days: number;
  events: number;
  alarms: Record<LearnedKind, number>;
};
export type Found = {
  shape: Shape;
  rate: number;
  kind: LearnedKind;
  tries: number;
  found: number;
  soon: number;
  delays: number[];
};

/** Agents of one shape, their rates in turn, each from its first event on. */
export function steady(shape: Shape, hours: number, seed: number, agentHours = AGENT_HOURS): Steady {
  const agents = Math.ceil(hours / agentHours);
  const seconds = (hours * 3_600) / agents;
  const alarms = { token_spike: 0, error_rate: 0, volume_spike: 0 };
  let events = 0;
  for (let agent = 0; agent < agents; agent++) {
    const baseline = new Baseline();
    const traffic = new Traffic({ shape, rate: RATES[agent % RATES.length]!, seed: seed + agent, from: FROM });
    const until = (FROM + seconds) * 1000;
    for (let event = traffic.next(); event.receivedAt < until; event = traffic.next()) {
      events++;
      for (const { kind } of observe(baseline, event)) alarms[kind]++;
    }
  }
  return { shape, agents, days: hours / 24, events, alarms };
}

/** Spikes of each kind into agents of one shape and rate. */
export function injected(shape: Shape, rate: number, agents: number, seed: number): Found[] {
  const results = KINDS.map((kind) => ({ shape, rate, kind, tries: 0, found: 0, soon: 0, delays: [] as number[] }));
  for (let agent = 0; agent < agents; agent++) {
    const baseline = new Baseline();
    const traffic = new Traffic({ shape, rate, seed: seed + agent, from: FROM });
    let branchAt = FROM + WARM_SECONDS;
    const end = branchAt + BRANCHES_AN_AGENT * BRANCH_SECONDS;
    for (let event = traffic.next(); branchAt < end; event = traffic.next()) {
      if (event.receivedAt / 1000 > branchAt) {
        const kept = encodeBaseline(baseline);
        for (const result of results) tryOne(result, kept, branchAt, seed + branchAt + agent * 1_000_003);
        branchAt += BRANCH_SECONDS;
      }
      observe(baseline, event);
    }
  }
  return results;
}

function tryOne(result: Found, kept: Buffer, from: number, seed: number): void {
  const { shape, rate, kind } = result;
  const baseline = decodeBaseline(kept)!;
  const traffic = new Traffic({ shape, rate, seed, from, spike: SPIKES[kind] });
  // One completion is a token spike; the others are given their time.
  const until = (from + (kind === 'token_spike' ? 1e6 : SPIKE_SECONDS)) * 1000;
  result.tries++;
  for (let event = traffic.next(); event.receivedAt < until; event = traffic.next()) {
    const isFound = observe(baseline, event).some((finding) => finding.kind === kind);
    if (isFound) {
      const delay = Math.round(event.receivedAt - from * 1000) / 1000;
      result.found++;
      result.delays.push(delay);
      if (delay <= SOON_SECONDS) result.soon++;
    }
    if (isFound || (kind === 'token_spike' && event.type === 'completion')) return;
  }
}

/**
 * Rates (events a second) from which on a spike is to be found within ten seconds. Below, fewer than 50 events or too
 * few errors for their tail lie in ten seconds at all; a daily rhythm is asked at its lowest too, and clusters know
 * less than lone events.
 */
const PROMISED_FROM: Record<Shape, { error_rate: number; volume_spike: number }> = {
  constant: { error_rate: 5, volume_spike: 1 },
  daily: { error_rate: 20, volume_spike: 3 },
  // Asked in the evening and at night, at 2 % of these rates.
  workday: { error_rate: Number.POSITIVE_INFINITY, volume_spike: Number.POSITIVE_INFINITY },
  bursty: { error_rate: 20, volume_spike: 10 },
  'log-normal': { error_rate: 5, volume_spike: 1 },
  pareto: { error_rate: 5, volume_spike: 1 },
};

/**
 * A tenfold is no news to an agent whose own completions differ by more: heavy tails promise nothing of token spikes.
 */
export function isPromised({ kind, rate, shape }: Pick<Found, 'kind' | 'rate' | 'shape'>): boolean {
  if (kind === 'token_spike') return shape !== 'log-normal' && shape !== 'pareto';
  return rate >= PROMISED_FROM[shape][kind];
}

export async function anomalies(options: { hours: number; agents: number }): Promise<boolean> {
  let kept = true;
  for (const shape of Object.keys(SHAPES) as Shape[]) {
    const started = performance.now();
    const { days, events, alarms, agents } = steady(shape, options.hours, 1);
    const perDay = Object.fromEntries(KINDS.map((kind) => [kind, alarms[kind] / days]));
    kept &&= Object.values(perDay).every((rate) => rate <= FALSE_PER_DAY_MAX);
    const microseconds = Math.round(((performance.now() - started) * 1e5) / events) / 100;
    say({ line: 'anomalies', part: 'steady', shape, agents, days, events, alarms, perDay, microseconds });
  }
  for (const shape of Object.keys(SHAPES) as Shape[]) {
    for (const rate of RATES) {
      for (const result of injected(shape, rate, options.agents, 1_000)) {
        const { delays, tries, found, soon } = result;
        delays.sort((a, b) => a - b);
        const promised = isPromised(result);
        if (promised)
          kept &&= found >= FOUND_MIN * tries && (result.kind === 'token_spike' || soon >= FOUND_MIN * tries);
        const at = (share: number) => delays[Math.min(delays.length - 1, Math.floor(delays.length * share))] ?? null;
        say({ line: 'anomalies', part: 'spike', ...result, delays: undefined, p50: at(0.5), p99: at(0.99), promised });
      }
    }
  }
  return kept;
}

function say(result: object): void {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
