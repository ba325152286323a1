// Event rows as they come from ClickHouse and go into an answer. The payload is text from end to end: it is put into
// the answer, never parsed. Lists work in two steps: the heads of a page's events (from a light projection or the
// primary key, without payloads), then the rest of these rows at their positions, or by primary key. The first pages of
// an agent come in one (list-events.ts).

import type { ClickHouseSettings } from '@clickhouse/client';
import type { EventType, Outcome, PayloadMode } from '../../schemas/closed-sets.ts';
import { PREVIEW_CHARACTERS } from '../../schemas/event.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import { timeOfId } from '../../src/common/ids.ts';
import { PAGE_BYTES_MAX } from '../../src/common/limits.ts';
import { amountText } from '../../src/common/prices/amount.ts';
import { eventDuration } from '../../src/common/summary/event-duration.ts';
import {
  eventSummary,
  PAYLOAD_HEAD_CHARACTERS,
  PAYLOAD_TAIL_CHARACTERS,
  type PayloadEnds,
  payloadEnds,
} from '../../src/common/summary/event-summary.ts';
import type { ClickHouse, QueryOptions } from '../client.ts';
import { ClickHouseError } from '../errors.ts';
import { isoTime } from './conditions.ts';

export type EventRow = {
  id: string;
  agent_id: string;
  type: EventType;
  /** '' for none. */
  trace_id: string;
  /** To the microsecond. */
  timestamp_ms: number;
  received_at_ms: number;
  /** JSON text; '' where a list was asked for without. */
  payload: string;
  /** Where a list was asked for without payloads: bytes of it, and what it begins with if that was asked for. */
  payload_bytes?: number;
  payload_preview?: string;
  /** Where a list was asked for without payloads: what the row's summary is made of. */
  payload_head?: string;
  payload_tail?: string;
  /** '' for none. */
  model?: string;
  tokens_used?: number | null;
  /** In millionths; null: none, or unknown. */
  cost?: number | null;
  /** Currency and revision of the prices that were asked; '' : none were. */
  priced_by?: string;
  outcome: Outcome;
  /** JSON text; '' for allowed without a match. */
  policy_result: string;
  /** JSON text of what shadows would have made of it; '' where there is nothing to say. */
  shadow: string;
};

type PayloadField = 'payload' | 'payload_bytes' | 'payload_preview' | 'payload_head' | 'payload_tail';

/** The fields of an event that the audit log holds; nothing that can be large. */
export type AuditedRow = Omit<
  EventRow,
  'trace_id' | PayloadField | 'model' | 'tokens_used' | 'cost' | 'priced_by' | 'policy_result' | 'shadow'
> & {
  reason: string;
  policy_id: string;
  approval_id: string;
  request_id: string;
};

/** Where a row is, by primary key: that knows whole milliseconds. */
export type EventKey = { agent_id: string; timestamp_ms: number; id: string };

export const KEY_COLUMNS = 'agent_id, toUnixTimestamp64Milli(timestamp) AS timestamp_ms, id';

/** Its key, what else the projection has of it, and the position in the table at which it was found. */
export type EventHead = EventKey &
  Pick<EventRow, 'type' | 'trace_id' | 'outcome'> & { part: string; part_offset: number };
/** The payload is there unless a list was asked for without. */
type EventRest = Pick<EventRow, 'id' | 'model' | 'tokens_used' | 'cost' | 'priced_by' | 'policy_result' | 'shadow'> &
  Partial<Pick<EventRow, PayloadField>>;

/**
 * A timeline's rows of this column lie side by side. The rest lies in as many granules as agents, and there each column
 * costs.
 */
const EXACT_TIME = 'toUnixTimestamp64Milli(timestamp) + timestamp_micros / 1000 AS timestamp_ms';
const OWN_COLUMNS = `agent_id, ${EXACT_TIME}, id, type, trace_id, outcome`;
export const HEAD_COLUMNS = `${OWN_COLUMNS}, _part AS part, _part_offset AS part_offset`;
const RECEIVED = 'toUnixTimestamp64Milli(received_at) AS received_at_ms';
/**
 * The SQL form of payloadEnds, for a whole payload. The engine unpacks payloads for it, of the page's rows alone, and
 * answers with these characters.
 */
const PAYLOAD_ENDS = `substringUTF8(payload, 1, ${PAYLOAD_HEAD_CHARACTERS}) AS payload_head,
  if(length(payload) > ${PAYLOAD_HEAD_CHARACTERS}, substringUTF8(payload, -${PAYLOAD_TAIL_CHARACTERS}), '') AS payload_tail`;
