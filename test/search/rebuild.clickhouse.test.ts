// A database of before migration 013 is brought up to date with rows in it, and rebuilt in the background: what was
// found before is found at every moment, afterwards all is found as if it had been stored now, the stored rows are
// otherwise the same, byte for byte; a second process beside it, rows of an older process.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { isSearchRebuilt, rebuildState, runningMutations } from '../../clickhouse/queries/rebuilt-rows.ts';
import { SearchRebuild } from '../../pipelines/store/search-rebuild.ts';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { mintId } from '../../src/common/ids.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { silent } from '../streams/harness.ts';
import { encodeRow, encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { account, agents, bringUpToDate, foundAsBefore, makeEvents, rowsOf, wrong } from './before.ts';

const { makeDatabase } = await startClickHouse(t);
async function before(t: Test, events: readonly TestEvent[]): Promise<ClickHouse> {
  const clickhouse = makeDatabase();
  await bringUpToDate(clickhouse, events);
  t.notOk(await isSearchRebuilt(clickhouse));
  return clickhouse;
}

function rebuildOf(clickhouse: ClickHouse, more: { lastPassMs?: number; chunkBytes?: number } = {}) {
  const left: number[] = [];
  const metrics = { set: (_name: string, _labels: object, value: number) => void left.push(value) };
  const rebuild = new SearchRebuild({
    ...{ clickhouse, log: silent, metrics: metrics as unknown as Metrics },
    ...{ lastPassMs: 0, chunkBytes: 2_000, ...more },
  });
  return { rebuild, left };
}

t.test('rows of before are rebuilt, and are found meanwhile by what found them', async (t) => {
  const events = makeEvents(420);
  const clickhouse = await before(t, events);
  const rows = await rowsOf(clickhouse);
  t.same(await foundAsBefore(clickhouse, events), [], 'after the migration');
  const { rebuild, left } = rebuildOf(clickhouse);
  const running = rebuild.look();
  let looks = 0;
  let ended = false;
  void running.then(() => (ended = true));
  while (!ended) {
    t.same(await foundAsBefore(clickhouse, events), [], 'while it runs');
    looks++;
  }
  t.ok(looks > 1, `${looks} looks`);
  await running;
  t.match(await rebuildState(clickhouse), { done: true, indexed: ['202611', '202610'], worded: ['202611', '202610'] });
  t.equal(left.at(-1), 0);
  t.ok(left.some((rows) => rows > 0));
  // As a process that starts now sees it.
  const fresh = clickhouse.withDatabase(clickhouse.database);
  t.teardown(() => fresh.close());
  t.ok(await isSearchRebuilt(fresh));
  t.same(await wrong(fresh, events), []);
  t.equal(await rowsOf(clickhouse), rows, 'the rows that the audit chain knows are the same');
  const [{ n }] = (await clickhouse.query<{ n: number }>('SELECT count() AS n FROM search_rebuild')) as [{ n: number }];
  t.equal(n, 0, 'nothing is left of what was on its way');
  const explained = await clickhouse.query<{ parts: number }>(
    "SELECT countIf(secondary_indices_compressed_bytes = 0) AS parts FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active",
  );
  t.same(explained, [{ parts: 0 }]);
});

t.test('stopped and taken up again, by two processes at once, it ends the same', async (t) => {
  const events = makeEvents(280);
  const clickhouse = await before(t, events);
  for (const afterMs of [50, 200, 600, 1_200]) {
    const { rebuild } = rebuildOf(clickhouse);
    void rebuild.look();
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    await rebuild.stop();
  }
  await Promise.all([rebuildOf(clickhouse).rebuild.look(), rebuildOf(clickhouse).rebuild.look()]);
  while (!(await rebuildState(clickhouse))?.done) await rebuildOf(clickhouse).rebuild.look();
  t.same(await runningMutations(clickhouse), []);
  const fresh = clickhouse.withDatabase(clickhouse.database);
  t.teardown(() => fresh.close());
  t.same(await wrong(fresh, events), []);
});

t.test('rows that an older process stores meanwhile are rebuilt by the last pass', async (t) => {
  const events = makeEvents(70);
  const clickhouse = await before(t, events);
  const { rebuild } = rebuildOf(clickhouse, { lastPassMs: 4_000 });
  const running = rebuild.look();
  while (((await rebuildState(clickhouse))?.worded.length ?? 0) < 2) await new Promise((r) => setTimeout(r, 50));
  const late = makeEvents(14).map((event) => ({ ...event, id: mintId('event', Date.now()), received_at: Date.now() }));
  await clickhouse.insertBinary('events', EVENT_ROW_COLUMNS.join(', '), late.map(encodeRow), randomUUID());
  const now = plainEvent({
    account_id: account,
    agent_id: agents[0]!,
    received_at: Date.now(),
    payload: '{"t":"价格"}',
  });
  await clickhouse.insertEvents([encodeStored(now)], 'now');
  await running;
  const fresh = clickhouse.withDatabase(clickhouse.database);
  t.teardown(() => fresh.close());
  t.same(await wrong(fresh, [...events, ...late, now]), []);
});

t.test('a database without rows is done at once', async (t) => {
  const clickhouse = makeDatabase();
  await migrate(clickhouse, { retentionDays: 36_500 });
  await rebuildOf(clickhouse, { lastPassMs: 600_000 }).rebuild.look();
  t.match(await rebuildState(clickhouse), { done: true });
});
