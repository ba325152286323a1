// What was decided of pending events, and until when the others wait (of who makes a sequence's memory known). By the
// ids of a page of events, which bound it.
import type { Outcome } from '../../schemas/closed-sets.ts';
import type { ClickHouse } from '../client.ts';

/** Times are epoch ms. `decidedMs` null: nothing was decided. */
export type WaitState = { approvalId: string; outcome: Outcome; decidedMs: number | null; expiresMs: number };

/** By the id of the event; what is not there is not stored yet. */
export async function waitStates(
  clickhouse: ClickHouse,
  account: string,
  events: readonly string[],
): Promise<Map<string, WaitState>> {
  if (events.length === 0) return new Map();
  const rows = await clickhouse.query<{
    event_id: string;
    id: string;
    outcome: Outcome;
    decided_ms: number | null;
    expires_ms: number;
  }>(
    `SELECT event_id, id, outcome, toUnixTimestamp64Milli(decided_at) AS decided_ms,
       toUnixTimestamp64Milli(expires_at) AS expires_ms
     FROM approvals FINAL WHERE account_id = {account:String} AND event_id IN {events:Array(String)}`,
    { account, events },
  );
  return new Map(
    rows.map(({ event_id, id, outcome, decided_ms, expires_ms }) => [
      event_id,
      {
        ...{ approvalId: id, outcome, expiresMs: Number(expires_ms) },
        decidedMs: decided_ms === null ? null : Number(decided_ms),
      },
    ]),
  );
}
