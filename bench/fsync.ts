// Question: what does it cost to have Redis write to the disk before it answers (`always`: survives power) instead of
// every second (`everysec`: survives the death of any process)?
// Method: two whole services side by side that differ in GATEHOUSE_REDIS_APPENDFSYNC alone, in turns, one idle while
// the other is under load; single events over 64 connections, batches of 100 over 32, five policies. The disk decides
// much of it.
import { gatehouse } from './contenders.ts';
import { beginLine, hand } from './report.ts';
import { type Entrant, runRounds, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { FIVE_POLICIES, KINDS, requestsOf } from './workload.ts';

const MODES = ['everysec', 'always'] as const;

export async function fsync(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('fsync');
  const services: BenchService[] = [];
  try {
    const entrants: Entrant[] = [];
    for (const mode of MODES) {
      const service = await startBenchService({ GATEHOUSE_FRONTS: '1', GATEHOUSE_REDIS_APPENDFSYNC: mode });
      services.push(service);
      const [agent] = (await makeAgents(service, 1)) as [string];
      await setPolicies(service, FIVE_POLICIES);
      for (const kind of KINDS) {
        const load = requestsOf([{ agent, key: service.key }], kind);
        entrants.push({ name: `${kind.kind}: ${mode}`, contender: gatehouse(service), load });
      }
    }
    const results = await runRounds(entrants, { ...options, services });
    const speed = (name: string) => results.get(name)!.eventsPerSecond;
    const rows = KINDS.flatMap(({ kind }) =>
      MODES.map((mode) => ({
        '': `${kind}: ${mode}`,
        ...turnCells(results.get(`${kind}: ${mode}`)!, {
          'to everysec': speed(`${kind}: ${mode}`) / speed(`${kind}: everysec`),
        }),
      })),
    );
    const groups = KINDS.map(({ kind }) => ({
      name: kind,
      bars: MODES.map((mode) => ({ name: mode, value: speed(`${kind}: ${mode}`) })),
    }));
    const question = 'what does it cost to write to the disk before every answer?';
    const command = `npm run bench -- fsync --turns ${options.turns} --seconds ${options.seconds}`;
    const charts = [
      { kind: 'bars' as const, title: 'Append-only file: everysec and always', unit: 'events/s', groups },
    ];
    hand({ line: 'fsync', question, command, rows, charts }, machine);
    return true;
  } finally {
    for (const service of services) await service.stop();
  }
}
