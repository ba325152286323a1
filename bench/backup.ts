// Question: what do callers notice of a backup?
// Method: batches of 100 at a fixed rate in an open loop, so latency counts from the moment a request was due, for so
// many seconds without a backup and for as many with `gatehouse backup` again and again, each into the same folder, in
// turns, from rest; medians over the turns. A backup holds Redis's writes still until the parts of all tables have a
// second name, and then copies: the longest answers show the first, p99 what the copying takes of the machine. The
// command is a process of its own on the same two cores.
import { rm } from 'node:fs/promises';
import { makeDataDir, runCli } from '../test/support/service.ts';
import { whenEnded } from './ending.ts';
import { whenAtRest } from './gauges.ts';
import { type Summary, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { median } from './statistics.ts';
import { loadOf } from './sustained.ts';
import { BATCH_EVENTS, FIVE_POLICIES } from './workload.ts';

const AGENTS = 64;
/** The first part of a load: connections, caches, compiled code. */
const WARM_SECONDS = 1;

type Options = { turns: number; seconds: number; rate: number };
type Taken = { summary: Summary; backups: number };

export async function backup(options: Options): Promise<boolean> {
  const machine = beginLine('backup');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const folder = await makeDataDir();
  const removed = () => rm(folder, { recursive: true, force: true });
  const strike = whenEnded(removed);
  try {
    const agents = await makeAgents(service, AGENTS);
    await setPolicies(service, FIVE_POLICIES);
    const taken = { 'no backup': [] as Taken[], 'backups without a pause': [] as Taken[] };
    await atRate(service, agents, { ...options, folder: undefined });
    for (let turn = 1; turn <= options.turns; turn++) {
      for (const [name, all] of Object.entries(taken)) {
        const one = await atRate(service, agents, { ...options, folder: name === 'no backup' ? undefined : folder });
        all.push(one);
        progress(
          `turn ${turn}/${options.turns} ${name}: p99 ${one.summary.p99Ms.toFixed(1)} ms, ${one.backups} backups`,
        );
      }
    }
    const none = median(taken['no backup'].map(({ summary }) => summary.p99Ms));
    const rows = Object.entries(taken).map(([name, all]) => rowOf(name, all, none));
    const command = `npm run bench -- backup --turns ${options.turns} --seconds ${options.seconds} --rate ${options.rate}`;
    hand({ line: 'backup', question: 'what do callers notice of a backup?', command, rows }, machine);
    return true;
  } finally {
    await service.stop();
    await removed();
    strike();
  }
}

/** `folder`: of the backups that are taken meanwhile; undefined: none is. */
async function atRate(
  service: BenchService,
  agents: string[],
  { rate, seconds, folder }: Options & { folder: string | undefined },
): Promise<Taken> {
  const phases = [{ requestsPerSecond: rate / BATCH_EVENTS, seconds: seconds + WARM_SECONDS }];
  const loaded = loadOf({ service, agents, eventsPerRequest: BATCH_EVENTS }, phases);
  let [isOver, backups] = [folder === undefined, 0];
  const backing = (async () => {
    while (!isOver) {
      const args = ['backup', folder!, '--keep', '2'];
      const { code, stderr } = await runCli(args, { GATEHOUSE_DATA_DIR: service.dataDir });
      if (code !== 0) throw new Error(`no backup: ${stderr}`);
      backups++;
    }
  })();
  const samples = await loaded;
  isOver = true;
  await backing;
  await whenAtRest(service);
  return { summary: summarize(samples, WARM_SECONDS * 1000), backups };
}

function rowOf(name: string, all: readonly Taken[], none: number): Row {
  const of = (pick: (one: Taken) => number) => median(all.map(pick));
  const lost = of(({ summary: { failed, refused, unsent } }) => failed + refused + unsent);
  const p99 = of(({ summary }) => summary.p99Ms);
  return {
    '': name,
    'backups a turn': of(({ backups }) => backups),
    'p50 ms': of(({ summary }) => summary.p50Ms),
    'p99 ms': p99,
    'p99 to none': p99 / none,
    'longest ms': of(({ summary }) => summary.maxMs),
    ...(lost > 0 ? { 'not answered well': lost } : {}),
  };
}
