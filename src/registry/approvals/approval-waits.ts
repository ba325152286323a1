// Callers of a front that wait for decisions (GET /v1/approvals/{id}?wait=).
// A decision is published in the very commit that makes it; each front listens on a connection of its own and inspects
// what is waited for when its name falls. Pub/sub promises nothing, so everything that is waited for is inspected once
// per APPROVAL_POLL_MS as well. A waiter is entered before the record is read, so no decision falls between the two.
// Invariant: each waiting request is answered: decided, gone, at the end of the wait, when the front drains; unless the
// client has left. Bounded: at most `max` waiters, `accountMax` of one account; the next one is refused (503). Redis
// away: waits continue, and end with an error if it stays away.

import type { Approval } from '../../../schemas/approval.ts';
import { Periodic } from '../../common/async.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId } from '../../common/ids.ts';
import {
  APPROVAL_POLL_MS,
  APPROVAL_WAITS_MAX,
  APPROVAL_WAITS_OF_ACCOUNT_MAX,
  APPROVALS_AT_ONCE,
} from '../../common/limits.ts';
import { type Commands, connectCommands, type RedisAddress } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { type Approvals, byAccount } from './approvals.ts';

type ApprovalWaitsOptions = {
  address: RedisAddress;
  keys: Keys;
  approvals: Pick<Approvals, 'get' | 'look'>;
  max?: number;
  accountMax?: number;
  pollMs?: number;
};

/** null: there is no such approval, or not any more. */
type Settle = (approval: Approval | null) => void;
/** All who wait for one approval, `<account>/<id>`. */
type Waited = { account: string; id: string; pending: Approval; waiters: Set<Settle> };

export class ApprovalWaits {
  readonly #options: ApprovalWaitsOptions;
  readonly #max: number;
  readonly #accountMax: number;
  readonly #waited = new Map<string, Waited>();
  /** Waiters of each account that has any. */
  readonly #counts = new Map<string, number>();
  #listener: Commands | undefined;
  readonly #polls: Periodic;
  #count = 0;
  #draining = false;

  constructor(options: ApprovalWaitsOptions) {
    this.#options = options;
    this.#max = options.max ?? APPROVAL_WAITS_MAX;
    this.#accountMax = options.accountMax ?? APPROVAL_WAITS_OF_ACCOUNT_MAX;
    this.#polls = new Periodic(options.pollMs ?? APPROVAL_POLL_MS, () => this.#poll());
  }

  /** Callers that wait now. */
  get count(): number {
    return this.#count;
  }

  /** Does not wait for Redis: until it is there, polling does. */
  start(): void {
    const { address, keys } = this.#options;
    const channels = keys.ofShards(keys.approvalNews);
    const listener = connectCommands({ ...address, replicas: 0 });
    this.#listener = listener;
    // Also after each reconnect: what was missed meanwhile is found by the next poll.
    listener.on('ready', () => void listener.subscribe(...channels).catch(() => undefined));
    listener.on('message', (_channel: string, news: string) => void this.#hear(news));
    this.#polls.start();
  }

  /** Answers each waiting request, and from now on each new one, with the pending approval. */
  answerAll(): void {
    this.#draining = true;
    for (const { pending, waiters } of [...this.#waited.values()]) for (const settle of [...waiters]) settle(pending);
  }

  async stop(): Promise<void> {
    this.answerAll();
    await this.#polls.stop();
    this.#listener?.disconnect();
  }

  /**
   * Resolves when `pending` has been decided, or after `waitMs`, or when the front drains; null: it is gone. At once
   * when `signal` fires: then the client has left. Throws ServiceError unavailable.
   */
  async wait(account: string, pending: Approval, waitMs: number, signal: AbortSignal): Promise<Approval | null> {
    if (this.#draining || signal.aborted) return pending;
    if (this.#count >= this.#max || (this.#counts.get(account) ?? 0) >= this.#accountMax) {
      throw new ServiceError('unavailable', 'Too many callers wait for decisions here.', { retryAfterSeconds: 1 });
    }
    const { id } = pending;
    const key = `${account}/${id}`;
    const waited: Waited = this.#waited.get(key) ?? { account, id, pending, waiters: new Set() };
    this.#waited.set(key, waited);
    this.#enter(account, 1);
    let settle!: Settle;
    const settled = new Promise<Approval | null>((resolve) => {
      settle = resolve;
    });
    waited.waiters.add(settle);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      settle(pending);
    }, waitMs);
    const leave = () => settle(pending);
    signal.addEventListener('abort', leave);
    void this.#look(waited);
    try {
      const answer = await settled;
      return isLate && !signal.aborted ? await this.#options.approvals.get(account, id) : answer;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      waited.waiters.delete(settle);
      this.#enter(account, -1);
      if (waited.waiters.size === 0) this.#waited.delete(key);
    }
  }

  #enter(account: string, more: 1 | -1): void {
    this.#count += more;
    const count = (this.#counts.get(account) ?? 0) + more;
    if (count > 0) this.#counts.set(account, count);
    else this.#counts.delete(account);
  }

  /** A decided approval, or a deleted agent: then any of the account's may be gone. */
  async #hear(news: string): Promise<void> {
    const waited = this.#waited.get(news);
    if (waited !== undefined) return this.#look(waited);
    const [account, id] = news.split('/') as [string, string];
    if (!isId('agent', id)) return;
    const concerned = [...this.#waited.values()].filter(
      (one) => one.account === account && one.pending.agent_id === id,
    );
    await Promise.all(concerned.map((one) => this.#look(one)));
  }

  async #look(waited: Waited): Promise<void> {
    try {
      tell(waited, await this.#options.approvals.get(waited.account, waited.id));
    } catch {
      // Redis is away: the next poll tries again.
    }
  }

  async #poll(): Promise<void> {
    // A listener whose cable was cut gets nothing, and so never notices: it has to ask for something.
    void this.#listener?.ping().catch(() => undefined);
    for (const [account, ids] of byAccount([...this.#waited.keys()])) {
      for (let i = 0; i < ids.length; i += APPROVALS_AT_ONCE) {
        const some = ids.slice(i, i + APPROVALS_AT_ONCE);
        const found = await this.#options.approvals.look(account, some).catch(() => undefined);
        if (found === undefined) return;
        for (const [j, approval] of found.entries()) {
          const waited = this.#waited.get(`${account}/${some[j]!}`);
          if (waited !== undefined) tell(waited, approval);
        }
      }
    }
  }
}

function tell({ waiters }: Waited, approval: Approval | null): void {
  if (approval !== null && approval.status === 'pending') return;
  for (const settle of [...waiters]) settle(approval);
}
