// Lets the engine's merges give way to its inserts and queries (beside chdb-sessions.ts, in the engine's process; Linux only).
// Merges cost more than the inserts that they follow, text indexes above all (clickhouse/001_events.sql), and nobody waits for
// them: what has not been merged yet is found all the same. At an equal priority they took half of the engine's time just
// when events came fastest, and the backlog grew for it.
// The engine has a setting for this, os_threads_nice_value_merge_mutate, and passes over it without CAP_SYS_NICE, though
// nobody needs a right to step back. So its threads are found by their name.
// Invariant: merges are never stopped. With nothing else to do they have the whole machine; beside a busy engine about a tenth
// of its time; and should parts pile up nevertheless, the engine slows inserts down by itself (parts_to_delay_insert).
// Failure: where a thread cannot be found or changed, merges run as they would have.
import { readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';

/** The engine's name for threads of its pool of merges and mutations. */
const THREAD_NAME = 'MergeMutate';
const TASKS = '/proc/self/task';
/** The engine itself runs at 5 (give-way.ts). */
const NICE = 15;
/** The pool may grow, and its threads may be made late. */
const LOOK_EVERY_MS = 5_000;

/** Begins to keep the threads of merges at a low priority. Returns what ends it. */
export function lowerMerges(): () => void {
  if (process.platform !== 'linux') return () => undefined;
  const lowered = new Set<number>();
  const look = () => lowerNew(lowered);
  look();
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** Threads live as long as the process, so each is changed once. */
function lowerNew(lowered: Set<number>): void {
  for (const task of mergeThreads()) {
    if (lowered.has(task)) continue;
    try {
      os.setPriority(task, NICE);
      lowered.add(task);
    } catch {
      // It has just ended, or may not be changed.
    }
  }
}

function mergeThreads(): number[] {
  try {
    return readdirSync(TASKS)
      .map(Number)
      .filter((task) => isMerge(task));
  } catch {
    return [];
  }
}

function isMerge(task: number): boolean {
  try {
    return readFileSync(`${TASKS}/${task}/comm`, 'utf8').trim() === THREAD_NAME;
  } catch {
    return false;
  }
}
