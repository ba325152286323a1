// Asks the counters behind rate_limit policies for all events of an event loop tick in one round trip (between
// judgement and decision). Requests for the same counter are granted in the order in which they came, so a limit that
// is reached at element 7 of a batch blocks element 8 onwards. While a limit is far away the front leases permits in
// advance (src/policy/quotas/quota-lease.ts), and a request that the lease covers is answered without a round trip.
// An event that one limit blocks takes no permit of another: those that the others have counted for it are returned at
// once, in a second call.
// Invariant: every permit that is granted has been counted by Redis. If the counters cannot be asked, every waiting
// submission is refused (the limit fails closed). Permits whose return is lost stay counted for one window.
import { notRecorded, type ServiceError } from '../common/errors.ts';
import { COUNTERS_KNOWN_MAX } from '../common/limits.ts';
import type { RateCheck } from '../policy/judgement.ts';
import type { CounterCheck, CounterGrant, Counters } from '../policy/quotas/counters.ts';
import { type LeaseRequest, QuotaLease } from '../policy/quotas/quota-lease.ts';
import type { Keys } from '../redis/keys.ts';

/** Which counter, and its limit. */
type CounterRef = Omit<RateCheck, 'rule'>;
/** Permits of one counter, one an event. `run`: requests for the same events have the same number. */
export type QuotaRequest = { check: CounterRef; permits: number; run: number };
/**
 * How many of the permits are within the threshold, in order; `atMs`: when they were counted (epoch ms, Redis's clock);
 * `freeInMs`: until the next permit is free, where not all were granted. `bucket`: where they are counted.
 */
export type QuotaGrant = { granted: number; atMs: number; freeInMs: number; bucket: number };
/** Permits that were granted, and are not used. */
export type QuotaReturn = { check: CounterRef; permits: number; bucket: number };

/** One of the two is called, once, possibly before `ask` returns. Neither may throw: other waiters come after it. */
export type QuotaWaiter = {
  /** In the order of what was asked. */
  counted(counts: readonly QuotaGrant[]): void;
  refused(error: ServiceError): void;
};

type Waiting = { answers: QuotaGrant[]; index: number; permits: number };
type PendingCheck = {
  requests: readonly QuotaRequest[];
  counters: readonly Counter[];
  answers: QuotaGrant[];
  waiter: QuotaWaiter;
};
/** A counter in one call. */
type Group = { counter: Counter; waiting: Waiting[]; check: CounterCheck; leaseRequest: LeaseRequest };

/** A counter that was used lately. */
class Counter {
  readonly key: string;
  /** The counter of the rule's newest revision. The leased permits are the same for all revisions. */
  check: CounterRef;
  readonly lease = new QuotaLease();
  /** The waiting of this tick. */
  waiting: Waiting[] = [];
  permits = 0;
  isDue = false;
  /** Runs while permits are leased. */
  timer: NodeJS.Timeout | undefined;

  constructor(key: string, check: CounterRef) {
    this.key = key;
    this.check = check;
  }
}

/**
 * Identifies a counter without making its Redis key: the key hashes text, and the events of a batch mostly share one
 * counter.
 */
export function counterName(account: string, agent: string, check: CounterRef): string {
  return `${account}/${check.policyId}/${check.windowMs}/${check.counterScope === 'agent' ? agent : check.counterValue}`;
}

export class RateLimitBatcher {
  readonly #counters: Pick<Counters, 'take'>;
  readonly #keys: Keys;
  #known = new Map<string, Counter>();
  /** Counters to ask in this tick, and the waiters of their requests. */
  #due: Counter[] = [];
  #asked: PendingCheck[] = [];
  /** Memo of the last counter: most events share it, and building its name costs more than comparing these. */
  #lastCheck: CounterRef | undefined;
  #lastAgent = '';
  #lastCounter: Counter | undefined;

  constructor(counters: Pick<Counters, 'take'>, keys: Keys) {
    this.#counters = counters;
    this.#keys = keys;
  }

