// Remembers when keys, sessions or connections were last used and writes it down in the background (beside the path;
// `last_used_at`). A request costs a map entry; Redis hears of it every KEY_USES_FLUSH_MS, each key at most once.
// A flush that fails loses at most that much precision: the next use is noted again.
import { Periodic } from '../../common/async.ts';
import { KEY_USES_FLUSH_MS } from '../../common/limits.ts';

/** Takes down last uses: id -> epoch ms. */
type Touched = { touch(account: string, uses: ReadonlyMap<string, number>): Promise<void> };

export class KeyUses {
  readonly #of: Touched;
  #uses = new Map<string, Map<string, number>>();
  readonly #flushes = new Periodic(KEY_USES_FLUSH_MS, () => this.flush());

  constructor(of: Touched) {
    this.#of = of;
  }

  start(): void {
    this.#flushes.start();
  }

  note(account: string, id: string, nowMs: number): void {
    let keys = this.#uses.get(account);
    if (keys === undefined) {
      keys = new Map();
      this.#uses.set(account, keys);
    }
    keys.set(id, nowMs);
  }

  async flush(): Promise<void> {
    const uses = this.#uses;
    this.#uses = new Map();
    for (const [account, keys] of uses) await this.#of.touch(account, keys).catch(() => undefined);
  }

  async stop(): Promise<void> {
    await this.#flushes.stop();
    await this.flush();
  }
}
