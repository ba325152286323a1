// The anomaly pipeline of one partition (beside the store). Event stream, summaries only -> table
// `anomalies`, signals `anomaly_detected`.
//
//   decode     entry -> summaries                                             else the entry is dead-lettered
//   prepare    baselines of the batch's agents; each event is counted and judged, in order
//   plan       findings, and which of their agents have been deleted        kept in the batch's manifest
//   insert     with a token, a month at a time
//   signals    one for each anomaly
//   save       baselines of flagged agents                                  then the ack and its watermark (drain.ts)

import type { ClickHouse } from '../../clickhouse/client.ts';
import type { EventSummary } from '../../schemas/entry.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import type { Lease } from '../../src/streams/lease.ts';
import { appendSignals } from '../../src/streams/signals.ts';
import type { StreamEntry } from '../../src/streams/window.ts';
import type { Batch } from '../batch.ts';
import { countedInsert } from '../counted-insert.ts';
import type { Applied, Committed, Decoded, Work } from '../drain.ts';
import { readEntry } from '../event-summaries.ts';
import { deletedAgents } from '../tombstones.ts';
import { BaselineStore, type CachedBaseline } from './baseline-store.ts';
import { blockedEvent } from './blocked-event.ts';
import type { Finding } from './finding.ts';
import { inEpisode, observe, setEpisode } from './observe.ts';
import { type Anomalous, signalOf, toAnomalous } from './record-anomaly.ts';

// Exactly once: what a detector finds depends on the agent's baseline, which moves on. So findings are made once and
// kept in the manifest; a new owner that finds one takes its findings from there, and makes the very same rows and
// signals of them. Killed before the manifest: nothing of the batch is in any kept baseline, and the next owner finds
// the same again. Killed after it: rows are replaced by equal ones, signals are deduplicated by their ids, counted
// entries are not counted twice. `blocked_event` needs no baseline: it follows from the event, and takes no room in the
// manifest.
//
// A batch without anomalies is acknowledged and nothing else; its baselines follow within about a second
// (child-supervisor.ts). An error, also a refusal of rows, is tried again forever: these rows are our own making, so a
// refused one is a bug to be mended, not an entry to be set aside.

/** An entry with its position in the stream. */
type Arrived = { ms: number; seq: number; summaries: EventSummary[] };

/** A finding at an event; in the manifest. At most three an event, 100 bytes each, of the 20,000 events of a batch. */
type EventFinding = { event: string } & Finding;
/** `flagged` is missing in manifests of versions that knew no baselines. */
type Plan = { erased: string[]; flagged?: EventFinding[] };

type AnomalyOptions = {
  redis: Commands;
  keys: Keys;
  clickhouse: Pick<ClickHouse, 'insertRows'>;
  metrics: Metrics;
  partition: number;
};

export class AnomalyPipeline implements Work<Arrived, Plan> {
  readonly #options: AnomalyOptions;
  readonly #baselines: BaselineStore;
  /** The batch in hand: values that were inspected, what was found, whether some event was blocked. */
  #looked = 0;
  #found: EventFinding[] = [];
  #blocked = false;

  constructor(options: AnomalyOptions) {
    this.#options = options;
    this.#baselines = new BaselineStore(options);
  }

  begin(lease: Lease): void {
    this.#baselines.begin(lease);
    this.#forgetBatch();
  }

  end(): Promise<void> {
    return this.#baselines.end();
  }

  decode(entry: StreamEntry): Decoded<Arrived> {
    const { summaries } = readEntry(entry.fields);
    const [ms, seq] = entry.id.split('-').map(Number) as [number, number];
    return { value: { ms, seq, summaries }, rows: summaries.length, oldestMs: summaries[0]?.receivedAt ?? Date.now() };
  }

  async prepare(values: readonly Arrived[], plan?: Plan): Promise<boolean> {
    await this.#look(values);
    if (plan !== undefined) this.#agree(plan.flagged ?? [], values);
    return plan !== undefined || this.#blocked || this.#found.length > 0;
  }

  async plan(values: readonly Arrived[]): Promise<Plan> {
    await this.#look(values);
    const { redis, keys } = this.#options;
    const flagged = this.#found;
    const ids = new Set(flagged.map(({ event }) => event));
    const anomalous = eventsOf(values).filter((event) => ids.has(event.id) || blockedEvent(event) !== null);
    return { erased: await deletedAgents(redis, keys, anomalous), flagged };
  }

  async apply(batch: Batch<Arrived, Plan>): Promise<Applied> {
    const { clickhouse, metrics, redis, keys } = this.#options;
    const anomalies = anomaliesOf(batch.values, batch.plan);
    for (const [month, rows] of byMonth(anomalies)) {
      await batch.ensureHeld();
      const token = `${batch.stream}:${batch.first}-${batch.last}:anomalies:${month}:${rows.length}`;
      await countedInsert(metrics, 'anomalies', async () => {
        await clickhouse.insertRows('anomalies', rows, token);
        // A token may be known whose rows are not there (store/verify-insert.ts); an anomaly that is written twice is
        // one.
        if (batch.try !== 'first') await clickhouse.insertRows('anomalies', rows);
      });
    }
    await batch.ensureHeld();
    await appendSignals(redis, keys, anomalies.map(signalOf));
    const flagged = new Set(batch.plan.flagged?.map(({ event }) => event));
    if (flagged.size > 0)
      await this.#baselines.save(eventsOf(batch.values).flatMap(({ id, agent }) => (flagged.has(id) ? agent : [])));
    return { deadLetters: [], writes: [] };
  }