const PAYLOAD_COLUMNS: Record<PayloadMode, string> = {
  full: 'payload',
  preview: `length(payload) AS payload_bytes, substringUTF8(payload, 1, ${PREVIEW_CHARACTERS}) AS payload_preview, ${PAYLOAD_ENDS}`,
  none: `length(payload) AS payload_bytes, ${PAYLOAD_ENDS}`,
};
const BEHIND_PAYLOAD = 'model, tokens_used, cost, priced_by, policy_result, shadow';
const restColumns = (mode: PayloadMode) => `id, ${PAYLOAD_COLUMNS[mode]}, ${BEHIND_PAYLOAD}`;
export const rowColumns = (mode: PayloadMode = 'full') =>
  `${OWN_COLUMNS}, ${RECEIVED}, ${PAYLOAD_COLUMNS[mode]}, ${BEHIND_PAYLOAD}`;
const AUDITED_COLUMNS = `${KEY_COLUMNS}, type, ${RECEIVED}, outcome, reason, policy_id, approval_id, request_id`;

/** One question reads so many bytes, unescaped: twice a page, so that what fits a page is mostly read at once. */
export const READ_BYTES_MAX = 2 * PAGE_BYTES_MAX;
/** The bytes of a row beside its payload and the policies that matched: ids, times, a trace id. */
const ROW_BYTES = 500;

/** Rows in the order in which they were asked for, of so many as fit a page. */
type Fitting = {
  rows: EventRow[];
  /** How many were asked for and looked at; fewer than all of them: the page is full. */
  heads: number;
};

/**
 * The rows of these heads, in their order: as many as PAGE_BYTES_MAX has room for, and one in any case. A row that has
 * gone meanwhile (erased, expired) is left out.
 */
export async function completeRows(
  clickhouse: ClickHouse,
  account: string,
  heads: readonly EventHead[],
  { payload = 'full', signal }: Reading = {},
): Promise<Fitting> {
  const { byId, heads: count } = await readFitting<EventRest, EventHead>(
    heads,
    restColumns(payload),
    (some, question) => restOf(clickhouse, account, some, { ...question, signal }),
  );
  const rows = heads.slice(0, count).flatMap(({ part, part_offset, ...head }) => {
    const row = byId.get(head.id);
    // An id is minted with the very millisecond of arrival (src/ingest/ingest.ts).
    return row === undefined ? [] : [{ payload: '', ...head, ...row, received_at_ms: timeOfId(head.id) }];
  });
  return { rows, heads: count };
}

/** The rows of these keys, as completeRows has them. */
export async function rowsByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
  { payload, signal }: Reading = {},
): Promise<Fitting> {
  type Found = Omit<EventRow, 'payload'> & { payload?: string };
  const { byId, heads } = await readFitting<Found, EventKey>(keys, rowColumns(payload), async (some, question) =>
    idMap(await fetchRows(clickhouse, account, { ...question, keys: some, signal })),
  );
  const rows = keys.slice(0, heads).flatMap(({ id }) => {
    const row = byId.get(id);
    return row === undefined ? [] : [{ payload: '', ...row }];
  });
  return { rows, heads };
}

type Question = { columns: string; bytesMax?: number };
type Identified = { id: string };

/**
 * Reads all of them at once, if that is not too much after all (that is for the engine to say); else their sizes, and
 * then the first that fit.
 */
async function readFitting<Row extends Identified & Partial<Weighed>, Key extends Identified>(
  keys: readonly Key[],
  columns: string,
  read: <R extends Identified>(some: readonly Key[], question: Question) => Promise<Map<string, R>>,
): Promise<{ byId: Map<string, Row>; heads: number }> {
  try {
    const byId = await read<Row>(keys, { columns, bytesMax: READ_BYTES_MAX });
    return { byId, heads: fitting(keys.map(({ id }) => bytesOf(byId.get(id)))) };
  } catch (error) {
    if (!isTooMuch(error)) throw error;
  }
  const sizes = await read<Identified & { bytes: number }>(keys, { columns: SIZE_COLUMNS });
  const heads = fitting(keys.map(({ id }) => (sizes.get(id)?.bytes ?? 0) + ROW_BYTES));
  return { byId: await read<Row>(keys.slice(0, heads), { columns }), heads };
}

