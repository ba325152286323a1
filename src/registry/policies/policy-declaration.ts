// Declared policies (POST /v1/policies/apply): what an owner wants its policies to be, against what they are.
//   plan     the declared policies are compared with those of the account, by name: what is to be created, updated,
//            replaced, deleted; with a hash of all of it. One of the same text under a new name is renamed: what it has
//            counted and what waits for it stays
//   apply    plans again; where the hash is still the one that was asked for, the whole plan is one commit
// Invariant: all or nothing, since a plan is one script (commit.ts), guarded by every record that it touches; a plan
// whose hash is not the present one changes nothing. Policies of another owner are never touched; one of none is taken
// over by the owner who declares its name, and the plan says so. Declared are all of an owner's: what is left out is
// deleted.
// Failure: what cannot be applied whole is refused with the place of each mistake in the declaration.

import { createHash } from 'node:crypto';
import type { ErrorDetail } from '../../../schemas/error.ts';
import type { Policy, PolicyCreate } from '../../../schemas/policy.ts';
import type { PlannedPolicy, PolicyDeclaration, PolicyPlan } from '../../../schemas/policy-plan.ts';
import { inSlices } from '../../common/async.ts';
import { differencesOf } from '../../common/differences.ts';
import { ServiceError } from '../../common/errors.ts';
import { exactJson } from '../../common/exact-json.ts';
import { isId } from '../../common/ids.ts';
import { POLICIES_ACTIVE_MAX, POLICIES_MAX, SEQUENCES_ACTIVE_MAX, SHADOWS_ACTIVE_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import type { Actor } from '../accounts/principal.ts';
import { isActiveSequence, roomForSequences } from '../budgets/sequence-memories.ts';
import { AGAIN, below, type CommandArgs, commit, type Guard, inRounds, nowOf, type RegistryStore } from '../commit.ts';
import { hasNamedCheck, NO_CHECK, namedCheck } from '../external-checks.ts';
import type { ChangeStep, NamedRecords, Read } from '../named-records.ts';
import { activeWrites, inactiveWrites, roomFor } from './active-policies.ts';
import { creationDetails, isThere, newPolicy, policyRecords, refusal } from './policies.ts';
import { readPolicy } from './policy-record.ts';
import { startMistakes } from './policy-starts.ts';
import { shadowMistakes, withExpiry } from './shadow-policies.ts';

/** Guards of what there may be. */
const BOUNDS = ['full', 'active', 'shadows', 'sequences'];
/** A declaration with more mistakes names the first ones. */
const MISTAKES_SHOWN_MAX = 50;

/** `after` null: it is to be deleted. `copies`: of a shadow that is new, the policy that it copies. */
type Planned = { reported: PlannedPolicy; before: Read<Policy> | undefined; after: Policy | null; copies?: string };

/** `isStale`: the plan is not the one that was asked for, and nothing was changed. */
type Declared = { plan: PolicyPlan; isStale: boolean };

export class PolicyDeclarations {
  readonly #store: RegistryStore;
  readonly #work: PolicyWork;
  readonly #records: NamedRecords<Policy>;

  constructor(store: RegistryStore, work: PolicyWork = HERE) {
    this.#store = store;
    this.#work = work;
    this.#records = policyRecords(store);
  }

  /** Throws ServiceError validation_failed, name_taken, unavailable. */
  async apply(account: string, declaration: PolicyDeclaration, actor: Actor): Promise<Declared> {
    const { owner, policies, dry_run: isDryRun = false, hash: wanted } = declaration;
    if (!isDryRun && wanted === undefined)
      throw cannotApply([{ path: '/hash', message: 'is needed; `dry_run` gives the plan with its hash' }]);
    checkNames(policies);
    const checked = new Set<PolicyCreate>();
    return inRounds(async () => {
      const at = nowOf(this.#store);
      const present = await this.#present(account);
      const planned = plan(present, declaration, at);
      checkShadows(present, declaration, planned);
      await this.#check(account, declaration, planned, checked);
      checkRoom([...present.values()], planned, actor);
      const reported = planned.map((one) => one.reported);
      const shown = { owner, hash: hashOf(owner, reported), applied: false, policies: reported };
      if (isDryRun) return { plan: shown, isStale: false };
      if (shown.hash !== wanted) return { plan: shown, isStale: true };
      const refused = await this.#commit(account, { planned, owner, at }, actor);
      if (refused === undefined) return { plan: { ...shown, applied: true }, isStale: false };
      if (refused !== undefined && BOUNDS.includes(refused)) throw refusal(refused, actor);
      return AGAIN;
    });
  }

  async #present(account: string): Promise<Map<string, Read<Policy>>> {
    const texts = await this.#store.redis.hvals(this.#store.keys.policies(account));
    const read = await inSlices(texts, (text) => ({ text, record: readPolicy(text) }));
    return new Map(read.map((one) => [one.record.name, one]));
  }

  /**
   * Checks what is to be changed: does it compile, and is its agent there? What was found sound is not looked at again.
   */
  async #check(
    account: string,
    { policies }: PolicyDeclaration,
    planned: readonly Planned[],
    checked: Set<PolicyCreate>,
  ): Promise<void> {
    const mistakes: ErrorDetail[] = [];
    for (const [i, declared] of policies.entries()) {
      const { reported, after } = planned[i]!;
      if (reported.action === 'unchanged' || after === null || mistakes.length >= MISTAKES_SHOWN_MAX) continue;
      const at = `/policies/${i}`;
      if (!(await this.#hasAgent(account, after.agent_id)))
        mistakes.push({ path: `${at}/agent_id`, message: 'no such agent' });
      if (!(await hasNamedCheck(this.#store, account, after))) mistakes.push({ ...NO_CHECK, path: at + NO_CHECK.path });
      if (checked.has(declared)) continue;
      const starts = startMistakes(declared.starts_at, declared);
      const { type, conditions, actions, agent_id } = after;
      const found = await this.#work.check(account, { type, conditions, actions, agent_id });
      mistakes.push(...[...starts, ...found].map(({ path, message }) => ({ path: at + path, message })));
      checked.add(declared);
    }
    if (mistakes.length > 0) throw cannotApply(mistakes.slice(0, MISTAKES_SHOWN_MAX));
  }

  async #hasAgent(account: string, agent: string | null): Promise<boolean> {
    if (agent === null) return true;
    const { redis, keys } = this.#store;
    return isId('agent', agent) && (await redis.exists(keys.agent(account, agent))) > 0;
  }

  /** The name of the guard that did not hold. */
  async #commit(
    account: string,
    { planned, owner, at }: { planned: readonly Planned[]; owner: string; at: number },
    actor: Actor,
  ): Promise<string | undefined> {
    const steps = planned.flatMap((one) => this.#stepsOf(account, one, { owner, at }, actor));
    if (steps.length === 0) return undefined;
    const { refused } = await commit(this.#store, {
      ...{ account, at },
      guards: [
        ...steps.flatMap(({ guards }) => guards),
        ...this.#roomFor(account, planned, actor),
        ...planned.flatMap(({ before, after }) =>
          after === null ? [] : namedCheck(this.#store.keys, account, after, before?.record),
        ),
        ...planned.flatMap(({ copies }) => (copies === undefined ? [] : [isThere(this.#store.keys, account, copies)])),
      ],
      writes: [...steps.flatMap(({ writes }) => writes), ...planned.flatMap((one) => this.#activeWrites(account, one))],
      changes: steps.flatMap(({ changes }) => changes),
      audit: steps.flatMap(({ audit }) => audit),
    });
    return refused;
  }

  #stepsOf(
    account: string,
    { reported, before, after }: Planned,
    { owner, at }: { owner: string; at: number },
    actor: Actor,
  ): ChangeStep[] {
    if (reported.action === 'unchanged') return [];
    const details = { applied_by: owner };
    if (after === null) return [this.#records.removal(account, before!, { at, details }, actor)];
    if (reported.action === 'update') {
      const step = this.#records.update(account, before!, { after, at, details }, actor);
      if (step === 'agent') throw new Error('an update of a policy has named another agent');
      return [step];
    }
    const created = { ...creationDetails(after), ...details };
    if (before === undefined) return [this.#records.addition(account, after, { details: created, at }, actor)];
    return [
      this.#records.removal(account, before, { at, details }, actor),
      this.#records.addition(account, after, { details: created, at, replaced: before.record.id }, actor),
    ];
  }

  /** The bounds hold for what there is after the whole plan. */
  #roomFor(account: string, planned: readonly Planned[], actor: Actor): Guard[] {
    const { keys } = this.#store;
    const { more, moreActive, moreShadows, moreSequences } = growthOf(planned);
    return [
      ...roomForSequences(keys, account, moreSequences),
      ...(more > 0 ? [below('full', ['hlen', keys.policies(account)], POLICIES_MAX - more + 1)] : []),
      ...(moreActive > 0 ? [roomFor(keys, account, { mode: 'enforce' }, actor, moreActive)] : []),
      ...(moreShadows > 0 ? [roomFor(keys, account, { mode: 'shadow' }, actor, moreShadows)] : []),
    ];
  }

  #activeWrites(account: string, { before, after }: Planned): CommandArgs[] {
    const { keys } = this.#store;
    const isGone = before !== undefined && before.record.id !== after?.id;
    return [
      ...(isGone ? inactiveWrites(keys, account, before.record.id) : []),
      ...(after === null ? [] : activeWrites(keys, account, after, isGone ? undefined : before?.record)),
    ];
  }
}

/** In the order of the declaration, then what is to be deleted. Throws ServiceError name_taken. */
function plan(
  present: ReadonlyMap<string, Read<Policy>>,
  { owner, policies }: PolicyDeclaration,
  at: number,
): Planned[] {
  const foreign: ErrorDetail[] = [];
  const byId = new Map([...present.values()].map(({ record }) => [record.id, record]));
  const made = policies.map((policy, i) => {
    const before = present.get(policy.name);
    const other = before?.record.owner;
    if (other !== undefined && other !== owner)
      foreign.push({
        path: `/policies/${i}/name`,
        message: `is the name of a policy of the owner ${JSON.stringify(other)}`,
      });
    const original = byId.get(policy.shadow_of ?? '') ?? scopeKeptBy(before?.record, policy);
    return { before, declared: { ...newPolicy(policy, at, original), owner, applied_revision: 1 } };
  });
  if (foreign.length > 0) {
    const details = foreign.slice(0, MISTAKES_SHOWN_MAX);
    throw new ServiceError('name_taken', 'A policy of another owner has this name.', { recorded: false, details });
  }
  const names = new Set(policies.map(({ name }) => name));
  const left = [...present.values()].filter(({ record }) => record.owner === owner && !names.has(record.name));
  const renamed = renamesOf(
    made.flatMap(({ before, declared }) => (before === undefined ? [declared] : [])),
    left,
  );
  const kept = new Set(renamed.values());
  const gone = left.filter((before) => !kept.has(before)).sort(byName);
  const planned = [
    ...made.map(({ before, declared }) => plannedOf(before ?? renamed.get(declared), declared, at)),
    ...gone.map((before) => plannedOf(before, null, at)),
  ];
  for (const one of planned) {
    if (one.copies !== undefined) keepRevision(one.after!, one.copies, planned);
    if (one.reported.action === 'create') one.reported.hints.push(...takenForRenamed(one.after!, gone));
  }
  return planned;
}

/** Finds for policies that are new by their names those that are there under another one, with the same text. */
function renamesOf(declared: readonly Policy[], left: readonly Read<Policy>[]): Map<Policy, Read<Policy>> {
  const textOf = (policy: Policy) => exactJson({ ...comparable(policy), name: '', description: '' });
  const alike = new Map<string, { declared: Policy[]; left: Read<Policy>[] }>();
  const of = (policy: Policy) => {
    const text = textOf(policy);
    const found = alike.get(text) ?? { declared: [], left: [] };
    alike.set(text, found);
    return found;
  };
  for (const policy of declared) of(policy).declared.push(policy);
  for (const one of left) of(one.record).left.push(one);
  // Of several it is not known which is which.
  const pairs = [...alike.values()].filter((found) => found.declared.length === 1 && found.left.length === 1);
  return new Map(pairs.map((found) => [found.declared[0]!, found.left[0]!]));
}

/** A shadow that is new is made of the text that the policy which it copies has after the plan. */
function keepRevision(shadow: Policy, originalId: string, planned: readonly Planned[]): void {
  const original = planned.find(({ before }) => before?.record.id === originalId);
  if (original?.reported.action === 'update') shadow.shadow_of_revision = original.after!.revision;
}

/** The state that is lost with a policy of these types. */
const STATE: Partial<Record<Policy['type'], string>> = {
  rate_limit: 'what it has counted is forgotten',
  budget: 'what it has spent is forgotten',
  require_approval: 'what waits for its approval can still be decided, and is blocked when its time is over',
};

/** Names the policies that go and that a new policy may have been, with another text. */
function takenForRenamed({ type, agent_id: agent, mode }: Policy, gone: readonly Read<Policy>[]): string[] {
  const alike = gone.filter(({ record }) => record.type === type && record.agent_id === agent && record.mode === mode);
  if (STATE[type] === undefined || alike.length !== 1) return [];
  const name = JSON.stringify(alike[0]!.record.name);
  return [`a new policy: if it is ${name} under another name, apply the new name alone first, then the change`];
}

function hintsOf(before: Policy | undefined, { name }: Policy, action: PlannedPolicy['action']): string[] {
  if (before === undefined) return [];
  if (action === 'update' && before.name !== name)
    return [`renamed from ${JSON.stringify(before.name)}: what it has counted and what waits for it stays`];
  const isGone = (action === 'delete' || action === 'replace') && before.mode === 'enforce';
  return isGone ? [STATE[before.type] ?? []].flat() : [];
}

/** A shadow whose original was deleted stays as it is. */
function scopeKeptBy(before: Policy | undefined, { shadow_of: originalId }: PolicyCreate): Policy | undefined {
  return originalId !== undefined && before?.shadow_of === originalId ? before : undefined;
}

/** `declared` as it is to be, were it new at `at`. */
function plannedOf(before: Read<Policy> | undefined, declared: Policy | null, at: number): Planned {
  const record = before?.record;
  const differences = differencesOf(comparable(record), comparable(declared ?? undefined));
  const action = actionOf(record, declared, differences.length > 0);
  const drifted =
    record?.applied_revision !== undefined && record.revision > record.applied_revision && action !== 'unchanged';
  const reported: PlannedPolicy = {
    action,
    name: (declared ?? record!).name,
    policy_id: record?.id ?? null,
    revision: record?.revision ?? null,
    drifted,
    hints: hintsOf(record, (declared ?? record)!, action),
    differences,
  };
  if (record === undefined || declared === null || action === 'replace') {
    const copies = declared?.shadow_of === undefined ? {} : { copies: declared.shadow_of };
    return { reported, before, after: declared, ...copies };
  }
  const { id, created_at, expires_at, shadow_of_revision } = record;
  const revision = record.revision + 1;
  const kept = {
    ...(expires_at === undefined ? {} : { expires_at }),
    ...(shadow_of_revision === undefined ? {} : { shadow_of_revision }),
  };
  const after = { ...declared, ...kept, id, created_at, revision, applied_revision: revision };
  return { reported, before, after: withExpiry(record, after, at) };
}

/** Another one of these is another policy. */
const FIXED = ['type', 'agent_id', 'mode', 'shadow_of'] as const;

function actionOf(before: Policy | undefined, declared: Policy | null, differs: boolean): PlannedPolicy['action'] {
  if (declared === null) return 'delete';
  if (before === undefined) return 'create';
  if (FIXED.some((field) => before[field] !== declared[field])) return 'replace';
  return differs ? 'update' : 'unchanged';
}

/** The fields of a policy that a declaration sets. */
function comparable(policy: Policy | undefined): object {
  if (policy === undefined) return {};
  const { name, type, mode, shadow_of, agent_id, conditions, actions, severity, description, ...rest } = policy;
  const { status, starts_at, owner } = rest;
  return {
    name,
    type,
    mode,
    shadow_of,
    agent_id,
    conditions,
    actions,
    severity,
    description,
    status,
    starts_at,
    owner,
  };
}

/** The same for the same plan against the same state. What is said beside it does not count. */
function hashOf(owner: string, policies: readonly PlannedPolicy[]): string {
  return createHash('sha256')
    .update(exactJson([owner, policies.map(({ hints: _, ...reported }) => reported)]))
    .digest('base64url');
}

/** By how many policies a plan makes them more, and more in force, and more active shadows. */
function growthOf(
  planned: readonly Planned[],
): Record<'more' | 'moreActive' | 'moreShadows' | 'moreSequences', number> {
  const sum = (grown: (one: Planned) => number) => planned.reduce((total, one) => total + grown(one), 0);
  const active = (mode: Policy['mode']) =>
    sum(({ before, after }) => isActive(after, mode) - isActive(before?.record ?? null, mode));
  return {
    more: sum(({ before, after }) => Number(after !== null) - Number(before !== undefined)),
    moreActive: active('enforce'),
    moreShadows: active('shadow'),
    moreSequences: sum(
      ({ before, after }) => Number(isActiveSequence(after)) - Number(isActiveSequence(before?.record)),
    ),
  };
}

/** Throws ServiceError validation_failed. */
function checkRoom(present: readonly Read<Policy>[], planned: readonly Planned[], actor: Actor): void {
  const { more, moreActive, moreShadows, moreSequences } = growthOf(planned);
  const sequences = present.filter(({ record }) => isActiveSequence(record)).length;
  const active = (mode: Policy['mode']) => present.filter(({ record }) => isActive(record, mode) === 1).length;
  if (more > 0 && present.length + more > POLICIES_MAX) throw refusal('full', actor);
  if (moreActive > 0 && active('enforce') + moreActive > POLICIES_ACTIVE_MAX) throw refusal('active', actor);
  if (moreSequences > 0 && sequences + moreSequences > SEQUENCES_ACTIVE_MAX) throw refusal('sequences', actor);
  if (moreShadows > 0 && active('shadow') + moreShadows > SHADOWS_ACTIVE_MAX) throw refusal('shadows', actor);
}

function isActive(policy: Policy | null, mode: Policy['mode']): number {
  return policy?.status === 'active' && policy.mode === mode ? 1 : 0;
}

/** A shadow that is new copies a policy that is there after the plan. Throws ServiceError validation_failed. */
function checkShadows(
  present: ReadonlyMap<string, Read<Policy>>,
  { policies }: PolicyDeclaration,
  planned: readonly Planned[],
): void {
  const left = new Map([...present.values()].map(({ record }) => [record.id, record]));
  for (const { before, after } of planned) if (before?.record.id !== after?.id) left.delete(before?.record.id ?? '');
  const mistakes = policies.flatMap((policy, i) => {
    const { before, reported } = planned[i]!;
    if (reported.action !== 'create' && reported.action !== 'replace' && before?.record.shadow_of === policy.shadow_of)
      return [];
    const found = shadowMistakes(policy, left.get(policy.shadow_of ?? ''));
    return found.map(({ path, message }) => ({ path: `/policies/${i}${path}`, message }));
  });
  if (mistakes.length > 0) throw cannotApply(mistakes.slice(0, MISTAKES_SHOWN_MAX));
}

function byName({ record: a }: Read<Policy>, { record: b }: Read<Policy>): number {
  return a.name < b.name ? -1 : 1;
}

function checkNames(policies: readonly PolicyCreate[]): void {
  const places = new Map<string, number>();
  const twice: ErrorDetail[] = [];
  for (const [i, { name }] of policies.entries()) {
    const first = places.get(name);
    if (first === undefined) places.set(name, i);
    else twice.push({ path: `/policies/${i}/name`, message: `is the name of /policies/${first}, too` });
  }
  if (twice.length > 0) throw cannotApply(twice.slice(0, MISTAKES_SHOWN_MAX));
}

function cannotApply(details: ErrorDetail[]): ServiceError {
  return validationFailed('The policies cannot be applied.', details);
}
