// Rows as they are inserted: each as it came, with the words of its payload and what shadows said behind it, in their
// order; long work gives way to what is due meanwhile.
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { storedRows } from '../../pipelines/store/stored-rows.ts';
import { payloadOf } from '../../src/common/event-row-codec.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeRow, plainEvent, withOthers } from '../support/clickhouse.ts';

const NOW = Date.UTC(2026, 10, 27);
const account = mintId('account', NOW);
const agent = mintId('agent', NOW);
const eventOf = (text: string) =>
  plainEvent({ account_id: account, agent_id: agent, received_at: NOW, payload: JSON.stringify({ text }) });

t.test('each row as it came, its words behind it', async (t) => {
  const events = ['plain', 'Größe', '', '价格', 'x'.repeat(300_000), 'é'.repeat(200_000), 'last'].map(eventOf);
  const stored = Buffer.concat(await storedRows(events.map(encodeRow)));
  const wanted = Buffer.concat(events.map((event) => withOthers(encodeRow(event), event.payload)));
  t.ok(stored.equals(wanted));
  for (const event of events) t.equal(payloadOf(encodeRow(event)).toString(), event.payload);
  t.same(await storedRows([]), []);
});

t.test(
  'behind the words what shadows said, what it cost and what it used of budgets, where that is known',
  async (t) => {
    const events = ['one', 'two', 'three'].map(eventOf);
    const said = [{ policy_id: 'pol_1', revision: 2, would: 'blocked' as const }];
    const by = { policy: 'pol_1', unit: 'unit', form: 'form', window: { ms: 60_000 }, limit: 9, warn: [], life: 1 };
    const summaries = [
      {},
      { shadow: said, cost: { by: 'USD 12', millionths: 5_000_000_000 } },
      {
        cost: { by: 'USD 12', millionths: null },
        settled: [{ by, scope: 'agt_1', shown: 'é', amount: 7, target: 'evt_1' }],
      },
    ];
    const beside = [
      {},
      { shadow: JSON.stringify(said), cost: 5_000_000_000, priced_by: 'USD 12' },
      { cost: null, priced_by: 'USD 12', settled: '[["pol_1","unit","agt_1","é",7]]' },
    ];
    const stored = Buffer.concat(await storedRows(events.map(encodeRow), (i) => summaries[i]!));
    const wanted = events.map((event, i) => withOthers(encodeRow(event), event.payload, beside[i]));
    t.ok(stored.equals(Buffer.concat(wanted)));
  },
);

t.test('others have their turn while large payloads are read', async (t) => {
  const row = encodeRow(eventOf('请查询的价格 é '.repeat(20_000)));
  let turns = 0;
  let isDone = false;
  const counting = (async () => {
    while (!isDone) {
      await nextTurn();
      turns++;
    }
  })();
  await storedRows(Array.from({ length: 8 }, () => row));
  isDone = true;
  await counting;
  t.ok(turns >= 6, `${turns} turns`);
});
