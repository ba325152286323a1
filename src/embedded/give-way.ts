// Lets what can wait give way to what somebody waits for: pipelines and ClickHouse run at a lower priority than fronts and
// Redis (beside child.ts, right after a child's start). A front answers a caller within milliseconds or he waits; a batch that
// is stored a little later is noticed by nobody, and if it comes to stand still the backlog's bound refuses new events, which
// gives the processor back. Two that compete share 2 to 1. (At 5, that is 3 to 1, pipelines on a machine with much other work
// stood still for longer than a command to Redis may take.)
// Linux counts the priority for each thread, and a thread hands it on to those that it starts: so it is set at once, from
// outside, before the child has started any. Where the kernel groups processes by session (autogroup, the default outside
// containers) it weighs the groups, and each child has a session of its own: then the group's weight is set as well.
// Failure: a system that does not let us goes on without; nothing but latency under load depends on it.
import { writeFileSync } from 'node:fs';
import os from 'node:os';

/** Half of the usual weight. */
export const NICE = 3;

export function giveWay(pid: number): void {
  try {
    os.setPriority(pid, NICE);
    writeFileSync(`/proc/${pid}/autogroup`, String(NICE));
  } catch {
    // Another system, no such file, or not allowed.
  }
}
