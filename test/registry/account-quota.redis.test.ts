// The quotas of an account: what two fronts let through together for twenty callers, what is owed and given back, and
// that another account does not wait. Needs redis-server.
import t, { type Test } from 'tap';
import { NO_QUOTAS, type Quotas } from '../../schemas/quota.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { AccountQuotas, type RefusingQuota } from '../../src/registry/accounts/account-quota.ts';
import { startRedis } from '../support/redis.ts';
import { connectStore, eventually, newAccount } from './harness.ts';

const started = await startRedis(t);
const store = await connectStore(t, started.address);

function front({ rows = 0, refused = [] as RefusingQuota[] } = {}): AccountQuotas {
  return new AccountQuotas({ ...store, countRows: async () => rows, onRefused: (quota) => refused.push(quota) });
}

/** Which quota refuses; undefined: none. What was reserved is given back by what is answered. */
async function refusalOf(quotas: AccountQuotas, account: string, of: Quotas, need = { events: 1, bytes: 0 }) {
  try {
    await quotas.reserve(account, of, need);
    return undefined;
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
}

const KINDS = [
  { name: 'requests', of: 1 },
  { name: 'events', of: 100 },
  { name: 'bytes', of: 5_000 },
] as const;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

for (const { name, of } of KINDS) {
  t.test(`${name}: twenty callers on two fronts get what the account may have, and hardly less`, async (t) => {
    const limit = { per_second: 400 * of, burst: 100 * of };
    const quotas: Quotas = { ...NO_QUOTAS, [name]: limit };
    const account = newAccount();
    const fronts = [front(), front()];
    const start = performance.now();
    const seconds = 3;
    let used = 0;
    // While a machine stands still the bucket fills to its burst and no further: what overflows then is lost to no one.
    const tries = { last: start, runOver: 0 };
    const call = async (quotasOfFront: AccountQuotas): Promise<boolean> => {
      const need = { events: 100, bytes: 5_000 };
      const release = await Promise.resolve()
        .then(() => quotasOfFront.reserve(account, quotas, need))
        .catch((error: unknown) => {
          if (error instanceof ServiceError && error.code === 'rate_limited') return null;
          throw error;
        });
      if (release === null) return false;
      await pause(1);
      quotasOfFront.charge(account, 'events', 100);
      quotasOfFront.charge(account, 'bytes', 5_000);
      release?.();
      used += of;
      return true;
    };
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        while (performance.now() - start < seconds * 1000) {
          const isServed = await call(fronts[i % 2]!);
          const now = performance.now();
          tries.runOver += Math.max(0, ((now - tries.last) / 1000) * limit.per_second - limit.burst / 2);
          tries.last = now;
          if (!isServed) await pause(5);
        }
      }),
    );
    const took = (performance.now() - start) / 1000;
    // What is reserved at once, beside a block of each front.
    const atOnce = 20 * of + 2 * (limit.per_second / 20);
    const most = 1.1 * (limit.burst + took * limit.per_second) + atOnce;
    t.ok(used <= most, `${used} of at most ${most | 0} in ${took.toFixed(2)} s`);
    const least = 0.9 * (limit.burst + seconds * limit.per_second) - tries.runOver;
    t.ok(used >= least, `${used} of at least ${least | 0}`);
  });
}

t.test('a refusal says which quota, what it is and when to come back; another account is served', async (t) => {
  const refused: RefusingQuota[] = [];
  const quotas = front({ refused });
  const account = newAccount();
  const of: Quotas = { ...NO_QUOTAS, events: { per_second: 1, burst: 2 } };
  t.equal(await refusalOf(quotas, account, of, { events: 2, bytes: 0 }), undefined);
  const error = await refusalOf(quotas, account, of);
  t.match(error, { code: 'rate_limited', rateLimit: { perSecond: 1, burst: 2, name: 'account-events' } });
  t.match(error?.message, /events.* 1 a second, 2 at once, over all its keys/);
  t.ok(error!.retryAfterSeconds! >= 1);
  t.same(refused, ['events']);
  t.equal(await refusalOf(quotas, account, of, { events: 0, bytes: 0 }), undefined, 'a read takes no event');
  t.equal(await refusalOf(quotas, newAccount(), of), undefined);
  t.equal(quotas.reserve(account, NO_QUOTAS, { events: 1, bytes: 9 }), undefined, 'without quotas nothing is asked');
});

t.test('what was reserved and not used is given back; what was recorded beyond it is owed', async (t) => {
  const quotas = front();
  const account = newAccount();
  const of: Quotas = { ...NO_QUOTAS, events: { per_second: 1, burst: 200 } };
  const reserve = async () => (await quotas.reserve(account, of, { events: 100, bytes: 0 }))!;
  const [first, second] = [await reserve(), await reserve()];
  t.match(await refusalOf(quotas, account, of), { code: 'rate_limited' });
  first();
  second();
  t.equal(await refusalOf(quotas, account, of, { events: 50, bytes: 0 }), undefined, 'given back');
  quotas.charge(account, 'events', 1_000);
  const owed = await refusalOf(quotas, account, of);
  t.ok(owed!.retryAfterSeconds! > 500, `owed for ${owed!.retryAfterSeconds} s`);
});

t.test('an account that has as many stored events as it may have records no more, and reads', async (t: Test) => {
  const refused: RefusingQuota[] = [];
  const quotas = front({ rows: 10, refused });
  const account = newAccount();
  const of: Quotas = { ...NO_QUOTAS, stored_rows: 10 };
  await eventually(async () => (await refusalOf(quotas, account, of)) !== undefined);
  t.match(await refusalOf(quotas, account, of), { code: 'quota_exceeded', message: /10 of 10/ });
  t.equal(await refusalOf(quotas, account, of, { events: 0, bytes: 0 }), undefined);
  t.equal(await refusalOf(quotas, account, { ...of, stored_rows: 11 }), undefined);
});
