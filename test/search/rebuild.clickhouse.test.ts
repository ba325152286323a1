// A database of before migration 013 is brought up to date with rows in it, and rebuilt in the background: what was
// found before is found at every moment, afterwards all is found as if it had been stored now, the stored rows are
// otherwise the same, byte for byte; kills, a second process beside it, rows of an older process, a change that fails.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate, readMigrations } from '../../clickhouse/migrate.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { isSearchRebuilt, rebuildState, runningMutations } from '../../clickhouse/queries/rebuilt-rows.ts';
import { SearchRebuild } from '../../pipelines/store/search-rebuild.ts';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { mintId } from '../../src/common/ids.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { silent } from '../streams/harness.ts';
import { encodeRow, encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { referenceFinds } from './reference.ts';

const { makeDatabase } = await startClickHouse(t);
const BASE = Date.UTC(2026, 9, 30);
const DAY = 86_400_000;
const account = mintId('account', BASE);
const agents = [0, 1, 2].map((i) => mintId('agent', BASE + i));

/** What the front of before wrote into search_text. */
const TEXTS = [
  'plain words alpha',
  'Straße München gamma',
  '请查询iPhone的价格',
  '서울에서 만나요',
  'نص عربي، مرحبا',
  'well done 🙂',
  'C:\\new "alpha" beta',
];
const QUESTIONS = [
  'alpha',
  'gamma',
  'münchen',
  'straße',
  'STRASSE',
  '价格',
  'iPhone',
  '서울',
  'مرحبا',
  'عربي',
  '🙂',
  'beta',
  'new',
];
/** By the rule of before; what else is found meanwhile is welcome. */
const FOUND_BEFORE: Record<string, number[]> = {
  ...{ alpha: [0, 6], gamma: [1], münchen: [1], straße: [1], 价格: [2], عربي: [4], beta: [6], new: [6] },
};

function makeEvents(count: number): TestEvent[] {
  return Array.from({ length: count }, (_, i) => {
    const text = TEXTS[i % TEXTS.length]!;
    const plain = JSON.stringify({ n: i, text });
    const isEscaped = i % 3 === 0 && /[\u007f-\uffff]/.test(text);
    return plainEvent({
      ...{ account_id: account, agent_id: agents[i % 3]!, received_at: BASE + (i % 4) * DAY + i },
      payload: isEscaped
        ? plain.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
        : plain,
      search_text: isEscaped ? `n\n${i}\ntext\n${text}` : '',
    });
  });
}

/** With tables of before, and rows in them, in two months and some parts. */
async function before(t: Test, events: readonly TestEvent[]): Promise<ClickHouse> {
  const clickhouse = makeDatabase();
  const old = readMigrations().filter(({ version }) => version < 13);
  await migrate(clickhouse, { retentionDays: 36_500, migrations: old });
  await storeAsBefore(clickhouse, events);
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  await migrate(clickhouse, { retentionDays: 36_500 });
  t.notOk(await isSearchRebuilt(clickhouse));
  return clickhouse;
}

async function storeAsBefore(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<void> {
  for (const month of [9, 10]) {
    const some = events.filter(({ received_at: at }) => new Date(at).getUTCMonth() === month);
    if (some.length > 0)
      await clickhouse.insertBinary('events', EVENT_ROW_COLUMNS.join(', '), some.map(encodeRow), randomUUID());
  }
}

async function found(clickhouse: ClickHouse, q: string): Promise<Set<string>> {
  const { items } = await listEvents(clickhouse, account, { q, limit: 10_000, offset: 0, payload: 'none' });
  return new Set(items.map(({ id }) => id));
}

async function foundAsBefore(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<string[]> {
  const missing: string[] = [];
  for (const [q, texts] of Object.entries(FOUND_BEFORE)) {
    const hits = await found(clickhouse, q);
    const lacks = events.filter(({ id }, i) => texts.includes(i % TEXTS.length) && !hits.has(id));
    if (lacks.length > 0) missing.push(`${q}: ${lacks.length}`);
  }
  return missing;
}

/** Found and not, as the definition says. */
async function wrong(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<string[]> {
  const faults: string[] = [];
  for (const q of QUESTIONS) {
    const hits = await found(clickhouse, q);
    const wanted = events.filter(({ payload }) => referenceFinds(payload, q) === true);
    if (hits.size !== wanted.length || wanted.some(({ id }) => !hits.has(id)))
      faults.push(`${q}: ${hits.size} instead of ${wanted.length}`);
  }
  return faults;
}

const rowsOf = async (clickhouse: ClickHouse) =>
  (await clickhouse.queryBinary(`SELECT ${EVENT_ROW_COLUMNS.join(', ')} FROM events ORDER BY id`)).toString('base64');

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

t.test('killed and taken up again, by two processes at once, it ends the same', async (t) => {
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
  for (const event of late)
    await clickhouse.insertBinary('events', EVENT_ROW_COLUMNS.join(', '), [encodeRow(event)], randomUUID());
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
