// Counts events over time and by their values (GET /v1/events/histogram, GET /v1/events/facets).
// Every count is exact and speaks of the very rows that a list with the same filters shows: outcomes are final ones
// (final-outcome.ts). Payloads are not read, unless words are searched for. Bounded: so many buckets, so many values;
// what is beyond is summed up.
import type { ClickHouse, QueryParams } from '../client.ts';
import { boundedSum } from './bounded-sum.ts';
import { instant, type QueryConditions, valuesOf } from './conditions.ts';
import { conditionsOf, type EventFilter, settingsOf } from './event-filter.ts';
import { decidedAs, type Final, outcomeFilter, reasonFilter, type Settling, waysDecided } from './final-outcome.ts';
import { type Buckets, bucketsOf, type CountedRange } from './time-buckets.ts';

/** The fields that group events. `policy_id`: any policy that matched, so that an event may count for several. */
export const COUNTED_BY = ['outcome', 'type', 'agent_id', 'model', 'policy_id'] as const;
export type CountedBy = (typeof COUNTED_BY)[number];

const EXPRESSION: Record<CountedBy, string> = {
  outcome: 'toString(outcome)',
  type: 'toString(type)',
  agent_id: 'agent_id',
  model: 'toString(model)',
  policy_id: "arrayJoin(arrayMap(t -> substring(t, 8), arrayFilter(t -> startsWith(t, 'policy:'), matched)))",
};

export type CountFilter = EventFilter & Settling & { signal?: AbortSignal | undefined };
type Matching = { where: QueryConditions };
/** Events of the value that a person sees, and of the others together. */
export type Counted = { values: [value: string, count: number][]; other: number };

/** The most frequent values first, at most `max`. */
export async function countBy(
  clickhouse: ClickHouse,
  account: string,
  { by, max, filter }: { by: CountedBy; max: number; filter: CountFilter },
): Promise<Counted> {
  const matching = await matchingOf(clickhouse, account, filter);
  const rows = await ask<{ value: string; n: number; rest: number }>(clickhouse, filter, {
    sql: `SELECT value, n, sum(n) OVER () AS rest FROM
            (SELECT ${EXPRESSION[by]} AS value, count() AS n FROM events WHERE ${matching.where.sql} GROUP BY value)
          ORDER BY n DESC, value LIMIT {max:UInt64}`,
    params: { ...matching.where.params, max },
  });
  const counts = new Map(rows.map(({ value, n }): [string, number] => [value, n]));
  const total = rows[0]?.rest ?? 0;
  if (by === 'outcome')
    for (const { final, n } of await moved(clickhouse, account, { matching, filter })) move(counts, final, n);
  const values = byFrequency(counts);
  return { values, other: total - values.reduce((sum, [, n]) => sum + n, 0) };
}

/** Millionths by value, in the currency of `by` (`USD 3`); '': no prices were asked. */
export type CountedCosts = { by: string; sums: ReadonlyMap<string, number> };

/**
 * The cost of all events with each of these values, as far as it is known: a value of which no event's cost is known
 * has no sum. Reads two columns more, which no projection has.
 */
export async function costsBy(
  clickhouse: ClickHouse,
  account: string,
  { by, values, filter }: { by: Exclude<CountedBy, 'outcome'>; values: readonly string[]; filter: CountFilter },
): Promise<CountedCosts> {
  const matching = await matchingOf(clickhouse, account, filter);
  const having = 'HAVING value IN {values:Array(String)}';
  return sumCosts(clickhouse, { matching, filter, value: EXPRESSION[by], params: { values: [...values] }, having });
}

type CostsOf = { matching: Matching; filter: CountFilter; value: string; params: QueryParams; having?: string };

async function sumCosts(
  clickhouse: ClickHouse,
  { matching: { where }, filter, value, params, having = '' }: CostsOf,
): Promise<CountedCosts> {
  const rows = await ask<{ value: string | number; by: string; spent: number }>(clickhouse, filter, {
    sql: `SELECT ${value} AS value, max(priced_by) AS by, ${boundedSum('cost')} AS spent FROM events
          WHERE ${where.sql} AND cost IS NOT NULL GROUP BY value ${having}`,
    params: { ...where.params, ...params },
  });
  return { by: rows[0]?.by ?? '', sums: new Map(rows.map((row) => [String(row.value), row.spent])) };
}

