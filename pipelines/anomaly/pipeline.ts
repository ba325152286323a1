// The anomaly pipeline (step 15 of the path: beside the store). Event streams, digests only -> table `anomalies`.
//
//   decode   entry -> digests                                       else the entry is parked
//   plan     which agents have been deleted: theirs are dropped     kept in the batch's manifest
//   flag     each kind looks at each digest, in order of arrival
//   insert   with a token, a month at a time
//   ack      watermark: a list of anomalies can wait for it         (drain.ts)
//
// Exactly once: an anomaly's id and content follow from what was flagged, and the table replaces rows of equal key.
// A batch without anomalies is acknowledged and nothing else. An error, also a refusal of rows, is tried again for ever:
// these rows are our own making, so a refused one is a bug to be mended, not an entry to be set aside.

import type { ClickHouse } from '../../clickhouse/client.ts';
import type { Anomaly } from '../../schemas/anomaly.ts';
import type { AnomalyKind as AnomalyKindName } from '../../schemas/common.ts';
import { decodeEntry, type EventDigest } from '../../schemas/entry.ts';
import { derivedId } from '../../src/ids.ts';
import type { Metrics } from '../../src/metrics.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import type { ParkedEntry, StreamEntry } from '../../src/streams/consume.ts';
import { checkDigest } from '../digests.ts';
import type { Batch, Decoded, Parked, Work } from '../drain.ts';
import { deletedAgents } from '../tombstones.ts';
import { blockedEvent } from './blocked-event.ts';

export type Flag = Pick<Anomaly, 'severity' | 'observed' | 'baseline' | 'score' | 'message'>;

/** One kind of anomaly. */
export type AnomalyKind = { kind: AnomalyKindName; flag(event: EventDigest): Flag | null };

const KINDS: readonly AnomalyKind[] = [blockedEvent];

type Plan = { erased: string[] };
type AnomalyRow = Omit<Anomaly, 'timestamp' | 'created_at'> & {
  account_id: string;
  timestamp: string;
  created_at: string;
};
type Flagged = { row: AnomalyRow; month: string };

export type AnomalyOptions = {
  redis: Commands;
  keys: Keys;
  clickhouse: Pick<ClickHouse, 'insertRows'>;
  metrics: Metrics;
};

export class AnomalyPipeline implements Work<EventDigest[]> {
  readonly #options: AnomalyOptions;

  constructor(options: AnomalyOptions) {
    this.#options = options;
  }

  decode(entry: StreamEntry): Decoded<EventDigest[]> {
    const { digests } = decodeEntry(entry.fields);
    for (const digest of digests) checkDigest(digest);
    return { value: digests, rows: digests.length, oldestMs: digests[0]?.receivedAt ?? Date.now() };
  }

  hasEffect(values: readonly EventDigest[][]): boolean {
    return values.some((digests) => digests.some((digest) => KINDS.some((kind) => kind.flag(digest) !== null)));
  }

  async plan(values: readonly EventDigest[][]): Promise<Plan> {
    const { redis, keys } = this.#options;
    return { erased: await deletedAgents(redis, keys, values.flat()) };
  }

  async apply(batch: Batch<EventDigest[]>): Promise<ParkedEntry[]> {
    const { clickhouse, metrics } = this.#options;
    for (const [month, rows] of byMonth(flagAll(batch))) {
      await batch.ensureHeld();
      await clickhouse.insertRows(
        'anomalies',
        rows,
        `${batch.stream}:${batch.first}-${batch.last}:anomalies:${month}:${rows.length}`,
      );
      metrics.inc('gatehouse_inserts_total', { table: 'anomalies', result: 'ok' });
    }
    return [];
  }

  settled(batch: Batch<EventDigest[]>, parked: Parked): void {
    const { metrics } = this.#options;
    metrics.inc('gatehouse_batches_total', { pipeline: 'anomaly' });
    if (parked.unreadable > 0) metrics.inc('gatehouse_parked_rows_total', { table: 'anomalies' }, parked.unreadable);
    if (batch.plan === undefined) return;
    for (const { row } of flagAll(batch)) {
      metrics.inc('gatehouse_anomalies_total', { kind: row.kind });
      metrics.inc('gatehouse_stored_rows_total', { table: 'anomalies' });
    }
  }
}

function flagAll(batch: Batch<EventDigest[]>): Flagged[] {
  const erased = new Set((batch.plan as Plan).erased);
  const flagged: Flagged[] = [];
  for (const event of batch.values.flat()) {
    if (erased.has(event.agent)) continue;
    for (const { kind, flag } of KINDS) {
      const found = flag(event);
      if (found !== null) flagged.push(toRow(event, kind, found));
    }
  }
  return flagged;
}

/** Everything in it comes from the event, its time of flagging too: whoever flags it again writes the same row. */
function toRow(event: EventDigest, kind: AnomalyKindName, flag: Flag): Flagged {
  const row = {
    account_id: event.account,
    id: derivedId('anomaly', event.id),
    agent_id: event.agent,
    event_id: event.id,
    kind,
    ...flag,
    timestamp: sqlTime(event.occurredAt),
    created_at: sqlTime(event.receivedAt),
  };
  return { row, month: row.created_at.slice(0, 7) };
}

function byMonth(flagged: readonly Flagged[]): Map<string, AnomalyRow[]> {
  const months = new Map<string, AnomalyRow[]>();
  for (const { row, month } of flagged) {
    const rows = months.get(month);
    if (rows === undefined) months.set(month, [row]);
    else rows.push(row);
  }
  return months;
}

/** `2026-11-20 17:28:00.123`, UTC. */
function sqlTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace('T', ' ').slice(0, -1);
}
