// Compares the counters of all budgets with the stored rows once a day, by itself (a part of `gatehouse backtests`,
// which gives way to all others). How many scopes differ lies in Redis, so every such process shows it (/metrics).
// Invariant: what is on its way is no drift: a scope counts that differs by the same amount twice, some seconds apart.
// Failure: logged. A process that is killed at it leaves it to another, after RUN_MS.
import { setTimeout as sleep } from 'node:timers/promises';
import { Periodic } from '../../common/async.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Part } from '../../process/lifecycle.ts';
import type { Log } from '../../process/log.ts';
import type { RegistryStore } from '../commit.ts';
import type { Budgets } from './budgets.ts';

type BudgetCheckOptions = RegistryStore & {
  budgets: Pick<Budgets, 'list'>;
  /** Ids of all accounts. */
  accounts: () => Promise<string[]>;
  mayWork: () => boolean;
  metrics: Pick<Metrics, 'set'>;
  log: Log;
};

const LOOK_MS = 10_000;
const DAY_MS = 86_400_000;
const RUN_MS = 3_600_000;
/** An event is charged within this time while nothing is behind. */
const CHARGED_MS = 5_000;
const RUNNING = 'running';

export class BudgetCheck implements Part {
  readonly name = 'check of budgets';
  readonly #options: BudgetCheckOptions;
  readonly #stop = new AbortController();
  readonly #looks = new Periodic(LOOK_MS, () => this.#look());

  constructor(options: BudgetCheckOptions) {
    this.#options = options;
  }

  start(): void {
    this.#looks.start();
  }

  stop(): Promise<void> {
    this.#stop.abort();
    return this.#looks.stop();
  }

  async #look(): Promise<void> {
    const { redis, keys, mayWork, metrics, log } = this.#options;
    if (!mayWork()) return;
    try {
      const before = await redis.set(keys.budgetCheck(), RUNNING, 'PX', RUN_MS, 'NX', 'GET');
      if (before === null) await this.#check();
      else if (before !== RUNNING) metrics.set('gatehouse_budgets_drifting', {}, Number(before));
    } catch (error) {
      if (!this.#stop.signal.aborted) log.warn({ err: error }, 'budgets.check_failed');
    }
  }

  async #check(): Promise<void> {
    const { redis, keys, accounts, metrics, log } = this.#options;
    let drifting = 0;
    for (const account of await accounts()) {
      this.#stop.signal.throwIfAborted();
      const scopes = await this.#drifting(account);
      if (scopes.length > 0) log.warn({ account, scopes: scopes.slice(0, 20) }, 'budgets.drift');
      drifting += scopes.length;
    }
    metrics.set('gatehouse_budgets_drifting', {}, drifting);
    await redis.set(keys.budgetCheck(), drifting, 'PX', DAY_MS);
  }

  async #drifting(account: string): Promise<string[]> {
    const first = await this.#drifts(account);
    if (first.size === 0) return [];
    await sleep(CHARGED_MS, undefined, { signal: this.#stop.signal });
    const again = await this.#drifts(account);
    return [...first].flatMap(([scope, drift]) => (again.get(scope) === drift ? [scope] : []));
  }

  async #drifts(account: string): Promise<ReadonlyMap<string, string>> {
    const items = await this.#options.budgets.list(account, { policyId: undefined, check: true });
    const known = items.filter((item) => item.known && Number.parseFloat(String(item.drift)) !== 0);
    return new Map(known.map(({ policy_id: policy, scope, drift }) => [`${policy}/${scope ?? ''}`, String(drift)]));
  }
}
