// Traces: events that share a trace_id, over all agents of an account. GET /v1/traces lists them, GET
// /v1/traces/{id} shows one. The list is newest first by when a trace began, equal times by which arrived first, or by
// another of its values (trace-order.ts); totals are exact. A beginning moves only by an event that comes late and
// happened before it: behind a cursor traces are listed as they were when the list began, so none is shown twice. A
// trace's events come in time order, page by page.

import type { PayloadMode } from '../../schemas/closed-sets.ts';
import type { Trace } from '../../schemas/event.ts';
import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import type { ClickHouse } from '../client.ts';
import { boundedSum } from './bounded-sum.ts';
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
import {
  completeRows,
  costText,
  type EventHead,
  type EventKey,
  type EventRow,
  HEAD_COLUMNS,
  payloadEndsOf,
  summaryOf,
} from './event-rows.ts';
import { outcomeFilter, type Settling, settleCounts, withFinalOutcomes } from './final-outcome.ts';
import { arrivedBy, BEGAN, FIRST, MICROS, type TraceOrder, traceOrder } from './trace-order.ts';
import { tracesWith } from './trace-search.ts';

/** Events of a page of one trace; `event_count` says how many there are. */
export const TRACE_EVENTS_MAX = 1_000;

/** `onlyAgent`: as if there were no events of other agents. */
type OfAgent = { onlyAgent?: string | undefined };
type TracePage = PageStart &
  Excluded &
  OfAgent &
  TraceOrder &
  Settling & {
    /** Words that occur in an event of the trace. */
    q?: string | undefined;
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
  /** In millionths. null: of no event it is known. */
  cost_sum: number | null;
  /** Events that say tokens and have no price; one of the tables that were asked. */
  unpriced: number;
  by: string;
  /** Key of the event that says what was asked. */
  asked_agent: string;
  asked_ms: number;
  asked_id: string;
};

type AskedColumn = 'asked_agent' | 'asked_ms' | 'asked_id';

/** The first prompt; where there is none the first event. */
const ASKED = `argMin((agent_id, toUnixTimestamp64Milli(timestamp), id), (type != 'prompt', ${FIRST}))`;
const TRACE_COLUMNS = `trace_id, min(${MICROS}) / 1000 AS started_ms, max(${MICROS}) / 1000 AS ended_ms,
  count() AS event_count, sumMap([toString(type)], [toUInt64(1)]) AS type_map, sumMap([toString(outcome)], [toUInt64(1)]) AS outcome_map,
  arrayZip(type_map.1, type_map.2) AS types, arrayZip(outcome_map.1, outcome_map.2) AS outcome_counts,
  arraySort(groupUniqArray(1000)(agent_id)) AS agents, ${boundedSum('tokens_used')} AS tokens,
  ${boundedSum('cost')} AS cost_sum, countIf(priced_by != '' AND cost IS NULL) AS unpriced, max(priced_by) AS by,
  ${ASKED} AS asked_key, asked_key.1 AS asked_agent, asked_key.2 AS asked_ms, asked_key.3 AS asked_id`;

