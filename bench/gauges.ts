// What the service says of itself while it is measured: accepted and stored events by its /metrics, summed over its processes,
// and the backlog between them.
import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchService } from './service.ts';

export type Gauges = { accepted: number; taken: number; backlog: number };

const DRAIN_MS_MAX = 300_000;

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
