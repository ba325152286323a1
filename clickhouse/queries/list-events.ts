// Lists events of an agent, or of the whole account (GET /v1/agents/{id}/events, GET /v1/events). Newest first by
// `timestamp` to the microsecond, equal times by arrival; `total` counts all that match, exactly. Outcomes are final
// ones (final-outcome.ts). An agent's list reads the primary key; the account's timeline a projection; a search or a
// trace the events themselves, with their indexes. Totals of agents, types and outcomes are read off the projection
// counts.

import type { ClickHouseSettings } from '@clickhouse/client';
import type { PayloadMode } from '../../schemas/closed-sets.ts';

import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import type { ClickHouse, QueryOptions, QueryParams } from '../client.ts';
import { EVENT_ORDER, orderByEvents, valuesOf } from './conditions.ts';
import { conditionsOf, type EventFilter, isByMatch, settingsOf } from './event-filter.ts';
import {
  boundedTo,
  bytesOf,
  completeRows,
  type EventHead,
  type EventKey,
  type EventRow,
  fitting,
  HEAD_COLUMNS,
  isTooMuch,
  READ_BYTES_MAX,
  rowColumns,
} from './event-rows.ts';
import { outcomeFilter, reasonFilter, type Settling, withFinalOutcomes } from './final-outcome.ts';

export type EventPage = EventFilter &
  Settling &
  PageStart & {
    order?: 'asc' | 'desc' | undefined;
    payload?: PayloadMode | undefined;
    signal?: AbortSignal | undefined;
  };

/**
 * Up to so many rows, and up to here, an agent's page is read in one step: the engine sorts by the key and reads the
 * rest for the page's rows alone. It does so for ten thousand rows at most, skipped ones included; behind that it would
 * read payloads in order to skip them.
 */
const ONE_STEP_ROWS_MAX = 100;
const ONE_STEP_OFFSET_MAX = 5_000;

export async function listEvents(clickhouse: ClickHouse, account: string, page: EventPage): Promise<Listed<EventRow>> {
  const { settle, after, order } = page;
  const where = await conditionsOf(clickhouse, account, page);
  const outcomes = page.outcome && valuesOf(page.outcome);
  const filter = outcomes && (await outcomeFilter(clickhouse, account, { outcomes, settle }));
  if (page.reason !== undefined)
    where.and(await reasonFilter(clickhouse, account, { reasons: valuesOf(page.reason), settle }));
  const parts = (filter?.parts ?? ['true']).map(
    (part) => `SELECT count() AS n FROM events WHERE ${where.sql} AND ${part}`,
  );
  const counted = after === undefined ? countOf(clickhouse, page, { parts, params: { ...where.params } }) : null;
  where.after(after, { ...EVENT_ORDER, order });
  const matching = { sql: `${where.sql} AND ${filter?.whole ?? 'true'}`, params: where.params };
  const read = async () =>
    (isOneStep(page) ? await wholeRows(clickhouse, page, matching) : null) ??
    rowsOfHeads(clickhouse, account, { page, matching });
  const [{ rows, ...shown }, total] = await Promise.all([read(), counted]);
  return {
    ...shown,
    items: await withFinalOutcomes(clickhouse, account, {
      rows,
      known: outcomes?.length === 1 ? outcomes[0] : undefined,
      settle,
    }),
    total,
  };
}

/**
 * Of an agent's list: the microseconds are not in the key, so what is read in its order is sorted within a millisecond.
 * By buffers the engine would read all rows of the agent for that: 105,000 for a page of 50, and without them 7,100.
 */
const IN_ORDER = { read_in_order_use_buffering: 0 } as ClickHouseSettings;
const positionOf = ({ timestamp_ms, id }: EventKey): Position => ({ at: timestamp_ms, id });
type Shown = { rows: EventRow[] } & Pick<Listed<EventRow>, 'positions' | 'next' | 'isShort'>;

