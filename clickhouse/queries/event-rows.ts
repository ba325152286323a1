// Event rows as they come from ClickHouse and go into an answer. The payload is text from end to end: it is put into
// the answer, never parsed. Lists work in two steps: the heads of a page's events (from a light projection or the
// primary key, without payloads), then the rest of these rows at their positions, or by primary key. The first pages of
// an agent come in one (list-events.ts).

import type { EventType, Outcome, PayloadMode } from '../../schemas/closed-sets.ts';
import { PREVIEW_CHARACTERS } from '../../schemas/event.ts';
import { exactIsoTime } from '../../schemas/time.ts';
import { timeOfId } from '../../src/common/ids.ts';
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
  outcome: Outcome;
  /** JSON text; '' for allowed without a match. */
  policy_result: string;
};

/** What the audit log holds of an event; nothing that can be large. */
export type AuditedRow = Omit<EventRow, 'trace_id' | 'payload' | 'policy_result'> & {
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
type EventRest = Pick<EventRow, 'id' | 'payload_bytes' | 'payload_preview' | 'policy_result'> & { payload?: string };

/** Of a timeline these lie side by side. The rest lies in as many granules as agents, and there each column costs. */
const EXACT_TIME = 'toUnixTimestamp64Milli(timestamp) + timestamp_micros / 1000 AS timestamp_ms';
const OWN_COLUMNS = `agent_id, ${EXACT_TIME}, id, type, trace_id, outcome`;
export const HEAD_COLUMNS = `${OWN_COLUMNS}, _part AS part, _part_offset AS part_offset`;
const RECEIVED = 'toUnixTimestamp64Milli(received_at) AS received_at_ms';
/** The size is a column of its own on disk, so that without payloads none is read. */
const PAYLOAD_COLUMNS: Record<PayloadMode, string> = {
  full: 'payload',
  preview: `payload.size AS payload_bytes, substringUTF8(payload, 1, ${PREVIEW_CHARACTERS}) AS payload_preview`,
  none: 'payload.size AS payload_bytes',
};
const restColumns = (mode: PayloadMode) => `id, ${PAYLOAD_COLUMNS[mode]}, policy_result`;
export const rowColumns = (mode: PayloadMode = 'full') =>
  `${OWN_COLUMNS}, ${RECEIVED}, ${PAYLOAD_COLUMNS[mode]}, policy_result`;
const AUDITED_COLUMNS = `${KEY_COLUMNS}, type, ${RECEIVED}, outcome, reason, policy_id, approval_id, request_id`;

/** Rows fetched at once: payloads of 1 MiB, escaped, stay under what the embedded engine answers in one piece. */
export const ROWS_AT_ONCE = 100;

/** What a larger step may bring, unescaped; and what a row has beside its payload. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
const ROW_BYTES = 500;

/**
 * Characters of payload in one page. An answer is made in memory, so it must have a bound: this is 64 events of 1 MiB.
 */
export const PAGE_PAYLOAD_MAX = 64 * 1024 * 1024;

/** The page holds more than can be answered at once; fewer rows fit. */
export class PageTooLarge extends Error {
  override name = 'PageTooLarge';
}

/**
 * The rows of these heads, in their order. A row that has gone meanwhile (erased, expired) is left out.
 * Throws PageTooLarge before more than PAGE_PAYLOAD_MAX and one step of rows are held.
 */
export async function completeRows(
  clickhouse: ClickHouse,
  account: string,
  heads: readonly EventHead[],
  how: Reading = {},
): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  let characters = 0;
  for (let from = 0; from < heads.length; ) {
    const { some, rest } = await someOf(clickhouse, account, { heads, from, atOnce: atOnceBy(characters, from), how });
    from += some.length;
    for (const { part, part_offset, ...head } of some) {
      const row = rest.get(head.id);
      if (row === undefined) continue;
      // An id is minted with the very millisecond of arrival (src/ingest/ingest.ts).
      const whole = { payload: '', ...head, ...row, received_at_ms: timeOfId(head.id) };
      rows.push(whole);
      characters += charactersOf(whole);
    }
    checkSize(characters);
  }
  return rows;
}

/**
 * How many rows come next: as many as are sound whatever they hold, and where those so far were small, all that is
 * left. A row of a timeline costs the granule that it lies in, and many at once share granules.
 */
function atOnceBy(characters: number, rows: number): number {
  const average = rows === 0 ? Number.POSITIVE_INFINITY : characters / rows;
  return Math.max(ROWS_AT_ONCE, Math.floor(ANSWER_BYTES_MAX / 4 / (average + ROW_BYTES)));
}

