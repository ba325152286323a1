// What policies would say of an event (POST /v1/policies/evaluate): those in force, or some that need not exist.
// The engine is the front's own; what is left out is whatever an accepted event leaves behind.
// Invariant: nothing is recorded and no counter is asked or moved, so a rate limit says `counted` and never matches. Of
// a recorded event what is stored is judged: a place that was redacted is seen as its mark.
// Failure: an event that is not stored (yet) is `not_found`; ClickHouse unavailable is an error as for every read.

import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Policy } from '../../../schemas/policy.ts';
import {
  EvaluatedEvent,
  type PolicyDraft,
  type PolicyEvaluated,
  type PolicyEvaluation,
} from '../../../schemas/policy-evaluation.ts';
import { isoTime, parseExactTime } from '../../../schemas/time.ts';
import { inSlices } from '../../common/async.ts';
import type { ServiceError } from '../../common/errors.ts';
import { exactJson } from '../../common/exact-json.ts';
import { isNumber } from '../../common/exact-number.ts';
import { isId } from '../../common/ids.ts';
import { validationFailed } from '../../common/validation.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import {
  type FetchEvent,
  type Review,
  type Reviewed,
  reviewApproval,
  type StoredEvent,
  viewOf,
} from '../approvals/approval-review.ts';
import { answering, type RegistryStore } from '../commit.ts';
import { checkCompiles } from './policies.ts';
import { hasBegun, isInForce, readPolicy } from './policy-record.ts';

const MADE_UP = (Object.keys(EvaluatedEvent.properties) as (keyof EvaluatedEvent)[]).filter(
  (name) => name !== 'agent_id' && name !== 'id',
);

type Evaluated = PolicyEvaluated | 'no_agent' | 'no_event';

export class PolicyEvaluations {
  readonly #store: RegistryStore;
  readonly #fetchEvent: FetchEvent;
  readonly #work: PolicyWork;

  constructor(store: RegistryStore, fetchEvent: FetchEvent, work: PolicyWork = HERE) {
    this.#store = store;
    this.#fetchEvent = fetchEvent;
    this.#work = work;
  }

  /** Throws ServiceError validation_failed, unavailable. */
  evaluate(account: string, { event: asked, before, policies: given }: PolicyEvaluation): Promise<Evaluated> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      checkEvent(asked);
      for (const [i, { payload }] of (before ?? []).entries())
        if (isNumber(payload)) throw mistake(`/before/${i}/payload`, 'must be object');
      const drafts = given?.map(policyOf);
      for (const [i, draft] of (drafts ?? []).entries())
        await checkCompiles(this.#work, account, draft, `/policies/${i}`);
      const agentId = asked.agent_id;
      const agentText = isId('agent', agentId) ? await redis.get(keys.agent(account, agentId)) : null;
      if (agentText === null) return 'no_agent';
      const agent = JSON.parse(agentText) as AgentRecord;
      const event = await this.#eventOf(account, asked);
      if (event === null) return 'no_event';
      const { policies, later } =
        drafts === undefined ? await this.#active(account, agentId) : { policies: drafts, later: [] };
      // A draft is tried for what it says; that the agent is switched off would hide it.
      const isAgentOff = drafts === undefined && agent.status === 'inactive';
      const earlier = (before ?? []).map((one) => viewOf(madeUp(one), agent));
      const trial = { policies, event: viewOf(event, agent), isAgentOff, before: earlier };
      const { judged, ...result } = await this.#work.evaluate(account, trial);
      return { ...result, judged: [...judged, ...later.map(notStarted)] };
    });
  }

  /**
   * May what was let through be let through again? `event`: as it was sent, since what is stored may be redacted.
   * Throws ServiceError unavailable.
   */
  review(account: string, asked: Reviewed, event: StoredEvent): Promise<Review> {
    const reviewing = { fetchEvent: async () => event, work: this.#work };
    return answering(() => reviewApproval(this.#store, reviewing, account, asked));
  }

  async #eventOf(account: string, { agent_id: agent, id, ...event }: EvaluatedEvent): Promise<StoredEvent | null> {
    if (id !== undefined) return isId('event', id) ? this.#fetchEvent(account, agent, id) : null;
    return madeUp(event);
  }

  /** Those in force, and those that will be. */
  async #active(account: string, agent: string): Promise<{ policies: Policy[]; later: Policy[] }> {
    const texts = await this.#store.redis.hvals(this.#store.keys.policies(account));
    const nowMs = Date.now();
    const active = (await inSlices(texts, readPolicy)).filter(
      (policy) =>
        isInForce(policy, Number.POSITIVE_INFINITY) && (policy.agent_id === null || policy.agent_id === agent),
    );
    return {
      policies: active.filter((policy) => hasBegun(policy, nowMs)),
      later: active.filter((policy) => !hasBegun(policy, nowMs)),
    };
  }
}

function notStarted({ id, name, starts_at }: Policy): PolicyEvaluated['judged'][number] {
  return { policy_id: id, name, result: 'not_started', ...(starts_at === undefined ? {} : { starts_at }) };
}

function madeUp({ type, payload, trace_id: traceId, timestamp }: Omit<EvaluatedEvent, 'agent_id'>): StoredEvent {
  const occurredMs = timestamp === undefined ? Date.now() : parseExactTime(timestamp)!;
  return { type: type!, traceId, occurredMs, payloadText: exactJson(payload) };
}

function mistake(path: string, message: string): ServiceError {
  return validationFailed('The evaluation cannot be made.', [{ path, message }]);
}

/** Recorded or made up, and not both. */
function checkEvent(event: EvaluatedEvent): void {
  const wrong = (path: string, message: string) => mistake(`/event/${path}`, message);
  if (event.id !== undefined) {
    const both = MADE_UP.find((name) => event[name] !== undefined);
    if (both !== undefined) throw wrong(both, 'an event that is named by its id has its own');
    return;
  }
  for (const name of ['type', 'payload'] as const)
    if (event[name] === undefined) throw wrong(name, 'is needed, or the id of a recorded event');
  if (isNumber(event.payload)) throw wrong('payload', 'must be object');
}

function policyOf({ name, type, conditions, actions, severity }: PolicyDraft, i: number): Policy {
  const place = `/policies/${i}`;
  const now = isoTime(Date.now());
  return {
    id: place,
    revision: 1,
    name: name ?? place,
    ...{ type, conditions, actions: [actions].flat() },
    agent_id: null,
    severity: severity ?? null,
    status: 'active',
    mode: 'enforce',
    created_at: now,
    updated_at: now,
  };
}
