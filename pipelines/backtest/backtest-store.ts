// What a backtest keeps in Redis while it runs, under its lease (between backtest-worker.ts, backtest-run.ts and the
// scripts).
// Invariant: every step compares the lease first, so an owner that was paused past it, or whose backtest was deleted,
// changes nothing: it gets LeaseLost.
import type { BacktestResult } from '../../schemas/backtest.ts';
import type { Position } from '../../schemas/paging.ts';
import { exactJson } from '../../src/common/exact-json.ts';
import { BACKTEST_KEPT_MS, LEASE_MS } from '../../src/common/limits.ts';
import type { KeptReplay } from '../../src/policy/replay/policy-replay.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Script } from '../../src/redis/script.ts';
import { type BacktestRecord, memberOf } from '../../src/registry/policies/backtest-record.ts';
import { Lease } from '../../src/streams/lease.ts';
import type { KeptTally } from './tally.ts';

const take = new Script<string | null>('backtest-take', readAsset('src/redis/backtest-take.lua'));
const keep = new Script<number>('backtest-keep', readAsset('src/redis/backtest-keep.lua'));

/** The state from which a backtest goes on. Times are epoch ms. */
export type KeptState = {
  /** The fence of the lease under which it was kept. */
  fence: number;
  position: Position | null;
  fromMs: number;
  keptFromMs: number | null;
  isComplete: boolean;
  tally: KeptTally;
  replay: KeptReplay;
};

type Stores = { redis: Commands; keys: Keys };
/** Which one: of an account. */
export type BacktestName = { account: string; id: string };

export class BacktestStore {
  readonly lease: Lease;
  /** Rises with every owner. */
  readonly fence: number;
  readonly #stores: Stores;
  readonly #name: BacktestName;

  private constructor(stores: Stores, name: BacktestName, lease: Lease) {
    this.#stores = stores;
    this.#name = name;
    this.lease = lease;
    this.fence = Number(lease.text.slice(lease.text.lastIndexOf(':') + 1));
  }

  /** null: another process has it, or it was deleted. `retake`: also from an earlier process of this name. */
  static async take(
    stores: Stores,
    name: BacktestName,
    { owner, retake }: { owner: string; retake: boolean },
  ): Promise<BacktestStore | null> {
    const { redis, keys } = stores;
    const { account, id } = name;
    const sentAt = performance.now();
    const lease = keys.backtestLease(account, id);
    const text = await take.run(
      redis,
      [lease, keys.backtestFence(account, id), keys.backtests(account), keys.backtestTurns(keys.shardOf(account))],
      [owner, LEASE_MS, id, memberOf(account, id), retake ? '1' : '0'],
    );
    return text === null ? null : new BacktestStore(stores, name, new Lease(redis, lease, text, sentAt));
  }

  /** null: it was deleted. */
  record(): Promise<string | null> {
    const { redis, keys } = this.#stores;
    return redis.hget(keys.backtests(this.#name.account), this.#name.id);
  }

  /** null: it has not begun. */
  async state(): Promise<KeptState | null> {
    const { redis, keys } = this.#stores;
    const text = await redis.get(keys.backtestState(this.#name.account, this.#name.id));
    return text === null ? null : (JSON.parse(text) as KeptState);
  }

  /** `turn`: and lets another have its turn. Throws LeaseLost. */
  keep(record: BacktestRecord, state: KeptState, how: 'keep' | 'turn'): Promise<void> {
    return this.#run(record, how, JSON.stringify(state), Date.now());
  }

  /** With what it came to; null: it has failed. Throws LeaseLost. */
  end(record: BacktestRecord, result: BacktestResult | null): Promise<void> {
    return this.#run(record, 'end', result === null ? '' : JSON.stringify(result), Date.now() + BACKTEST_KEPT_MS);
  }

  async #run(record: BacktestRecord, how: 'keep' | 'turn' | 'end', text: string, atMs: number): Promise<void> {
    const { redis, keys } = this.#stores;
    const { account, id } = this.#name;
    const shard = keys.shardOf(account);
    const names = [
      ...[this.lease.key, keys.backtests(account), keys.backtestState(account, id), keys.backtestTurns(shard)],
      ...[keys.backtestResult(account, id), keys.backtestExpiries(shard), keys.backtestRunning(account)],
      keys.backtestFence(account, id),
    ];
    const args = [this.lease.text, id, exactJson(record), memberOf(account, id), how, text, atMs];
    if ((await keep.run(redis, names, args)) !== 1) throw this.lease.lose();
  }
}
