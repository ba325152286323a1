// The shadows of an account: policies that are tried beside those in force (judged after these, before the event is
// encoded; ingest/shadow-judging.ts). They are a set of their own, on an allowance of their own, and what they would
// have done is a word for each of them and nothing else.
// Each is judged alone: as if it were in force in place of the policy that it copies, with every other policy in force
// as it is. So a rate limit counts an event if no other policy blocks it, a budget is charged for what it would not
// have refused, and a step of a sequence has occurred if neither the sequence nor another policy blocks it.
// Invariant: reads the decision and changes nothing of it. A verdict holds no text of the event.
// Failure: what is too much work, or throws, is skipped; never thrown on.

import type { Outcome, ShadowVerdict } from '../../schemas/closed-sets.ts';
import type { PolicyMatch, ShadowJudged } from '../../schemas/event.ts';
import type { Policy } from '../../schemas/policy.ts';
import { type Steps, steps, type Turns } from '../common/steps.ts';
import { type Allowed, TOO_LONG, TooLong } from './allowance.ts';
import { RuleSet, type RuleSetOptions } from './engine.ts';
import type {
  Closer,
  Decision,
  EntryCheck,
  EventView,
  IndexedRule,
  Judgement,
  RateCheck,
  ShadowAnswers,
  ShadowJudgement,
  Shadows,
} from './judgement.ts';
import { matchThen } from './outside.ts';
import { outcomeThen } from './rule-index.ts';
import type { Sought } from './sought.ts';
import type { TextView } from './text-view.ts';

/** The active shadows of an account, ready to judge. */
export class ShadowSet implements Shadows {
  readonly #rules: RuleSet;
  readonly #onError: NonNullable<RuleSetOptions['onRuleError']>;
  /** Policy -> the shadows that copy it. */
  readonly #copiesOf = new Map<string, IndexedRule[]>();
  readonly #entryOf: ReadonlyMap<string, IndexedRule>;
  /** Epoch ms, by the place in the set. */
  readonly #expiresMs: readonly number[];

