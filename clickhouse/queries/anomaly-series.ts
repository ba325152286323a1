// What an agent did around an anomaly, as its detector saw it: tokens of completions, the share of errors by the
// minute, events in ten seconds (GET /v1/anomalies/{id}/series). Recomputed from the events by their arrival, as the
// detectors count; nothing of it is kept. Bounded: so many completions, so many windows. Events that have expired, or
// were erased, are missing.
import type { Anomaly, SeriesPoint } from '../../schemas/anomaly.ts';
import type { ClickHouse } from '../client.ts';
import { instant, isoTime, QueryConditions } from './conditions.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Completions before the flagged one (itself among them) and behind it, and how far away they may be. */
const TOKENS = { before: 101, after: 20, beforeMs: 14 * DAY_MS, afterMs: DAY_MS };
/** Windows as the detectors have them, and the time around the moment in which the anomaly was seen. */
const RATES = {
  error_rate: { bucketMs: MINUTE_MS, beforeMs: 60 * MINUTE_MS, afterMs: 30 * MINUTE_MS },
  volume_spike: { bucketMs: 10_000, beforeMs: 10 * MINUTE_MS, afterMs: 5 * MINUTE_MS },
};

type Series = { bucketMs: number | null; points: SeriesPoint[] };

/** The series behind an anomaly. A `blocked_event` has nothing to draw: no points. */
export async function anomalySeries(clickhouse: ClickHouse, account: string, anomaly: Anomaly): Promise<Series> {
  const { kind } = anomaly;
  if (kind === 'blocked_event') return { bucketMs: null, points: [] };
  if (kind === 'token_spike') return { bucketMs: null, points: await tokens(clickhouse, account, anomaly) };
  return rates(clickhouse, account, { anomaly, kind });
}

async function tokens(clickhouse: ClickHouse, account: string, anomaly: Anomaly): Promise<SeriesPoint[]> {
  const seenMs = Date.parse(anomaly.created_at);
  const part = async (range: string, order: 'ASC' | 'DESC', limit: number) => {
    const where = new QueryConditions(account)
      .equal('agent_id', anomaly.agent_id)
      .and("type = 'completion' AND tokens_used IS NOT NULL")
      .and(range, { seen: seenMs, from: seenMs - TOKENS.beforeMs, to: seenMs + TOKENS.afterMs });
    const rows = await clickhouse.query<{ id: string; at_ms: number; value: number }>(
      `SELECT id, toUnixTimestamp64Milli(received_at) AS at_ms, tokens_used AS value FROM events
       WHERE ${where.sql} ORDER BY received_at ${order}, id ${order} LIMIT {limit:UInt64}`,
      { ...where.params, limit },
      PLAIN,
    );
    return rows.map(({ id, at_ms, value }): SeriesPoint => ({ at: isoTime(at_ms), value, event_id: id }));
  };
  const [from, seen, to] = [instant('from'), instant('seen'), instant('to')];
  const [before, after] = await Promise.all([
    part(`received_at > ${from} AND received_at <= ${seen}`, 'DESC', TOKENS.before),
    part(`received_at > ${seen} AND received_at <= ${to}`, 'ASC', TOKENS.after),
  ]);
  return [...before.reverse(), ...after];
}

/** Windows end where the anomaly was seen, so that what was flagged is one of them. */
async function rates(
  clickhouse: ClickHouse,
  account: string,
  { anomaly, kind }: { anomaly: Anomaly; kind: keyof typeof RATES },
): Promise<Series> {
  const { bucketMs, beforeMs, afterMs } = RATES[kind];
  const fromMs = Date.parse(anomaly.created_at) - beforeMs + 1;
  const count = (beforeMs + afterMs) / bucketMs;
  const where = new QueryConditions(account)
    .equal('agent_id', anomaly.agent_id)
    .and(`received_at BETWEEN ${instant('from')} AND ${instant('to')}`, {
      from: fromMs,
      to: fromMs + count * bucketMs - 1,
    });
  const rows = await clickhouse.query<{ slot: number; n: number; errors: number }>(
    `SELECT intDiv(toUnixTimestamp64Milli(received_at) - {from:Int64}, ${bucketMs}) AS slot, count() AS n, countIf(type = 'error') AS errors
     FROM events WHERE ${where.sql} GROUP BY slot`,
    where.params,
    PLAIN,
  );
  const bySlot = new Map(rows.map((row) => [row.slot, row]));
  const points = Array.from({ length: count }, (_, i): SeriesPoint => {
    const { n = 0, errors = 0 } = bySlot.get(i) ?? {};
    const value = kind === 'volume_spike' ? n : n === 0 ? null : errors / n;
    return { at: isoTime(fromMs + i * bucketMs), value };
  });
  return { bucketMs, points };
}

const PLAIN = { settings: { optimize_use_projections: 0 } } as const;
