// Ends a process whose thread is blocked: a blocked event loop serves no request, although the process is alive.
// The supervisor or a service manager starts it again.
// A part of each front and pipelines process. The process beats; a thread of its own (stall-guard-thread.ts) counts the
// beats, and where there are none for too long writes into the log what was begun last, and kills the process.
// Invariant: only time in which the guard itself has run counts, so a process that was stopped, or a machine that
// slept, is not ended.
// Failure: a guard that cannot be started, or ends, is said in the log; the process continues without.
import { Worker } from 'node:worker_threads';
import { LOOP_STILL_MS_MAX } from '../common/limits.ts';
import { assetPath } from './assets.ts';
import { currentWork } from './current-work.ts';
import type { Part } from './lifecycle.ts';
import type { Log } from './log.ts';

const BEAT_MS = 250;
/** The memory that a thread of Node.js takes to begin; this one holds a counter and a sentence beyond that. */
const HEAP_MB = 16;

export type GuardData = { shared: SharedArrayBuffer; everyMs: number; stillMsMax: number; processName: string };

export class StallGuard implements Part {
  readonly name = 'stall guard';
  readonly #options: { processName: string; log: Log; stillMsMax?: number };
  #beating: NodeJS.Timeout | undefined;
  #thread: Worker | undefined;

  constructor(options: { processName: string; log: Log; stillMsMax?: number }) {
    this.#options = options;
  }

  start(): void {
    const { processName, log, stillMsMax = LOOP_STILL_MS_MAX } = this.#options;
    this.#beating = setInterval(() => currentWork.beat(), BEAT_MS);
    this.#beating.unref();
    const workerData: GuardData = { shared: currentWork.shared, everyMs: BEAT_MS, stillMsMax, processName };
    const thread = new Worker(assetPath('build/service/stall-guard-thread.js'), {
      workerData,
      // Nothing that the process was started with is for the thread.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: 1 },
    });
    thread.on('error', (error) => log.error({ err: error }, 'stall_guard.ended'));
    thread.unref();
    this.#thread = thread;
  }

  async stop(): Promise<void> {
    clearInterval(this.#beating);
    await this.#thread?.terminate();
  }
}
