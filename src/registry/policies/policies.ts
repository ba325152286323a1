// Policies as resources; what they mean is the policy engine's business.
// Before a policy is kept the engine compiles it once, so that fronts never meet one that does not compile.
// Invariant: names are unique in the account; at most POLICIES_MAX, of them POLICIES_ACTIVE_MAX in force and
// SHADOWS_ACTIVE_MAX active shadows, counted in the commit; a policy is scoped to an agent that exists, or to none, and
// goes with its agent.
// A change reaches the fronts by the invalidation of the account's policies, within a second.

import type { PolicyAction, PolicyMode, PolicyType, Status } from '../../../schemas/closed-sets.ts';
import type { ErrorDetail } from '../../../schemas/error.ts';
import type { Policy, PolicyCreate, PolicyPatch } from '../../../schemas/policy.ts';
import { isoTime } from '../../../schemas/time.ts';
import type { ServiceError } from '../../common/errors.ts';
import { isId, mintId } from '../../common/ids.ts';
import { POLICIES_ACTIVE_MAX, POLICIES_MAX, SEQUENCES_ACTIVE_MAX, SHADOWS_ACTIVE_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import type { Keys } from '../../redis/keys.ts';
import { type Actor, isWithin, keepWithin, waitingAs } from '../accounts/principal.ts';
import { changedFields, SYSTEM } from '../audit.ts';
import { isActiveSequence, roomForSequences } from '../budgets/sequence-memories.ts';
import { answering, type Guard, nowOf, present, type RegistryStore } from '../commit.ts';
import { hasNamedCheck, NO_CHECK, namedCheck } from '../external-checks.ts';
import type { Created, Idempotency, Keeping } from '../idempotency.ts';
import { fitsNamed, type Listed, type NamedFilter, type Page, pageOf } from '../lists.ts';
import { cannotBeKept, type Edit, type More, NamedRecords, refusalOf, tooMany } from '../named-records.ts';
import { activeWrites, inactiveWrites, roomFor } from './active-policies.ts';
import { readPolicy } from './policy-record.ts';
import { startMistakes, startOf } from './policy-starts.ts';
import { isExpired, shadowFields, shadowMistakes, withExpiry } from './shadow-policies.ts';

type PolicyFilter = NamedFilter & {
  agent_id?: readonly string[] | undefined;
  type?: readonly PolicyType[] | undefined;
  status?: readonly Status[] | undefined;
  mode?: readonly PolicyMode[] | undefined;
};

export class Policies {
  readonly #store: RegistryStore;
  readonly #work: PolicyWork;
  readonly #keys: Keys;
  readonly #records: NamedRecords<Policy>;

  constructor(store: RegistryStore, work: PolicyWork = HERE) {
    this.#store = store;
    this.#work = work;
    this.#keys = store.keys;
    this.#records = policyRecords(store);
  }

  /** Throws ServiceError validation_failed, name_taken, idempotency_conflict, idempotency_in_progress, unavailable. */
  create(account: string, body: PolicyCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return answering(() => {
      // Before a kept answer is given again: it may be of another key.
      keepWithin(actor, body.agent_id ?? null, { what: 'policy', path: '/agent_id' });
      return this.#records.once(account, idempotency, (keeping) => this.#create(account, body, actor, keeping));
    });
  }

  /**
   * The policy that a creation would make; nothing is kept, and its name may be taken. Throws ServiceError
   * validation_failed, unavailable, as creating it does.
   */
  draft(account: string, body: PolicyCreate, actor: Actor, work: PolicyWork): Promise<Policy> {
    return answering(async () => {
      keepWithin(actor, body.agent_id ?? null, { what: 'policy', path: '/agent_id' });
      const { policy } = await this.#made(account, { body, actor, work, atMs: nowOf(this.#store) });
      const { agent_id: agent } = policy;
      if (
        agent !== null &&
        (!isId('agent', agent) || (await this.#store.redis.exists(this.#keys.agent(account, agent))) === 0)
      )
        throw refusal('agent', actor);
      if (!(await hasNamedCheck(this.#store, account, policy))) throw refusal('check', actor);
      return policy;
    });
  }

  get(account: string, id: string): Promise<Policy | null> {
    return answering(() => this.#records.get(account, id));
  }

  /** Newest first. `agent_id`: only policies scoped to one of these agents. */
  list(
    account: string,
    { id, q, agent_id, type, status, mode, ...page }: PolicyFilter & Page,
  ): Promise<Listed<Policy>> {
    return answering(async () => {
      const isNamed = fitsNamed({ id, q });
      const fits = (policy: Policy) =>
        isNamed(policy) &&
        (agent_id === undefined || (policy.agent_id !== null && agent_id.includes(policy.agent_id))) &&
        (type === undefined || type.includes(policy.type)) &&
        (status === undefined || status.includes(policy.status)) &&
        (mode === undefined || mode.includes(policy.mode));
      return pageOf((await this.#records.all(account)).filter(fits), page);
    });
  }

  /**
   * null: no such policy. `revisions`: only while it is at one of these. Throws ServiceError revision_conflict among
   * others.
   */
  patch(
    account: string,
    id: string,
    { body, revisions }: { body: PolicyPatch; revisions?: readonly number[] | undefined },
    actor: Actor,
  ): Promise<Policy | null> {
    const { actions, owner, starts_at: startsAt, ...rest } = body;
    const edited = async ({ owner: ownerBefore, starts_at: startBefore, ...before }: Policy): Promise<Policy> => {
      keepTo(startMistakes(startsAt, before));
      const ownerAfter = owner === undefined ? ownerBefore : owner;
      const start = startOf(startsAt === undefined ? startBefore : startsAt);
      const after: Policy = {
        ...before,
        ...rest,
        ...start,
        ...(actions === undefined ? {} : { actions: asArray(actions) }),
      };
      if (typeof ownerAfter === 'string') after.owner = ownerAfter;
      const changed = changedFields(before, after);
      if (changed.includes('conditions') || changed.includes('actions'))
        await checkCompiles(this.#work, waitingAs(actor, account), after);
      return body.status === undefined ? after : withExpiry({ ...before }, after, nowOf(this.#store));
    };
    return this.#records.change(account, id, { edited, ...this.#recounted(account, actor), revisions }, actor);
  }

  /**
   * Puts the text of an earlier revision back, as a new one; where nothing differs there is none. Whether the policy is
   * switched on, and from when, stays as it is. null: no such policy. `revisions`: only while it is at one of these.
   */
  restore(
    account: string,
    id: string,
    { text, revisions }: { text: Policy; revisions?: readonly number[] | undefined },
    actor: Actor,
  ): Promise<Policy | null> {
    const { name, conditions, actions, severity, description } = text;
    const edited = async ({ description: _, ...before }: Policy): Promise<Policy> => {
      const rest = { ...before, name, conditions, actions, severity };
      const after = description === undefined ? rest : { ...rest, description };
      await checkCompiles(this.#work, waitingAs(actor, account), after);
      return after;
    };
    const details = { restored_from: text.revision };
    const edit = { edited, ...this.#recounted(account, actor), revisions, details };
    return this.#records.change(account, id, edit, actor);
  }

  /** Begins the window of a budget again. null: no such policy. Throws ServiceError validation_failed among others. */
  reset(
    account: string,
    id: string,
    { revisions }: { revisions?: readonly number[] | undefined },
    actor: Actor,
  ): Promise<Policy | null> {
    const edited = async (before: Policy): Promise<Policy> => {
      if (before.type !== 'budget') {
        const details = [{ path: '/type', message: `is ${before.type}: nothing but a budget can be reset` }];
        throw validationFailed('The policy cannot be reset.', details);
      }
      return { ...before, reset_at: isoTime(nowOf(this.#store)) };
    };
    const edit = { edited, ...this.#recounted(account, actor), revisions, details: { reset: true } };
    return this.#records.change(account, id, edit, actor);
  }

  /** false: no such policy. `revisions`: only while it is at one of these. */
  remove(account: string, id: string, actor: Actor, revisions?: readonly number[]): Promise<boolean> {
    const writes = inactiveWrites(this.#keys, account, id);
    return this.#records.remove(account, id, { writes, revisions }, actor);
  }

  /** Makes a shadow inactive whose time is over. Changes nothing of any other policy. */
  async expire(account: string, id: string): Promise<boolean> {
    let isDue = false;
    const edited = (before: Policy): Policy => {
      isDue = before.status === 'active' && isExpired(before, nowOf(this.#store));
      return isDue ? { ...before, status: 'inactive' } : before;
    };
    const edit = { edited, ...this.#recounted(account, SYSTEM), details: { expired: true } };
    await this.#records.change(account, id, edit, SYSTEM);
    return isDue;
  }

  async #create(account: string, body: PolicyCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const atMs = nowOf(this.#store);
    const { policy, original } = await this.#made(account, { body, actor, work: this.#work, atMs });
    const { guards = [], writes = [] } = this.#counted(account, policy, actor);
    const copied = original === undefined ? [] : [isThere(this.#keys, account, original.id)];
    const more = { guards: [...guards, ...copied, ...namedCheck(this.#keys, account, policy)], writes };
    const refusing = (guard: string) => refusal(guard, actor);
    const addition = { keeping, details: creationDetails(policy), atMs, ...more, refusal: refusing };
    return this.#records.add(account, policy, addition, actor);
  }

  async #made(
    account: string,
    { body, actor, work, atMs }: { body: PolicyCreate; actor: Actor; work: PolicyWork; atMs: number },
  ): Promise<{ policy: Policy; original: Policy | undefined }> {
    const original = await this.#originalOf(account, body, actor);
    keepTo(startMistakes(body.starts_at, body));
    const policy = newPolicy(body, atMs, original);
    await checkCompiles(work, waitingAs(actor, account), policy);
    return { policy, original };
  }

  /** The policy that a new shadow copies. Throws ServiceError validation_failed. */
  async #originalOf(account: string, body: PolicyCreate, actor: Actor): Promise<Policy | undefined> {
    const found = body.shadow_of === undefined ? null : await this.#records.get(account, body.shadow_of);
    const original = found !== null && isWithin(actor, found.agent_id) ? found : undefined;
    keepTo(shadowMistakes(body, original));
    return original;
  }

  /** The guards and writes that an edit adds to its change. */
  #recounted(account: string, actor: Actor): Required<Pick<Edit<Policy>, 'more' | 'refusal'>> {
    return {
      more: (before, after) => {
        const named = namedCheck(this.#keys, account, after, before);
        if (after.status !== before.status) {
          const { guards = [], ...counted } = this.#counted(account, after, actor, before);
          return { ...counted, guards: [...guards, ...named] };
        }
        const isMoved = after.expires_at !== before.expires_at || after.type === 'sequence';
        return { guards: named, writes: isMoved ? activeWrites(this.#keys, account, after, before) : [] };
      },
      refusal: (guard) => refusal(guard, actor),
    };
  }

  /** The guards and writes that keep count of the active policies. */
  #counted(account: string, policy: Policy, actor: Actor, before?: Policy): More {
    const writes = activeWrites(this.#keys, account, policy, before);
    if (policy.status !== 'active') return { writes };
    const sequences = roomForSequences(this.#keys, account, isActiveSequence(policy) ? 1 : 0);
    return { guards: [roomFor(this.#keys, account, policy, actor), ...sequences], writes };
  }
}

/** The policy that a shadow copies may be deleted later, but not before the shadow is made. */
export function isThere(keys: Keys, account: string, id: string): Guard {
  return present('original', ['hget', keys.policies(account), id]);
}

export function policyRecords(store: RegistryStore): NamedRecords<Policy> {
  const { policies: hash, policyNames: names } = store.keys;
  return new NamedRecords(store, { kind: 'policy', hash, names, read: readPolicy, max: POLICIES_MAX });
}

/** `nowMs`: when it is made; `original`: what it copies. */
export function newPolicy(body: PolicyCreate, nowMs: number, original?: Policy): Policy {
  return {
    id: mintId('policy', nowMs),
    revision: 1,
    ...shadowFields(body, nowMs, original),
    name: body.name,
    type: body.type,
    agent_id: body.agent_id ?? original?.agent_id ?? null,
    conditions: body.conditions,
    actions: asArray(body.actions),
    severity: body.severity ?? null,
    ...(body.description === undefined ? {} : { description: body.description }),
    status: body.status ?? 'active',
    ...startOf(body.starts_at),
    created_at: isoTime(nowMs),
    updated_at: isoTime(nowMs),
  };
}

/** Throws ServiceError validation_failed. */
function keepTo(mistakes: ErrorDetail[]): void {
  if (mistakes.length > 0) throw validationFailed('The policy cannot be kept.', mistakes);
}

function asArray(actions: PolicyAction | PolicyAction[]): PolicyAction[] {
  return Array.isArray(actions) ? actions : [actions];
}

/** The details of a creation's audit entry beside the name. */
export function creationDetails(policy: Policy): object {
  const { type, revision, conditions, actions, severity, status, starts_at, mode, shadow_of: original } = policy;
  const start = starts_at === undefined ? {} : { starts_at };
  const shadow = mode === 'shadow' ? { mode, ...(original === undefined ? {} : { shadow_of: original }) } : {};
  return { type, revision, after: { conditions, actions, severity, status, ...start, ...shadow } };
}

/** Throws ServiceError validation_failed with what the engine says. `place`: of the policy in the request. */
export async function checkCompiles(work: PolicyWork, inName: string, policy: Policy, place = ''): Promise<void> {
  const { type, conditions, actions, agent_id } = policy;
  const mistakes = await work.check(inName, { type, conditions, actions, agent_id });
  if (mistakes.length === 0) return;
  const details = mistakes.map((detail) => ({ ...detail, path: place + detail.path }));
  throw validationFailed('The policy does not compile.', details);
}

export function refusal(guard: string, actor: Actor): ServiceError {
  switch (guard) {
    case 'check':
      return cannotBeKept('policy', NO_CHECK.path, NO_CHECK.message);
    case 'original':
      return cannotBeKept('policy', '/shadow_of', 'no such policy');
    case 'shadows':
      return cannotBeKept('policy', '/status', tooMany('active shadows', SHADOWS_ACTIVE_MAX, actor));
    case 'sequences':
      return cannotBeKept('policy', '/status', tooMany('active sequences', SEQUENCES_ACTIVE_MAX, actor));
    case 'active':
      return cannotBeKept('policy', '/status', tooMany('active policies', POLICIES_ACTIVE_MAX, actor));
    default:
      return refusalOf(guard, { kind: 'policy', max: POLICIES_MAX }, actor);
  }
}
