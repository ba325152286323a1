// Runs one backtest for a turn (called by backtest-worker.ts, which holds its lease).
//   begin    go on from what is kept, or wait for what was acknowledged to be stored, count, and begin
//   page     rows of the table in the order of arrival (clickhouse/queries/replayed-events.ts)
//   judge    each row by the engine (src/policy/replay), counted in the tally
//   keep     position and everything counted up to it, in one step under the lease
//   end      the result, in the same way; or why there is none
// Invariant: what is kept is a position together with everything that was counted up to it, and nothing else is gone on
// from. So a process that is killed at any moment makes the next do some events again and count none twice; the result
// is the one that a run without a break has. Which events are replayed follows from the range and the order alone.
// Failure: ClickHouse away: tried again, without end; a page that it cannot answer in time ends the backtest. The lease
// lost, or the backtest deleted: LeaseLost, nothing more is kept.
import { setTimeout as sleep, setImmediate as turnOfLoop } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { ClickHouseError } from '../../clickhouse/errors.ts';
import type { KeptOf } from '../../clickhouse/kept-reads.ts';
import { waitStates } from '../../clickhouse/queries/decided-approvals.ts';
import {
  countReplayed,
  type ReplayPage,
  ReplayPages,
  type ReplayRange,
  type ReplayRow,
} from '../../clickhouse/queries/replayed-events.ts';
import type { AgentRecord } from '../../schemas/agent.ts';
import { isoTime } from '../../schemas/time.ts';
import { backoffMs } from '../../src/common/async.ts';
import {
  BACKTEST_EVENTS_MAX,
  BACKTEST_KEEP_MS,
  BACKTEST_TRIES_MAX,
  RETRY_MS_MAX,
  RETRY_MS_MIN,
} from '../../src/common/limits.ts';
import { PolicyReplay } from '../../src/policy/replay/policy-replay.ts';
import { replayedEvent } from '../../src/policy/replay/recorded-event.ts';
import type { SpendAmounts } from '../../src/policy/replay/replayed-budget.ts';
import { TooManyCounters } from '../../src/policy/replay/replayed-counters.ts';
import type { BacktestRecord } from '../../src/registry/policies/backtest-record.ts';
import type { BacktestStore, KeptState } from './backtest-store.ts';
import { Tally } from './tally.ts';

/** The parts of the process that a run uses. */
export type RunParts = {
  clickhouse: ClickHouse;
  store: BacktestStore;
  /** Are the events stored that were acknowledged before? Waits for it, for a while. */
  whenStored: (account: string, agent: string | null, signal: AbortSignal) => Promise<boolean>;
  /** Agents of the account whose events are on their way out. */
  erasing: (account: string) => Promise<string[]>;
  /** null: there is none. */
  agentOf: (account: string, agent: string) => Promise<AgentRecord | null>;
  keptOf: KeptOf;
  /** By which values that are compared are hashed. */
  traceKeyOf: (account: string) => Promise<string>;
  /** How calls are reckoned, by the prices of today. */
  amountsOf: (account: string) => Promise<SpendAmounts>;
  onEvents: (events: number) => void;
  /** Epoch ms. */
  now: () => number;
};

/** Why a turn ends before the backtest does. */
type TurnOver = () => 'stop' | 'turn' | undefined;

/** Others of this process, such as the renewal of the lease, have their turn so often. */
const LOOP_MS = 10;
/** Agents of an account that are known at once, half a kilobyte each. */
const AGENTS_MAX = 10_000;
/** Keeping takes this part at most of the time that a backtest runs. */
const KEEPING_SHARE = 1 / 20;

/** Ids of one question. */
const WAITS_AT_ONCE = 1_000;

/** The error that ends a backtest for good. */
class BacktestFailed extends Error {
  override name = 'BacktestFailed';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Before the backtest has. */
class TurnEnded extends Error {
  override name = 'TurnEnded';
  readonly how: 'stop' | 'turn';

  constructor(how: 'stop' | 'turn') {
    super(how);
    this.how = how;
  }
}

export class BacktestRun {
  readonly #parts: RunParts;
  readonly #account: string;
  readonly #record: BacktestRecord;
  readonly #agents = new Map<string, AgentRecord | null>();
  readonly #signal: AbortSignal;
  readonly #isOver: TurnOver;
  #replay!: PolicyReplay;
  #tally!: Tally;
  #state: Omit<KeptState, 'tally' | 'replay'> | undefined;
  #keepAtMs = 0;
  #loopAtMs = 0;

