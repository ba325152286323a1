// Asks the counters behind rate_limit policies for all events of a tick in one round trip (step 9 of the path: between
// judgement and decision). Checks of the same counter are asked for together, in the order in which they came, so that a
// limit reached at element 7 of a batch blocks element 8 onwards.
// Invariant: no check is answered without Redis. If the counters cannot be asked, every waiting submission is refused (fail closed).
import { ServiceError } from '../errors.ts';
import type { CounterCheck, Counters } from '../policy/counters.ts';
import type { RateCheck } from '../policy/engine.ts';
import type { Keys } from '../redis/keys.ts';

/** Places at one counter, for as many events. */
export type Ask = { check: RateCheck; places: number };
/** How many of the places are within the threshold, first come first; and when they were counted (epoch ms, Redis's clock). */
export type Count = { granted: number; atMs: number };

type Waiting = { answers: Count[]; index: number; places: number };
type Group = { check: CounterCheck; waiting: Waiting[] };
type Asker = { answers: Count[]; resolve: (counts: Count[]) => void; reject: (error: unknown) => void };

/** Told apart by what the key is made of: making one hashes text, and the events of a batch mostly share theirs. */
export function counterName(account: string, agent: string, check: RateCheck): string {
  return `${account}/${check.policyId}/${check.windowMs}/${check.counterScope === 'agent' ? agent : check.counterValue}`;
}

export class RateGate {
  readonly #counters: Pick<Counters, 'take'>;
  readonly #keys: Keys;
  #groups = new Map<string, Group>();
  #askers: Asker[] = [];

  constructor(counters: Pick<Counters, 'take'>, keys: Keys) {
    this.#counters = counters;
    this.#keys = keys;
  }

  /** In the order of what is asked. Rejects with ServiceError `unavailable`. */
  ask(account: string, agent: string, asks: readonly Ask[]): Promise<Count[]> {
    return new Promise((resolve, reject) => {
      const answers = new Array<Count>(asks.length);
      asks.forEach(({ check, places }, index) => {
        const group = this.#groupOf(account, agent, check);
        group.check.count += places;
        group.waiting.push({ answers, index, places });
      });
      if (this.#askers.push({ answers, resolve, reject }) === 1) setImmediate(() => void this.#flush());
    });
  }

  #groupOf(account: string, agent: string, check: RateCheck): Group {
    const name = counterName(account, agent, check);
    let group = this.#groups.get(name);
    if (group === undefined) {
      const { threshold, windowMs, takesPlaceWhenOver } = check;
      const key = this.#keyOf(account, agent, check);
      group = { check: { key, threshold, windowMs, takesPlaceWhenOver, count: 0 }, waiting: [] };
      this.#groups.set(name, group);
    }
    return group;
  }

  async #flush(): Promise<void> {
    const groups = [...this.#groups.values()];
    const askers = this.#askers;
    this.#groups = new Map();
    this.#askers = [];
    try {
      const taken = await this.#counters.take(groups.map((group) => group.check));
      groups.forEach((group, g) => {
        const { granted, atMs } = taken[g]!;
        let left = granted;
        for (const { answers, index, places } of group.waiting) {
          answers[index] = { granted: Math.min(places, left), atMs };
          left -= answers[index].granted;
        }
      });
      for (const { resolve, answers } of askers) resolve(answers);
    } catch (cause) {
      const error = new ServiceError('unavailable', 'A rate limit could not be checked; nothing was recorded.', {
        cause,
        recorded: false,
        retryAfterSeconds: 1,
      });
      for (const { reject } of askers) reject(error);
    }
  }

  /** The window is part of the name: a policy whose window changes starts on counters of the new width. */
  #keyOf(account: string, agent: string, check: RateCheck): string {
    const policy = `${check.policyId}/${check.windowMs}`;
    if (check.counterScope === 'agent') {
      return this.#keys.agentCounter(this.#keys.partitionOf(account, agent), policy, agent);
    }
    return this.#keys.accountCounter(account, policy, check.counterValue);
  }
}
