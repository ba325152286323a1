// Whose work is next, where the works of many accounts share what cannot do all at once: a front's queries
// (clickhouse/client.ts), and events that take long to judge (ingest/judging-worker.ts). ClickHouse works on all that
// it is given at once, so sixteen searches of one account would make a list of another wait for sixteen shares of the
// machine. An account has a few works under way, the rest of its own wait in line; accounts take turns, so one that
// asks for little waits for no line of another's.
// Invariant: at most `accountMax` under way for an account and `max` for all; at most `waitingMax` of an account wait,
// any more is refused at once (QueueFull). Who gives up leaves the line.
// Failure: none of its own; what a work rejects with goes through.

/** Not begun: the account has as many works waiting as it may. */
export class QueueFull extends Error {
  override name = 'QueueFull';

  constructor(waitingMax: number) {
    super(`${waitingMax} of the account wait already`);
  }
}

type FairQueueOptions = { max: number; accountMax: number; waitingMax: number };

/** The line of one account. It is there while it has queries under way or waiting. */
type Line = { underWay: number; waiting: Set<() => void> };

export class FairQueue {
  readonly #options: FairQueueOptions;
  readonly #lines = new Map<string, Line>();
  #underWay = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  /** Rejects with QueueFull, with the signal's reason, or with what `work` rejects with. */
  async run<T>(account: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const line = this.#lineOf(account);
    if (this.#hasRoom(line) && line.waiting.size === 0) this.#begin(line);
    else await this.#turn(account, line, signal);
    try {
      return await work();
    } finally {
      this.#underWay--;
      line.underWay--;
      this.#next();
      this.#forget(account, line);
    }
  }

  #lineOf(account: string): Line {
    const known = this.#lines.get(account);
    if (known !== undefined) return known;
    const line = { underWay: 0, waiting: new Set<() => void>() };
    this.#lines.set(account, line);
    return line;
  }

  #hasRoom(line: Line): boolean {
    return this.#underWay < this.#options.max && line.underWay < this.#options.accountMax;
  }

  #begin(line: Line): void {
    this.#underWay++;
    line.underWay++;
  }

  async #turn(account: string, line: Line, signal: AbortSignal | undefined): Promise<void> {
    const { waitingMax } = this.#options;
    if (line.waiting.size >= waitingMax) throw new QueueFull(waitingMax);
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        line.waiting.delete(go);
        this.#forget(account, line);
        reject(signal!.reason as Error);
      };
      const go = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      line.waiting.add(go);
      signal?.addEventListener('abort', leave, { once: true });
    });
  }

  /** Who waits longest of the first account that has room begins; that account is the last one from now on. */
  #next(): void {
    for (const [account, line] of this.#lines) {
      const [go] = line.waiting;
      if (go === undefined || !this.#hasRoom(line)) continue;
      line.waiting.delete(go);
      this.#begin(line);
      this.#lines.delete(account);
      this.#lines.set(account, line);
      go();
      return;
    }
  }

  #forget(account: string, line: Line): void {
    if (line.underWay === 0 && line.waiting.size === 0 && this.#lines.get(account) === line)
      this.#lines.delete(account);
  }
}
