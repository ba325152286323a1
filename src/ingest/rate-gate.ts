// Asks the counters behind rate_limit policies for all events of a tick in one round trip (step 8 of the path: between
// judgement and decision). Checks of the same counter are asked for together, in the order in which they came, so that a
// limit reached at element 7 of a batch blocks element 8 onwards. Where a limit is far away the places of what comes next are asked for
// at once (src/policy/held-places.ts), and who finds all of his among them is answered without a trip.
// Invariant: no check is answered without places that Redis has counted. If the counters cannot be asked, every waiting submission
// is refused (fail closed).
import { ServiceError } from '../errors.ts';
import { COUNTERS_KNOWN_MAX } from '../limits.ts';
import type { CounterCheck, Counters, Taken } from '../policy/counters.ts';
import type { RateCheck } from '../policy/engine.ts';
import { HeldPlaces, type HoldAsked } from '../policy/held-places.ts';
import type { Keys } from '../redis/keys.ts';

/** Which counter, and what it may hold. */
export type CounterRef = Omit<RateCheck, 'rule'>;
/** Places at one counter, for as many events. */
export type Ask = { check: CounterRef; places: number };
/** How many of the places are within the threshold, first come first; and when they were counted (epoch ms, Redis's clock). */
export type Count = { granted: number; atMs: number };

/** Who asked. One of the two is called, once, perhaps before `ask` has returned; neither may throw, for others wait behind it. */
export type Asker = {
  /** In the order of what was asked. */
  counted(counts: readonly Count[]): void;
  refused(error: ServiceError): void;
};

type Waiting = { answers: Count[]; index: number; places: number };
type Asked = { answers: Count[]; asker: Asker };
/** A counter in one call. */
type Group = { counter: Counter; waiting: Waiting[]; check: CounterCheck; held: HoldAsked };

/** A counter that has been asked for lately. */
class Counter {
  readonly key: string;
  /** As the newest rule has it: the places that are held, and where, are the same. */
  check: CounterRef;
  readonly held = new HeldPlaces();
  /** Of this tick. */
  waiting: Waiting[] = [];
  places = 0;
  isDue = false;
  /** Runs while something is held. */
  timer: NodeJS.Timeout | undefined;

  constructor(key: string, check: CounterRef) {
    this.key = key;
    this.check = check;
  }
}

/** Told apart by what the key is made of: making one hashes text, and the events of a batch mostly share theirs. */
export function counterName(account: string, agent: string, check: CounterRef): string {
  return `${account}/${check.policyId}/${check.windowMs}/${check.counterScope === 'agent' ? agent : check.counterValue}`;
}

export class RateGate {
  readonly #counters: Pick<Counters, 'take'>;
  readonly #keys: Keys;
  #known = new Map<string, Counter>();
  /** To be asked in this tick, and who waits for them. */
  #due: Counter[] = [];
  #asked: Asked[] = [];
  /** The counter that was asked for last, by what: most events share it, and its name takes making. */
  #lastCheck: CounterRef | undefined;
  #lastAgent = '';
  #lastCounter: Counter | undefined;

  constructor(counters: Pick<Counters, 'take'>, keys: Keys) {
    this.#counters = counters;
    this.#keys = keys;
  }

