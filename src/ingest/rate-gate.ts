// Asks the counters behind rate_limit policies for all events of a tick in one round trip (step 9 of the path: between
// judgement and decision). Checks of the same counter are asked for together, in the order in which they came, so that a
// limit reached at element 7 of a batch blocks element 8 onwards.
// Invariant: no check is answered without Redis. If the counters cannot be asked, every waiting submission is refused (fail closed).
import { ServiceError } from '../errors.ts';
import type { CounterCheck, Counters, Taken } from '../policy/counters.ts';
import type { RateCheck } from '../policy/engine.ts';
import type { Keys } from '../redis/keys.ts';

/** Places at one counter, for as many events. */
export type Ask = { check: RateCheck; places: number };
/** How many of the places are within the threshold, first come first; and when they were counted (epoch ms, Redis's clock). */
export type Count = { granted: number; atMs: number };

/** Who asked. One of the two is called, once, after `ask` has returned; neither may throw, for others wait behind it. */
export type Asker = {
  /** In the order of what was asked. */
  counted(counts: readonly Count[]): void;
  refused(error: ServiceError): void;
};

type Waiting = { answers: Count[]; index: number; places: number };
type Group = { check: CounterCheck; waiting: Waiting[] };
type Asked = { answers: Count[]; asker: Asker };

/** Told apart by what the key is made of: making one hashes text, and the events of a batch mostly share theirs. */
export function counterName(account: string, agent: string, check: RateCheck): string {
  return `${account}/${check.policyId}/${check.windowMs}/${check.counterScope === 'agent' ? agent : check.counterValue}`;
}

export class RateGate {
  readonly #counters: Pick<Counters, 'take'>;
  readonly #keys: Keys;
  #groups = new Map<string, Group>();
  #asked: Asked[] = [];
  /** The group that was asked for last in this tick, by what: most events of a tick share it, and its name takes making. */
  #lastCheck: RateCheck | undefined;
  #lastAgent = '';
  #lastGroup: Group | undefined;

  constructor(counters: Pick<Counters, 'take'>, keys: Keys) {
    this.#counters = counters;
    this.#keys = keys;
  }

  /** Refuses with ServiceError `unavailable`, and with nothing else. */
  ask(account: string, agent: string, asks: readonly Ask[], asker: Asker): void {
    const answers = new Array<Count>(asks.length);
    for (let index = 0; index < asks.length; index++) {
      const { check, places } = asks[index]!;
      const group = this.#groupOf(account, agent, check);
      group.check.count += places;
      group.waiting.push({ answers, index, places });
    }
    if (this.#asked.push({ answers, asker }) === 1) setImmediate(this.#flush);
  }

  /** A check belongs to one account, so the same check again is the same counter, but for those that count by agent. */
  #groupOf(account: string, agent: string, check: RateCheck): Group {
    if (check === this.#lastCheck && (check.counterScope !== 'agent' || agent === this.#lastAgent))
      return this.#lastGroup!;
    this.#lastCheck = check;
    this.#lastAgent = agent;
    this.#lastGroup = this.#groupNamed(account, agent, check);
    return this.#lastGroup;
  }

  #groupNamed(account: string, agent: string, check: RateCheck): Group {
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

  readonly #flush = (): void => {
    const groups = [...this.#groups.values()];
    const asked = this.#asked;
    this.#groups = new Map();
    this.#asked = [];
    this.#lastCheck = undefined;
    this.#lastGroup = undefined;
    this.#counters.take(groups.map((group) => group.check)).then(
      (taken) => {
        for (const [g, group] of groups.entries()) share(group, taken[g]!);
        for (const { asker, answers } of asked) asker.counted(answers);
      },
      (cause: unknown) => {
        const error = notChecked(cause);
        for (const { asker } of asked) asker.refused(error);
      },
    );
  };

  /** The window is part of the name: a policy whose window changes starts on counters of the new width. */
  #keyOf(account: string, agent: string, check: RateCheck): string {
    const policy = `${check.policyId}/${check.windowMs}`;
    if (check.counterScope === 'agent') {
      return this.#keys.agentCounter(this.#keys.partitionOf(account, agent), policy, agent);
    }
    return this.#keys.accountCounter(account, policy, check.counterValue);
  }
}

function share({ waiting }: Group, { granted, atMs }: Taken): void {
  let left = granted;
  for (const { answers, index, places } of waiting) {
    const own = Math.min(places, left);
    answers[index] = { granted: own, atMs };
    left -= own;
  }
}

function notChecked(cause: unknown): ServiceError {
  return new ServiceError('unavailable', 'A rate limit could not be checked; nothing was recorded.', {
    cause,
    recorded: false,
    retryAfterSeconds: 1,
  });
}