  /** Throws PolicyError if a policy does not compile. */
  constructor(policies: readonly Policy[], options: RuleSetOptions = {}) {
    this.#rules = new RuleSet(policies, { ...options, verdictsOnly: true });
    this.#onError = options.onRuleError ?? (() => undefined);
    this.#expiresMs = this.policies.map(({ expires_at }) =>
      expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(expires_at),
    );
    this.#entryOf = new Map(this.#rules.entries.map((entry) => [entry.rule.policy.id, entry]));
    for (const entry of this.#rules.entries) {
      const { shadow_of: original } = entry.rule.policy;
      if (original !== undefined) this.#copiesOf.set(original, [...(this.#copiesOf.get(original) ?? []), entry]);
    }
  }

  get policies(): Policy[] {
    return this.#rules.policies;
  }

  /** The rules from which the next set is compiled. */
  get rules(): RuleSet {
    return this.#rules;
  }

  get turns(): Turns {
    return this.#rules.turns;
  }

  get sought(): Sought {
    return this.#rules.sought;
  }

  look(event: TextView): Judgement | Closer {
    return this.#rules.look(event);
  }

  skip(event: TextView): ShadowJudgement {
    return { skipped: shadowsOf(this.#rules.concernedByText(event)), reason: 'budget' };
  }

  *judging(event: EventView, allowance: Allowed, closer?: Closer): Steps<ShadowJudgement> {
    if (allowance.isSpent) return this.#skipped(event, TOO_LONG);
    try {
      return yield* steps(this.#rules.judging(event, allowance, closer));
    } catch (error) {
      return this.#skipped(event, error);
    }
  }

  #skipped(event: EventView, error: unknown): ShadowJudgement {
    const isTooLong = error instanceof TooLong;
    if (!isTooLong) this.#onError('', error);
    return { skipped: shadowsOf(this.#rules.concerned(event)), reason: isTooLong ? 'budget' : 'error' };
  }

  verdicts(
    judgement: ShadowJudgement,
    decision: Decision,
    { limits, later }: ShadowAnswers,
    nowMs: number,
  ): readonly ShadowJudged[] {
    if (judgement === null || isNothing(judgement, decision)) return NONE;
    const said = new Map<IndexedRule, ShadowVerdict>();
    if ('skipped' in judgement) for (const entry of judgement.skipped) said.set(entry, 'skipped');
    else {
      for (const { entry } of judgement.found) said.set(entry, verdictOf(entry));
      for (const [entry, would] of outsideThen(judgement, decision)) said.set(entry, would);
      limitsOf(judgement, decision).forEach((check, i) => {
        if (limits[i] === 'unknown') said.set(entryOfCheck(check), 'skipped');
        else if (limits[i] === 'over') said.set(entryOfCheck(check), verdictOf(entryOfCheck(check)));
      });
      for (const [id, answer] of later) {
        const entry = this.#entryOf.get(id)!;
        said.set(entry, answer === 'unknown' ? 'skipped' : verdictOf(entry));
      }
    }
    for (const { policy_id: id } of decision.matches)
      for (const entry of this.#copiesOf.get(id) ?? [])
        if (!said.has(entry) && !isKeptOut(entry, decision.matches)) said.set(entry, 'not_matched');
    return [...said]
      .filter(([{ order }]) => nowMs < this.#expiresMs[order]!)
      .sort(([a], [b]) => a.order - b.order)
      .map(([{ match }, would]) => ({ policy_id: match.policy_id, revision: match.revision, would }));
  }
}

const NONE: readonly ShadowJudged[] = Object.freeze([]);
const NO_CHECKS: readonly RateCheck[] = Object.freeze([]);

/** The limits whose counters are to be asked: those of events that no other policy blocks. */
export function limitsOf(judgement: ShadowJudgement, { matches }: Decision): readonly RateCheck[] {
  if (judgement === null || 'skipped' in judgement || judgement.rateChecks.length === 0) return NO_CHECKS;
  if (matches.length === 0) return judgement.rateChecks;
  return judgement.rateChecks.filter((check) => !isKeptOut(entryOfCheck(check), matches));
}

/** A step is skipped with its sequence. */
function shadowsOf(entries: readonly IndexedRule[]): IndexedRule[] {
  return [...new Set(entries.map((entry) => entry.step?.of ?? entry))];
}

function isNothing(judgement: NonNullable<ShadowJudgement>, { matches }: Decision): boolean {
  if ('skipped' in judgement || judgement.outside !== undefined) return false;
  if (judgement.sequences !== null || judgement.spends !== undefined) return false;
  return judgement.found.length + judgement.rateChecks.length + matches.length === 0;
}

const ASKED_BEHIND: readonly Policy['type'][] = ['rate_limit', 'budget', 'sequence'];

/** Does a policy that it does not copy block what it would be asked about? */
export function isKeptOut({ rule: { policy } }: IndexedRule, matches: readonly PolicyMatch[]): boolean {
  return ASKED_BEHIND.includes(policy.type) && outcomeWithout(matches, policy.shadow_of) === 'blocked';
}

/** The outcome that the policies in force give an event, without this policy. */
export function outcomeWithout(matches: readonly PolicyMatch[], id: string | undefined): Outcome {
  const outcomes = matches.flatMap((match) => (match.policy_id === id ? [] : [outcomeThen(match)]));
  return outcomes.includes('blocked') ? 'blocked' : outcomes.includes('pending') ? 'pending' : 'allowed';
}

/** By what checks said to the policies in force; those that they were not asked are unknown. */
function outsideThen({ outside }: Judgement, { checks = [] }: Decision): [IndexedRule, ShadowVerdict][] {
  return (outside?.entries ?? []).flatMap((entry): [IndexedRule, ShadowVerdict][] => {
    const match = matchThen(entry, outside!.event, checks);
    if (match === undefined) return [];
    return [[entry, match === null ? 'skipped' : verdictOf({ outcome: match.outcome ?? entry.outcome })]];
  });
}

function verdictOf({ outcome }: Pick<IndexedRule, 'outcome'>): ShadowVerdict {
  return outcome === 'allowed' ? 'matched' : outcome;
}

function entryOfCheck(check: RateCheck): IndexedRule {
  return (check as EntryCheck).entry;
}
