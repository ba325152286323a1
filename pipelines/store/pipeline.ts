// The store pipeline, written out; read this file first. Event streams -> table `events` (the last).
//
//   decode   entry -> rows, bytes that are never parsed                       else the entry is dead-lettered
//   plan     which agents have been deleted: their rows are dropped           kept in the batch's manifest
//   ask      ClickHouse which rows it has, where an earlier try is too old for tokens or was taken apart
//   form     a row whose columns do not end where it ends is dead-lettered unsent
//   words    what is searched of each payload, what shadows said and what it cost, behind its row (stored-rows.ts)
//   insert   one insert a month of arrival, with a token; taken apart only if data is refused
//            under load together with other streams' batches: one insert of all their rows (group-insert.ts)
//   chain    what was stored becomes the next entries of its accounts' audit chains     written by the ack (chain.ts)
//   ack      dead letters, chains, acknowledgement, watermark, end of the manifest     (drain.ts)

import { type ClickHouse, ClickHouseError } from '../../clickhouse/client.ts';
import { concurrentDuplicates } from '../../clickhouse/queries/concurrent-duplicates.ts';
import { existingIds } from '../../clickhouse/queries/existing-ids.ts';
import { ENTRY_FIELD, ENTRY_VERSION, type SummarizedRow } from '../../schemas/entry.ts';
import { packAgent } from '../../src/audit/hash.ts';
import { DEAD_LETTER_ROWS_MAX } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import type { BinaryCommandArgs, DeadLetterFields } from '../../src/streams/consume.ts';
import { deadLetterFields } from '../../src/streams/dead-letters.ts';
import type { StreamEntry } from '../../src/streams/window.ts';
import type { Batch } from '../batch.ts';
import type { CommitBarrier } from '../commit-barrier.ts';
import { countedInsert } from '../counted-insert.ts';
import type { Applied, Committed, Decoded, Work } from '../drain.ts';
import { deletedAgents } from '../tombstones.ts';
import { type Chained, ChainWriter } from './chain.ts';
import { ChainRecovery } from './chain-recovery.ts';
import { claimToken, insertGroup } from './group-insert.ts';
import { type BadRow, insertRows, TableRefuses } from './insert.ts';
import { byMonth, readRows, wellFormed } from './rows.ts';
import { storedRows } from './stored-rows.ts';
import { insertLost } from './verify-insert.ts';

// Exactly once, because whatever happens between two steps, the same rows are sent under the same token:
// - Killed before the manifest: nothing was written; the next owner forms its own batch.
// - Killed after the manifest, before or after the insert: the next owner reads the manifest, makes the very same batch
//   of the same entries, and ClickHouse drops what it has by the token.
// - A paused owner whose insert is still on its way while the next one inserts: same rows, same token, one stays.
//   If it wakes up before sending, its lease is checked by our own clock right before each insert.
// - "Token wins over data": ClickHouse drops rows whose token it knows without inspecting them. So a token must change
//   when the rows do; it holds the batch's ids, the month and a hash of the row ids (insert.ts).
// - An agent deleted between the first owner's insert and the second's: two checks would give two different sets of
//   rows, so two tokens, and the neighbours' rows would be stored twice. So the answer of the first check is the
//   plan in the manifest and the second owner does not ask again. Rows that so slip through are stored before the ack,
//   and the erasure, which waits for the watermark, deletes them; a late duplicate of that insert is still dropped by
//   its token.
// - A manifest older than TOKEN_TRUST_MS: the window of known tokens may have moved on, so ClickHouse is asked which
//   rows it has. A younger one is deliberately not asked but sent again: the same token also completes what hangs on
//   the events table (its views), should the kill have torn that.
// - An engine killed between the token's log and the part knows a token whose rows it does not have. So where a try has
//   ended without an answer, rows are asked for after the insert, and what is not there is inserted under another token
//   (verify-insert.ts).
// - Inserted with others: the manifest names the group's token, and a process that does not know how that insert ended
//   claims it first.
// - Data refused: the plan notes `split` before the first half is inserted, and a process that takes over asks first,
//   too.
// Dead letters are written with the ack in one step. Anything else that fails is tried again forever: entries wait in
// the stream.

const GROUP = 'store';

type Plan = {
  /** Agents whose rows are dropped. */
  erased: string[];
  /** Parts of the batch may have been inserted by themselves. */
  split?: true;
  /** Token of the insert that holds this batch's rows and others'. */
  group?: string;
};

type EventStoreOptions = { redis: Commands; keys: Keys; clickhouse: ClickHouse; metrics: Metrics; log: Log };

export class EventStore implements Work<SummarizedRow[], Plan> {
  readonly #options: EventStoreOptions;
  readonly #chain: ChainWriter;
  readonly #recovery: ChainRecovery;

