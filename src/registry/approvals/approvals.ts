// Approvals: what pending events wait for. Opened and expired by pipelines, decided by people through the API.
//   open      pending, with a deadline                                   by pipelines/approval/open.ts
//   decide    approved or denied                                         by POST /v1/approvals/{id}
//   expire    what `on_timeout` says, once the deadline is past          by pipelines/approval/expiry.ts
//   forget    an hour after the decision ClickHouse alone knows it
// Each step is one commit: records, audit entry, row for ClickHouse, and the news to those who wait.
// Invariant: an approval is in one of two hashes, pending or decided; the process that moves it from the first to the
// second, under a guard, is the only one ever to decide it. One that is in the second is not opened again, whatever is
// delivered twice. One whose agent is deleted is unknown from the deletion's answer on, can no longer be decided, and
// goes with the erasure.
import type { Approval, ApprovalDecision } from '../../../schemas/approval.ts';
import type { AuditLog } from '../../../schemas/audit-log.ts';
import type { ApprovalStatus, AuditAction, Outcome } from '../../../schemas/closed-sets.ts';
import type { Policy } from '../../../schemas/policy.ts';
import type { Signal } from '../../../schemas/signal.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId } from '../../common/ids.ts';
import { APPROVALS_AT_ONCE, APPROVALS_PENDING_MAX } from '../../common/limits.ts';
import { steadyNow } from '../../common/steady-clock.ts';
import { HERE, type PolicyWork } from '../../policy/policy-work.ts';
import { settledWrites } from '../../policy/quotas/sequence-store.ts';
import type { Keys } from '../../redis/keys.ts';
import { type Actor, isWithin, ownRequest } from '../accounts/principal.ts';
import { auditLog, SYSTEM } from '../audit.ts';
import { deniedReservations, dropReservations } from '../budgets/denied-reservations.ts';
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
  present,
  type RegistryStore,
} from '../commit.ts';
import { isInForce, readPolicy } from '../policies/policy-record.ts';
import { EventNotStored, type FetchEvent, type Review, reviewApproval } from './approval-review.ts';

// On the way to `allowed` an approval is settled against the state of that moment (approval-review.ts): the agent must
// be active, no block policy made since may match, and on a time-out the policy that asked must still be in force.
// Where an account has more pending than people could decide, further ones are denied at once: that is logged, and
// safe.

export type ApprovalsOptions = RegistryStore & {
  pendingMax?: number;
  /** For those who settle: where an event is that has to be judged again. */
  fetchEvent?: FetchEvent | undefined;
  /** Who judges an event again. */
  work?: PolicyWork;
};

/** How many were opened, and of them denied for want of room; the others are there already or their agent is gone. */
type Opened = { opened: number; overflowed: number };

const OVERFLOW_COMMENT = 'More approvals are pending than an account may have.';
const POLICY_GONE_COMMENT = 'The policy that asked is not in force any more.';
const NEVER_STORED_COMMENT = 'The event could not be judged by the policies made since: it is not stored.';
/** The time after which an approval that cannot be settled now is tried again, behind whatever else is due. */
const RETRY_MS = 1_000;
/** An event that is not stored so long after its deadline never will be. */
const UNSTORED_MS_MAX = 15 * 60_000;
/** Fields inspected by one step through a hash. */
const SCAN_COUNT = 500;

export class Approvals {
  readonly #store: ApprovalsOptions;
  readonly #keys: Keys;
  readonly #now: () => number;
  readonly #pendingMax: number;
  readonly #reviewing: { fetchEvent: FetchEvent | undefined; work: PolicyWork };

  constructor(options: ApprovalsOptions) {
    this.#store = options;
    this.#keys = options.keys;
    this.#now = options.now ?? steadyNow;
    this.#pendingMax = options.pendingMax ?? APPROVALS_PENDING_MAX;
    this.#reviewing = { fetchEvent: options.fetchEvent, work: options.work ?? HERE };
  }