type Some = { heads: readonly EventHead[]; from: number; atOnce: number; how: Reading };

/** More than ROWS_AT_ONCE only if their answer is not too large after all; that is for the engine to say. */
async function someOf(clickhouse: ClickHouse, account: string, { heads, from, atOnce, how }: Some) {
  const some = heads.slice(from, from + atOnce);
  if (some.length > ROWS_AT_ONCE) {
    try {
      const bounded = { ...how, bytesMax: ANSWER_BYTES_MAX };
      return { some, rest: await restOf(clickhouse, account, some, bounded) };
    } catch (error) {
      if (!(error instanceof ClickHouseError && error.codeName === 'TOO_MANY_ROWS_OR_BYTES')) throw error;
    }
  }
  const few = some.slice(0, ROWS_AT_ONCE);
  return { some: few, rest: await restOf(clickhouse, account, few, how) };
}

/**
 * By id. Looked for at their positions: to find them by key costs as much again as to read them. A part that has been
 * merged since is not there any more, and what was in it is then searched for by key.
 */
async function restOf(
  clickhouse: ClickHouse,
  account: string,
  heads: readonly EventHead[],
  { payload = 'full', signal, bytesMax }: Reading & { bytesMax?: number },
): Promise<Map<string, EventRest>> {
  const columns = restColumns(payload);
  const placed = await clickhouse.query<EventRest>(
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
  const rest = new Map(placed.map((row) => [row.id, row]));
  const moved = heads.filter((head) => !rest.has(head.id));
  for (const row of await fetchRows<EventRest>(clickhouse, account, { keys: moved, columns, signal, bytesMax }))
    rest.set(row.id, row);
  return rest;
}

/** The rows of a few keys, in no order. One that has gone meanwhile is left out. */
export async function rowsByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
  { payload, signal }: Reading = {},
): Promise<EventRow[]> {
  const rows = await fetchRows<Omit<EventRow, 'payload'> & { payload?: string }>(clickhouse, account, {
    ...{ keys, columns: rowColumns(payload), signal },
  });
  return rows.map((row) => ({ payload: '', ...row }));
}

/** What the audit log holds of the events of these keys, in no order. */
export async function auditedByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
): Promise<AuditedRow[]> {
  return fetchRows<AuditedRow>(clickhouse, account, { keys, columns: AUDITED_COLUMNS });
}

export type Reading = { payload?: PayloadMode | undefined; signal?: AbortSignal | undefined };

export function charactersOf({ payload, payload_preview = '' }: Pick<EventRow, 'payload' | 'payload_preview'>): number {
  return payload.length + payload_preview.length;
}

/** Throws PageTooLarge. */
export function checkSize(characters: number): void {
  if (characters > PAGE_PAYLOAD_MAX) throw new PageTooLarge(`more than ${PAGE_PAYLOAD_MAX} characters of payload`);
}

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
  const bound =
    bytesMax === undefined ? {} : { max_result_bytes: String(bytesMax), result_overflow_mode: 'throw' as const };
  return { settings: { optimize_use_projections: 0, ...bound }, ...(signal === undefined ? {} : { signal }) };
}

/** Of texts of one length. */
const earlier = (a: string, b: string) => (a < b ? a : b);
const later = (a: string, b: string) => (a < b ? b : a);

const ALLOWED_RESULT = '{"outcome":"allowed","reason":null,"policy_id":null,"matches":[]}';

function payloadOf({ payload, payload_bytes, payload_preview }: EventRow): string {
  if (payload_bytes === undefined) return `"payload":${payload}`;
  const preview = payload_preview === undefined ? '' : `"payload_preview":${JSON.stringify(payload_preview)},`;
  return `${preview}"payload_bytes":${payload_bytes}`;
}

/** The Event object of the API as JSON text. */
export function renderEvent(row: EventRow): string {
  const trace = row.trace_id === '' ? '' : `"trace_id":${JSON.stringify(row.trace_id)},`;
  return (
    `{"id":"${row.id}","agent_id":"${row.agent_id}","type":"${row.type}",${payloadOf(row)},${trace}` +
    `"timestamp":"${exactIsoTime(row.timestamp_ms)}","received_at":"${isoTime(row.received_at_ms)}",` +
    `"policy_result":${row.policy_result === '' ? ALLOWED_RESULT : row.policy_result}}`
  );
}
