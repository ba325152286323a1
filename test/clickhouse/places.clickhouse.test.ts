// The rest of a row is read at the place that the row's head names: the head's projection must name the right one,
// whatever has become of the parts, and a row that has moved since must be found all the same.
import t from 'tap';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { eraseAgent, partsToRewrite, rewriteErased } from '../../clickhouse/queries/erase-agent.ts';
import { completeRows, type EventHead, HEAD_COLUMNS } from '../../clickhouse/queries/event-rows.ts';
import { mintId } from '../../src/common/ids.ts';
import { eventually } from '../streams/harness.ts';
import { encodeStored, plainEvent, startClickHouse } from '../support/clickhouse.ts';

const BASE = Date.UTC(2026, 10, 20, 12);
/** So many that the engine reads the projection, and granules beside the first. */
const EVENTS = 3_000;
/** More than are fetched at once. */
const PAGE = 150;

const account = mintId('account', BASE);
const agents = Array.from({ length: 7 }, (_, i) => mintId('agent', BASE + i));
const payloadOf = (i: number) => JSON.stringify({ i, text: 'x'.repeat(i % 700) });

async function insert(clickhouse: ClickHouse, n: number): Promise<void> {
  const rows = Array.from({ length: EVENTS }, (_, k) => {
    const i = n * EVENTS + k;
    const event = { account_id: account, agent_id: agents[(i * i) % 7]!, received_at: BASE + i, payload: payloadOf(i) };
    return encodeStored(
      plainEvent({ ...event, type: i % 2 === 0 ? 'prompt' : 'completion', trace_id: `trace-${i % 50}` }),
    );
  });
  await clickhouse.insertEvents(rows, `insert-${n}`);
}

/** A page that begins somewhere in the middle, as a timeline finds it. */
const HEADS = `SELECT ${HEAD_COLUMNS} FROM events WHERE account_id = {account:String}
  ORDER BY timestamp DESC, id DESC LIMIT ${PAGE} OFFSET ${EVENTS / 3}`;
const BY_TIME = { settings: { preferred_optimize_projection_name: 'by_time' } };

const headsOf = (clickhouse: ClickHouse) => clickhouse.query<EventHead>(HEADS, { account }, BY_TIME);

/** Id -> place, as the rows themselves say. */
async function placesOf(clickhouse: ClickHouse): Promise<Map<string, string>> {
  const rows = await clickhouse.query<EventHead>(
    `SELECT ${HEAD_COLUMNS} FROM events WHERE account_id = {account:String}`,
    { account },
    { settings: { optimize_use_projections: 0 } },
  );
  return new Map(rows.map((row) => [row.id, `${row.part}/${row.part_offset}`]));
}

t.test('the rest of a row is found at its place, or else by its key', async (t) => {
  const { makeDatabase } = await startClickHouse(t);
  const clickhouse = makeDatabase();
  await migrate(clickhouse, { retentionDays: 365 });

  const whole = async (heads: readonly EventHead[]) => {
    const { rows } = await completeRows(clickhouse, account, heads);
    t.same(
      rows.map(({ id }) => id),
      heads.map(({ id }) => id),
      'each once, in order',
    );
    for (const row of rows) {
      const i = row.received_at_ms - BASE;
      const { payload, type, trace_id, agent_id } = row;
      const expected = {
        payload: payloadOf(i),
        type: i % 2 === 0 ? 'prompt' : 'completion',
        trace_id: `trace-${i % 50}`,
      };
      t.match({ payload, type, trace_id, agent_id }, { ...expected, agent_id: agents[(i * i) % 7]! });
    }
  };
  const named = async (what: string) => {
    const [heads, places] = [await headsOf(clickhouse), await placesOf(clickhouse)];
    t.equal(heads.length, PAGE);
    t.same(
      heads.map((head) => `${head.part}/${head.part_offset}`),
      heads.map(({ id }) => places.get(id)),
      what,
    );
    await whole(heads);
    return heads;
  };

  for (let n = 0; n < 3; n++) await insert(clickhouse, n);
  const plan = await clickhouse.query<{ explain: string }>(`EXPLAIN ${HEADS}`, { account }, BY_TIME);
  t.match(plan.map(({ explain }) => explain).join('\n'), /ReadFromMergeTree \(by_time\)/);
  const before = await named('inserted');
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  await insert(clickhouse, 3);
  await named('merged');
  t.notOk((await placesOf(clickhouse)).get(before[0]!.id)?.startsWith(`${before[0]!.part}/`), 'they have moved');
  await whole(before);

  const last = await headsOf(clickhouse);
  await eraseAgent(clickhouse, account, agents[1]!);
  await named('erased');
  const left = last.filter(({ agent_id }) => agent_id !== agents[1]);
  t.ok(left.length < last.length);
  t.same(
    (await completeRows(clickhouse, account, last)).rows.map(({ id }) => id),
    left.map(({ id }) => id),
    'gone is gone',
  );
  await rewriteErased(clickhouse);
  await eventually(async () => (await partsToRewrite(clickhouse)) === 'none');
  await named('rewritten');
  t.same((await completeRows(clickhouse, mintId('account', BASE), left)).rows, [], 'no other account finds them');
});
