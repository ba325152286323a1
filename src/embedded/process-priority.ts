// Initial process priorities: pipelines and ClickHouse can wait, so they run below fronts and Redis, which get short
// time slices (beside child.ts, right after a child's start). A front must answer a caller within milliseconds; a batch
// that is stored a little later costs no one. adaptive-priority.ts changes them from then on.
// A pipeline process weighs half a front. (At nice 5, a third, on a machine with much other work pipelines starved for
// longer than a command to Redis may take.) ClickHouse weighs a fifth: its statements have minutes, and its inserts and
// merges are what callers notice: at nice 3, like the pipelines, p99 at half load was three times as long.
// Linux counts the priority for each thread, and a thread passes it on to those that it starts: so it is set at once,
// from outside, before the child has started any. Where the kernel groups processes by session (autogroup, the default
// outside containers) it weighs the groups, and each child has a session of its own: then the weight of the group is
// set as well.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import os from 'node:os';

/** Half of the usual weight, and a fifth. */
export const NICE = { pipelines: 3, clickhouse: 7 };
/** The least that there is: no one waits for a backtest. */
export const BACKTESTS_NICE = 19;

/** chrt and perl take 2 and 5 ms. */
const TOOL_MS_MAX = 1_000;
/** sched_setattr's number among the system calls of Linux. */
const SCHED_SETATTR: Partial<Record<NodeJS.Architecture, number>> = { x64: 314, arm64: 274 };
/** The kernel's own is 1.4 ms on two processors, 2.8 ms on eight; 0.1 ms is the least that it takes. */
const SHORT_TURN_NS = 300_000;

export function lowerPriority(pid: number, nice: number): void {
  spawnSync('chrt', ['--batch', '--all-tasks', '--pid', '0', String(pid)], { stdio: 'ignore', timeout: TOOL_MS_MAX });
  try {
    os.setPriority(pid, nice);
    setGroupNice(pid, nice);
  } catch {
    // Another system, no such file, or not allowed.
  }
}

/**
 * Sets the nice value of the process's autogroup: needs no privilege in either direction. Throws where there is none,
 * and EAGAIN within 100 ms of another change.
 */
export function setGroupNice(pid: number, nice: number): void {
  writeFileSync(`/proc/${pid}/autogroup`, String(nice));
}

/**
 * For a process that clients wait for: since Linux 6.12 a process that asks for short time slices need not wait, when
 * it wakes up, until another has had a turn of the usual length. It gets no more of the processor. Node has no call for
 * it, chrt one since util-linux 2.41; perl, which can make any system call, is there on every Debian and Ubuntu.
 */
export function useShortTimeSlices(pid: number): void {
  const number = SCHED_SETATTR[process.arch];
  if (process.platform !== 'linux' || number === undefined) return;
  const nice = niceOf(pid);
  if (nice === undefined) return;
  // struct sched_attr: size, policy (SCHED_OTHER), flags, nice, priority, runtime, deadline, period.
  const program =
    'syscall($ARGV[0] + 0, $ARGV[1] + 0, pack("LLQlLQQQ", 48, 0, 0, $ARGV[2] + 0, 0, $ARGV[3] + 0, 0, 0), 0)';
  const args = [number, pid, nice, SHORT_TURN_NS].map(String);
  spawnSync('perl', ['-e', program, '--', ...args], { stdio: 'ignore', timeout: TOOL_MS_MAX });
}

/** Undefined: it has ended already. */
function niceOf(pid: number): number | undefined {
  try {
    return os.getPriority(pid);
  } catch {
    return undefined;
  }
}
