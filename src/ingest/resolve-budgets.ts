// What budgets are asked about the events of a submission, and what comes of the answers (between the rate limits and
// the decision, for accounts with budgets alone). A prompt that is not blocked anyway reserves; a completion says what
// was used, and an error that nothing was: what was held becomes that, until the event is stored and settled
// (pipelines/budgets/settle-budgets.ts).
// Invariant: a reservation has the id of its event. What is reserved for an event that another budget blocks, or that
// is not recorded, is released. An event that is reported after the fact reserves nothing.
import { createHash } from 'node:crypto';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { SettledElement, SettledHead } from '../../schemas/entry.ts';
import type { BudgetReserved } from '../../schemas/event.ts';
import type { PriceList } from '../common/prices/price-list.ts';
import { type Decision, holdsSecret, type Judgement, type RuleMatch, type SpendCheck } from '../policy/judgement.ts';
import type { BudgetTerms } from '../policy/kinds/spend-budget.ts';
import type { Reserve, SpendAnswer, SpendOf, SpendRequest } from '../policy/quotas/spend-store.ts';
import { budgetMatch, budgetReserved, type Reserved, readReserved } from '../policy/spends/spend-detail.ts';
import {
  callOf,
  formOf,
  hashed,
  lifeOf,
  scopeName,
  scopeShown,
  spendOf,
  windowArgument,
} from '../policy/spends/spend-form.ts';
import type { Arrivals } from './arrival.ts';
import type { DecodedBody, Spending } from './codec.ts';
import { keptSpending, modelOf, outputTokens } from './event-cost.ts';
import type { Decided } from './resolve-quotas.ts';
import { estimateOf, mostOutput, OUTPUT_GUESS, usedOf } from './spend-amounts.ts';

/** The longest time, beside its `hold`, for which an amount is held while its event waits for a person. */
const WAIT_HELD_MS_MAX = 3_600_000;

type Parts = {
  agent: AgentRecord;
  body: Pick<DecodedBody, 'spending'>;
  judgements: readonly (Judgement | null)[];
  judged: readonly (Decided | null)[];
  arrivals: Arrivals;
  prices: PriceList | undefined;
  nowMs: number;
  /** Given for budgets that are tried: does a policy in force block the event that it does not copy? */
  isKeptOut?: (entry: SpendCheck['entry'], decision: Decision) => boolean;
};
type ToReserve = { check: SpendCheck; judgement: Judgement; estimate: Pick<Reserve, 'fixed' | 'rate' | 'output'> };
type SpendCall = { element: number; check: SpendCheck; request: SpendRequest };

export class BudgetsAsked {
  readonly #parts: Parts;
  readonly #asked: SpendCall[] = [];
  readonly #matches = new Map<Judgement, RuleMatch[]>();
  readonly #said = new Map<number, BudgetReserved[]>();
  readonly #exhausted = new Map<number, { policyId: string; counter: string; windowMs: number }[]>();
  #reserved: SpendCall[] = [];
  /** The requests that open again the reservations to which completions belong. */
  readonly #used: SpendRequest[] = [];
  #settled: { element: number; check: SpendCheck; scope: string; shown: string; amount: number; target: string }[] = [];
  /** Budgets of which is not known yet what was spent before. */
  readonly unknown = new Set<string>();

  constructor(parts: Parts) {
    this.#parts = parts;
    for (const [element, judgement] of parts.judgements.entries()) {
      if (judgement?.spends === undefined || parts.judged[element] === null) continue;
      for (const check of judgement.spends) this.#ask(element, judgement, check);
    }
  }

  get requests(): SpendRequest[] {
    return this.#asked.map(({ request }) => request);
  }

  /** The events and budgets that the requests are of. */
  get asked(): { element: number; policyId: string }[] {
    return this.#asked.map(({ element, request }) => ({ element, policyId: request.of.policyId }));
  }

  /** Matches of the budgets that an event does not fit into; by its judgement. */
  get matches(): ReadonlyMap<Judgement, readonly RuleMatch[]> {
    return this.#matches;
  }

  answered(answers: readonly SpendAnswer[]): void {
    for (const [i, asked] of this.#asked.entries()) {
      const answer = answers[i]!;
      if (asked.request.operation.op === 'reserve') this.#reservation(asked, readReserved(answer));
      else this.#use(asked, answer);
    }
  }

  /** The decisions with what is held for their events. */
  told(judged: readonly (Decided | null)[]): (Decided | null)[] {
    return judged.map((one, element) => {
      const exhausted = this.#exhausted.get(element);
      const said = one?.decision.outcome === 'blocked' ? undefined : this.#said.get(element);
      if (one === null || (said === undefined && exhausted === undefined)) return one;
      const { decision } = one;
      const resultJson =
        said === undefined
          ? decision.resultJson
          : `${decision.resultJson.slice(0, -1)},"budgets":${JSON.stringify(said)}}`;
      return { ...one, decision: { ...decision, resultJson, ...(exhausted && { exhausted }) } };
    });
  }

