// The rebuilding of the search (pipelines/store/search-rebuild.ts) as a process of its own, which ends itself with
// SIGKILL at a given place: before its n-th change of the database, or when that is answered. Started by
// rebuild-kills.clickhouse.test.ts with a Told; says what it does, a JSON line each.
import { writeSync } from 'node:fs';
import type { ClickHouseSettings } from '@clickhouse/client';
import { ClickHouse, type QueryParams } from '../../clickhouse/client.ts';
import { rebuildState } from '../../clickhouse/queries/rebuilt-rows.ts';
import { SearchRebuild } from '../../pipelines/store/search-rebuild.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';

export type Told = {
  url: string;
  database: string;
  chunkBytes: number;
  /** Which change, from 0. */
  killAt: number;
  when: 'before' | 'behind';
};
/** `left`: the metric gatehouse_search_rebuild_rows. */
export type Said = { change: string } | { left: number } | { log: string; partition?: string } | { ended: true };

const told = JSON.parse(process.argv[2]!) as Told;
/** At once, whatever becomes of the process. */
const say = (said: Said) => void writeSync(1, `${JSON.stringify(said)}\n`);

class Watched extends ClickHouse {
  #changes = 0;

  override command(sql: string, params?: QueryParams, settings?: ClickHouseSettings): Promise<void> {
    return this.#change(/MATERIALIZE|UPDATE|DROP/.exec(sql)?.[0] ?? sql, () => super.command(sql, params, settings));
  }

  override insertRows(table: string, rows: readonly object[], token?: string): Promise<void> {
    return this.#change(`INSERT ${table}`, () => super.insertRows(table, rows, token));
  }

  async #change(name: string, make: () => Promise<void>): Promise<void> {
    const isHere = this.#changes++ === told.killAt;
    if (isHere) say({ change: `${told.when} ${name}` });
    if (isHere && told.when === 'before') process.kill(process.pid, 'SIGKILL');
    await make();
    if (isHere) process.kill(process.pid, 'SIGKILL');
  }
}

const clickhouse = new Watched({ url: told.url, database: told.database, queryTimeoutSeconds: 60 });
const write = (fields: { partition?: string }, log: string) =>
  say({ log, ...(fields.partition && { partition: fields.partition }) });
const rebuild = new SearchRebuild({
  clickhouse,
  metrics: { set: (_name: string, _labels: object, left: number) => say({ left }) } as unknown as Metrics,
  log: { info: write, warn: write } as unknown as Log,
  ...{ lastPassMs: 0, chunkBytes: told.chunkBytes },
});
await rebuild.look();
if ((await rebuildState(clickhouse))?.done === true) say({ ended: true });
await clickhouse.close();
