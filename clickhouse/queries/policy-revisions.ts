// The revisions of a policy (GET /v1/policies/{id}/revisions), newest first. They outlive it.
// Their order is their numbers: a position is the number itself, in the place of the time.

import { cut, type Listed, type PageStart } from '../../schemas/paging.ts';
import type { PolicyDifference, PolicyRevision } from '../../schemas/policy.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import type { ClickHouse } from '../client.ts';
import { type Excluded, isoTime, QueryConditions } from './conditions.ts';

type RevisionRow = {
  number: number;
  action: PolicyRevision['action'];
  actor: string;
  created_ms: number;
  restored_from: number;
  differences: string;
  record: string;
};

const COLUMNS = `toUInt64(revision) AS number, action, actor, toUnixTimestamp64Milli(created_at) AS created_ms, restored_from,
  differences, record`;

export async function listPolicyRevisions(
  clickhouse: ClickHouse,
  account: string,
  { policyId, excludeAgents, ...page }: PageStart & Excluded & { policyId: string },
): Promise<Listed<PolicyRevision>> {
  const where = ofPolicy(account, policyId, excludeAgents);
  const { limit, offset, after } = page;
  const count = `SELECT count() AS total FROM policy_revisions FINAL WHERE ${where.sql}`;
  const counted = after === undefined ? clickhouse.query<{ total: number }>(count, where.params) : undefined;
  if (after !== undefined) where.and('revision < {below:UInt64}', { below: after.at });
  const [found, total] = await Promise.all([
    clickhouse.query<RevisionRow>(
      `SELECT ${COLUMNS} FROM policy_revisions FINAL WHERE ${where.sql}
       ORDER BY revision DESC LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
      { ...where.params, limit: limit + 1, offset },
    ),
    counted,
  ]);
  const { rows, positions, next } = cut(found, limit, ({ number }) => ({ at: Number(number), id: policyId }));
  return {
    items: rows.map((row) => revisionOf(policyId, row)),
    positions,
    total: total === undefined ? null : Number(total[0]?.total ?? 0),
    next,
  };
}

/** `revision` left out: the newest. null: there is none of this number. */
export async function getPolicyRevision(
  clickhouse: ClickHouse,
  account: string,
  { policyId, revision, excludeAgents }: Excluded & { policyId: string; revision?: number },
): Promise<PolicyRevision | null> {
  const where = ofPolicy(account, policyId, excludeAgents);
  if (revision !== undefined) where.and('revision = {number:UInt64}', { number: revision });
  const [row] = await clickhouse.query<RevisionRow>(
    `SELECT ${COLUMNS} FROM policy_revisions FINAL WHERE ${where.sql} ORDER BY revision DESC LIMIT 1`,
    where.params,
  );
  return row === undefined ? null : revisionOf(policyId, row);
}

/** The agent that a policy is, or was, scoped to; null: none. undefined: no such policy is known. */
export async function agentOfPolicy(
  clickhouse: ClickHouse,
  account: string,
  policyId: string,
): Promise<string | null | undefined> {
  const { sql, params } = ofPolicy(account, policyId);
  const [row] = await clickhouse.query<{ agent_id: string }>(
    `SELECT agent_id FROM policy_revisions WHERE ${sql} LIMIT 1`,
    params,
  );
  return row === undefined ? undefined : row.agent_id || null;
}

function ofPolicy(account: string, policyId: string, excludeAgents?: readonly string[]): QueryConditions {
  return new QueryConditions(account).equal('policy_id', policyId).exclude('agent_id', excludeAgents);
}

function revisionOf(policyId: string, row: RevisionRow): PolicyRevision {
  const restored = Number(row.restored_from);
  return {
    policy_id: policyId,
    revision: Number(row.number),
    action: row.action,
    actor: row.actor,
    created_at: isoTime(row.created_ms),
    restored_from: restored === 0 ? null : restored,
    differences: parseExact(row.differences) as PolicyDifference[],
    policy: row.record === '' ? null : (parseExact(row.record) as PolicyRevision['policy']),
  };
}
