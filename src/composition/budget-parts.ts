// What budgets are made of, in the processes that have some (fronts, and backtests, which check them).
import type { ClickHouse } from '../../clickhouse/client.ts';
import { settledAmounts } from '../../clickhouse/queries/settled-amounts.ts';
import type { SpendStore } from '../policy/quotas/spend-store.ts';
import { Budgets } from '../registry/budgets/budgets.ts';
import type { RegistryStore } from '../registry/commit.ts';
import type { ReadBarrier } from '../streams/read-barrier.ts';
import { untilAnswered } from '../streams/submissions-in-hand.ts';

type BudgetStores = { spends: SpendStore; clickhouse: ClickHouse; barrier: ReadBarrier };

export function makeBudgets(store: RegistryStore, { spends, clickhouse, barrier }: BudgetStores): Budgets {
  return new Budgets({
    ...{ ...store, spends },
    settled: (account, asked) => settledAmounts(clickhouse, account, asked),
    // Openings are of the pipeline that charges budgets.
    stored: async (account) =>
      (await Promise.all([barrier.waitForEvents(account, null), barrier.waitForOpenings(account, null)])).every(
        Boolean,
      ),
    untilAnswered: (then) => untilAnswered(store, then),
  });
}