type CountedHistogram = {
  bucketMs: number;
  /** Values with a group of their own, the most frequent first. */
  values: string[];
  /** Are there others, which are in `total` alone? */
  hasOther: boolean;
  buckets: Bucket[];
  /** As of CountedCosts. */
  pricedBy: string;
};

/** `cost`: in millionths; null: not asked for, or of no event it is known. */
type Bucket = { atMs: number; total: number; counts: Map<string, number>; cost: number | null };
type Slot = Buckets['slot'];

/** Closed sets: small enough to be counted without asking first which are frequent. */
const CLOSED: ReadonlySet<CountedBy> = new Set<CountedBy>(['outcome', 'type']);
/** Stands for all other values. A model that calls itself so counts among them. */
const REST = "'\\0'";

type HistogramOptions = {
  by: CountedBy;
  buckets: number;
  values: number;
  zone?: string | undefined;
  costs?: boolean;
  filter: CountFilter;
};

/**
 * null: nothing to count, and no time to show that for. `values`: at most so many have a group of their own. `zone`:
 * where buckets begin (time-buckets.ts).
 */
export async function histogramOf(
  clickhouse: ClickHouse,
  account: string,
  options: HistogramOptions,
): Promise<CountedHistogram | null> {
  const { by, buckets, values: max, zone, costs = false, filter } = options;
  const matching = await matchingOf(clickhouse, account, filter);
  const range = await rangeOf(clickhouse, filter, matching);
  if (range === null) return null;
  const { bucketMs, starts, slot } = bucketsOf(range, buckets, zone);
  // What comes in meanwhile, beyond the last bucket, is not counted.
  matching.where.and(`timestamp >= ${instant('range_from')} AND timestamp <= ${instant('range_to')}`, {
    range_from: range.fromMs,
    range_to: range.toMs,
  });
  const frequent = CLOSED.has(by) ? undefined : await countBy(clickhouse, account, { by, max, filter });
  const shown = frequent?.values.map(([value]) => value);
  const made = starts.map((atMs): Bucket => ({ atMs, total: 0, counts: new Map(), cost: null }));
  await fill(clickhouse, made, { by, matching, filter, slot, shown });
  if (by === 'outcome') {
    for (const { final, n, slot: at } of await moved(clickhouse, account, { matching, filter, slot }))
      move(made[at]!.counts, final, n);
  }
  const { values, other } = frequent ?? mostFrequent(made, max);
  const listed = new Set(values.map(([value]) => value));
  for (const { counts } of made)
    for (const [value, n] of [...counts]) if (n === 0 || !listed.has(value)) counts.delete(value);
  const pricedBy = costs ? await price(clickhouse, made, { matching, filter, slot }) : '';
  return { bucketMs, values: [...listed], hasOther: other > 0, buckets: made, pricedBy };
}

/** Says which currency. */
async function price(
  clickhouse: ClickHouse,
  made: Bucket[],
  { matching, filter, slot }: { matching: Matching; filter: CountFilter; slot: Slot },
): Promise<string> {
  const { by, sums } = await sumCosts(clickhouse, { matching, filter, value: slot.sql, params: slot.params });
  for (const [at, bucket] of made.entries()) bucket.cost = sums.get(String(at)) ?? null;
  return by;
}

/**
 * One pass over the events, but by policy: an event may count for several, or for none, so totals are a pass of their
 * own.
 */
async function fill(
  clickhouse: ClickHouse,
  made: Bucket[],
  options: { by: CountedBy; matching: Matching; filter: CountFilter; slot: Slot; shown: string[] | undefined },
): Promise<void> {
  const { by, matching, filter, slot, shown } = options;
  const params = { ...matching.where.params, ...slot.params, ...(shown && { shown }) };
  const value = shown === undefined ? 'each' : `if(each IN {shown:Array(String)}, each, ${REST})`;
  const rows = await ask<{ slot: number; value: string; n: number }>(clickhouse, filter, {
    sql: `SELECT slot, ${value} AS value, count() AS n
          FROM (SELECT ${slot.sql} AS slot, ${EXPRESSION[by]} AS each FROM events WHERE ${matching.where.sql})
          GROUP BY slot, value`,
    params,
  });
  for (const { slot: at, value: of, n } of rows) {
    made[at]!.counts.set(of, n);
    made[at]!.total += n;
  }
  if (by !== 'policy_id') return;
  const totals = await ask<{ slot: number; n: number }>(clickhouse, filter, {
    sql: `SELECT ${slot.sql} AS slot, count() AS n FROM events WHERE ${matching.where.sql} GROUP BY slot`,
    params: { ...matching.where.params, ...slot.params },
  });
  for (const bucket of made) bucket.total = 0;
  for (const { slot: at, n } of totals) made[at]!.total = n;
}

