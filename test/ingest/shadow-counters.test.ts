// Counters of shadows: what they do not say in time is unknown, nothing waits for longer, and nothing is refused.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import type { QuotaGrant, QuotaRequest, QuotaWaiter } from '../../src/ingest/rate-limit-batcher.ts';
import { ShadowCounters } from '../../src/ingest/shadow-counters.ts';

const GRANT: QuotaGrant = { granted: 1, atMs: 0, freeInMs: 0, bucket: 0 };
const requests = ['pol_1', 'pol_2'].map((policyId): QuotaRequest => {
  const check = { policyId, counterScope: 'agent' as const, counterValue: '', threshold: 1, windowMs: 1_000 };
  return { check: { ...check, countsWhenOver: false }, permits: 1, run: 0 };
});
const unavailable = new ServiceError('unavailable', 'away');

const ALL = { limits: requests, spends: [], sequences: undefined };

type Ask = (requests: readonly QuotaRequest[], waiter: QuotaWaiter) => void;

const NEVER: Pick<ConstructorParameters<typeof ShadowCounters>[0], 'spends' | 'sequences'> = {
  ...{ spends: { ask: () => undefined }, sequences: { ask: () => undefined } },
};

function counters(ask: Ask, others = NEVER): ShadowCounters {
  const limits = {
    ask: (_account: string, _agent: string, asked: readonly QuotaRequest[], waiter: QuotaWaiter) => ask(asked, waiter),
  };
  return new ShadowCounters({ limits, ...others });
}

function answers(of: ShadowCounters): Promise<readonly (QuotaGrant | undefined)[]> {
  return new Promise((resolve) => of.ask('acc', 'agt', ALL, (grants) => resolve(grants.limits)));
}

t.test('each is asked by itself, and answered in its order', async (t) => {
  const asked: number[] = [];
  const of = counters((some, waiter) => {
    asked.push(some.length);
    const second = some[0]!.check.policyId === 'pol_2';
    const answer = () => waiter.counted([{ ...GRANT, granted: second ? 0 : 1 }]);
    if (second) answer();
    else setImmediate(answer);
  });
  t.same(await answers(of), [GRANT, { ...GRANT, granted: 0 }]);
  t.same(asked, [1, 1]);
  let isAnswered = false;
  counters((_some, waiter) => waiter.counted([GRANT])).ask('acc', 'agt', ALL, () => {
    isAnswered = true;
  });
  t.ok(isAnswered, 'at once where nothing has to be waited for');
});

t.test('one that fails is unknown, the other is not; then none is asked for a second', async (t) => {
  let isAway = true;
  let asked = 0;
  const of = counters((some, waiter) => {
    asked++;
    if (isAway && some[0]!.check.policyId === 'pol_1') waiter.refused(unavailable);
    else waiter.counted([GRANT]);
  });
  t.same(await answers(of), [undefined, GRANT]);
  isAway = false;
  t.same(await answers(of), [undefined, undefined]);
  t.equal(asked, 2);
  await sleep(1_050);
  t.same(await answers(of), [GRANT, GRANT]);
});

t.test('one that does not answer delays nothing for longer than its time, and once', async (t) => {
  const late: QuotaWaiter[] = [];
  const of = counters((some, waiter) => {
    if (some[0]!.check.policyId === 'pol_1') late.push(waiter);
    else waiter.counted([GRANT]);
  });
  const begunMs = performance.now();
  t.same(await answers(of), [undefined, GRANT]);
  const tookMs = performance.now() - begunMs;
  t.ok(tookMs >= 45 && tookMs < 1_000, `${tookMs} ms`);
  const againMs = performance.now();
  t.same(await answers(of), [undefined, undefined]);
  t.ok(performance.now() - againMs < 45, 'at once');
  late[0]!.counted([GRANT]);
});

t.test(
  'of budgets and sequences that do not answer nothing is known, and what comes late changes nothing',
  async (t) => {
    const sequences = { submission: 'evt_1', events: [] };
    const spends = [{ of: { policyId: 'pol_3', form: 'f' }, operation: { op: 'known' as const } }];
    const late: (() => void)[] = [];
    const slow = counters((_some, waiter) => waiter.counted([GRANT]), {
      spends: { ask: (_account, _asked, waiter) => void late.push(() => waiter.spent([['yes']])) },
      sequences: { ask: (_account, _asked, waiter) => waiter.sequencesCounted({ atMs: 7, answers: [] }) },
    });
    const grants = await new Promise((resolve) =>
      slow.ask('acc', 'agt', { limits: requests, spends, sequences }, resolve),
    );
    const known = { limits: [GRANT, GRANT], spends: undefined, sequences: { atMs: 7, answers: [] } };
    t.same(grants, known);
    late[0]!();
    t.same(grants, known);
    const failing = counters((_some, waiter) => waiter.counted([GRANT]), {
      spends: { ask: (_account, _asked, waiter) => waiter.spent([['yes']]) },
      sequences: { ask: (_account, _asked, waiter) => waiter.refused(unavailable) },
    });
    const asked = { limits: requests, spends, sequences };
    const some = await new Promise((resolve) => failing.ask('acc', 'agt', asked, resolve));
    t.same(some, { limits: [GRANT, GRANT], spends: [['yes']], sequences: undefined });
  },
);
