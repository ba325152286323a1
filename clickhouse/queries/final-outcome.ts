// The final outcome of events that waited for an approval: what the table `approvals` says of pending rows.
// Event rows are never rewritten; every query that shows, filters or counts outcomes comes through here.
// A decided approval is decided for good, so its row needs no FINAL. Accounts without decisions pay nothing for the
// filter but one look whether there are any; pages without pending events are not inspected at all.
// `settle` is called before decisions are read, and only then: the caller waits there for those that were acknowledged.

import type { Outcome, Reason } from '../../schemas/closed-sets.ts';
import type { Trace } from '../../schemas/event.ts';
import type { ClickHouse, QueryOptions } from '../client.ts';
import { type Excluded, QueryConditions } from './conditions.ts';
import type { EventRow } from './event-rows.ts';

export type Settling = { settle?: (() => Promise<void>) | undefined };
export type Final = Exclude<Outcome, 'pending'>;

/** Ids of a page fit into one question. */
const IDS_AT_ONCE = 1_000;

/** Events whose approval was decided, so or in any way: a set for `IN`. Needs the parameter `account`. */
export function decidedAs(outcome: Final | 'either'): string {
  const test = outcome === 'either' ? "outcome != 'pending'" : `outcome = '${outcome}'`;
  return `(SELECT event_id FROM approvals WHERE account_id = {account:String} AND ${test})`;
}

/**
 * A filter by outcome. `parts` are disjoint and together all of it: to be counted one by one, each by what it reads
 * least.
 */
type OutcomeFilter = { whole: string; parts: readonly string[] };

/**
 * `outcome = …` as it is now. Counted as one condition the ids of all rows would be read to look whether they were
 * decided (370 ms instead of 40 of a million); in parts that is done where rows are pending.
 */
export async function outcomeFilter(
  clickhouse: ClickHouse,
  account: string,
  { outcomes, settle }: { outcomes: readonly Outcome[] } & Settling,
): Promise<OutcomeFilter> {
  const decided = await waysDecided(clickhouse, account, settle);
  const parts = outcomes.flatMap((outcome) => partsOf(outcome, decided));
  return { whole: `(${parts.map((part) => `(${part})`).join(' OR ')})`, parts };
}

function partsOf(outcome: Outcome, decided: readonly Final[]): string[] {
  const stored = `outcome = '${outcome}'`;
  if (outcome === 'pending') return [decided.length === 0 ? stored : `${stored} AND id NOT IN ${decidedAs('either')}`];
  return decided.includes(outcome) ? [stored, `outcome = 'pending' AND id IN ${decidedAs(outcome)}`] : [stored];
}

/** `policy_result.reason` as it is now: a pending event has its policy's, and `approval` once it was decided. */
export async function reasonFilter(
  clickhouse: ClickHouse,
  account: string,
  { reasons, settle }: { reasons: readonly Reason[] } & Settling,
): Promise<string> {
  const decided = await waysDecided(clickhouse, account, settle);
  const stored = reasons.filter((reason) => reason !== 'approval').map((reason) => `reason = '${reason}'`);
  const parts = stored.length === 0 ? [] : [`(${stored.join(' OR ')})`];
  if (decided.length === 0) return parts[0] ?? 'false';
  if (parts.length > 0) parts[0] += ` AND (outcome != 'pending' OR id NOT IN ${decidedAs('either')})`;
  if (reasons.includes('approval')) parts.push(`outcome = 'pending' AND id IN ${decidedAs('either')}`);
  return `(${parts.map((part) => `(${part})`).join(' OR ')})`;
}

/** The ways in which approvals of the account were decided. */
export async function waysDecided(
  clickhouse: ClickHouse,
  account: string,
  settle: Settling['settle'],
): Promise<readonly Final[]> {
  await settle?.();
  const decided = await clickhouse.query<{ outcome: Final }>(
    "SELECT outcome FROM approvals WHERE account_id = {account:String} AND outcome != 'pending' LIMIT 1 BY outcome",
    { account },
  );
  return decided.map((row) => row.outcome);
}

