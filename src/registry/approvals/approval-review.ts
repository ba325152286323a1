// Says whether an event that was judged before may be let through now: one that waited, in the moment in which its
// approval is settled (inside approvals.ts), and one whose answer is given again (decision points). Since it was judged
// its agent may have been switched off, and policies may have been made that block it. The event is fetched only where
// such a policy, or the agent, is newer than it: it was judged by all the others. For an approval what is stored is
// judged: where a filter redacted something, a policy sees the mark instead.
// Invariant: counters are not asked, since the event was counted when it came. Nothing is written.
// Failure: an event that cannot be fetched where it would have to be cannot be approved: `unavailable`, for now.
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Approval } from '../../../schemas/approval.ts';
import type { JsonObject } from '../../../schemas/common.ts';
import type { PolicyMatch } from '../../../schemas/event.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { exactIsoTime } from '../../../schemas/time.ts';
import { inSlices } from '../../common/async.ts';
import { ServiceError } from '../../common/errors.ts';
import { parseExact } from '../../common/exact-json.ts';
import { JUDGED_BEFORE_MS } from '../../common/limits.ts';
import type { EventView } from '../../policy/judgement.ts';
import type { PolicyWork } from '../../policy/policy-work.ts';
import type { RegistryStore } from '../commit.ts';
import { isInForce, readPolicy } from '../policies/policy-record.ts';

/** The stored parts of an event. `occurredMs`: epoch ms, to the microsecond. */
export type StoredEvent = Pick<EventView, 'type' | 'payloadText'> & { traceId: string | undefined; occurredMs: number };
/** null: it is not stored, or not yet. */
export type FetchEvent = (account: string, agent: string, event: string) => Promise<StoredEvent | null>;

/** `agentText`: the agent's record as it was read; a commit that relies on the review holds only while it stands. */
export type Review =
  | { verdict: 'allowed'; agentText: string }
  | { verdict: 'agent_inactive'; agentText: string }
  | { verdict: 'blocked'; agentText: string; policyId: string }
  | { verdict: 'agent_gone' };

/** `created_at`: of the event. */
export type Reviewed = Pick<Approval, 'agent_id' | 'event_id' | 'created_at'> & {
  /**
   * The matches that an answer which is given again rests on. Any other policy that asks for approval, or redacts,
   * holds it back, too. Left out: a person has decided, knowing what is stored.
   */
  matches?: readonly PolicyMatch[];
};

/** Throws ServiceError unavailable where the event would have to be seen and cannot be. */
export async function reviewApproval(
  { redis, keys }: RegistryStore,
  { fetchEvent, work }: { fetchEvent: FetchEvent | undefined; work: PolicyWork },
  account: string,
  { agent_id: agentId, event_id: eventId, created_at: createdAt, matches: known }: Reviewed,
): Promise<Review> {
  const [agentText, policyTexts] = await Promise.all([
    redis.get(keys.agent(account, agentId)),
    redis.hvals(keys.policies(account)),
  ]);
  if (agentText === null) return { verdict: 'agent_gone' };
  const agent = JSON.parse(agentText) as AgentRecord;
  if (agent.status === 'inactive') return { verdict: 'agent_inactive', agentText };
  // Who is older than that was in force for the event.
  const isNewer = (changedAt: string) => Date.parse(changedAt) >= Date.parse(createdAt) - JUDGED_BEFORE_MS;
  const nowMs = Date.now();
  const policies = (await inSlices(policyTexts, readPolicy))
    .filter((policy) => isInForce(policy, nowMs) && (policy.agent_id === null || policy.agent_id === agentId))
    .filter(
      ({ updated_at, starts_at = updated_at }) =>
        isNewer(agent.updated_at) || isNewer(updated_at) || isNewer(starts_at),
    )
    .filter((policy) => blocks(policy) || (known !== undefined && changesAnswer(policy, known)));
  if (policies.length === 0) return { verdict: 'allowed', agentText };
  const event = await fetchEvent?.(account, agentId, eventId);
  if (event === null || event === undefined) throw notStored();
  const trial = { policies, event: viewOf(event, agent), isAgentOff: false };
  const { outcome, policy_id: policyId, matches } = (await work.evaluate(account, trial)).policy_result;
  const redacting = matches.find(({ policy_id: id }) => policies.some((policy) => policy.id === id && redacts(policy)));
  if (outcome !== 'allowed' && policyId !== null) return { verdict: 'blocked', agentText, policyId };
  if (known === undefined || redacting === undefined) return { verdict: 'allowed', agentText };
  return { verdict: 'blocked', agentText, policyId: redacting.policy_id };
}

const NOT_ASKED_AGAIN: readonly Policy['type'][] = ['rate_limit', 'budget', 'sequence', 'require_approval'];

/**
 * Rate limits, budgets and sequences ask what was before an event when it comes, and are not asked again; who asks for
 * approval does not block.
 */
function blocks({ type, actions }: Policy): boolean {
  return !NOT_ASKED_AGAIN.includes(type) && actions.includes('block');
}

/** An answer knows a policy at the revision that it names. */
function changesAnswer(policy: Policy, known: readonly PolicyMatch[]): boolean {
  const { id, revision, type, actions } = policy;
  const asks = type === 'require_approval' && actions.some((action) => action !== 'log');
  if (!asks && !redacts(policy)) return false;
  return !known.some((match) => match.policy_id === id && match.revision === revision);
}

function redacts({ type, conditions }: Policy): boolean {
  return type === 'data_filter' && (conditions as { redact?: unknown }).redact === true;
}

/** A stored event as policies see it. */
export function viewOf({ type, traceId, occurredMs, payloadText }: StoredEvent, agent: AgentRecord): EventView {
  const payload = parseExact(payloadText) as JsonObject;
  return {
    ...{ type, payload, payloadText, agent },
    trace_id: traceId,
    agent_id: agent.id,
    timestamp: exactIsoTime(occurredMs),
  };
}

/** It may be stored a moment later. */
export class EventNotStored extends ServiceError {}

function notStored(): EventNotStored {
  const message =
    'A policy was made since this event came, and the event cannot be judged by it yet: it is not stored. Nothing was recorded.';
  return new EventNotStored('unavailable', message, { recorded: false, retryAfterSeconds: 1 });
}
