// What a shadow would have changed (GET /v1/policies/{id}/shadow-report): its verdicts on stored events, against what
// the policy that it copies made of the same events. Of both the event itself says it: `shadow` and `policy_result`, so
// the report is exact whatever has become of the policies since.
// Times are of arrival, since that is when a shadow judges. Bounded by its range, and in what it answers. Events
// without a verdict of the shadow are passed over by one column that is mostly empty.

import { type Outcome, SHADOW_CHANGES, type ShadowChange } from '../../schemas/closed-sets.ts';
import { SHADOW_REPORT_ROWS_MAX, type ShadowCounts, type ShadowReport } from '../../schemas/shadow-report.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import type { ClickHouse } from '../client.ts';
import { type Excluded, QueryConditions } from './conditions.ts';

/** `from`, `to`: epoch ms, inclusive; `since`: verdicts of earlier revisions are not counted. */
type ReportQuery = Excluded & {
  policyId: string;
  shadowOf: string | undefined;
  since: number;
  from: number;
  to: number;
  signal?: AbortSignal | undefined;
};

type ReportCounts = Pick<ShadowReport, 'counts' | 'by_day' | 'by_agent' | 'by_tool' | 'samples'>;
type CountsRow = Record<keyof ShadowCounts, number>;
type SampleRow = {
  id: string;
  agent_id: string;
  timestamp_ms: number;
  tool_name: string;
  did: ShadowReport['samples'][number]['did'];
  would: ShadowReport['samples'][number]['would'];
  change: ShadowChange;
  outcome: Outcome;
};

const TOOL_CHARACTERS = 200;

/** The verdict that a match by itself gives an event (policy/rule-index.ts, outcomeThen). */
const MADE = `multiIf(arrayAll(a -> a = 'log', m.3), 'matched', m.2 = 'require_approval' OR m.4.1, 'pending', has(m.3, 'block'), 'blocked', 'matched')`;
const rank = (verdict: string) => `multiIf(${verdict} = 'blocked', 2, ${verdict} = 'pending', 1, 0)`;

/** Rows with a verdict of the shadow: what both made of the event, and what differs. */
function judged(where: string): string {
  const said = `JSONExtract(shadow, 'Array(Tuple(policy_id String, revision UInt64, would String))')`;
  const matches = `JSONExtract(policy_result, 'matches', 'Array(Tuple(policy_id String, type String, actions Array(String), detail Tuple(pending Bool)))')`;
  return `SELECT id, agent_id, timestamp, timestamp_micros, toDate(received_at) AS day, toString(outcome) AS then_outcome, payload,
    arrayFilter(s -> s.1 = {policy:String} AND s.2 >= {since:UInt64}, ${said}) AS own,
    arrayMap(m -> (m.1, ${MADE}), ${matches}) AS made,
    own[1].3 AS would,
    if(has(made.1, {original:String}), made[indexOf(made.1, {original:String})].2, 'not_matched') AS did,
    multiIf(would = 'skipped', 'skipped', would = did, 'same', would = 'blocked', 'newly_blocked', did = 'blocked', 'no_longer_blocked',
      would = 'pending', 'newly_pending', did = 'pending', 'no_longer_pending', would = 'matched', 'newly_matched', 'no_longer_matched') AS change,
    arrayMax(arrayConcat([0], arrayMap(m -> if(m.1 = {original:String}, 0, ${rank('m.2')}), made))) AS others,
    greatest(others, ${rank('did')}) = greatest(others, ${rank('would')}) AS is_same_outcome
  FROM events WHERE ${where} AND position(shadow, {policy:String}) > 0 AND notEmpty(own)`;
}

const IS_CHANGE = `change NOT IN ('same', 'skipped')`;
const COUNTS = [
  ...[...SHADOW_CHANGES, 'same', 'skipped'].map((change) => `countIf(change = '${change}') AS ${change}`),
  `countIf(${IS_CHANGE} AND is_same_outcome) AS same_outcome`,
].join(', ');
/** A number would be extracted as its digits. */
const TOOL = `if(JSONType(payload, 'tool') = 'String', substringUTF8(JSONExtractString(payload, 'tool'), 1, ${TOOL_CHARACTERS}), '')`;

