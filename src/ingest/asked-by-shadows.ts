// What the shadows of an account ask Redis about the events of a submission, and what comes of the answers (in
// shadow-judging.ts, once the decisions are there): permits of rate limits, reservations and settlements of budgets,
// steps of sequences. Each shadow asks as if it alone were in force in place of the policy that it copies, so of each
// event it is asked what the other policies made of it.
// Invariant: what is kept in Redis is kept under the shadow's own name. A reservation of an event that is not recorded
// is released. What has no answer is unknown.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { PriceList } from '../common/prices/price-list.ts';
import type {
  Decision,
  Judgement,
  LimitAnswer,
  RateCheck,
  SequencePart,
  ShadowAnswers,
  ShadowJudgement,
  Shadows,
} from '../policy/judgement.ts';
import type { SequencesCounted } from '../policy/quotas/sequence-store.ts';
import type { SpendRequest } from '../policy/quotas/spend-store.ts';
import type { SequenceEvent } from '../policy/sequences/sequence-answer.ts';
import { isKeptOut, limitsOf, outcomeWithout } from '../policy/shadows.ts';
import type { Arrivals } from './arrival.ts';
import type { DecodedBody } from './codec.ts';
import { BudgetsAsked } from './resolve-budgets.ts';
import type { Decided } from './resolve-quotas.ts';
import { sequenceEvent } from './resolve-sequences.ts';
import type { ShadowGrants, ShadowsAsked } from './shadow-counters.ts';

type Parts = {
  shadows: Shadows;
  judgements: readonly ShadowJudgement[];
  judged: readonly (Decided | null)[];
  body: Pick<DecodedBody, 'spending'>;
  agent: AgentRecord;
  prices: PriceList | undefined;
  /** Called where an event needs its id. */
  arrivals: () => Arrivals;
  nowMs: number;
};
/** Permits for neighbours of one judgement. */
type ShadowCheck = { check: RateCheck; permits: number; run: number; places: [event: number, limit: number][] };
type AskedSequence = { element: number; policyId: string; event: SequenceEvent };
type OpenAnswers = { limits: LimitAnswer[]; later: [policyId: string, answer: 'over' | 'unknown'][] };

