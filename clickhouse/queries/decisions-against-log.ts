// Decided approvals that are not what the audit log says was decided (audit/verify.ts). Rows of `approvals` have no
// chain of their own: what was decided is in the log, which has one, so a row that was changed is found by
// comparing them.
import type { ClickHouse } from '../client.ts';

/** `entry`: id of the log's entry; '': there is none. `atMs`: of the decision, epoch ms. */
type Differing = { id: string; entry: string; atMs: number };

const DIFFERING_MAX = 1_000;

export async function decisionsAgainstLog(clickhouse: ClickHouse, account: string): Promise<Differing[]> {
  const rows = await clickhouse.query<{ id: string; entry: string; at_ms: number | null }>(
    `SELECT a.id AS id, l.entry AS entry, a.at_ms AS at_ms FROM
       (SELECT id, toString(status) AS status, toString(outcome) AS outcome, toUnixTimestamp64Milli(decided_at) AS at_ms
        FROM approvals FINAL WHERE account_id = {account:String} AND status != 'pending') AS a
     LEFT JOIN
       (SELECT resource_id, argMax(id, created_at) AS entry, argMax(toString(action), created_at) AS action,
          argMax(JSONExtractString(details, 'outcome'), created_at) AS outcome
        FROM audit_log WHERE account_id = {account:String} AND resource_type = 'approval' GROUP BY resource_id) AS l
     ON l.resource_id = a.id
     WHERE l.action != concat('approval.', a.status) OR l.outcome != a.outcome ORDER BY at_ms LIMIT ${DIFFERING_MAX}`,
    { account },
  );
  return rows.map(({ id, entry, at_ms }) => ({ id, entry, atMs: Number(at_ms ?? 0) }));
}
