// One whole service for many test files, an account each: scripts/test.mjs starts it before the first file and says in
// GATEHOUSE_TEST_SERVICE where it is. A file that is run by itself starts one of its own.
// For files that look at nothing but their own account. What stops processes, counts what all accounts did, or sets
// settings has a service of its own (service.ts).
import { randomBytes } from 'node:crypto';
import type { Test } from 'tap';
import { keyOfNewAccount } from './accounts.ts';
import { startService, type TestService } from './service.ts';

/** `key`: admin key of an account that is the caller's alone. */
type SharedService = Pick<TestService, 'url' | 'key' | 'addresses'>;

export async function sharedService(t: Test): Promise<SharedService> {
  const given = process.env.GATEHOUSE_TEST_SERVICE;
  if (given === undefined) return startService(t);
  const { url, addresses } = JSON.parse(given) as { url: string; addresses: ServiceAddresses };
  const service = { url, addresses: () => Promise.resolve(addresses) };
  return { ...service, key: await keyOfNewAccount(service, `test ${randomBytes(6).toString('hex')}`) };
}

type ServiceAddresses = Awaited<ReturnType<TestService['addresses']>>;
