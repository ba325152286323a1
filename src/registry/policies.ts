// Policies as resources (spec 2.5, 4.11-4.13, decisions 6); what they mean is the policy engine's business.
// Before a policy is kept the engine compiles it once, so that fronts never meet one that does not compile.
// Invariant: names are unique in the account; at most POLICIES_MAX, of them POLICIES_ACTIVE_MAX active, counted in the commit;
// a policy is scoped to an agent that exists, or to none, and goes with its agent.
// A change reaches the fronts by the invalidation of the account's policies, within a second.

import type { PolicyAction, PolicyType, Status } from '../../schemas/common.ts';
import type { ErrorDetail } from '../../schemas/error.ts';
import type { Policy, PolicyCreate, PolicyPatch } from '../../schemas/policy.ts';
import { isoTime } from '../../schemas/time.ts';
import { ServiceError } from '../errors.ts';
import { isId, mintId } from '../ids.ts';
import { POLICIES_ACTIVE_MAX, POLICIES_MAX } from '../limits.ts';
import { checkPolicy } from '../policy/engine.ts';
import { PolicyError } from '../policy/policy-error.ts';
import type { Keys } from '../redis/keys.ts';
import { validationFailed } from '../validation.ts';
import { auditLog, changedFields, updateDetails } from './audit.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  commit,
  type Guard,
  inRounds,
  is,
  present,
  type RegistryStore,
  type Words,
} from './commit.ts';
import {
  answerOnce,
  type Created,
  IDEMPOTENCY_GUARD,
  type Idempotency,
  type Keeping,
  tookTooLong,
} from './idempotency.ts';
import { type Listed, type Page, pageOf } from './lists.ts';
import type { Actor } from './principal.ts';

export type PolicyFilter = {
  agent_id?: string | undefined;
  type?: PolicyType | undefined;
  status?: Status | undefined;
};

