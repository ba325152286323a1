// Declared policies that were deleted by hand, as the audit log has it (for POST /v1/policies/apply): a plan that makes
// them again says so. The newest deletion of each name counts.
import type { ClickHouse } from '../client.ts';
import { isoTime, QueryConditions } from './conditions.ts';

type Deletion = { at: string; actor: string };

/** By the names of those whose last deletion was by hand. */
export async function deletedByHand(
  clickhouse: ClickHouse,
  account: string,
  { owner, names }: { owner: string; names: readonly string[] },
): Promise<Map<string, Deletion>> {
  if (names.length === 0) return new Map();
  const where = new QueryConditions(account)
    .equal('action', 'policy.deleted')
    .and(
      "JSONExtractString(details, 'owner') = {owner:String} AND JSONExtractString(details, 'name') IN {names:Array(String)}",
      {
        ...{ owner, names },
      },
    );
  const rows = await clickhouse.query<{ name: string; by: string; actor: string; ms: number }>(
    `SELECT JSONExtractString(details, 'name') AS name, JSONExtractString(details, 'applied_by') AS by, actor,
       toUnixTimestamp64Milli(created_at) AS ms
     FROM audit_log FINAL WHERE ${where.sql} ORDER BY created_at DESC, id DESC LIMIT 1 BY name`,
    where.params,
  );
  return new Map(
    rows.filter(({ by }) => by === '').map(({ name, actor, ms }) => [name, { at: isoTime(ms), actor }] as const),
  );
}
