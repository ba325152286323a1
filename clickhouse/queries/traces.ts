// Traces: events that share a trace_id, over all agents of an account. GET /v1/traces lists them, GET
// /v1/traces/{id} shows one. The list is newest first by when a trace began, equal times by which arrived first;
// totals are exact. A beginning moves only by an event that comes late and happened before it: behind a cursor
// traces are listed as they were when the list began, so none is shown twice. A trace's events come in time order,
// page by page.

import type { PayloadMode } from '../../schemas/closed-sets.ts';
import type { Trace } from '../../schemas/event.ts';
import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import type { ClickHouse } from '../client.ts';
import {
  type AnyOf,
  EVENT_ORDER,
  type Excluded,
  instant,
  orderByEvents,
  QueryConditions,
  valuesOf,
} from './conditions.ts';
import { BY_TIME } from './event-filter.ts';
import { completeRows, type EventHead, type EventKey, type EventRow, HEAD_COLUMNS } from './event-rows.ts';
import { type Settling, settleCounts, withFinalOutcomes } from './final-outcome.ts';

/** Events of a page of one trace; `event_count` says how many there are. */
export const TRACE_EVENTS_MAX = 1_000;

/** `onlyAgent`: as if there were no events of other agents. */
type OfAgent = { onlyAgent?: string | undefined };
export type TracePage = PageStart &
  Excluded &
  OfAgent &
  Settling & {
    /** Traces in which this agent, or one of these, took part. */
    agentId?: AnyOf<string> | undefined;
    /** Epoch ms to the microsecond, inclusive; of the trace's beginning. */
    from?: number | undefined;
    to?: number | undefined;
  };

type TraceRow = {
  trace_id: string;
  started_ms: number;
  ended_ms: number;
  event_count: number;
  types: [string, number][];
  outcome_counts: [string, number][];
  agents: string[];
  /** null: no event says any. */
  tokens: number | null;
};

/** Epoch us. */
const MICROS = 'toUnixTimestamp64Milli(timestamp) * 1000 + timestamp_micros';
/**
 * An event's place in the order of time and arrival as one number, whose least is a trace's beginning: the time, and 24
 * of the id's characters. Tuples took three times as long to compare.
 */
const FIRST = `bitOr(bitShiftLeft(toUInt256(${MICROS}), 192), reinterpretAsUInt256(reverse(substring(id, 5, 24))))`;
const BEGAN = 'toInt64(bitShiftRight(first, 192))';
const TRACE_COLUMNS = `trace_id, min(${MICROS}) / 1000 AS started_ms, max(${MICROS}) / 1000 AS ended_ms,
  count() AS event_count, sumMap([toString(type)], [toUInt64(1)]) AS type_map, sumMap([toString(outcome)], [toUInt64(1)]) AS outcome_map,
  arrayZip(type_map.1, type_map.2) AS types, arrayZip(outcome_map.1, outcome_map.2) AS outcome_counts,
  arraySort(groupUniqArray(1000)(agent_id)) AS agents, sum(tokens_used) AS tokens`;

