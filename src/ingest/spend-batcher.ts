// Asks the counters of budgets for all submissions of an event loop tick in one round trip (between the rate limits and
// the decision; policy/quotas/spend-store.ts).
// Failure: if they cannot be asked the submissions that wait are refused (fail closed); what was reserved ends by
// itself after its hold.
import { notRecorded, type ServiceError } from '../common/errors.ts';
import type { SpendAnswer, SpendRequest, SpendStore } from '../policy/quotas/spend-store.ts';

/** One of the two is called, once. Neither may throw. */
type SpendWaiter = {
  /** In the order of what was asked. */
  spent(answers: readonly SpendAnswer[]): void;
  refused(error: ServiceError): void;
};
type SpendCalls = { account: string; requests: readonly SpendRequest[]; waiter: SpendWaiter };

export class SpendBatcher {
  readonly #store: Pick<SpendStore, 'run' | 'together'>;
  #asked: SpendCalls[] = [];

  constructor(store: Pick<SpendStore, 'run' | 'together'>) {
    this.#store = store;
  }

  /** Refuses with ServiceError `unavailable`, and with nothing else. */
  ask(account: string, requests: readonly SpendRequest[], waiter: SpendWaiter): void {
    if (this.#asked.push({ account, requests, waiter }) === 1) setImmediate(() => this.#flush());
  }

  /** Not waited for: what is not released ends by itself. */
  release(account: string, requests: readonly SpendRequest[]): void {
    if (requests.length > 0) this.#store.run(account, requests).catch(() => undefined);
  }

  #flush(): void {
    const asked = this.#asked;
    this.#asked = [];
    this.#store.together(() => {
      for (const { account, requests, waiter } of asked)
        this.#store.run(account, requests).then(
          (answers) => waiter.spent(answers),
          (cause: unknown) => waiter.refused(notRecorded('A budget could not be checked', cause)),
        );
    });
  }
}