async function countOf(
  clickhouse: ClickHouse,
  page: EventPage,
  { parts, params }: { parts: readonly string[]; params: QueryParams },
): Promise<number> {
  const sql = `SELECT sum(n) AS total FROM (${parts.join(' UNION ALL ')})`;
  const [counted] = await clickhouse.query<{ total: number }>(sql, params, optionsOf(page, countSettings(page)));
  return counted?.total ?? 0;
}

type Matching = { sql: string; params: QueryParams };

function isOfOne({ agentId }: EventPage): boolean {
  return agentId !== undefined && valuesOf(agentId).length === 1;
}

function isOneStep(page: EventPage): boolean {
  const { q, limit, offset } = page;
  return isOfOne(page) && q === undefined && limit <= ONE_STEP_ROWS_MAX && offset <= ONE_STEP_OFFSET_MAX;
}

/** null: they are too much to be read without looking at their sizes first. */
async function wholeRows(clickhouse: ClickHouse, page: EventPage, matching: Matching): Promise<Shown | null> {
  const columns = rowColumns(page.payload);
  try {
    const read = await queryPage<Omit<EventRow, 'payload'> & { payload?: string }>(clickhouse, page, {
      ...{ columns, matching, bytesMax: READ_BYTES_MAX },
    });
    const { rows, next } = cut(read, page.limit, positionOf);
    const whole = rows.map((row) => ({ payload: '', ...row }));
    return shownOf(whole, { heads: rows, count: fitting(whole.map(bytesOf)), next });
  } catch (error) {
    if (isTooMuch(error)) return null;
    throw error;
  }
}

async function rowsOfHeads(
  clickhouse: ClickHouse,
  account: string,
  { page, matching }: { page: EventPage; matching: Matching },
): Promise<Shown> {
  const read = await queryPage<EventHead>(clickhouse, page, { columns: HEAD_COLUMNS, matching });
  const { rows: heads, next } = cut(read, page.limit, positionOf);
  const { rows, heads: count } = await completeRows(clickhouse, account, heads, page);
  return shownOf(rows, { heads, count, next });
}

/** `count`: of the heads, that the page has room for. */
function shownOf(
  rows: EventRow[],
  { heads, count, next }: { heads: readonly EventKey[]; count: number; next: Position | null },
): Shown {
  const shown = count < heads.length && rows.length > count ? rows.slice(0, count) : rows;
  const positions = shown.map(positionOf);
  return count < heads.length
    ? { rows: shown, positions, next: positionOf(heads[count - 1]!), isShort: true }
    : { rows: shown, positions, next };
}

function queryPage<Row>(
  clickhouse: ClickHouse,
  page: EventPage,
  { columns, matching, bytesMax }: { columns: string; matching: Matching; bytesMax?: number },
): Promise<Row[]> {
  return clickhouse.query<Row>(
    `SELECT ${columns} FROM events WHERE ${matching.sql}
     ${orderByEvents(page.order ?? 'desc')} LIMIT {limit:UInt64} OFFSET {offset:UInt64}`,
    { ...matching.params, limit: page.limit + 1, offset: page.offset },
    optionsOf(page, { ...settingsOf(page), ...(isOfOne(page) ? IN_ORDER : {}), ...boundedTo(bytesMax) }),
  );
}

function optionsOf(page: EventPage, settings = settingsOf(page)): QueryOptions {
  return { settings, ...(page.signal === undefined ? {} : { signal: page.signal }) };
}

/**
 * The projection `counts` knows agents, types and outcomes; whatever else is asked for is counted where the page is
 * read.
 */
function countSettings(page: EventPage): ClickHouseSettings {
  const { q, traceId, model, from, to } = page;
  const isKept = [q, traceId, model, from, to].every((filter) => filter === undefined) && !isByMatch(page);
  return isKept ? { preferred_optimize_projection_name: 'counts' } : settingsOf(page);
}
