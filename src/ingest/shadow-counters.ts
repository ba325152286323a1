// What shadows ask Redis for: counters of rate limits and budgets, and what occurred before a sequence (between the
// decision and the encoding of an event that such a shadow judges). All as for policies in force, each under its own
// policy's name, asked by batchers of their own, so that neither waits for the other or fails with it.
// Invariant: an event waits for them for ANSWER_MS_MAX at most, once in AWAY_MS; what has no answer by then is unknown,
// and its shadows are skipped. Nothing is refused. What was done in Redis all the same stays: permits for one window,
// reservations for their hold, steps as they occurred.
import type { SequencesCounted, ToCount } from '../policy/quotas/sequence-store.ts';
import type { SpendAnswer, SpendRequest } from '../policy/quotas/spend-store.ts';
import type { QuotaGrant, QuotaRequest, RateLimitBatcher } from './rate-limit-batcher.ts';
import type { SequenceBatcher } from './sequence-batcher.ts';
import type { SpendBatcher } from './spend-batcher.ts';

/** Redis answers within 2 ms, under load within 10. */
const ANSWER_MS_MAX = 50;
/** Nothing is asked for so long after an answer failed to come. */
const AWAY_MS = 1_000;

export type ShadowsAsked = {
  limits: readonly QuotaRequest[];
  spends: readonly SpendRequest[];
  sequences: ToCount | undefined;
};
/** undefined: unknown. `limits`: one for each request. */
export type ShadowGrants = {
  limits: (QuotaGrant | undefined)[];
  spends: readonly SpendAnswer[] | undefined;
  sequences: SequencesCounted | undefined;
};
type Batchers = {
  limits: Pick<RateLimitBatcher, 'ask'>;
  spends: Pick<SpendBatcher, 'ask'>;
  sequences: Pick<SequenceBatcher, 'ask'>;
};
/** The callbacks for the end of a call. */
type Ends = { done: () => void; refused: () => void };

export class ShadowCounters {
  readonly #batchers: Batchers;
  readonly #answerMsMax: number;
  /** Monotonic ms. */
  #awayUntilMs = 0;

  constructor(batchers: Batchers, answerMsMax = ANSWER_MS_MAX) {
    this.#batchers = batchers;
    this.#answerMsMax = answerMsMax;
  }

  /** `answered`: called once, perhaps before this returns. */
  ask(account: string, agent: string, asked: ShadowsAsked, answered: (grants: ShadowGrants) => void): void {
    const grants = nothingOf(asked);
    if (performance.now() < this.#awayUntilMs) {
      answered(grants);
      return;
    }
    const calls = this.#calls(account, agent, asked, grants);
    let waiting = calls.length;
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      waiting = 0;
      // What comes later changes nothing of it.
      answered({ ...grants, limits: [...grants.limits] });
    };
    const done = () => {
      if (waiting > 0 && --waiting === 0) end();
    };
    const refused = () => {
      this.#awayUntilMs = performance.now() + AWAY_MS;
      done();
    };
    for (const call of calls) call({ done, refused });
    if (waiting === 0) return;
    timer = setTimeout(() => {
      this.#awayUntilMs = performance.now() + AWAY_MS;
      end();
    }, this.#answerMsMax);
  }

  /** Limits one by one: what fails of one is none of another's. */
  #calls(
    account: string,
    agent: string,
    { limits, spends, sequences }: ShadowsAsked,
    grants: ShadowGrants,
  ): ((ends: Ends) => void)[] {
    const { limits: counters, ...batchers } = this.#batchers;
    const calls = limits.map((request, i) => ({ done, refused }: Ends) => {
      const counted = ([grant]: readonly QuotaGrant[]) => {
        grants.limits[i] = grant;
        done();
      };
      counters.ask(account, agent, [request], { counted, refused });
    });
    if (spends.length > 0)
      calls.push(({ done, refused }) => {
        const spent = (answers: readonly SpendAnswer[]) => {
          grants.spends = answers;
          done();
        };
        batchers.spends.ask(account, spends, { spent, refused });
      });
    if (sequences !== undefined)
      calls.push(({ done, refused }) => {
        const sequencesCounted = (counted: SequencesCounted) => {
          grants.sequences = counted;
          done();
        };
        batchers.sequences.ask(account, sequences, { sequencesCounted, refused });
      });
    return calls;
  }
}

/** Nothing is known. */
export function nothingOf({ limits }: Pick<ShadowsAsked, 'limits'>): ShadowGrants {
  return { limits: limits.map(() => undefined), spends: undefined, sequences: undefined };
}
