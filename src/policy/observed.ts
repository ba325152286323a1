// Decisions on events that are reported after the fact, as spans of traces are (between the decision and the encoding;
// ingest/observed-codec.ts). What a policy would have stopped has happened: it is recorded as blocked, with a word that
// nothing was enforced. Nothing is opened for an approval, and no rate limit counts it.
// Pure. Invariant: outcome and matches are those of an event that had asked, but for approvals that were never asked
// for (`approval_missing`).
import { ALLOWED, type Decision, type Judgement } from './judgement.ts';

/** Without counters and checks outside, which are for what can still be refused. */
export function withoutLimits(judgement: Judgement): Judgement {
  const { outside, ...rest } = judgement;
  const { rateChecks, sequences } = rest;
  if (rateChecks.length === 0 && sequences === null && outside === undefined) return judgement;
  return { ...rest, rateChecks: [], sequences: sequences && { ...sequences, isObserved: true } };
}

export function observed(decision: Decision): Decision {
  if (decision === ALLOWED) return OBSERVED_ALLOWED;
  const { policyId, matches, redacted } = decision;
  const isMissing = decision.outcome === 'pending';
  const outcome = isMissing ? 'blocked' : decision.outcome;
  const reason = isMissing ? 'approval_missing' : decision.reason;
  const result = { outcome, reason, policy_id: policyId, matches, ...AFTER_THE_FACT };
  return { outcome, reason, policyId, matches, redacted, observed: true, resultJson: JSON.stringify(result) };
}

/** An event that was judged before it was done: what was decided then, by its id. */
export type Before = Pick<Decision, 'outcome' | 'reason' | 'policyId'> & { id: string };

/**
 * The outcome of before, in place of another. `decision`: on what was not asked about then, its result. What was
 * matched then is not matched again, so no alert is raised twice.
 */
export function decidedBefore({ id, ...before }: Before, decision: Decision): Decision {
  const own = observed(decision);
  const { outcome, reason, policyId } = own.outcome === 'allowed' ? before : own;
  const { matches, redacted } = decision;
  const enforced = own.outcome === 'allowed' ? {} : { enforced: false };
  const made = { outcome, reason, policy_id: policyId, matches, decision_id: id, ...enforced };
  const resultJson = JSON.stringify({ ...made, source: AFTER_THE_FACT.source });
  return { outcome, reason, policyId, matches, redacted, observed: true, resultJson };
}

const AFTER_THE_FACT = { enforced: false, source: 'otlp' };

const OBSERVED_ALLOWED: Decision = {
  ...ALLOWED,
  observed: true,
  resultJson: JSON.stringify({ outcome: 'allowed', reason: null, policy_id: null, matches: [], ...AFTER_THE_FACT }),
};
