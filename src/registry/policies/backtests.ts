// Backtests as resources: ordered here, run by a process of their own (pipelines/backtest).
// They live in Redis alone: what they come to can be computed again. Each belongs to an account; one of an account
// waits or runs at a time, and BACKTESTS_KEPT_MAX finished ones are kept, for BACKTEST_KEPT_MS (backtest-removal.ts).
// Invariant: what is tried is fixed when one is ordered: a change of the policy afterwards does not reach it. Deleting
// one removes all its keys in one step, so that its owner, who finds neither lease nor record, keeps nothing.
// Failure: Redis away is `unavailable`; nothing is half made.
import type {
  Backtest,
  BacktestCreate,
  BacktestResult,
  ListedBacktest,
  TriedPolicy,
} from '../../../schemas/backtest.ts';
import type { Policy, PolicyRevision } from '../../../schemas/policy.ts';
import { isoTime, parseExactTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { exactJson } from '../../common/exact-json.ts';
import { isId, mintId } from '../../common/ids.ts';
import { BACKTEST_RANGE_MS_MAX, BACKTESTS_KEPT_MAX, JUDGED_BEFORE_MS } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import { type Actor, isWithin, keepWithin } from '../accounts/principal.ts';
import { auditLog } from '../audit.ts';
import {
  AGAIN,
  absent,
  answering,
  type CommandArgs,
  commit,
  inRounds,
  is,
  nowOf,
  present,
  type RegistryStore,
} from '../commit.ts';
import { type Listed, type Page, pageOf } from '../lists.ts';
import { type BacktestRecord, memberOf, readBacktest } from './backtest-record.ts';
import { checkCompiles } from './policies.ts';
import { readPolicy } from './policy-record.ts';

/** A revision of a policy, the newest where none is named; null: there is none. */
export type FetchRevision = (account: string, policyId: string, revision?: number) => Promise<PolicyRevision | null>;

/** The answer to an order names what is not there. */
type Ordered = Backtest | 'no_agent' | 'no_policy' | 'no_revision';

type Tried = Pick<BacktestRecord, 'tried' | 'inForce'> & { policyId: string | null; revision: number | null };

export class Backtests {
  readonly #store: RegistryStore;
  readonly #fetchRevision: FetchRevision;
  readonly #work: PolicyWork;

  constructor(store: RegistryStore, fetchRevision: FetchRevision = async () => null, work: PolicyWork = HERE) {
    this.#store = store;
    this.#fetchRevision = fetchRevision;
    this.#work = work;
  }

  /** Throws ServiceError validation_failed, backtest_running, unavailable. */
  create(account: string, body: BacktestCreate, actor: Actor): Promise<Ordered> {
    return inRounds(async () => {
      const at = nowOf(this.#store);
      const range = rangeOf(body, at);
      const agentId = body.agent_id ?? null;
      keepWithin(actor, agentId, { what: 'backtest', path: '/agent_id' });
      if (agentId !== null && !(await this.#isAgent(account, agentId))) return 'no_agent';
      const tried = await this.#tried(account, body, actor);
      if (typeof tried === 'string') return tried;
      const id = mintId('backtest', at);
      const record = recordOf(id, { ...tried, range, agentId, at });
      const refused = await this.#commit(account, record, actor, at);
      if (refused === 'running') return (await this.#refuse(account)) ?? AGAIN;
      return refused === undefined ? { ...record.shown, result: null } : AGAIN;
    });
  }

  /** Newest first, without results. */
  list(account: string, { agent_id, ...page }: Page & { agent_id?: readonly string[] | undefined }) {
    return answering(async (): Promise<Listed<ListedBacktest>> => {
      const all = await this.#all(account);
      const fits = ({ agent_id: agent }: ListedBacktest) =>
        agent_id === undefined || (agent !== null && agent_id.includes(agent));
      return pageOf(all.map(({ shown }) => shown).filter(fits), page);
    });
  }

  /** null: there is none of this id. */
  get(account: string, id: string): Promise<Backtest | null> {
    return answering(async () => {
      if (!isId('backtest', id)) return null;
      const { redis, keys } = this.#store;
      const [text, result] = await Promise.all([
        redis.hget(keys.backtests(account), id),
        redis.get(keys.backtestResult(account, id)),
      ]);
      if (text === null) return null;
      return { ...readBacktest(text).shown, result: result === null ? null : (JSON.parse(result) as BacktestResult) };
    });
  }

  /** Whatever it does is stopped, and nothing of it is left. false: there is none of this id. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    return inRounds(async () => {
      const { redis, keys } = this.#store;
      const text = isId('backtest', id) ? await redis.hget(keys.backtests(account), id) : null;
      if (text === null) return false;
      const at = nowOf(this.#store);
      const { shown } = readBacktest(text);
      const entry = auditLog(
        { action: 'backtest.deleted', type: 'backtest', id, details: detailsOf(shown) },
        actor,
        at,
      );
      const running = keys.backtestRunning(account);
      const isRunning = (await redis.get(running)) === id;
      const { refused } = await commit(this.#store, {
        ...{ account, at, changes: [], audit: [entry] },
        guards: [
          present('record', ['hget', keys.backtests(account), id]),
          ...(isRunning ? [is('running', ['get', running], id)] : []),
        ],
        writes: [...removalOf(this.#store, account, id), ...(isRunning ? [['del', running] as const] : [])],
      });
      return refused === undefined ? true : AGAIN;
    });
  }

  async #isAgent(account: string, agent: string): Promise<boolean> {
    return isId('agent', agent) && (await this.#store.redis.exists(this.#store.keys.agent(account, agent))) === 1;
  }

  async #all(account: string): Promise<BacktestRecord[]> {
    const texts = await this.#store.redis.hvals(this.#store.keys.backtests(account));
    return texts.map(readBacktest);
  }

  async #tried(account: string, body: BacktestCreate, actor: Actor): Promise<Tried | 'no_policy' | 'no_revision'> {
    const { policy: draft, policy_id: policyId, revision } = body;
    const named = policyId === undefined ? null : await this.#named(account, policyId, revision);
    if (typeof named === 'string') return named;
    if (named !== null && !isWithin(actor, named.policy.agent_id)) return 'no_policy';
    if (draft === undefined)
      return {
        ...{ tried: triedPolicy(named!.policy, named!.policy), inForce: named!.inForce },
        ...{ policyId: named!.policy.id, revision: named!.policy.revision },
      };
    if (draft.agent_id !== undefined && draft.agent_id !== null)
      keepWithin(actor, draft.agent_id, { what: 'backtest', path: '/policy/agent_id' });
    const base = named?.policy ?? { id: 'pol_draft', revision: 1, name: 'draft' };
    const tried = triedPolicy(draftOf(draft, base.name), base);
    await checkCompiles(this.#work, account, tried, '/policy');
    return { tried, inForce: null, policyId: policyId ?? null, revision: null };
  }

  /** The policy as it is, or as it was at this revision, also of one that was deleted. */
  async #named(account: string, id: string, revision: number | undefined) {
    if (!isId('policy', id)) return 'no_policy' as const;
    const text = await this.#store.redis.hget(this.#store.keys.policies(account), id);
    const present = text === null ? null : readPolicy(text);
    const wanted = revision ?? present?.revision;
    if (present !== null && present.revision === wanted)
      return { policy: present, inForce: inForceOf(present, Date.parse(present.updated_at), null) };
    const stored = await this.#fetchRevision(account, id, wanted);
    if (stored === null) {
      const isKnown = present !== null || (await this.#fetchRevision(account, id)) !== null;
      return isKnown ? ('no_revision' as const) : ('no_policy' as const);
    }
    // The last revision of a deleted policy says nothing.
    if (stored.policy === null) return 'no_revision' as const;
    const next = await this.#fetchRevision(account, id, stored.revision + 1);
    const untilMs = next === null ? null : Date.parse(next.created_at);
    return { policy: stored.policy, inForce: inForceOf(stored.policy, Date.parse(stored.created_at), untilMs) };
  }

  async #commit(account: string, record: BacktestRecord, actor: Actor, at: number): Promise<string | undefined> {
    const { keys } = this.#store;
    const { shown } = record;
    const entry = auditLog(
      { action: 'backtest.created', type: 'backtest', id: shown.id, details: detailsOf(shown) },
      actor,
      at,
    );
    const { refused } = await commit(this.#store, {
      ...{ account, at, changes: [], audit: [entry] },
      guards: [absent('running', ['get', keys.backtestRunning(account)])],
      writes: [
        ...(await this.#surplus(account)),
        ['set', keys.backtestRunning(account), shown.id],
        ['hset', keys.backtests(account), shown.id, exactJson(record)],
        ['zadd', keys.backtestTurns(keys.shardOf(account)), at, memberOf(account, shown.id)],
      ],
    });
    return refused;
  }

  /** Removes finished ones for which there is no room. */
  async #surplus(account: string): Promise<CommandArgs[]> {
    const all = await this.#all(account);
    const finished = all.map(({ shown }) => shown).filter(({ finished_at: at }) => at !== null);
    const newest = finished
      .map(({ id }) => id)
      .sort()
      .reverse();
    return newest.slice(BACKTESTS_KEPT_MAX - 1).flatMap((id) => removalOf(this.#store, account, id));
  }

  /** undefined: it has ended meanwhile. */
  async #refuse(account: string): Promise<undefined> {
    const id = await this.#store.redis.get(this.#store.keys.backtestRunning(account));
    if (id === null) return undefined;
    throw new ServiceError('backtest_running', `Another backtest of the account, ${id}, has not ended.`, {
      details: [{ path: '/', message: `${id} waits or runs; delete it, or wait until it is done` }],
      recorded: false,
    });
  }
}

/** Removes all keys of one but the mark that it is running. */
function removalOf({ keys }: RegistryStore, account: string, id: string): CommandArgs[] {
  const shard = keys.shardOf(account);
  return [
    ['hdel', keys.backtests(account), id],
    ['del', keys.backtestState(account, id)],
    ['del', keys.backtestResult(account, id)],
    ['del', keys.backtestLease(account, id)],
    ['del', keys.backtestFence(account, id)],
    ['zrem', keys.backtestTurns(shard), memberOf(account, id)],
    ['zrem', keys.backtestExpiries(shard), memberOf(account, id)],
  ];
}

type Range = { fromMs: number; toMs: number };

/** `nowMs`: what arrived up to now is in it. Throws ServiceError validation_failed. */
function rangeOf({ policy, policy_id: policyId, revision, from, to }: BacktestCreate, nowMs: number): Range {
  const wrong = (path: string, message: string) =>
    validationFailed('The backtest cannot be made.', [{ path, message }]);
  if (policy === undefined && policyId === undefined) throw wrong('/policy', 'is needed, or policy_id');
  if (revision !== undefined && policyId === undefined) throw wrong('/revision', 'needs policy_id');
  if (revision !== undefined && policy !== undefined) throw wrong('/revision', 'does not go with policy');
  const fromMs = Math.floor(parseExactTime(from)!);
  const asked = to === undefined ? Number.POSITIVE_INFINITY : Math.ceil(parseExactTime(to)!);
  const toMs = Math.min(asked, Math.floor(nowMs) + 1);
  if (asked < fromMs) throw wrong('/from', 'must not be after `to`');
  if (fromMs > toMs) throw wrong('/from', 'must not be in the future');
  if (toMs - fromMs > BACKTEST_RANGE_MS_MAX) throw wrong('/from', 'must be at most 366 days before `to`');
  return { fromMs, toMs };
}

/** By what is known of a revision's life; null: it was not in force. */
function inForceOf(
  { status, starts_at: startsAt }: Policy,
  changedMs: number,
  untilMs: number | null,
): BacktestRecord['inForce'] {
  if (status !== 'active') return null;
  const fromMs = startsAt === undefined ? changedMs : Math.max(changedMs, Date.parse(startsAt));
  return {
    fromMs: fromMs + JUDGED_BEFORE_MS,
    untilMs: untilMs === null ? Number.MAX_SAFE_INTEGER : untilMs - JUDGED_BEFORE_MS,
  };
}

function draftOf({ name, type, conditions, actions, severity, agent_id }: TriedPolicy, otherName: string) {
  return {
    ...{ name: name ?? otherName, type, conditions, actions: [actions].flat() },
    ...{ agent_id: agent_id ?? null, severity: severity ?? null },
  };
}

type Text = Pick<Policy, 'name' | 'type' | 'agent_id' | 'conditions' | 'actions' | 'severity'>;

/** As the engine takes it, active whatever it is otherwise. */
function triedPolicy(text: Text, { id, revision }: Pick<Policy, 'id' | 'revision'>): Policy {
  const { name, type, agent_id, conditions, actions, severity } = text;
  const epoch = isoTime(0);
  return {
    ...{ id, revision, name, type, agent_id, conditions, actions, severity },
    ...{ status: 'active', mode: 'enforce', created_at: epoch, updated_at: epoch },
  };
}

function recordOf(
  id: string,
  {
    tried,
    inForce,
    policyId,
    revision,
    range,
    agentId,
    at,
  }: Tried & { range: Range; agentId: string | null; at: number },
): BacktestRecord {
  const { name, type, agent_id, conditions, actions, severity } = tried;
  return {
    shown: {
      ...{ id, status: 'waiting', policy: { name, type, agent_id, conditions, actions, severity } },
      ...{ policy_id: policyId, revision, from: isoTime(range.fromMs), to: isoTime(range.toMs), agent_id: agentId },
      ...{ created_at: isoTime(at), started_at: null, finished_at: null },
      progress: { events: 0, of: null, until: null },
    },
    ...{ tried, inForce },
  };
}

function detailsOf({ policy, policy_id, revision, from, to, agent_id }: ListedBacktest): Record<string, unknown> {
  return {
    ...{ name: policy.name, policy_id, revision, from, to },
    ...(agent_id === null && policy.agent_id === null ? {} : { agent_id: agent_id ?? policy.agent_id }),
  };
}
