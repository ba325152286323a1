// Deletes an account with all that is kept of it (`gatehouse account delete`, an operator; no key may do that for
// itself).
// In this order: its keys, so that no caller is admitted any more; its agents, each with its events, approvals and
// deliveries, which the pipelines erase as they do for any deleted agent; policies, alerts, views, connections,
// checks and outgoing feeds of the account; its name; at last its record, and its prices.
// Invariant: what each step removes is one audited change; the account's audit log stays, as it does for a deleted
// agent. An id is never used again: the name is given back before the record goes, so that a kill in between leaves a
// record to be deleted by its id, and never a name that leads to an account of yesterday.
// Failure: a kill at any place is mended by the same call again. Redis away: ServiceError unavailable.
import { ServiceError } from '../../common/errors.ts';
import { isId } from '../../common/ids.ts';
import { Agents } from '../agents.ts';
import { Alerts } from '../alerts/alerts.ts';
import { OutgoingFeeds } from '../alerts/outgoing-feeds.ts';
import { auditLog } from '../audit.ts';
import { AGAIN, answering, below, commit, type Guard, inRounds, is, nowOf, type RegistryStore } from '../commit.ts';
import { Connections } from '../connections.ts';
import { ExternalChecks } from '../external-checks.ts';
import { Backtests } from '../policies/backtests.ts';
import { Policies } from '../policies/policies.ts';
import { Views } from '../views.ts';
import { type AccountRecord, Accounts, DEFAULT_NAME } from './accounts.ts';
import { ApiKeys } from './api-keys.ts';
import { onHold } from './holds.ts';
import type { Actor } from './principal.ts';

/** How many of each went. */
type Removed = { keys: number; agents: number; policies: number; alerts: number };

const PAGE = 100;

/** Throws ServiceError validation_failed for the account that every start makes again, on_hold, unavailable. */
export async function removeAccount(store: RegistryStore, account: AccountRecord, actor: Actor): Promise<Removed> {
  if (account.name === DEFAULT_NAME)
    throw new ServiceError('validation_failed', `The account ${DEFAULT_NAME} is made again by every start; it stays.`);
  const { id } = account;
  const [held] = account.holds ?? [];
  if (held !== undefined) throw onHold(held);
  const parts = {
    keys: new ApiKeys(store),
    agents: new Agents(store),
    policies: new Policies(store),
    alerts: new Alerts(store),
    backtests: new Backtests(store),
    views: new Views(store),
    connections: new Connections(store),
    checks: new ExternalChecks(store),
    outgoing: new OutgoingFeeds(store),
  };
  const removed: Removed = { keys: 0, agents: 0, policies: 0, alerts: 0 };
  removed.keys = await each(parts.keys, id, (key) => parts.keys.revoke(id, key, actor, { mayBeLast: true }));
  removed.agents = await each(parts.agents, id, (agent) => parts.agents.remove(id, agent, actor));
  removed.policies = await each(parts.policies, id, (policy) => parts.policies.remove(id, policy, actor));
  removed.alerts = await each(parts.alerts, id, (alert) => parts.alerts.remove(id, alert, actor));
  await each(parts.backtests, id, (backtest) => parts.backtests.remove(id, backtest, actor));
  await each(parts.views, id, (view) => parts.views.remove(id, view, actor));
  await each(parts.connections, id, (connection) => parts.connections.remove(id, connection, actor));
  await each(parts.checks, id, (check) => parts.checks.remove(id, check, actor));
  await each(parts.outgoing, id, (feed) => parts.outgoing.remove(id, feed, actor));
  await giveNameBack(store, account);
  await removeRecord(store, account, actor);
  return removed;
}

/** false: no such account. Throws as `removeAccount` does. */
export async function removeAccountOf(store: RegistryStore, id: string, actor: Actor): Promise<boolean> {
  const account = isId('account', id) ? await new Accounts(store).find(id) : null;
  if (account === null) return false;
  await removeAccount(store, account, actor);
  return true;
}

type RemovableList = {
  list(account: string, page: { limit: number; offset: number }): Promise<{ items: { id: string }[] }>;
};

async function each(kept: RemovableList, account: string, remove: (id: string) => Promise<unknown>): Promise<number> {
  for (let count = 0; ; ) {
    const { items } = await kept.list(account, { limit: PAGE, offset: 0 });
    if (items.length === 0) return count;
    for (const { id } of items) await remove(id);
    count += items.length;
  }
}

/** In a slot of its own, so not of the commit. A name that leads elsewhere by now is another's. */
function giveNameBack({ redis, keys }: RegistryStore, { id, name }: AccountRecord): Promise<void> {
  return answering(async () => {
    if ((await redis.hget(keys.accountNames(), name)) === id) await redis.hdel(keys.accountNames(), name);
  });
}

/** Refused and tried again where something was made meanwhile, by the command line, that would be left behind. */
function removeRecord(store: RegistryStore, { id }: AccountRecord, actor: Actor): Promise<boolean> {
  const { keys, redis } = store;
  return inRounds(async () => {
    const hash = keys.accounts(keys.shardOf(id));
    const text = await redis.hget(hash, id);
    if (text === null) return true;
    const at = nowOf(store);
    const empty: Guard[] = [
      keys.apiKeys(id),
      keys.policies(id),
      keys.alerts(id),
      keys.backtests(id),
      keys.views(id),
      keys.connections(id),
      keys.checks(id),
      keys.outgoingFeeds(id),
    ].map((key) => below('full', ['hlen', key], 1));
    const { refused } = await commit(store, {
      account: id,
      at,
      guards: [is('record', ['hget', hash, id], text), ...empty, below('full', ['zcard', keys.agentIds(id, 'all')], 1)],
      // Of browsers; they ended with their keys.
      writes: [
        ['hdel', hash, id],
        ['del', keys.sessions(id)],
        ['del', keys.sessionUses(id)],
        ['del', keys.prices(id)],
        ['del', keys.verificationJob(id)],
      ],
      changes: [
        { kind: 'account', id, record: null },
        { kind: 'prices', id, record: null },
      ],
      audit: [auditLog({ action: 'account.deleted', type: 'account', id }, actor, at)],
    });
    if (refused === 'full')
      throw new ServiceError('unavailable', 'Something was made in this account meanwhile; delete it again.', {
        recorded: false,
        retryAfterSeconds: 1,
      });
    return refused === undefined ? true : AGAIN;
  });
}
