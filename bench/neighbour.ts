// Question: what does one account notice of the worst that another can do?
// Method: an open loop sends single events of one account, 200 a second, from a process of its own; latency counts from
// the moment each was due. Beside it another account does one thing over and over, as often as it is answered, so many
// at once: the costliest events, policies, searches and connections that its bounds allow. First nothing, to compare
// with: generator, attacker and service share the machine. Each begins when what the one before has left is done. The
// attacker gives way on the processor (nice): it stands for machines of its own. Promise: p99 under 50 ms, and no
// answer but success. An attacker may be refused, slowed, or answered late; how often it was served is printed. A part
// of names as an operand runs these beside nothing: `neighbour --turns 3 "1,000 events"`. Of several turns, one after
// the other, medians stand.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { assetPath } from '../src/process/assets.ts';
import { whenEnded } from './ending.ts';
import { whenAtRest } from './gauges.ts';
import { HttpClient } from './http-client.ts';
import { type Attack, attacks, type Counts, type Target } from './neighbour-attacks.ts';
import { startBadJudges } from './neighbour-outside.ts';
import { openLoad, type Summary, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAccounts, makeAgents, setPolicies } from './setup.ts';
import { median } from './statistics.ts';
import { bodiesOf, FIVE_POLICIES } from './workload.ts';

const P99_MS_MAX = 50;
const VICTIM_RATE = 200;
const VICTIM_CONNECTIONS = 16;
const WARM_SECONDS = 1;

type Options = { seconds: number; turns: number; part?: string | undefined };

export async function neighbour({ seconds, turns, part = '' }: Options): Promise<boolean> {
  const machine = beginLine('neighbour');
  const judges = await startBadJudges();
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1', ...judges.env });
  try {
    const all = [...attacks().entries()].filter(([i, { name }]) => i === 0 || name.includes(part));
    const [victimKey, ...keys] = await makeAccounts(service, turns * all.length + 1);
    const victim = { ...service, key: victimKey! };
    const agents = await makeAgents(victim, 8, 'victim');
    await setPolicies(victim, FIVE_POLICIES);
    const found = new Map<string, [Summary, Counts][]>(all.map(([, { name }]) => [name, []]));
    for (let turn = 0; turn < turns; turn++)
      for (const [attack, needs] of all) {
        await whenAtRest(service);
        const setting = { victim, agents, attack, needs, judgesUrl: judges.url, key: keys.pop()!, seconds };
        const one = await measured(service, setting);
        progress(`${needs.name}: p50 ${one[0].p50Ms}, p99 ${one[0].p99Ms} ms`);
        found.get(needs.name)!.push(one);
      }
    const rows = [...found].map(([name, ofTurns]) => rowOf(name, ofTurns));
    const question = 'what does one account notice of the worst that another can do?';
    hand(
      {
        line: 'neighbour',
        question,
        command: `npm run bench -- neighbour --seconds ${seconds} --turns ${turns} ${part}`.trim(),
        rows,
        charts: [],
      },
      machine,
    );
    return rows.every((row) => Number(row['p99 ms']) < P99_MS_MAX && row['not answered well'] === 0);
  } finally {
    await service.stop();
    await judges.stop();
  }
}

type Setting = {
  victim: { url: string; key: string };
  agents: readonly string[];
  attack: number;
  needs: Pick<Attack, 'policies' | 'prepares'>;
  judgesUrl: string;
  key: string;
  seconds: number;
};

async function measured(
  service: BenchService,
  { victim, agents, attack, needs: { policies, prepares }, judgesUrl, key, seconds }: Setting,
): Promise<[Summary, Counts]> {
  const attacker = { url: service.url, key };
  const [agent] = await makeAgents(attacker, 1, 'attacker');
  const client = new HttpClient({ ...attacker, connections: 1 });
  const made = (await prepares?.(client, judgesUrl)) ?? '';
  client.close();
  if (policies !== undefined) await setPolicies(attacker, policies);
  const end = beginAttack({ url: service.url, key, agent: agent!, attack, made });
  await sleep(1_000); // the first of its events builds what the policies need
  const bodies = bodiesOf(1);
  const requests = bodies.map((_, body) => ({
    path: `/v1/agents/${agents[body % agents.length]}/events`,
    ...{ key: victim.key, body },
  }));
  const phases = [{ requestsPerSecond: VICTIM_RATE, seconds: seconds + WARM_SECONDS }];
  const load = { url: victim.url, requests, bodies, phases, connections: VICTIM_CONNECTIONS };
  const summary = summarize(await openLoad(load), WARM_SECONDS * 1000);
  return [summary, await end()];
}

/** Medians of the turns, and of what should not be the sum. */
function rowOf(name: string, turns: readonly [Summary, Counts][]): Row {
  const middle = (of: (turn: [Summary, Counts]) => number) => median(turns.map(of));
  return {
    'another account': name,
    'p50 ms': middle(([{ p50Ms }]) => p50Ms),
    'p99 ms': middle(([{ p99Ms }]) => p99Ms),
    'longest ms': middle(([{ maxMs }]) => maxMs),
    'not answered well': turns.reduce((sum, [{ failed, refused, unsent }]) => sum + failed + refused + unsent, 0),
    'its own: served': middle(([, { served }]) => served),
    refused: middle(([, { refused }]) => refused),
  };
}

/** Answers how to end it. */
function beginAttack(target: Target): () => Promise<Counts> {
  const child = fork(assetPath('build/bench/neighbour-attacks.js'), ['attack']);
  const strike = whenEnded(() => child.kill('SIGKILL'));
  child.send(target);
  return async () => {
    child.send('end');
    const [counts] = (await once(child, 'message')) as [Counts];
    strike();
    return counts;
  };
}
