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

type Ask = (requests: readonly QuotaRequest[], waiter: QuotaWaiter) => void;

function counters(ask: Ask): ShadowCounters {
  return new ShadowCounters({ ask: (_account, _agent, asked, waiter) => ask(asked, waiter) });
}

function answers(of: ShadowCounters): Promise<readonly (QuotaGrant | undefined)[]> {
  return new Promise((resolve) => of.ask('acc', 'agt', requests, resolve));
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
  counters((_some, waiter) => waiter.counted([GRANT])).ask('acc', 'agt', requests, () => {
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
