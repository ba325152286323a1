// Runs the verifications that accounts have ordered (verification-job.ts; a part of `gatehouse backtests`, beside the
// daily one). In windows of time, one after the other: each is verified whole, kept, and the next one begins behind it;
// one that takes too long is halved. The first that is not valid ends the job.
//   window   [nextMs, nextMs + widthMs), the last one open to what comes
// Invariant: windows do not overlap, so an entry is counted once; what was verified is kept before the next begins, so
// a kill costs a window. A lease for each window: several processes share the jobs. Between windows it stands still for
// as long as the last one took, so half of ClickHouse's time at most is its own.
// Failure: logged; half of the window is tried at the next look. Given up after FAILURES_MAX of them.
import { randomBytes } from 'node:crypto';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { parseTime } from '../../schemas/time.ts';
import { lookAgain } from '../common/async.ts';
import { timeOfId } from '../common/ids.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import type { Commands } from '../redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../redis/keys.ts';
import { acquireLease, whileHeld } from '../streams/lease.ts';
import { type KeptJob, VerificationJobs } from './verification-job.ts';
import type { VerifyOptions } from './verifier.ts';

type WorkerOptions = {
  redis: Commands;
  keys: Keys;
  verify: (account: string, options: VerifyOptions) => Promise<AuditVerification>;
  settle: (account: string) => Promise<boolean>;
  mayWork: () => boolean;
  /** One that comes back under its name takes its own leases over at once; left out: it has none. */
  processName?: string | undefined;
  log: Log;
};

const LOOK_MS = 2_000;
/** Accounts of a shard that are looked at; the others at the next look. */
const ACCOUNTS_MAX = 20;
/** A window that is not verified after so long is halved; one that took a quarter of it doubles the next. */
const WINDOW_MS = 20_000;
/** The failures in a row, each time with less to read, after which a verification is given up. */
const FAILURES_MAX = 20;

type Window = { found: AuditVerification; fromMs: number; isLast: boolean; endMs: number; tookMs: number };

export class VerificationWorker implements Part {
  readonly name = 'ordered verifications';
  readonly #options: WorkerOptions;
  readonly #jobs: VerificationJobs;
  readonly #owner: string;
  readonly #stop = new AbortController();
  readonly #tried = new Set<string>();
  /** By account, where a window needs more than WINDOW_MS. */
  readonly #budgets = new Map<string, number>();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#jobs = new VerificationJobs(options);
    this.#owner = options.processName ?? `o-${randomBytes(8).toString('hex')}`;
  }

  start(): void {
    const { mayWork } = this.#options;
    void lookAgain({ signal: this.#stop.signal, waitMs: LOOK_MS, idle: 1 }, async () => {
      if (mayWork()) await this.look();
    });
  }

  /** A window that runs is not waited for: it has changed nothing yet. */
  stop(): void {
    this.#stop.abort();
  }

  /** A window of each job that waits or runs. */
  async look(): Promise<void> {
    const { redis, keys, log } = this.#options;
    const unread = (error: unknown, account?: string) => {
      if (!this.#stop.signal.aborted) log.warn({ err: error, account }, 'audit.verification_not_run');
    };
    for (let shard = 0; shard < REGISTRY_SHARDS; shard++)
      try {
        for (const account of await redis.srandmember(keys.verificationsWanted(shard), ACCOUNTS_MAX)) {
          if (this.#stop.signal.aborted) return;
          await this.#underLease(account).catch((error: unknown) => unread(error, account));
        }
      } catch (error) {
        unread(error);
      }
  }

  async #underLease(account: string): Promise<void> {
    const { redis, keys } = this.#options;
    const names = { lease: keys.verificationLease(account), fence: keys.verificationFence(account) };
    const retake = !this.#tried.has(account);
    this.#tried.add(account);
    const lease = await acquireLease(redis, names, { owner: this.#owner, retake });
    if (lease !== null) await whileHeld(lease, () => this.#window(account));
  }

  async #window(account: string): Promise<void> {
    const { verify, settle, log } = this.#options;
    const read = await this.#jobs.read(account);
    if (read === null) return this.#jobs.forget(account);
    const { job, text } = read;
    const isFirst = job.nextMs === (job.fromMs ?? timeOfId(account));
    const fromMs = isFirst ? (job.fromMs ?? 0) : job.nextMs;
    const endMs = job.nextMs + job.widthMs;
    const isLast = endMs > (job.toMs ?? Date.now());
    await settle(account);
    const startedMs = performance.now();
    const verified = verify(account, {
      fromMs,
      ...(isLast ? (job.toMs === null ? {} : { toMs: job.toMs }) : { toMs: endMs - 1 }),
      budgetMs: this.#budgets.get(account) ?? WINDOW_MS,
      checkpoint: new Map(
        job.checkpoint.map(([chain, n, hash, atMs]) => [chain, { n, hash: Buffer.from(hash, 'hex'), atMs }]),
      ),
      settle: () => settle(account),
    });
    const found = await verified.catch(async (error: unknown) => {
      await this.#jobs.keep(account, text, this.#unread(job));
      throw error;
    });
    const tookMs = performance.now() - startedMs;
    const next = this.#next(account, job, { found, fromMs, isLast, endMs, tookMs });
    if (!(await this.#jobs.keep(account, text, next))) log.info({ account }, 'audit.verification_replaced');
    else if (next.status === 'done')
      log[found.valid === false ? 'error' : 'info'](
        { account, valid: found.valid, first: found.first_invalid },
        'audit.verification_finished',
      );
  }

  /** The next try is about half as much. */
  #unread(job: KeptJob): KeptJob {
    const failures = (job.failures ?? 0) + 1;
    const next = { ...job, failures, widthMs: Math.ceil(job.widthMs / 2) };
    return failures < FAILURES_MAX ? next : { ...next, status: 'failed', endedMs: Date.now() };
  }

  #next(account: string, job: KeptJob, { found, fromMs, isLast, endMs, tookMs }: Window): KeptJob {
    const running = { ...job, status: 'running' as const, failures: 0 };
    if (found.valid === false) return { ...running, status: 'done', found, endedMs: Date.now() };
    if (found.truncated) {
      // Where nothing of it was done, it is the registry that takes so long, which is verified whole with each window.
      const isBegun = parseTime(found.continue_from!)! > Math.max(fromMs, job.nextMs);
      if (isBegun && job.widthMs > 1) return { ...running, widthMs: Math.ceil(job.widthMs / 2) };
      this.#budgets.set(account, 2 * (this.#budgets.get(account) ?? WINDOW_MS));
      return running;
    }
    this.#budgets.delete(account);
    const registry = found.chains.find(({ chain }) => chain === 'registry')?.entries ?? 0;
    const checked = job.checked + found.entries + found.markers - registry;
    if (isLast)
      return { ...running, status: 'done', found, checked, nextMs: job.toMs ?? Date.now(), endedMs: Date.now() };
    const widthMs = tookMs < WINDOW_MS / 4 ? 2 * job.widthMs : job.widthMs;
    return { ...running, found, checked, nextMs: endMs, widthMs };
  }
}
