// Takes the bytes of erased agents out of files (after erase.ts has taken their rows out of every query; run by the
// process that has the first shard).
//   ClickHouse   parts with erased rows are rewritten, and so are those that lack a projection which a migration
//                has made; what they replaced leaves the disk some minutes later
//   Redis        the append-only file is rewritten, for all erasures together and at most once an hour
// and notes for each erasure since when each store is clean (registry/erasures.ts).
// Invariant: a store is called clean only when no file that is older than the erasure is left that could hold its rows.
// Failure: it is tried again at the next poll. A Redis that does not allow the rewrite of its file is logged once and
// never called clean.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { oldestReplacedPart, partsToRewrite, rewriteErased } from '../../clickhouse/queries/erase-agent.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import { type Commands, mastersOf } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { erasureLateMs, markClean, uncleanErasures } from '../../src/registry/erasures.ts';

/** Between two polls. A rewrite reads and writes parts whole, so erasures share one. */
const LOOK_MS = 30_000;
/**
 * After a rewrite of parts, so many times as long as it took: at most a twentieth of the time goes into them, however
 * large the table is.
 */
const PAUSE_FACTOR = 20;
/** A rewrite of the file forks Redis and writes its memory out: a second for each gigabyte. */
const FILE_REWRITE_MS = 60 * 60_000;
/** Who erased may have been another process, whose clock is a little ahead. */
const CLOCKS_MS = 1_000;

type Options = {
  redis: Commands;
  keys: Keys;
  clickhouse: ClickHouse;
  metrics: Metrics;
  log: Log;
  /** Left out: LOOK_MS. */
  lookMs?: number;
};

export class FileCleaning {
  readonly #options: Options;
  #lookAt = Number.NEGATIVE_INFINITY;
  #rewritingSince: number | undefined;
  #isRefused = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Never rejects. */
  async look(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs < this.#lookAt) return;
    const { log, metrics, lookMs = LOOK_MS } = this.#options;
    this.#lookAt = nowMs + lookMs;
    try {
      const unclean = await uncleanErasures(this.#options);
      const lateMs = await erasureLateMs(this.#options, unclean, Date.now());
      metrics.set('gatehouse_erasure_late_seconds', {}, lateMs / 1000);
      const isWhole = await this.#rewriteParts(nowMs);
      await this.#note(isWhole, unclean);
    } catch (error) {
      log.warn({ err: error }, 'erasure.rewrite_failed');
    }
  }

  /** Is there nothing left to be rewritten? */
  async #rewriteParts(nowMs: number): Promise<boolean> {
    const { clickhouse, log } = this.#options;
    const found = await partsToRewrite(clickhouse);
    if (found === 'running') return false;
    if (this.#rewritingSince !== undefined) {
      this.#lookAt = Math.max(this.#lookAt, nowMs + PAUSE_FACTOR * (nowMs - this.#rewritingSince));
      this.#rewritingSince = undefined;
      return found === 'none';
    }
    if (found === 'none') return true;
    this.#rewritingSince = nowMs;
    log.info({}, 'parts.rewriting');
    await rewriteErased(clickhouse);
    return false;
  }

  async #note(isWhole: boolean, unclean: Awaited<ReturnType<typeof uncleanErasures>>): Promise<void> {
    const now = Date.now();
    const inClickHouse = unclean.filter(({ erased }) => erased.clickhouseAt === null);
    if (isWhole && inClickHouse.length > 0) {
      const oldest = await oldestReplacedPart(this.#options.clickhouse);
      for (const one of inClickHouse)
        if (one.erased.erasedAt < oldest) await markClean(this.#options, one, 'clickhouseAt', now);
    }
    const waiting = unclean.filter(({ erased }) => erased.redisAt === null);
    if (waiting.length === 0) return;
    const cleanSince = await this.#rewriteFile(Math.max(...waiting.map(({ erased }) => erased.erasedAt)));
    for (const one of waiting)
      if (cleanSince !== undefined && one.erased.erasedAt < cleanSince)
        await markClean(this.#options, one, 'redisAt', now);
  }

  /** Epoch ms, this process's clock: the last rewrite that has ended well began then. */
  async #rewriteFile(newest: number): Promise<number | undefined> {
    const { redis, keys, log } = this.#options;
    const masters = mastersOf(redis);
    const states = await Promise.all(masters.map(async (master) => rewriteState(await master.info('persistence'))));
    const began = Number((await redis.get(keys.fileRewrite())) ?? 0);
    if (states.some(({ isRunning }) => isRunning)) return undefined;
    const isSound = began > 0 && states.every(({ isOk }) => isOk);
    const isDue = newest >= began || !isSound;
    const beginsMs = Date.now() - CLOCKS_MS;
    const mayBegin = isDue && beginsMs - began > FILE_REWRITE_MS;
    // An erasure of a moment ago is included at the next poll; otherwise it would wait for an hour.
    if (mayBegin && newest >= beginsMs) return undefined;
    if (mayBegin && !this.#isRefused) {
      await redis.set(keys.fileRewrite(), beginsMs);
      try {
        await Promise.all(masters.map((master) => master.bgrewriteaof()));
        log.info({}, 'erasure.file_rewriting');
      } catch (error) {
        this.#isRefused = true;
        log.warn({ err: error }, 'erasure.file_rewrite_refused');
      }
      return undefined;
    }
    return isSound ? began : undefined;
  }
}

function rewriteState(info: string): { isRunning: boolean; isOk: boolean } {
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
  const isRunning = field('aof_rewrite_in_progress') === '1' || field('aof_rewrite_scheduled') === '1';
  return { isRunning, isOk: field('aof_last_bgrewrite_status') === 'ok' };
}
