// One registry change: the step in which a change, its audit record and its journal entry become true together (design
// 3.6). Optimistic: a resource reads, computes the change here, and commits it under guards that name what it read;
// if a guard fails another process was faster, and the resource reads again. Nothing is ever half done: commit.lua does
// it whole. A commit whose answer was lost is sent again; its marker shows whether it had been made, so it cannot
// be made twice. Redis away: ServiceError `unavailable`, with `recorded: 'unknown'` only if the second try had no
// answer either.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditLog } from '../../schemas/audit-log.ts';
import { JOURNAL_FIELD, JOURNAL_VERSION, type JournalEntry } from '../../schemas/journal.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { exactJson } from '../common/exact-json.ts';
import { steadyNow } from '../common/steady-clock.ts';
import { readAsset } from '../process/assets.ts';
import { type Commands, RedisUnavailable, redisError, troubleOf, unknownSentence } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { registryMissing } from './recovery/registry-missing.ts';

/** Where the registry lives. `now`: our clock, epoch ms. */
export type RegistryStore = { redis: Commands; keys: Keys; now?: () => number };

/** Epoch ms. */
export function nowOf({ now = steadyNow }: Pick<RegistryStore, 'now'>): number {
  return now();
}

/** Command, its one key, further arguments. */
export type CommandArgs = readonly [command: string, key: string, ...args: (string | number)[]];
export type Guard = {
  name: string;
  test: 'is' | 'absent' | 'present' | 'below';
  expected: string | number;
  words: CommandArgs;
};

export type Change = {
  account: string;
  at: number;
  guards: readonly Guard[];
  writes: readonly CommandArgs[];
  changes: JournalEntry['changes'];
  audit: AuditLog[];
  rows?: JournalEntry['rows'];
  signals?: JournalEntry['signals'];
  /**
   * Made even if Redis is full: for pipelines, on whose progress the emptying depends. A caller's change is refused
   * then.
   */
  whenFull?: true;
  erases?: string;
};

/** `refused`: the name of the guard that did not hold. */
type Committed = { revision: number; refused?: undefined } | { refused: string };

type Reply = ['done', number] | ['refused', string] | ['lost', number];
const text = readAsset('src/redis/commit.lua');
const script = new Script<Reply>('commit', text, { acknowledges: true });
const scriptWhenFull = new Script<Reply>('commit-when-full', text.replace('#!lua', '#!lua flags=allow-oom'), {
  acknowledges: true,
});

/** A commit is not sent again later than this, so its marker need not live longer. */
const MARKER_MS = 60_000;
/** Time for a broken connection to come back before the second try. */
const RETRY_AFTER_MS = 150;
/**
 * Rounds of read and commit. Each lost round is another writer's success, so a caller that runs out of rounds met many
 * writers.
 */
const ROUNDS_MAX = 20;

export const is = (name: string, words: CommandArgs, expected: string): Guard => ({
  name,
  test: 'is',
  expected,
  words,
});
export const absent = (name: string, words: CommandArgs): Guard => ({ name, test: 'absent', expected: '', words });
export const present = (name: string, words: CommandArgs): Guard => ({ name, test: 'present', expected: '', words });
export const below = (name: string, words: CommandArgs, limit: number): Guard => ({
  name,
  test: 'below',
  expected: limit,
  words,
});

/** The result of a round that is to be run again: what it had read was changed. */
export const AGAIN = Symbol('again');

/** Runs rounds of reading and committing until one is through. Whatever it throws is a ServiceError or a bug. */
export async function inRounds<T>(round: () => Promise<T | typeof AGAIN>): Promise<T> {
  return answering(async () => {
    for (let i = 0; i < ROUNDS_MAX; i++) {
      const result = await round();
      if (result !== AGAIN) return result;
    }
    throw notRecorded('Too many changes at the same time');
  });
}

/** Runs steps that record nothing by themselves: if Redis is unavailable the caller gets that error. */
export async function answering<T>(steps: () => Promise<T>): Promise<T> {
  try {
    return await steps();
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    const cause = redisError(error);
    throw cause instanceof RedisUnavailable ? notRecorded(troubleOf(cause), cause) : cause;
  }
}

/** Makes the change if its guards hold. Throws ServiceError unavailable. */
export async function commit({ redis, keys }: RegistryStore, change: Change): Promise<Committed> {
  const shard = keys.shardOf(change.account);
  const token = randomBytes(12).toString('base64url');
  const names = new NamedKeys([keys.journal(shard), keys.revision(shard), keys.commitMarker(shard, token)]);
  const args: (string | number)[] = [MARKER_MS, JOURNAL_FIELD, journalJson(change), change.guards.length];
  for (const { name, test, expected, words } of change.guards) args.push(name, test, expected, ...names.indexed(words));
  for (const words of change.writes) args.push(...names.indexed(words));
  const [state, value] = await runTwice(() => (change.whenFull ? scriptWhenFull : script).run(redis, names.all, args));
  if (state === 'lost') throw registryMissing();
  return state === 'done' ? { revision: value as number } : { refused: value as string };
}

async function runTwice<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (!(cause instanceof RedisUnavailable)) throw cause;
    if (!cause.sent) throw notRecorded(troubleOf(cause), cause);
  }
  await sleep(RETRY_AFTER_MS);
  try {
    return await run();
  } catch (cause) {
    if (!(cause instanceof RedisUnavailable)) throw cause;
    const options = { recorded: 'unknown', retryAfterSeconds: 1, internal: cause.message, cause } as const;
    throw new ServiceError('unavailable', unknownSentence(cause), options);
  }
}

/** The script puts `revision` in front. */
function journalJson({ account, at, changes, audit, rows, signals, erases }: Change): string {
  const entry: Omit<JournalEntry, 'revision'> = { version: JOURNAL_VERSION, account, at, changes, audit };
  if (rows !== undefined) entry.rows = rows;
  if (signals !== undefined) entry.signals = signals;
  if (erases !== undefined) entry.erases = erases;
  return exactJson(entry);
}

/** The keys of one script call, each once. */
class NamedKeys {
  readonly all: string[];

  constructor(first: string[]) {
    this.all = first;
  }

  indexed([command, key, ...args]: CommandArgs): (string | number)[] {
    let index = this.all.indexOf(key);
    if (index === -1) index = this.all.push(key) - 1;
    return [args.length + 2, command, index + 1, ...args];
  }
}
