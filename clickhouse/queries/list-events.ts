// Lists events of an agent, or of the whole account (GET /v1/agents/{id}/events, GET /v1/events). Newest first by
// `timestamp` to the microsecond, equal times by arrival; `total` counts all that match, exactly. Outcomes are final
// ones (final-outcome.ts). An agent's list reads the primary key; the account's timeline a projection; a search or a
// trace the events themselves, with their indexes. Totals of agents, types and outcomes are read off the projection
// counts.

import type { ClickHouseSettings } from '@clickhouse/client';
import type { PayloadMode } from '../../schemas/closed-sets.ts';

import { cut, type Listed, type PageStart, type Position } from '../../schemas/paging.ts';
import type { ClickHouse, QueryOptions, QueryParams } from '../client.ts';
import { EVENT_ORDER, type Order, orderByEvents, valuesOf } from './conditions.ts';
import { type EventFilter, filtersOf, isByMatch, searchOf, settingsOf } from './event-filter.ts';
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
import { type EventsFrom, inSlice, slicesOf, sourcesOf } from './searched-events.ts';

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
  const where = filtersOf(account, page);
  const search = searchOf(page);
  const outcomes = page.outcome && valuesOf(page.outcome);
  const filter = outcomes && (await outcomeFilter(clickhouse, account, { outcomes, settle }));
  if (page.reason !== undefined)
    where.and(await reasonFilter(clickhouse, account, { reasons: valuesOf(page.reason), settle }));
  const sources = await sourcesOf(clickhouse, where, { search, asked: { account, ...page } });
  const counts = (filter?.parts ?? ['true']).map((more) => sources.of(more));
  const counted =
    after === undefined ? countOf(clickhouse, page, { counts, params: where.params }) : Promise.resolve(null);
  where.after(after, { ...EVENT_ORDER, order });
  const matching: Matching = {
    sources: (more, from) => sources.of(`${filter?.whole ?? 'true'} AND ${more}`, { from }),
    params: where.params,
    slices: isSliced(page) ? slicesOf(page, await counted) : [undefined],
  };
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
 * An agent's list is read in the order of its key, which has no microseconds, and sorted within a millisecond. By
 * buffers the engine would read all rows of the agent for that: 105,000 for a page of 50, and without them 7,100.
 */
const IN_ORDER = { read_in_order_use_buffering: 0 } as ClickHouseSettings;
const positionOf = ({ timestamp_ms, id }: EventKey): Position => ({ at: timestamp_ms, id });
type Shown = { rows: EventRow[] } & Pick<Listed<EventRow>, 'positions' | 'next' | 'isShort'>;

async function countOf(
  clickhouse: ClickHouse,
  page: EventPage,
  { counts, params }: { counts: readonly EventsFrom[]; params: QueryParams },
): Promise<number> {
  const parts = counts.flatMap(({ sources }) => sources).map((from) => `SELECT count() AS n FROM ${from}`);
  const [counted] = await clickhouse.query<{ total: number }>(
    `SELECT sum(n) AS total FROM (${parts.join(' UNION ALL ')})`,
    Object.assign({}, params, ...counts.map((count) => count.params)),
    optionsOf(page, countSettings(page)),
  );
  return counted?.total ?? 0;
}

type Matching = {
  /** The texts that follow FROM, with a further condition, for a slice that begins at `from`. */
  sources: (more: string, from?: number) => EventsFrom;
  params: QueryParams;
  slices: readonly (number | undefined)[];
};

function isOfOne({ agentId }: EventPage): boolean {
  return agentId !== undefined && valuesOf(agentId).length === 1;
}

function isOneStep(page: EventPage): boolean {
  const { q, limit, offset } = page;
  return isOfOne(page) && q === undefined && limit <= ONE_STEP_ROWS_MAX && offset <= ONE_STEP_OFFSET_MAX;
}

/** An agent's events lie together. */
function isSliced(page: EventPage): boolean {
  return page.q !== undefined && !isOfOne(page);
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

async function queryPage<Row>(
  clickhouse: ClickHouse,
  page: EventPage,
  { columns, matching, bytesMax }: { columns: string; matching: Matching; bytesMax?: number },
): Promise<Row[]> {
  const { limit, offset, order = 'desc' } = page;
  const options = optionsOf(page, { ...settingsOf(page), ...(isOfOne(page) ? IN_ORDER : {}), ...boundedTo(bytesMax) });
  let rows: Row[] = [];
  for (const slice of matching.slices) {
    const { sql, params } = inSlice(slice);
    const { sources, params: named } = matching.sources(sql, slice);
    rows = await clickhouse.query<Row>(
      pageStatement(columns, sources, order),
      { ...matching.params, ...named, ...params, limit: limit + 1, offset, reach: limit + 1 + offset },
      options,
    );
    if (rows.length > limit) break;
  }
  return rows;
}

/** Takes from each source what the page may need, and makes the page of these. */
function pageStatement(columns: string, sources: readonly string[], order: Order): string {
  const limits = 'LIMIT {limit:UInt64} OFFSET {offset:UInt64}';
  if (sources.length === 1) return `SELECT ${columns} FROM ${sources[0]} ${orderByEvents(order)} ${limits}`;
  const each = sources.map(
    (from) =>
      `(SELECT ${columns}, timestamp AS t, timestamp_micros AS us FROM ${from} ${orderByEvents(order)} LIMIT {reach:UInt64})`,
  );
  return `SELECT * EXCEPT (t, us) FROM (${each.join(' UNION ALL ')}) ORDER BY t ${order}, us ${order}, id ${order} ${limits}`;
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
