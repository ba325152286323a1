// Backtests as they are read: while one runs it is asked again; the policy that it tries stays text.
import { POLICY_TEXTS, parseKeeping, type RawJson } from './json.ts';
import { type List, type Read, useList, useRead } from './queries.ts';
import type { Backtest, BacktestRow, OutcomeChange, WholePolicy } from './types.ts';

const TEXTS = ['policy'];
const EVERY_MS = 1_000;
const LIST = 'v1/backtests';

export function useBacktest(id: string): Read<Backtest> {
  return useRead<Backtest>(pathOfBacktest(id), {
    kept: TEXTS,
    everyMs: (backtest) => (isUnderWay(backtest) ? EVERY_MS : undefined),
  });
}

/** Newest first, without results. */
export function useBacktests(): List<BacktestRow> {
  return useList<BacktestRow>(LIST, { kept: TEXTS });
}

export function pathOfBacktest(id: string): string {
  return `${LIST}/${encodeURIComponent(id)}`;
}

export function isUnderWay({ status }: Pick<Backtest, 'status'>): boolean {
  return status === 'waiting' || status === 'running';
}

/** The fields of a policy that a backtest tries. */
export type TriedPolicy = Pick<WholePolicy, 'name' | 'type' | 'agent_id' | 'conditions' | 'actions' | 'severity'>;

export function triedOf({ policy }: { policy: RawJson }): TriedPolicy {
  return parseKeeping(policy.text, POLICY_TEXTS) as TriedPolicy;
}

/** `allowed → blocked` of each that would not stay as it was, in the order in which they come first. */
export function changesIn(outcomes: readonly OutcomeChange[]): string[] {
  return [...new Set(outcomes.filter(({ was, now }) => was !== now).map(changeName))];
}

export function changeName({ was, now }: Pick<OutcomeChange, 'was' | 'now'>): string {
  return was === now ? `${was} as before` : `${was} → ${now}`;
}
