// What an entry's summaries mean: tuples and whose they are, beside summaries with names for their fields.
import t from 'tap';
import { decodeSummaries, type EventSummary } from '../../schemas/entry.ts';

const whole: EventSummary = {
  account: 'acc_1',
  agent: 'agt_1',
  id: 'evt_0',
  type: 'error',
  occurredAt: 1,
  receivedAt: 2,
  outcome: 'blocked',
  reason: 'policy',
  rowBytes: 9,
};

t.test('a tuple is an allowed event of the owner before it; other summaries stand for themselves', (t) => {
  const text = JSON.stringify([
    ['acc_2', 'agt_2'],
    ['evt_1', 'prompt', 1, 2, 3],
    whole,
    ['evt_2', 'tool_call', 4, 5, 6, 'trace', 7],
    ['acc_2', 'agt_3'],
    ['evt_3', 'custom', 1, 2, 3, 'trace'],
    ['evt_4', 'custom', 1, 2, 3, null, 0],
  ]);
  const second = { account: 'acc_2', agent: 'agt_2', outcome: 'allowed' };
  const third = { ...second, agent: 'agt_3', type: 'custom', occurredAt: 1, receivedAt: 2, rowBytes: 3 };
  t.strictSame(decodeSummaries(text), [
    { ...second, id: 'evt_1', type: 'prompt', occurredAt: 1, receivedAt: 2, rowBytes: 3 },
    whole,
    {
      ...second,
      id: 'evt_2',
      type: 'tool_call',
      occurredAt: 4,
      receivedAt: 5,
      rowBytes: 6,
      traceId: 'trace',
      tokensUsed: 7,
    },
    { ...third, id: 'evt_3', traceId: 'trace' },
    { ...third, id: 'evt_4', tokensUsed: 0 },
  ]);
  t.end();
});

t.test('what is no list of summaries is refused by name of the reason', (t) => {
  t.throws(() => decodeSummaries('{'), /not JSON/);
  t.throws(() => decodeSummaries('{}'), /not an array/);
  t.throws(() => decodeSummaries('[["evt_1","prompt",1,2,3]]'), /whose event/);
  t.end();
});

t.test('what events used of budgets is said behind them, counted back', (t) => {
  const events = [['acc_2', 'agt_2'], ['evt_1', 'prompt', 1, 2, 3], whole];
  const head = { policy: 'pol_1', unit: 'u', form: 'f', window: { ms: 60_000 }, limit: 9, warn: [], life: 1 };
  const element = { settled_by: [head], of: [[2, 0, 'agt_2', 'shown', 12, 'evt_0']] };
  const settled = (elements: unknown[]) => decodeSummaries(JSON.stringify(elements)).map((summary) => summary.settled);
  const known = [{ by: head, scope: 'agt_2', shown: 'shown', amount: 12, target: 'evt_0' }];
  t.strictSame(settled([...events, element]), [known, undefined]);
  for (const of of [[[3, 0, 's', 's', 1, '']], [[1, 1, 's', 's', 1, '']], [[1, 0, 's', 's', 0.5, '']], [7], null])
    t.throws(() => settled([...events, { ...element, of }]), { name: 'EntryFormatError' }, JSON.stringify(of));
  t.end();
});

t.test('what events cost is said behind them, counted back', (t) => {
  const events = [['acc_2', 'agt_2'], ['evt_1', 'prompt', 1, 2, 3], whole, ['evt_2', 'tool_call', 4, 5, 6]];
  const element = {
    priced_by: 'USD 3',
    of: [
      [1, 12],
      [3, null],
    ],
  };
  const costs = (elements: unknown[]) => decodeSummaries(JSON.stringify(elements)).map(({ cost }) => cost);
  const [known, unknown] = [
    { by: 'USD 3', millionths: 12 },
    { by: 'USD 3', millionths: null },
  ];
  t.strictSame(costs([...events, element, ...events]), [unknown, undefined, known, undefined, undefined, undefined]);
  for (const of of [[[4, 1]], [[0, 1]], [[1, 0.5]], [[1, '1']], [[1]], [7], null])
    t.throws(() => costs([...events, { ...element, of }]), { name: 'EntryFormatError' }, JSON.stringify(of));
  t.throws(() => costs([...events, { priced_by: 3, of: [] }]), { name: 'EntryFormatError' });
  t.end();
});

t.test('what shadows said is of events before it, counted back', (t) => {
  const element = {
    shadows: [
      ['pol_1', 3],
      ['pol_2', 1],
    ],
    of: [
      [1, [0, 'blocked'], [1, 'skipped']],
      [3, [1, 'not_matched']],
    ],
  };
  const events = [['acc_2', 'agt_2'], ['evt_1', 'prompt', 1, 2, 3], whole, ['evt_2', 'tool_call', 4, 5, 6]];
  const said = (text: string) => decodeSummaries(text).map(({ id, shadow }) => [id, shadow]);
  const first = { policy_id: 'pol_1', revision: 3 };
  const second = { policy_id: 'pol_2', revision: 1 };
  const text = JSON.stringify([...events, element, ...events]);
  t.strictSame(said(text), [
    ['evt_1', [{ ...second, would: 'not_matched' }]],
    ['evt_0', undefined],
    [
      'evt_2',
      [
        { ...first, would: 'blocked' },
        { ...second, would: 'skipped' },
      ],
    ],
    ...['evt_1', 'evt_0', 'evt_2'].map((id) => [id, undefined]),
  ]);
  t.strictSame(said(JSON.stringify(decodeSummaries(text))), said(text), 'a summary by itself keeps it');
  for (const wrong of [
    { ...element, of: [[4, [0, 'blocked']]] },
    { ...element, of: [[1, [2, 'blocked']]] },
    { ...element, of: [[0, [0, 'blocked']]] },
    { ...element, of: [null] },
    { ...element, of: [[1, null]] },
    { shadows: null, of: [] },
  ])
    t.throws(() => decodeSummaries(JSON.stringify([...events, wrong])), { name: 'EntryFormatError' });
  t.end();
});
