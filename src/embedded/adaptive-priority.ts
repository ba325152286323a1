// Adapts the priority of pipelines and ClickHouse while they run: lower while storing keeps up, normal when it is
// behind. A part of the supervisor, beside process-priority.ts, which sets the initial priorities. Pipelines report
// several times a second how far storing is behind.
// A low priority at all times would let them starve on a machine with much other work, and where fronts accept more
// than can be stored the backlog would take longer to stop that. A normal priority at all times costs latency: at half
// of what can be stored, a front or Redis that wakes up finds one of them on the processor and waits for a kernel tick
// (4 ms): p99 of single events 5.9 instead of 7.7 ms, with short time slices. Only the weight of a child's autogroup
// changes, since raising any other priority again needs privileges. Where the kernel has no autogroups, or a
// container's group replaces them, the initial priorities stay.
// Invariant: a missed report for SILENT_MS, or a lag of more than BEHIND_MS, restores the normal priority at once.
// Failure: a weight that cannot be set is tried again, soon where the kernel says so; only latency depends on it.
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import { BEHIND_SAID_MS } from './ipc.ts';
import { NICE, setGroupNice } from './process-priority.ts';

/** A tenth of the usual weight, and a seventieth. */
export const LOWERED_NICE: typeof NICE = { pipelines: 10, clickhouse: 19 };

/** Usual are 0.2 s, of which 0.1 are GATEHOUSE_STORE_LINGER_MS; the promise is a second. */
const BEHIND_MS = 1_000;
const SILENT_MS = 4 * BEHIND_SAID_MS;
/** They have kept up for so long before they run at a lower priority; doubled each time that it did not last. */
const KEPT_UP_MS = 2_000;
const KEPT_UP_MS_MAX = 300_000;
/** Without privileges the kernel takes one change in 100 ms. */
const AGAIN_MS = 110;
/**
 * Nothing to store for so long: no other work has to go first, and a query of an analyst may meet other work of the
 * machine.
 */
const IDLE_MS = 60_000;

type AdaptivePriorityOptions = {
  /** Their processes as they are now. */
  pidOf: (child: keyof typeof NICE) => number | undefined;
  log: Log;
  /** Monotonic ms. */
  now?: () => number;
};

export class AdaptivePriority implements Part {
  readonly name = 'adaptive priority';
  readonly #options: AdaptivePriorityOptions;
  readonly #now: () => number;
  /** Pid -> what it has, where we could set it. */
  #set = new Map<number, number>();
  #isLowered = false;
  #keptUpMs = KEPT_UP_MS;
  /** Monotonic ms. */
  #behindAt = 0;
  #busyAt = 0;
  #loweredSince = Number.NEGATIVE_INFINITY;
  #silence: NodeJS.Timeout | undefined;
  #again: NodeJS.Timeout | undefined;
  #stopped = true;

  constructor(options: AdaptivePriorityOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  start(): void {
    this.#stopped = false;
    this.#behindAt = this.#now();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#silence);
    clearTimeout(this.#again);
    // They end what they have begun.
    this.#isLowered = false;
    this.#apply();
  }

  /** `behindMs`: age of the oldest event that is known and not stored; 0: there is none. */
  heard(behindMs: number): void {
    if (this.#stopped) return;
    const now = this.#now();
    clearTimeout(this.#silence);
    this.#silence = setTimeout(this.#hurry, SILENT_MS).unref();
    if (behindMs > 0) this.#busyAt = now;
    if (behindMs > BEHIND_MS) this.#hurry();
    else if (this.#isLowered && now - this.#busyAt > IDLE_MS) this.#setLowered(false);
    else if (!this.#isLowered && behindMs > 0 && now - this.#behindAt >= this.#keptUpMs) this.#setLowered(true);
    this.#apply();
  }

  readonly #hurry = (): void => {
    const now = this.#now();
    this.#behindAt = now;
    if (this.#isLowered) {
      const lasted = now - this.#loweredSince;
      this.#keptUpMs = lasted < this.#keptUpMs ? Math.min(2 * this.#keptUpMs, KEPT_UP_MS_MAX) : KEPT_UP_MS;
      this.#setLowered(false);
    }
    this.#apply();
  };

  #setLowered(isLowered: boolean): void {
    this.#isLowered = isLowered;
    if (isLowered) this.#loweredSince = this.#now();
    this.#options.log.debug({ isLowered, keptUpMs: this.#keptUpMs }, 'priority.changed');
  }

  readonly #apply = (): void => {
    const set = new Map<number, number>();
    for (const child of ['pipelines', 'clickhouse'] as const) {
      const pid = this.#options.pidOf(child);
      if (pid === undefined) continue;
      const nice = (this.#isLowered ? LOWERED_NICE : NICE)[child];
      if (this.#set.get(pid) === nice || this.#trySet(pid, nice)) set.set(pid, nice);
    }
    this.#set = set;
  };

  #trySet(pid: number, nice: number): boolean {
    try {
      setGroupNice(pid, nice);
      return true;
    } catch (error) {
      clearTimeout(this.#again);
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') this.#again = setTimeout(this.#apply, AGAIN_MS).unref();
      return false;
    }
  }
}
