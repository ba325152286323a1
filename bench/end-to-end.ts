// Question: how many events a second go from HTTP to rows in ClickHouse for as long as one likes, and how soon after
// its answer is an event found?
// Method: an open loop of batches of 100 (500 bytes, five policies, 64 agents, full echo). The highest rate at which
// the backlog does not grow is searched by halving (or given: `--rate`), then held for 60 s; where it then grows after
// all, 5 % less is held. At half of that rate one event after another is sent alone and listed at once through the API,
// over and over until it is there: the time from its answer to the answer that shows it, the query included.

import { HttpClient } from './http-client.ts';
import { cpuByPart, cpuPerEvent } from './processes.ts';
import { beginLine, hand, progress } from './report.ts';
import { cpuCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { percentile, sorted } from './statistics.ts';
import { closedLoop, findSustained, loadOf, type Target, type Trial, trial } from './sustained.ts';
import { BATCH_EVENTS, eventsPath, FIVE_POLICIES, KINDS } from './workload.ts';

const AGENTS = 64;
const STEP_DOWN = 0.95;
const HOLDS_MAX = 6;
const PROBE_SHARE = 0.25;
const FIND_MS_MAX = 30_000;

export async function endToEnd(options: { seconds: number; rate?: number }): Promise<boolean> {
  const machine = beginLine('end-to-end');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  try {
    const agents = await makeAgents(service, AGENTS + 1);
    await setPolicies(service, FIVE_POLICIES);
    const probed = agents.pop()!;
    const target: Target = { service, agents, eventsPerRequest: BATCH_EVENTS };
    const highest = await closedLoopRate(target);
    const found = options.rate ?? (await findSustained(target, highest, Math.max(5, options.seconds * PROBE_SHARE)));
    const { held, cpu } = await hold(target, found, options.seconds);
    const times = await findable(target, probed, held.eventsPerSecond / 2, options.seconds / 2);
    hand(
      {
        line: 'end-to-end',
        question: 'what rate does the whole path hold, HTTP to rows in ClickHouse, and how soon is an event found?',
        command: `npm run bench -- end-to-end --seconds ${options.seconds}${options.rate === undefined ? '' : ` --rate ${options.rate}`}`,
        rows: [
          {
            'sustained events/s': held.isFlat ? held.eventsPerSecond : 'none found',
            'stored events/s': held.storedPerSecond,
            'backlog grew by, events/s': held.growth,
            'p50 ms': held.summary.p50Ms,
            'p99 ms': held.summary.p99Ms,
            ...cpuCells(cpu),
            'found after, p50 ms': percentile(times.foundMs, 0.5),
            'found after, p99 ms': percentile(times.foundMs, 0.99),
          },
        ],
        notes: [
          `${times.foundMs.length} events were looked for at half of the rate; ${times.incomplete} lists said that they were incomplete. A closed loop of 32 connections had been taken in at ${Math.round(highest)} events/s for 5 s, with the backlog growing.`,
        ],
        charts: [backlogChart(held)],
      },
      machine,
    );
    return held.isFlat;
  } finally {
    await service.stop();
  }
}

/** Where the search begins: what is taken in while the backlog may grow. */
async function closedLoopRate({ service, agents }: Target): Promise<number> {
  const batches = KINDS.find(({ events }) => events === BATCH_EVENTS)!;
  const { takenIn } = await closedLoop(service, agents, batches, 5);
  progress(`closed loop: ${Math.round(takenIn)} events/s taken in`);
  return takenIn;
}

async function hold(
  target: Target,
  found: number,
  seconds: number,
): Promise<{ held: Trial; cpu: Record<string, number> }> {
  for (let attempt = 0, rate = Math.max(found, 1_000); ; attempt++, rate *= STEP_DOWN) {
    const processes = await target.service.children();
    const before = cpuByPart(processes);
    const held = await trial(target, rate, seconds);
    const cpu = cpuPerEvent(processes, before, held.eventsPerSecond * seconds);
    if (held.isFlat || attempt === HOLDS_MAX) return { held, cpu };
  }
}

/** Ascending times from an event's answer to the list that shows it, beside the load. */
async function findable(
  target: Target,
  agent: string,
  eventsPerSecond: number,
  seconds: number,
): Promise<{ foundMs: Float64Array; incomplete: number }> {
  const { service, eventsPerRequest } = target;
  const load = loadOf(target, [{ requestsPerSecond: eventsPerSecond / eventsPerRequest, seconds }]);
  const foundMs: number[] = [];
  let incomplete = 0;
  for (const until = performance.now() + seconds * 1000; performance.now() < until; ) {
    const { afterMs, waits } = await sendAndFind(service, agent);
    foundMs.push(afterMs);
    incomplete += waits;
  }
  await load;
  progress(`${foundMs.length} events looked for at ${Math.round(eventsPerSecond)} events/s`);
  return { foundMs: sorted(foundMs), incomplete };
}

async function sendAndFind(service: BenchService, agent: string): Promise<{ afterMs: number; waits: number }> {
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    const event = { type: 'prompt', payload: { prompt: 'Where am I?' } };
    const { id } = await client.json<{ id: string }>('POST', eventsPath(agent, 1), event);
    const answered = performance.now();
    for (let waits = 0; performance.now() - answered < FIND_MS_MAX; ) {
      const { body, headers } = await client.send('GET', `${eventsPath(agent, 1)}?limit=1`);
      if (body.includes(`"id":"${id}"`)) return { afterMs: performance.now() - answered, waits };
      if (headers['gatehouse-incomplete'] !== undefined) waits++;
    }
    throw new Error(`event ${id} was not found within ${FIND_MS_MAX} ms`);
  } finally {
    client.close();
  }
}

function backlogChart(held: Trial) {
  const points = held.backlog.map(({ second, events }) => ({ x: second, y: events }));
  return {
    kind: 'lines' as const,
    title: `Backlog at ${Math.round(held.eventsPerSecond)} events/s`,
    xTitle: 'seconds',
    yTitle: 'events accepted and not yet stored',
    series: [{ name: 'backlog', points }],
  };
}
