// One event of one agent (GET /v1/agents/{id}/events/{event_id}). The id says when the event arrived, so only the
// granules of that moment are read.
import { timeOfId } from '../../src/common/ids.ts';
import type { ClickHouse } from '../client.ts';
import { instant, QueryConditions } from './conditions.ts';
import {
  charactersOf,
  checkSize,
  type EventKey,
  type EventRow,
  KEY_COLUMNS,
  type Reading,
  ROWS_AT_ONCE,
  rowsByKey,
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
 * Events by their ids, in no order; those that are not stored, or not yet, are left out. `eventIds` must be well formed
 * (isId). Throws PageTooLarge.
 */
export async function getEvents(
  clickhouse: ClickHouse,
  account: string,
  eventIds: readonly string[],
  { settle, ...how }: Settling & Reading = {},
): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  for (let i = 0; i < eventIds.length; i += ROWS_AT_ONCE) {
    const some = eventIds.slice(i, i + ROWS_AT_ONCE);
    const times = some.map(timeOfId);
    const where = new QueryConditions(account)
      .and('id IN {ids:Array(String)}', { ids: some })
      .and(`received_at BETWEEN ${instant('from')} AND ${instant('to')}`, {
        from: Math.min(...times),
        to: Math.max(...times),
      });
    const keys = await clickhouse.query<EventKey>(
      `SELECT ${KEY_COLUMNS} FROM events WHERE ${where.sql}`,
      where.params,
      { settings: { preferred_optimize_projection_name: 'by_arrival' } },
    );
    rows.push(...(await rowsByKey(clickhouse, account, keys, how)));
    checkSize(rows.reduce((sum, row) => sum + charactersOf(row), 0));
  }
  return withFinalOutcomes(clickhouse, account, { rows, settle });
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
  const rows = await rowsByKey(clickhouse, account, keys);
  const [row] = await withFinalOutcomes(clickhouse, account, { rows, settle });
  return row ?? null;
}
