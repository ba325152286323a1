// What was decided about an event, for a program that is about to act.
import type { Event, PolicyMatch } from './api.ts';
import { ApiError } from './errors.ts';

export type Decision = {
  /** May it be done? */
  allowed: boolean;
  outcome: 'allowed' | 'blocked' | 'pending' | 'unavailable';
  /** Why not, for the model: the description of the policy, where it has one. undefined: it may be done. */
  reason?: string;
  /** undefined: it is not known whether one was recorded. */
  eventId?: string;
  approvalId?: string;
  /** All policies that matched. */
  policies: readonly PolicyMatch[];
  /** The budgets that hold for it, with what they have left; undefined: none does. */
  budgets?: Event['policy_result']['budgets'];
  /** The payload with what a policy redacts; undefined: nothing is redacted. */
  redacted?: Record<string, unknown>;
};

/** Throws ApiError where it is not the answer of the service: an outcome that it does not know allows nothing. */
export function decisionOf(answer: unknown): Decision {
  const { id, policy_result: result, redacted_payload: redacted } = (answer ?? {}) as Partial<Event>;
  if (typeof id !== 'string' || typeof result?.outcome !== 'string' || !Array.isArray(result.matches))
    throw unexpected('no event with its policy_result');
  const { outcome, matches, policy_id, approval_id, budgets } = result;
  const policy = matches.find((match) => match.policy_id === policy_id);
  const reasons: Record<string, string | undefined> = {
    allowed: undefined,
    blocked:
      result.reason === 'agent_inactive'
        ? 'Blocked: the agent is switched off.'
        : policy
          ? (policy.description ?? `Blocked by policy "${policy.name}".`)
          : 'Blocked.',
    pending: `Approval ${approval_id} is pending: a person has not decided it yet.`,
  };
  if (!Object.hasOwn(reasons, outcome)) throw unexpected(`the outcome "${outcome}"`);
  const reason = reasons[outcome];
  return {
    allowed: reason === undefined,
    outcome,
    ...(reason === undefined ? {} : { reason }),
    eventId: id,
    ...(approval_id === undefined ? {} : { approvalId: approval_id }),
    policies: matches,
    ...(budgets && { budgets }),
    ...(redacted === undefined ? {} : { redacted: redacted as Record<string, unknown> }),
  };
}

/** The error for an answer that is not of the service, or of a later version whose words this client does not know. */
export function unexpected(what: string): ApiError {
  return new ApiError(200, 'unexpected_answer', `The answer is not one of Gatehouse: ${what}.`);
}