export async function listTraces(clickhouse: ClickHouse, account: string, page: TracePage): Promise<Listed<Trace>> {
  const { limit, offset, after, begunAt } = page;
  const where = new QueryConditions(account)
    .and("trace_id != ''")
    .equal('agent_id', page.onlyAgent)
    .exclude('agent_id', page.excludeAgents);
  if (after !== undefined) {
    if (begunAt !== undefined) where.and(`received_at <= ${instant('begun')}`, { begun: begunAt });
    // A trace that began by then has an event of then. Whether an agent took part may have shown later.
    if (page.agentId === undefined) where.and(`timestamp <= ${instant('after_at')}`);
  }
  const having = new QueryConditions(account);
  if (page.from !== undefined) having.and(`${BEGAN} >= {from:Int64}`, { from: microsAt(page.from) });
  if (page.to !== undefined) having.and(`${BEGAN} <= {to:Int64}`, { to: microsAt(page.to) });
  if (page.agentId !== undefined)
    having.and('countIf(agent_id IN {with:Array(String)}) > 0', { with: valuesOf(page.agentId) });
  if (after !== undefined)
    having.and('first < toUInt256OrZero({after_first:String})', {
      after_first: after.id,
      after_at: Math.floor(after.at),
    });
  // The account in `having` is what Conditions insists on; grouping by it costs nothing.
  const grouped = `SELECT trace_id, min(${FIRST}) AS first FROM events WHERE ${where.sql} GROUP BY account_id, trace_id HAVING ${having.sql}`;
  const params = { ...where.params, ...having.params };
  const settings = { preferred_optimize_projection_name: BY_TIME };
  const [ids, counted] = await Promise.all([
    clickhouse.query<{ trace_id: string; began_ms: number; place: string }>(
      `SELECT trace_id, ${BEGAN} / 1000 AS began_ms, toString(first) AS place FROM (${grouped})
       ORDER BY first DESC LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
      { ...params, limit: limit + 1, offset },
      { settings },
    ),
    after === undefined
      ? clickhouse.query<{ total: number }>(`SELECT count() AS total FROM (${grouped})`, params, { settings })
      : undefined,
  ]);
  const { rows, positions, next } = cut(ids, limit, (row) => ({ at: row.began_ms, id: row.place }));
  const items = await describeTraces(clickhouse, account, {
    wanted: rows.map((row) => row.trace_id),
    onlyAgent: page.onlyAgent,
    excludeAgents: page.excludeAgents,
    settle: page.settle,
  });
  const positionOf = new Map(rows.map((row, i) => [row.trace_id, positions[i]!]));
  return {
    items,
    positions: items.map((trace) => positionOf.get(trace.trace_id)!),
    next,
    total: counted === undefined ? null : (counted[0]?.total ?? 0),
  };
}

function microsAt(at: number): number {
  return Math.round(at * 1000);
}

type TraceHead = EventHead & { tokens: number | null };
/** `limit`: TRACE_EVENTS_MAX. */
type TraceEvents = Excluded &
  OfAgent &
  Settling & { limit?: number; after?: Position | undefined; payload?: PayloadMode | undefined };
type TraceWithRows = { trace: Trace; events: EventRow[]; next: Position | null; isShort: boolean };

/** Null when the account has no event with this trace id. */
export async function getTrace(
  clickhouse: ClickHouse,
  account: string,
  traceId: string,
  { onlyAgent, excludeAgents, settle, limit = TRACE_EVENTS_MAX, after, payload }: TraceEvents = {},
): Promise<TraceWithRows | null> {
  const where = new QueryConditions(account)
    .equal('trace_id', traceId)
    .equal('agent_id', onlyAgent)
    .exclude('agent_id', excludeAgents)
    .after(after, { ...EVENT_ORDER, order: 'asc' });
  const read = await clickhouse.query<TraceHead>(
    `SELECT ${HEAD_COLUMNS}, tokens_used AS tokens FROM events WHERE ${where.sql}
     ${orderByEvents('asc')} LIMIT {limit:UInt64}`,
    { ...where.params, limit: limit + 1 },
    { settings: { optimize_use_projections: 0 } },
  );
  const {
    rows: heads,
    positions,
    next,
  } = cut(read, limit, ({ timestamp_ms, id }: EventKey) => ({
    at: timestamp_ms,
    id,
  }));
  // A trace that is shown whole has been read whole: no need to ask for its sums.
  const summed = async () => {
    const trace = sumOf(traceId, heads);
    await settleCounts(clickhouse, account, { traces: [trace], onlyAgent, excludeAgents, settle });
    return [trace];
  };
  const [traces, { rows, heads: shown }] = await Promise.all([
    heads.length > 0 && next === null && after === undefined
      ? summed()
      : describeTraces(clickhouse, account, { wanted: [traceId], onlyAgent, excludeAgents, settle }),
    completeRows(clickhouse, account, heads, { payload }),
  ]);
  if (traces[0] === undefined) return null;
  const isShort = shown < heads.length;
  return {
    trace: traces[0],
    events: await withFinalOutcomes(clickhouse, account, { rows, settle }),
    next: isShort ? positions[shown - 1]! : next,
    isShort,
  };
}

function sumOf(traceId: string, heads: readonly TraceHead[]): Trace {
  const times = heads.map((head) => head.timestamp_ms);
  const counted = (values: string[]) =>
    [...new Set(values)].sort().map((value): [string, number] => [value, values.filter((v) => v === value).length]);
  return traceOf({
    trace_id: traceId,
    started_ms: Math.min(...times),
    ended_ms: Math.max(...times),
    event_count: heads.length,
    types: counted(heads.map((head) => head.type)),
    outcome_counts: counted(heads.map((head) => head.outcome)),
    agents: [...new Set(heads.map((head) => head.agent_id))].sort(),
    tokens: heads.reduce((sum: number | null, { tokens }) => (tokens === null ? sum : (sum ?? 0) + tokens), null),
  });
}

/** In the order of `wanted`. */
async function describeTraces(
  clickhouse: ClickHouse,
  account: string,
  { wanted, onlyAgent, excludeAgents, settle }: { wanted: string[] } & Excluded & OfAgent & Settling,
): Promise<Trace[]> {
  if (wanted.length === 0) return [];
  const where = new QueryConditions(account)
    .and('trace_id IN {traces:Array(String)}', { traces: wanted })
    .equal('agent_id', onlyAgent)
    .exclude('agent_id', excludeAgents);
  const rows = await clickhouse.query<TraceRow>(
    `SELECT ${TRACE_COLUMNS} FROM events WHERE ${where.sql} GROUP BY trace_id`,
    where.params,
    {
      settings: { optimize_use_projections: 0 },
    },
  );
  const byId = new Map(rows.map((row) => [row.trace_id, traceOf(row)]));
  const traces = wanted.flatMap((id) => byId.get(id) ?? []);
  await settleCounts(clickhouse, account, { traces, onlyAgent, excludeAgents, settle });
  return traces;
}

function traceOf(row: TraceRow): Trace {
  return {
    trace_id: row.trace_id,
    started_at: exactIsoTime(row.started_ms),
    ended_at: exactIsoTime(row.ended_ms),
    duration_ms: Math.round(row.ended_ms - row.started_ms),
    event_count: row.event_count,
    counts: Object.fromEntries(row.types),
    outcomes: Object.fromEntries(row.outcome_counts),
    agents: row.agents,
    tokens_used: row.tokens,
  };
}
