// Asks the memory of sequences for all submissions of an event loop tick in one round trip (between the rate limits and
// the decision; quotas/sequence-store.ts). Submissions of one account are counted in the order in which they came.
// Failure: if it cannot be asked the submissions that wait are refused (fail closed); steps that were kept stay kept.
import { notRecorded, type ServiceError } from '../common/errors.ts';
import type { SequenceStore, SequencesCounted, ToCount } from '../policy/quotas/sequence-store.ts';

/** One of the two is called, once. Neither may throw. */
type SequenceWaiter = {
  sequencesCounted(counted: SequencesCounted): void;
  refused(error: ServiceError): void;
};
type PendingAsk = { account: string; asked: ToCount; waiter: SequenceWaiter };

export class SequenceBatcher {
  readonly #store: Pick<SequenceStore, 'count' | 'settle' | 'together'>;
  #asked: PendingAsk[] = [];

  constructor(store: Pick<SequenceStore, 'count' | 'settle' | 'together'>) {
    this.#store = store;
  }

  /** Refuses with ServiceError `unavailable`, and with nothing else. */
  ask(account: string, asked: ToCount, waiter: SequenceWaiter): void {
    if (this.#asked.push({ account, asked, waiter }) === 1) setImmediate(() => this.#flush());
  }

  /**
   * They are recorded, and occurred at `atMs`. Never rejects: what is not kept of them counts as not having occurred,
   * which only `unless` asks for.
   */
  async settle(account: string, ids: readonly string[], atMs: number): Promise<void> {
    await this.#store.settle(account, ids, atMs).catch(() => undefined);
  }

  #flush(): void {
    const asked = this.#asked;
    this.#asked = [];
    this.#store.together(() => {
      for (const { account, asked: toCount, waiter } of asked)
        this.#store.count(account, toCount).then(
          (counted) => waiter.sequencesCounted(counted),
          (cause: unknown) => waiter.refused(notRecorded('What occurred before could not be asked', cause)),
        );
    });
  }
}
