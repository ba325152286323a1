// How events are read that are searched for words, so that a page comes soon whatever the word is:
//
//   parts    Those that come straight from an insert have no index yet (decision 5). Searched by the index's own
//            expression, 20,000 such rows took as long as ten million with it. Their rows pass a cheaper look first.
//   slices   A page in the order of time needs the newest rows that match. They are looked for in the newest slice of
//            time that is likely to hold enough of them, then in slices each longer than the one before, then in all.
//
// Invariant: each row is in one of the two kinds of parts, which one statement reads of one snapshot; a slice holds all
// rows from its beginning on, so a page that it fills is the page. What is known of parts may be old: which rows are
// found does not depend on it.
import { INSERT_ROWS_MAX } from '../../src/common/limits.ts';
import type { ClickHouse, QueryParams } from '../client.ts';
import { instant, type QueryConditions } from './conditions.ts';
import type { PayloadCondition } from './search.ts';

/** Between two looks at which parts there are. */
const LOOK_MS = 2_000;
/** Of more the statement would be long; the rest is searched as ever. */
const PARTS_MAX = 300;

const known = new WeakMap<ClickHouse, { parts: readonly string[]; askedAt: number }>();

/** Names of parts that no merge has been at, and which so have no index. */
async function unindexedParts(clickhouse: ClickHouse): Promise<readonly string[]> {
  const last = known.get(clickhouse);
  if (last !== undefined && performance.now() - last.askedAt < LOOK_MS) return last.parts;
  const rows = await clickhouse.query<{ name: string }>(
    `SELECT name FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active
     AND level = 0 AND rows <= ${INSERT_ROWS_MAX} ORDER BY rows DESC LIMIT ${PARTS_MAX}`,
  );
  const parts = rows.map(({ name }) => name);
  known.set(clickhouse, { parts, askedAt: performance.now() });
  return parts;
}

/** Makes what stands behind FROM, of conditions beyond those of the filter; the rows of all of them are disjoint. */
type EventsFrom = { of(more: string): string[]; params: QueryParams };

/** `where` may get further conditions before `of` is called. */
export async function sourcesOf(
  clickhouse: ClickHouse,
  where: QueryConditions,
  search: PayloadCondition | undefined,
): Promise<EventsFrom> {
  if (search === undefined) return { of: (more) => [`events WHERE ${where.sql} AND ${more}`], params: {} };
  const { sql, unindexed, params } = search;
  const whole = (more: string) => `events WHERE ${where.sql} AND ${sql} AND ${more}`;
  const parts = unindexed === undefined ? [] : await unindexedParts(clickhouse);
  if (unindexed === undefined || parts.length === 0) return { of: (more) => [whole(more)], params };
  const isOne = '_part IN {unindexed_parts:Array(String)}';
  return {
    of: (more) => [
      whole(`NOT ${isOne} AND ${more}`),
      `events PREWHERE ${where.sql} AND ${unindexed.first} WHERE ${isOne} AND ${unindexed.exact} AND ${more}`,
    ],
    params: { ...params, unindexed_parts: parts },
  };
}

const DAY_MS = 86_400_000;
/** As long as nothing is known of how many rows match. */
const FIRST_SLICE_MS = 3_600_000;
const SLICE_MS_MIN = 1_000;
/** Rows come unevenly. */
const SLICE_MARGIN = 3;
const SLICE_GROWTH = 16;
/** A deep page needs most of them. */
const SLICED_ROWS_MAX = 2_500;

type Sliced = {
  order?: 'asc' | 'desc' | undefined;
  limit: number;
  offset: number;
  from?: number | undefined;
  to?: number | undefined;
  after?: { at: number } | undefined;
};

/** Epoch ms at which each slice begins; the last, undefined, is all of it. `total`: null where it is not known. */
export function slicesOf(page: Sliced, total: number | null, nowMs = Date.now()): (number | undefined)[] {
  const { order = 'desc', limit, offset, from, to, after } = page;
  const rows = offset + limit + 1;
  if (order === 'asc' || rows > SLICED_ROWS_MAX || (total !== null && total <= rows)) return [undefined];
  const end = Math.min(after?.at ?? nowMs, to ?? nowMs, nowMs);
  const span = end - (from ?? end - 30 * DAY_MS);
  const first = total === null ? FIRST_SLICE_MS : Math.max(SLICE_MS_MIN, (SLICE_MARGIN * span * rows) / total);
  const slices: (number | undefined)[] = [];
  for (let length = first; length < span / 2; length *= SLICE_GROWTH) slices.push(Math.floor(end - length));
  return [...slices, undefined];
}

export function inSlice(from: number | undefined): { sql: string; params: QueryParams } {
  if (from === undefined) return { sql: 'true', params: {} };
  return { sql: `timestamp >= ${instant('slice_from')}`, params: { slice_from: from } };
}
