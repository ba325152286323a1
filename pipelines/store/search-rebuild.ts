// Gives rows of before migration 013 the index and their search text (beside everything; run by the process that has
// the first shard of the registry, as is the cleaning of files).
//
//   index    each partition, the newest first: its parts get the index, over what was searched of their rows before
//   words    each partition: rows without a search text that need one are read in the order of the key, their texts
//            staged, and written by one mutation for each CHUNK_BYTES of them
//   last     rows of processes that were older than the migration and went on storing; then it has ended, for good
//
// Invariant: a row's search text follows from its payload alone, so whatever is done twice is the same, and a row that
// has one is passed over. Killed anywhere: what was finished of a partition is found by its rows, the rest is done
// again. The engine finishes a mutation that it has begun, also after a kill of its own; none is begun beside another.
// Failure: logged, and tried again after a while. A mutation that fails is given up, or it would hold up all others.
// Bounded: a chunk's texts are in the engine's memory while they are written; behind each it rests as long as that
// took. What is staged of an agent that is erased meanwhile is dropped with its chunk, minutes later.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import {
  applyWords,
  dropChunks,
  eventPartitions,
  indexPartition,
  killMutation,
  noteRebuild,
  type PendingRow,
  pendingRows,
  type RebuildState,
  type RowPosition,
  rebuildState,
  runningMutations,
  stageWords,
} from '../../clickhouse/queries/rebuilt-rows.ts';
import { searchTextOf } from '../../src/common/search/payload-words.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';

/** Search texts of one mutation. Each builds the index of the parts that it changes, so few are better. */
const CHUNK_BYTES = 32 * 1024 * 1024;
/** Read at once: 1,000 of usual size, and at the least so many of the largest. */
const READ_BYTES = 8 * 1024 * 1024;
const READ_ROWS_MIN = 16;
const READ_ROWS_MAX = 2_000;
const POLL_MS = 500;
const RETRY_MS = 30_000;
/** A process that is replaced ends within it. */
const OLD_PROCESSES_MS = 10 * 60_000;
/** Chunks of a process that was killed. */
const CHUNK_MS_MAX = 60 * 60_000;

type Options = {
  clickhouse: ClickHouse;
  metrics: Metrics;
  log: Log;
  /** Left out: OLD_PROCESSES_MS. */
  lastPassMs?: number;
  chunkBytes?: number;
};

class Stopped extends Error {
  override name = 'Stopped';
}

