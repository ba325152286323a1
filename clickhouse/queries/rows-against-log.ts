// Rows that are not what the audit log says was done to them (audit/verify.ts): decided approvals, and revisions of
// policies. Their tables have no chain of their own; the log has one, so what was changed, removed or added in them is
// found by comparing. Every entry has to agree with its row: one that was put beside the true one hides nothing. What
// was erased with an agent is in neither; while that goes on, the caller knows by the agent.
import type { ClickHouse, QueryParams } from '../client.ts';

/**
 * `resource`: names the row. `entry`: id of the log's; '': there is none. `agent`: that it goes with; '': none. `atMs`:
 * epoch ms.
 */
export type DifferingRow = {
  kind: 'changed' | 'missing' | 'added';
  resource: string;
  entry: string;
  agent: string;
  atMs: number;
};

const DIFFERING_MAX = 1_000;
/** An approval waits at most 30 days, and its row expires by its event's arrival. */
const DECIDED_LATER_MS = 31 * 24 * 60 * 60 * 1000;

/** `expiredBeforeMs`: rows of events that arrived before this need not be there. */
export function decisionsAgainstLog(
  clickhouse: ClickHouse,
  account: string,
  { expiredBeforeMs }: { expiredBeforeMs: number },
): Promise<DifferingRow[]> {
  const isOther = `concat('approval.', r.status) != l.action OR r.outcome != l.outcome OR r.actor != l.actor OR r.at_ms != l.at_ms
    OR r.agent != l.agent OR r.event != l.event OR r.policy != l.policy OR r.reason != l.reason OR r.blocked_by != l.blocked_by
    OR (l.commented ? l.comment NOT IN ('', r.comment) : r.comment != '')`;
  return differing(clickhouse, {
    entries: `SELECT DISTINCT resource_id AS resource, id AS entry, toString(action) AS action, actor,
        toUnixTimestamp64Milli(created_at) AS at_ms, about_agent AS agent, JSONExtractString(details, 'outcome') AS outcome,
        JSONExtractString(details, 'event_id') AS event, JSONExtractString(details, 'policy_id') AS policy,
        if(JSONHas(details, 'reason'), JSONExtractString(details, 'reason'), 'approval') AS reason,
        JSONExtractString(details, 'blocked_by') AS blocked_by, JSONHas(details, 'comment') AS commented,
        JSONExtractString(details, 'comment') AS comment
      FROM audit_log WHERE account_id = {account:String} AND resource_type = 'approval'`,
    rows: `SELECT id AS resource, toString(status) AS status, toString(outcome) AS outcome, toString(agent_id) AS agent, event_id AS event,
        policy_id AS policy, toString(reason) AS reason, blocked_by,
        ifNull(decided_by, '') AS actor, ifNull(comment, '') AS comment, ifNull(toUnixTimestamp64Milli(decided_at), 0) AS at_ms
      FROM approvals FINAL WHERE account_id = {account:String}`,
    isMissing: 'l.at_ms >= {youngerMs:Int64}',
    isAdded: "r.status != 'pending'",
    isOther,
    params: { account, youngerMs: expiredBeforeMs + DECIDED_LATER_MS },
  });
}

export function revisionsAgainstLog(clickhouse: ClickHouse, account: string): Promise<DifferingRow[]> {
  const isOther = `l.sha256 != '' AND (r.sha256 != l.sha256 OR r.actor != l.actor OR r.at_ms != l.at_ms OR r.agent != l.agent
    OR r.restored_from != l.restored_from OR (startsWith(l.action, 'policy.') AND concat('policy.', r.action) != l.action))`;
  return differing(clickhouse, {
    entries: `SELECT DISTINCT concat(resource_id, '/', toString(JSONExtractUInt(details, 'revision'))) AS resource, id AS entry,
        toString(action) AS action, actor, toUnixTimestamp64Milli(created_at) AS at_ms, about_agent AS agent,
        JSONExtractString(details, 'revision_sha256') AS sha256, JSONExtractUInt(details, 'restored_from') AS restored_from
      FROM audit_log WHERE account_id = {account:String} AND resource_type = 'policy' AND (startsWith(action, 'policy.') OR sha256 != '')`,
    rows: `SELECT concat(policy_id, '/', toString(revision)) AS resource, toString(action) AS action, actor,
        toUnixTimestamp64Milli(created_at) AS at_ms, agent_id AS agent, restored_from,
        lower(hex(SHA256(concat(differences, char(10), record)))) AS sha256
      FROM policy_revisions FINAL WHERE account_id = {account:String}`,
    isMissing: "l.sha256 != ''",
    isAdded: 'true',
    isOther,
    params: { account },
  });
}

/** Columns of both that are needed here: `resource`, `agent`, `at_ms`; of `entries` (`l`) `entry`; `rows` are `r`. */
type Compared = {
  entries: string;
  rows: string;
  isMissing: string;
  isAdded: string;
  isOther: string;
  params: QueryParams;
};

async function differing(
  clickhouse: ClickHouse,
  { entries, rows, isMissing, isAdded, isOther, params }: Compared,
): Promise<DifferingRow[]> {
  const found = await clickhouse.query<DifferingRow & { at: number }>(
    `SELECT multiIf(r.resource = '', 'missing', l.entry = '', 'added', 'changed') AS kind,
       if(l.entry = '', r.resource, l.resource) AS resource, l.entry AS entry, if(l.entry = '', r.agent, l.agent) AS agent,
       if(l.entry = '', r.at_ms, l.at_ms) AS at
     FROM (${entries}) AS l FULL JOIN (${rows}) AS r ON r.resource = l.resource
     WHERE multiIf(r.resource = '', ${isMissing}, l.entry = '', ${isAdded}, ${isOther})
     ORDER BY at, resource, entry LIMIT ${DIFFERING_MAX}`,
    params,
  );
  return found.map(({ kind, resource, entry, agent, at }) => ({ kind, resource, entry, agent, atMs: Number(at) }));
}