/** How many events of each agent waited, and were denied. `where`: of which events. */
export async function deniedByAgent(
  clickhouse: ClickHouse,
  account: string,
  { where, options, settle }: { where: QueryConditions; options: QueryOptions } & Settling,
): Promise<{ agent_id: string; n: number }[]> {
  if (!(await waysDecided(clickhouse, account, settle)).includes('blocked')) return [];
  return clickhouse.query(
    `SELECT agent_id, count() AS n FROM events
     WHERE ${where.sql} AND outcome = 'pending' AND id IN ${decidedAs('blocked')} GROUP BY agent_id`,
    where.params,
    options,
  );
}

/** Counts of outcomes by trace, as they are now. Each has what the event rows say, and gets what was decided since. */
export async function settleCounts(
  clickhouse: ClickHouse,
  account: string,
  {
    traces,
    onlyAgent,
    excludeAgents,
    settle,
  }: { traces: Pick<Trace, 'trace_id' | 'outcomes'>[]; onlyAgent?: string | undefined } & Excluded & Settling,
): Promise<void> {
  const waiting = traces.filter((trace) => (trace.outcomes['pending'] ?? 0) > 0);
  if (waiting.length === 0) return;
  await settle?.();
  const where = new QueryConditions(account)
    .and('trace_id IN {traces:Array(String)}', { traces: waiting.map((trace) => trace.trace_id) })
    .and("outcome = 'pending'")
    .equal('agent_id', onlyAgent)
    .exclude('agent_id', excludeAgents);
  const counts = await clickhouse.query<{ trace_id: string } & Record<Final, number>>(
    `SELECT trace_id, countIf(id IN ${decidedAs('allowed')}) AS allowed, countIf(id IN ${decidedAs('blocked')}) AS blocked
     FROM events WHERE ${where.sql} GROUP BY trace_id`,
    where.params,
    { settings: { optimize_use_projections: 0 } },
  );
  const byTrace = new Map(counts.map((row) => [row.trace_id, row]));
  for (const { trace_id, outcomes } of waiting) {
    for (const final of ['allowed', 'blocked'] as const) {
      const decided = byTrace.get(trace_id)?.[final] ?? 0;
      if (decided === 0) continue;
      outcomes[final] = (outcomes[final] ?? 0) + decided;
      outcomes['pending'] = outcomes['pending']! - decided;
    }
    if (outcomes['pending']! <= 0) delete outcomes['pending'];
  }
}

/** The rows with their outcome as it is now; `known` is what a filter has found it to be. */
export async function withFinalOutcomes(
  clickhouse: ClickHouse,
  account: string,
  { rows, known, settle }: { rows: EventRow[]; known?: Outcome | undefined } & Settling,
): Promise<EventRow[]> {
  if (known === 'pending') return rows;
  // Whatever was allowed was allowed by its approval; what was blocked may say more.
  if (known === 'allowed')
    return rows.map((row) => (row.outcome === 'pending' ? decidedRow(row, { outcome: known, ...BY_APPROVAL }) : row));
  const pending = rows.filter((row) => row.outcome === 'pending').map((row) => row.id);
  if (pending.length === 0) return rows;
  await settle?.();
  const finals = new Map<string, Decided>();
  for (let i = 0; i < pending.length; i += IDS_AT_ONCE) {
    const decided = await clickhouse.query<{ event_id: string } & Decided>(
      `SELECT event_id, outcome, reason, blocked_by FROM approvals
       WHERE account_id = {account:String} AND event_id IN {events:Array(String)} AND outcome != 'pending'`,
      { account, events: pending.slice(i, i + IDS_AT_ONCE) },
    );
    for (const { event_id, ...final } of decided) finals.set(event_id, final);
  }
  return rows.map((row) => {
    const final = finals.get(row.id);
    return final === undefined ? row : decidedRow(row, final);
  });
}

/** As the approval's row says it; '' for what it does not say. */
type Decided = { outcome: Final; reason: string; blocked_by: string };
const BY_APPROVAL = { reason: '', blocked_by: '' };

function decidedRow(row: EventRow, { outcome, reason, blocked_by: policy }: Decided): EventRow {
  if (row.policy_result === '') return { ...row, outcome };
  // Key by key as it was answered, but for what the decision changed.
  const said = policy === '' ? {} : { policy_id: policy };
  const result = { ...(JSON.parse(row.policy_result) as object), outcome, reason: reason || 'approval', ...said };
  return { ...row, outcome, policy_result: JSON.stringify(result) };
}