export class SearchRebuild {
  readonly #options: Options;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #isDone = false;
  #lookAt = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Goes on with it, if it is not running and not done. Never rejects; resolves when there is nothing to do now. */
  look(): Promise<void> {
    if (this.#isDone || this.#stop.signal.aborted || performance.now() < this.#lookAt) return Promise.resolve();
    this.#running ??= this.#run()
      .catch((error: unknown) => {
        this.#lookAt = performance.now() + RETRY_MS;
        if (!(error instanceof Stopped)) this.#options.log.warn({ err: error }, 'search.rebuild_failed');
      })
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  /** Resolves when nothing of it runs here any more. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clickhouse, log, metrics, lastPassMs = OLD_PROCESSES_MS } = this.#options;
    const state = (await rebuildState(clickhouse)) ?? { since: Date.now(), indexed: [], worded: [], done: false };
    if (!state.done) {
      await this.#settled();
      await dropChunks(clickhouse, Date.now() - CHUNK_MS_MAX);
      const partitions = await eventPartitions(clickhouse);
      const rows = partitions.reduce((sum, one) => sum + one.rows, 0);
      const { indexed, worded } = state;
      if (indexed.length + worded.length === 0) log.info({ rows }, 'search.rebuild_begun');
      else log.info({ rows, indexed, worded }, 'search.rebuild_continued');
      await this.#report(state);
      for (const { partition } of partitions) await this.#index(state, partition);
      for (const { partition } of partitions) await this.#words(state, partition);
      // Rows there were none, so nothing that stores them is older.
      if (rows > 0) await this.#last(state, lastPassMs);
      // Also those of processes that were killed. What another stages meanwhile is written already.
      await dropChunks(clickhouse, Date.now());
      await noteRebuild(clickhouse, { ...state, done: true });
      log.info({ rows, seconds: Math.round((Date.now() - state.since) / 1000) }, 'search.rebuild_done');
    }
    metrics.set('gatehouse_search_rebuild_rows', {}, 0);
    this.#isDone = true;
  }

  async #index(state: RebuildState, partition: string): Promise<void> {
    if (state.indexed.includes(partition)) return;
    const { clickhouse, log } = this.#options;
    await indexPartition(clickhouse, partition);
    await this.#settled();
    state.indexed.push(partition);
    await noteRebuild(clickhouse, state);
    log.info({ partition }, 'search.indexed');
  }

  async #words(state: RebuildState, partition: string): Promise<void> {
    if (state.worded.includes(partition)) return;
    const rows = await this.#fill(partition, 0);
    state.worded.push(partition);
    await noteRebuild(this.#options.clickhouse, state);
    await this.#report(state);
    this.#options.log.info({ partition, rows }, 'search.rebuilt');
  }

  async #last(state: RebuildState, waitMs: number): Promise<void> {
    await this.#pause(state.since + waitMs - Date.now());
    for (const { partition } of await eventPartitions(this.#options.clickhouse))
      await this.#fill(partition, state.since);
  }

  /** Rows of a partition that need a search text get it; how many did. `since`: those that came from then on. */
  async #fill(partition: string, since: number): Promise<number> {
    const { clickhouse, chunkBytes = CHUNK_BYTES } = this.#options;
    let after: RowPosition | undefined;
    let [filled, max, isMore] = [0, READ_ROWS_MIN, true];
    while (isMore) {
      const chunk = String(Date.now());
      let bytes = 0;
      while (isMore && bytes < chunkBytes) {
        this.#check();
        const rows = await pendingRows(clickhouse, { partition, after, since, max });
        const texts = rows.map(textOf).filter(({ words }) => words !== '');
        if (texts.length > 0) await stageWords(clickhouse, chunk, texts);
        bytes += texts.reduce((sum, { words }) => sum + words.length, 0);
        filled += texts.length;
        isMore = rows.length === max;
        after = rows.at(-1) ?? after;
        max = rowsAtOnce(rows);
      }
      if (bytes === 0) break;
      const begun = performance.now();
      await applyWords(clickhouse, partition, chunk);
      await this.#settled();
      await dropChunks(clickhouse, Number(chunk));
      if (isMore) await this.#pause(performance.now() - begun);
    }
    return filled;
  }

  /** Resolves when the table is not being changed. Throws where a change has failed, after giving it up. */
  async #settled(): Promise<void> {
    const { clickhouse } = this.#options;
    for (;;) {
      this.#check();
      const running = await runningMutations(clickhouse);
      const failed = running.find(({ fault }) => fault !== '');
      if (failed !== undefined) {
        await killMutation(clickhouse, failed.id);
        throw new Error(`a change of the events failed and was given up: ${failed.fault}`);
      }
      if (running.length === 0) return;
      await this.#pause(POLL_MS);
    }
  }

  async #report({ worded }: RebuildState): Promise<void> {
    const left = (await eventPartitions(this.#options.clickhouse)).filter((one) => !worded.includes(one.partition));
    this.#options.metrics.set(
      'gatehouse_search_rebuild_rows',
      {},
      left.reduce((sum, { rows }) => sum + rows, 0),
    );
  }

  #check(): void {
    if (this.#stop.signal.aborted) throw new Stopped('the process ends');
  }

  async #pause(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    this.#check();
  }
}

function textOf({ id, payload }: PendingRow): { id: string; words: string } {
  return { id, words: searchTextOf(Buffer.from(payload)) };
}

/** By the size of those before. */
function rowsAtOnce(rows: readonly PendingRow[]): number {
  const bytes = rows.reduce((sum, { payload }) => sum + payload.length, 1);
  return Math.max(READ_ROWS_MIN, Math.min(READ_ROWS_MAX, Math.floor((READ_BYTES * rows.length) / bytes)));
}
