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
