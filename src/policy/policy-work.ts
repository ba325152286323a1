// What is done with policies beside judging what comes in: checking one that is to be created, and trying some
// on an event. Either takes up to a tenth of a second, so a front has it done in its judging thread
// (ingest/judging-worker.ts); by itself it is done here. Between the registry and the engine. Invariant: the same
// answer wherever it is done.
import type { EvaluationResult } from '../../schemas/closed-sets.ts';
import type { ErrorDetail } from '../../schemas/error.ts';
import type { Policy } from '../../schemas/policy.ts';
import type { PolicyEvaluated } from '../../schemas/policy-evaluation.ts';
import { checkPolicy, type PolicyInput } from './compile.ts';
import { agentInactive } from './decide.ts';
import { RuleSet } from './engine.ts';
import { conditionsUnmet } from './explain.ts';
import type { Decision, EventView, SpendCheck } from './judgement.ts';
import { PolicyError } from './policy-error.ts';
import { type Previewed, type PreviewTrial, previewed } from './replay/preview.ts';
import { JudgingInOrder } from './sequences/judged-in-order.ts';

/** `before`: what occurred before the event, in its order. Left out: nothing. */
export type PolicyTrial = {
  policies: readonly Policy[];
  event: EventView;
  isAgentOff: boolean;
  before?: readonly EventView[];
};

/**
 * `account`: in whose name, so that none waits for another's. Both reject with ServiceError unavailable where there is
 * no room.
 */
export type PolicyWork = {
  /** Every mistake with its path in the policy; none: it compiles. */
  check(account: string, policy: PolicyInput): Promise<ErrorDetail[]>;
  /** Nothing is counted or kept. Rejects where a policy does not compile. */
  evaluate(account: string, trial: PolicyTrial): Promise<PolicyEvaluated>;
  /** How many of these events the policy would have matched. Rejects where it does not compile. */
  preview(account: string, trial: PreviewTrial): Promise<Previewed>;
};

export const HERE: PolicyWork = {
  check: async (_account, policy) => mistakesOf(policy),
  evaluate: async (_account, trial) => evaluated(trial),
  preview: (_account, trial) => previewed(trial, () => undefined),
};

export function mistakesOf(policy: PolicyInput): ErrorDetail[] {
  try {
    checkPolicy(policy);
    return [];
  } catch (error) {
    if (error instanceof PolicyError) return error.details;
    throw error;
  }
}

export function evaluated({ policies, event, isAgentOff, before = [] }: PolicyTrial): PolicyEvaluated {
  const rules = new RuleSet(policies);
  const judging = new JudgingInOrder(rules);
  for (const [i, one] of before.entries()) judging.next(one, `before/${i}`);
  const { judgement, answers, decision } = judging.next(event, 'event');
  const sinks = judgement.sequences?.sinks ?? [];
  const results = new Map<string, EvaluationResult>([
    ...judgement.rateChecks.map(({ policyId }) => [policyId, 'counted'] as const),
    ...(judgement.spends ?? []).filter(isCharged).map(({ entry }) => [entry.rule.policy.id, 'counted'] as const),
    ...(judgement.outside?.entries ?? []).map(({ rule }) => [rule.policy.id, 'asked'] as const),
    ...judgement.found.map(({ entry }) => [entry.rule.policy.id, 'matched'] as const),
    ...sinks.filter((_, i) => answers[i] != null).map(({ entry }) => [entry.rule.policy.id, 'matched'] as const),
  ]);
  const result = isAgentOff ? agentInactive(judgement) : decision;
  return { policy_result: resultOf(result), judged: judgedBy(policies, { rules, results, event }) };
}

function resultOf({ outcome, reason, policyId, matches }: Decision): PolicyEvaluated['policy_result'] {
  return { outcome, reason, policy_id: policyId, matches: [...matches] };
}

function isCharged({ event, holds }: SpendCheck): boolean {
  return holds && event.type !== 'error';
}

type Judged = { rules: RuleSet; results: ReadonlyMap<string, EvaluationResult>; event: EventView };

function judgedBy(policies: readonly Policy[], { rules, results, event }: Judged): PolicyEvaluated['judged'] {
  const compiled = rules.rules;
  return policies.map(({ id, name }) => {
    const result = results.get(id);
    if (result !== undefined) return { policy_id: id, name, result };
    return { policy_id: id, name, result: 'not_matched', unmet: conditionsUnmet(compiled.get(id)!, event) };
  });
}
