// What a measurement asks of /proc: processor time and memory of the processes under load, by the part that they are.
// Processor time counts in ticks of 10 ms, so a turn has to last seconds to say anything.
// A process that has ended counts 0: a run in which one was started again shows it in its figures.
import { readFileSync } from 'node:fs';

export type Watched = { name: string; pid: number };

const CLOCK_TICKS_PER_SECOND = 100; // USER_HZ of Linux
const PAGE_BYTES = 4096;

/** `front-1` and `front-2` are one part, `front`. */
export function partOf(name: string): string {
  return name.replace(/-\d+$/, '');
}

/** Seconds of processor time so far, by part. */
export function cpuByPart(processes: readonly Watched[]): Map<string, number> {
  return sumByPart(processes, cpuSeconds);
}

/** Resident bytes now, by part. */
export function rssByPart(processes: readonly Watched[]): Map<string, number> {
  return sumByPart(processes, rssBytes);
}

/** Microseconds of processor time per event since `before`, by part. */
export function cpuPerEvent(
  processes: readonly Watched[],
  before: ReadonlyMap<string, number>,
  events: number,
): Record<string, number> {
  const after = cpuByPart(processes);
  return Object.fromEntries([...after].map(([part, cpu]) => [part, ((cpu - (before.get(part) ?? 0)) * 1e6) / events]));
}

function sumByPart(processes: readonly Watched[], measure: (pid: number) => number): Map<string, number> {
  const sums = new Map<string, number>();
  for (const { name, pid } of processes) sums.set(partOf(name), (sums.get(partOf(name)) ?? 0) + measure(pid));
  return sums;
}

function cpuSeconds(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / CLOCK_TICKS_PER_SECOND;
}

function rssBytes(pid: number): number {
  return Number(statOf(pid)[21] ?? 0) * PAGE_BYTES;
}

/** The fields behind the command's name, which may hold anything. */
function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(') ') + 2).split(' ');
  } catch {
    return [];
  }
}