export class AskedByShadows {
  readonly #parts: Parts;
  readonly #limits: readonly ShadowCheck[];
  readonly #budgets: BudgetsAsked | undefined;
  readonly #sequences: readonly AskedSequence[];
  /** By Redis's clock, where sequences were asked. */
  #countedMs: number | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#limits = limitsAsked(parts);
    this.#budgets = budgetsAsked(parts);
    this.#sequences = sequencesAsked(parts);
  }

  /** undefined: nothing is asked. */
  get requests(): ShadowsAsked | undefined {
    const spends = this.#budgets?.requests ?? [];
    const [first] = this.#sequences;
    if (this.#limits.length + spends.length === 0 && first === undefined) return undefined;
    const events = this.#sequences.map(({ event }) => event);
    const sequences = first && { events, submission: first.event.id, isAlone: true as const };
    return { limits: this.#limits, spends, sequences };
  }

  /** The answers for each event. `unknown`: called with how many questions have no answer. */
  answers(grants: ShadowGrants | undefined, unknown: (times: number) => void): ShadowAnswers[] {
    const answers = this.#parts.judgements.map((): OpenAnswers => ({ limits: [], later: [] }));
    for (const [i, { places }] of this.#limits.entries()) {
      const granted = grants?.limits[i]?.granted;
      for (const [k, [event, limit]] of places.entries())
        answers[event]!.limits[limit] = granted === undefined ? 'unknown' : k < granted ? 'free' : 'over';
      if (granted === undefined) unknown(places.length);
    }
    this.#answerBudgets(answers, grants?.spends);
    this.#answerSequences(answers, grants?.sequences);
    unknown(answers.reduce((sum, { later }) => sum + later.filter(([, answer]) => answer === 'unknown').length, 0));
    return answers;
  }

  /** Budgets of which is not known yet what was spent before. */
  get unknownBudgets(): string[] {
    return [...(this.#budgets?.unknown ?? [])];
  }

  /** JSON of what budgets are charged, for the pipelines; undefined: nothing. */
  settled(judged: readonly (Decided | null)[]): string | undefined {
    return this.#budgets?.element(judged);
  }

  /** The requests that give back what is held, where the events are not recorded. */
  releases(): SpendRequest[] {
    return this.#budgets?.releases() ?? [];
  }

  /** Events of which something is kept now that they are recorded; undefined: none. */
  get recorded(): { ids: string[]; atMs: number } | undefined {
    const kept = this.#sequences.filter(({ event }) => event.outcome === 'allowed' && event.later.length > 0);
    if (kept.length === 0 || this.#countedMs === undefined) return undefined;
    return { ids: [...new Set(kept.map(({ event }) => event.id))], atMs: this.#countedMs };
  }

  #answerBudgets(answers: readonly OpenAnswers[], spends: ShadowGrants['spends']): void {
    const budgets = this.#budgets;
    if (budgets === undefined) return;
    if (spends !== undefined) budgets.answered(spends);
    else for (const { element, policyId } of budgets.asked) answers[element]!.later.push([policyId, 'unknown']);
    for (const [element, judgement] of this.#parts.judgements.entries())
      for (const { entry, detail } of budgets.matches.get(judgement as Judgement) ?? []) {
        const isUnknown = 'unknown' in detail && detail.unknown === 'state_unknown';
        answers[element]!.later.push([entry.rule.policy.id, isUnknown ? 'unknown' : 'over']);
      }
  }

  #answerSequences(answers: readonly OpenAnswers[], counted: SequencesCounted | undefined): void {
    this.#countedMs = counted?.atMs;
    for (const [i, { element, policyId }] of this.#sequences.entries()) {
      const match = counted === undefined ? undefined : (counted.answers[i]![0] ?? null);
      if (match === null) continue;
      const isUnknown = match === undefined || match.reason === 'state_unknown';
      answers[element]!.later.push([policyId, isUnknown ? 'unknown' : 'over']);
    }
  }
}

function limitsAsked({ judgements, judged }: Parts): ShadowCheck[] {
  const asked: ShadowCheck[] = [];
  const lastOf = new Map<string, ShadowCheck>();
  for (const [event, judgement] of judgements.entries()) {
    const decision = judged[event]?.decision;
    if (decision === undefined) continue;
    for (const [limit, check] of limitsOf(judgement, decision).entries()) {
      let last = lastOf.get(check.policyId);
      if (last?.check !== check) {
        last = { check, permits: 0, run: asked.length, places: [] };
        lastOf.set(check.policyId, last);
        asked.push(last);
      }
      last.permits++;
      last.places.push([event, limit]);
    }
  }
  return asked;
}

function judgementOf(judgement: ShadowJudgement): Judgement | null {
  return judgement === null || 'skipped' in judgement ? null : judgement;
}

function budgetsAsked({ judgements: given, arrivals, ...parts }: Parts): BudgetsAsked | undefined {
  const judgements = given.map(judgementOf);
  if (judgements.every((one) => one?.spends === undefined)) return undefined;
  return new BudgetsAsked({
    ...{ ...parts, judgements, arrivals: arrivals() },
    isKeptOut: (entry, { matches }) => isKeptOut(entry, matches),
  });
}

function sequencesAsked({ shadows, judgements, judged, agent, arrivals }: Parts): AskedSequence[] {
  const asked: AskedSequence[] = [];
  const originals = new Map(shadows.policies.map(({ id, shadow_of: original }) => [id, original]));
  for (const [element, given] of judgements.entries()) {
    const decision = judged[element]?.decision;
    const part = judgementOf(given)?.sequences ?? null;
    if (decision === undefined || part === null) continue;
    for (const [policyId, own] of partsOf(part)) {
      const event = sequenceEvent(own, withoutOriginal(decision, originals.get(policyId)));
      if (event === undefined) continue;
      asked.push({ element, policyId, event: { ...event, id: arrivals().fix(element), agent: agent.id } });
    }
  }
  return asked;
}

function withoutOriginal({ matches, approval }: Decision, original: string | undefined) {
  return { outcome: outcomeWithout(matches, original), ...(approval && { approval }) };
}

/** The part of the event in each of the sequences, by policy. The name of a memory begins with its policy. */
function partsOf({ sinks, marks, ...rest }: SequencePart): Map<string, SequencePart> {
  const policyOf = (name: string) => name.slice(0, name.indexOf('/'));
  const ids = new Set([...sinks.map(({ ask }) => ask.memory.name), ...marks.map(({ memory }) => memory.name)]);
  return new Map(
    [...ids].map((name) => [
      policyOf(name),
      {
        ...rest,
        sinks: sinks.filter(({ ask }) => ask.memory.name === name),
        marks: marks.filter(({ memory }) => memory.name === name),
      },
    ]),
  );
}
