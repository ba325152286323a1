// Says in `/metrics` whether Redis and ClickHouse answer this process, and how far the machine's clock is from that of
// Redis. A part of each front and pipelines process, beside everything: nothing waits for it.
// Invariant: a gauge is there after the first poll and at most DEPENDENCY_LOOK_MS + ANSWER_MS_MAX old, also when an
// answer never comes.
// Failure: whatever goes wrong while asking counts as no answer; that is what the gauge is for.
import { Periodic } from '../common/async.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Metrics } from './metrics.ts';

/** Scrapes are rarely more frequent; three commands of a connection that is there anyway. */
const DEPENDENCY_LOOK_MS = 5_000;
const ANSWER_MS_MAX = 2_000;

type DependencyGaugesOptions = {
  metrics: Metrics;
  /** Answers seconds and microseconds. */
  redis: { time(): Promise<(number | string)[]> };
  /** Rejects where it does not answer. */
  clickhouse: { ping(): Promise<unknown> };
};

export class DependencyGauges implements Part {
  readonly name = 'dependency gauges';
  readonly #options: DependencyGaugesOptions;
  readonly #looks = new Periodic(DEPENDENCY_LOOK_MS, () => this.#look());

  constructor(options: DependencyGaugesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#looks.start();
    void this.#looks.run();
  }

  stop(): Promise<void> {
    return this.#looks.stop();
  }

  async #look(): Promise<void> {
    await Promise.all([this.#lookAtRedis(), this.#lookAtClickHouse()]);
  }

  async #lookAtRedis(): Promise<void> {
    const { metrics, redis } = this.#options;
    const askedMs = Date.now();
    const thereMs = await answerOf(async () => {
      const [seconds, microseconds] = await redis.time();
      return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
    });
    metrics.set('gatehouse_dependency_up', { dependency: 'redis' }, thereMs === undefined ? 0 : 1);
    // The answer was made somewhere between question and arrival.
    if (thereMs !== undefined)
      metrics.set('gatehouse_clock_offset_seconds', {}, ((askedMs + Date.now()) / 2 - thereMs) / 1000);
  }

  async #lookAtClickHouse(): Promise<void> {
    const { metrics, clickhouse } = this.#options;
    const answer = await answerOf(async () => {
      await clickhouse.ping();
      return true;
    });
    metrics.set('gatehouse_dependency_up', { dependency: 'clickhouse' }, answer === undefined ? 0 : 1);
  }
}

/** undefined: none came, or not in time. */
function answerOf<T>(ask: () => Promise<T>): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), ANSWER_MS_MAX);
    const settle = (value: T | undefined) => {
      clearTimeout(timer);
      resolve(value);
    };
    ask().then(settle, () => settle(undefined));
  });
}
