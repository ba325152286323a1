// Writes the registry into a ClickHouse that has lost it: its folder was deleted, or another one was given. Without
// that a Redis that is lost later, too, could not be restored, and nothing would say so until then. Or those resources
// alone whose last change the audit log of a restored ClickHouse does not know.
// Asked where ClickHouse knows no account at all, by the code that has just found that out (recovery.ts). What is in
// Redis goes through the journal again, as changes that change nothing; the pipelines bring it in.
// Invariant: a new installation is none that lost something: its journal still waits. Safe to repeat. What events and
// audit entries there were is gone, and is said for a day (`/readyz`: `history_missing`); the audit log keeps that it
// happened.

import type { ResourceType } from '../../../schemas/closed-sets.ts';
import type { JournalEntry } from '../../../schemas/journal.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { parseExact } from '../../common/exact-json.ts';
import type { PriceTableRecord } from '../../common/prices/price-list.ts';
import { REGISTRY_SHARDS } from '../../redis/keys.ts';
import { auditLog, SYSTEM } from '../audit.ts';
import { priceRevisionRow } from '../budgets/price-tables.ts';
import { commit, nowOf, type RegistryStore } from '../commit.ts';
import { ofAgent } from '../named-records.ts';
import { revisionSha256 } from '../policies/revision-texts.ts';

const SAID_MS = 24 * 60 * 60 * 1000;
/** One commit has so many changes: some hundred kilobytes. */
const CHANGES_AT_ONCE = 100;

type Changed = JournalEntry['changes'][number];

/** Is there a registry whose changes have left the journal? Then a ClickHouse without any of them has lost them. */
export async function isHistoryExpected({ redis, keys }: RegistryStore): Promise<boolean> {
  const shards = Array.from({ length: REGISTRY_SHARDS }, (_, shard) => shard);
  const [revisions, waiting] = await Promise.all([
    Promise.all(shards.map((shard) => redis.get(keys.revision(shard)))),
    Promise.all(shards.map((shard) => redis.xlen(keys.journal(shard)))),
  ]);
  return revisions.some((revision) => Number(revision ?? 0) > 0) && waiting.every((entries) => entries === 0);
}

/** Answers how many resources go in again. */
export async function rewriteHistory(store: RegistryStore): Promise<number> {
  const { redis, keys } = store;
  const at = nowOf(store);
  await redis.set(keys.historyMissing(), new Date(at).toISOString(), 'PX', SAID_MS);
  return rewriteResources(store, at, () => true);
}

/** `isMeant`: of which resources; an account without any is left alone. */
export async function rewriteResources(
  store: RegistryStore,
  at: number,
  isMeant: (account: string, change: Changed) => boolean,
): Promise<number> {
  const { redis, keys } = store;
  let written = 0;
  for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
    for (const [account, record] of Object.entries(await redis.hgetall(keys.accounts(shard)))) {
      const all = [changeOf('account', account, record), ...(await resourcesOf(store, account))];
      const changes = all.filter((change) => isMeant(account, change));
      if (changes.length === 0) continue;
      for (let i = 0; i < changes.length; i += CHANGES_AT_ONCE)
        await rewrite(store, account, at, changes.slice(i, i + CHANGES_AT_ONCE));
      const details = { history_missing: true, resources: changes.length };
      const entry = auditLog({ action: 'registry.recovered', type: 'account', id: account, details }, SYSTEM, at);
      await commit(store, { ...{ account, at, guards: [], writes: [], changes: [], whenFull: true }, audit: [entry] });
      written += changes.length;
    }
  }
  return written;
}

/** That something was deleted, of which the audit log has lost the entry. By that of an agent its gaps are erasures. */
export async function recordDeletion(
  store: RegistryStore,
  { account, kind, id }: { account: string; kind: string; id: string },
): Promise<void> {
  const at = nowOf(store);
  const action = kind === 'agent' ? 'agent.deleted' : 'registry.recovered';
  const details = { history_missing: true, ...(kind === 'agent' ? {} : { kind, deleted: true }) };
  const entry = auditLog({ action, type: kind as ResourceType, id, details }, SYSTEM, at);
  await commit(store, { ...{ account, at, guards: [], writes: [], changes: [], whenFull: true }, audit: [entry] });
}

/** An entry for each policy: it vouches for the revision that is written again (audit/verify.ts). */
async function rewrite(store: RegistryStore, account: string, at: number, changes: Changed[]): Promise<void> {
  const audit = changes.flatMap(({ kind, id, record }) => {
    if (kind !== 'policy' || record === null) return [];
    const { revision, agent_id } = record as Policy;
    const details = { history_missing: true, revision, ...revisionSha256(record, {}), ...ofAgent(agent_id) };
    return [auditLog({ action: 'registry.recovered', type: 'policy', id, details }, SYSTEM, at)];
  });
  const rows = changes.flatMap(({ kind, record }) =>
    kind === 'prices' ? [priceRevisionRow(record as PriceTableRecord, SYSTEM)] : [],
  );
  await commit(store, { ...{ account, at, guards: [], writes: [], whenFull: true }, changes, audit, rows });
}

async function resourcesOf({ redis, keys }: RegistryStore, account: string): Promise<Changed[]> {
  const ids = await redis.zrange(keys.agentIds(account, 'all'), '0', '-1');
  const agents = await Promise.all(ids.map((id) => redis.get(keys.agent(account, id))));
  const hashes = {
    policy: keys.policies(account),
    alert: keys.alerts(account),
    api_key: keys.apiKeys(account),
  } as const;
  const others = await Promise.all(
    Object.entries(hashes).map(async ([kind, hash]) =>
      Object.entries(await redis.hgetall(hash)).map(([id, text]) => changeOf(kind as Changed['kind'], id, text)),
    ),
  );
  const prices = await redis.get(keys.prices(account));
  return [
    ...ids.flatMap((id, i) => (agents[i] === null ? [] : [changeOf('agent', id, agents[i]!)])),
    ...others.flat(),
    ...(prices === null ? [] : [changeOf('prices', account, prices)]),
  ];
}

function changeOf(kind: Changed['kind'], id: string, text: string): Changed {
  return { kind, id, record: parseExact(text) as object } as Changed;
}
