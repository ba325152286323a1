// Question: how fast are events taken in, judged and made durable, against a bare echo and against what a competent user
// would write (bench/baseline)?
// Method: one front, real Redis (append-only file, everysec) and ClickHouse behind it, events of about 500 bytes, five
// policies an event, full echo; single events over 64 connections, batches of 100 over 32. All contenders take turns in one
// run; medians over the turns. CPU per event from /proc, by process, since it is steadier than time on shared machines.
import type { Chart } from './chart.ts';
import { baseline, type Contender, echoes, gatehouse } from './contenders.ts';
import { whenDrained } from './gauges.ts';
import { beginLine, hand, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { type Entrant, type Turn, takeTurns, turnCells } from './turns.ts';
import { bodyOf, eventsPath, FIVE_POLICIES, KINDS, type Kind } from './workload.ts';

export async function ingest(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('ingest');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const contenders: Contender[] = [];
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    await setPolicies(service, FIVE_POLICIES);
    contenders.push(...(await echoes()), gatehouse(service));
    contenders.push(await baseline({ key: service.key, agents: [agent], policies: FIVE_POLICIES }));
    const entrants = KINDS.flatMap((kind) => contenders.map((c) => entrantOf(c, kind, agent, service.key)));
    const results = await takeTurns(entrants, { ...options, settle: async () => void (await whenDrained(service)) });
    const question = 'how fast are events taken in, judged by five policies and made durable, side by side in one run?';
    const command = `npm run bench -- ingest --turns ${options.turns} --seconds ${options.seconds}`;
    const rows = KINDS.flatMap(({ kind }) => compared(kind, contenders, results));
    hand({ line: 'ingest', question, command, rows, charts: chartsOf(contenders, results) }, machine);
    return true;
  } finally {
    for (const contender of contenders.filter(({ name }) => name !== 'Gatehouse')) await contender.stop();
    await service.stop();
  }
}

function entrantOf(contender: Contender, kind: Kind, agent: string, key: string): Entrant {
  const load = {
    requests: [{ path: eventsPath(agent, kind.events), key, body: 0 }],
    bodies: [bodyOf(kind.events)],
    connections: kind.connections,
    eventsPerRequest: kind.events,
  };
  return { name: `${kind.kind}: ${contender.name}`, contender, load };
}

/** A row a contender, with its ratios to those it is compared with. */
export function compared(
  kind: string,
  contenders: readonly { name: string }[],
  results: ReadonlyMap<string, Turn>,
): Row[] {
  const speed = (name: string) => results.get(`${kind}: ${name}`)?.eventsPerSecond ?? Number.NaN;
  return contenders.map(({ name }) => ({
    '': `${kind}: ${name}`,
    ...turnCells(results.get(`${kind}: ${name}`)!, {
      'to the JSON echo': speed(name) / speed('JSON.parse + JSON.stringify'),
      'to the baseline': speed(name) / speed('Fastify baseline'),
    }),
  }));
}

export function chartsOf(contenders: readonly { name: string }[], results: ReadonlyMap<string, Turn>): Chart[] {
  const groups = KINDS.map(({ kind, events, connections }) => ({
    name:
      events === 1 ? `single events, ${connections} connections` : `batches of up to 100, ${connections} connections`,
    bars: contenders.map(({ name }) => ({ name, value: results.get(`${kind}: ${name}`)!.eventsPerSecond })),
  }));
  return [{ kind: 'bars', title: 'Events taken in', unit: 'events/s', groups }];
}
