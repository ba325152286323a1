// The counters of shadows that are rate limits (between the decision and the encoding of an event that such a shadow
// judges). The same counters as those of policies in force, each under its own policy's name, asked by a batcher of
// their own, so that neither waits for the other or fails with it.
// Invariant: an event waits for them for ANSWER_MS_MAX at most, once in AWAY_MS; what has no answer by then is unknown,
// and its shadows are skipped. Nothing is refused. Permits whose answer came late stay counted for one window.
import type { QuotaGrant, QuotaRequest, RateLimitBatcher } from './rate-limit-batcher.ts';

/** Redis answers within 2 ms, under load within 10. */
const ANSWER_MS_MAX = 50;
/** Nothing is asked for so long after an answer failed to come. */
const AWAY_MS = 1_000;

/** undefined: unknown. */
type ShadowGrant = QuotaGrant | undefined;

export class ShadowCounters {
  readonly #batcher: Pick<RateLimitBatcher, 'ask'>;
  /** Monotonic ms. */
  #awayUntilMs = 0;

  constructor(batcher: Pick<RateLimitBatcher, 'ask'>) {
    this.#batcher = batcher;
  }

  /** `answered`: called once, perhaps before this returns, with one answer for each request. */
  ask(
    account: string,
    agent: string,
    requests: readonly QuotaRequest[],
    answered: (grants: readonly ShadowGrant[]) => void,
  ): void {
    const grants = new Array<ShadowGrant>(requests.length).fill(undefined);
    if (performance.now() < this.#awayUntilMs) {
      answered(grants);
      return;
    }
    let waiting = requests.length;
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      waiting = 0;
      answered(grants);
    };
    const settle = (i: number, grant: ShadowGrant) => {
      if (waiting === 0) return;
      grants[i] = grant;
      if (--waiting === 0) end();
    };
    // One by one: what fails of one limit is none of another's.
    for (const [i, request] of requests.entries()) {
      this.#batcher.ask(account, agent, [request], {
        counted: ([grant]) => settle(i, grant),
        refused: () => {
          this.#awayUntilMs = performance.now() + AWAY_MS;
          settle(i, undefined);
        },
      });
    }
    if (waiting === 0) return;
    timer = setTimeout(() => {
      this.#awayUntilMs = performance.now() + AWAY_MS;
      end();
    }, ANSWER_MS_MAX);
  }
}
