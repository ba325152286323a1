// A backtest as Redis keeps it: what callers are shown, and what its owner needs beyond that.
// JSON with the numbers of its policy's conditions as they were sent.
import type { ListedBacktest } from '../../../schemas/backtest.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { parseExact } from '../../common/exact-json.ts';

export type BacktestRecord = {
  shown: ListedBacktest;
  /** As the engine takes it: active, under the id of the policy in whose place it is tried. */
  tried: Policy;
  /** Epoch ms, between which the tried revision was in force as it is; null: it never was, or that is not known. */
  inForce: { fromMs: number; untilMs: number } | null;
};

export function readBacktest(text: string): BacktestRecord {
  return parseExact(text) as unknown as BacktestRecord;
}

/** In the sorted sets of a shard. */
export function memberOf(account: string, id: string): string {
  return `${account}/${id}`;
}
