// The whole service on a ClickHouse of its own, whose rows are from before migration 013: the pipelines rebuild them,
// are killed with SIGKILL meanwhile, and go on where they were, as the log and /metrics say.
import { rm } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { noteRebuild, rebuildState } from '../../clickhouse/queries/rebuilt-rows.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { bringUpToDate, makeEvents, rowsOf, wrong } from '../search/before.ts';
import { forkEngine, makeFolder } from '../support/clickhouse.ts';
import { pause } from '../support/raw-http.ts';
import { launchService, makeDataDir } from '../support/service.ts';

t.setTimeout(600_000);
/** As pipelines/store/search-rebuild.ts has it: so long rows of older processes may come. */
const OLD_PROCESSES_MS = 10 * 60_000;

t.test('killed pipelines go on with the rebuilding', async (t) => {
  const engine = await forkEngine({ path: path.join(makeFolder(t), 'data'), port: 0 });
  t.teardown(() => engine.stop('SIGTERM'));
  const clickhouse = new ClickHouse({ url: engine.url, database: 'before', queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  const events = makeEvents(5_600);
  await bringUpToDate(clickhouse, events);
  const rows = await rowsOf(clickhouse);

  const dataDir = await makeDataDir();
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  const port = await freePort();
  const env = { GATEHOUSE_CLICKHOUSE_URL: engine.url, GATEHOUSE_CLICKHOUSE_DATABASE: 'before' };
  const service = await launchService({
    dataDir,
    env: { ...env, GATEHOUSE_FRONTS: '1', GATEHOUSE_LOG_LEVEL: 'info', GATEHOUSE_METRICS_PORT: String(port) },
  });
  t.teardown(() => service.stop());

  const killed = new Set<number>();
  const killPipelines = async (): Promise<void> => {
    for (;;) {
      const child = (await service.children()).find(({ name }) => name === 'pipelines');
      if (child !== undefined && !killed.has(child.pid)) {
        process.kill(child.pid, 'SIGKILL');
        killed.add(child.pid);
        return;
      }
      await pause(20);
    }
  };
  const said = async (name: string) =>
    (await service.log())
      .split('\n')
      .filter((line) => line.includes(`"msg":"${name}"`))
      .map((line) => JSON.parse(line) as { pid: number; partition?: string; indexed?: string[]; worded?: string[] });
  const until = async (isSo: () => Promise<boolean>): Promise<void> => {
    while (!(await isSo())) await pause(50);
  };
  const left = async () => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    return Number(/^gatehouse_search_rebuild_rows\{[^}]*\} (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
  };

  await until(async () => (await said('search.indexed')).length > 0);
  await killPipelines();
  await until(async () => (await said('search.rebuild_continued')).length > 0);
  t.match((await said('search.rebuild_continued'))[0], { indexed: ['202611'], worded: [] }, 'the log says from where');
  await until(async () => (await said('search.rebuilt')).length > 0);
  await killPipelines();
  await until(async () => (await said('search.rebuild_continued')).length > 1);
  await until(async () => (await said('search.rebuilt')).length > 1);
  await until(async () => (await left()) === 0);
  t.pass('/metrics says that none is left');
  // Now it waits for processes that are older than the migration, by when it began.
  const state = (await rebuildState(clickhouse))!;
  t.match(state, { indexed: ['202611', '202610'], worded: ['202611', '202610'], done: false });
  await noteRebuild(clickhouse, { ...state, since: state.since - OLD_PROCESSES_MS });
  await killPipelines();
  await until(async () => (await rebuildState(clickhouse))?.done === true);

  t.equal(killed.size, 3);
  for (const name of ['search.indexed', 'search.rebuilt'])
    t.same((await said(name)).map(({ partition }) => partition).sort(), ['202610', '202611'], `${name}: each once`);
  t.equal(new Set((await said('search.rebuild_continued')).map(({ pid }) => pid)).size, 3, 'each went on');
  t.equal((await said('search.rebuild_begun')).length, 1);
  const fresh = clickhouse.withDatabase('before');
  t.teardown(() => fresh.close());
  t.same(await wrong(fresh, events), [], 'each row is found by the words of now, once');
  t.equal(await rowsOf(clickhouse), rows);
});
