// Says whether an event that waited may still be let through, in the moment in which its approval is settled (inside
// approvals.ts). Since it was judged its agent may have been switched off, and policies may have been made that block
// it. The event itself is fetched only where a block policy, or the agent, is newer than it: it was judged by all the
// others. What is judged is what is stored: where a filter redacted something, a policy sees the mark instead.
// Invariant: counters are not asked, since the event was counted when it came. Nothing is written.
// Failure: an event that cannot be fetched where it would have to be cannot be approved: `unavailable`, for now.
import type { AgentRecord } from '../../schemas/agent.ts';
import type { Approval } from '../../schemas/approval.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { Policy } from '../../schemas/policy.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import { ServiceError } from '../common/errors.ts';
import { parseExact } from '../common/exact-json.ts';
import type { EventView } from '../policy/judgement.ts';
import type { PolicyWork } from '../policy/policy-work.ts';
import type { RegistryStore } from './commit.ts';
import { isInForce, readPolicy } from './policy-record.ts';

/** What was stored of an event. `occurredMs`: epoch ms, to the microsecond. */
export type StoredEvent = Pick<EventView, 'type' | 'payloadText'> & { traceId: string | undefined; occurredMs: number };
/** null: it is not stored, or not yet. */
export type FetchEvent = (account: string, agent: string, event: string) => Promise<StoredEvent | null>;

/** `agentText`: the agent's record as it was read; a commit that relies on the review holds only while it stands. */
export type Review =
  | { verdict: 'allowed'; agentText: string }
  | { verdict: 'agent_inactive'; agentText: string }
  | { verdict: 'blocked'; agentText: string; policyId: string }
  | { verdict: 'agent_gone' };

/**
 * A change is in force within a second, and clocks of machines differ: who is this much older than an event was in
 * force for it.
 */
const IN_FORCE_MS = 5_000;

/** Throws ServiceError unavailable where the event would have to be seen and cannot be. */
export async function reviewApproval(
  { redis, keys }: RegistryStore,
  { fetchEvent, work }: { fetchEvent: FetchEvent | undefined; work: PolicyWork },
  account: string,
  { agent_id: agentId, event_id: eventId, created_at: createdAt }: Approval,
): Promise<Review> {
  const [agentText, policyTexts] = await Promise.all([
    redis.get(keys.agent(account, agentId)),
    redis.hvals(keys.policies(account)),
  ]);
  if (agentText === null) return { verdict: 'agent_gone' };
  const agent = JSON.parse(agentText) as AgentRecord;
  if (agent.status === 'inactive') return { verdict: 'agent_inactive', agentText };
  const isNewer = (updatedAt: string) => Date.parse(updatedAt) >= Date.parse(createdAt) - IN_FORCE_MS;
  const policies = policyTexts
    .map(readPolicy)
    .filter((policy) => blocks(policy, agentId) && (isNewer(agent.updated_at) || isNewer(policy.updated_at)));
  if (policies.length === 0) return { verdict: 'allowed', agentText };
  const event = await fetchEvent?.(account, agentId, eventId);
  if (event === null || event === undefined) throw notStored();
  const trial = { policies, event: viewOf(event, agent), isAgentOff: false };
  const { outcome, policy_id: policyId } = (await work.evaluate(account, trial)).policy_result;
  if (outcome !== 'blocked' || policyId === null) return { verdict: 'allowed', agentText };
  return { verdict: 'blocked', agentText, policyId };
}

/** Rate limits count events when they come, and are not asked again; who asks for approval does not block. */
function blocks(policy: Policy, agent: string): boolean {
  const { type, actions, agent_id: scope } = policy;
  const isScoped = scope === null || scope === agent;
  return (
    isInForce(policy) && type !== 'rate_limit' && type !== 'require_approval' && actions.includes('block') && isScoped
  );
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
