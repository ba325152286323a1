// The highest rate that the whole path holds for long: HTTP to rows in ClickHouse, the backlog flat. A closed loop
// cannot find it, since the front takes in more than the store can write until the backlog is full. So: an open loop at
// a given rate, and the question whether the backlog grows; the rate is halved in between until the bounds are close.
import { setTimeout as sleep } from 'node:timers/promises';
import { gatehouse } from './contenders.ts';
import { readGauges, whenDrained } from './gauges.ts';
import { openLoad, type Phase, type Samples, type Summary, summarize } from './open-loop.ts';
import { progress } from './report.ts';
import { oneRound } from './rounds.ts';
import type { BenchService } from './service.ts';
import { slope } from './statistics.ts';
import { type Kind, requestsOf, sendersOf } from './workload.ts';

/**
 * By the trend over a trial the backlog may have grown by so many seconds' worth of events: rows come in blocks, so it
 * saws, and a short trial cannot distinguish the saw from a slope. In the 45 settled seconds of a minute that is 2 % of
 * the rate.
 */
const GROWN_SECONDS_MAX = 1;
/** At the end so many seconds' worth of events may wait: more has grown before the slope was inspected. */
const BACKLOG_SECONDS_MAX = 2;
/** Nor may the queue in front of the server grow: what is due and finds no connection waits, and its waiting counts. */
const P99_MS_MAX = 1_000;
/** Requests that were due must have been answered well. */
const GOOD_SHARE_MIN = 0.99;
/** The first part of a trial, in which batches and buffers find their size. */
const SETTLE_SHARE = 0.25;
/** The search ends when its bounds are within this share of each other. */
const SEARCH_SHARE = 0.08;
const PROBES_MAX = 9;

export const OPEN_CONNECTIONS = { single: 256, batch: 64 } as const;

export type Target = { service: BenchService; agents: string[]; eventsPerRequest: number };

export type Trial = {
  eventsPerSecond: number;
  summary: Summary;
  samples: Samples;
  /** Accepted and not yet stored, once a second. */
  backlog: { second: number; events: number }[];
  /** Events a second by which the backlog grew after the settling. */
  growth: number;
  storedPerSecond: number;
  isFlat: boolean;
};

/** One open loop over all agents in turn; `phases` in requests a second. */
export function loadOf(
  { service, agents, eventsPerRequest }: Target,
  phases: Phase[],
  more: { connections?: number; giveUpMs?: number } = {},
): Promise<Samples> {
  const connections = eventsPerRequest === 1 ? OPEN_CONNECTIONS.single : OPEN_CONNECTIONS.batch;
  const load = requestsOf(sendersOf(agents, service.key), { events: eventsPerRequest, connections });
  return openLoad({ url: service.url, ...load, phases, ...more });
}

/**
 * Events a second that a closed loop gets through: by the time of the load, in which the backlog may grow, and by the
 * time until all were stored.
 */
export async function closedLoop(
  service: BenchService,
  agents: readonly string[],
  kind: Kind,
  seconds: number,
): Promise<{ takenIn: number; stored: number }> {
  const load = requestsOf(sendersOf(agents, service.key), kind);
  const started = performance.now();
  const { eventsPerSecond } = await oneRound(gatehouse(service), load, seconds);
  await whenDrained(service);
  return { takenIn: eventsPerSecond, stored: (eventsPerSecond * seconds * 1000) / (performance.now() - started) };
}

/** Runs one rate for so long, and says whether the backlog stayed flat. Leaves the backlog drained. */
export async function trial(target: Target, eventsPerSecond: number, seconds: number): Promise<Trial> {
  const { service, eventsPerRequest } = target;
  const stop = new AbortController();
  const watched = watchBacklog(service, stop.signal);
  const samples = await loadOf(target, [{ requestsPerSecond: eventsPerSecond / eventsPerRequest, seconds }]);
  stop.abort();
  const points = (await watched).filter(({ second }) => second <= seconds);
  await whenDrained(service);
  const summary = summarize(samples, seconds * SETTLE_SHARE * 1000);
  const settled = points.filter(({ second }) => second >= seconds * SETTLE_SHARE);
  const growth = slope(settled.map(({ second, events }) => [second, events]));
  const due = summary.answered + summary.refused + summary.failed + summary.unsent;
  const last = settled.at(-1)?.events ?? 0;
  const isFlat =
    growth * seconds * (1 - SETTLE_SHARE) <= eventsPerSecond * GROWN_SECONDS_MAX &&
    last <= eventsPerSecond * BACKLOG_SECONDS_MAX &&
    summary.answered >= due * GOOD_SHARE_MIN &&
    summary.p99Ms <= P99_MS_MAX;
  const storedPerSecond = slope(settled.map(({ second, taken }) => [second, taken]));
  progress(
    `${Math.round(eventsPerSecond)} events/s for ${seconds} s: ${isFlat ? 'held' : 'not held'}, backlog grew by ${Math.round(growth)} events/s, ` +
      `${Math.round(storedPerSecond)} stored a second, ${summary.answered} of ${due} answered, p99 ${summary.p99Ms.toFixed(1)} ms`,
  );
  const backlog = points.map(({ second, events }) => ({ second: Math.round(second), events }));
  return { eventsPerSecond, summary, samples, backlog, growth, storedPerSecond, isFlat };
}

/** The highest rate found flat in trials of `probeSeconds`; 0: none was. `highest` is where the search begins. */
export async function findSustained(target: Target, highest: number, probeSeconds: number): Promise<number> {
  let [flat, steep] = [0, highest];
  for (let probe = 0; probe < PROBES_MAX && steep - flat > steep * SEARCH_SHARE; probe++) {
    const rate = probe === 0 ? highest / 2 : (flat + steep) / 2;
    if ((await trial(target, rate, probeSeconds)).isFlat) flat = rate;
    else steep = rate;
  }
  return flat;
}

async function watchBacklog(service: BenchService, stop: AbortSignal) {
  const started = performance.now();
  const points: { second: number; events: number; taken: number }[] = [];
  while (!stop.aborted) {
    const { backlog, taken } = await readGauges(service);
    points.push({ second: (performance.now() - started) / 1000, events: backlog, taken });
    await sleep(1_000, undefined, { signal: stop }).catch(() => undefined);
  }
  return points;
}
