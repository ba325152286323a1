// Counts by account and by policy, for `/metrics` (front; called after the append and after each refusal).
// Their number is not ours to choose, so it has a bound: the counts of accounts and policies beyond it are under
// `other`. Who has not been counted for longest makes room, one a second at the most, so that a flood of newcomers
// costs a look-up and no more.
// Invariant: no series ever falls, and the increases of all together are what was counted: of what makes room `other`
// gets what no reading has shown yet. (With the whole of it, a rate over `other` would count it a second time.) What
// was deleted is shown until GONE_KEPT_MS later, so that the last scrape has its end; what is not used for IDLE_KEPT_MS
// goes as well, and begins again at 0. On the hot path an account costs a look-up a request, a policy one for each
// match; text is made at a scrape. Nothing here can fail.

import { OUTCOMES, type Outcome } from '../../schemas/closed-sets.ts';
import type { Metrics, Sample } from './metrics.ts';

/** Twenty scrapes at the usual 30 s. */
const GONE_KEPT_MS = 10 * 60_000;
const IDLE_KEPT_MS = 24 * 60 * 60_000;
/** Between two that make room. */
const FOLD_MS = 1_000;
/** So many times the bound are remembered after they have made room, some 200 bytes each. */
const LEFT_FACTOR = 4;
const OTHER = 'other';
const REASONS = ['limited', 'unavailable', 'invalid', 'failed'] as const;

/** Places of what is counted; a policy has the outcomes alone. */
const EVENTS: Record<Outcome, number> = { allowed: 0, blocked: 1, pending: 2 };
const REFUSED = OUTCOMES.length;
const BYTES = REFUSED + REASONS.length;

/**
 * `values`: the counts, by place; `shown`: as the last reading gave them. `turn`: of its last use, by the set's own
 * count; `seenMs`: when that was first met by a reading.
 */
type UsageSeries = {
  readonly values: Float64Array;
  readonly shown: Float64Array;
  turn: number;
  seenTurn: number;
  seenMs: number;
  goneMs: number | undefined;
};
type PolicyCounts = UsageSeries & { account: string; name: string; type: string };
type KnownPolicy = { id: string; name: string; type: string };

type UsageCountsOptions = {
  /** Bounds; 0: everything is under `other`. */
  accountsMax: number;
  policiesMax: number;
  /** Monotonic, ms. */
  now?: () => number;
};

/** As much of one kind as the bound allows, and `other`. */
class BoundedCounts<T extends UsageSeries> {
  readonly all = new Map<string, T>();
  readonly other: T;
  folded = 0;
  readonly max: number;
  readonly #now: () => number;
  #turn = 0;
  /** The last one used, forgotten by each reading: bytes and events of a request are counted one after the other. */
  #lastId: string | undefined;
  #last: T;
  #foldedMs = Number.NEGATIVE_INFINITY;
  /**
   * The counts of those that made room, as last shown: a series that comes back continues from there, where from 0 it
   * might pass its old value unseen.
   */
  readonly #left = new Map<string, Float64Array>();

  constructor(options: { max: number; other: T; now: () => number }) {
    this.other = options.other;
    this.#last = options.other;
    this.max = options.max;
    this.#now = options.now;
  }

  use(id: string, make: () => T): T {
    if (id !== this.#lastId) {
      this.#last = this.all.get(id) ?? this.#admit(id, make);
      this.#lastId = id;
    }
    this.#last.turn = ++this.#turn;
    return this.#last;
  }

  /** Shows it as 0 if there is room; nothing is evicted for what has not been used. */
  show(id: string, make: () => T): T | undefined {
    const known = this.all.get(id);
    if (known !== undefined || this.all.size >= this.max) return known;
    return this.#add(id, make(), this.#now());
  }

  get room(): number {
    return this.max - this.all.size;
  }

  /** Before each reading, which will show all that is left: releases what was deleted or has been idle for long. */
  tidy(): void {
    const nowMs = this.#now();
    this.#lastId = undefined;
    for (const [id, counts] of this.all) {
      if (counts.turn !== counts.seenTurn) [counts.seenTurn, counts.seenMs] = [counts.turn, nowMs];
      const isOver = counts.goneMs !== undefined && nowMs - Math.max(counts.goneMs, counts.seenMs) >= GONE_KEPT_MS;
      if (isOver || nowMs - counts.seenMs >= IDLE_KEPT_MS) this.all.delete(id);
      else counts.shown.set(counts.values);
    }
  }

  #admit(id: string, make: () => T): T {
    const nowMs = this.#now();
    if (this.all.size >= this.max) {
      if (this.max === 0 || nowMs - this.#foldedMs < FOLD_MS) return this.other;
      this.#foldedMs = nowMs;
      this.#fold();
    }
    return this.#add(id, make(), nowMs);
  }

  #add(id: string, counts: T, nowMs: number): T {
    const left = this.#left.get(id);
    if (left !== undefined) {
      counts.values.set(left);
      counts.shown.set(left);
      this.#left.delete(id);
    }
    counts.seenMs = nowMs;
    this.all.set(id, counts);
    return counts;
  }

  #fold(): void {
    let oldest: [string, T] | undefined;
    for (const each of this.all) if (oldest === undefined || each[1].turn < oldest[1].turn) oldest = each;
    const [id, counts] = oldest!;
    counts.values.forEach((value, place) => {
      this.other.values[place]! += value - counts.shown[place]!;
    });
    this.all.delete(id);
    this.#left.set(id, counts.shown);
    if (this.#left.size > LEFT_FACTOR * this.max) this.#left.delete(this.#left.keys().next().value!);
    this.folded++;
  }
}