  /** Refuses with ServiceError `unavailable`, and with nothing else. */
  ask(account: string, agent: string, requests: readonly QuotaRequest[], waiter: QuotaWaiter): void {
    const counters = requests.map(({ check }) => this.#counterOf(account, agent, check));
    const leased = takeLeased(counters, requests);
    if (leased !== undefined) {
      waiter.counted(leased);
      return;
    }
    const answers = new Array<QuotaGrant>(requests.length);
    for (const [index, counter] of counters.entries()) {
      const { permits } = requests[index]!;
      counter.permits += permits;
      counter.waiting.push({ answers, index, permits });
      this.#makeDue(counter);
    }
    this.#asked.push({ requests, counters, answers, waiter });
  }

  /** Gives permits back. Those that are lost on the way stay counted for one window. */
  releasePermits(account: string, agent: string, returns: readonly QuotaReturn[]): void {
    const checks = returns.map(({ check, permits, bucket }): CounterCheck => {
      const { threshold, windowMs } = check;
      const lease = { lease: 0, returned: permits, returnedBucket: bucket };
      return { key: this.#keyOf(account, agent, check), threshold, windowMs, countsWhenOver: false, count: 0, lease };
    });
    if (checks.length > 0) this.#counters.take(checks).catch(() => undefined);
  }

  /** Returns the leased permits; resolves when Redis has answered, or has failed to. */
  async close(): Promise<void> {
    for (const counter of this.#known.values()) {
      clearTimeout(counter.timer);
      if (counter.lease.left > 0) this.#makeDue(counter);
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
      // The counters that are dropped return their leases by their timers; at worst two objects share one name for a
      // moment.
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
    let grants: CounterGrant[];
    try {
      grants = await this.#counters.take(groups.map(({ check }) => check));
    } catch (cause) {
      for (const { counter, leaseRequest } of groups) counter.lease.granted(leaseRequest, undefined, sentMs, sentMs);
      const error = notRecorded('A rate limit could not be checked', cause);
      for (const { waiter } of asked) waiter.refused(error);
      return;
    }
    const nowMs = performance.now();
    for (const [g, { counter, waiting, leaseRequest }] of groups.entries()) {
      share(waiting, grants[g]!);
      counter.lease.granted(leaseRequest, grants[g], sentMs, nowMs);
      this.#watch(counter, nowMs);
    }
    for (const { waiter, answers } of asked) waiter.counted(answers);
    const returned = asked.flatMap(notUsed);
    if (returned.length > 0) await this.#counters.take(returned).catch(() => undefined);
  }

  /** Returns the lease in time, also when the counter is not used again. */
  #watch(counter: Counter, nowMs: number): void {
    const inMs = counter.lease.returnInMs(nowMs);
    if (inMs === undefined || counter.timer !== undefined) return;
    counter.timer = setTimeout(() => {
      counter.timer = undefined;
      const now = performance.now();
      if (counter.lease.returnInMs(now) === 0) this.#makeDue(counter);
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

/** Serves all requests from the leases; undefined: one lease is too small, and none was used. */
function takeLeased(counters: readonly Counter[], requests: readonly QuotaRequest[]): QuotaGrant[] | undefined {
  const nowMs = performance.now();
  const counts: QuotaGrant[] = [];
  for (const [i, { lease }] of counters.entries()) {
    const { permits } = requests[i]!;
    if (!lease.take(permits, nowMs)) {
      for (let before = 0; before < i; before++) counters[before]!.lease.undo(requests[before]!.permits);
      return undefined;
    }
    counts.push({ granted: permits, atMs: lease.timeAt(nowMs), freeInMs: 0, bucket: lease.bucket });
  }
  return counts;
}

/** Takes out of the counter what has been asked for in this tick. */
function groupOf(counter: Counter, nowMs: number): Group {
  const { key, check, waiting, permits: count } = counter;
  const { threshold, windowMs, countsWhenOver } = check;
  counter.waiting = [];
  counter.permits = 0;
  counter.isDue = false;
  const leaseRequest = counter.lease.request(count, windowMs, nowMs);
  return {
    counter,
    waiting,
    leaseRequest,
    check: { key, threshold, windowMs, countsWhenOver, count, lease: leaseRequest },
  };
}

function share(waiting: readonly Waiting[], { granted, atMs, freeInMs, bucket }: CounterGrant): void {
  let left = granted;
  for (const { answers, index, permits } of waiting) {
    const own = Math.min(permits, left);
    answers[index] = { granted: own, atMs, freeInMs, bucket };
    left -= own;
  }
}

/** The permits that one limit counted for events that another one blocks. */
function notUsed({ requests, counters, answers }: PendingCheck): CounterCheck[] {
  if (requests.length < 2) return [];
  // Of each run, how many of its events all limits that block let pass.
  const passing = new Map<number, number>();
  for (const [i, { run, check, permits }] of requests.entries()) {
    const pass = check.countsWhenOver ? permits : answers[i]!.granted;
    passing.set(run, Math.min(passing.get(run) ?? permits, pass));
  }
  return requests.flatMap(({ check, permits, run }, i): CounterCheck[] => {
    const { granted, bucket } = answers[i]!;
    const returned = (check.countsWhenOver ? permits : granted) - passing.get(run)!;
    if (returned <= 0) return [];
    const { threshold, windowMs } = check;
    const lease = { lease: 0, returned, returnedBucket: bucket };
    return [{ key: counters[i]!.key, threshold, windowMs, countsWhenOver: false, count: 0, lease }];
  });
}
