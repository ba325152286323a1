// Legal holds as resources: what is kept whatever its age until it is released (schemas/hold.ts). They lie in the
// account's own record, which fronts and pipelines know anyway, so what is kept of an account is read in one piece.
// Invariant: making and releasing one is one audited change. While an agent is held, by itself, by its account, or
// perhaps by a trace, it cannot be deleted: the guard is in the commit of the deletion (agents.ts).
// Failure: Redis away is `unavailable`; nothing is half made.
import type { AuditAction } from '../../../schemas/closed-sets.ts';
import type { Hold, HoldCreate } from '../../../schemas/hold.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId, mintId } from '../../common/ids.ts';
import { HOLDS_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { auditLog } from '../audit.ts';
import { AGAIN, answering, commit, type Guard, inRounds, is, nowOf, present, type RegistryStore } from '../commit.ts';
import { type Listed, type Page, pageOf } from '../lists.ts';
import type { AccountRecord } from './accounts.ts';
import type { Actor } from './principal.ts';

type Changed = { holds: Hold[]; action: AuditAction; hold: Hold; guards?: Guard[] };

export class Holds {
  readonly #store: RegistryStore;

  constructor(store: RegistryStore) {
    this.#store = store;
  }

  /** null: no such account. Throws ServiceError validation_failed, unavailable. */
  create(
    account: string,
    { reason, agent_id = null, trace_id = null }: HoldCreate,
    actor: Actor,
  ): Promise<Hold | null> {
    if (agent_id !== null && trace_id !== null) throw refused('trace_id', 'is of all agents: name one of the two');
    if (agent_id !== null && !isId('agent', agent_id)) throw noSuchAgent();
    return this.#change(account, actor, (holds, atMs) => {
      if (holds.length >= HOLDS_MAX) throw refused('', `An account has at most ${HOLDS_MAX} holds.`);
      const id = mintId('hold', atMs);
      const hold = { id, reason, agent_id, trace_id, created_at: isoTime(atMs), created_by: actor.actor };
      const guards = agent_id === null ? [] : [present('agent', ['get', this.#store.keys.agent(account, agent_id)])];
      return { holds: [...holds, hold], action: 'hold.created', hold, guards };
    });
  }

  /** Newest first. */
  list(account: string, page: Page): Promise<Listed<Hold>> {
    return answering(async () => {
      const record = (await this.#read(account))?.record;
      return pageOf(record?.holds ?? [], page);
    });
  }

  /** false: no such hold. */
  async release(account: string, id: string, actor: Actor): Promise<boolean> {
    const released = await this.#change(account, actor, (holds) => {
      const hold = holds.find((one) => one.id === id);
      return hold === undefined ? null : { holds: holds.filter((one) => one !== hold), action: 'hold.released', hold };
    });
    return released !== null;
  }

  /** null: there is no such account, or nothing to do. */
  #change(
    account: string,
    actor: Actor,
    made: (holds: readonly Hold[], atMs: number) => Changed | null,
  ): Promise<Hold | null> {
    return inRounds(async () => {
      const read = await this.#read(account);
      if (read === null) return null;
      const at = nowOf(this.#store);
      const changed = made(read.record.holds ?? [], at);
      if (changed === null) return null;
      const { holds, action, hold, guards = [] } = changed;
      const after: AccountRecord = { ...read.record, holds, updated_at: isoTime(at) };
      const { reason, agent_id, trace_id } = hold;
      const details = { reason, ...(agent_id !== null && { agent_id }), ...(trace_id !== null && { trace_id }) };
      const { refused: guard } = await commit(this.#store, {
        ...{ account, at, guards: [is('record', ['hget', read.hash, account], read.text), ...guards] },
        writes: [['hset', read.hash, account, JSON.stringify(after)]],
        changes: [{ kind: 'account', id: account, record: after }],
        audit: [auditLog({ action, type: 'hold', id: hold.id, details }, actor, at)],
      });
      if (guard === 'agent') throw noSuchAgent();
      return guard === undefined ? hold : AGAIN;
    });
  }

  async #read(account: string): Promise<{ hash: string; text: string; record: AccountRecord } | null> {
    const { keys, redis } = this.#store;
    const hash = keys.accounts(keys.shardOf(account));
    const text = await redis.hget(hash, account);
    return text === null ? null : { hash, text, record: JSON.parse(text) as AccountRecord };
  }
}

/** The hold of the account, of this agent, or of a trace in which this agent may have been. undefined: none. */
export function holdOn(holds: readonly Hold[], agent: string): Hold | undefined {
  return holds.find(({ agent_id }) => agent_id === null || agent_id === agent);
}

/** For who would delete what is held. */
export function onHold({ id, agent_id, trace_id, reason }: Hold): ServiceError {
  const what = trace_id !== null ? 'a trace of the account' : agent_id !== null ? 'the agent' : 'the account';
  return new ServiceError('on_hold', `The hold ${id} keeps ${what} (${reason}): release it first.`, {
    recorded: false,
  });
}

function refused(path: string, message: string): ServiceError {
  return validationFailed('The hold cannot be made.', [{ path: `/${path}`, message }]);
}

function noSuchAgent(): ServiceError {
  return refused('agent_id', 'no such agent');
}