  committed({ values, plan, deadLettered }: Committed<Arrived, Plan>): void {
    const { metrics } = this.#options;
    metrics.inc('gatehouse_batches_total', { pipeline: 'anomaly' });
    if (deadLettered.unreadable > 0)
      metrics.inc('gatehouse_dead_letter_rows_total', { table: 'anomalies' }, deadLettered.unreadable);
    this.#forgetBatch();
    this.#baselines.settled();
    if (plan === undefined) return;
    for (const { row } of anomaliesOf(values, plan)) {
      metrics.inc('gatehouse_anomalies_total', { kind: row.kind });
      metrics.inc('gatehouse_stored_rows_total', { table: 'anomalies' });
    }
  }

  /** Counts and judges what was not inspected yet. Whatever it throws has counted nothing. */
  async #look(values: readonly Arrived[]): Promise<void> {
    const fresh = values.slice(this.#looked);
    const agents = new Set<string>();
    let last = '';
    for (const { summaries } of fresh) {
      for (const { agent } of summaries) {
        if (agent !== last) agents.add(agent);
        last = agent;
      }
    }
    await this.#baselines.load(agents);
    for (const value of fresh) this.#count(value);
    this.#looked = values.length;
  }

  #count({ ms, seq, summaries }: Arrived): void {
    let kept: CachedBaseline | undefined;
    let included = false;
    // Entries hold what one front took in one tick: often many events of one agent, side by side.
    const begun = new Set<CachedBaseline>();
    for (const event of summaries) {
      this.#blocked ||= blockedEvent(event) !== null;
      if (kept?.agent !== event.agent) {
        kept = this.#baselines.get(event.agent)!;
        const { entryMs, entrySeq } = kept.baseline;
        included = !begun.has(kept) && (ms < entryMs || (ms === entryMs && seq <= entrySeq));
        if (!included) this.#begin(kept, ms, seq, begun);
      }
      if (!included) this.#observe(kept, event);
    }
  }

  #begin(kept: CachedBaseline, ms: number, seq: number, begun: Set<CachedBaseline>): void {
    begun.add(kept);
    kept.baseline.entryMs = ms;
    kept.baseline.entrySeq = seq;
    this.#baselines.changed(kept);
  }

  #observe(kept: CachedBaseline, event: EventSummary): void {
    const before = inEpisode(kept.baseline);
    const findings = observe(kept.baseline, event);
    if (before && !inEpisode(kept.baseline)) this.#baselines.hurry(kept);
    for (const finding of findings) this.#found.push({ event: event.id, ...finding });
  }

  /**
   * Sets episodes as an earlier owner found them, also where its baselines were a second ahead of those that it kept:
   * an episode that it flagged is on, one that it did not flag will be when the next event says so.
   */
  #agree(flagged: readonly EventFinding[], values: readonly Arrived[]): void {
    const agents = new Map(eventsOf(values).map(({ id, agent }) => [id, agent]));
    const name = ({ event, kind }: EventFinding) => `${agents.get(event)} ${kind}`;
    const [said, found] = [new Set(flagged.map(name)), new Set(this.#found.map(name))];
    const settle = (findings: readonly EventFinding[], others: ReadonlySet<string>, isOn: boolean) => {
      for (const one of findings) {
        const kept = this.#baselines.get(agents.get(one.event) ?? '');
        if (kept !== undefined && !others.has(name(one))) setEpisode(kept.baseline, one.kind, isOn);
      }
    };
    settle(flagged, found, true);
    settle(this.#found, said, false);
  }

  #forgetBatch(): void {
    this.#looked = 0;
    this.#found = [];
    this.#blocked = false;
  }
}

function eventsOf(values: readonly Arrived[]): EventSummary[] {
  return values.flatMap(({ summaries }) => summaries);
}

function anomaliesOf(values: readonly Arrived[], { erased, flagged = [] }: Plan): Anomalous[] {
  const gone = new Set(erased);
  const findings = new Map<string, EventFinding[]>();
  for (const found of flagged) findings.set(found.event, [...(findings.get(found.event) ?? []), found]);
  const anomalies: Anomalous[] = [];
  for (const event of eventsOf(values)) {
    if (gone.has(event.agent)) continue;
    const blocked = blockedEvent(event);
    if (blocked !== null) anomalies.push(toAnomalous(event, blocked));
    for (const finding of findings.get(event.id) ?? []) anomalies.push(toAnomalous(event, finding));
  }
  return anomalies;
}

function byMonth(anomalies: readonly Anomalous[]): Map<string, Anomalous['row'][]> {
  const months = new Map<string, Anomalous['row'][]>();
  for (const { row, month } of anomalies) {
    const rows = months.get(month);
    if (rows === undefined) months.set(month, [row]);
    else rows.push(row);
  }
  return months;
}