export async function shadowReport(clickhouse: ClickHouse, account: string, asked: ReportQuery): Promise<ReportCounts> {
  const { policyId, shadowOf, since, from, to, excludeAgents, signal } = asked;
  const { sql, params } = new QueryConditions(account)
    .between('received_at', from, to)
    .exclude('agent_id', excludeAgents);
  const given = { ...params, policy: policyId, original: shadowOf ?? '', since };
  const options = { settings: { optimize_use_projections: 0 as const }, ...(signal === undefined ? {} : { signal }) };
  const grouped = <Row>(by: string, name: string, order: string) =>
    clickhouse.query<CountsRow & Row>(
      `SELECT ${by} AS ${name}, ${COUNTS} FROM (${judged(sql)}) GROUP BY ${name} ORDER BY ${order} LIMIT ${SHADOW_REPORT_ROWS_MAX}`,
      given,
      options,
    );
  const mostFirst = (name: string) => `countIf(${IS_CHANGE}) DESC, count() DESC, ${name}`;
  const [days, agents, tools, samples] = await Promise.all([
    grouped<{ date: string }>('toString(day)', 'date', 'date'),
    grouped<{ agent: string }>('agent_id', 'agent', mostFirst('agent')),
    grouped<{ tool_name: string }>(TOOL, 'tool_name', mostFirst('tool_name')),
    clickhouse.query<SampleRow>(
      `SELECT id, agent_id, toUnixTimestamp64Milli(timestamp) + timestamp_micros / 1000 AS timestamp_ms, ${TOOL} AS tool_name,
         did, would, change, then_outcome AS outcome
       FROM (${judged(sql)}) WHERE ${IS_CHANGE} ORDER BY id DESC LIMIT ${SHADOW_REPORT_ROWS_MAX}`,
      given,
      options,
    ),
  ]);
  return {
    counts: sumOf(days),
    by_day: days.map(({ date, ...counts }) => ({ day: date, ...countsOf(counts) })),
    by_agent: agents.map(({ agent, ...counts }) => ({ agent_id: agent, ...countsOf(counts) })),
    by_tool: tools.map(({ tool_name: tool, ...counts }) => ({ tool: tool === '' ? null : tool, ...countsOf(counts) })),
    samples: samples.map(({ id, agent_id, timestamp_ms, tool_name: tool, did, would, change, outcome }) => ({
      ...{ event_id: id, agent_id, timestamp: exactIsoTime(timestamp_ms), tool: tool === '' ? null : tool },
      ...{ did, would, change, outcome },
    })),
  };
}

/**
 * Since when a shadow says what it says: the revision that gave it its conditions and actions, and epoch ms from which
 * on it was judged by them. undefined: that is not stored, or not yet.
 */
export async function saysSince(
  clickhouse: ClickHouse,
  account: string,
  policyId: string,
): Promise<{ revision: number; judgedMs: number } | undefined> {
  const { sql, params } = new QueryConditions(account).equal('policy_id', policyId);
  const touches = (fields: string) =>
    `(action = 'created' OR arrayExists(d -> match(JSONExtractString(d, 'path'), '^/(${fields})(/|$)'), JSONExtractArrayRaw(differences)))`;
  const [row] = await clickhouse.query<{ number: number; judged_ms: number }>(
    `SELECT toUInt32(maxIf(revision, ${touches('conditions|actions')})) AS number,
       toUnixTimestamp64Milli(maxIf(created_at, ${touches('conditions|actions|status')})) AS judged_ms
     FROM policy_revisions FINAL WHERE ${sql}`,
    params,
  );
  const revision = Number(row?.number ?? 0);
  return revision === 0 ? undefined : { revision, judgedMs: Number(row!.judged_ms) };
}

const NAMES: readonly (keyof ShadowCounts)[] = [...SHADOW_CHANGES, 'same', 'skipped', 'same_outcome'];

function countsOf(row: CountsRow): ShadowCounts {
  return Object.fromEntries(NAMES.map((name) => [name, Number(row[name])])) as ShadowCounts;
}

function sumOf(rows: readonly CountsRow[]): ShadowCounts {
  const sum = (name: keyof ShadowCounts) => rows.reduce((total, row) => total + Number(row[name]), 0);
  return Object.fromEntries(NAMES.map((name) => [name, sum(name)])) as ShadowCounts;
}