const SIZE_COLUMNS = 'id, payload.size + length(policy_result) + length(shadow) AS bytes';

export function isTooMuch(error: unknown): boolean {
  return error instanceof ClickHouseError && error.codeName === 'TOO_MANY_ROWS_OR_BYTES';
}

type Weighed = Pick<EventRow, 'payload' | 'payload_preview' | 'payload_head' | 'policy_result' | 'shadow'>;

/** The size of a row in an answer, about. What its summary is made of is not in the answer, but is read for it. */
export function bytesOf({
  payload = '',
  payload_preview = '',
  payload_head = '',
  policy_result = '',
  shadow = '',
}: Partial<Weighed> = {}): number {
  const texts = Buffer.byteLength(payload) + Buffer.byteLength(payload_preview) + payload_head.length;
  return texts + policy_result.length + shadow.length + ROW_BYTES;
}

/** How many of them a page has room for; one in any case. */
export function fitting(bytes: readonly number[]): number {
  let sum = 0;
  for (const [i, more] of bytes.entries()) {
    sum += more;
    if (sum > PAGE_BYTES_MAX && i > 0) return i;
  }
  return bytes.length;
}
/**
 * By id. Looked for at their positions: to find them by key costs as much again as to read them. A part that has been
 * merged since is not there any more, and what was in it is then searched for by key.
 */
async function restOf<Row extends Identified>(
  clickhouse: ClickHouse,
  account: string,
  heads: readonly EventHead[],
  { columns, signal, bytesMax }: Question & Pick<Reading, 'signal'>,
): Promise<Map<string, Row>> {
  const placed = await clickhouse.query<Row>(
    `SELECT ${columns} FROM events
     WHERE account_id = {account:String} AND _part IN {parts:Array(String)} AND _part_offset IN {offsets:Array(UInt64)}
       AND id IN {ids:Array(String)}`,
    {
      account,
      parts: [...new Set(heads.map((head) => head.part))],
      offsets: heads.map((head) => head.part_offset),
      ids: heads.map((head) => head.id),
    },
    fromRows(signal, bytesMax),
  );
  const rest = idMap(placed);
  const moved = heads.filter((head) => !rest.has(head.id));
  for (const row of await fetchRows<Row>(clickhouse, account, { keys: moved, columns, signal, bytesMax }))
    rest.set(row.id, row);
  return rest;
}

function idMap<Row extends Identified>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [row.id, row]));
}

/** The rows that the audit log holds for the events of these keys, in no order. */
export async function auditedByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
): Promise<AuditedRow[]> {
  return fetchRows<AuditedRow>(clickhouse, account, { keys, columns: AUDITED_COLUMNS });
}

/** Reads what the summaries of events are made of, by their keys. The answer is by id. */
export async function payloadEndsOf(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
): Promise<Map<string, SummedUp & Identified>> {
  const rows = await fetchRows<Omit<SummedUp, 'payload'> & Identified>(clickhouse, account, {
    ...{ keys, columns: `id, type, ${PAYLOAD_ENDS}` },
  });
  return idMap(rows.map((row) => ({ payload: '', ...row })));
}

export type Reading = { payload?: PayloadMode | undefined; signal?: AbortSignal | undefined };

async function fetchRows<Row>(
  clickhouse: ClickHouse,
  account: string,
  {
    keys,
    columns,
    signal,
    bytesMax,
  }: { keys: readonly EventKey[]; columns: string; signal?: AbortSignal | undefined; bytesMax?: number | undefined },
): Promise<Row[]> {
  if (keys.length === 0) return [];
  // Plain literals: behind a lambda they would not count as constants, and the primary key would not be used.
  const times = keys.map((key) => isoTime(key.timestamp_ms).replace('T', ' ').replace('Z', ''));
  // The range says nothing new, but rules out most parts and granules before each is compared with all keys.
  const [from, to] = [times.reduce(earlier), times.reduce(later)];
  return clickhouse.query<Row>(
    `SELECT ${columns} FROM events
     WHERE account_id = {account:String}
       AND timestamp BETWEEN {from:DateTime64(3, 'UTC')} AND {to:DateTime64(3, 'UTC')}
       AND (agent_id, timestamp, id) IN arrayZip({agents:Array(String)}, {times:Array(DateTime64(3, 'UTC'))}, {ids:Array(String)})`,
    { account, from, to, agents: keys.map((key) => key.agent_id), times, ids: keys.map((key) => key.id) },
    fromRows(signal, bytesMax),
  );
}

