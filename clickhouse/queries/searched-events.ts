// How events are read that are searched for words, so that a page comes soon whatever the word is:
//
//   parts    Those that come straight from an insert have no index yet (decision 5). Searched by the index's own
//            expression, 20,000 such rows took as long as ten million with it. Their rows pass a cheaper look first.
//   slices   A page in the order of time needs the newest rows that match. They are looked for in the newest slice of
//            time that is likely to hold enough of them, then in slices each longer than the one before, then in all.
//   passed   Parts that hold rows of other accounts or other times alone are left out.
//
// Invariant: each row that may be asked for is in one kind of parts, which one statement reads of one snapshot; a slice
// holds all rows from its beginning on, so a page that it fills is the page. What is known of parts (event-parts.ts)
// may be old: which rows are found does not depend on it.
import type { ClickHouse, QueryParams } from '../client.ts';
import { instant, type QueryConditions } from './conditions.ts';
import { type EventsPart, isUnindexed, partsOf } from './event-parts.ts';
import type { PayloadCondition } from './search.ts';

/** With more parts the statement would be long; the rest is searched as ever. */
const PARTS_MAX = 300;

type Window = { from?: number | undefined; to?: number | undefined };
/** The texts that follow FROM, one for each kind of parts; the rows of all of them are disjoint. */
export type EventsFrom = { sources: string[]; params: QueryParams };
type Sources = { of(more: string, slice?: Window): EventsFrom };
type SearchedRange = Window & { account: string };

/** `where` may get further conditions before `of` is called. */
export async function sourcesOf(
  clickhouse: ClickHouse,
  where: QueryConditions,
  { search, asked }: { search: PayloadCondition | undefined; asked: SearchedRange },
): Promise<Sources> {
  if (search === undefined)
    return { of: (more) => ({ sources: [`events WHERE ${where.sql} AND ${more}`], params: {} }) };
  const { sql, unindexed, params } = search;
  const parts = await partsOf(clickhouse);
  const small = unindexed === undefined ? [] : parts.filter(isUnindexed).slice(0, PARTS_MAX);
  const whole = (more: string) => `events WHERE ${where.sql} AND ${sql} AND ${more}`;
  return {
    of: (more, { from = asked.from } = {}) => {
      const handled = [...small.map(({ name }) => name), ...passedBy(parts, { ...asked, from })];
      const named: QueryParams = {};
      if (handled.length > 0) named['handled_parts'] = handled;
      const sources = [whole(handled.length === 0 ? more : `_part NOT IN {handled_parts:Array(String)} AND ${more}`)];
      if (unindexed !== undefined && small.length > 0) {
        named['unindexed_parts'] = small.map(({ name }) => name);
        sources.push(
          `events PREWHERE ${where.sql} AND ${unindexed.first} WHERE _part IN {unindexed_parts:Array(String)} AND ${unindexed.exact} AND ${more}`,
        );
      }
      return { sources, params: { ...params, ...named } };
    },
  };
}

/** Names of parts that hold none of what is asked for. */
function passedBy(parts: readonly EventsPart[], { account, from = -Infinity, to = Infinity }: SearchedRange): string[] {
  return parts
    .filter(({ holds }) => {
      if (holds === undefined) return false;
      const { firstAccount, lastAccount, fromMs, toMs } = holds;
      // The times of a part are whole milliseconds, those that are asked for may be finer.
      return toMs < Math.floor(from) || fromMs > to || account < firstAccount || account > lastAccount;
    })
    .slice(0, PARTS_MAX)
    .map(({ name }) => name);
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