  constructor(
    parts: RunParts,
    { account, record }: { account: string; record: BacktestRecord },
    { signal, isOver }: { signal: AbortSignal; isOver: TurnOver },
  ) {
    this.#parts = parts;
    this.#account = account;
    this.#record = record;
    this.#signal = signal;
    this.#isOver = isOver;
  }

  /** How the turn ended. Throws LeaseLost, and what Redis throws. */
  async run(): Promise<'done' | 'failed' | 'turn' | 'stop'> {
    try {
      await this.#begin();
      await this.#pages();
      await this.#end();
      return 'done';
    } catch (error) {
      if (error instanceof TurnEnded) {
        if (this.#state !== undefined) await this.#keep('turn');
        return error.how;
      }
      const failed = failureOf(error);
      if (failed === undefined) throw error;
      await this.#fail(failed);
      return 'failed';
    }
  }

  async #begin(): Promise<void> {
    const { store } = this.#parts;
    const kept = await store.state();
    const { tried, inForce, shown } = this.#record;
    const replaces = shown.policy_id;
    const traceKey = await this.#parts.traceKeyOf(this.#account);
    const amounts = tried.type === 'budget' ? await this.#parts.amountsOf(this.#account) : undefined;
    this.#replay = new PolicyReplay({ tried, replaces, inForce, traceKey, amounts }, kept?.replay);
    this.#tally = new Tally(kept?.tally);
    if (kept === null) await this.#first();
    else this.#state = kept;
    if (store.fence - this.#state!.fence > BACKTEST_TRIES_MAX)
      throw new BacktestFailed('gave_up', 'The process that ran it ended each time, at the same place.');
    this.#keepAtMs = performance.now() + BACKTEST_KEEP_MS / 4;
  }

  async #first(): Promise<void> {
    const { shown } = this.#record;
    const { whenStored, keptOf, now, store } = this.#parts;
    const isComplete = await whenStored(this.#account, shown.agent_id, this.#signal);
    this.#look();
    const { held, wholeFromMs } = await keptOf(this.#account);
    const expiredMs = held.all ? 0 : wholeFromMs;
    const asked = Date.parse(shown.from);
    const keptFromMs = asked < expiredMs ? Math.min(expiredMs, Date.parse(shown.to)) : null;
    this.#state = { fence: store.fence, position: null, fromMs: keptFromMs ?? asked, keptFromMs, isComplete };
    const range = { ...(await this.#range()), fromMs: this.#state.fromMs };
    const events = await this.#asked(() => countReplayed(this.#parts.clickhouse, range, this.#signal));
    if (events > BACKTEST_EVENTS_MAX)
      throw new BacktestFailed(
        'too_many_events',
        `The range has ${events} events; a backtest replays at most ${BACKTEST_EVENTS_MAX}. Narrow it, or name an agent.`,
      );
    shown.status = 'running';
    shown.started_at = isoTime(now());
    shown.progress.of = events;
    await this.#keep('keep');
  }

  async #pages(): Promise<void> {
    const { tried, shown } = this.#record;
    const pages = new ReplayPages(this.#parts.clickhouse, {
      ...{ agentId: tried.agent_id, policyId: shown.policy_id },
      ...this.#replay.needs,
      currency: this.#replay.currency,
    });
    for (;;) {
      const range = await this.#range();
      const page = await this.#asked(() => pages.next(range, this.#state!.position ?? undefined, this.#signal));
      await this.#rows(page);
      if (page.isLast) return;
    }
  }

  async #rows(page: ReplayPage): Promise<void> {
    const rows = this.#replay.asksApprovals ? [...rowsOf(page)] : rowsOf(page);
    const approved = await this.#approvalsOf(rows);
    for (const row of rows) {
      let agent = this.#agents.get(row.agentId);
      if (agent === undefined) agent = await this.#agentOf(row.agentId);
      if (agent !== null) this.#row(row, agent, approved.get(row.id));
      this.#state!.position = { at: row.receivedMs, id: row.id };
      if (performance.now() < this.#loopAtMs) continue;
      await turnOfLoop();
      this.#loopAtMs = performance.now() + LOOP_MS;
      this.#look();
      if (performance.now() >= this.#keepAtMs) await this.#keep('keep');
    }
  }

  /** Throws TurnEnded, or why the lease is lost. */
  #look(): void {
    const over = this.#isOver();
    if (over !== undefined) throw new TurnEnded(over);
    this.#signal.throwIfAborted();
  }

  /** When those that waited were approved; nothing where that does not matter. */
  async #approvalsOf(rows: Iterable<ReplayRow>): Promise<ReadonlyMap<string, number>> {
    const approved = new Map<string, number>();
    if (!Array.isArray(rows)) return approved;
    const pending = (rows as ReplayRow[]).filter(({ outcome }) => outcome === 'pending').map(({ id }) => id);
    for (let from = 0; from < pending.length; from += WAITS_AT_ONCE) {
      const some = pending.slice(from, from + WAITS_AT_ONCE);
      const waits = await this.#asked(() => waitStates(this.#parts.clickhouse, this.#account, some));
      for (const [id, { outcome, decidedMs }] of waits)
        if (outcome === 'allowed' && decidedMs !== null) approved.set(id, decidedMs);
    }
    return approved;
  }

  #row(row: ReplayRow, agent: AgentRecord, approvedMs: number | undefined): void {
    const event = { ...replayedEvent(row), approvedMs, cost: row.cost };
    const replayed = this.#replay.next(event, agent);
    // Before that it only fills the counters.
    if (row.receivedMs < this.#state!.fromMs) return;
    const isSeen = row.payload !== '' && this.#record.tried.type !== 'rate_limit';
    this.#tally.add(row, replayed, () => (isSeen ? this.#replay.unmet(event, agent) : undefined));
    this.#parts.onEvents(1);
  }

  async #agentOf(id: string): Promise<AgentRecord | null> {
    if (this.#agents.size >= AGENTS_MAX) this.#agents.clear();
    const agent = await this.#parts.agentOf(this.#account, id);
    this.#agents.set(id, agent);
    return agent;
  }

  async #range(): Promise<ReplayRange> {
    const { shown } = this.#record;
    return {
      ...{ account: this.#account, agentId: shown.agent_id, excludeAgents: await this.#parts.erasing(this.#account) },
      ...{ fromMs: this.#state!.fromMs - this.#replay.warmUpMs, toMs: Date.parse(shown.to) },
    };
  }

  /** Until ClickHouse answers. What it could not answer several times in a row ends the backtest. */
  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    for (let attempt = 1, answers = 0; ; attempt++) {
      try {
        return await ask();
      } catch (error) {
        this.#look();
        if (!(error instanceof ClickHouseError)) throw error;
        // It did answer, only not with rows.
        if (error.code !== null && ++answers >= BACKTEST_TRIES_MAX)
          throw new BacktestFailed('not_answered', `The store of events cannot answer this (${error.codeName}).`);
      }
      const waitMs = backoffMs(attempt, { minMs: RETRY_MS_MIN, maxMs: RETRY_MS_MAX });
      await sleep(waitMs, undefined, { signal: this.#signal }).catch(() => this.#look());
    }
  }

  async #keep(how: 'keep' | 'turn'): Promise<void> {
    const startedMs = performance.now();
    const { shown } = this.#record;
    const { store } = this.#parts;
    const state = this.#state!;
    const { position, fromMs } = state;
    state.fence = store.fence;
    shown.progress.events = this.#tally.events;
    if (position !== null && position.at >= fromMs) shown.progress.until = isoTime(position.at);
    const kept: KeptState = { ...state, tally: this.#tally.kept(), replay: this.#replay.kept() };
    await store.keep(this.#record, kept, how);
    const endedMs = performance.now();
    this.#keepAtMs = endedMs + Math.max(BACKTEST_KEEP_MS, (endedMs - startedMs) / KEEPING_SHARE);
  }

  async #end(): Promise<void> {
    const { shown } = this.#record;
    const { isComplete, keptFromMs, position } = this.#state!;
    shown.status = 'done';
    shown.finished_at = isoTime(this.#parts.now());
    shown.progress.events = this.#tally.events;
    if (position !== null && this.#tally.events > 0) shown.progress.until = isoTime(position.at);
    const kept_from = keptFromMs === null ? null : isoTime(keptFromMs);
    await this.#parts.store.end(this.#record, this.#tally.result({ kept_from, is_complete: isComplete }));
  }

  async #fail({ code, message }: BacktestFailed): Promise<void> {
    const { shown } = this.#record;
    shown.status = 'failed';
    shown.finished_at = isoTime(this.#parts.now());
    shown.error = { code, message };
    await this.#parts.store.end(this.#record, null);
  }
}

function* rowsOf(page: ReplayPage): Generator<ReplayRow> {
  for (let row = page.next(); row !== undefined; row = page.next()) yield row;
}

/** undefined: it is not the backtest's fault. */
function failureOf(error: unknown): BacktestFailed | undefined {
  if (error instanceof BacktestFailed) return error;
  if (!(error instanceof TooManyCounters)) return undefined;
  return new BacktestFailed('too_many_counters', 'The policy counts more values apart than a backtest keeps.');
}
