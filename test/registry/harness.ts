// What tests of the registry share: a Redis of their own with keys of their own, a caller, and the journal read back.
import type { Test } from 'tap';
import { JOURNAL_FIELD, type JournalEntry } from '../../schemas/journal.ts';
import { type ErrorCode, ServiceError } from '../../src/common/errors.ts';
import { mintId } from '../../src/common/ids.ts';
import { type Commands, connectCommands, type RedisAddress } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { Actor } from '../../src/registry/accounts/principal.ts';
import { foundRegistry } from '../../src/registry/recovery/presence.ts';
import { opened, untilConnected } from '../support/redis.ts';

export type Store = { redis: Commands; keys: Keys };

export const actor: Actor = { actor: 'key:key_test', requestId: 'req-1' };

let prefixes = 0;

export function freshKeys(): Keys {
  return new Keys({ prefix: `t${process.pid}-${++prefixes}-`, partitions: 4 });
}

export async function connectStore(t: Test, address: RedisAddress, keys = freshKeys()): Promise<Store> {
  const redis = await opened(t, untilConnected(connectCommands(address)));
  await foundRegistry({ redis, keys });
  return { redis, keys };
}

export function newAccount(): string {
  return mintId('account', Date.now());
}

/** Every journal entry of an account, oldest first. */
export async function journalOf({ redis, keys }: Store, account: string): Promise<JournalEntry[]> {
  const entries = await redis.xrange(keys.journal(keys.shardOf(account)), '-', '+');
  return entries
    .map(([, fields]) => JSON.parse(fields[fields.indexOf(JOURNAL_FIELD) + 1]!) as JournalEntry)
    .filter((entry) => entry.account === account);
}

export async function wholeJournal({ redis, keys }: Store): Promise<JournalEntry[]> {
  const shards = keys.ofShards(keys.journal).map((journal) => redis.xrange(journal, '-', '+'));
  return (await Promise.all(shards)).flat().map(([, fields]) => JSON.parse(fields[1]!) as JournalEntry);
}

/** Expects a ServiceError; returns it. */
export async function refusal(
  t: Test,
  promise: Promise<unknown>,
  code: ErrorCode,
  path?: string,
): Promise<ServiceError> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    t.equal(error.code, code);
    if (path !== undefined) t.equal(error.details?.[0]?.path, path);
    return error;
  }
  throw new Error(`expected ${code}, but there was no error`);
}

const TURN_MS = 5;

/**
 * Waits until `holds`, at most `timeoutMs`, which is for what never comes. Returns how long it took in turns of 5 ms,
 * each with an answer of `alive`: while the machine gives its time to others, or Redis none, no turn ends. What is
 * promised within a second is promised of us, and by the clock on the wall it is measured in bench/.
 */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  alive: () => Promise<unknown> = async () => undefined,
  timeoutMs = 90_000,
): Promise<number> {
  const start = performance.now();
  for (let turns = 0; ; turns++) {
    if (await holds()) return turns * TURN_MS;
    if (performance.now() - start > timeoutMs) throw new Error(`did not come true within ${timeoutMs} ms: ${holds}`);
    await alive();
    await new Promise((resolve) => setTimeout(resolve, TURN_MS));
  }
}
