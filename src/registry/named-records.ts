// Records that have a name and may belong to an agent: what policies, alerts, views, connections, checks and outgoing
// feeds share (inside their classes, on commit.ts). Each kind has a hash of records, a hash of names, and an audit
// entry with every change; the agent's own set says what its deletion changes. What only one kind has goes with a
// change as further guards and writes.
// Invariant: a name belongs to one record of the account at most, and a scope names an agent that exists when it is
// set; to an actor who is bound to an agent, what is not scoped to it is unknown. Inspected under the guard of the
// change itself.

import type { Status } from '../../schemas/closed-sets.ts';
import { isoTime } from '../../schemas/time.ts';
import { inSlices } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { exactJson } from '../common/exact-json.ts';
import { isId } from '../common/ids.ts';
import { OF_AGENT_MAX } from '../common/limits.ts';
import { validationFailed } from '../common/validation.ts';
import { type Actor, isBound, isWithin, shareOf } from './accounts/principal.ts';
import { auditLog, changedFields, updateDetails } from './audit.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  type Change,
  type CommandArgs,
  commit,
  type Guard,
  inRounds,
  is,
  nowOf,
  present,
  type RegistryStore,
} from './commit.ts';
import {
  answerOnce,
  type Created,
  IDEMPOTENCY_GUARD,
  type Idempotency,
  type Keeping,
  tookTooLong,
} from './idempotency.ts';
import { fitsNamed, type Listed, type NamedPage, pageOf } from './lists.ts';
import { revisionSha256 } from './policies/revision-texts.ts';

export type Named = {
  id: string;
  name: string;
  agent_id: string | null;
  /** The status of kinds that can be changed. */
  status?: Status;
  updated_at?: string;
  /** The owner by whom a policy is declared. */
  owner?: string;
  /** The revision of kinds that have them: from 1, raised by each change. A deletion is one, too. */
  revision?: number;
};

type NamedKind<R> = {
  kind: keyof typeof WORDS;
  hash: (account: string) => string;
  names: (account: string) => string;
  /** A record from its text; left out: as JSON. */
  read?: (text: string) => R;
  /** Records of an account. */
  max: number;
};
/** The revisions that the caller has read: a change is made only while the record is at one. undefined: at any. */
type Revisions = { revisions?: readonly number[] | undefined };

/** The parts of one record's change; several can be one commit. */
export type ChangeStep = Pick<Change, 'writes' | 'changes' | 'audit'> & { guards: Guard[] };
/** A record that is there: as it was read, and parsed. */
export type Read<R> = { text: string; record: R };

/** The guards and writes that a kind adds to a change. */
export type More = { guards?: readonly Guard[]; writes?: readonly CommandArgs[] };
/** The errors where a guard did not hold. */
type Refusals = {
  /** Where the request names the agent; left out: `/agent_id`. */
  agentPath?: string;
  /** The error for a guard of the kind's own; undefined: it is one that all kinds have. */
  refusal?: (guard: string) => Error | undefined;
};
/** `answer`: what the caller gets, and a retry gets again; left out: the record as it is kept. */
type Addition = More & Refusals & { keeping: Keeping; details: object; atMs: number; answer?: string };
export type Edit<R> = Revisions &
  Refusals & {
    /** The record as it is to be; throws what is wrong with it. */
    edited: (before: R) => R | Promise<R>;
    more?: (before: R, after: R) => More;
    /** The details of the audit entry beyond what changed. */
    details?: object;
  };

export class NamedRecords<R extends Named> {
  readonly #store: RegistryStore;
  readonly #kind: Required<NamedKind<R>>;

  constructor(store: RegistryStore, kind: NamedKind<R>) {
    this.#store = store;
    this.#kind = { read: (text) => JSON.parse(text) as R, ...kind };
  }

