// A backtests process: replays policies over stored events (`gatehouse backtests`), and verifies the audit chains every
// day, and when that is ordered. Composed here; several share the work by leases. A process of its own, and of the
// lowest priority: what it does takes a core for minutes, and beside the drains of a pipelines process each event would
// be stored later.
// Stands behind Redis and ClickHouse, on the path of no event.
// Invariant: connections first, the worker second, and let go in the reverse order, so what was done is kept.
// Failure: while Redis or ClickHouse is away backtests wait; without such a process they stay `waiting`.
import { BacktestWorker } from '../../pipelines/backtest/backtest-worker.ts';
import type { AgentRecord } from '../../schemas/agent.ts';
import { DailyVerification } from '../audit/daily-verification.ts';
import { VerificationWorker } from '../audit/verification-worker.ts';
import { AuditVerifier } from '../audit/verifier.ts';
import { BACKTEST_QUERY_SECONDS, BACKTEST_STORED_MS_MAX } from '../common/limits.ts';
import { PriceList, type PriceTableRecord } from '../common/prices/price-list.ts';
import { BACKTESTS_NICE, lowerPriority } from '../embedded/process-priority.ts';
import { spendAmounts } from '../ingest/spend-amounts.ts';
import { DependencyGauges } from '../metrics/dependency-gauges.ts';
import { SpendStore } from '../policy/quotas/spend-store.ts';
import type { Part } from '../process/lifecycle.ts';
import { keptNow } from '../registry/accounts/account-retention.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { traceKeyOf } from '../registry/accounts/trace-key.ts';
import { Agents } from '../registry/agents.ts';
import { BudgetCheck } from '../registry/budgets/budget-check.ts';
import type { RegistryStore } from '../registry/commit.ts';
import { REGISTRY_MISSING } from '../registry/recovery/presence.ts';
import { OTHER_INSTALLATION } from '../stores/redis-watch.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import { makeBudgets } from './budget-parts.ts';
import {
  connectionsPart,
  makeClickHouse,
  makeCommands,
  makeKeys,
  makeRedisWatch,
  mostRetentionDays,
  STORES_READY_MS_MAX,
} from './clients.ts';
import type { WorkerContext } from './worker-process.ts';

/** More ids than that are not held at once. */
const ACCOUNTS_MAX = 1_000_000;

export async function backtestsParts({ config, log, metrics, isSupervised, say }: WorkerContext): Promise<Part[]> {
  // Its threads that are there already keep theirs: those that work are made later, or are this one.
  lowerPriority(process.pid, BACKTESTS_NICE);
  const redis = makeCommands(config);
  const keys = makeKeys(config);
  const keptOf = keptNow({ redis, keys }, config);
  const clickhouse = makeClickHouse({ ...config, queryTimeoutSeconds: BACKTEST_QUERY_SECONDS }, { keptOf });
  const watch = makeRedisWatch({ config, log, metrics, isSupervised }, { redis, clickhouse });
  const mayWork = () => watch.trouble !== REGISTRY_MISSING && watch.trouble !== OTHER_INSTALLATION;
  const agents = new Agents({ redis, keys });
  const barrier = new ReadBarrier({ redis, keys, waitMs: BACKTEST_STORED_MS_MAX });
  const worker = new BacktestWorker({
    ...{ redis, keys, clickhouse, metrics, keptOf, now: Date.now },
    log: log.child({ part: 'backtests' }),
    processName: config.processName,
    whenStored: whenStored(barrier),
    erasing: (account) => agents.erasing(account),
    agentOf: agentOf({ redis, keys }),
    amountsOf: async (account) => spendAmounts(priceListOf(await redis.get(keys.prices(account)))),
    traceKeyOf: (account) => traceKeyOf({ redis, keys }, account),
    mayWork,
  });
  const accounts = () => new Accounts({ redis, keys }).someIds(ACCOUNTS_MAX);
  const retentionDays = mostRetentionDays(config);
  const stores = { redis, keys, clickhouse, retentionDays, keptOf };
  // Of each its own: one would refuse the other while it is at the same account.
  const [daily, ordered] = [new AuditVerifier(stores), new AuditVerifier(stores)];
  const settle = (account: string) => barrier.waitForAuditLog(account);
  const verifying = {
    redis,
    keys,
    settle,
    mayWork,
    processName: config.processName,
    log: log.child({ part: 'audit' }),
  };
  return [
    connectionsPart({ config, redis: [redis], clickhouse, waitMs: STORES_READY_MS_MAX, mayBeAway: false, say, log }),
    { name: 'redis watch', start: () => watch.start(), stop: () => watch.stop() },
    new DependencyGauges({ metrics, redis, clickhouse }),
    worker,
    new DailyVerification({
      ...{ ...verifying, retentionDays },
      verify: (account, options) => daily.verify(account, options),
      accounts,
    }),
    new VerificationWorker({ ...verifying, verify: (account, options) => ordered.verify(account, options) }),
    new BudgetCheck({
      ...{ redis, keys, accounts, mayWork, metrics, log: log.child({ part: 'budgets' }) },
      budgets: makeBudgets({ redis, keys }, { spends: new SpendStore(redis, keys), clickhouse, barrier }),
    }),
  ];
}

function whenStored(barrier: ReadBarrier) {
  return (account: string, agent: string | null, signal: AbortSignal): Promise<boolean> => {
    const aborted = new Promise<boolean>((resolve) => {
      if (signal.aborted) resolve(false);
      signal.addEventListener('abort', () => resolve(false), { once: true });
    });
    return Promise.race([barrier.waitForEvents(account, agent), aborted]);
  };
}

function priceListOf(text: string | null): PriceList | undefined {
  return text === null ? undefined : new PriceList(JSON.parse(text) as PriceTableRecord);
}

function agentOf({ redis, keys }: RegistryStore) {
  return async (account: string, agent: string): Promise<AgentRecord | null> => {
    const text = await redis.get(keys.agent(account, agent));
    return text === null ? null : (JSON.parse(text) as AgentRecord);
  };
}
