// Pages and totals of searches over events of some months in parts with and without the index: each is what sorting all
// that match by (timestamp, arrival) gives, by offset, by cursor and both ways, also while parts are merged.
import t from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { slicesOf } from '../../clickhouse/queries/searched-events.ts';
import type { PageStart } from '../../schemas/paging.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';
import { randomFrom, SEED } from '../support/seed.ts';

const { makeDatabase } = await startClickHouse(t);
const NOW = Date.now();
const DAY = 86_400_000;
const next = randomFrom(SEED);
const account = mintId('account', NOW);
const other = mintId('account', NOW);
const agents = [0, 1, 2].map((i) => mintId('agent', NOW + i));
const EVENTS = 3_000;

/** Two thirds of the last day, some at the same time, one in the future. */
function makeEvent(i: number): TestEvent {
  const age = i % 3 === 0 ? next() * 60 * DAY : Math.floor(next() * 200) * 1_000;
  const words = [
    `n${i}`,
    i % 2 === 0 ? 'common' : '价格表',
    i % 20 === 0 ? 'Middle' : '',
    i % 1_000 === 7 ? 'rare' : '',
  ];
  const event = plainEvent({
    ...{ account_id: i % 50 === 49 ? other : account, agent_id: agents[i % 3]!, received_at: NOW - EVENTS + i },
    payload: JSON.stringify({ text: words.join(' ') }),
  });
  return { ...event, timestamp: i === 11 ? NOW + DAY : Math.floor(NOW - age), timestamp_micros: i % 4 };
}

const events = Array.from({ length: EVENTS }, (_, i) => makeEvent(i));
/** Whole words next to each other; of Chinese any part. */
function isFound({ account_id: of, payload }: TestEvent, q: string): boolean {
  const text = ` ${(JSON.parse(String(payload)) as { text: string }).text.toLowerCase()} `;
  const run = q.replaceAll('"', '');
  return of === account && text.includes(/^[a-z]/.test(run) ? ` ${run} ` : run);
}

const place = ({ timestamp, timestamp_micros: us, id }: TestEvent) =>
  `${String(timestamp).padStart(16, '0')} ${String(us).padStart(3, '0')} ${id}`;

function wanted(
  q: string,
  { from = 0, to = Infinity, order = 'desc' }: { from?: number; to?: number; order?: string },
) {
  const at = ({ timestamp, timestamp_micros: us }: TestEvent) => Number(timestamp) + Number(us) / 1_000;
  const some = events.filter((event) => isFound(event, q) && at(event) >= from && at(event) <= to);
  const places = some.map(place).sort();
  return (order === 'asc' ? places : places.reverse()).map((text) => text.slice(-30));
}

const clickhouse = makeDatabase();
await migrate(clickhouse, { retentionDays: 36_500 });
for (let i = 0; i < EVENTS; i += 250) {
  const rows = events.slice(i, i + 250);
  await clickhouse.insertEvents(rows.map(encodeStored), `insert-${i}`);
  if (i === 1_000) await clickhouse.command('OPTIMIZE TABLE events FINAL');
}

const QUESTIONS = ['common', 'middle', 'rare', '价格', '价格表', 'nothing', 'n7', '"common middle"', 'common n4'];
const asked = (q: string) => (q === 'common n4' ? 'n4 common' : q);
type Filter = { from?: number; to?: number; order?: 'asc' | 'desc' };
const FILTERS: Filter[] = [{}, { order: 'asc' }, { from: NOW - 100_000 }, { to: NOW - 30_000 }, { to: NOW - 20 * DAY }];

const page = async (q: string, filter: Filter, start: PageStart) => {
  const listed = await listEvents(clickhouse, account, { q, ...filter, ...start, payload: 'none' });
  return { ...listed, ids: listed.items.map(({ id }) => id) };
};

t.test('by offset and by cursor', async (t) => {
  for (const q of QUESTIONS) {
    for (const filter of FILTERS) {
      const all = wanted(asked(q), filter);
      const what = `${q} ${JSON.stringify(filter)}: ${all.length}`;
      const first = await page(q, filter, { limit: 40, offset: 0 });
      t.same([first.total, first.ids], [all.length, all.slice(0, 40)], what);
      const deep = await page(q, filter, { limit: 40, offset: 300 });
      t.same([deep.total, deep.ids], [all.length, all.slice(300, 340)], `${what}, behind 300`);
      const walked = [...first.ids];
      for (let after = first.next; after !== null; ) {
        const more = await page(q, filter, { limit: 400, offset: 0, after });
        walked.push(...more.ids);
        after = more.next;
      }
      t.same(walked, all, `${what}, by cursor`);
    }
  }
});

t.test('while parts are merged', async (t) => {
  const all = wanted('common', {});
  let isMerged = false;
  const merging = clickhouse.command('OPTIMIZE TABLE events FINAL').then(() => (isMerged = true));
  let looks = 0;
  for (; !isMerged || looks < 20; looks++) {
    const { total, ids } = await page('common', {}, { limit: 40, offset: 0 });
    if (total !== all.length || ids.join() !== all.slice(0, 40).join()) t.same([total, ids], [all.length, all]);
  }
  await merging;
  t.pass(`${looks} looks`);
});

t.test('slices are longer each time, and the last is everything', async (t) => {
  const at = (slices: (number | undefined)[]) => slices.map((from) => from && NOW - from);
  const start = { limit: 50, offset: 0 };
  t.same(slicesOf(start, 51, NOW), [undefined], 'all of them are needed');
  t.same(slicesOf({ ...start, order: 'asc' }, 1_000_000, NOW), [undefined]);
  t.same(slicesOf({ ...start, offset: 100_000 }, 1_000_000, NOW), [undefined]);
  const [first = 0, second = 0, ...more] = at(slicesOf(start, 1_000_000, NOW));
  t.equal(Math.ceil(first / 1_000), Math.ceil((3 * 30 * DAY * 51) / 1_000_000 / 1_000));
  t.ok(second > 15 * first && more.at(-1) === undefined);
  t.equal(at(slicesOf({ ...start, after: { at: NOW - DAY } }, null, NOW))[0], DAY + 3_600_000);
});
