// Question: how long does an answer take at a tenth, a half and four fifths of what the machine can do?
// Method: a closed loop in the same run (64 connections for single events, 32 for batches of 100) finds two maxima:
// what is taken in, which grows the backlog and so lasts until its bound, and what is stored (its events by the time
// until all of them were), which lasts. Then an open loop sends at a fixed share of each, single and batch, in turns:
// latency counts from the moment a request was due. A turn begins when the service is at rest: what ClickHouse still
// merges of a turn at four fifths is not the load of one at a half. Five policies, full echo, the store running behind.
// What the generator itself adds shows in the same load on a bare echo (JSON.parse and JSON.stringify), which stands
// beside: it ticks every millisecond and shares the machine's processors.
import { type Contender, echoes } from './contenders.ts';
import { whenAtRest } from './gauges.ts';
import { openLoad, type Summary, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { median } from './statistics.ts';
import { closedLoop, loadOf, OPEN_CONNECTIONS } from './sustained.ts';
import { bodiesOf, FIVE_POLICIES, KINDS, type Kind } from './workload.ts';

const SHARES = [0.1, 0.5, 0.8];
type Maximum = 'taken in' | 'stored';
/** One row: so much of a maximum of a kind. */
type Setting = { kind: Kind; of: Maximum; share: number; eventsPerSecond: number };
const AGENTS = 64;
/** The first part of a load: connections, caches, compiled code. */
const WARM_SECONDS = 1;

export async function latency(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('latency');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const [, echo] = await echoes();
  try {
    const agents = await makeAgents(service, AGENTS);
    await setPolicies(service, FIVE_POLICIES);
    const settings = await settingsFor(service, agents, options);
    const taken = settings.map((): Summary[] => []);
    for (let turn = 1; turn <= options.turns; turn++) {
      for (const [i, setting] of settings.entries()) {
        const summary = await atRate(service, agents, setting, options.seconds);
        taken[i]!.push(summary);
        progress(`turn ${turn}/${options.turns} ${nameOf(setting)}: p99 ${summary.p99Ms.toFixed(1)} ms`);
      }
    }
    const rows: Row[] = [];
    for (const [i, setting] of settings.entries()) {
      rows.push(rowOf(setting, taken[i]!, await ofEcho(echo, setting, options.seconds)));
    }
    const question = 'how long does an answer take at a fixed rate of arrivals?';
    const command = `npm run bench -- latency --turns ${options.turns} --seconds ${options.seconds}`;
    const charts = KINDS.map(({ kind }) =>
      chartOf(
        kind,
        rows.filter(({ load }) => load === kind),
      ),
    );
    hand({ line: 'latency', question, command, rows, charts }, machine);
    return true;
  } finally {
    await echo.stop();
    await service.stop();
  }
}

async function settingsFor(
  service: BenchService,
  agents: readonly string[],
  { turns, seconds }: { turns: number; seconds: number },
): Promise<Setting[]> {
  const found = KINDS.map((kind) => ({ kind, 'taken in': [] as number[], stored: [] as number[] }));
  for (let turn = 1; turn <= turns; turn++) {
    for (const { kind, ...most } of found) {
      const { takenIn, stored } = await closedLoop(service, agents, kind, Math.min(seconds, 5));
      most['taken in'].push(takenIn);
      most.stored.push(stored);
      progress(
        `turn ${turn}/${turns} ${kind.kind}: ${Math.round(takenIn)} events/s taken in, ${Math.round(stored)} stored`,
      );
    }
  }
  await whenAtRest(service);
  return found.flatMap(({ kind, ...most }) =>
    (['taken in', 'stored'] as const).flatMap((of) =>
      SHARES.map((share) => ({ kind, of, share, eventsPerSecond: median(most[of]) * share })),
    ),
  );
}

async function atRate(
  service: BenchService,
  agents: string[],
  { kind: { events }, eventsPerSecond }: Setting,
  seconds: number,
): Promise<Summary> {
  const phases = [{ requestsPerSecond: eventsPerSecond / events, seconds: seconds + WARM_SECONDS }];
  const samples = await loadOf({ service, agents, eventsPerRequest: events }, phases);
  await whenAtRest(service);
  return summarize(samples, WARM_SECONDS * 1000);
}

const nameOf = ({ kind, of, share }: Setting) => `${kind.kind} at ${share * 100} % of what is ${of}`;

/** The same load on a server that does next to nothing: what is left is the generator and the machine. */
async function ofEcho(
  { url, pathPrefix }: Contender,
  { kind: { kind, events }, eventsPerSecond }: Setting,
  seconds: number,
): Promise<Summary> {
  const bodies = bodiesOf(events);
  const requests = bodies.map((_, body) => ({ path: `${pathPrefix}/events`, key: 'none', body }));
  const phases = [{ requestsPerSecond: eventsPerSecond / events, seconds: seconds / 2 + WARM_SECONDS }];
  return summarize(
    await openLoad({ url, requests, bodies, phases, connections: OPEN_CONNECTIONS[kind] }),
    WARM_SECONDS * 1000,
  );
}

function rowOf(
  { kind: { kind }, of: maximum, share, eventsPerSecond }: Setting,
  summaries: readonly Summary[],
  control: Summary,
): Row {
  const of = (pick: (summary: Summary) => number) => median(summaries.map(pick));
  const lost = of(({ failed, refused, unsent }) => failed + refused + unsent);
  return {
    load: kind,
    'share, %': share * 100,
    'of what is': maximum,
    'events/s': eventsPerSecond,
    'p50 ms': of(({ p50Ms }) => p50Ms),
    'p99 ms': of(({ p99Ms }) => p99Ms),
    'p99.9 ms': of(({ p999Ms }) => p999Ms),
    'longest ms': of(({ maxMs }) => maxMs),
    'echo, p50 ms': control.p50Ms,
    'echo, p99 ms': control.p99Ms,
    ...(lost > 0 ? { 'not answered well': lost } : {}),
  };
}

function chartOf(kind: string, rows: readonly Row[]) {
  const series = ['p50 ms', 'p99 ms', 'p99.9 ms'].map((column) => ({
    name: column,
    points: rows.map((row) => ({ x: Number(row['events/s']), y: Number(row[column]) })).sort((a, b) => a.x - b.x),
  }));
  return {
    kind: 'lines' as const,
    title: `Latency at a fixed rate of arrivals, ${kind}`,
    xTitle: 'events/s',
    yTitle: 'ms from the moment a request was due',
    logY: true,
    series,
  };
}
