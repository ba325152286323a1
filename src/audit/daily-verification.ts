// Verifies the audit chains of all accounts once a day, by itself (in a backtests process, which gives way to all
// others). In slices: one account, some seconds, then three times as long nothing.
//
//   begin    a day after the last one began, an hour after one that found something
//   slice    of the next account what arrived since the last verification, then a thirtieth of what is older
//   end      when there is no account left
//
// How far it is lies in Redis, so that it goes on after a restart, and that pipelines can show it (/metrics).
// Invariant: one process at it at a time, by a lease for each slice, which ends some seconds after a process that was
// killed. The time that is shown as verified is that at
// which a verification began that went through; nothing that could not be read counts as verified.
// Failure: logged, and tried again at the next slice.
import { randomBytes } from 'node:crypto';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { parseTime } from '../../schemas/time.ts';
import { lookAgain } from '../common/async.ts';
import { timeOfId } from '../common/ids.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { acquireLease, type Lease, whileHeld } from '../streams/lease.ts';
import type { VerifyOptions } from './verifier.ts';

type DailyVerificationOptions = {
  redis: Commands;
  keys: Keys;
  verify: (account: string, options: VerifyOptions) => Promise<AuditVerification>;
  /** Ids of all accounts. */
  accounts: () => Promise<string[]>;
  settle: (account: string) => Promise<boolean>;
  retentionDays: number;
  mayWork: () => boolean;
  /** One that comes back under its name takes its own lease over at once; left out: it has none. */
  processName?: string | undefined;
  log: Log;
  now?: () => number;
};

/** Times in epoch ms. */
type State = {
  /** When the one that runs, or ran last, began. */
  begun: number;
  isRunning: boolean;
  /** When the last one began that went through, and the accounts that it found invalid. */
  verified: number;
  invalid: string[];
  /** The one that runs: accounts found invalid, the account it is at, which of its two ranges, and from where. */
  found: string[];
  account: string;
  range: number;
  from: number | null;
  /** The budget of the next slice; more where a slice got no further. */
  budgetMs: number;
};

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const BUDGET_MS = 5_000;
const BUDGET_MS_MAX = 600_000;
const LOOK_MS = 5_000;
const IDLE = 3;
/** Kept by their ids. */
const INVALID_MAX = 1_000;
/** The number of parts, one a day, in which entries older than the last verification are looked at. */
const TURNS = 30;
const NEW: State = {
  ...{ begun: 0, isRunning: false, verified: 0, invalid: [], found: [] },
  ...{ account: '', range: 0, from: null, budgetMs: BUDGET_MS },
};

export class DailyVerification implements Part {
  readonly name = 'audit verification';
  readonly #options: DailyVerificationOptions;
  readonly #now: () => number;
  readonly #owner: string;
  readonly #stop = new AbortController();
  #hasTried = false;

  constructor(options: DailyVerificationOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#owner = options.processName ?? `v-${randomBytes(8).toString('hex')}`;
  }

  start(): void {
    const { mayWork } = this.#options;
    void lookAgain({ signal: this.#stop.signal, waitMs: LOOK_MS, idle: IDLE }, async () => {
      if (mayWork()) await this.#look();
    });
  }

  /** A slice that runs is not waited for: it has changed nothing yet. */
  stop(): void {
    this.#stop.abort();
  }

  async #look(): Promise<void> {
    const { redis, keys, log } = this.#options;
    try {
      // Most looks end here: Redis has nothing to write then.
      if (!this.#isDue(await readVerification(redis, keys))) return;
      const names = { lease: keys.auditVerificationLease(), fence: keys.auditVerificationFence() };
      const lease = await acquireLease(redis, names, { owner: this.#owner, retake: !this.#hasTried });
      this.#hasTried = true;
      // One that fails is tried again; that the lease is lost is found out before anything is noted.
      if (lease !== null) await whileHeld(lease, () => this.step(lease));
    } catch (error) {
      if (!this.#stop.signal.aborted) log.warn({ err: error }, 'audit.verification_failed');
    }
  }

  /** One slice, noted if the lease is still held. False: there is nothing to be done now. */
  async step(lease?: Lease): Promise<boolean> {
    const { redis, keys, accounts } = this.#options;
    const state = await readVerification(redis, keys);
    if (!this.#isDue(state)) return false;
    if (!state.isRunning) {
      const nowMs = this.#now();
      Object.assign(state, { ...NEW, verified: state.verified, invalid: state.invalid, begun: nowMs, isRunning: true });
    }
    const ids = (await accounts()).sort();
    const account = state.from === null && state.range === 0 ? ids.find((id) => id > state.account) : state.account;
    if (account === undefined)
      Object.assign(state, { isRunning: false, verified: state.begun, invalid: state.found, found: [] });
    else if (!ids.includes(account)) Object.assign(state, { account, range: 0, from: null, budgetMs: BUDGET_MS });
    else await this.#slice(state, account);
    await lease?.ensureHeld();
    await redis.set(keys.auditVerification(), JSON.stringify(state));
    return true;
  }

  #isDue({ isRunning, begun, invalid }: State): boolean {
    return isRunning || this.#now() - begun >= (invalid.length > 0 ? HOUR_MS : DAY_MS);
  }

  async #slice(state: State, account: string): Promise<void> {
    const { verify, settle, log } = this.#options;
    state.account = account;
    const range = this.#ranges(state, account)[state.range]!;
    const fromMs = state.from ?? range.fromMs;
    await settle(account);
    const options = { ...range, fromMs, budgetMs: state.budgetMs, settle: () => settle(account) };
    const found = await verify(account, options);
    if (found.valid === false) {
      if (state.found.length < INVALID_MAX) state.found = [...state.found, account];
      log.error({ account, first: found.first_invalid, faults: found.faults }, 'audit.invalid');
    }
    const nextMs = found.valid === false || !found.truncated ? null : parseTime(found.continue_from!);
    if (nextMs !== null) {
      if (nextMs <= fromMs) state.budgetMs = Math.min(BUDGET_MS_MAX, 2 * state.budgetMs);
      state.from = nextMs;
      return;
    }
    const isLast = found.valid === false || state.range + 1 === this.#ranges(state, account).length;
    Object.assign(state, { range: isLast ? 0 : state.range + 1, from: null, budgetMs: BUDGET_MS });
  }

  /**
   * The ranges of time to verify: since the last verification that went through, and a part of what is older. All of it
   * the first time, and of an account that was found invalid: a fault is one until it is mended.
   */
  #ranges({ begun, verified, invalid }: State, account: string): { fromMs: number; toMs?: number }[] {
    if (verified === 0 || invalid.includes(account)) return [{ fromMs: 0 }];
    const sinceMs = Math.max(0, verified - HOUR_MS);
    const firstMs = Math.max(timeOfId(account), begun - this.#options.retentionDays * DAY_MS);
    const width = Math.max(0, sinceMs - firstMs) / TURNS;
    const turn = Math.floor(begun / DAY_MS) % TURNS;
    const [fromMs, toMs] = [firstMs + turn * width, firstMs + (turn + 1) * width].map(Math.floor) as [number, number];
    return [{ fromMs: sinceMs }, { fromMs, toMs }];
  }
}

/** How far it is. */
export async function readVerification(redis: Commands, keys: Keys): Promise<State> {
  const text = await redis.get(keys.auditVerification());
  return { ...NEW, ...(text === null ? {} : (JSON.parse(text) as State)) };
}
