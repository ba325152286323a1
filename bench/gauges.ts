// What the service says of itself while it is measured: accepted and stored events by its /metrics, summed over its
// processes, and the backlog between them.
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuByPart } from './processes.ts';
import type { BenchService } from './service.ts';

type Gauges = { accepted: number; taken: number; backlog: number };

const DRAIN_MS_MAX = 300_000;
/** An idle machine uses less of one core over REST_LOOK_MS: it measured 0.04 to 0.06. */
const REST_SHARE_MAX = 0.15;
const REST_LOOK_MS = 1_000;
/** Merging what a flood has stored takes seconds; so long, that another cause does not hold the run up. */
const REST_MS_MAX = 30_000;

export async function readGauges(service: BenchService): Promise<Gauges> {
  const text = await (await fetch(`${service.url}/metrics`, { signal: AbortSignal.timeout(10_000) })).text();
  const accepted = sumOf(text, 'gatehouse_accepted_events_total');
  const taken = sumOf(text, 'gatehouse_taken_events_total');
  return { accepted, taken, backlog: accepted - taken };
}

/** Waits until everything accepted is stored; answers how long that took, ms. */
export async function whenDrained(service: BenchService): Promise<number> {
  const started = performance.now();
  for (;;) {
    if ((await readGauges(service)).backlog <= 0) return performance.now() - started;
    if (performance.now() - started > DRAIN_MS_MAX) throw new Error('the backlog does not drain');
    await sleep(200);
  }
}

/**
 * Waits until everything accepted is stored and the service has done what comes behind that, ClickHouse's merges above
 * all, or REST_MS_MAX. Merges take processor and disk for seconds after the last event was stored, from the process
 * that has the next turn.
 */
export async function whenAtRest(service: BenchService): Promise<void> {
  await whenDrained(service);
  const processes = await service.children();
  const spent = () => [...cpuByPart(processes).values()].reduce((sum, seconds) => sum + seconds, 0);
  for (let waited = 0, before = spent(); waited < REST_MS_MAX; waited += REST_LOOK_MS) {
    await sleep(REST_LOOK_MS);
    const after = spent();
    if (((after - before) * 1000) / REST_LOOK_MS <= REST_SHARE_MAX) return;
    before = after;
  }
}

/** Over all label sets of the metric. */
export function sumOf(metrics: string, name: string): number {
  let sum = 0;
  for (const line of metrics.split('\n')) {
    if (!line.startsWith(name)) continue;
    const next = line[name.length];
    if (next === '{' || next === ' ') sum += Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return sum;
}
