// A budget, replayed over events in the order in which they arrived (of a backtest; pure): what src/redis/spend.lua
// does, but in memory. A prompt reserves, its completion settles, an error releases; what is held ends by itself.
// A completion is charged when it arrives. Live what it used is held until it is stored; what nothing was reserved for
// is charged then, a moment later, so a prompt in that moment may have passed that is blocked here.
// Invariant: what is kept goes on exactly where it stood. Failure: more of it than is kept throws TooManyCounters.
import type { JsonObject } from '../../../schemas/common.ts';
import { BACKTEST_COUNTERS_MAX } from '../../common/limits.ts';
import { getOrMake } from '../../common/maps.ts';
import type { Detail, EventView, SpendCheck } from '../judgement.ts';
import type { BudgetTerms } from '../kinds/spend-budget.ts';
import { partOfWindow, windowStarts } from '../spends/budget-window.ts';
import { budgetMatch } from '../spends/spend-detail.ts';
import { callOf, hashed, scopeName } from '../spends/spend-form.ts';
import { OutputsSeen } from './outputs-seen.ts';
import { tooMany } from './replayed-counters.ts';

/** `fixed`, and `rate` for a million output tokens, of which the prompt allows `output` (-1: it does not say). */
type Estimate = { fixed: number; rate: number; output: number };
/** How calls are reckoned: by the price table of the account (ingest/spend-amounts.ts). */
export type SpendAmounts = {
  estimate(event: EventView, terms: BudgetTerms, atMs: number): Estimate | 'unpriced' | 'no_ceiling';
  /** -1: it does not say, or it is not known. */
  used(of: { payload: JsonObject; atMs: number; isObserved: boolean }, terms: BudgetTerms): number;
  output(of: { payload: JsonObject; isObserved: boolean }): number;
  model(payload: JsonObject): string;
  /** Output tokens of a call of which nothing is known. */
  guess: number;
};

/** `by`: what settled it. */
type Reservation = { scope: string; agent: string; who: string; amount: number; endsMs: number; by?: string };
/** `spent`: by the part of the window. `held`: ids of reservations. */
type Scope = { spent: Map<number, number>; held: Map<string, number> };
/** As it is kept: JSON. */
export type KeptBudget = {
  scopes: readonly (readonly [
    string,
    readonly (readonly [number, number])[],
    readonly (readonly [string, number])[],
  ])[];
  reservations: readonly (readonly [string, Reservation])[];
  seen: ReturnType<OutputsSeen['kept']>;
};
/** `cost`: as it was stored, in the currency of the limit; -1: it was not. */
type ToReplay = { id: string; agentId: string; receivedMs: number; isObserved: boolean; cost: number };

/** As spend.lua has them. */
const OPEN_MAX = 10_000;
const STORED_MS = 60_000;
const MILLION = 1_000_000;
const SWEEP_EVERY = 10_000;

export class ReplayedBudget {
  readonly #terms: BudgetTerms;
  readonly #amounts: SpendAmounts;
  readonly #scopes = new Map<string, Scope>();
  /** The oldest first. */
  readonly #reservations = new Map<string, Reservation>();
  /** By whom: those that nothing has settled, the oldest first. */
  readonly #open = new Map<string, Set<string>>();
  readonly #seen: OutputsSeen;
  #calls = 0;

  constructor(terms: BudgetTerms, amounts: SpendAmounts, kept?: KeptBudget) {
    this.#terms = terms;
    this.#amounts = amounts;
    this.#seen = new OutputsSeen(kept?.seen);
    for (const [name, spent, held] of kept?.scopes ?? [])
      this.#scopes.set(name, { spent: new Map(spent), held: new Map(held) });
    for (const [id, one] of kept?.reservations ?? []) this.#keep(id, one);
  }

