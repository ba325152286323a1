// The rebuilding of old rows, killed with SIGKILL before and behind each change that it makes of the database: it goes
// on where it was, what was found before is found meanwhile, and in the end each row is found by the words of now, has
// its search text once, and is otherwise as it was. The engine is a process of its own; it is killed, too.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { rebuildState, runningMutations } from '../../clickhouse/queries/rebuilt-rows.ts';
import { searchTextOf } from '../../src/common/search/payload-words.ts';
import { assetPath } from '../../src/process/assets.ts';
import { forkEngine, makeFolder, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { bringUpToDate, foundAsBefore, makeEvents, rowsOf, wrong } from './before.ts';
import type { Said, Told } from './rebuilding.ts';

t.setTimeout(900_000);
const EVENTS = 280;
const RUNS_MAX = 80;
/** At which of its changes a run is killed: each in turn, so that no place is passed by for ever. */
const placeOf = (run: number) => run % 4;
/** Of a rebuilding with two months of some chunks each. */
const PLACES = ['MATERIALIZE', 'INSERT migrations', 'INSERT search_rebuild', 'UPDATE', 'DROP'];

type Run = { signal: NodeJS.Signals | null; said: Said[] };

async function run(told: Told): Promise<Run> {
  const child = spawn(process.execPath, [assetPath('build/test/search/rebuilding.js'), JSON.stringify(told)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said: Said[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line) as Said));
  const [, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { signal, said };
}

const lefts = ({ said }: Run) => said.flatMap((one) => ('left' in one ? [one.left] : []));
const logs = (runs: readonly Run[], name: string) =>
  runs.flatMap(({ said }) => said.filter((one) => 'log' in one && one.log === name));

async function searchTexts(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<string[]> {
  const rows = await clickhouse.query<{ id: string; words: string }>('SELECT id, words FROM events ORDER BY id');
  const is = rows.map(({ id, words }) => `${id} ${words}`);
  const wanted = events.map(({ id, payload }) => `${id} ${searchTextOf(Buffer.from(payload))}`).sort();
  return is.length === wanted.length ? is.filter((row, i) => row !== wanted[i]) : [`${is.length} rows`];
}

for (const when of ['before', 'behind'] as const) {
  t.test(`killed ${when} each change`, async (t) => {
    const { url, makeDatabase } = await startClickHouse(t);
    const clickhouse = makeDatabase();
    const events = makeEvents(EVENTS);
    await bringUpToDate(clickhouse, events);
    const rows = await rowsOf(clickhouse);
    const told = { url, database: clickhouse.database, chunkBytes: 1_500, when };
    const runs: Run[] = [];
    const killed: string[] = [];
    let isDone = false;
    for (let i = 0; i < RUNS_MAX && !isDone; i++) {
      const one = await run({ ...told, killAt: placeOf(i) });
      const [before] = lefts(runs.at(-1) ?? { signal: null, said: [] }).slice(-1);
      const [after] = lefts(one);
      t.notOk(before !== undefined && after !== undefined && after > before, `goes on: ${before}, then ${after}`);
      runs.push(one);
      for (const said of one.said) if ('change' in said) killed.push(said.change);
      isDone = one.said.some((said) => 'ended' in said);
      if (!isDone)
        t.equal(one.signal, 'SIGKILL', one.said.flatMap((said) => ('change' in said ? [said.change] : [])).join());
      t.same(await foundAsBefore(clickhouse, events), [], 'what was found is found');
    }
    t.ok(isDone, `after ${killed.length} kills`);
    for (const place of PLACES)
      t.ok(
        killed.some((change) => change.includes(place)),
        `killed ${when} ${place}`,
      );
    for (const name of ['search.indexed', 'search.rebuilt']) {
      const partitions = logs(runs, name).map((one) => ('partition' in one ? one.partition : ''));
      t.same(partitions, [...new Set(partitions)], `${name}: none twice`);
    }
    t.ok(logs(runs, 'search.rebuild_continued').length > 0, 'and the log says that it goes on');
    t.equal(lefts(runs.at(-1)!).at(-1), 0);
    t.match(await rebuildState(clickhouse), { done: true });
    t.same(await runningMutations(clickhouse), []);
    t.same(await clickhouse.query('SELECT chunk FROM search_rebuild'), [], 'nothing is left of what was on its way');
    t.same(await searchTexts(clickhouse, events), [], 'each row has its search text');
    const fresh = clickhouse.withDatabase(clickhouse.database);
    t.teardown(() => fresh.close());
    t.same(await wrong(fresh, events), [], 'each is found by the words of now, once');
    t.equal(await rowsOf(clickhouse), rows, 'the rows that the audit chain knows are the same');
  });
}

const skip = process.env.GATEHOUSE_TEST_CLICKHOUSE_URL === undefined ? false : 'the engine is not ours to kill';

t.test('the engine is killed while it indexes and writes', { skip }, async (t) => {
  const options = { path: path.join(makeFolder(t), 'data'), port: 0 };
  let engine = await forkEngine(options);
  t.teardown(() => engine.stop('SIGTERM'));
  const clientOf = () => new ClickHouse({ url: engine.url, database: 'killed', queryTimeoutSeconds: 60 });
  const events = makeEvents(EVENTS);
  let clickhouse = clientOf();
  await bringUpToDate(clickhouse, events);
  const rows = await rowsOf(clickhouse);
  let isDone = false;
  for (let i = 0; i < RUNS_MAX && !isDone; i++) {
    const told = {
      url: engine.url,
      database: 'killed',
      chunkBytes: 1_500,
      when: 'behind',
      killAt: placeOf(i),
    } as const;
    isDone = (await run(told)).said.some((said) => 'ended' in said);
    await clickhouse.close();
    await engine.stop('SIGKILL');
    engine = await forkEngine(options);
    clickhouse = clientOf();
    t.same(await foundAsBefore(clickhouse, events), [], 'what was found is found');
  }
  t.ok(isDone);
  t.same(await searchTexts(clickhouse, events), []);
  t.same(await wrong(clickhouse, events), []);
  t.equal(await rowsOf(clickhouse), rows);
  await clickhouse.close();
});
