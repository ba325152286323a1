// The events of a backtest, in the order in which they arrived, page by page (asked by pipelines/backtest).
// A page is cut by rows first, off the projection of arrivals, and then read whole: rows that arrived together lie
// apart, by agent, so each page unpacks more than it answers, and large pages cost less. One whose rows would be more
// than BACKTEST_PAGE_BYTES_MAX is read again as several smaller ones.
// Payloads are answered only where a policy may have to look at them: what a rule demands of the payload's text is
// asked of it here. Sound: a literal holds no character that JSON has to escape, so it is in the text as it is, unless
// some character is written as \u, or is no ASCII and judged in its folded form; then the payload is answered.
// Gives way to everything else: one thread, lowest priority.
import type { EventType, Outcome, Reason } from '../../schemas/closed-sets.ts';
import type { Position } from '../../schemas/paging.ts';
import type { RecordedEvent } from '../../schemas/recorded-event.ts';
import { BACKTEST_PAGE_BYTES_MAX, BACKTEST_PAGE_ROWS_MAX, BACKTEST_QUERY_SECONDS } from '../../src/common/limits.ts';
import { RowBinaryReader } from '../../src/common/row-binary.ts';
import type { ClickHouse, QueryOptions } from '../client.ts';
import { instant, QueryConditions } from './conditions.ts';
import { boundedTo, isTooMuch } from './event-rows.ts';

export type ReplayRow = RecordedEvent & {
  policyId: string;
  /** `payload.tool` where it is text, its first 200 characters; '' for none. */
  tool: string;
  /** In the demanded currency, in millionths; -1: not known. */
  cost: number;
};

/** Which events: those that arrived from `fromMs` on and before `toMs`. */
export type ReplayRange = {
  account: string;
  agentId: string | null;
  excludeAgents: readonly string[];
  fromMs: number;
  toMs: number;
};

/** The demands of the tried policy: its agent, types and texts; `policyId`: whose recorded matches are looked at. */
type PayloadDemand = {
  agentId: string | null;
  types: readonly string[] | null;
  clauses: readonly (readonly string[])[];
  policyId: string | null;
  payload: boolean;
  /** Left out: costs are not asked for. */
  currency?: string | null;
};

const ROWS_AT_FIRST = 5_000;
const TOOL_CHARACTERS = 200;
const LOWEST: NonNullable<QueryOptions['settings']> = {
  max_threads: 1,
  priority: '10',
  max_execution_time: BACKTEST_QUERY_SECONDS,
};

export class ReplayPages {
  readonly #clickhouse: ClickHouse;
  readonly #demand: PayloadDemand;
  #rows = ROWS_AT_FIRST;

  constructor(clickhouse: ClickHouse, demand: PayloadDemand) {
    this.#clickhouse = clickhouse;
    this.#demand = demand;
  }

