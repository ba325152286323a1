// Asks the memory of sequences for all submissions of an event loop tick in one round trip, those of an account in one
// call (between the rate limits and the decision; quotas/sequence-store.ts). Submissions of one account are counted in
// the order in which they came.
// Failure: if it cannot be asked the submissions that wait are refused (fail closed); steps that were kept stay kept.
import { notRecorded, type ServiceError } from '../common/errors.ts';
import {
  EVENTS_AT_ONCE,
  type SequenceStore,
  type SequencesCounted,
  type ToCount,
} from '../policy/quotas/sequence-store.ts';

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
      for (const calls of callsOf(asked)) {
        const [{ account, asked: first }] = calls;
        this.#store.count(account, calls.length === 1 ? first : joined(calls)).then(
          (counted) => answer(calls, counted),
          (cause: unknown) => {
            const error = notRecorded('What occurred before could not be asked', cause);
            for (const { waiter } of calls) waiter.refused(error);
          },
        );
      }
    });
  }
}

type Calls = [PendingAsk, ...PendingAsk[]];

/** Neighbours of one account that a call has room for go in one. */
function callsOf(asked: readonly PendingAsk[]): Calls[] {
  const calls: Calls[] = [];
  const open = new Map<string, { calls: Calls; events: number }>();
  for (const one of asked) {
    const { account, asked: of } = one;
    const last = open.get(account);
    const isAlike = last?.calls[0].asked.isAlone === of.isAlone;
    if (last !== undefined && isAlike && last.events + of.events.length <= EVENTS_AT_ONCE) {
      last.calls.push(one);
      last.events += of.events.length;
    } else {
      const next = { calls: [one] as Calls, events: of.events.length };
      open.set(account, next);
      calls.push(next.calls);
    }
  }
  return calls;
}

function joined(calls: Calls): ToCount {
  const of = ({ asked: { events, submission } }: PendingAsk) => events.map((event) => ({ ...event, submission }));
  return { ...calls[0].asked, events: calls.flatMap(of) };
}

function answer(calls: Calls, { answers, ...counted }: SequencesCounted): void {
  let from = 0;
  for (const { asked, waiter } of calls) {
    const end = from + asked.events.length;
    waiter.sequencesCounted({ ...counted, answers: answers.slice(from, end) });
    from = end;
  }
}
