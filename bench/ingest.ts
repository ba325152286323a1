// Question: how fast are events taken in, judged and made durable, against a bare echo and against what a competent
// user would write (bench/baseline)? Method: one front, real Redis (append-only file, everysec) and ClickHouse behind
// it, events of about 500 bytes, five policies an event, full echo; single events over 64 connections, batches of 100
// over 32. All contenders take turns in one run; medians over the turns. CPU per event from /proc, by process, since it
// is steadier than time on shared machines. Besides, Gatehouse with a plain set (one policy of each kind that people
// write) and with the guard set of a real account instead of five policies; with that also on events whose arguments
// are text that is JSON. Gatehouse runs twice: whole, and with its pipelines and ClickHouse halted during the load,
// which then shares the machine with the front and Redis alone, as the baseline's does (that stores nothing). What came
// in is stored before the next turn.
import type { Chart } from './chart.ts';
import { baseline, type Contender, echoes, gatehouse, wayIn } from './contenders.ts';
import { beginLine, hand, type Row } from './report.ts';
import { type Around, type Entrant, type Round, runRounds, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import {
  bodiesOf,
  eventWithTextInside,
  FIVE_POLICIES,
  GUARD_SET,
  KINDS,
  PLAIN_SET,
  type PolicyOrder,
  requestsOf,
  sampleEvent,
} from './workload.ts';

/** For all that comes in while nothing is taken out: a turn of 10 s at 500,000 events a second. */
export const ROOM = { GATEHOUSE_REDIS_MAXMEMORY: '8gb', GATEHOUSE_BACKLOG_BYTES_MAX: String(5 * 1024 ** 3) };

/** The sets of policies under which Gatehouse is measured besides the five policies. */
export const OTHER_SETS = [
  { name: 'Gatehouse, plain set', policies: PLAIN_SET },
  { name: 'Gatehouse, guard set', policies: GUARD_SET },
];

const OTHER_LOADS = [
  ...OTHER_SETS.map((set) => ({ ...set, event: sampleEvent })),
  { name: 'Gatehouse, guard set, text inside text', policies: GUARD_SET, event: eventWithTextInside },
];

export async function ingest(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('ingest');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1', ...ROOM });
  const contenders: Contender[] = [];
  const under = policiesInForce(service);
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    contenders.push(...(await echoes()), wayIn(service), gatehouse(service));
    contenders.push(await baseline({ key: service.key, agents: [agent], policies: FIVE_POLICIES }));
    const sender = { agent, key: service.key };
    const compare = [...contenders, ...OTHER_LOADS];
    const entrants = KINDS.flatMap((kind) => [
      ...contenders.map((c) => ({ ...entrant(c, kind.kind, requestsOf([sender], kind)), ...under(FIVE_POLICIES) })),
      ...OTHER_LOADS.map(({ name, event, policies }) => ({
        ...entrant(gatehouse(service), kind.kind, requestsOf([sender], kind, bodiesOf(kind.events, event))),
        ...under(policies),
        name: `${kind.kind}: ${name}`,
      })),
    ]);
    const results = await runRounds(entrants, { ...options, services: [service] });
    const question = 'how fast are events taken in, judged by five policies and made durable, side by side in one run?';
    const command = `npm run bench -- ingest --turns ${options.turns} --seconds ${options.seconds}`;
    const rows = KINDS.flatMap(({ kind }) => compared(kind, compare, results));
    hand({ line: 'ingest', question, command, rows, charts: chartsOf(compare, results) }, machine);
    return true;
  } finally {
    for (const contender of contenders.filter(({ name }) => !name.startsWith('Gatehouse'))) await contender.stop();
    await service.stop();
  }
}

/** The first step of an entrant's turn: puts the policies that it runs under in force, if they are not. */
export function policiesInForce(service: BenchService): (policies: readonly PolicyOrder[]) => Pick<Entrant, 'before'> {
  let inForce: readonly PolicyOrder[] | undefined;
  return (policies) => ({
    before: async () => {
      if (inForce !== policies) await setPolicies(service, policies);
      inForce = policies;
    },
  });
}

export function entrant(contender: Contender, kind: string, load: Entrant['load']): Entrant {
  const { around } = contender as { around?: Around };
  return { name: `${kind}: ${contender.name}`, contender, load, ...(around && { around }) };
}

/** A row a contender, with its ratios to those it is compared with. */
export function compared(
  kind: string,
  contenders: readonly { name: string }[],
  results: ReadonlyMap<string, Round>,
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

export function chartsOf(contenders: readonly { name: string }[], results: ReadonlyMap<string, Round>): Chart[] {
  const groups = KINDS.map(({ kind, events, connections }) => ({
    name:
      events === 1 ? `single events, ${connections} connections` : `batches of up to 100, ${connections} connections`,
    bars: contenders.map(({ name }) => ({ name, value: results.get(`${kind}: ${name}`)!.eventsPerSecond })),
  }));
  return [{ kind: 'bars', title: 'Events taken in', unit: 'events/s', groups }];
}
