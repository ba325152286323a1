// A search over parts of one account, of another and of both, of different times: whatever is known of parts, totals
// and pages are those of the rows; and what is known is used. Also after rows were deleted and parts merged.
import t, { type Test } from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { type EventsPart, isUnindexed, partsOf } from '../../clickhouse/queries/event-parts.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeStored, plainEvent, startClickHouse, type TestEvent } from '../support/clickhouse.ts';

const { makeDatabase } = await startClickHouse(t);
const DAY = 86_400_000;
const NOW = Date.now();
const [own, other] = [mintId('account', NOW), mintId('account', NOW)] as [string, string];
const agents = [0, 1].map((i) => mintId('agent', NOW + i));
/** A partition each, so that merges keep them apart. */
const MONTHS: { at: number; accounts: string[] }[] = [
  { at: NOW - 200 * DAY, accounts: [own] },
  { at: NOW - 160 * DAY, accounts: [other] },
  { at: NOW - 120 * DAY, accounts: [own, other] },
  { at: NOW - 40 * DAY, accounts: [own] },
];
const ROWS = 200;
const months = MONTHS.map(({ at, accounts }) =>
  Array.from({ length: ROWS }, (_, i): TestEvent => {
    const event = plainEvent({
      ...{ account_id: accounts[i % accounts.length]!, agent_id: agents[(i >> 1) % 2]!, received_at: at + i },
      payload: JSON.stringify({ text: i % 4 < 2 ? 'common one' : 'another' }),
    });
    // Some happened long before they came.
    return { ...event, timestamp: i % 10 === 4 ? at - 60 * DAY + i : at + i, timestamp_micros: i % 1_000 };
  }),
);

const clickhouse = makeDatabase();
await migrate(clickhouse, { retentionDays: 36_500 });
for (const [k, rows] of months.entries())
  for (const half of [0, 1])
    await clickhouse.insertEvents(
      rows.filter((_, i) => (i % 100 < 50 ? 0 : 1) === half).map(encodeStored),
      `insert-${k}-${half}`,
    );
await clickhouse.command('OPTIMIZE TABLE events FINAL');

/** Until all that is there now is known. The engine may have left a part as it came: nothing is looked up of such. */
async function known(): Promise<void> {
  let parts: readonly EventsPart[] = [];
  for (let look = 0; look < 10; look++) {
    await new Promise((resolve) => setTimeout(resolve, 2_100));
    parts = await partsOf(clickhouse);
    const [there] = await clickhouse.query<{ n: number }>(
      "SELECT count() AS n FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active",
    );
    if (parts.length === there?.n && parts.every((part) => isUnindexed(part) || part.holds !== undefined)) return;
  }
  throw new Error(`not known: ${JSON.stringify(parts)}`);
}

let gone = new Set<string>();
type Filter = { from?: number; to?: number; agentId?: string; order?: 'asc' | 'desc' };
const at = MONTHS.map((month) => month.at);
const FILTERS: Filter[] = [
  {},
  { order: 'asc' },
  { from: at[3]! },
  { from: at[3]! + 100.003, to: at[3]! + 150 },
  { from: at[2]! - 61 * DAY, to: at[2]! - DAY },
  { to: at[1]! },
  { to: at[0]! - 61 * DAY },
  { agentId: agents[0]! },
  { agentId: agents[1]!, from: at[2]! },
];

/** `meanwhile`: is awaited in the end. */
async function compare(t: Test, what: string, meanwhile?: Promise<unknown>): Promise<void> {
  for (const account of [own, other, mintId('account', NOW)])
    for (const filter of FILTERS) {
      const { from = 0, to = Infinity, agentId, order = 'desc' } = filter;
      const time = (event: TestEvent) => Number(event['timestamp']) + Number(event['timestamp_micros']) / 1_000;
      const wanted = months
        .flat()
        .filter(
          (event) =>
            event.account_id === account &&
            String(event.payload).includes('common') &&
            !gone.has(event.id) &&
            time(event) >= from &&
            time(event) <= to &&
            (agentId === undefined || event.agent_id === agentId),
        )
        .sort((a, b) => time(a) - time(b) || (a.id < b.id ? -1 : 1))
        .map(({ id }) => id);
      if (order === 'desc') wanted.reverse();
      for (const offset of [0, 30]) {
        const { items, total } = await listEvents(clickhouse, account, {
          ...{ q: 'common', ...filter, limit: 25, offset, payload: 'none' as const },
        });
        const ids = items.map(({ id }) => id);
        t.same([total, ids], [wanted.length, wanted.slice(offset, offset + 25)], `${what} ${JSON.stringify(filter)}`);
      }
    }
  await meanwhile;
}

/** Names of parameters of each statement that `ask` makes, with how many parts they name. */
async function namedBy(ask: () => Promise<unknown>): Promise<Record<string, number>[]> {
  const named: Record<string, number>[] = [];
  const query = clickhouse.query.bind(clickhouse);
  clickhouse.query = ((sql: string, params = {}, ...more: []) => {
    const parts = Object.entries(params).filter(([name]) => name.endsWith('_parts'));
    if (sql.includes('hasAllTokens'))
      named.push(Object.fromEntries(parts.map(([k, v]) => [k, (v as string[]).length])));
    return query(sql, params, ...more);
  }) as typeof query;
  await ask();
  clickhouse.query = query;
  return named;
}

t.test('nothing is known yet', (t) => compare(t, 'unknown'));

t.test('parts are known', async (t) => {
  await known();
  await compare(t, 'known');
  const all = { q: 'common', limit: 25, offset: 0, payload: 'none' as const };
  const [counted] = await namedBy(() => listEvents(clickhouse, own, all));
  t.same(counted, { handled_parts: 1 }, 'one is of the other account alone');
  const [late] = await namedBy(() => listEvents(clickhouse, own, { ...all, from: at[3]! }));
  t.same(late, { handled_parts: 3 }, 'three are too old or of the other');
});

t.test('rows are deleted, and rows of the other account come into a part', async (t) => {
  gone = new Set(
    months
      .flat()
      .filter((_, i) => i % 6 === 0)
      .map(({ id }) => id),
  );
  const ids = { ids: [...gone] };
  await clickhouse.command(
    'DELETE FROM events WHERE id IN {ids:Array(String)} SETTINGS lightweight_deletes_sync = 1',
    ids,
  );
  await compare(t, 'deleted');
  await known();
  await compare(t, 'deleted, known');
  const late = months[3]!.slice(0, 20).map((event, i): TestEvent => {
    const id = mintId('event', at[3]! + 500 + i);
    return { ...event, account_id: other, id, timestamp: at[3]! + 500 + i };
  });
  months.push(late);
  await clickhouse.insertEvents(late.map(encodeStored), 'late');
  await compare(t, 'a new part');
  await compare(t, 'merging', clickhouse.command('OPTIMIZE TABLE events FINAL'));
  await known();
  await compare(t, 'merged, known');
});
