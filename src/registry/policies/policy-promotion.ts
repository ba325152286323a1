// Promoting a shadow (POST /v1/policies/{id}/promote): what was tried is in force from then on.
//   a copy           its text becomes a new revision of the policy that it copies, and the shadow is deleted; where
//                    that policy was changed since the shadow was made, only if the caller names its present revision
//   any other        it is in force itself; so is a copy whose original was deleted
// Invariant: one commit, under the guards of both records as they were read, so it is done whole or not at all, and
// once. The audit entry of the policy holds the difference and says which shadow it was, at which revision.

import type { Policy } from '../../../schemas/policy.ts';
import { ServiceError } from '../../common/errors.ts';
import { validationFailed } from '../../common/validation.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import { type Actor, isWithin, waitingAs } from '../accounts/principal.ts';
import { changedFields } from '../audit.ts';
import { memoryWrites } from '../budgets/sequence-memories.ts';
import {
  AGAIN,
  answering,
  type CommandArgs,
  commit,
  type Guard,
  inRounds,
  is,
  nowOf,
  type RegistryStore,
} from '../commit.ts';
import { namedCheck } from '../external-checks.ts';
import { type ChangeStep, keepToRevisions, type NamedRecords, type Read } from '../named-records.ts';
import { activeWrites, inactiveWrites, roomFor } from './active-policies.ts';
import { checkCompiles, policyRecords, refusal } from './policies.ts';

/** The parts of one commit, and the policy as it is then. */
type Promotion = { steps: ChangeStep[]; guards: Guard[]; writes: CommandArgs[]; after: Policy };

export class PolicyPromotions {
  readonly #store: RegistryStore;
  readonly #work: PolicyWork;
  readonly #records: NamedRecords<Policy>;

  constructor(store: RegistryStore, work: PolicyWork = HERE) {
    this.#store = store;
    this.#work = work;
    this.#records = policyRecords(store);
  }

  /**
   * The policy that is in force, or stays switched off; null: no such shadow. `revisions`: only while the shadow is at
   * one of these. `originalRevision`: which the caller knows the policy that it copies to be at. Throws ServiceError
   * revision_conflict, validation_failed, unavailable.
   */
  promote(
    account: string,
    id: string,
    revisions: readonly number[] | undefined,
    actor: Actor,
    originalRevision?: number,
  ): Promise<Policy | null> {
    return answering(() =>
      inRounds(async () => {
        const shadow = await this.#records.read(account, id);
        if (shadow === null || !isWithin(actor, shadow.record.agent_id)) return null;
        keepToRevisions(revisions, shadow.record);
        if (shadow.record.mode !== 'shadow')
          throw validationFailed('The policy cannot be promoted.', [{ path: '/mode', message: 'is not `shadow`' }]);
        await checkCompiles(this.#work, waitingAs(actor, account), shadow.record);
        const { shadow_of: originalId } = shadow.record;
        const original = originalId === undefined ? null : await this.#records.read(account, originalId);
        if (original !== null) keepToOriginal(shadow.record, original.record, originalRevision);
        const at = nowOf(this.#store);
        const { steps, guards, writes, after } =
          original === null
            ? this.#byItself(account, shadow, at, actor)
            : this.#intoOriginal(account, { shadow, original, at }, actor);
        const { refused } = await commit(this.#store, {
          ...{ account, at },
          guards: [
            ...steps.flatMap((step) => step.guards),
            ...guards,
            ...namedCheck(this.#store.keys, account, after, original?.record ?? shadow.record),
          ],
          writes: [...steps.flatMap((step) => step.writes), ...writes],
          changes: steps.flatMap(({ changes }) => changes),
          audit: steps.flatMap(({ audit }) => audit),
        });
        if (refused === undefined) return after;
        if (refused === 'record') return AGAIN;
        throw refusal(refused, actor);
      }),
    );
  }

  #byItself(account: string, shadow: Read<Policy>, at: number, actor: Actor): Promotion {
    const { keys } = this.#store;
    const { shadow_of: _original, shadow_of_revision: _at, expires_at: _expiry, ...rest } = shadow.record;
    const after: Policy = { ...rest, mode: 'enforce', status: 'active' };
    const step = this.#updated(account, shadow, { after, at, details: { promoted: true } }, actor);
    return {
      steps: [step],
      guards: [roomFor(keys, account, after, actor)],
      writes: activeWrites(keys, account, after),
      after,
    };
  }

  #intoOriginal(
    account: string,
    { shadow, original, at }: { shadow: Read<Policy>; original: Read<Policy>; at: number },
    actor: Actor,
  ): Promotion {
    const { keys } = this.#store;
    const { id, revision, conditions, actions, severity, description } = shadow.record;
    const said = description === undefined ? {} : { description };
    const after: Policy = { ...original.record, conditions, actions, severity, ...said };
    const details = { promoted_from: id, promoted_revision: revision };
    const isChanged = changedFields(original.record, after).length > 0;
    const isAsRead = is('record', ['hget', keys.policies(account), after.id], original.text);
    return {
      after,
      steps: [
        ...(isChanged ? [this.#updated(account, original, { after, at, details }, actor)] : []),
        this.#records.removal(account, shadow, { at, details: { promoted_to: after.id } }, actor),
      ],
      guards: [isAsRead],
      writes: [...inactiveWrites(keys, account, id), ...memoryWrites(keys, account, after, original.record)],
    };
  }

  #updated(
    account: string,
    before: Read<Policy>,
    change: { after: Policy; at: number; details: object },
    actor: Actor,
  ) {
    const step = this.#records.update(account, before, change, actor);
    if (step === 'agent') throw new Error('a promotion has named another agent');
    return step;
  }
}

/** Refuses to undo unseen what another changed in the original meanwhile. Throws ServiceError revision_conflict. */
function keepToOriginal(
  { shadow_of_revision: base }: Policy,
  { revision, status }: Policy,
  named: number | undefined,
): void {
  if ((named ?? base) === revision) return;
  const is = `it is at revision ${revision}${status === 'active' ? '' : ' and switched off'}`;
  const since = base === revision ? '' : `, and the shadow was made of revision ${base}`;
  throw new ServiceError('revision_conflict', `The policy that it copies was changed meanwhile: ${is}${since}.`, {
    details: [{ path: 'original_revision', message: `the present revision is ${revision}` }],
  });
}