  /** Finds those of the given approvals that Redis does not know: neither pending nor decided lately. */
  async unknown(account: string, approvals: readonly Approval[]): Promise<Approval[]> {
    if (approvals.length === 0) return [];
    const known = await this.#texts(
      account,
      approvals.map(({ id }) => id),
    );
    return approvals.filter((_, i) => known[i] === null);
  }

  /** Opens what is not there. `approvals` of one account, pending, each with its event's agent. Safe to repeat. */
  async open(account: string, approvals: readonly Approval[]): Promise<Opened> {
    const total: Opened = { opened: 0, overflowed: 0 };
    for (let i = 0; i < approvals.length; i += APPROVALS_AT_ONCE) {
      const some = await this.unknown(account, approvals.slice(i, i + APPROVALS_AT_ONCE));
      if (some.length === 0) continue;
      const { refused } = await commit(this.#store, this.#opening(account, some));
      if (refused === undefined) total.opened += some.length;
      else if (refused === 'full' && (await this.#denyAll(account, some, total))) continue;
      // Another request was faster with one of them, an agent is gone, or there is room for some: one by one.
      else for (const one of some) await this.#openOne(account, one, total);
    }
    return total;
  }

  /** From Redis: every pending one, and those decided within the hour. null: no such approval, or an older one. */
  get(account: string, id: string): Promise<Approval | null> {
    return answering(async () => {
      if (!isId('approval', id)) return null;
      const [text] = await this.#texts(account, [id]);
      if (text === null || text === undefined) return null;
      const approval = JSON.parse(text) as Approval;
      return (await this.#agentLives(account, approval.agent_id)) ? approval : null;
    });
  }

  /**
   * Reads the JSON of those approvals that Redis knows. Cheap, and blind to a deleted agent until its erasure: for
   * polling.
   */
  look(account: string, ids: readonly string[]): Promise<(Approval | null)[]> {
    return answering(async () =>
      (await this.#texts(account, ids)).map((text) => (text === null ? null : (JSON.parse(text) as Approval))),
    );
  }

  /** null: no such approval, or one decided long ago. Throws ServiceError already_decided, own_request. */
  decide(account: string, id: string, body: ApprovalDecision, actor: Actor): Promise<Approval | null> {
    return inRounds(async () => {
      if (!isId('approval', id)) return null;
      const text = await this.#store.redis.hget(this.#keys.approvals(account), id);
      if (text === null) {
        const decided = await this.get(account, id);
        if (decided === null) return null;
        if (decided.status === 'pending') return AGAIN;
        throw alreadyDecided();
      }
      const at = this.#now();
      const before = JSON.parse(text) as Approval;
      if (actor.boundTo != null) {
        if (!isWithin(actor, before.agent_id)) return null;
        throw ownRequest();
      }
      // Its expiry has not run yet: it runs now, so that a deadline holds to the millisecond.
      const isLate = at >= Date.parse(before.expires_at);
      const settled = isLate
        ? await this.#settledByTime(account, before, at)
        : await this.#settledByPerson(account, before, { body, actor, at });
      if (settled === null) return null;
      const { after, agentText } = settled;
      const follows = await this.#follows(account, after, at);
      const { refused } = await commit(
        this.#store,
        this.#closing(account, { text, after, at, agentText, follows }, isLate ? SYSTEM : actor),
      );
      if (refused === 'agent' && agentText === undefined) return null;
      if (refused !== undefined) return AGAIN;
      if (isLate) throw alreadyDecided();
      return after;
    });
  }

  /** Lets what is due in a shard expire, oldest deadline first. Safe to run anywhere, any number of times at once. */
  async expireDue(shard: number, max = APPROVALS_AT_ONCE): Promise<{ looked: number; expired: Approval[] }> {
    const { redis } = this.#store;
    const deadlines = this.#keys.approvalDeadlines(shard);
    const at = this.#now();
    const members = await redis.zrangebyscore(deadlines, '-inf', at, 'LIMIT', 0, max);
    const done = await Promise.all(members.map((member) => this.#expire(shard, member, at)));
    return { looked: members.length, expired: done.filter((approval) => approval !== null) };
  }

  /** Forgets what was decided before `beforeMs`, which the caller knows to be in ClickHouse. */
  async forget(shard: number, beforeMs: number, max = APPROVALS_AT_ONCE): Promise<number> {
    const { redis } = this.#store;
    const decisions = this.#keys.approvalDecisions(shard);
    const members = await redis.zrangebyscore(decisions, '-inf', `(${beforeMs}`, 'LIMIT', 0, max);
    for (const [account, ids] of byAccount(members)) await redis.hdel(this.#keys.decidedApprovals(account), ...ids);
    if (members.length > 0) await redis.zrem(decisions, ...members);
    return members.length;
  }

  /** Takes a deleted agent's approvals out of Redis. Idempotent. */
  async dropAgent(account: string, agent: string): Promise<number> {
    const shard = this.#keys.shardOf(account);
    const pending = [this.#keys.approvals(account), this.#keys.approvalDeadlines(shard)] as const;
    const decisions = [this.#keys.decidedApprovals(account), this.#keys.approvalDecisions(shard)] as const;
    let dropped = 0;
    for (const [hash, index] of [pending, decisions]) {
      const found = await this.#ofAgent(hash, agent);
      const ids = [...found.keys()];
      // What its events would have been steps of, and what budgets hold for them.
      for (const event of found.values()) {
        await this.#store.redis.del(this.#keys.sequenceLater(account, event));
        await dropReservations(this.#store, account, event);
      }
      for (let i = 0; i < ids.length; i += SCAN_COUNT) {
        const some = ids.slice(i, i + SCAN_COUNT);
        await this.#store.redis.zrem(index, ...some.map((id) => `${account}/${id}`));
        dropped += await this.#store.redis.hdel(hash, ...some);
      }
    }
    return dropped;
  }

  /** Their events, by id. */
  async #ofAgent(hash: string, agent: string): Promise<Map<string, string>> {
    const events = new Map<string, string>();
    let cursor = '0';
    do {
      const [next, fields] = await this.#store.redis.hscan(hash, cursor, 'COUNT', SCAN_COUNT);
      for (let i = 0; i < fields.length; i += 2) {
        const approval = JSON.parse(fields[i + 1]!) as Approval;
        if (approval.agent_id === agent) events.set(fields[i]!, approval.event_id);
      }
      cursor = next;
    } while (cursor !== '0');
    return events;
  }

  /** The JSON of each id, or null. Pending first: what moves in between is found in the second hash. */
  async #texts(account: string, ids: readonly string[]): Promise<(string | null)[]> {
    const { redis } = this.#store;
    const [pending, decided] = await Promise.all([
      redis.hmget(this.#keys.approvals(account), ...ids),
      redis.hmget(this.#keys.decidedApprovals(account), ...ids),
    ]);
    return ids.map((_, i) => decided[i] ?? pending[i] ?? null);
  }

  async #agentLives(account: string, agent: string): Promise<boolean> {
    return (await this.#store.redis.exists(this.#keys.agent(account, agent))) === 1;
  }

  async #openOne(account: string, approval: Approval, total: Opened): Promise<void> {
    let { refused } = await commit(this.#store, this.#opening(account, [approval]));
    if (refused === 'full') {
      ({ refused } = await commit(this.#store, await this.#overflow(account, [approval])));
      if (refused === undefined) total.overflowed++;
    }
    if (refused === undefined) total.opened++;
  }

  /**
   * Where there is no room at all: in one commit, since a flood must not hold up what others wait for. False: nothing
   * was done.
   */
  async #denyAll(account: string, approvals: readonly Approval[], total: Opened): Promise<boolean> {
    if ((await this.#store.redis.hlen(this.#keys.approvals(account))) < this.#pendingMax) return false;
    const { refused } = await commit(this.#store, await this.#overflow(account, approvals));
    if (refused !== undefined) return false;
    total.opened += approvals.length;
    total.overflowed += approvals.length;
    return true;
  }

  #opening(account: string, approvals: readonly Approval[]): Change {
    const pending = this.#keys.approvals(account);
    const deadlines = this.#keys.approvalDeadlines(this.#keys.shardOf(account));
    return {
      ...this.#change(account, this.#now(), approvals),
      guards: [
        ...this.#newGuards(account, approvals),
        below('full', ['hlen', pending], this.#pendingMax - approvals.length + 1),
      ],
      writes: approvals.flatMap((approval): CommandArgs[] => [
        ['hset', pending, approval.id, JSON.stringify(approval)],
        ['zadd', deadlines, Date.parse(approval.expires_at), `${account}/${approval.id}`],
      ]),
      audit: [],
    };
  }

  async #overflow(account: string, approvals: readonly Approval[]): Promise<Change> {
    const at = this.#now();
    const denied = approvals.map(
      (approval): Approval => ({ ...closed(approval, 'denied', 'blocked', at), comment: OVERFLOW_COMMENT }),
    );
    const follow = await Promise.all(denied.map((one) => this.#follows(account, one, at)));
    return {
      ...this.#change(account, at, denied),
      // A completion that comes meanwhile is charged all the same.
      guards: this.#newGuards(account, denied),
      writes: [...denied.flatMap((one) => this.#decisionWrites(account, one, at)), ...follow.flatMap((f) => f.writes)],
      audit: denied.map((one) => auditOf(one, SYSTEM, at)),
    };
  }

  /** Neither pending nor decided, and of an agent that lives. */
  #newGuards(account: string, approvals: readonly Approval[]): Guard[] {
    const agents = new Set(approvals.map(({ agent_id }) => agent_id));
    return [
      ...[...agents].map((agent) => present('agent', ['get', this.#keys.agent(account, agent)])),
      ...approvals.flatMap(({ id }) => [
        absent('pending', ['hget', this.#keys.approvals(account), id]),
        absent('decided', ['hget', this.#keys.decidedApprovals(account), id]),
      ]),
    ];
  }

  /**
   * From pending to decided; `text` is the record that was read, `agentText` the agent's, where the outcome rests on
   * it.
   */
  #closing(account: string, { text, after, at, agentText, follows }: Closing, actor: Actor): Change {
    const pending = this.#keys.approvals(account);
    const { id } = after;
    const change: Change = {
      ...this.#change(account, at, [after]),
      guards: [
        this.#agentGuard(account, after.agent_id, agentText),
        is('pending', ['hget', pending, id], text),
        ...follows.guards,
      ],
      writes: [
        ['hdel', pending, id],
        ['zrem', this.#keys.approvalDeadlines(this.#keys.shardOf(account)), `${account}/${id}`],
        ...this.#decisionWrites(account, after, at),
        ...follows.writes,
      ],
      audit: [auditOf(after, actor, at)],
    };
    // A caller is refused while Redis is full, like every caller; time is not.
    if (actor !== SYSTEM) delete change.whenFull;
    return change;
  }

  #decisionWrites(account: string, decided: Approval, at: number): CommandArgs[] {
    const shard = this.#keys.shardOf(account);
    return [
      ['hset', this.#keys.decidedApprovals(account), decided.id, JSON.stringify(decided)],
      ['zadd', this.#keys.approvalDecisions(shard), at, `${account}/${decided.id}`],
      ['publish', this.#keys.approvalNews(shard), `${account}/${decided.id}`],
    ];
  }

  /** An event that is allowed has occurred for sequences; for one that is not, budgets hold nothing any more. */
  async #follows(account: string, { outcome, event_id: id }: Approval, atMs: number): Promise<Follows> {
    if (outcome !== 'allowed') return deniedReservations(this.#store, account, id);
    const isStep = (await this.#store.redis.exists(this.#keys.sequenceLater(account, id))) === 1;
    return { guards: [], writes: isStep ? settledWrites(this.#keys, account, { id, atMs }) : [] };
  }

  #change(account: string, at: number, approvals: readonly Approval[]) {
    const rows = approvals.map((row) => ({ table: 'approvals' as const, row }));
    return { account, at, changes: [], rows, whenFull: true as const };
  }

  /** null: another process was faster, or its agent is gone. */
  async #expire(shard: number, member: string, at: number): Promise<Approval | null> {
    const [account, id] = member.split('/') as [string, string];
    const { redis } = this.#store;
    const text = await redis.hget(this.#keys.approvals(account), id);
    if (text === null) {
      // Records and deadlines change together: this one was decided since, or is what a broken erasure left.
      await redis.zrem(this.#keys.approvalDeadlines(shard), member);
      return null;
    }
    const settled = await this.#settledByTime(account, JSON.parse(text) as Approval, at).catch(
      async (error: unknown) => {
        if (!(error instanceof ServiceError)) throw error;
        await redis.zadd(this.#keys.approvalDeadlines(shard), 'XX', at + RETRY_MS, member);
        return undefined;
      },
    );
    if (settled === undefined) return null;
    if (settled !== null) {
      const { after, agentText } = settled;
      const follows = await this.#follows(account, after, at);
      const change = this.#closing(account, { text, after, at, agentText, follows }, SYSTEM);
      const signals = await this.#expirySignals(account, after, at);
      const { refused } = await commit(this.#store, signals.length === 0 ? change : { ...change, signals });
      if (refused === undefined) return after;
      if (refused !== 'agent' || agentText !== undefined) return null; // the next poll finds what has changed
    }
    await redis.hdel(this.#keys.approvals(account), id);
    await redis.zrem(this.#keys.approvalDeadlines(shard), member);
    return null;
  }

  /**
   * People are notified that there was no decision, if the policy that asked notifies people; one that is gone notifies
   * no one.
   */
  async #expirySignals(account: string, after: Approval, at: number): Promise<Signal[]> {
    const text = await this.#store.redis.hget(this.#keys.policies(account), after.policy_id);
    if (text === null) return [];
    const policy = JSON.parse(text) as Policy;
    return policy.actions.includes('alert') ? [expirySignal(account, after, policy, at)] : [];
  }

  /** null: its agent is gone. Throws ServiceError agent_inactive, unavailable. */
  async #settledByPerson(
    account: string,
    before: Approval,
    { body, actor, at }: { body: ApprovalDecision; actor: Actor; at: number },
  ): Promise<Settled | null> {
    const after = decided(before, body, actor, at);
    if (after.outcome !== 'allowed') return { after };
    const review = await reviewApproval(this.#store, this.#reviewing, account, before);
    if (review.verdict === 'agent_inactive') throw agentInactive();
    return reviewed(after, review);
  }

  /** null: its agent is gone. Throws ServiceError unavailable: it can be settled later. */
  async #settledByTime(account: string, before: Approval, at: number): Promise<Settled | null> {
    const after = expired(before, at);
    if (after.outcome !== 'allowed') return { after };
    const denied = (comment: string): Settled => ({ after: { ...after, outcome: 'blocked', comment } });
    const policy = await this.#store.redis.hget(this.#keys.policies(account), before.policy_id);
    if (policy === null || !isInForce(readPolicy(policy), at)) return denied(POLICY_GONE_COMMENT);
    try {
      return reviewed(after, await reviewApproval(this.#store, this.#reviewing, account, before));
    } catch (error) {
      const isOld = at > Date.parse(before.expires_at) + UNSTORED_MS_MAX;
      if (isOld && error instanceof EventNotStored) return denied(NEVER_STORED_COMMENT);
      throw error;
    }
  }

  /** The agent as it was read, where the outcome rests on it; else that there is one. */
  #agentGuard(account: string, agent: string, text: string | undefined): Guard {
    const words: CommandArgs = ['get', this.#keys.agent(account, agent)];
    return text === undefined ? present('agent', words) : is('agent', words, text);
  }
}

/** Names its occurrence, so notified once however often its entry is delivered. */
function expirySignal(account: string, after: Approval, { id, name, type, severity }: Policy, at: number): Signal {
  const { agent_id: agent, event_id: event, outcome } = after;
  return {
    id: `policy_violation/${after.id}/expired`,
    trigger: 'policy_violation',
    account,
    agent,
    severity: severity ?? 'medium',
    at,
    message: `Nobody decided in time on an event of agent ${agent} that policy "${name.slice(0, 100)}" held: it is ${outcome}.`,
    reason: 'approval_expired',
    event: { id: event, outcome },
    approval: { id: after.id, expiresAt: Date.parse(after.expires_at) },
    policies: [{ id, name, type, severity }],
  };
}

/** An approval as it is to be; `agentText`: where that rests on the agent's record. */
type Settled = { after: Approval; agentText?: string | undefined };
type Follows = Pick<Change, 'guards' | 'writes'>;
type Closing = Settled & { text: string; at: number; follows: Follows };

function reviewed(after: Approval, review: Review): Settled | null {
  if (review.verdict === 'agent_gone') return null;
  const { agentText } = review;
  if (review.verdict === 'allowed') return { after, agentText };
  if (review.verdict === 'agent_inactive')
    return { after: { ...after, outcome: 'blocked', reason: 'agent_inactive' }, agentText };
  return { after: { ...after, outcome: 'blocked', reason: 'policy', blocked_by: review.policyId }, agentText };
}

/** `<account>/<id>` -> ids by account. */
export function byAccount(members: readonly string[]): Map<string, string[]> {
  const accounts = new Map<string, string[]>();
  for (const member of members) {
    const [account, id] = member.split('/') as [string, string];
    const ids = accounts.get(account);
    if (ids === undefined) accounts.set(account, [id]);
    else ids.push(id);
  }
  return accounts;
}

function decided(before: Approval, { decision, comment }: ApprovalDecision, { actor }: Actor, at: number): Approval {
  const [status, outcome] =
    decision === 'approve' ? (['approved', 'allowed'] as const) : (['denied', 'blocked'] as const);
  return { ...closed(before, status, outcome, at), decided_by: actor, comment: comment ?? null };
}

function expired(before: Approval, at: number): Approval {
  return closed(before, 'expired', before.on_timeout === 'approve' ? 'allowed' : 'blocked', at);
}

/** Decided by no person. */
function closed(before: Approval, status: Exclude<ApprovalStatus, 'pending'>, outcome: Outcome, at: number): Approval {
  return { ...before, status, outcome, reason: 'approval', decided_at: isoTime(at), decided_by: SYSTEM.actor };
}

const ACTIONS: Record<Exclude<ApprovalStatus, 'pending'>, AuditAction> = {
  approved: 'approval.approved',
  denied: 'approval.denied',
  expired: 'approval.expired',
};

function auditOf(approval: Approval, actor: Actor, at: number): AuditLog {
  const { id, event_id, agent_id, policy_id, outcome, reason, blocked_by, comment } = approval;
  const action = ACTIONS[approval.status as keyof typeof ACTIONS];
  const details = {
    ...{ event_id, agent_id, policy_id, outcome },
    ...(reason === 'approval' ? {} : { reason }),
    ...(blocked_by === null ? {} : { blocked_by }),
    ...(comment === null ? {} : { comment }),
  };
  return auditLog({ action, type: 'approval', id, details }, actor, at);
}

function agentInactive(): ServiceError {
  const message = 'The agent is inactive: what waits is not let through. Deny it, or set the agent active first.';
  return new ServiceError('agent_inactive', message, { recorded: false });
}

export function alreadyDecided(): ServiceError {
  return new ServiceError('already_decided', 'This approval has been decided already; it stays as it is.', {
    recorded: false,
  });
}