export async function listTraces(clickhouse: ClickHouse, account: string, page: TracePage): Promise<Listed<Trace>> {
  const { limit, offset, after, sort, q, settle } = page;
  const where = await eventsOf(clickhouse, account, page);
  const having = groupsOf(account, page);
  const blocked =
    sort === 'blocked' ? await outcomeFilter(clickhouse, account, { outcomes: ['blocked'], settle }) : null;
  const { value, by, ...ordered } = traceOrder(page, blocked?.whole ?? 'false');
  const counts = having.sql;
  if (after !== undefined) ordered.after(having, after);
  // The account in `having` is what Conditions insists on; grouping by it costs nothing.
  const grouped = (columns: string, those: string) =>
    `SELECT ${columns} FROM events WHERE ${where.sql} GROUP BY account_id, trace_id HAVING ${those}`;
  const params = { ...where.params, ...having.params };
  // Few traces that were searched for are found by the filter of trace ids.
  const settings =
    q === undefined ? { preferred_optimize_projection_name: BY_TIME } : { optimize_use_projections: 0 as const };
  const [ids, counted] = await Promise.all([
    clickhouse.query<{ trace_id: string; value: number; place: string }>(
      `SELECT trace_id, value, toString(first) AS place
       FROM (${grouped(`trace_id, min(${FIRST}) AS first, ${value} AS value`, having.sql)})
       ORDER BY ${by} LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
      { ...params, limit: limit + 1, offset },
      { settings },
    ),
    after === undefined
      ? clickhouse.query<{ total: number }>(
          `SELECT count() AS total FROM (${grouped(`trace_id, min(${FIRST}) AS first`, counts)})`,
          params,
          { settings },
        )
      : undefined,
  ]);
  const { rows, positions, next } = cut(ids, limit, (row) => ({ at: row.value, id: row.place }));
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

/** The events that a list of traces is made of. */
async function eventsOf(clickhouse: ClickHouse, account: string, page: TracePage): Promise<QueryConditions> {
  const { after, begunAt, sort = 'started_at', order = 'desc', q } = page;
  const isByTime = sort === 'started_at';
  const where = new QueryConditions(account)
    .and("trace_id != ''")
    .equal('agent_id', page.onlyAgent)
    .exclude('agent_id', page.excludeAgents);
  if (begunAt !== undefined && (after !== undefined || !isByTime || q !== undefined)) arrivedBy(where, begunAt);
  // A trace that began by then has an event of then. Whether an agent took part may have shown later.
  if (after !== undefined && isByTime && order === 'desc' && page.agentId === undefined)
    where.and(`timestamp <= ${instant('after_at')}`, { after_at: Math.floor(after.at) });
  if (q !== undefined)
    where.and('trace_id IN {found:Array(String)}', { found: await tracesWith(clickhouse, account, { ...page, q }) });
  return where;
}

/** The conditions on a trace as a whole. */
function groupsOf(account: string, { from, to, agentId }: TracePage): QueryConditions {
  const having = new QueryConditions(account);
  if (from !== undefined) having.and(`${BEGAN} >= {from:Int64}`, { from: microsAt(from) });
  if (to !== undefined) having.and(`${BEGAN} <= {to:Int64}`, { to: microsAt(to) });
  if (agentId !== undefined) having.and('countIf(agent_id IN {with:Array(String)}) > 0', { with: valuesOf(agentId) });
  return having;
}

function microsAt(at: number): number {
  return Math.round(at * 1000);
}

type TraceHead = EventHead & { tokens: number | null; cost: number | null; priced_by: string };
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
    `SELECT ${HEAD_COLUMNS}, tokens_used AS tokens, cost, priced_by FROM events WHERE ${where.sql}
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
    const first = heads.find(({ type }) => type === 'prompt') ?? heads[0]!;
    return withAsked(clickhouse, account, [{ trace, asked: first }]);
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

function sumOf(traceId: string, heads: readonly TraceHead[]): Omit<Trace, 'asked'> {
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
    tokens: added(heads.map(({ tokens }) => tokens)),
    cost_sum: added(heads.map(({ cost }) => cost)),
    unpriced: heads.filter(({ cost, priced_by: by }) => by !== '' && cost === null).length,
    by: heads.find(({ priced_by: by }) => by !== '')?.priced_by ?? '',
  });
}

/** null: none is known. */
function added(values: readonly (number | null)[]): number | null {
  return values.reduce((sum, value) => (value === null ? sum : (sum ?? 0) + value), null);
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
  const byId = new Map(
    rows.map(({ asked_agent: agent_id, asked_ms: timestamp_ms, asked_id: id, ...row }) => [
      row.trace_id,
      { trace: traceOf(row), asked: { agent_id, timestamp_ms, id } },
    ]),
  );
  const described = wanted.flatMap((id) => byId.get(id) ?? []);
  const traces = described.map(({ trace }) => trace);
  await settleCounts(clickhouse, account, { traces, onlyAgent, excludeAgents, settle });
  return withAsked(clickhouse, account, described);
}

/** `asked`: the event that says it. */
type TraceSummary = { trace: Omit<Trace, 'asked'>; asked: EventKey };

async function withAsked(
  clickhouse: ClickHouse,
  account: string,
  described: readonly TraceSummary[],
): Promise<Trace[]> {
  const ends = await payloadEndsOf(
    clickhouse,
    account,
    described.map(({ asked }) => asked),
  );
  return described.map(({ trace, asked }) => {
    const found = ends.get(asked.id);
    return { ...trace, asked: found === undefined ? '' : summaryOf({ ...found, type: 'prompt' }) };
  });
}

function traceOf(row: Omit<TraceRow, AskedColumn>): Omit<Trace, 'asked'> {
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
    cost: costText(row.cost_sum, row.by),
    unpriced_events: row.unpriced,
  };
}
