// Notifies of what was counted inside throttle windows, when they end (beside dispatch.ts, which opens them; run with
// the worker). Every pipelines process polls; the window itself is the guard of the commit, so one of them notifies and
// the others find it done.
// Invariant: summary, new window and queue change in one commit: what was counted is in exactly one summary.
// An alert that was deleted or switched off is sent nothing: its window is removed. A deleted agent's signal is not
// quoted.
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Signal } from '../../schemas/signal.ts';
import type { Log } from '../../src/process/log.ts';
import { dueMembers } from '../../src/redis/many-keys.ts';
import {
  type DeliveryRecord,
  deliveryRow,
  enqueueWrites,
  laneName,
  newRecord,
  notErased,
  withoutAgent,
} from '../../src/registry/alerts/deliveries.ts';
import { AGAIN, commit, inRounds, type RegistryStore } from '../../src/registry/commit.ts';
import { deliveryId, windowChange } from './dispatch.ts';
import { QueueDepths } from './queue-depths.ts';
import { close, type Window } from './throttle.ts';

/** Ends inspected in one shard and turn; the others are a turn later. */
const ENDS_PER_LOOK = 100;

/** Returns the lanes, as `<account>/<lane>`, in which a summary is due now. */
export async function notifySummaries(store: RegistryStore & { log: Log }, now: number): Promise<string[]> {
  const { redis, keys, log } = store;
  const shards = await dueMembers(redis, keys.ofShards(keys.throttleEnds), { now, max: ENDS_PER_LOOK });
  const lanes: string[] = [];
  for (const name of shards.flat()) {
    const [account, alert] = name.split('/') as [string, string];
    try {
      const record = await notifySummary(store, { account, alert, now });
      if (record !== null) lanes.push(laneName(account, record.lane));
    } catch (err) {
      // One window that cannot be notified now must not delay the others, nor the retries that are due.
      log.warn({ err, account, alert }, 'summary.failed');
    }
  }
  return lanes;
}

function notifySummary(
  store: RegistryStore,
  { account, alert: id, now }: { account: string; alert: string; now: number },
): Promise<DeliveryRecord | null> {
  const { redis, keys } = store;
  return inRounds(async () => {
    const [text, alertText] = await Promise.all([
      redis.hget(keys.throttles(account), id),
      redis.hget(keys.alerts(account), id),
    ]);
    if (text === null) {
      await redis.zrem(keys.throttleEnds(keys.shardOf(account)), `${account}/${id}`);
      return null;
    }
    const before = JSON.parse(text) as Window;
    if (before.until > now || before.count === 0) return null; // another process was faster
    const alert = alertText === null ? null : (JSON.parse(alertText) as AlertRecord);
    const { window, record } = await next(store, { account, alert, before, now });
    const { guards, writes } = windowChange(store, account, id, { text, window });
    if (record !== null) writes.push(...enqueueWrites(keys, record, now));
    const { refused } = await commit(store, {
      account,
      at: now,
      guards: [...guards, ...notErased(keys, account, record?.signal.agent ?? null)],
      writes,
      changes: [],
      audit: [],
      rows: record === null ? [] : [deliveryRow(record, { status: 'pending', nextAttemptAt: now, at: now })],
      whenFull: true,
    });
    return refused === undefined ? record : AGAIN;
  });
}

async function next(
  store: RegistryStore,
  { account, alert, before, now }: { account: string; alert: AlertRecord | null; before: Window; now: number },
): Promise<{ window: Window | undefined; record: DeliveryRecord | null }> {
  if (alert === null || alert.status !== 'active') return { window: undefined, record: null };
  const depths = await QueueDepths.of(store, account, [alert]);
  const { window, summary } = close(before, {
    windowMs: alert.throttle_seconds * 1000,
    isSaturated: depths.isSaturated(alert),
    now,
  });
  if (summary === undefined) return { window, record: null };
  const signal = await quotable(store, account, summary.signal);
  const id = deliveryId(alert, summary.signal, `summary ${before.until}`);
  return { window, record: newRecord(alert, { id, account, signal, count: summary.count, test: false, now }) };
}

/** The newest signal without what may no longer be said: nothing of an agent that has been deleted since. */
async function quotable({ redis, keys }: RegistryStore, account: string, signal: Signal): Promise<Signal> {
  if (signal.agent === null || (await redis.sismember(keys.tombstones(account), signal.agent)) === 0) return signal;
  return withoutAgent(signal);
}
