// Runs backtests, one at a time (a part of `gatehouse backtests`; several such processes share them by leases).
// Once a second: look which wait, take the one that has had no turn for longest, and run it. One that runs for longer
// than a turn while others wait is put at the end of the line. Finished ones that are old enough are removed.
// Invariant: one process runs a backtest at a time; what it keeps is fenced (backtest-store.ts). A process that has to
// stop keeps what it has done, and gives the lease up, so another goes on at once.
// Failure: a process that dies is missed when its lease runs out; another, or the same started again, goes on from what
// was kept. Redis away: what is in memory is dropped, and gone on from what was kept.
import { randomBytes } from 'node:crypto';
import { Periodic } from '../../src/common/async.ts';
import { BACKTEST_LOOK_MS, BACKTEST_TURN_MS, LEASE_RENEW_MS } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import { memberOf, readBacktest } from '../../src/registry/policies/backtest-record.ts';
import { dropExpired } from '../../src/registry/policies/backtest-removal.ts';
import { LeaseLost } from '../../src/streams/lease.ts';
import { BacktestRun, type RunParts } from './backtest-run.ts';
import { type BacktestName, BacktestStore } from './backtest-store.ts';

type WorkerOptions = Omit<RunParts, 'store' | 'onEvents'> & {
  redis: Commands;
  keys: Keys;
  metrics: Pick<Metrics, 'inc' | 'set'>;
  log: Log;
  /** Stable name of the process; without one it gets a random one and waits for old leases to run out. */
  processName?: string | undefined;
  /** False while Redis has lost the registry. */
  mayWork?: () => boolean;
};

/** Removing what is old may wait. */
const SWEEP_MS = 60_000;

export class BacktestWorker {
  readonly name = 'backtests';
  readonly #options: WorkerOptions;
  readonly #owner: string;
  /** Backtests whose lease this process has tried to take: an earlier process of its name may have left it. */
  readonly #tried = new Set<string>();
  readonly #looks = new Periodic(BACKTEST_LOOK_MS, () => this.#look());
  readonly #stop = new AbortController();
  #sweptMs = Number.NEGATIVE_INFINITY;
  /** Do other backtests wait beside the one that runs? */
  #othersWait = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#owner = options.processName ?? `b-${randomBytes(8).toString('hex')}`;
  }

  start(): void {
    this.#options.metrics.set('gatehouse_backtests_running', {}, 0);
    this.#looks.start();
    void this.#looks.run();
  }

  /** Stops the worker; a backtest that runs keeps what it has done first. */
  stop(): Promise<void> {
    this.#stop.abort();
    return this.#looks.stop();
  }

  async #look(): Promise<void> {
    if (this.#stop.signal.aborted || this.#options.mayWork?.() === false) return;
    try {
      await this.#sweep();
      const waiting = await this.#waiting();
      for (const id of this.#tried) if (!waiting.some((name) => name.id === id)) this.#tried.delete(id);
      for (const [i, name] of waiting.entries()) {
        const retake = !this.#tried.has(name.id);
        this.#tried.add(name.id);
        const store = await BacktestStore.take(this.#options, name, { owner: this.#owner, retake });
        if (store === null) continue;
        this.#othersWait = i + 1 < waiting.length;
        await this.#run(name, store);
        return;
      }
    } catch (error) {
      this.#options.log.warn({ err: error }, 'backtests.look_failed');
    }
  }

  /** Who has had no turn for longest comes first. */
  async #waiting(): Promise<BacktestName[]> {
    const { redis, keys } = this.#options;
    const found: { member: string; at: number }[] = [];
    for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
      const texts = await redis.zrange(keys.backtestTurns(shard), '0', '-1', 'WITHSCORES');
      for (let i = 0; i + 1 < texts.length; i += 2) found.push({ member: texts[i]!, at: Number(texts[i + 1]) });
    }
    this.#options.metrics.set('gatehouse_backtests_waiting', {}, found.length);
    return found
      .sort((a, b) => a.at - b.at)
      .map(({ member }) => {
        const slash = member.indexOf('/');
        return { account: member.slice(0, slash), id: member.slice(slash + 1) };
      });
  }

  async #run(name: BacktestName, store: BacktestStore): Promise<void> {
    const { metrics, log } = this.#options;
    const lost = new AbortController();
    const renewing = this.#renewing(name, store, lost);
    renewing.start();
    metrics.set('gatehouse_backtests_running', {}, 1);
    const startedMs = performance.now();
    try {
      const how = await this.#turn(name, store, lost.signal);
      if (how !== undefined) metrics.inc('gatehouse_backtest_turns_total', { result: how });
      log.info({ ...name, result: how, ms: Math.round(performance.now() - startedMs) }, 'backtest.turn_ended');
    } catch (error) {
      const isLost = error instanceof LeaseLost || lost.signal.aborted;
      metrics.inc('gatehouse_backtest_turns_total', { result: isLost ? 'lost' : 'broke' });
      if (isLost) log.info(name, 'backtest.lease_lost');
      else log.error({ err: error, ...name }, 'backtest.broke');
    } finally {
      await renewing.stop();
      metrics.set('gatehouse_backtests_running', {}, 0);
      await store.lease.release().catch(() => undefined);
    }
  }

  async #turn(name: BacktestName, store: BacktestStore, signal: AbortSignal) {
    const text = await store.record();
    if (text === null) return undefined;
    const untilMs = performance.now() + BACKTEST_TURN_MS;
    const isOver = () => {
      if (this.#stop.signal.aborted) return 'stop' as const;
      return this.#othersWait && performance.now() >= untilMs ? ('turn' as const) : undefined;
    };
    const { metrics, ...options } = this.#options;
    const onEvents = (events: number) => metrics.inc('gatehouse_backtest_events_total', {}, events);
    const parts = { ...options, store, onEvents };
    const both = AbortSignal.any([signal, this.#stop.signal]);
    return new BacktestRun(
      parts,
      { account: name.account, record: readBacktest(text) },
      { signal: both, isOver },
    ).run();
  }

  /** One that is deleted has no lease any more: so that is noticed here, within a moment. */
  #renewing(name: BacktestName, store: BacktestStore, lost: AbortController): Periodic {
    let renewedMs = performance.now();
    return new Periodic(LEASE_RENEW_MS / 4, async () => {
      try {
        if (performance.now() - renewedMs < LEASE_RENEW_MS && (await store.record()) !== null) return;
        await store.lease.renew();
        renewedMs = performance.now();
        await this.#countOthers(name);
      } catch (error) {
        if (error instanceof LeaseLost) lost.abort(error);
      }
    });
  }

  async #countOthers(name: BacktestName): Promise<void> {
    const others = await this.#waiting();
    this.#othersWait = others.some(({ account, id }) => memberOf(account, id) !== memberOf(name.account, name.id));
  }

  async #sweep(): Promise<void> {
    if (performance.now() - this.#sweptMs < SWEEP_MS) return;
    this.#sweptMs = performance.now();
    await dropExpired(this.#options, this.#options.now());
  }
}
