// Checks that are asked after the reply: what waits has a bound, a check has a few calls at a time, and what is lost is
// counted or logged; nothing is thrown at who was answered long ago.
import t from 'tap';
import type { WatchedEvent } from '../../src/ingest/ingest-parts.ts';
import { OutsideWatching } from '../../src/ingest/outside-watching.ts';
import type { OutsideAnswer } from '../../src/policy/outside.ts';
import { createLog } from '../../src/process/log.ts';

const log = createLog({ level: 'silent', processName: 'test' });
const settled = () => new Promise((resolve) => setImmediate(resolve));

function watched(check: string, text = 'x'): WatchedEvent {
  const event = { type: 'prompt', agentId: 'agt_1', traceId: 'run', timestamp: '' } as const;
  const question = { check, texts: [text], policy: { id: 'pol_1', name: 'p' }, event, payloadText: undefined };
  const of = { eventId: 'evt_1', type: 'prompt', agentId: 'agt_1', traceId: 'run' } as const;
  return { ...of, check, fields: null, policyIds: ['pol_1'], question, failure: undefined };
}

function watching() {
  const asked: { check: string; answer: (answer: OutsideAnswer) => void }[] = [];
  const recorded: { body: string; verdict: unknown }[] = [];
  let dropped = 0;
  const checks = {
    ask: (_account: string, [question]: readonly { check: string }[]) =>
      new Promise<OutsideAnswer[]>((resolve) => {
        asked.push({ check: question!.check, answer: (answer) => resolve([answer]) });
      }),
  };
  const made = new OutsideWatching({ checks, log, onDropped: () => dropped++ });
  made.recordingBy({
    submit({ body, verdict }, caller) {
      recorded.push({ body: body.toString(), verdict });
      caller.accepted({ body: '' });
    },
  });
  return { made, asked, recorded, dropped: () => dropped };
}

t.test('a check has four calls at a time, 200 wait, more are dropped; another check is not concerned', async (t) => {
  const { made, asked, recorded, dropped } = watching();
  made.watchOutside(
    'acc',
    Array.from({ length: 300 }, () => watched('slow')),
  );
  made.watchOutside('acc', [watched('other')]);
  await settled();
  t.equal(asked.filter(({ check }) => check === 'slow').length, 4);
  t.equal(asked.filter(({ check }) => check === 'other').length, 1);
  t.equal(dropped(), 300 - 204);
  for (let i = 0; i < asked.length; i++) {
    asked[i]!.answer({ verdict: { match: true, score: 0.5, labels: [], spans: [] }, ms: 3 });
    await settled();
  }
  t.equal(asked.length, 205);
  t.equal(recorded.length, 205);
  t.match(JSON.parse(recorded[0]!.body), {
    ...{ type: 'custom', trace_id: 'run' },
    payload: { kind: 'check_verdict', event_id: 'evt_1', check: 'slow', match: true, score: 0.5, ms: 3 },
  });
});

t.test('texts that wait have a bound in bytes', async (t) => {
  const { made, dropped } = watching();
  const long = 'x'.repeat(64 * 1024);
  for (let i = 0; i < 400; i++) made.watchOutside(`acc ${i % 8}`, [watched('check', long)]);
  t.ok(dropped() > 100 && dropped() < 200, `${dropped()} of 400 at 128 KiB, in 32 MiB`);
});

t.test('the texts of one account leave room to another', async (t) => {
  const { made, asked, dropped } = watching();
  const long = 'x'.repeat(1024 * 1024);
  for (let i = 0; i < 40; i++) made.watchOutside('many', [watched('check', long)]);
  const before = dropped();
  t.ok(before > 30, `${before} of 40`);
  made.watchOutside('one', [watched('check', long)]);
  await settled();
  t.equal(dropped(), before);
  t.ok(asked.length > 1);
});

t.test('what was not asked is not recorded, nor what comes once it is stopped', async (t) => {
  const { made, asked, recorded, dropped } = watching();
  made.watchOutside(
    'acc',
    Array.from({ length: 9 }, () => watched('busy')),
  );
  await settled();
  asked[0]!.answer({ failure: 'overload', ms: 0 });
  asked[1]!.answer({ failure: 'timeout', ms: 9 });
  await settled();
  t.match(recorded, [{ verdict: { answer: { failure: 'timeout' } } }]);
  t.equal(asked.length, 6);
  made.stop();
  made.watchOutside('acc', [watched('busy')]);
  t.equal(dropped(), 1);
});