  /**
   * The requests that give back what is held for events that are blocked, or for all of them where they are not
   * recorded. The reservations of completions are then open again.
   */
  releases(judged?: readonly (Decided | null)[]): SpendRequest[] {
    const isKept = ({ element }: SpendCall) => judged !== undefined && judged[element]?.decision.outcome !== 'blocked';
    const gone = this.#reserved.filter((asked) => !isKept(asked));
    this.#reserved = this.#reserved.filter(isKept);
    const released = gone.map(({ element, request }): SpendRequest => {
      const id = this.#parts.arrivals.idOf(element);
      return { of: request.of, operation: { op: 'release', ...this.#about(id, id) } } as const;
    });
    if (judged !== undefined) return released;
    return [...released, ...this.#used.splice(0)];
  }

  #about(id: string, target: string) {
    return { id, agent: this.#parts.agent.id, who: '', target };
  }

  /** JSON of what the events have used, for the pipelines (schemas/entry.ts); undefined: nothing. */
  element(judged: readonly (Decided | null)[]): string | undefined {
    if (this.#settled.length === 0) return undefined;
    const back = backOf(judged);
    const places = new Map<SpendCheck['entry'], number>();
    const element: SettledElement = { settled_by: [], of: [] };
    for (const { element: at, check, scope, shown, amount, target } of this.#settled) {
      let place = places.get(check.entry);
      if (place === undefined) {
        place = element.settled_by.push(headOf(check)) - 1;
        places.set(check.entry, place);
      }
      element.of.push([back[at]!, place, scope, shown, amount, target]);
    }
    return JSON.stringify(element);
  }

  #ask(element: number, judgement: Judgement, check: SpendCheck): void {
    const { judged, body } = this.#parts;
    const { event } = check;
    const spending = body.spending(element);
    if (event.type !== 'prompt') {
      this.#askUse(element, check, spending && keptSpending(spending, judged[element]!.decision));
      return;
    }
    if (spending?.isObserved === true || this.#isOut(element, check)) return;
    const { prices, nowMs } = this.#parts;
    const terms = check.entry.rule.terms as BudgetTerms;
    const estimate = estimateOf(event, terms, { prices, nowMs });
    if (typeof estimate !== 'string') this.#askReserve(element, { check, judgement, estimate });
    else if (estimate === 'unpriced' && terms.unpriced === 'allow') return;
    // It is called all the same, and nothing is to be charged for it.
    else if (this.#isTried && blocks(check))
      this.#askReserve(element, { check, judgement, estimate: { fixed: terms.limit.amount + 1, rate: 0, output: 0 } });
    else this.#match(judgement, budgetMatch(check, { unknown: estimate, isSecret: holdsSecret(judgement) }));
  }

  get #isTried(): boolean {
    return this.#parts.isKeptOut !== undefined;
  }

  #isOut(element: number, { entry }: SpendCheck): boolean {
    const { isKeptOut, judged } = this.#parts;
    const { decision } = judged[element]!;
    return isKeptOut === undefined ? decision.outcome === 'blocked' : isKeptOut(entry, decision);
  }

  #askReserve(element: number, of: ToReserve): void {
    const { check } = of;
    this.#asked.push({ element, check, request: { of: ofCheck(check), operation: this.#reserveOf(element, of) } });
  }

  #reserveOf(element: number, of: ToReserve): Reserve {
    const { agent, arrivals, nowMs, judged } = this.#parts;
    const { check, judgement, estimate } = of;
    // While a person has not decided it is held as well, but not for days.
    const { approval } = judged[element]!.decision;
    const waitMs = Math.min(1000 * (approval?.timeoutSeconds ?? 0), WAIT_HELD_MS_MAX);
    const mayWait = approval !== undefined || judgement.outside !== undefined;
    const terms = check.entry.rule.terms as BudgetTerms;
    const model = modelOf(check.event.payload) ?? '';
    return {
      op: 'reserve',
      ...{ id: arrivals.fix(element), agent: agent.id, who: whoOf(check, model), model: modelName(agent.id, model) },
      ...windowArgument(terms.window, nowMs),
      scope: scopeName(check.scope),
      // A budget is named by text of the payload; where a filter found a secret in it, the text is left out.
      shown: holdsSecret(judgement) ? '' : scopeShown(terms, check.scope),
      ...{ life: lifeOf(terms) + waitMs, limit: terms.limit.amount, hold: terms.holdMs + waitMs, ...estimate },
      ...{ expected: terms.estimate === 'expected', guess: OUTPUT_GUESS },
      ...{ counted: !blocks(check), ...(this.#isTried ? { tried: true } : {}) },
      ...(mayWait ? { waits: true } : {}),
    };
  }

  #askUse(element: number, check: SpendCheck, spending: Spending | undefined): void {
    const { arrivals, prices } = this.#parts;
    const { event } = check;
    const isError = event.type === 'error';
    const said = spending ?? { payload: event.payload, occurredAt: 0, isObserved: false };
    const model = modelOf(said.payload);
    const target = typeof event.payload['for'] === 'string' ? event.payload['for'] : '';
    // What failed is known by its model: an error of something else releases nothing.
    if (isError && target === '' && model === undefined) return;
    const about = { ...this.#about(arrivals.fix(element), target), who: whoOf(check, model ?? '') };
    const used = () => ({
      model: modelName(event.agent_id, model ?? ''),
      amount: usedOf(said, check.entry.rule.terms as BudgetTerms, prices),
      output: outputTokens(said) ?? -1,
    });
    const operation = isError ? ({ op: 'release', ...about } as const) : ({ op: 'use', ...about, ...used() } as const);
    this.#asked.push({ element, check, request: { of: ofCheck(check), operation } });
  }

  #reservation(asked: SpendCall, answer: Reserved): void {
    const { element, check } = asked;
    const judgement = this.#parts.judgements[element]!;
    if (!answer.isKnown) this.unknown.add(check.entry.rule.policy.id);
    const isHeld = answer.word === 'yes' || !blocks(check);
    if (isHeld || this.#isTried) this.#reserved.push(asked);
    if (isHeld) {
      const saysMost = mostOutput(check.event.payload) !== null;
      addTo(this.#said, element, budgetReserved(check, answer, saysMost));
    }
    if (answer.word === 'yes') return;
    const isSecret = holdsSecret(judgement);
    const unknown = answer.word === 'unknown' ? ({ unknown: 'state_unknown' } as const) : {};
    this.#match(judgement, budgetMatch(check, { asked: answer, isSecret, ...unknown }));
    if (answer.word === 'no') addTo(this.#exhausted, element, exhaustedOf(check, answer, this.#parts.nowMs));
  }

  #use({ element, check, request }: SpendCall, [word, scope, target, isKnown, amount]: SpendAnswer): void {
    const { entry, event, holds } = check;
    if (isKnown !== '1') this.unknown.add(entry.rule.policy.id);
    if (word === 'twice' || event.type === 'error') return;
    if (word === 'own' && (!holds || amount === '0')) return;
    const shown = scopeShown(entry.rule.terms as BudgetTerms, check.scope);
    if (word === 'found') {
      const id = this.#parts.arrivals.idOf(element);
      this.#used.push({ of: request.of, operation: { op: 'unuse', ...this.#about(id, target!) } });
    }
    const of = word === 'found' ? { scope: scope!, target: target! } : { scope: scopeName(check.scope), target: '' };
    const isSecret = holdsSecret(this.#parts.judgements[element]!);
    this.#settled.push({ element, check, shown: isSecret ? '' : shown, amount: Number(amount), ...of });
  }

  #match(judgement: Judgement, match: RuleMatch): void {
    addTo(this.#matches, judgement, match);
  }
}

function blocks({ entry }: SpendCheck): boolean {
  return entry.rule.policy.actions.includes('block');
}

function ofCheck({ entry: { rule } }: SpendCheck): SpendOf {
  return spendOf(rule.policy.id, rule.terms as BudgetTerms, rule.policy.reset_at);
}

function headOf({ entry: { rule } }: SpendCheck): SettledHead {
  const { id: policy, reset_at: resetAt, mode } = rule.policy;
  const terms = rule.terms as BudgetTerms;
  const { window, limit, warnAt } = terms;
  const { unit, form } = formOf(terms, resetAt);
  // What is tried raises nothing.
  const warn = mode === 'shadow' ? [] : warnAt;
  return { policy, unit, form, window, limit: limit.amount, warn, life: lifeOf(terms) };
}

/** Names those of whose calls the oldest that is open is meant: where both say which call, that one. */
function whoOf({ event: { agent_id: agent, trace_id: trace = '', payload } }: SpendCheck, model: string): string {
  return hashed(JSON.stringify([agent, trace, model, callOf(payload)]));
}

function modelName(agent: string, model: string): string {
  return hashed(JSON.stringify([agent, model]));
}

function exhaustedOf({ entry: { rule }, scope }: SpendCheck, { resetsMs }: Reserved, nowMs: number) {
  const { window } = rule.terms as BudgetTerms;
  const windowMs = 'ms' in window ? window.ms : Math.max(1, resetsMs - nowMs);
  const name = `budget/${rule.policy.id}/${scope}/${'ms' in window ? '' : resetsMs}`;
  return {
    policyId: rule.policy.id,
    windowMs,
    counter: createHash('sha256').update(name).digest('base64url').slice(0, 16),
  };
}

/** How many events back from the end each element is, from 1. */
function backOf(judged: readonly (Decided | null)[]): number[] {
  const back = new Array<number>(judged.length);
  let events = 0;
  for (let i = judged.length - 1; i >= 0; i--) back[i] = judged[i] === null ? events : ++events;
  return back;
}

function addTo<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}
