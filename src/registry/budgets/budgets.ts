// Budgets as they stand: what is spent and held of each, and what was spent before its counters began (beside the path
// of events; the counters are src/redis/spend.lua's).
//   know    a policy whose counters begin, since it is new, was changed or reset, or since Redis has lost them: what
//           arrives from now on is counted, what arrived before is read from the stored rows
// Invariant: each stored event is counted once, here or there, by when it arrived. Until that is done the counters say
// that they do not know, and a budget that blocks blocks.
// Failure: ClickHouse or Redis away: it stays unknown, and the next event begins it again.
import {
  BUDGET_SCOPES_MAX,
  type BudgetState,
  type PastOfBudget,
  type SettledAmount,
  type SettledQuery,
} from '../../../schemas/budget.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { isoTime } from '../../../schemas/time.ts';
import { inSlices } from '../../common/async.ts';
import { IN_FORCE_MS, JUDGED_BEFORE_MS } from '../../common/limits.ts';
import { compileRule } from '../../policy/compile.ts';
import { type BudgetTerms, scopeText, spentText } from '../../policy/kinds/spend-budget.ts';
import type { SpendAnswer, SpendOf, SpendOperation, SpendStore } from '../../policy/quotas/spend-store.ts';
import { partOfWindow } from '../../policy/spends/budget-window.ts';
import { formOf, lifeOf, spendOf, windowArgument } from '../../policy/spends/spend-form.ts';
import { answering, type RegistryStore } from '../commit.ts';
import { isInForce, readPolicy } from '../policies/policy-record.ts';
import { isTried } from '../policies/shadow-policies.ts';

type Parts = RegistryStore & {
  spends: Pick<SpendStore, 'run'>;
  settled: (account: string, asked: SettledQuery) => Promise<SettledAmount[]>;
  /** Waits until what was acknowledged is stored and charged; false: it is not. */
  stored: (account: string) => Promise<boolean>;
  /** Waits until no front has anything in hand that it had then (streams/submissions-in-hand.ts). */
  untilAnswered: (then: { waitMs: number } | { fromMs: number }) => Promise<void>;
};
/** `isPlain`: it has no conditions. */
type Known = { policy: Policy; terms: BudgetTerms; of: SpendOf; unit: string; isPlain: boolean };
type State = { scope: string; shown: string; spent: number; reserved: number; resetsMs: number };

export class Budgets {
  readonly #parts: Parts;
  /** Policies that are at it. */
  readonly #reading = new Map<string, Promise<void>>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * A budget was made or changed: reads what was spent before, so that its first call need not wait for that. Never
   * throws.
   */
  made(account: string): void {
    const begin = async () => {
      const all = await this.#counting(account, undefined);
      const ids = all.map(({ policy }) => policy.id);
      this.know(account, ids);
    };
    void begin().catch(() => undefined);
  }

  /** Begins it, unless it is under way. Never throws. */
  know(account: string, policyIds: readonly string[]): void {
    for (const id of policyIds) {
      const name = `${account}/${id}`;
      if (this.#reading.has(name)) continue;
      const done = this.#know(account, id)
        .catch(() => undefined)
        .finally(() => this.#reading.delete(name));
      this.#reading.set(name, done);
    }
  }

  /**
   * The state of all budgets in force and of shadows, or of one. `check`: beside what is stored. Throws ServiceError
   * unavailable.
   */
  list(account: string, { policyId, check }: { policyId: string | undefined; check: boolean }): Promise<BudgetState[]> {
    return answering(async () => {
      const items: BudgetState[] = [];
      if (check) await this.#parts.stored(account);
      for (const known of await this.#counting(account, policyId)) {
        const { isKnown, states } = await this.#statesOf(account, known);
        if (!isKnown) this.know(account, [known.policy.id]);
        // Its counters begin where it is known; to ask for what is stored would begin them.
        const stored = check && isKnown ? await this.#stored(account, known) : undefined;
        const counted = new Set(states.map(({ scope }) => scope));
        const uncounted = [...(stored?.keys() ?? [])].filter((scope) => !counted.has(scope));
        for (const scope of uncounted) states.push({ scope, shown: '', spent: 0, reserved: 0, resetsMs: 0 });
        for (const state of states) items.push(itemOf(known, state, isKnown, stored));
      }
      return items;
    });
  }

  /** Those in force, and shadows. */
  async #counting(account: string, policyId: string | undefined): Promise<Known[]> {
    const { redis, keys } = this.#parts;
    const texts =
      policyId === undefined
        ? await redis.hvals(keys.policies(account))
        : [(await redis.hget(keys.policies(account), policyId)) ?? []].flat();
    const policies = await inSlices(texts, readPolicy);
    const nowMs = Date.now();
    return policies
      .filter((policy) => policy.type === 'budget' && (isInForce(policy, nowMs) || isTried(policy, nowMs)))
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .map(knownOf);
  }

  async #statesOf(account: string, known: Known): Promise<{ isKnown: boolean; states: State[] }> {
    const window = windowArgument(known.terms.window, Date.now());
    const [isKnown, ...values] = await this.#run(account, known, { op: 'read', most: BUDGET_SCOPES_MAX, ...window });
    const states: State[] = [];
    for (let at = 0; at < values.length; at += 5) {
      const [scope, shown, spent, reserved, resetsMs] = values.slice(at, at + 5) as [
        string,
        string,
        string,
        string,
        string,
      ];
      states.push({ scope, shown, spent: Number(spent), reserved: Number(reserved), resetsMs: Number(resetsMs) });
    }
    return { isKnown: isKnown === '1', states: states.sort((a, b) => (a.scope < b.scope ? -1 : 1)) };
  }

