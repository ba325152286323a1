// Places that are held in advance, by themselves: how many are asked for, until when they may be used, what goes back.
import t from 'tap';
import { LEASED_PERMITS_MIN, QUOTA_LEASE_MS, QUOTA_RETURN_MS } from '../../src/common/limits.ts';
import { NO_LEASE, QuotaLease } from '../../src/policy/quotas/quota-lease.ts';

const MINUTE = 60_000;
const granted = (leased: number, usableMs = 1_000) => ({ leased, bucket: 77, usableMs, atMs: 1_000_000 });

/** A counter that was asked for `places` at 0 and at `nowMs`; what it then asks for. */
function asked(permits: number, nowMs: number, windowMs = MINUTE) {
  const lease = new QuotaLease();
  lease.request(1, windowMs, 0);
  return { lease, asked: lease.request(permits, windowMs, nowMs) };
}

t.test('asked for is what the next while will need; nothing by who comes now and then', async (t) => {
  t.equal(new QuotaLease().request(100, MINUTE, 5_000).lease, 0, 'an unknown counter');
  t.equal(asked(100, 100).asked.lease, (100 * QUOTA_LEASE_MS) / 100);
  t.equal(asked(1_000, 50).asked.lease, (1_000 * QUOTA_LEASE_MS) / 50);
  t.equal(asked(1, 1).asked.lease, 0, 'two of one tick');
  t.equal(asked(5, 10_000).asked.lease, 0);
  t.equal(asked(LEASED_PERMITS_MIN - 1, QUOTA_LEASE_MS).asked.lease, 0);
  t.equal(asked(LEASED_PERMITS_MIN, QUOTA_LEASE_MS).asked.lease, LEASED_PERMITS_MIN);
});

t.test('a flow of lone events is noticed within some milliseconds, one that is too slow never', async (t) => {
  const after = (everyMs: number) => {
    const lease = new QuotaLease();
    for (let nowMs = 0; nowMs < 10_000; nowMs += everyMs) if (lease.request(1, MINUTE, nowMs).lease > 0) return nowMs;
    return undefined;
  };
  t.equal(after(1), 2);
  t.equal(after(10), 20, 'a hundred a second');
  t.equal(after(14), undefined);
});

t.test('a window whose sixtieth is over before the places are back holds none', async (t) => {
  const shortest = 60 * (QUOTA_LEASE_MS + QUOTA_RETURN_MS);
  t.equal(asked(100, 100, shortest - 1).asked.lease, 0);
  t.ok(asked(100, 100, shortest).asked.lease > 0);
});

t.test('places are used once, in their time, and what is left goes back with the next call', async (t) => {
  const { lease, asked: call } = asked(100, 100);
  lease.granted(call, granted(50), 100, 103);
  t.notOk(lease.take(51, 104), 'all or none');
  t.ok(lease.take(30, 104));
  t.equal(lease.timeAt(106), 1_000_003, "by Redis's clock, as it was at the latest when the answer came");
  t.notOk(lease.take(21, 104));
  t.ok(lease.take(15, 104));
  lease.undo(15);
  t.equal(lease.left, 20);
  t.ok(lease.take(20, 104), 'all that are left');
  lease.undo(20);
  t.notOk(lease.take(1, 100 + QUOTA_LEASE_MS), 'not a moment longer than from when the call was sent');
  t.equal(lease.returnInMs(100 + QUOTA_LEASE_MS), QUOTA_RETURN_MS);
  const next = lease.request(3, MINUTE, 100 + QUOTA_LEASE_MS);
  t.match(next, { returned: 20, returnedBucket: 77 });
  t.equal(next.lease, 33, '30 that were held and 3 now, in one time of holding');
  t.equal(lease.left, 0);
  t.equal(lease.returnInMs(300), undefined);
});

t.test('no place outlives the sub-bucket in which it was counted', async (t) => {
  const { lease, asked: call } = asked(100, 100);
  lease.granted(call, granted(50, 7), 100, 106);
  t.ok(lease.take(1, 106.9));
  t.equal(lease.timeAt(106.9), 1_000_000);
  t.notOk(lease.take(1, 107));
});

t.test('while a hold is on its way no other is asked for; one that was not answered holds nothing', async (t) => {
  const { lease, asked: call } = asked(100, 100);
  t.equal(lease.request(100, MINUTE, 101).lease, 0);
  lease.granted(call, undefined, 100, 102);
  t.notOk(lease.take(1, 102));
  const again = lease.request(100, MINUTE, 150);
  t.equal(again.lease, (200 * QUOTA_LEASE_MS) / 50);
  lease.granted(again, granted(0), 150, 151);
  t.notOk(lease.take(1, 151), 'Redis had none to spare');
  t.equal(lease.request(0, MINUTE, 160).lease, 0, 'no request');
});

t.test('a call without a lease gives nothing, and returns what is left', async (t) => {
  const { lease, asked: call } = asked(100, 100);
  lease.granted(call, granted(50), 100, 101);
  t.match(lease.request(0, MINUTE, 102), { lease: 0, returned: 50, returnedBucket: 77 });
  t.equal(lease.request(0, MINUTE, 103), NO_LEASE, 'nothing is allocated for nothing');
  lease.granted(NO_LEASE, granted(50), 103, 104);
  t.notOk(lease.take(1, 104));
  t.equal(asked(0, 1).lease.request(0, MINUTE, 2).lease, 0, 'a lease goes with permits alone');
});

t.test('the rate is counted again after a time that was too slow for a lease', async (t) => {
  const { lease, asked: slow } = asked(LEASED_PERMITS_MIN - 1, QUOTA_LEASE_MS);
  t.equal(slow.lease, 0);
  t.equal(lease.request(LEASED_PERMITS_MIN, MINUTE, 1.5 * QUOTA_LEASE_MS).lease, 2 * LEASED_PERMITS_MIN);
});
