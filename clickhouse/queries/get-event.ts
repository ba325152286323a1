// One event of one agent (GET /v1/agents/{id}/events/{event_id}). The id says when the event arrived, so only the
// granules of that moment are read.
import { isId, timeOfId } from '../../src/common/ids.ts';
import type { ClickHouse } from '../client.ts';
import { instant, QueryConditions } from './conditions.ts';
import {
  type EventKey,
  type EventRow,
  KEY_COLUMNS,
  payloadEndsOf,
  type Reading,
  rowsByKey,
  summaryOf,
} from './event-rows.ts';
import { type Settling, withFinalOutcomes } from './final-outcome.ts';

/**
 * Reads what a policy needs to see of an event that was stored; null: it is not, or not yet. `occurredMs`: epoch ms.
 */
export function storedEvents(clickhouse: ClickHouse) {
  return async (account: string, agentId: string, eventId: string) => {
    const row = await getEvent(clickhouse, account, agentId, eventId);
    if (row === null) return null;
    const { type, trace_id: traceId, timestamp_ms: occurredMs, payload: payloadText } = row;
    return { type, traceId: traceId === '' ? undefined : traceId, occurredMs, payloadText };
  };
}

/**
 * Events by their ids, which must be well formed (isId), in their order; those that are not stored, or not yet, are
 * left out. `ids`: how many of them a page has room for.
 */
export async function getEvents(
  clickhouse: ClickHouse,
  account: string,
  eventIds: readonly string[],
  { settle, ...how }: Settling & Reading = {},
): Promise<{ events: EventRow[]; ids: number }> {
  if (eventIds.length === 0) return { events: [], ids: 0 };
  const byId = await keysOf(clickhouse, account, eventIds);
  const keys = eventIds.flatMap((id) => byId.get(id) ?? []);
  const { rows, heads } = await rowsByKey(clickhouse, account, keys, how);
  const events = await withFinalOutcomes(clickhouse, account, { rows, settle });
  return { events, ids: heads < keys.length ? eventIds.indexOf(keys[heads]!.id) : eventIds.length };
}

/** By id, what each of these events says in a line; those that are not stored, or not yet, are left out. */
export async function summariesOf(
  clickhouse: ClickHouse,
  account: string,
  eventIds: readonly string[],
): Promise<Map<string, string>> {
  const known = [...new Set(eventIds)].filter((id) => isId('event', id));
  if (known.length === 0) return new Map();
  const keys = await keysOf(clickhouse, account, known);
  const ends = await payloadEndsOf(clickhouse, account, [...keys.values()]);
  return new Map([...ends].map(([id, found]) => [id, summaryOf(found)]));
}

async function keysOf(
  clickhouse: ClickHouse,
  account: string,
  eventIds: readonly string[],
): Promise<Map<string, EventKey>> {
  const times = eventIds.map(timeOfId);
  const where = new QueryConditions(account)
    .and('id IN {ids:Array(String)}', { ids: eventIds })
    .and(`received_at BETWEEN ${instant('from')} AND ${instant('to')}`, {
      from: Math.min(...times),
      to: Math.max(...times),
    });
  const found = await clickhouse.query<EventKey>(`SELECT ${KEY_COLUMNS} FROM events WHERE ${where.sql}`, where.params, {
    settings: { preferred_optimize_projection_name: 'by_arrival' },
  });
  return new Map(found.map((key) => [key.id, key]));
}

/** Null when the account's agent has no such event. `eventId` must be well formed (isId). */
export async function getEvent(
  clickhouse: ClickHouse,
  account: string,
  agentId: string,
  eventId: string,
  { settle }: Settling = {},
): Promise<EventRow | null> {
  const where = new QueryConditions(account)
    .equal('agent_id', agentId)
    .equal('id', eventId)
    // The id is minted with the very millisecond of arrival (src/ingest/ingest.ts).
    .and(`received_at = ${instant('received')}`, { received: timeOfId(eventId) });
  const keys = await clickhouse.query<EventKey>(
    `SELECT ${KEY_COLUMNS} FROM events WHERE ${where.sql} LIMIT 1`,
    where.params,
    {
      settings: { preferred_optimize_projection_name: 'by_arrival' },
    },
  );
  const { rows } = await rowsByKey(clickhouse, account, keys);
  const [row] = await withFinalOutcomes(clickhouse, account, { rows, settle });
  return row ?? null;
}