  constructor(options: EventStoreOptions) {
    this.#options = options;
    this.#chain = new ChainWriter(options);
    this.#recovery = new ChainRecovery(options, this.#chain);
  }

  wentBack(stream: string): void {
    this.#recovery.begin(stream);
  }

  compared(stream: string, fromMs: number | null): AsyncIterable<BinaryCommandArgs[]> {
    return this.#recovery.end(stream, fromMs);
  }

  decode(entry: StreamEntry): Decoded<SummarizedRow[]> {
    const rows = readRows(entry.fields);
    return {
      value: rows,
      rows: rows.length,
      oldestMs: rows.reduce((oldest, row) => Math.min(oldest, row.summary.receivedAt), Date.now()),
    };
  }

  prepare(values: readonly SummarizedRow[][]): boolean {
    return values.some((rows) => rows.length > 0);
  }

  async plan(values: readonly SummarizedRow[][], barrier?: CommitBarrier): Promise<Plan> {
    const { redis, keys } = this.#options;
    const summaries = values.flat().map((row) => row.summary);
    const erased = await deletedAgents(redis, keys, summaries);
    return barrier === undefined ? { erased } : { erased, group: barrier.token };
  }

  async apply(batch: Batch<SummarizedRow[], Plan>): Promise<Applied> {
    const living = livingRows(batch.values, batch.plan);
    const { rows, malformed } = wellFormed(living);
    const bad = badRows(malformed);
    if (!(await this.#insertedWithOthers(batch, rows))) bad.push(...(await this.#insertAlone(batch, rows)));
    const writes = await this.#chain.extend(batch.stream, chainedRows(rows, bad));
    return { deadLetters: bad.map((one) => deadLetterOf(one, batch)), writes };
  }

  /**
   * The way of most batches under load. False: the manifest speaks of no other batch any more, and this one continues
   * by itself.
   */
  async #insertedWithOthers(batch: Batch<SummarizedRow[], Plan>, rows: readonly SummarizedRow[]): Promise<boolean> {
    const { group: token, ...alone } = batch.plan;
    if (token === undefined) return false;
    const insert = {
      token,
      insert: (some: readonly SummarizedRow[], monthly: string) => this.#insert(batch, some, monthly),
      isBadData,
    };
    const part = { rows, ensureHeld: () => batch.ensureHeld() };
    const outcome = batch.barrier ? await batch.barrier.arrive(part, (parts) => insertGroup(parts, insert)) : 'unknown';
    if (outcome === 'done') return true;
    if (outcome === 'alone') {
      await batch.replan(alone);
      return false;
    }
    // Most often it was carried out.
    if ((await this.#existing(rows)).size === rows.length) return true;
    if (batch.try !== 'untracked') {
      const duplicates = (prefix: string) => concurrentDuplicates(this.#options.clickhouse, prefix);
      await claimToken(rows, { ...insert, duplicates });
    }
    await batch.replan({ ...alone, split: true });
    return false;
  }

  async #insertAlone(batch: Batch<SummarizedRow[], Plan>, rows: readonly SummarizedRow[]): Promise<BadRow[]> {
    const bad: BadRow[] = [];
    const isAsked = batch.try === 'untracked' || batch.plan.split === true;
    const existing = isAsked ? await this.#existing(rows) : null;
    for (const [month, same] of byMonth(rows)) {
      const tokenPrefix = `${batch.stream}:${batch.first}-${batch.last}:${month}`;
      const refused = await this.#insertRows(batch, same, { tokenPrefix, existing });
      bad.push(...refused);
      if (batch.try === 'first') continue;
      const answered = without(same, refused).filter((row) => !existing?.has(row.summary.id));
      bad.push(...(await this.#insertLost(batch, answered, tokenPrefix)));
    }
    return bad;
  }

  #existing(rows: readonly SummarizedRow[]): Promise<Set<string>> {
    return existingIds(
      this.#options.clickhouse,
      rows.map((row) => row.summary.id),
    );
  }

  #insertRows(
    batch: Batch<SummarizedRow[], Plan>,
    rows: readonly SummarizedRow[],
    how: { tokenPrefix: string; existing: ReadonlySet<string> | null },
  ): Promise<BadRow[]> {
    return insertRows(rows, {
      ...how,
      insert: (part, token) => this.#insert(batch, part, token),
      isBadData,
      beforeSplit: () => this.#noteSplit(batch),
    });
  }

  #insertLost(
    batch: Batch<SummarizedRow[], Plan>,
    rows: readonly SummarizedRow[],
    tokenPrefix: string,
  ): Promise<BadRow[]> {
    const { clickhouse, log } = this.#options;
    const { first, last } = batch;
    return insertLost(rows, {
      tokenPrefix,
      existing: (some) => this.#existing(some),
      duplicates: (prefix) => concurrentDuplicates(clickhouse, prefix),
      insert: (some, prefix) => this.#insertRows(batch, some, { tokenPrefix: prefix, existing: null }),
      lost: (count, round) => log.error({ first, last, rows: count, round }, 'insert.token_without_rows'),
    });
  }

  async #insert(batch: Batch<SummarizedRow[], Plan>, rows: readonly SummarizedRow[], token: string): Promise<void> {
    const { clickhouse, metrics } = this.#options;
    const stored = await storedRows(
      rows.map(({ bytes }) => bytes),
      (i) => rows[i]!.summary,
    );
    await batch.ensureHeld();
    const startedAt = performance.now();
    try {
      await countedInsert(metrics, 'events', () => clickhouse.insertEvents(stored, token));
    } finally {
      metrics.observe('gatehouse_insert_seconds', { table: 'events' }, (performance.now() - startedAt) / 1000);
    }
  }

  async #noteSplit(batch: Batch<SummarizedRow[], Plan>): Promise<void> {
    if (!batch.plan.split) await batch.replan({ ...batch.plan, split: true });
  }