  /** The rows behind `after`, some of them; none: there are none. Throws ClickHouseError. */
  async next(range: ReplayRange, after: Position | undefined, signal: AbortSignal): Promise<ReplayPage> {
    for (;;) {
      const end = await endOfPage(this.#clickhouse, range, { after, rows: this.#rows, signal });
      try {
        const bytes = await this.#read(range, { after, end, signal });
        if (bytes.length < BACKTEST_PAGE_BYTES_MAX / 4) this.#rows = Math.min(2 * this.#rows, BACKTEST_PAGE_ROWS_MAX);
        return new ReplayPage(bytes, end === undefined);
      } catch (error) {
        if (!isTooMuch(error) || this.#rows === 1) throw error;
        this.#rows = Math.ceil(this.#rows / 4);
      }
    }
  }

  #read(
    range: ReplayRange,
    { after, end, signal }: { after: Position | undefined; end: Position | undefined; signal: AbortSignal },
  ): Promise<Buffer> {
    const where = within(range, after);
    if (end !== undefined)
      where.and(
        `(received_at < ${instant('end_at')} OR received_at = ${instant('end_at')} AND id <= {end_id:String})`,
        {
          end_at: end.at,
          end_id: end.id,
        },
      );
    const demand = demandOf(this.#demand, where.params);
    const cost = costOf(this.#demand, where.params);
    // A single row may be as large as it is.
    const bytesMax = this.#rows === 1 ? undefined : BACKTEST_PAGE_BYTES_MAX;
    return this.#clickhouse.queryBinary(
      `SELECT id, CAST(agent_id, 'String'), CAST(type, 'String'), trace_id, toUnixTimestamp64Milli(timestamp),
         timestamp_micros, toUnixTimestamp64Milli(received_at), CAST(outcome, 'String'), CAST(reason, 'String'), policy_id, request_id,
         policy_result, substringUTF8(JSONExtractString(payload, 'tool'), 1, ${TOOL_CHARACTERS}), ${cost}, if(${demand}, payload, '')
       FROM events WHERE ${where.sql} ORDER BY received_at, id`,
      where.params,
      { signal, settings: { ...LOWEST, optimize_use_projections: 0, ...boundedTo(bytesMax) } },
    );
  }
}

/** Rows as they came, decoded one by one. */
export class ReplayPage {
  /** Nothing is behind it. */
  readonly isLast: boolean;
  readonly #reader: RowBinaryReader;

  constructor(bytes: Buffer, isLast: boolean) {
    this.isLast = isLast;
    this.#reader = new RowBinaryReader(bytes);
  }

  next(): ReplayRow | undefined {
    const reader = this.#reader;
    if (reader.done) return undefined;
    const id = reader.text();
    const agentId = reader.text();
    const type = reader.text() as EventType;
    const traceId = reader.text();
    const occurredMs = reader.int64() + reader.uint16() / 1000;
    const receivedMs = reader.int64();
    const [outcome, reason] = [reader.text() as Outcome, reader.text() as Reason | ''];
    const [policyId, requestId] = [reader.text(), reader.text()];
    const [policyResult, tool, cost, payload] = [reader.text(), reader.text(), reader.int64(), reader.text()];
    return {
      ...{ id, agentId, type, traceId, occurredMs, receivedMs },
      ...{ outcome, reason, policyId, requestId, policyResult, tool, cost, payload },
    };
  }
}

export async function countReplayed(clickhouse: ClickHouse, range: ReplayRange, signal: AbortSignal): Promise<number> {
  const { sql, params } = within(range, undefined);
  const [row] = await clickhouse.query<{ events: number }>(
    `SELECT count() AS events FROM events WHERE ${sql}`,
    params,
    { signal, settings: byArrival(range) },
  );
  return Number(row?.events ?? 0);
}

/** The last row of a page of so many rows; undefined: there are fewer. */
async function endOfPage(
  clickhouse: ClickHouse,
  range: ReplayRange,
  { after, rows, signal }: { after: Position | undefined; rows: number; signal: AbortSignal },
): Promise<Position | undefined> {
  const { sql, params } = within(range, after);
  const [row] = await clickhouse.query<Position>(
    `SELECT toUnixTimestamp64Milli(received_at) AS at, id FROM events WHERE ${sql}
     ORDER BY received_at, id LIMIT 1 OFFSET {rows:UInt64}`,
    { ...params, rows: rows - 1 },
    { signal, settings: byArrival(range) },
  );
  return row === undefined ? undefined : { at: Number(row.at), id: row.id };
}

function within(range: ReplayRange, after: Position | undefined): QueryConditions {
  const where = new QueryConditions(range.account)
    .and(`received_at >= ${instant('from')}`, { from: range.fromMs })
    .and(`received_at < ${instant('to')}`, { to: range.toMs })
    .exclude('agent_id', range.excludeAgents)
    .after(after, { time: 'received_at', id: 'id', order: 'asc' });
  return range.agentId === null ? where : where.equal('agent_id', range.agentId);
}

/** The rows of one agent lie side by side; of all agents the projection has them in order. */
function byArrival({ agentId }: ReplayRange): NonNullable<QueryOptions['settings']> {
  return agentId === null ? { ...LOWEST, preferred_optimize_projection_name: 'by_arrival' } : LOWEST;
}

/** Adds to `params`. */
function costOf({ currency = null }: PayloadDemand, params: QueryConditions['params']): string {
  if (currency === null) return 'toInt64(-1)';
  params['currency'] = `${currency} `;
  return 'if(startsWith(priced_by, {currency:String}), ifNull(cost, -1), -1)';
}

/** For which rows the payload is answered. Adds to `params`. */
function demandOf(
  { agentId, types, clauses, policyId, payload }: PayloadDemand,
  params: QueryConditions['params'],
): string {
  if (!payload) return 'false';
  const all: string[] = [];
  if (agentId !== null) {
    params['demanded_agent'] = agentId;
    all.push('agent_id = {demanded_agent:String}');
  }
  if (types !== null) {
    params['demanded_types'] = types;
    all.push('type IN {demanded_types:Array(String)}');
  }
  const texts = clauses.map((literals, i) => {
    params[`literals_${i}`] = literals;
    const inText = (text: string) =>
      `arrayExists(literal -> position(${text}, literal) > 0, {literals_${i}:Array(String)})`;
    return `(${inText('payload')} OR ${inText('trace_id')})`;
  });
  if (texts.length > 0)
    all.push(
      `(${texts.join(' AND ')} OR position(payload, '\\\\u') > 0 OR length(payload) != lengthUTF8(payload) OR length(trace_id) != lengthUTF8(trace_id))`,
    );
  if (all.length === 0) return 'true';
  // What a filter redacted may have held a literal; where the policy matched then, it is said why it does not now.
  const any = [all.join(' AND '), `position(policy_result, '"data_filter"') > 0`];
  if (policyId !== null) {
    params['replaced'] = `policy:${policyId}`;
    any.push('has(matched, {replaced:String})');
  }
  return any.join(' OR ');
}
