// The account's secret by which what must be compared and not read becomes a token: ids of traces that are redacted,
// and values of `same` of sequences (of fronts, when they load policies, and of who makes a sequence's memory known).
// Invariant: there is one an account; the first process that needs it makes it.
import { randomBytes } from 'node:crypto';
import type { RegistryStore } from '../commit.ts';

export async function traceKeyOf({ redis, keys }: RegistryStore, account: string): Promise<string> {
  const made = randomBytes(32).toString('base64url');
  return (await redis.set(keys.traceKey(account), made, 'NX', 'GET')) ?? made;
}
