// Contenders in turns: every one of a round before the next round begins, so that what else the machine does falls on
// all of them alike. Behind each turn Gatehouse comes to rest, so that no round pays for storing and merging another
// one's events. A first round warms up and is not counted: fresh servers pay for V8's compiler, each for so much as it
// has code, and those that come first in a line pay for the others.
// Of each figure the median over the rounds stands.
import { readable } from './chart.ts';
import type { Contender } from './contenders.ts';
import { whenAtRest } from './gauges.ts';
import { type LoadResult, post } from './load.ts';
import { cpuByPart, cpuPerEvent } from './processes.ts';
import { progress, type Row } from './report.ts';
import type { BenchService } from './service.ts';
import { median } from './statistics.ts';
import type { Requests } from './workload.ts';

export type Round = LoadResult & {
  eventsPerSecond: number;
  /** The slowest and the fastest turn; of one turn itself. */
  spread: [least: number, most: number];
  /** Microseconds of processor time an event, by part: front, redis, pipelines, clickhouse. */
  cpu: Record<string, number>;
};

/** Runs a turn's load while something is so that else is not. */
export type Around = <T>(load: () => Promise<T>) => Promise<T>;

export type Entrant = {
  name: string;
  contender: Contender;
  load: Requests;
  before?: () => Promise<void>;
  around?: Around;
};

/**
 * A front's cost per single event falls from 22 to 13 microseconds in the first three seconds of load, and then no
 * further.
 */
const WARM_UP_SECONDS = 3;

/** `services`: those of Gatehouse's that stand behind the entrants. */
export async function runRounds(
  entrants: readonly Entrant[],
  { turns, seconds, services }: { turns: number; seconds: number; services: readonly BenchService[] },
): Promise<Map<string, Round>> {
  const taken = new Map<string, Round[]>(entrants.map(({ name }) => [name, []]));
  await takeRound('warm-up', entrants, WARM_UP_SECONDS, services);
  for (let turn = 1; turn <= turns; turn++) {
    const round = await takeRound(`turn ${turn}/${turns}`, entrants, seconds, services);
    for (const [name, result] of round) taken.get(name)!.push(result);
  }
  return new Map([...taken].map(([name, results]) => [name, medianTurn(results)]));
}

async function takeRound(
  title: string,
  entrants: readonly Entrant[],
  seconds: number,
  services: readonly BenchService[],
): Promise<Map<string, Round>> {
  const results = new Map<string, Round>();
  for (const { name, contender, load, before, around = justSo } of entrants) {
    await before?.();
    const result = await around(() => oneRound(contender, load, seconds));
    results.set(name, result);
    progress(
      `${title} ${name}: ${Math.round(result.eventsPerSecond)} events/s, front ${result.cpu['front']?.toFixed(2)} µs an event`,
    );
    await Promise.all(services.map(whenAtRest));
  }
  return results;
}

const justSo: Around = (load) => load();

export async function oneRound(contender: Contender, load: Requests, seconds: number): Promise<Round> {
  const processes = await contender.processes();
  const before = cpuByPart(processes);
  const requests = load.requests.map((request) => ({ ...request, path: contender.pathPrefix + request.path }));
  const { bodies, connections, eventsPerRequest } = load;
  const result = await post({ url: contender.url, requests, bodies, connections, seconds });
  if (result.failed > 0) progress(`${contender.name}: ${result.failed} requests failed`);
  const eventsPerSecond = result.requestsPerSecond * eventsPerRequest;
  const spread: Round['spread'] = [eventsPerSecond, eventsPerSecond];
  return { ...result, eventsPerSecond, spread, cpu: cpuPerEvent(processes, before, eventsPerSecond * seconds) };
}

function medianTurn(turns: readonly Round[]): Round {
  const of = (pick: (turn: Round) => number) => median(turns.map(pick));
  const parts = Object.keys(turns[0]!.cpu);
  return {
    tool: turns[0]!.tool,
    requestsPerSecond: of((turn) => turn.requestsPerSecond),
    eventsPerSecond: of((turn) => turn.eventsPerSecond),
    spread: spreadOf(turns.map((turn) => turn.eventsPerSecond)),
    p50Ms: of((turn) => turn.p50Ms),
    p99Ms: of((turn) => turn.p99Ms),
    failed: turns.reduce((sum, turn) => sum + turn.failed, 0),
    cpu: Object.fromEntries(parts.map((part) => [part, of((turn) => turn.cpu[part] ?? 0)])),
  };
}

export function spreadOf(values: readonly number[]): [least: number, most: number] {
  return [Math.min(...values), Math.max(...values)];
}

export function spreadText([least, most]: readonly [number, number]): string {
  return `${readable(least)} to ${readable(most)}`;
}

/** The order in which an event meets them. */
const PARTS = ['front', 'redis', 'pipelines', 'clickhouse'];

/** Columns that every table of turns has; `more` is behind the speed. */
export function turnCells(turn: Round, more: Row = {}): Row {
  const { eventsPerSecond, spread, p50Ms, p99Ms, failed, cpu } = turn;
  return {
    'events/s': eventsPerSecond,
    'least and most': spreadText(spread),
    ...more,
    'p50 ms': p50Ms,
    'p99 ms': p99Ms,
    ...(failed === 0 ? {} : { failed }),
    ...cpuCells(cpu),
  };
}

export function cpuCells(cpu: Record<string, number>): Row {
  const present = PARTS.filter((part) => part in cpu);
  return Object.fromEntries(present.map((part) => [`${part}, CPU µs an event`, cpu[part]!]));
}
