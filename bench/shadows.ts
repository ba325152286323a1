// Question: what do shadows cost an event?
// Method: batches over a closed loop, 20 policies, with 20 copies of them as shadows and without, in turns, medians
// over the turns; what counts is the processor time of the front per event, one against the other. As most events of an
// account, these match none of them; in a third setting two of the shadows match each event, so that there is something
// to write down of every one. Beside it what was said, and what was skipped, being over the shadows' allowance.
import { gatehouse } from './contenders.ts';
import { policiesOf } from './policies.ts';
import { beginLine, hand } from './report.ts';
import { type Entrant, runRounds, turnCells } from './rounds.ts';
import { startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { BATCH_EVENTS, bodiesOf, type PolicyOrder, requestsOf, sampleEvent } from './workload.ts';

const POLICIES = 20;
const CONNECTIONS = 8;

export async function shadows(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('shadows');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  try {
    const [agent] = (await makeAgents(service, 1)) as [string];
    const bodies = bodiesOf(BATCH_EVENTS, (i) => sampleEvent(i));
    const load = requestsOf([{ agent, key: service.key }], { events: BATCH_EVENTS, connections: CONNECTIONS }, bodies);
    const inForce = policiesOf(POLICIES);
    const tried = inForce.map((policy): PolicyOrder => ({ ...policy, name: `tried ${policy.name}`, mode: 'shadow' }));
    const all = { type: 'block_action', conditions: {}, actions: ['block'], mode: 'shadow' } as const;
    const matching = ['one', 'two'].map((name): PolicyOrder => ({ ...all, name, actions: ['block'] }));
    const sets = {
      'no shadows': inForce,
      '20 shadows': [...inForce, ...tried],
      '20 shadows, two match each event': [...inForce, ...tried.slice(2), ...matching],
    };
    const entrants = Object.entries(sets).map(
      ([name, policies]): Entrant => ({
        ...{ name, contender: gatehouse(service), load },
        before: () => setPolicies(service, policies),
      }),
    );
    const results = await runRounds(entrants, { ...options, services: [service] });
    const without = results.get('no shadows')!.cpu['front']!;
    const rows = Object.keys(sets).map((name) => {
      const turn = results.get(name)!;
      return { '': name, ...turnCells(turn), 'front to none': turn.cpu['front']! / without };
    });
    const { said, skipped } = await countsOf(service);
    rows.push({ '': `verdicts ${said}, skipped ${skipped}` } as (typeof rows)[number]);
    const command = `npm run bench -- shadows --turns ${options.turns} --seconds ${options.seconds}`;
    hand({ line: 'shadows', question: 'what do shadows cost an event?', command, rows }, machine);
    return true;
  } finally {
    await service.stop();
  }
}

/** The counts of all fronts, since they started. */
async function countsOf({ url, key }: { url: string; key: string }): Promise<{ said: number; skipped: number }> {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${key}` } });
  const text = await response.text();
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{.*\\} (\\d+)$`, 'gm'))].reduce((total, [, n]) => total + Number(n), 0);
  return { said: sum('gatehouse_shadow_verdicts_total'), skipped: sum('gatehouse_shadow_skips_total') };
}
