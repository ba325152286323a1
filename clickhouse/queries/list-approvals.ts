// Approvals as ClickHouse knows them: all of them, while Redis holds the pending and the lately decided (GET
// /v1/approvals). Newest first by arrival of the event, equal times by id; totals exact. FINAL: of each approval its
// newest state.

import type { Approval } from '../../schemas/approval.ts';
import type { ApprovalStatus } from '../../schemas/closed-sets.ts';
import type { Listed, PageStart } from '../../schemas/paging.ts';
import type { ClickHouse } from '../client.ts';
import { type AnyOf, type Excluded, isoTime, QueryConditions } from './conditions.ts';
import { pageOf } from './page-of.ts';

type ApprovalPage = PageStart &
  Excluded & {
    status?: AnyOf<ApprovalStatus> | undefined;
    agentId?: AnyOf<string> | undefined;
    eventId?: AnyOf<string> | undefined;
    policyId?: AnyOf<string> | undefined;
  };

export type ApprovalRow = Omit<Approval, 'created_at' | 'expires_at' | 'decided_at' | 'reason' | 'blocked_by'> & {
  /** '': none. */
  reason: NonNullable<Approval['reason']> | '';
  blocked_by: string;
  created_ms: number;
  expires_ms: number;
  decided_ms: number | null;
};

export const APPROVAL_COLUMNS = `id, agent_id, event_id, policy_id, policy_name, status, outcome, on_timeout, decided_by, comment,
  reason, blocked_by, toUnixTimestamp64Milli(created_at) AS created_ms, toUnixTimestamp64Milli(expires_at) AS expires_ms,
  toUnixTimestamp64Milli(decided_at) AS decided_ms`;

export async function listApprovals(
  clickhouse: ClickHouse,
  account: string,
  page: ApprovalPage,
): Promise<Listed<Approval>> {
  const where = new QueryConditions(account)
    .equal('agent_id', page.agentId)
    .equal('event_id', page.eventId)
    .exclude('agent_id', page.excludeAgents)
    .equal('policy_id', page.policyId)
    .equal('status', page.status);
  const listed = await pageOf<ApprovalRow>(clickhouse, {
    ...{ table: 'approvals', columns: APPROVAL_COLUMNS, where, time: 'created_at', page },
    positionOf: (row) => ({ at: row.created_ms, id: row.id }),
  });
  return { ...listed, items: listed.items.map(approvalOf) };
}

/** Finds those of the given approvals that were decided. What is pending, Redis knows better. */
export async function decidedApprovals(
  clickhouse: ClickHouse,
  account: string,
  { ids, excludeAgents }: { ids: readonly string[] } & Excluded,
): Promise<Approval[]> {
  if (ids.length === 0) return [];
  const where = new QueryConditions(account)
    .and('id IN {ids:Array(String)}', { ids })
    .and("status != 'pending'")
    .exclude('agent_id', excludeAgents);
  const rows = await clickhouse.query<ApprovalRow>(
    `SELECT ${APPROVAL_COLUMNS} FROM approvals FINAL WHERE ${where.sql}`,
    where.params,
  );
  return rows.map(approvalOf);
}

const PAGE_ROWS = 10_000;

/** The pending approvals of all accounts, for `gatehouse registry restore`; in pages. */
export async function* pendingApprovals(
  clickhouse: ClickHouse,
): AsyncGenerator<{ account: string; approval: Approval }> {
  let after = { account: '', id: '' };
  for (;;) {
    const rows = await clickhouse.query<ApprovalRow & { account: string }>(
      `SELECT account_id AS account, ${APPROVAL_COLUMNS} FROM approvals FINAL
       WHERE status = 'pending' AND (account_id, id) > ({account:String}, {id:String})
       ORDER BY account_id, id LIMIT ${PAGE_ROWS}`,
      after,
    );
    for (const row of rows) yield { account: row.account, approval: approvalOf(row) };
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE_ROWS) return;
    after = { account: last.account, id: last.id };
  }
}

/**
 * The highest revision of each account in the tables that the journal feeds with rows: restored changes must lie above.
 */
export function rowRevisions(clickhouse: ClickHouse): Promise<{ account: string; revision: number }[]> {
  const tables = ['approvals', 'deliveries'].map(
    (table) => `SELECT account_id, max(revision) AS highest FROM ${table} GROUP BY account_id`,
  );
  return clickhouse.query(
    `SELECT account_id AS account, max(highest) AS revision FROM (${tables.join(' UNION ALL ')}) GROUP BY account_id`,
  );
}

export function approvalOf({ created_ms, expires_ms, decided_ms, ...row }: ApprovalRow): Approval {
  const { id, agent_id, event_id, policy_id, policy_name, status, outcome, on_timeout, decided_by, comment } = row;
  return {
    ...{ id, agent_id, event_id, policy_id, policy_name, status, outcome, on_timeout },
    created_at: isoTime(created_ms),
    expires_at: isoTime(expires_ms),
    decided_at: decided_ms === null ? null : isoTime(decided_ms),
    decided_by,
    reason: row.reason !== '' ? row.reason : decided_ms === null ? null : 'approval',
    blocked_by: row.blocked_by === '' ? null : row.blocked_by,
    comment,
  };
}