export class UsageCounts {
  readonly #accounts: BoundedCounts<UsageSeries>;
  readonly #policies: BoundedCounts<PolicyCounts>;
  readonly #now: () => number;
  /** Policies that are shown, by account. */
  readonly #active = new Map<string, Set<string>>();

  constructor({ accountsMax, policiesMax, now = () => performance.now() }: UsageCountsOptions) {
    this.#now = now;
    this.#accounts = new BoundedCounts({ max: accountsMax, other: accountCounts(), now });
    this.#policies = new BoundedCounts({ max: policiesMax, other: policyCounts(OTHER, NO_POLICY), now });
  }

  /** A submission was accepted. Its events are counted one outcome after the other. */
  bytes(account: string, bytes: number): void {
    this.#accounts.use(account, accountCounts).values[BYTES]! += bytes;
  }

  events(account: string, outcome: Outcome, events: number): void {
    this.#accounts.use(account, accountCounts).values[EVENTS[outcome]]! += events;
  }

  matched(account: string, policy: KnownPolicy, { outcome, events }: { outcome: Outcome; events: number }): void {
    this.#policies.use(policy.id, () => policyCounts(account, policy)).values[EVENTS[outcome]]! += events;
  }

  /** `status`: 400 and above. */
  readonly refused = (account: string, status: number): void => {
    const reason = status === 429 ? 0 : status === 503 ? 1 : status < 500 ? 2 : 3;
    this.#accounts.use(account, accountCounts).values[REFUSED + reason]!++;
  };

  get accountsMax(): number {
    return this.#accounts.max;
  }

  /** How many more accounts can have series before one has to make room. */
  get accountsRoom(): number {
    return this.#accounts.room;
  }

  /** Accounts that there are: those that have not been counted yet are shown as 0, as far as there is room. */
  accountsAre(ids: readonly string[]): void {
    for (const id of ids) this.#accounts.show(id, accountCounts);
  }

  /** An account's active policies as they are now: new ones are shown as 0, and those that are no more will go. */
  readonly policiesAre = (account: string, policies: readonly KnownPolicy[]): void => {
    const shown = new Set<string>();
    for (const policy of policies) {
      const counts = this.#policies.show(policy.id, () => policyCounts(account, policy));
      if (counts === undefined) continue;
      shown.add(policy.id);
      counts.name = policy.name;
      counts.goneMs = undefined;
    }
    for (const id of this.#active.get(account) ?? []) {
      const counts = shown.has(id) ? undefined : this.#policies.all.get(id);
      if (counts !== undefined) counts.goneMs ??= this.#now();
    }
    if (shown.size > 0) this.#active.set(account, shown);
    else this.#active.delete(account);
  };

  /** `names`: whether to show what users have called their policies. */
  report(metrics: Metrics, { names }: { names: boolean }): void {
    const policies = () => [...this.#policies.all, [OTHER, this.#policies.other] as const];
    const accounts = () => [...this.#accounts.all, [OTHER, this.#accounts.other] as const];
    metrics.sampleBy(() => this.#tidy());
    metrics.addSource('gatehouse_policy_matches_total', () =>
      policies().flatMap(([policy, { account, values }]) => byOutcome({ account, policy }, values)),
    );
    metrics.addSource('gatehouse_account_events_total', () =>
      accounts().flatMap(([account, { values }]) => byOutcome({ account }, values)),
    );
    metrics.addSource('gatehouse_account_body_bytes_total', () =>
      accounts().map(([account, { values }]) => ({ labels: { account }, value: values[BYTES]! })),
    );
    metrics.addSource('gatehouse_account_refused_requests_total', () =>
      accounts().flatMap(([account, { values }]) =>
        REASONS.map((reason, i) => ({ labels: { account, reason }, value: values[REFUSED + i]! })),
      ),
    );
    metrics.addSource('gatehouse_folded_series_total', () =>
      Object.entries(this.folded).map(([kind, value]) => ({ labels: { kind }, value })),
    );
    if (!names) return;
    metrics.addSource('gatehouse_policy_info', () =>
      [...this.#policies.all]
        .filter(([, { goneMs }]) => goneMs === undefined)
        .map(([policy, { account, name, type }]) => ({ labels: { account, policy, name, type }, value: 1 })),
    );
  }

  /** How many series went into `other` so far, by kind. */
  get folded(): { account: number; policy: number } {
    return { account: this.#accounts.folded, policy: this.#policies.folded };
  }

  #tidy(): void {
    this.#accounts.tidy();
    this.#policies.tidy();
    for (const [account, ids] of this.#active) {
      for (const id of ids) if (!this.#policies.all.has(id)) ids.delete(id);
      if (ids.size === 0) this.#active.delete(account);
    }
  }
}

const NO_POLICY: KnownPolicy = { id: OTHER, name: '', type: '' };

function kept(places: number): UsageSeries {
  const [values, shown] = [new Float64Array(places), new Float64Array(places)];
  return { values, shown, turn: 0, seenTurn: 0, seenMs: 0, goneMs: undefined };
}

function accountCounts(): UsageSeries {
  return kept(BYTES + 1);
}

function policyCounts(account: string, { name, type }: KnownPolicy): PolicyCounts {
  return { ...kept(OUTCOMES.length), account, name, type };
}

function byOutcome(labels: Record<string, string>, values: Float64Array): Sample[] {
  return OUTCOMES.map((outcome) => ({ labels: { ...labels, outcome }, value: values[EVENTS[outcome]]! }));
}
