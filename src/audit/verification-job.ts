// The verification of an account's audit chains as a job, whatever their size (POST /v1/audit-logs/verification): what
// is ordered, and how far it is. An account has one; a new order takes the place of the one before. It is run by a
// backtests process (verification-worker.ts).
// Invariant: it lies in Redis alone, as one text; a step of the worker is kept only where that text is as it was read,
// so a job that was replaced or removed is not brought back. What a kill takes is a window of time, which is verified
// again.
// Failure: Redis away is `unavailable`; without a backtests process a job stays `waiting`.
import { randomBytes } from 'node:crypto';
import type { AuditVerification, VerificationJob } from '../../schemas/audit-verification.ts';
import { isoTime } from '../../schemas/time.ts';
import { timeOfId } from '../common/ids.ts';
import { readAsset } from '../process/assets.ts';
import { acknowledging, type Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import type { Remembered } from './chain-cursor.ts';

const keep = new Script<number>('verification-keep', readAsset('src/redis/verification-keep.lua'), {
  acknowledges: true,
});

/** Times in epoch ms. */
export type KeptJob = {
  /** Tells an order from one that was the same. */
  token: string;
  orderedMs: number;
  /** Events that arrived from here; null: from the first. */
  fromMs: number | null;
  /** Up to and including there; null: all that was there when it came to its end. */
  toMs: number | null;
  /** The entries of a checkpoint, chain by chain: entry, its hash in hex, when. */
  checkpoint: [chain: string, n: number, hash: string, atMs: number][];
  /** The next window of time begins here, and is so wide at most. */
  nextMs: number;
  widthMs: number;
  status: VerificationJob['status'];
  /** Entries of the events' chains that were verified. */
  checked: number;
  /** Windows in a row that could not be read. */
  failures?: number;
  endedMs: number | null;
  /** The result of the last window, or of the one that is not valid. */
  found: AuditVerification | null;
};

/** The first window is so much of all: one that takes too long is halved, after one that is quick comes a wider one. */
const FIRST_SHARE = 1 / 8;
const FIRST_WIDTH_MS_MIN = 1_000;

type JobStore = { redis: Commands; keys: Keys };
type Order = { fromMs: number | null; toMs: number | null; checkpoint?: ReadonlyMap<string, Remembered> };

export class VerificationJobs {
  readonly #store: JobStore;

  constructor(store: JobStore) {
    this.#store = store;
  }

  async order(
    account: string,
    { fromMs, toMs, checkpoint = new Map() }: Order,
    atMs: number,
  ): Promise<VerificationJob> {
    const remembered = [...checkpoint].map(([chain, { n, hash, atMs: at }]): KeptJob['checkpoint'][number] => [
      chain,
      n,
      hash.toString('hex'),
      at,
    ]);
    const nextMs = fromMs ?? timeOfId(account);
    const widthMs = Math.max(FIRST_WIDTH_MS_MIN, Math.ceil(((toMs ?? atMs) - nextMs) * FIRST_SHARE));
    const job: KeptJob = {
      ...{ token: randomBytes(8).toString('hex'), orderedMs: atMs, fromMs, toMs, checkpoint: remembered },
      ...{ nextMs, widthMs, status: 'waiting', checked: 0, endedMs: null, found: null },
    };
    await this.#keep(account, '*', JSON.stringify(job), false);
    return shownJob(job, account, atMs);
  }

  async get(account: string, nowMs: number): Promise<VerificationJob | null> {
    const job = await this.read(account);
    return job === null ? null : shownJob(job.job, account, nowMs);
  }

  /** false: there is none. */
  async remove(account: string): Promise<boolean> {
    return (await acknowledging(this.#store.redis).del(this.#store.keys.verificationJob(account))) === 1;
  }

  /** `text`: as it is kept. */
  async read(account: string): Promise<{ job: KeptJob; text: string } | null> {
    const text = await this.#store.redis.get(this.#store.keys.verificationJob(account));
    return text === null ? null : { job: JSON.parse(text) as KeptJob, text };
  }

  /** false: it was replaced or removed, and nothing is kept. */
  keep(account: string, before: string, job: KeptJob): Promise<boolean> {
    return this.#keep(account, before, JSON.stringify(job), job.endedMs !== null);
  }

  /** Where there is none, it is not looked for. */
  async forget(account: string): Promise<void> {
    await this.#keep(account, '', '', true);
  }

  async #keep(account: string, before: string, text: string, isOver: boolean): Promise<boolean> {
    const { redis, keys } = this.#store;
    const names = [keys.verificationJob(account), keys.verificationsWanted(keys.shardOf(account))];
    return (await keep.run(redis, names, [before, text, account, isOver ? '1' : '0'])) === 1;
  }
}

function shownJob(job: KeptJob, account: string, nowMs: number): VerificationJob {
  const { status, fromMs, toMs, nextMs, checked, orderedMs, endedMs, found } = job;
  const firstMs = fromMs ?? timeOfId(account);
  const lastMs = toMs ?? nowMs;
  const share = lastMs <= firstMs ? 1 : Math.min(1, Math.max(0, (nextMs - firstMs) / (lastMs - firstMs)));
  const time = (ms: number | null) => (ms === null ? null : isoTime(ms));
  return {
    status,
    from: time(fromMs),
    to: time(toMs),
    against_checkpoint: job.checkpoint.length > 0,
    verified_until: nextMs > firstMs ? isoTime(nextMs) : null,
    share: status === 'done' ? 1 : Math.round(share * 1000) / 1000,
    entries: checked + (found?.chains.find(({ chain }) => chain === 'registry')?.entries ?? 0),
    valid: status === 'done' ? (found?.valid ?? null) : null,
    found: status === 'done' ? found : null,
    created_at: isoTime(orderedMs),
    finished_at: time(endedMs),
  };
}