  /** Makes one by `create`, or gives the kept answer again. Throws ServiceError idempotency_…, unavailable. */
  once(
    account: string,
    idempotency: Idempotency | undefined,
    create: (keeping: Keeping) => Promise<string>,
  ): Promise<Created> {
    const { kind } = this.#kind;
    return answering(() => answerOnce(this.#store, { account, kind, idempotency }, create));
  }

  /** Newest first. `agent_id`: those alone that are scoped to that agent. */
  async list<S extends { id: string }>(account: string, asked: NamedPage, shown: (record: R) => S): Promise<Listed<S>> {
    const { agent_id: agent, id, q, ...page } = asked;
    const isNamed = fitsNamed({ id, q });
    const fits = (record: R) => isNamed(record) && (agent === undefined || record.agent_id === agent);
    return pageOf((await this.all(account)).filter(fits).map(shown), page);
  }

  async get(account: string, id: string): Promise<R | null> {
    const text = await this.#text(account, id);
    return text === null ? null : this.#kind.read(text);
  }

  async all(account: string): Promise<R[]> {
    const texts = await this.#store.redis.hvals(this.#kind.hash(account));
    return inSlices(texts, this.#kind.read);
  }

  /** The answer. Throws ServiceError validation_failed, name_taken, unavailable, and what the addition says. */
  async add(account: string, record: R, addition: Addition, actor: Actor): Promise<string> {
    const { keeping, details, atMs: at, answer = exactJson(record), guards = [], writes = [] } = addition;
    if (record.agent_id !== null && !isId('agent', record.agent_id)) throw this.#refused('agent', addition, actor);
    const step = this.addition(account, record, { details, at }, actor);
    const { refused } = await commit(this.#store, {
      ...{ account, at, ...step },
      guards: [...keeping.guards, ...step.guards, ...this.#roomFor(account, record, actor), ...guards],
      writes: [...step.writes, ...writes, ...keeping.writes(answer)],
    });
    if (refused !== undefined) throw this.#refused(refused, addition, actor);
    return answer;
  }

  #refused(guard: string, { agentPath, refusal }: Refusals, actor: Actor): Error {
    return refusal?.(guard) ?? refusalOf(guard, this.#kind, actor, agentPath);
  }

  /** `full`, and `agent_full` where a key of the agent adds to what the agent has. */
  #roomFor(account: string, { agent_id: agent }: R, actor: Actor): Guard[] {
    const { hash, max } = this.#kind;
    const ofAll = below('full', ['hlen', hash(account)], shareOf(actor, max));
    if (agent === null || !isBound(actor)) return [ofAll];
    return [ofAll, below('agent_full', ['scard', this.#store.keys.agentScope(account, agent)], OF_AGENT_MAX)];
  }

  /** `replaced`: id of the record of this name that the same commit removes before. */
  addition(
    account: string,
    record: R,
    { details, at, replaced }: { details: object; at: number; replaced?: string },
    actor: Actor,
  ): ChangeStep {
    const { kind, hash, names } = this.#kind;
    const { id, name, agent_id: agent } = record;
    const holder: CommandArgs = ['hget', names(account), name];
    const recorded = { name, ...details, ...(record.revision === undefined ? {} : revisionSha256(record, {})) };
    return {
      guards: [
        ...this.#agentGuards(account, agent),
        replaced === undefined ? absent('name', holder) : is('name', holder, replaced),
      ],
      writes: [
        ['hset', hash(account), id, exactJson(record)],
        ['hset', names(account), name, id],
        ...this.#scopeWrites('sadd', account, agent, id),
      ],
      changes: [{ kind, id, record }],
      audit: [
        auditLog({ action: `${kind}.created`, type: kind, id, details: { ...recorded, ...ofAgent(agent) } }, actor, at),
      ],
    };
  }

  /** null: no such record. */
  change(account: string, id: string, edit: Edit<R>, actor: Actor): Promise<R | null> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return null;
      const before = this.#kind.read(text);
      if (!isWithin(actor, before.agent_id)) return null;
      keepToRevisions(edit.revisions, before);
      const after = await edit.edited(before);
      if (changedFields(before, after).length === 0) return before;
      const at = nowOf(this.#store);
      const step = this.update(account, { text, record: before }, { after, at, details: edit.details }, actor);
      if (step === 'agent') throw this.#refused(step, edit, actor);
      const { guards = [], writes = [] } = edit.more?.(before, after) ?? {};
      const { refused } = await commit(this.#store, {
        ...{ account, at, ...step },
        guards: [...step.guards, ...guards],
        writes: [...step.writes, ...writes],
      });
      if (refused === undefined) return after;
      if (refused === 'record') return AGAIN;
      throw this.#refused(refused, edit, actor);
    });
  }

  /** false: no such record. */
  remove(
    account: string,
    id: string,
    { writes = [], revisions }: Pick<More, 'writes'> & Revisions,
    actor: Actor,
  ): Promise<boolean> {
    return inRounds(async () => {
      const text = await this.#text(account, id);
      if (text === null) return false;
      const before = this.#kind.read(text);
      if (!isWithin(actor, before.agent_id)) return false;
      keepToRevisions(revisions, before);
      const at = nowOf(this.#store);
      const step = this.removal(account, { text, record: before }, { at }, actor);
      const { refused } = await commit(this.#store, {
        ...{ account, at, ...step },
        writes: [...step.writes, ...writes],
      });
      return refused === undefined ? true : AGAIN;
    });
  }

  removal(
    account: string,
    { text, record }: Read<R>,
    { at, details: more }: { at: number; details?: object },
    actor: Actor,
  ): ChangeStep {
    const { kind, hash, names } = this.#kind;
    const { id, name, agent_id: agent, revision, owner } = record;
    const numbered = revision === undefined ? {} : { revision: revision + 1, ...revisionSha256(null, {}) };
    const details = { name, ...(owner === undefined ? {} : { owner }), ...numbered, ...more, ...ofAgent(agent) };
    return {
      guards: [is('record', ['hget', hash(account), id], text)],
      writes: [
        ['hdel', hash(account), id],
        ['hdel', names(account), name],
        ...this.#scopeWrites('srem', account, agent, id),
      ],
      changes: [{ kind, id, record: null }],
      audit: [auditLog({ action: `${kind}.deleted`, type: kind, id, details }, actor, at)],
    };
  }

  /** null: no such record. */
  async read(account: string, id: string): Promise<Read<R> | null> {
    const text = await this.#text(account, id);
    return text === null ? null : { text, record: this.#kind.read(text) };
  }

  async #text(account: string, id: string): Promise<string | null> {
    return isId(this.#kind.kind, id) ? this.#store.redis.hget(this.#kind.hash(account), id) : null;
  }

  /** Gives `after` its time and revision. `agent`: it names no agent. */
  update(
    account: string,
    { text, record: before }: Read<R>,
    { after, at, details: more }: { after: R; at: number; details?: object | undefined },
    actor: Actor,
  ): ChangeStep | 'agent' {
    const { kind, hash, names } = this.#kind;
    if (kind === 'view') throw new Error('a view is not changed');
    const { id } = before;
    after.updated_at = isoTime(at);
    if (before.revision !== undefined) after.revision = before.revision + 1;
    const guards: Guard[] = [is('record', ['hget', hash(account), id], text)];
    const writes: CommandArgs[] = [['hset', hash(account), id, exactJson(after)]];
    if (after.name !== before.name) {
      guards.push(absent('name', ['hget', names(account), after.name]));
      writes.push(['hdel', names(account), before.name], ['hset', names(account), after.name, id]);
    }
    const isActivated = after.status === 'active' && before.status !== 'active';
    if (after.agent_id !== before.agent_id || isActivated) {
      if (after.agent_id !== null && !isId('agent', after.agent_id)) return 'agent';
      guards.push(...this.#agentGuards(account, after.agent_id));
      writes.push(...this.#scopeWrites('srem', account, before.agent_id, id));
      writes.push(...this.#scopeWrites('sadd', account, after.agent_id, id));
    }
    const recorded = updateDetails(before, after);
    const details = {
      ...(after.revision === undefined ? {} : { revision: after.revision, ...revisionSha256(after, recorded) }),
      ...recorded,
      ...more,
      ...ofAgent(after.agent_id ?? before.agent_id),
    };
    return {
      guards,
      writes,
      changes: [{ kind, id, record: after }],
      audit: [auditLog({ action: `${kind}.updated`, type: kind, id, details }, actor, at)],
    };
  }

  #agentGuards(account: string, agent: string | null): Guard[] {
    return agent === null ? [] : [present('agent', ['get', this.#store.keys.agent(account, agent)])];
  }

  #scopeWrites(command: 'sadd' | 'srem', account: string, agent: string | null, id: string): CommandArgs[] {
    return agent === null ? [] : [[command, this.#store.keys.agentScope(account, agent), id]];
  }
}

/** As people call the kinds. */
const WORDS = {
  policy: ['policy', 'policies'],
  alert: ['alert', 'alerts'],
  view: ['view', 'views'],
  connection: ['connection', 'connections'],
  check: ['check', 'checks'],
  outgoing_feed: ['outgoing feed', 'outgoing feeds'],
} as const;

/** The error for a mistake in a record that is to be kept. */
export function cannotBeKept(kind: keyof typeof WORDS, path: string, message: string): ServiceError {
  return validationFailed(`The ${WORDS[kind][0]} cannot be kept.`, [{ path, message }]);
}

/** The error for a guard that every kind has. */
export function refusalOf(
  guard: string,
  { kind, max }: Pick<NamedKind<never>, 'kind' | 'max'>,
  actor: Actor,
  agentPath = '/agent_id',
): ServiceError {
  const [one, many] = WORDS[kind];
  switch (guard) {
    case 'name':
      return new ServiceError('name_taken', `Another ${one} has this name.`, { recorded: false });
    case IDEMPOTENCY_GUARD:
      return tookTooLong();
    case 'agent':
      return cannotBeKept(kind, agentPath, 'no such agent');
    case 'full':
      return cannotBeKept(kind, '/', tooMany(many, max, actor));
    case 'agent_full':
      return cannotBeKept(kind, '/', AGENT_FULL);
    default:
      throw new Error(`unexpected guard ${guard}`);
  }
}

/** The message about a bound of the account, or of an agent (`what`: of which records). */
export function tooMany(what: string, max: number, actor: Actor): string {
  return isBound(actor)
    ? `a key that is bound to an agent adds none once there are ${shareOf(actor, max)} of the account's ${max} ${what}`
    : `an account has at most ${max} ${what}`;
}

const AGENT_FULL = `a key of an agent adds none once there are ${OF_AGENT_MAX} policies, alerts and keys of this agent`;

/** For details and conditions: `agent_id` where there is one. */
export function ofAgent(agent: string | null): { agent_id?: string } {
  return agent === null ? {} : { agent_id: agent };
}

/**
 * Throws ServiceError revision_conflict. Of a change it is asked under the guard of the change itself, which holds only
 * while the record is as it was read.
 */
export function keepToRevisions(
  revisions: readonly number[] | undefined,
  { revision = 1 }: Pick<Named, 'revision'>,
): void {
  if (revisions === undefined || revisions.includes(revision)) return;
  throw new ServiceError('revision_conflict', `It was changed meanwhile: it is at revision ${revision}.`, {
    details: [{ path: 'If-Match', message: `the present revision is "${revision}"` }],
  });
}
