// Remembers when keys were last used and writes it down in the background (beside the path; `last_used_at` of a key).
// A request costs a map entry; Redis hears of it every KEY_USES_FLUSH_MS, each key at most once.
// A flush that fails loses at most that much precision: the next use is noted again.
import { KEY_USES_FLUSH_MS } from '../limits.ts';
import type { ApiKeys } from '../registry/api-keys.ts';
import type { Principal } from '../registry/principal.ts';

export class KeyUses {
  readonly #apiKeys: Pick<ApiKeys, 'touch'>;
  #uses = new Map<string, Map<string, number>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(apiKeys: Pick<ApiKeys, 'touch'>) {
    this.#apiKeys = apiKeys;
  }

  start(): void {
    this.#timer = setInterval(() => void this.flush(), KEY_USES_FLUSH_MS);
    this.#timer.unref();
  }

  note(principal: Principal, nowMs: number): void {
    let keys = this.#uses.get(principal.account);
    if (keys === undefined) {
      keys = new Map();
      this.#uses.set(principal.account, keys);
    }
    keys.set(principal.keyId, nowMs);
  }

  async flush(): Promise<void> {
    const uses = this.#uses;
    this.#uses = new Map();
    for (const [account, keys] of uses) await this.#apiKeys.touch(account, keys).catch(() => undefined);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
