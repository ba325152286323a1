// How a process lives: its parts start in order, and stop in the reverse order when it gets the signal to end.
// Used by every process (front, pipelines, supervisor). A part that cannot start stops those before it.
// Invariant: after SIGTERM, and the time that load balancers are given (GATEHOUSE_DRAIN_SECONDS), a process accepts
// nothing new, finishes what it has accepted and ends within DRAIN_MS_MAX.
// Failure: an uncaught error leaves the process in an unknown state, so it is logged and the process ends;
// the supervisor starts it again. A second signal ends it at once.
import { Periodic } from '../common/async.ts';
import type { Log } from './log.ts';

/** Kubernetes and systemd wait 30 s and longer before they kill; 25 s leaves them a margin. */
const DRAIN_MS_MAX = 25_000;
/** `npm start` passes a Ctrl-C on that the terminal has already sent: within this time it is still the first signal. */
const SAME_SIGNAL_MS = 1_000;

export type Part = {
  name: string;
  start(): Promise<void> | void;
  stop(): Promise<void> | void;
};

/** Work that is done at the start and every `everyMs`. It must not reject. The start does not wait for it. */
export function periodicPart(name: string, everyMs: number, work: () => Promise<void>): Part {
  const runs = new Periodic(everyMs, work);
  return {
    name,
    start() {
      runs.start();
      void runs.run();
    },
    stop: () => runs.stop(),
  };
}

export class Service {
  readonly #parts: readonly Part[];
  readonly #log: Log;
  #started: Part[] = [];
  #stopped: Promise<void> | undefined;

  constructor(parts: readonly Part[], log: Log) {
    this.#parts = parts;
    this.#log = log;
  }

  /** Rejects with the error of the first part that could not start, after the ones before it have stopped. */
  async start(): Promise<void> {
    for (const part of this.#parts) {
      if (this.#stopped) return;
      this.#started.push(part);
      try {
        await part.start();
      } catch (error) {
        if (!this.isStopping) await this.#drain();
        throw error;
      }
    }
  }

  get isStopping(): boolean {
    return this.#stopped !== undefined;
  }

  /** Stops what was started, last first. Never rejects: a part that cannot stop must not keep the others from it. */
  stop(): Promise<void> {
    this.#stopped ??= this.#drain();
    return this.#stopped;
  }

  async #drain(): Promise<void> {
    for (const part of this.#started.toReversed()) {
      const startedMs = performance.now();
      try {
        await part.stop();
        this.#log.debug({ part: part.name, ms: Math.round(performance.now() - startedMs) }, 'part.stopped');
      } catch (error) {
        this.#log.error({ part: part.name, err: error }, 'part.stop_failed');
      }
    }
    this.#started = [];
  }
}

type ProcessOptions = {
  service: Service;
  log: Log;
  /**
   * It ends when its parent is gone, which it may learn late. Left out: where there is a channel to the parent by
   * now.
   */
  isSupervised?: boolean;
  /** Waited for at a signal, before anything stops; at most `leavingMs`, which is 0 where it is left out. */
  onLeaving?: () => Promise<void>;
  leavingMs?: number;
  /** Called once all parts run. */
  onReady?: () => void;
  /** Instead of the log, where people look. */
  onStartFailed?: (error: unknown) => void;
  /** A second signal came: the process ends as soon as this returns. */
  onKilled?: () => void;
};

/**
 * Runs a service until a signal, or until the parent process is gone (its IPC channel closes), then drains it and
 * exits: 0 after a drain, 1 when it could not start, broke or did not drain in time.
 */
export async function runProcess(options: ProcessOptions): Promise<void> {
  const { service, log } = options;
  leaveOnSignals(options);
  leaveOnBugs(log);
  try {
    await service.start();
  } catch (error) {
    if (service.isStopping) return; // a signal came first, and its drain will end the process
    if (options.onStartFailed) options.onStartFailed(error);
    else log.error({ err: error }, 'process.start_failed');
    process.exit(1);
  }
  if (!service.isStopping) options.onReady?.();
}

function leaveOnSignals(options: ProcessOptions): void {
  const { service, log, isSupervised = process.connected, onKilled, onLeaving, leavingMs = 0 } = options;
  let firstMs: number | undefined;
  const leave = async (reason: string): Promise<void> => {
    if (firstMs !== undefined) {
      if (performance.now() - firstMs < SAME_SIGNAL_MS || reason === 'disconnect') return;
      log.warn({ reason }, 'process.killed');
      onKilled?.();
      process.exit(1);
    }
    firstMs = performance.now();
    const msMax = leavingMs + DRAIN_MS_MAX;
    setTimeout(() => {
      log.error({ ms: msMax }, 'process.drain_timed_out');
      process.exit(1);
    }, msMax).unref();
    if (reason !== 'disconnect') await onLeaving?.();
    log.info({ reason }, 'process.draining');
    await service.stop();
    log.info({ ms: Math.round(performance.now() - firstMs) }, 'process.drained');
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void leave(signal));
  if (!isSupervised) return;
  process.on('disconnect', () => void leave('disconnect'));
  if (!process.connected) void leave('disconnect'); // it went before we listened
}

function leaveOnBugs(log: Log): void {
  const die = (kind: string) => (error: unknown) => {
    log.error({ kind, err: error }, 'process.broken');
    process.exit(1);
  };
  process.on('uncaughtException', die('exception'));
  process.on('unhandledRejection', die('rejection'));
  // A terminal or a log reader that went away is no reason to stop serving.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}
