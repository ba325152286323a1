// Question: how long does an answer take at a tenth, a half and four fifths of what the machine can do?
// Method: the maximum is found by a closed loop in the same run (64 connections for single events, 32 for batches of 100),
// then an open loop sends at a fixed share of it, single and batch, in turns: latency counts from the moment a request was due.
// Five policies, full echo, the store running behind. What the generator itself adds shows in the same load on a bare echo
// (JSON.parse and JSON.stringify), which stands beside: it ticks every millisecond and shares the machine's processors.
import { type Contender, echoes, gatehouse } from './contenders.ts';
import { whenDrained } from './gauges.ts';
import { openLoad, type Summary, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { median } from './statistics.ts';
import { loadOf, OPEN_CONNECTIONS } from './sustained.ts';
import { takeTurns } from './turns.ts';
import { bodyOf, eventsPath, FIVE_POLICIES, KINDS, type Kind } from './workload.ts';

const SHARES = [0.1, 0.5, 0.8];
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
    const most = await maxima(service, agents, options);
    const taken = new Map<string, Summary[]>();
    for (let turn = 1; turn <= options.turns; turn++) {
      for (const kind of KINDS) {
        for (const share of SHARES) {
          const summary = await atShare(service, agents, kind, most.get(kind.kind)! * share, options.seconds);
          const name = `${kind.kind} ${share}`;
          taken.set(name, [...(taken.get(name) ?? []), summary]);
          progress(
            `turn ${turn}/${options.turns} ${kind.kind} at ${share * 100} %: p99 ${summary.p99Ms.toFixed(1)} ms`,
          );
        }
      }
    }
    const rows: Row[] = [];
    for (const kind of KINDS) {
      for (const share of SHARES) {
        const eventsPerSecond = most.get(kind.kind)! * share;
        const control = await ofEcho(echo, kind, eventsPerSecond, options.seconds);
        rows.push(rowOf(kind, share, eventsPerSecond, taken.get(`${kind.kind} ${share}`)!, control));
      }
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

/** Events a second that a closed loop gets through, by kind. */
async function maxima(
  service: BenchService,
  agents: readonly string[],
  options: { turns: number; seconds: number },
): Promise<Map<string, number>> {
  const contender = gatehouse(service);
  const entrants = KINDS.map(({ kind, connections, events }) => {
    const requests = agents.map((agent) => ({ path: eventsPath(agent, events), key: service.key, body: 0 }));
    return {
      name: kind,
      contender,
      load: { requests, bodies: [bodyOf(events)], connections, eventsPerRequest: events },
    };
  });
  const settle = async () => void (await whenDrained(service));
  const found = await takeTurns(entrants, { turns: options.turns, seconds: Math.min(options.seconds, 5), settle });
  return new Map([...found].map(([kind, { eventsPerSecond }]) => [kind, eventsPerSecond]));
}

async function atShare(
  service: BenchService,
  agents: string[],
  { events }: Kind,
  eventsPerSecond: number,
  seconds: number,
): Promise<Summary> {
  const phases = [{ requestsPerSecond: eventsPerSecond / events, seconds: seconds + WARM_SECONDS }];
  const samples = await loadOf({ service, agents, eventsPerRequest: events }, phases);
  await whenDrained(service);
  return summarize(samples, WARM_SECONDS * 1000);
}

/** The same load on a server that does next to nothing: what is left is the generator and the machine. */
async function ofEcho(
  { url, pathPrefix }: Contender,
  { kind, events }: Kind,
  eventsPerSecond: number,
  seconds: number,
): Promise<Summary> {
  const requests = [{ path: `${pathPrefix}/events`, key: 'none', body: bodyOf(events) }];
  const phases = [{ requestsPerSecond: eventsPerSecond / events, seconds: seconds / 2 + WARM_SECONDS }];
  return summarize(await openLoad({ url, requests, phases, connections: OPEN_CONNECTIONS[kind] }), WARM_SECONDS * 1000);
}

function rowOf(
  { kind }: Kind,
  share: number,
  eventsPerSecond: number,
  summaries: readonly Summary[],
  control: Summary,
): Row {
  const of = (pick: (summary: Summary) => number) => median(summaries.map(pick));
  const lost = of(({ failed, refused, unsent }) => failed + refused + unsent);
  return {
    load: kind,
    'share of the maximum, %': share * 100,
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
    points: rows.map((row) => ({ x: Number(row['share of the maximum, %']), y: Number(row[column]) })),
  }));
  return {
    kind: 'lines' as const,
    title: `Latency at a fixed rate of arrivals, ${kind}`,
    xTitle: 'share of the maximum, %',
    yTitle: 'ms from the moment a request was due',
    logY: true,
    series,
  };
}
