// Event rows as they come from ClickHouse and go into an answer. The payload is text from end to end: it is put into the answer, never parsed.
// Lists work in two steps: which events (from a light projection or the primary key, without payloads), then these rows by primary key.
// The first pages of an agent come in one (list-events.ts).
import type { EventType, Outcome } from '../../schemas/common.ts';
import type { ClickHouse } from '../client.ts';
import { isoTime } from './conditions.ts';

export type EventRow = {
  id: string;
  agent_id: string;
  type: EventType;
  /** '' for none. */
  trace_id: string;
  timestamp_ms: number;
  received_at_ms: number;
  /** JSON text. */
  payload: string;
  outcome: Outcome;
  /** JSON text; '' for allowed without a match. */
  policy_result: string;
};

/** What the audit log tells of an event; nothing that can be large. */
export type AuditedRow = Omit<EventRow, 'trace_id' | 'payload' | 'policy_result'> & {
  reason: string;
  policy_id: string;
  approval_id: string;
  request_id: string;
};

/** Where a row is, by primary key. */
export type EventKey = { agent_id: string; timestamp_ms: number; id: string };

export const KEY_COLUMNS = 'agent_id, toUnixTimestamp64Milli(timestamp) AS timestamp_ms, id';

const TIMES =
  'toUnixTimestamp64Milli(timestamp) AS timestamp_ms, toUnixTimestamp64Milli(received_at) AS received_at_ms';
/** Rows of a page lie in many granules, and there each column costs: a timeline of 50 events 57 ms with nine columns, 70 with thirteen. */
export const ROW_COLUMNS = `id, agent_id, type, trace_id, ${TIMES}, payload, outcome, policy_result`;
const AUDITED_COLUMNS = `id, agent_id, type, ${TIMES}, outcome, reason, policy_id, approval_id, request_id`;

/** Rows fetched at once: payloads of 1 MiB, escaped, stay under what the embedded engine answers in one piece. */
export const ROWS_AT_ONCE = 100;

/** Characters of payload in one page. An answer is made in memory, so it must have a bound: this is 64 events of 1 MiB. */
export const PAGE_PAYLOAD_MAX = 64 * 1024 * 1024;

/** The page holds more than can be answered at once; fewer rows fit. */
export class PageTooLarge extends Error {
  override name = 'PageTooLarge';
}

/**
 * The rows of these keys, in their order. A row that has gone meanwhile (erased, expired) is left out.
 * Throws PageTooLarge before more than PAGE_PAYLOAD_MAX and one step of rows are held.
 */
export async function rowsByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
  signal?: AbortSignal,
): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  let characters = 0;
  for (let i = 0; i < keys.length; i += ROWS_AT_ONCE) {
    const some = keys.slice(i, i + ROWS_AT_ONCE);
    for (const row of await fetchRows<EventRow>(clickhouse, account, { keys: some, columns: ROW_COLUMNS, signal })) {
      rows.push(row);
      characters += row.payload.length;
    }
    checkSize(characters);
  }
  return inOrder(keys, rows);
}

/** The same for the audit log. */
export async function auditedByKey(
  clickhouse: ClickHouse,
  account: string,
  keys: readonly EventKey[],
): Promise<AuditedRow[]> {
  return inOrder(keys, await fetchRows<AuditedRow>(clickhouse, account, { keys, columns: AUDITED_COLUMNS }));
}

function inOrder<Row extends { id: string }>(keys: readonly EventKey[], rows: readonly Row[]): Row[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return keys.flatMap((key) => byId.get(key.id) ?? []);
}

/** Throws PageTooLarge. */
export function checkSize(characters: number): void {
  if (characters > PAGE_PAYLOAD_MAX) throw new PageTooLarge(`more than ${PAGE_PAYLOAD_MAX} characters of payload`);
}

async function fetchRows<Row>(
  clickhouse: ClickHouse,
  account: string,
  { keys, columns, signal }: { keys: readonly EventKey[]; columns: string; signal?: AbortSignal | undefined },
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
    { settings: { optimize_use_projections: 0 }, ...(signal === undefined ? {} : { signal }) },
  );
}

/** Of texts of one length. */
const earlier = (a: string, b: string) => (a < b ? a : b);
const later = (a: string, b: string) => (a < b ? b : a);

const ALLOWED_RESULT = '{"outcome":"allowed","reason":null,"policy_id":null,"matches":[]}';

/** The Event object of the API as JSON text. */
export function renderEvent(row: EventRow): string {
  const trace = row.trace_id === '' ? '' : `"trace_id":${JSON.stringify(row.trace_id)},`;
  return (
    `{"id":"${row.id}","agent_id":"${row.agent_id}","type":"${row.type}","payload":${row.payload},${trace}` +
    `"timestamp":"${isoTime(row.timestamp_ms)}","received_at":"${isoTime(row.received_at_ms)}",` +
    `"policy_result":${row.policy_result === '' ? ALLOWED_RESULT : row.policy_result}}`
  );
}
