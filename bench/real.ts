// Question: what does `ingest` look like with events as agents really send them, long and short, of many agents?
// Method: recorded agent runs (NDJSON as bench/replay.ts reads it), sent in their order in turn, single and in batches
// of up to 100 events of one agent, without their old timestamps; the same contenders, sets of policies and turns as
// `ingest`.
import path from 'node:path';
import { baseline, type Contender, echoes, gatehouse, wayIn } from './contenders.ts';
import { chartsOf, compared, entrant, OTHER_SETS, policiesInForce, ROOM } from './ingest.ts';
import { batches, groupByAgent, type RecordedEvent, readRecorded, recordedRuns } from './replay.ts';
import { beginLine, hand, progress } from './report.ts';
import { runRounds } from './rounds.ts';
import { startBenchService } from './service.ts';
import { makeAgents } from './setup.ts';
import { eventsPath, FIVE_POLICIES, KINDS, type Requests } from './workload.ts';

/** The generator holds all requests in memory. */
const EVENTS_MAX = 20_000;

export async function real(options: { turns: number; seconds: number; files: string[] }): Promise<boolean> {
  const files = options.files.length > 0 ? options.files : recordedRuns();
  if (files.length === 0) {
    progress('real: no recorded runs in ../shared/data and no file named: skipped');
    return true;
  }
  const machine = beginLine('real');
  const events = (await Promise.all(files.map(readRecorded))).flat().slice(0, EVENTS_MAX);
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1', ...ROOM });
  const contenders: Contender[] = [];
  const under = policiesInForce(service);
  try {
    const names = [...new Set(events.map(({ agent }) => agent))];
    const ids = await makeAgents(service, names.length);
    const agents = new Map(names.map((name, i) => [name, ids[i]!]));
    contenders.push(...(await echoes()), wayIn(service), gatehouse(service));
    contenders.push(await baseline({ key: service.key, agents: ids, policies: FIVE_POLICIES }));
    const loads = KINDS.map((kind) => loadOf(events, agents, service.key, kind));
    const compare = [...contenders, ...OTHER_SETS];
    const entrants = KINDS.flatMap(({ kind }, i) => [
      ...contenders.map((contender) => ({ ...entrant(contender, kind, loads[i]!), ...under(FIVE_POLICIES) })),
      ...OTHER_SETS.map(({ name, policies }) => ({
        ...entrant(gatehouse(service), kind, loads[i]!),
        ...under(policies),
        name: `${kind}: ${name}`,
      })),
    ]);
    const results = await runRounds(entrants, { ...options, services: [service] });
    const bytes = events.reduce((sum, { payloadText }) => sum + Buffer.byteLength(payloadText), 0);
    const named = options.files.length > 0 ? ` ${options.files.map((file) => path.basename(file)).join(' ')}` : '';
    const findings = {
      line: 'real',
      question: 'the same as `ingest` with recorded agent runs',
      command: `npm run bench -- real${named} --turns ${options.turns} --seconds ${options.seconds}`,
      rows: KINDS.flatMap(({ kind }) => compared(kind, compare, results)),
      charts: chartsOf(compare, results),
      notes: [
        `${events.length} events of ${names.length} agents; a payload has ${Math.round(bytes / events.length)} bytes in the mean, a batch ${loads[1]!.eventsPerRequest.toFixed(1)} events.`,
      ],
    };
    hand(findings, machine);
    return true;
  } finally {
    for (const contender of contenders.filter(({ name }) => !name.startsWith('Gatehouse'))) await contender.stop();
    await service.stop();
  }
}

function loadOf(
  events: readonly RecordedEvent[],
  agents: ReadonlyMap<string, string>,
  key: string,
  { events: atMost, connections }: (typeof KINDS)[number],
): Requests {
  const byAgent = () => [...groupByAgent([...events]).values()].flatMap((own) => [...batches(own)]);
  const groups = atMost === 1 ? events.map((event) => [event]) : byAgent();
  const bodies = groups.map((group) => {
    const texts = group.map(
      ({ type, traceId, payloadText }) =>
        `{"type":${JSON.stringify(type)},"trace_id":${JSON.stringify(traceId)},"payload":${payloadText}}`,
    );
    return atMost === 1 ? texts[0]! : `{"events":[${texts.join(',')}]}`;
  });
  const requests = groups.map((group, body) => ({ path: eventsPath(agents.get(group[0]!.agent)!, atMost), key, body }));
  return { requests, bodies, connections, eventsPerRequest: events.length / groups.length };
}
