// How often one address may sign in.
import t from 'tap';
import { AddressLimit } from '../../src/http/admission/address-limit.ts';

/** How many of so many tries at this moment are let through. */
function through(limit: AddressLimit, address: string, nowMs: number, tries = 1_000): number {
  let taken = 0;
  for (let i = 0; i < tries; i++) {
    try {
      limit.take(address, nowMs);
      taken++;
    } catch (error) {
      t.match(error, { code: 'rate_limited', retryAfterSeconds: 1 });
    }
  }
  return taken;
}

t.test('a burst, and then so many a second, whatever was refused meanwhile', async (t) => {
  const limit = new AddressLimit();
  t.equal(through(limit, '192.0.2.1', 0), 200);
  t.equal(through(limit, '192.0.2.1', 500), 10);
  t.equal(through(limit, '192.0.2.1', 10_500), 200);
  t.equal(through(limit, '192.0.2.2', 10_500), 200, 'another address has its own');
});

t.test('of IPv6 a network of 64 bits is one', async (t) => {
  const limit = new AddressLimit();
  t.equal(through(limit, '2001:db8:1:2::1', 0), 200);
  t.equal(through(limit, '2001:db8:1:2:ffff:ffff:ffff:ffff', 0), 0);
  t.equal(through(limit, '2001:db8:1:3::1', 0), 200);
  t.equal(through(limit, '2001:db8::1', 0), 200);
  t.equal(through(limit, '2001:db8:0:0:7::', 0), 0);
  t.equal(through(limit, '::1', 0), 200);
});

t.test('what is remembered is bounded', async (t) => {
  const limit = new AddressLimit();
  for (let i = 0; i < 20_000; i++) limit.take(`10.0.${i >> 8}.${i & 255}`, i);
  t.equal(limit.size, 10_000);
});