  async #run(account: string, { of }: Pick<Known, 'of'>, operation: SpendOperation): Promise<SpendAnswer> {
    return (await this.#parts.spends.run(account, [{ of, operation }]))[0]!;
  }

  async #know(account: string, policyId: string): Promise<void> {
    const [known] = await this.#counting(account, policyId);
    if (known === undefined) return;
    const { terms } = known;
    // What is not charged to it, since it was judged without it, arrives before its counters begin, and is in the past.
    await this.#parts.untilAnswered({ waitMs: IN_FORCE_MS });
    const [begun, isKnown] = await this.#run(account, known, { op: 'begin', life: lifeOf(terms) });
    if (isKnown === '1') return;
    const from = Number(begun);
    await this.#parts.untilAnswered({ fromMs: from });
    if (!(await this.#parts.stored(account))) return;
    const amounts = await this.#amounts(account, known, { toMs: from - 1, countedMs: from });
    const scopes = new Map<string, { shown: string; parts: number[] }>();
    for (const { scope, shown, part, amount } of amounts) {
      const of = scopes.get(scope) ?? { shown, parts: [] };
      of.parts.push(part, amount);
      scopes.set(scope, of);
    }
    const window = windowArgument(terms.window, Date.now());
    for (const [scope, { shown, parts }] of scopes)
      await this.#run(account, known, { op: 'fill', ...window, scope, shown, parts, life: lifeOf(terms), from });
    await this.#run(account, known, { op: 'known', from });
  }

  /** By scope, in the window that ends now. */
  async #stored(account: string, known: Known): Promise<ReadonlyMap<string, number>> {
    const sums = new Map<string, number>();
    const [from] = await this.#run(account, known, { op: 'begin', life: lifeOf(known.terms) });
    for (const { scope, amount } of await this.#amounts(account, known, { toMs: Date.now(), countedMs: Number(from) }))
      sums.set(scope, (sums.get(scope) ?? 0) + amount);
    return sums;
  }

  /**
   * The amounts in rows that arrived in the window, until `toMs`, and since the last reset. From `countedMs` on rows
   * say it themselves: a second completion of a call is then no call of before the policy.
   */
  #amounts(
    account: string,
    known: Known,
    { toMs, countedMs }: { toMs: number; countedMs: number },
  ): Promise<SettledAmount[]> {
    const { policy, unit } = known;
    const { window } = known.terms;
    const nowMs = Date.now();
    const resetMs = policy.reset_at === undefined ? 0 : Date.parse(policy.reset_at);
    const isRolling = 'ms' in window;
    const part = partOfWindow(window, nowMs);
    // As the counters do: the part that is leaving the window counts whole.
    const beginMs = isRolling ? Math.ceil(((part - 60) * window.ms) / 60) : part;
    return this.#parts.settled(account, {
      ...{ policyId: policy.id, unit, fromMs: Math.max(beginMs, resetMs), toMs, part: isRolling ? 0 : part },
      rollingMs: isRolling ? window.ms : 0,
      past: pastOf(known, countedMs),
    });
  }
}

function knownOf(policy: Policy): Known {
  const rule = compileRule(policy);
  const terms = rule.terms as BudgetTerms;
  const isPlain =
    rule.expression === null && rule.schema === null && rule.conditions.every(({ key }) => key === 'type');
  const { unit } = formOf(terms, policy.reset_at);
  return { policy, terms, unit, of: spendOf(policy.id, terms, policy.reset_at), isPlain };
}

/** undefined: whom a call from before the policy would have been charged to is not in its row. */
function pastOf({ policy, terms: { per, limit }, isPlain }: Known, countedMs: number): PastOfBudget | undefined {
  if (!isPlain || (per !== 'agent' && per !== 'account')) return undefined;
  const { agent_id: agentId, created_at: createdAt, starts_at: startsAt = createdAt } = policy;
  const beganMs = Math.max(Date.parse(createdAt), Date.parse(startsAt));
  const beforeMs = Math.min(beganMs + JUDGED_BEFORE_MS, countedMs);
  return { agentId, per, beforeMs, of: limit.unit, currency: limit.currency };
}

function itemOf(
  { policy, terms }: Known,
  { scope, shown, spent, reserved, resetsMs }: State,
  known: boolean,
  stored: ReadonlyMap<string, number> | undefined,
): BudgetState {
  const { limit } = terms;
  const text = (amount: number) => spentText(limit, amount);
  const sum = stored?.get(scope) ?? 0;
  return {
    policy_id: policy.id,
    name: policy.name,
    mode: policy.mode,
    per: scopeText(terms),
    scope: shown === '' ? null : shown,
    ...{ limit: text(limit.amount), spent: text(spent), reserved: text(reserved) },
    left: text(limit.amount - spent - reserved),
    resets_at: resetsMs > 0 ? isoTime(resetsMs) : null,
    known,
    ...(stored === undefined ? {} : { stored: text(sum), drift: text(spent - sum) }),
  };
}
