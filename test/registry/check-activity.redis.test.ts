// What the calls of checks came to: over two processes, the last ones alone, and which of the two do not ask.
import t from 'tap';
import { CHECK_CALLS_KEPT } from '../../src/common/limits.ts';
import { CheckActivities } from '../../src/registry/check-activity.ts';
import { startRedis } from '../support/redis.ts';
import { connectStore } from './harness.ts';

const store = await connectStore(t, (await startRedis(t)).address);
const [one, other] = [new CheckActivities(store), new CheckActivities(store)];
const NONE = { timeout: 0, error: 0, overload: 0, too_large: 0 };

t.test('calls of all processes, with why they failed and what those took that were made', async (t) => {
  for (let ms = 1; ms <= 50; ms++) one.note('chk_a', 'answered', ms);
  for (let ms = 51; ms <= 95; ms++) other.note('chk_a', 'answered', ms);
  for (let i = 0; i < 5; i++) other.note('chk_a', i < 3 ? 'timeout' : 'overload', 1_000);
  await Promise.all([one.flush(), other.flush()]);
  const [a, unknown] = await one.read(['chk_a', 'chk_b']);
  t.match(a, { calls: 100, failures: { ...NONE, timeout: 3, overload: 2 }, p50_ms: 50, p95_ms: 94, open_on: 0 });
  t.ok(Math.abs(Date.parse(a!.last_call_at!) - Date.now()) < 60_000);
  t.same(unknown, { calls: 0, failures: NONE, p50_ms: null, p95_ms: null, last_call_at: null, open_on: 0 });
});

t.test('of many the last are kept, before and after they are written', async (t) => {
  for (let i = 0; i < 1_000; i++) one.note('chk_c', i < 900 ? 'error' : 'answered', 5);
  await one.flush();
  t.match((await one.read(['chk_c']))[0], { calls: CHECK_CALLS_KEPT, failures: { error: CHECK_CALLS_KEPT - 100 } });
  for (let i = 0; i < CHECK_CALLS_KEPT; i++) other.note('chk_c', 'answered', 5);
  await other.flush();
  t.match((await one.read(['chk_c']))[0], { calls: CHECK_CALLS_KEPT, failures: NONE });
  t.ok((await store.redis.pttl(store.keys.checkCalls('chk_c'))) > 0, 'and not for longer than a day');
});

t.test('who does not ask a check says so, and says when it does again, at its end at the latest', async (t) => {
  const openOn = async () => (await one.read(['chk_d']))[0]!.open_on;
  one.breaker('chk_d', true);
  other.breaker('chk_d', true);
  await Promise.all([one.flush(), other.flush()]);
  t.equal(await openOn(), 2);
  other.breaker('chk_d', false);
  await other.flush();
  t.equal(await openOn(), 1);
  await one.stop();
  t.equal(await openOn(), 0);
});
