// Waits until all that was acknowledged so far is stored in ClickHouse (before a backup that holds ClickHouse alone).
// In this order, since what one step does may add to the next: requests of spans that are held become events; events
// open approvals and raise signals; signals make deliveries; changes of all of them are in the journal; the chain of
// events and journal is copied last.
// Invariant: where it says nothing, every group has done what was in its stream when it was asked.
// Failure: what is not done in time is said, as the end of a sentence.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { EVENT_GROUPS, JOURNAL_GROUPS, SIGNAL_GROUPS } from './groups.ts';
import { positionOf } from './read-barrier.ts';
import { compareIds } from './stream-id.ts';

type Stores = { redis: Commands; keys: Keys };
type Read = { stream: string; group: string };
/** Resolves with true once it holds. */
type Condition = () => Promise<boolean>;

const LOOK_MS = 100;

/** Each stream with each group that reads it, by the step that they are part of. */
export function readersOf(keys: Keys): { events: Read[]; signals: Read[]; journal: Read[] } {
  const readBy = (streams: string[], groups: readonly string[]) =>
    streams.flatMap((stream) => groups.map((group) => ({ stream, group })));
  return {
    events: readBy(keys.ofPartitions(keys.events), EVENT_GROUPS),
    signals: readBy(keys.ofPartitions(keys.signals), SIGNAL_GROUPS),
    journal: readBy(keys.ofShards(keys.journal), JOURNAL_GROUPS),
  };
}

/** undefined: all is stored. */
export async function waitUntilStored(stores: Stores, waitMs: number): Promise<string | undefined> {
  const { events, signals, journal } = readersOf(stores.keys);
  const chained = [...new Set([...events, ...journal].map(({ stream }) => stream))];
  const steps: [what: string, begin: () => Promise<Condition>][] = [
    ['requests of spans are held', () => left(stores, stores.keys.ofPartitions(stores.keys.heldSpans))],
    ['events are not processed', () => reached(stores, events)],
    ['signals are not processed', () => reached(stores, signals)],
    ['changes are not stored', () => reached(stores, journal)],
    ['the audit chain is not stored', () => left(stores, chained.map(stores.keys.chainPending))],
  ];
  const untilMs = performance.now() + waitMs;
  for (const [what, begin] of steps) {
    const isDone = await begin();
    while (!(await isDone())) {
      if (performance.now() > untilMs) return what;
      await sleep(LOOK_MS);
    }
  }
  return undefined;
}

/** How many entries could not be processed: they are acknowledged, and in Redis alone. */
export async function countDeadLetters({ redis, keys }: Stores): Promise<number> {
  const streams = [
    ...keys.ofPartitions(keys.dead),
    ...keys.ofPartitions(keys.signalsDead),
    ...keys.ofShards(keys.journalDead),
  ];
  return (await Promise.all(streams.map((stream) => redis.xlen(stream)))).reduce((sum, n) => sum + n, 0);
}

/** Has each group come to where its stream ends now? */
async function reached({ redis, keys }: Stores, reads: readonly Read[]): Promise<Condition> {
  const positions = (read: Read) => positionOf(redis, keys, read.stream, read.group);
  const targets = await Promise.all(reads.map(async (read) => (await positions(read)).last));
  return async () => {
    const now = await Promise.all(reads.map(positions));
    return now.every(({ watermark }, i) => compareIds(watermark, targets[i]!) >= 0);
  };
}

/** Have the entries that are in these streams now left them? */
async function left({ redis }: Stores, streams: readonly string[]): Promise<Condition> {
  const newest = await Promise.all(streams.map((stream) => redis.xrevrange(stream, '+', '-', 'COUNT', 1)));
  const waiting = streams.flatMap((stream, i) => newest[i]!.map(([id]) => ({ stream, id })));
  return async () => {
    const older = await Promise.all(waiting.map(({ stream, id }) => redis.xrange(stream, '-', id, 'COUNT', 1)));
    return older.every((entries) => entries.length === 0);
  };
}
