// Puts pending approvals back into an empty Redis (`gatehouse registry restore`, after the registry itself;
// restore.ts). They keep their deadlines, so one whose time has passed meanwhile expires at once. Decided ones stay in
// ClickHouse alone: what could deliver their events again was lost with the streams.
// Raises each shard's revision over that of every row of its journal: a later decision must replace the row that it
// decides.
import type { Approval } from '../../../schemas/approval.ts';
import { answering, type RegistryStore } from '../commit.ts';

type PendingRow = { account: string; approval: Approval };
type RevisionRow = { account: string; revision: number };

/** Returns how many were put back. Those of deleted agents are not. */
export function restoreApprovals(
  { redis, keys }: RegistryStore,
  rows: { approvals: AsyncIterable<PendingRow> | Iterable<PendingRow>; revisions: readonly RevisionRow[] },
  isLost: (account: string) => boolean,
): Promise<number> {
  return answering(async () => {
    let restored = 0;
    for await (const { account, approval } of rows.approvals) {
      if (!isLost(account)) continue;
      if ((await redis.exists(keys.agent(account, approval.agent_id))) === 0) continue;
      const deadlines = keys.approvalDeadlines(keys.shardOf(account));
      await redis.hset(keys.approvals(account), approval.id, JSON.stringify(approval));
      await redis.zadd(deadlines, Date.parse(approval.expires_at), `${account}/${approval.id}`);
      restored++;
    }
    // Last: with its revision a shard counts as there.
    for (const { account, revision } of rows.revisions) {
      const key = keys.revision(keys.shardOf(account));
      if (isLost(account) && Number((await redis.get(key)) ?? -1) < revision) await redis.set(key, revision);
    }
    return restored;
  });
}