/** Read from the rows themselves: no projection has payloads. */
function fromRows(signal: AbortSignal | undefined, bytesMax?: number): QueryOptions {
  const settings = { optimize_use_projections: 0 as const, ...boundedTo(bytesMax) };
  return { settings, ...(signal === undefined ? {} : { signal }) };
}

/** The settings that bound a result: a query that would answer with more bytes fails (isTooMuch). */
export function boundedTo(bytesMax: number | undefined): ClickHouseSettings {
  return bytesMax === undefined ? {} : { max_result_bytes: String(bytesMax), result_overflow_mode: 'throw' };
}

/** Compares texts of one length. */
const earlier = (a: string, b: string) => (a < b ? a : b);
const later = (a: string, b: string) => (a < b ? b : a);

const ALLOWED_RESULT = '{"outcome":"allowed","reason":null,"policy_id":null,"matches":[]}';

function payloadOf({ payload, payload_bytes, payload_preview }: EventRow): string {
  if (payload_bytes === undefined) return `"payload":${payload}`;
  const preview = payload_preview === undefined ? '' : `"payload_preview":${JSON.stringify(payload_preview)},`;
  return `${preview}"payload_bytes":${payload_bytes}`;
}

/** The policy result as JSON: the result of the policies in force, with the verdicts of shadows beside it. */
function resultOf({ policy_result: stored, shadow }: EventRow): string {
  const result = stored === '' ? ALLOWED_RESULT : stored;
  return shadow === '' ? result : `${result.slice(0, -1)},"shadow":${shadow}}`;
}

/** The summary of the event, for a row of a list. */
export function summaryOf(row: SummedUp): string {
  return eventSummary(row.type, endsOf(row));
}

/** How long it says that it took, in ms; undefined: it says nothing of it. */
export function durationOf(row: Omit<SummedUp, 'type'>): number | undefined {
  return eventDuration(endsOf(row));
}

function endsOf({ payload, payload_head, payload_tail = '' }: Omit<SummedUp, 'type'>): PayloadEnds {
  return payload_head === undefined ? payloadEnds(payload) : { head: payload_head, tail: payload_tail };
}

/** A whole row as a list has it that was asked for without payloads. */
export function withoutPayload({ payload, ...row }: EventRow): EventRow {
  const { head, tail } = payloadEnds(payload);
  return { ...row, payload: '', payload_bytes: Buffer.byteLength(payload), payload_head: head, payload_tail: tail };
}

/** null: it says tokens, and what they cost is unknown. */
function costOf({ cost = null, priced_by: by = '' }: EventRow): string {
  if (by === '') return '';
  const [currency, revision] = by.split(' ') as [string, string];
  const text = cost === null ? null : amountText(cost, currency);
  return `,"cost":${JSON.stringify(text)},"price_revision":${revision}`;
}

/** Writes a sum, `by` one of the tables that it is by; null: a sum of nothing. */
export function costText(cost: number | null, by: string): string | null {
  return cost === null ? null : amountText(cost, by.slice(0, 3));
}

type SummedUp = Pick<EventRow, 'type' | 'payload' | 'payload_head' | 'payload_tail'>;

/** The event as a list has it. */
export function renderListed(row: EventRow): string {
  const { type, model = '', tokens_used: tokens = null } = row;
  const ends = endsOf(row);
  const ms = eventDuration(ends);
  const known =
    (model === '' ? '' : `,"model":${JSON.stringify(model)}`) +
    (tokens === null ? '' : `,"tokens_used":${tokens}`) +
    (ms === undefined ? '' : `,"duration_ms":${ms}`);
  return `${renderEvent(row).slice(0, -1)}${known},"summary":${JSON.stringify(eventSummary(type, ends))}}`;
}

/** The Event object of the API as JSON text. */
export function renderEvent(row: EventRow): string {
  const trace = row.trace_id === '' ? '' : `"trace_id":${JSON.stringify(row.trace_id)},`;
  return (
    `{"id":"${row.id}","agent_id":"${row.agent_id}","type":"${row.type}",${payloadOf(row)},${trace}` +
    `"timestamp":"${exactIsoTime(row.timestamp_ms)}","received_at":"${isoTime(row.received_at_ms)}",` +
    `"policy_result":${resultOf(row)}${costOf(row)}}`
  );
}
