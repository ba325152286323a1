// Memory of a service's processes over time, by part, while something else loads them (for the lines that promise a
// bound on it).
import { setTimeout as sleep } from 'node:timers/promises';
import { rssByPart } from './processes.ts';
import type { BenchService } from './service.ts';

const PARTS = ['front', 'redis', 'pipelines', 'clickhouse'] as const;
type Part = (typeof PARTS)[number];
/** Resident bytes; a part of several processes is their sum. */
export type Memory = { second: number } & Record<Part, number>;

export const MB = 1024 * 1024;

/** One reading every so many seconds, until `stop`. `onReading`: for progress. */
export async function watchMemory(
  service: BenchService,
  stop: AbortSignal,
  { everySeconds = 1, onReading }: { everySeconds?: number; onReading?: (memory: Memory) => void } = {},
): Promise<Memory[]> {
  const processes = await service.children();
  const started = performance.now();
  const memory: Memory[] = [];
  while (!stop.aborted) {
    const rss = rssByPart(processes);
    const of = (part: Part) => rss.get(part) ?? 0;
    const second = (performance.now() - started) / 1000;
    const [front, redis, pipelines, clickhouse] = [of('front'), of('redis'), of('pipelines'), of('clickhouse')];
    memory.push({ second, front, redis, pipelines, clickhouse });
    onReading?.(memory.at(-1)!);
    await sleep(everySeconds * 1_000, undefined, { signal: stop }).catch(() => undefined);
  }
  return memory;
}

export function memoryChart(memory: readonly Memory[], title: string) {
  const series = PARTS.map((name) => ({ name, points: memory.map((at) => ({ x: at.second, y: at[name] / MB })) }));
  return { kind: 'lines' as const, title, xTitle: 'seconds', yTitle: 'MB resident', series };
}