  kept(): KeptBudget {
    const scopes = [...this.#scopes].map(([name, { spent, held }]) => [name, [...spent], [...held]] as const);
    return { scopes, reservations: [...this.#reservations], seen: this.#seen.kept() };
  }

  /** The detail of its match; false: it fits, or is not asked about. `isBlocked`: by others, so it holds nothing. */
  prompt(
    of: ToReplay,
    check: SpendCheck,
    { isBlocked, blocks }: { isBlocked: boolean; blocks: boolean },
  ): Detail | false {
    if (of.isObserved) return false;
    const { event } = check;
    const terms = this.#terms;
    const estimate = this.#amounts.estimate(event, terms, of.receivedMs);
    if (typeof estimate === 'string')
      return estimate === 'unpriced' && terms.unpriced === 'allow'
        ? false
        : budgetMatch(check, { unknown: estimate, isSecret: false }).detail;
    const name = scopeName(check.scope);
    const scope = this.#scopeOf(name, of.receivedMs);
    const left = terms.limit.amount - this.#used(scope, of.receivedMs);
    const amount = estimate.fixed + Math.ceil((this.#outputOf(estimate, event) * estimate.rate) / MILLION);
    const isOver = amount > left;
    const isHeld = (!isOver || !blocks) && scope.held.size < OPEN_MAX;
    if (isHeld && !isBlocked)
      this.#reserve(of, { name, scope, amount, model: this.#amounts.model(event.payload), event });
    if (!isOver && isHeld) return false;
    const asked = {
      ...{ word: 'no' as const, amount, left: isHeld ? left - amount : left, isKnown: true },
      ...{ fits: fitting(estimate, left), resetsMs: this.#resetsMs(scope, of.receivedMs) },
    };
    return budgetMatch(check, { asked, isSecret: false }).detail;
  }

  /** Charges what a completion used; an error releases what was held. */
  settle(of: ToReplay, { event, scope, holds }: SpendCheck): void {
    const { payload } = event;
    const isError = event.type === 'error';
    const model = this.#amounts.model(payload);
    const target = typeof payload['for'] === 'string' ? payload['for'] : '';
    if (isError && target === '' && model === '') return;
    const output = isError ? -1 : this.#amounts.output({ payload, isObserved: of.isObserved });
    if (output >= 0) this.#seen.add(hashed(JSON.stringify([of.agentId, model])), output, of.receivedMs);
    const id = target === '' ? this.#oldestOf(whoOf(of.agentId, event, model), of.receivedMs) : target;
    const found = id === undefined ? undefined : this.#reservations.get(id);
    const isOwn = found === undefined || found.agent !== of.agentId || this.#isForgotten(found, of.receivedMs);
    if (isError) {
      if (!isOwn && found.by === undefined) this.#release(id!, found);
      return;
    }
    if (!isOwn && found.by !== undefined) return;
    const said = { payload, atMs: of.receivedMs, isObserved: of.isObserved };
    const used = of.cost >= 0 ? of.cost : this.#amounts.used(said, this.#terms);
    if (isOwn) {
      if (holds) this.#charge(scopeName(scope), Math.max(0, used), of.receivedMs);
      return;
    }
    this.#scopes.get(found.scope)?.held.delete(id!);
    this.#charge(found.scope, used < 0 ? found.amount : used, of.receivedMs);
    found.by = of.id;
    this.#close(id!, found.who);
  }

  #outputOf({ output }: Estimate, { agent_id: agent, payload }: EventView): number {
    if (this.#terms.estimate !== 'expected') return output;
    const model = hashed(JSON.stringify([agent, this.#amounts.model(payload)]));
    const usual = this.#seen.usual(model) ?? this.#amounts.guess;
    return output < 0 || usual < output ? usual : output;
  }

  #reserve(
    { id, agentId: agent, receivedMs }: ToReplay,
    {
      name,
      scope,
      amount,
      model,
      event,
    }: { name: string; scope: Scope; amount: number; model: string; event: EventView },
  ): void {
    const endsMs = receivedMs + this.#terms.holdMs;
    scope.held.set(id, endsMs);
    this.#keep(id, { scope: name, agent, who: whoOf(agent, event, model), amount, endsMs });
    if (++this.#calls % SWEEP_EVERY === 0) this.#sweep(receivedMs);
    this.#bound(receivedMs);
  }

  #bound(atMs: number): void {
    const isFull = () => this.#reservations.size + this.#scopes.size > BACKTEST_COUNTERS_MAX;
    if (isFull()) this.#sweep(atMs);
    if (isFull()) throw tooMany();
  }

  #keep(id: string, one: Reservation): void {
    this.#reservations.set(id, one);
    if (one.by !== undefined) return;
    getOrMake(this.#open, one.who, () => new Set()).add(id);
  }

  #release(id: string, { scope, who }: Reservation): void {
    this.#scopes.get(scope)?.held.delete(id);
    this.#reservations.delete(id);
    this.#close(id, who);
  }

  #close(id: string, who: string): void {
    const open = this.#open.get(who);
    open?.delete(id);
    if (open?.size === 0) this.#open.delete(who);
  }

  #charge(name: string, amount: number, atMs: number): void {
    const { spent } = this.#scopeOf(name, atMs);
    const part = partOfWindow(this.#terms.window, atMs);
    spent.set(part, (spent.get(part) ?? 0) + amount);
  }

  /** Without what has left the window, and what ended. */
  #scopeOf(name: string, atMs: number): Scope {
    let scope = this.#scopes.get(name);
    if (scope === undefined) {
      this.#bound(atMs);
      scope = { spent: new Map(), held: new Map() };
      this.#scopes.set(name, scope);
    }
    const first = this.#firstPart(atMs);
    for (const part of scope.spent.keys()) if (part < first) scope.spent.delete(part);
    for (const [id, endsMs] of scope.held) if (endsMs <= atMs) scope.held.delete(id);
    return scope;
  }

  #firstPart(atMs: number): number {
    const { window } = this.#terms;
    return 'ms' in window ? partOfWindow(window, atMs) - 60 : partOfWindow(window, atMs);
  }

  #used({ spent, held }: Scope, atMs: number): number {
    let sum = 0;
    for (const amount of spent.values()) sum += amount;
    for (const [id, endsMs] of held) if (endsMs > atMs) sum += this.#reservations.get(id)?.amount ?? 0;
    return sum;
  }

  #resetsMs({ spent }: Scope, atMs: number): number {
    const { window } = this.#terms;
    if (!('ms' in window)) return windowStarts(window, atMs)[2]!;
    const parts = [...spent].flatMap(([part, amount]) => (amount > 0 ? [part] : []));
    return parts.length === 0 ? 0 : Math.floor(((Math.min(...parts) + 61) * window.ms) / 60);
  }

  #oldestOf(who: string, atMs: number): string | undefined {
    for (const id of this.#open.get(who) ?? []) if (this.#reservations.get(id)!.endsMs > atMs) return id;
    return undefined;
  }

  #isForgotten({ endsMs }: Reservation, atMs: number): boolean {
    return endsMs + this.#terms.holdMs + STORED_MS <= atMs;
  }

  #sweep(atMs: number): void {
    for (const [id, one] of this.#reservations) if (this.#isForgotten(one, atMs)) this.#release(id, one);
    for (const name of [...this.#scopes.keys()]) {
      const { spent, held } = this.#scopeOf(name, atMs);
      if (spent.size + held.size === 0) this.#scopes.delete(name);
    }
  }
}

/** Names those whose oldest open call is meant. */
function whoOf(agent: string, { trace_id: trace = '', payload }: EventView, model: string): string {
  return hashed(JSON.stringify([agent, trace, model, callOf(payload)]));
}

/** More are counted as so many, as in spend.lua. */
const TOKENS_MAX = 1e12;

/** How many output tokens fit into what is left, beside the input; -1: they do not matter. */
function fitting({ fixed, rate }: Estimate, left: number): number {
  if (rate === 0) return -1;
  let tokens = Math.max(0, Math.min(TOKENS_MAX, Math.floor(((left - fixed) * MILLION) / rate)));
  while (tokens > 0 && fixed + Math.ceil((tokens * rate) / MILLION) > left) tokens--;
  return tokens;
}
