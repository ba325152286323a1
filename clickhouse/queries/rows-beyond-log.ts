// What a restored ClickHouse has that its audit log does not know (commands/stored-backup-commands.ts). A backup takes
// the log before the tables whose changes it records, and the pipelines write it after them: so each entry has its row,
// and what was stored meanwhile has none. Verification would call such rows `added` for ever.
//   policy_revisions   removed: the revision came after the backup began
//   approvals          undecided again, under a revision that replaces the decision
//   registry           kept, since what it replaced may be gone: the caller has it recorded again, deletions too
// Invariant: nothing is touched that was stored before `fromMs`. Safe to repeat.
import type { ClickHouse } from '../client.ts';

/** `deleted`: its newest change is that it was. */
export type Unrecorded = { account: string; kind: string; id: string; deleted: boolean };

const SINCE = "fromUnixTimestamp64Milli({fromMs:Int64}, 'UTC')";
const LOG = `FROM audit_log WHERE created_at >= ${SINCE}`;

/** Answers the resources of the registry whose newest change no entry records. */
export async function dropBeyondLog(clickhouse: ClickHouse, fromMs: number): Promise<Unrecorded[]> {
  const params = { fromMs };
  await clickhouse.command(
    `DELETE FROM policy_revisions WHERE created_at >= ${SINCE} AND (account_id, policy_id, revision) NOT IN
       (SELECT account_id, resource_id, JSONExtractUInt(details, 'revision') ${LOG} AND resource_type = 'policy')`,
    params,
  );
  const undecided = `decided_at >= ${SINCE} AND (account_id, id) NOT IN
    (SELECT account_id, resource_id ${LOG} AND resource_type = 'approval')`;
  await clickhouse.command(
    `INSERT INTO approvals SELECT * REPLACE ('pending' AS status, 'pending' AS outcome, NULL AS decided_at,
       NULL AS decided_by, NULL AS comment, '' AS reason, '' AS blocked_by, revision + 1 AS revision)
     FROM approvals FINAL WHERE ${undecided}`,
    params,
  );
  // An outcome is read without FINAL (005_approvals.sql).
  await clickhouse.command(`DELETE FROM approvals WHERE ${undecided}`, params);
  const rows = await clickhouse.query<Omit<Unrecorded, 'deleted'> & { deleted: number }>(
    `SELECT account_id AS account, kind, id, record = '' AS deleted FROM registry FINAL
     WHERE at >= ${SINCE} AND (account_id, at) NOT IN (SELECT account_id, created_at ${LOG})`,
    params,
  );
  return rows.map((row) => ({ ...row, deleted: Number(row.deleted) === 1 }));
}