  /** Refuses with ServiceError `unavailable`, and with nothing else. */
  ask(account: string, agent: string, asks: readonly Ask[], asker: Asker): void {
    const counters = asks.map(({ check }) => this.#counterOf(account, agent, check));
    const held = takeHeld(counters, asks);
    if (held !== undefined) {
      asker.counted(held);
      return;
    }
    const answers = new Array<Count>(asks.length);
    for (const [index, counter] of counters.entries()) {
      const { places } = asks[index]!;
      counter.places += places;
      counter.waiting.push({ answers, index, places });
      this.#makeDue(counter);
    }
    this.#asked.push({ answers, asker });
  }

  /** Gives back what is held; resolves when Redis has answered, or did not. */
  async close(): Promise<void> {
    for (const counter of this.#known.values()) {
      clearTimeout(counter.timer);
      if (counter.held.left > 0) this.#makeDue(counter);
    }
    await this.#flush();
  }

  #makeDue(counter: Counter): void {
    if (counter.isDue) return;
    counter.isDue = true;
    if (this.#due.push(counter) === 1) setImmediate(() => void this.#flush());
  }

  /** A check belongs to one account, so the same check again is the same counter, but for those that count by agent. */
  #counterOf(account: string, agent: string, check: CounterRef): Counter {
    if (check === this.#lastCheck && (check.counterScope !== 'agent' || agent === this.#lastAgent))
      return this.#lastCounter!;
    const counter = this.#counterNamed(account, agent, check);
    counter.check = check;
    this.#lastCheck = check;
    this.#lastAgent = agent;
    this.#lastCounter = counter;
    return counter;
  }

  #counterNamed(account: string, agent: string, check: CounterRef): Counter {
    const name = counterName(account, agent, check);
    let counter = this.#known.get(name);
    if (counter === undefined) {
      counter = new Counter(this.#keyOf(account, agent, check), check);
      // Those that are forgotten give back what they hold, and are asked for under this name once more at worst.
      if (this.#known.size >= COUNTERS_KNOWN_MAX) this.#known = new Map();
      this.#known.set(name, counter);
    }
    return counter;
  }

  async #flush(): Promise<void> {
    const [due, asked] = [this.#due, this.#asked];
    if (due.length === 0) return;
    this.#due = [];
    this.#asked = [];
    const sentMs = performance.now();
    const groups = due.map((counter) => groupOf(counter, sentMs));
    let taken: Taken[];
    try {
      taken = await this.#counters.take(groups.map(({ check }) => check));
    } catch (cause) {
      for (const { counter, held } of groups) counter.held.answered(held, undefined, sentMs, sentMs);
      const error = notChecked(cause);
      for (const { asker } of asked) asker.refused(error);
      return;
    }
    const nowMs = performance.now();
    for (const [g, { counter, waiting, held }] of groups.entries()) {
      share(waiting, taken[g]!);
      counter.held.answered(held, taken[g], sentMs, nowMs);
      this.#watch(counter, nowMs);
    }
    for (const { asker, answers } of asked) asker.counted(answers);
  }

  /** What is held goes back in time, whether anybody asks for this counter again or not. */
  #watch(counter: Counter, nowMs: number): void {
    const inMs = counter.held.backInMs(nowMs);
    if (inMs === undefined || counter.timer !== undefined) return;
    counter.timer = setTimeout(() => {
      counter.timer = undefined;
      const now = performance.now();
      if (counter.held.backInMs(now) === 0) this.#makeDue(counter);
      else this.#watch(counter, now);
    }, inMs).unref();
  }

  /** The window is part of the name: a policy whose window changes starts on counters of the new width. */
  #keyOf(account: string, agent: string, check: CounterRef): string {
    const policy = `${check.policyId}/${check.windowMs}`;
    if (check.counterScope === 'agent') {
      return this.#keys.agentCounter(this.#keys.partitionOf(account, agent), policy, agent);
    }
    return this.#keys.accountCounter(account, policy, check.counterValue);
  }
}

/** Everything that is asked for, out of what is held; undefined: something is missing, and nothing was taken. */
function takeHeld(counters: readonly Counter[], asks: readonly Ask[]): Count[] | undefined {
  const nowMs = performance.now();
  const counts: Count[] = [];
  for (const [i, { held }] of counters.entries()) {
    const { places } = asks[i]!;
    if (!held.take(places, nowMs)) {
      for (let before = 0; before < i; before++) counters[before]!.held.putBack(asks[before]!.places);
      return undefined;
    }
    counts.push({ granted: places, atMs: held.timeAt(nowMs) });
  }
  return counts;
}

/** Takes out of the counter what has been asked for in this tick. */
function groupOf(counter: Counter, nowMs: number): Group {
  const { key, check, waiting, places: count } = counter;
  const { threshold, windowMs, takesPlaceWhenOver } = check;
  counter.waiting = [];
  counter.places = 0;
  counter.isDue = false;
  const held = counter.held.ask(count, windowMs, nowMs);
  return { counter, waiting, held, check: { key, threshold, windowMs, takesPlaceWhenOver, count, held } };
}

function share(waiting: readonly Waiting[], { granted, atMs }: Taken): void {
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
