// The thread of a process's stall guard (stall-guard.ts says what for). It writes to standard error by itself: the
// streams of a thread go through the one that stands still.
import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { CurrentWork } from './current-work.ts';
import type { GuardData } from './stall-guard.ts';

const { shared, everyMs, stillMsMax, processName } = workerData as GuardData;
const work = new CurrentWork(shared);
let beats = work.beats;
/** Looks on end without a beat; each is an `everyMs` that this thread has run. */
let still = 0;

setInterval(() => {
  const now = work.beats;
  still = now === beats ? still + 1 : 0;
  beats = now;
  if (still * everyMs < stillMsMax) return;
  const line = {
    level: 'error',
    time: new Date().toISOString(),
    process: processName,
    pid: process.pid,
    stillMs: still * everyMs,
    begunLast: work.read(),
    msg: 'process.stands_still',
  };
  try {
    writeSync(2, `${JSON.stringify(line)}\n`);
  } finally {
    process.kill(process.pid, 'SIGKILL');
  }
}, everyMs);
