// Supervises one child process: a child that ends by itself is started again, after a backoff that doubles from 100 ms
// to 5 s. It is between the supervisor and each of its children; the children are independent of one another, so the
// others continue.
// Invariant: at most one child of a name runs; after `stop` none does, however it ended.
// Failure: the first start may fail, and reports it; later starts are retried without end, since Redis and ClickHouse
// may come back late.
import { backoffMs } from '../common/async.ts';
import type { Log } from '../process/log.ts';
import { type Child, describeExit } from './child.ts';

const BACKOFF = { minMs: 100, maxMs: 5_000 };
/** A child that ran this long has started well; its next end is a new story. */
const STEADY_MS = 30_000;

type ChildSupervisorOptions = {
  name: string;
  launch: () => Child;
  log: Log;
  /** A start that takes longer is broken off; undefined: it may take as long as it takes (Redis reading its file). */
  startMsMax?: number;
  /** After each start, the first and any later one; `again`: it is a later one. */
  onLaunch?: (again: boolean) => void;
};

export class ChildSupervisor {
  readonly name: string;
  readonly #options: ChildSupervisorOptions;
  #child: Child | undefined;
  /** Starts in a row that did not last. */
  #attempt = 0;
  #launchedMs = 0;
  #stopping = false;
  #wake: () => void = () => undefined;
  #loop: Promise<void> | undefined;

  constructor(options: ChildSupervisorOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when the child is ready for the first time; rejects with ChildFailed when it is not to be had. */
  async start(): Promise<void> {
    const child = this.#launch(false);
    await child.ready;
    if (!this.#stopping) this.#loop = this.#keep();
  }

  /** Without waiting: one that does not get ready is started again like any other. */
  startAlone(): void {
    const { ready } = this.#launch(false);
    ready.catch((error: unknown) => this.#sayFailed(error));
    this.#loop = this.#keep();
  }

  /** Asks the child to leave; one that has not after `graceMs` is killed. */
  async stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    this.#wake();
    const child = this.#child;
    if (!child || child.pid === undefined) return;
    child.signal('SIGTERM');
    const timer = setTimeout(() => {
      this.#options.log.error({ child: this.name, ms: graceMs }, 'child.killed');
      child.signal('SIGKILL');
    }, graceMs);
    await child.exited;
    clearTimeout(timer);
    await this.#loop;
  }

  /** For an end at once: no waiting. */
  terminate(): void {
    this.#stopping = true;
    this.#child?.signal('SIGTERM');
  }

  /** Ends the child without waiting for what it does; the next one is started as after any end. */
  replace(): void {
    this.#child?.signal('SIGKILL');
  }

  send(message: object): boolean {
    return this.#child?.send(message) ?? false;
  }

  #launch(again: boolean): Child {
    const child = this.#options.launch();
    this.#child = child;
    this.#launchedMs = performance.now();
    this.#options.onLaunch?.(again);
    const { startMsMax } = this.#options;
    const timer = startMsMax === undefined ? undefined : setTimeout(() => child.signal('SIGKILL'), startMsMax);
    const settled = () => clearTimeout(timer);
    child.ready.then(settled, settled);
    return child;
  }

  async #keep(): Promise<void> {
    const { log } = this.#options;
    for (;;) {
      const child = this.#child!;
      const exit = await child.exited;
      if (this.#stopping) return;
      const upMs = performance.now() - this.#launchedMs;
      if (upMs > STEADY_MS) this.#attempt = 0;
      let againInMs = backoffMs(++this.#attempt, BACKOFF);
      log.error(
        {
          child: this.name,
          childPid: child.pid,
          exit: describeExit(exit),
          upMs: Math.round(upMs),
          againInMs,
        },
        'child.ended',
      );
      // Until there is a process: a machine without room or processes may have them later.
      do {
        await this.#pause(againInMs);
        if (this.#stopping) return;
        againInMs = backoffMs(++this.#attempt, BACKOFF);
      } while (!this.#launchAgain());
    }
  }

  /** Whether there is a process; it may fail to become ready all the same. */
  #launchAgain(): boolean {
    const { log } = this.#options;
    try {
      const { ready } = this.#launch(true);
      ready.then(
        () => log.info({ child: this.name, childPid: this.pid }, 'child.started_again'),
        (error: unknown) => this.#sayFailed(error),
      );
      return true;
    } catch (error) {
      this.#sayFailed(error);
      return false;
    }
  }

  /** One that we have asked to leave before it was ready has not failed. */
  #sayFailed(error: unknown): void {
    if (!this.#stopping) this.#options.log.error({ child: this.name, err: error }, 'child.start_failed');
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
