// Lets no read see what is past the retention, whether it has been deleted yet or not (inside ClickHouse, client.ts):
// every query that is asked in the name of an account gets what is kept of that account as a further condition of each
// table whose rows expire. No query has to say it, so none can forget it.
// Rows that are past the retention lie in few parts, and for most of a day in none: without any the setting is left
// out, and totals are read off projections as ever. Which parts there are is known as of LOOK_MS ago. So a row that is
// stored when it is past already (a dead letter that was put back) may show for that long.
// Failure: what is kept of an account cannot be learnt: the query fails, and shows nothing.
import { type ClickHouseSettings, SettingsMap } from '@clickhouse/client';
import type { KeptTimes } from '../schemas/retention.ts';
import { EXPIRING_TABLES, keptRows } from './queries/kept-rows.ts';

export type KeptOf = (account: string) => KeptTimes | Promise<KeptTimes>;

const LOOK_MS = 10_000;
const NOTHING: ClickHouseSettings = {};

/** Epoch ms at which the oldest row arrived; null: there are none. */
export const OLDEST_ROW = `SELECT if(count() = 0, NULL, toUnixTimestamp(min(min_time)) * 1000) AS oldest FROM system.parts
  WHERE database = currentDatabase() AND table IN (${EXPIRING_TABLES.map((table) => `'${table}'`).join(', ')}) AND active AND rows > 0`;

export class KeptReads {
  readonly #keptOf: KeptOf;
  readonly #askOldest: () => Promise<number | null>;
  #oldestMs = Promise.resolve<number | null>(null);
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(keptOf: KeptOf, askOldest: () => Promise<number | null>) {
    this.#keptOf = keptOf;
    this.#askOldest = askOldest;
  }

  async settingsFor(account: string): Promise<ClickHouseSettings> {
    const [kept, oldestMs] = await Promise.all([this.#keptOf(account), this.#oldest()]);
    if (oldestMs === null || oldestMs >= kept.wholeFromMs) return NOTHING;
    const filters = EXPIRING_TABLES.map((table) => [table, escaped(keptRows(table, kept))] as const);
    return { additional_table_filters: SettingsMap.from(Object.fromEntries(filters)) };
  }

  #oldest(): Promise<number | null> {
    if (performance.now() - this.#askedAt < LOOK_MS) return this.#oldestMs;
    this.#askedAt = performance.now();
    this.#oldestMs = this.#askOldest();
    // Asked again by the next query.
    this.#oldestMs.catch(() => {
      this.#askedAt = Number.NEGATIVE_INFINITY;
    });
    return this.#oldestMs;
  }
}

/** It stands between quotes, which the client puts there as they are. */
function escaped(sql: string): string {
  return sql.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
}