export class Policies {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #now: () => number;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
    this.#now = store.now ?? Date.now;
  }

  /** Throws ServiceError validation_failed, name_taken, idempotency_conflict, idempotency_in_progress, unavailable. */
  create(account: string, body: PolicyCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return answering(() =>
      answerOnce(this.#store, { account, kind: 'policy', idempotency }, (keeping) =>
        this.#create(account, body, actor, keeping),
      ),
    );
  }

  get(account: string, id: string): Promise<Policy | null> {
    return answering(async () => {
      const text = await this.#text(account, id);
      return text === null ? null : (JSON.parse(text) as Policy);
    });
  }

  /** Newest first. `agent_id`: only policies scoped to that agent. */
  list(account: string, { agent_id, type, status, ...page }: PolicyFilter & Page): Promise<Listed<Policy>> {
    return answering(async () => {
      const texts = await this.#store.redis.hvals(this.#keys.policies(account));
      const policies = texts.map((text) => JSON.parse(text) as Policy);
      const fits = (policy: Policy) =>
        (agent_id === undefined || policy.agent_id === agent_id) &&
        (type === undefined || policy.type === type) &&
        (status === undefined || policy.status === status);
      return pageOf(policies.filter(fits), page);
    });
  }

  /** null: no such policy. */
  patch(account: string, id: string, body: PolicyPatch, actor: Actor): Promise<Policy | null> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return null;
      const before = JSON.parse(text) as Policy;
      const { actions, ...rest } = body;
      const after: Policy = { ...before, ...rest, ...(actions === undefined ? {} : { actions: asArray(actions) }) };
      const changed = changedFields(before, after);
      if (changed.length === 0) return before;
      if (changed.includes('conditions') || changed.includes('actions')) check(after);
      const at = this.#now();
      after.updated_at = isoTime(at);
      const refused = await this.#update(account, { text, before, after, at }, actor);
      if (refused === undefined) return after;
      if (refused === 'record') return AGAIN;
      throw refusal(refused);
    });
  }

  /** false: no such policy. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return false;
      const { name, agent_id } = JSON.parse(text) as Policy;
      const hash = this.#keys.policies(account);
      const at = this.#now();
      const { refused } = await commit(this.#store, {
        account,
        at,
        guards: [is('record', ['hget', hash, id], text)],
        writes: [
          ['hdel', hash, id],
          ['hdel', this.#keys.policyNames(account), name],
          ['srem', this.#keys.activePolicies(account), id],
          ...this.#scopeWrites('srem', account, agent_id, id),
        ],
        changes: [{ kind: 'policy', id, record: null }],
        audit: [
          auditLog(
            { action: 'policy.deleted', type: 'policy', id, details: { name, ...ofAgent(agent_id) } },
            actor,
            at,
          ),
        ],
      });
      return refused === undefined ? true : AGAIN;
    });
  }

  async #text(account: string, id: string): Promise<string | null> {
    return isId('policy', id) ? this.#store.redis.hget(this.#keys.policies(account), id) : null;
  }

  async #create(account: string, body: PolicyCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const at = this.#now();
    const policy = newPolicy(body, at);
    check(policy);
    if (policy.agent_id !== null && !isId('agent', policy.agent_id)) throw refusal('agent');
    const answer = JSON.stringify(policy);
    const { id, name, type, agent_id, status } = policy;
    const keys = this.#keys;
    const [hash, names, active] = [keys.policies(account), keys.policyNames(account), keys.activePolicies(account)];
    const isActive = status === 'active';
    const { refused } = await commit(this.#store, {
      account,
      at,
      guards: [
        ...keeping.guards,
        ...(agent_id === null ? [] : [present('agent', ['get', keys.agent(account, agent_id)])]),
        absent('name', ['hget', names, name]),
        below('full', ['hlen', hash], POLICIES_MAX),
        ...(isActive ? [below('active', ['scard', active], POLICIES_ACTIVE_MAX)] : []),
      ],
      writes: [
        ['hset', hash, id, answer],
        ['hset', names, name, id],
        ...(isActive ? ([['sadd', active, id]] as Words[]) : []),
        ...this.#scopeWrites('sadd', account, agent_id, id),
        ...keeping.writes(answer),
      ],
      changes: [{ kind: 'policy', id, record: policy }],
      audit: [
        auditLog(
          { action: 'policy.created', type: 'policy', id, details: { name, type, ...ofAgent(agent_id) } },
          actor,
          at,
        ),
      ],
    });
    if (refused !== undefined) throw refusal(refused);
    return answer;
  }

  /** The name of the guard that did not hold. */
  async #update(
    account: string,
    change: { text: string; before: Policy; after: Policy; at: number },
    actor: Actor,
  ): Promise<string | undefined> {
    const { text, before, after, at } = change;
    const { id } = before;
    const [hash, active] = [this.#keys.policies(account), this.#keys.activePolicies(account)];
    const guards: Guard[] = [is('record', ['hget', hash, id], text)];
    const writes: Words[] = [['hset', hash, id, JSON.stringify(after)]];
    if (after.name !== before.name) {
      const names = this.#keys.policyNames(account);
      guards.push(absent('name', ['hget', names, after.name]));
      writes.push(['hdel', names, before.name], ['hset', names, after.name, id]);
    }
    if (after.status !== before.status) {
      if (after.status === 'active') guards.push(below('active', ['scard', active], POLICIES_ACTIVE_MAX));
      writes.push([after.status === 'active' ? 'sadd' : 'srem', active, id]);
    }
    const details = { ...updateDetails(before, after), ...ofAgent(after.agent_id) };
    const { refused } = await commit(this.#store, {
      account,
      at,
      guards,
      writes,
      changes: [{ kind: 'policy', id, record: after }],
      audit: [auditLog({ action: 'policy.updated', type: 'policy', id, details }, actor, at)],
    });
    return refused;
  }

  #scopeWrites(command: 'sadd' | 'srem', account: string, agent: string | null, id: string): Words[] {
    return agent === null ? [] : [[command, this.#keys.agentScope(account, agent), id]];
  }
}

function newPolicy(body: PolicyCreate, nowMs: number): Policy {
  return {
    id: mintId('policy', nowMs),
    name: body.name,
    type: body.type,
    agent_id: body.agent_id ?? null,
    conditions: body.conditions,
    actions: asArray(body.actions),
    severity: body.severity ?? null,
    ...(body.description === undefined ? {} : { description: body.description }),
    status: body.status ?? 'active',
    created_at: isoTime(nowMs),
    updated_at: isoTime(nowMs),
  };
}

function asArray(actions: PolicyAction | PolicyAction[]): PolicyAction[] {
  return Array.isArray(actions) ? actions : [actions];
}

/** Throws ServiceError validation_failed with what the engine says. */
function check({ type, conditions, actions, agent_id }: Policy): void {
  try {
    checkPolicy({ type, conditions, actions, agent_id });
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    throw validationFailed('The policy does not compile.', error.details);
  }
}

function ofAgent(agent: string | null): { agent_id?: string } {
  return agent === null ? {} : { agent_id: agent };
}

function refusal(guard: string): ServiceError {
  const invalid = (detail: ErrorDetail) => validationFailed('The policy cannot be kept.', [detail]);
  switch (guard) {
    case 'name':
      return new ServiceError('name_taken', 'Another policy has this name.', { recorded: false });
    case 'agent':
      return invalid({ path: '/agent_id', message: 'no such agent' });
    case 'full':
      return invalid({ path: '/', message: `an account has at most ${POLICIES_MAX} policies` });
    case 'active':
      return invalid({ path: '/status', message: `an account has at most ${POLICIES_ACTIVE_MAX} active policies` });
    case IDEMPOTENCY_GUARD:
      return tookTooLong();
    default:
      throw new Error(`unexpected guard ${guard}`);
  }
}