function mostFrequent(made: readonly Bucket[], max: number): Counted {
  const sums = new Map<string, number>();
  for (const { counts } of made) for (const [value, n] of counts) sums.set(value, (sums.get(value) ?? 0) + n);
  const values = byFrequency(sums);
  return { values: values.slice(0, max), other: values.slice(max).reduce((sum, [, n]) => sum + n, 0) };
}

function byFrequency(counts: ReadonlyMap<string, number>): Counted['values'] {
  return [...counts].filter(([, n]) => n > 0).sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
}

async function matchingOf(clickhouse: ClickHouse, account: string, filter: CountFilter): Promise<Matching> {
  const where = conditionsOf(account, filter);
  const { settle } = filter;
  if (filter.reason !== undefined)
    where.and(await reasonFilter(clickhouse, account, { reasons: valuesOf(filter.reason), settle }));
  if (filter.outcome !== undefined) {
    const { whole } = await outcomeFilter(clickhouse, account, { outcomes: valuesOf(filter.outcome), settle });
    where.and(whole);
  }
  return { where };
}

function whole(at: number | undefined): number | undefined {
  return at === undefined ? undefined : Math.floor(at);
}

/** The range that was asked for, else from the first to the last event that there is. */
async function rangeOf(clickhouse: ClickHouse, filter: CountFilter, { where }: Matching): Promise<CountedRange | null> {
  const { from, to } = filter;
  if (from !== undefined && to !== undefined)
    return from <= to ? { fromMs: Math.floor(from), toMs: Math.floor(to) } : null;
  // The first row in either order is found without reading the others.
  const [first, last] = await Promise.all(
    (['ASC', 'DESC'] as const).map((order) =>
      ask<{ ms: number }>(clickhouse, filter, {
        sql: `SELECT toUnixTimestamp64Milli(timestamp) AS ms FROM events WHERE ${where.sql} ORDER BY timestamp ${order} LIMIT 1`,
        params: where.params,
      }),
    ),
  );
  const [firstMs, lastMs] = [first?.[0]?.ms, last?.[0]?.ms];
  if (firstMs === undefined || lastMs === undefined) return null;
  return { fromMs: whole(from) ?? firstMs, toMs: whole(to) ?? lastMs };
}

type Moved = { final: Final; n: number; slot: number };

/** Events that wait by their row and were decided since. */
async function moved(
  clickhouse: ClickHouse,
  account: string,
  { matching, filter, slot }: { matching: Matching; filter: CountFilter; slot?: Slot },
): Promise<Moved[]> {
  const decided = await waysDecided(clickhouse, account, filter.settle);
  const each = decided.map((final) =>
    ask<{ slot: number; n: number }>(clickhouse, filter, {
      sql: `SELECT ${slot?.sql ?? '0'} AS slot, count() AS n FROM events
            WHERE ${matching.where.sql} AND outcome = 'pending' AND id IN ${decidedAs(final)} GROUP BY slot`,
      params: { ...matching.where.params, ...slot?.params },
    }).then((rows) => rows.map((row): Moved => ({ ...row, final }))),
  );
  return (await Promise.all(each)).flat();
}

function move(counts: Map<string, number>, final: Final, n: number): void {
  counts.set(final, (counts.get(final) ?? 0) + n);
  counts.set('pending', (counts.get('pending') ?? 0) - n);
}

function ask<Row>(
  clickhouse: ClickHouse,
  filter: CountFilter,
  { sql, params }: { sql: string; params: QueryParams },
): Promise<Row[]> {
  const options = { settings: settingsOf(filter), ...(filter.signal === undefined ? {} : { signal: filter.signal }) };
  return clickhouse.query<Row>(sql, params, options);
}

/** How many events of the account are kept. */
export async function storedRowCount(clickhouse: ClickHouse, account: string): Promise<number> {
  const [row] = await clickhouse.query<{ n: number }>(
    'SELECT count() AS n FROM events WHERE account_id = {account:String}',
    { account },
    { settings: { preferred_optimize_projection_name: 'counts' } },
  );
  return Number(row?.n ?? 0);
}