  committed({ first, last, values, plan, deadLettered }: Committed<SummarizedRow[], Plan>): void {
    const { metrics, log } = this.#options;
    const rows = values.reduce((sum, some) => sum + some.length, 0);
    const living = plan === undefined ? 0 : livingRows(values, plan).length;
    // An entry that cannot be read counts as one event: how many it holds is unknown.
    metrics.inc('gatehouse_taken_events_total', {}, rows + deadLettered.unreadable);
    metrics.inc('gatehouse_stored_rows_total', { table: 'events' }, living - deadLettered.refused);
    metrics.inc(
      'gatehouse_dead_letter_rows_total',
      { table: 'events' },
      deadLettered.refused + deadLettered.unreadable,
    );
    metrics.inc('gatehouse_erased_rows_total', {}, rows - living);
    metrics.inc('gatehouse_batches_total', { pipeline: GROUP });
    if (living > 0) metrics.observe('gatehouse_findable_seconds', {}, (Date.now() - oldestOf(values)) / 1000);
    log.debug({ first, last, rows, living, ...deadLettered }, 'batch.flushed');
  }
}

/** Epoch ms at which the oldest event arrived; those of an entry came in one tick. */
function oldestOf(entries: readonly SummarizedRow[][]): number {
  return entries.reduce((oldest, rows) => Math.min(oldest, rows[0]?.summary.receivedAt ?? oldest), Date.now());
}

const isBadData = (error: unknown) => error instanceof ClickHouseError && !error.canRetry;

function without(rows: readonly SummarizedRow[], bad: readonly BadRow[]): readonly SummarizedRow[] {
  if (bad.length === 0) return rows;
  const refused = new Set(bad.map(({ row }) => row));
  return rows.filter((row) => !refused.has(row));
}

function livingRows(values: readonly SummarizedRow[][], plan: Plan): SummarizedRow[] {
  const rows = values.flat();
  if (plan.erased.length === 0) return rows;
  const erased = new Set(plan.erased);
  return rows.filter((row) => !erased.has(row.summary.agent));
}

/** The rows that the batch has stored, as entries of the chain, in the order of the stream. */
function chainedRows(rows: readonly SummarizedRow[], bad: readonly BadRow[]): Chained[] {
  const agents = new Map<string, Buffer>();
  return without(rows, bad).map(({ summary, bytes }) => {
    const { account, id, receivedAt } = summary;
    let agent = agents.get(summary.agent);
    if (agent === undefined) {
      agent = packAgent(summary.agent);
      agents.set(summary.agent, agent);
    }
    return { account, id, agent, row: bytes, atMs: receivedAt };
  });
}

/** Rows that are not even sent. Many of them are no poison: then front and store disagree about the columns. */
function badRows(rows: readonly SummarizedRow[]): BadRow[] {
  if (rows.length > DEAD_LETTER_ROWS_MAX)
    throw new TableRefuses(`${rows.length} rows of one batch do not have the columns that this version writes`);
  const reason = 'the row does not have the form of its columns';
  return rows.map((row) => ({ row, reason }));
}

/** A row alone, as an entry of its own. */
function deadLetterOf({ row, reason }: BadRow, batch: Batch<SummarizedRow[], Plan>): DeadLetterFields {
  const fields = new Map<string, string | Buffer>([
    [ENTRY_FIELD.version, String(ENTRY_VERSION)],
    [ENTRY_FIELD.summaries, JSON.stringify([row.summary])],
    [ENTRY_FIELD.rows, row.bytes],
  ]);
  return deadLetterFields({ fields, group: GROUP, from: `${batch.first}..${batch.last}`, reason });
}
