// The delivery queue's side in Redis (between the alert pipeline, which enqueues, and the worker, which sends).
// A delivery that waits is a record in its account's hash and a due time in a lane: one sorted set per account and
// target, so that a target that fails takes no slot from others, neither from those on its host nor from other
// accounts.
// Invariant: record, due time and ClickHouse row change in one commit (commit.ts). A delivery that has ended is in
// ClickHouse alone, with its signal: from there it can be sent again.
// Once an agent is deleted no delivery about it is enqueued or recorded any more: every commit is guarded by the
// tombstones.

import { createHash } from 'node:crypto';
import type { AlertRecord } from '../../../schemas/alert.ts';
import type { Channel, DeliveryStatus, MailTransport } from '../../../schemas/closed-sets.ts';

import type { Delivery, DeliveryAttempt } from '../../../schemas/delivery.ts';
import type { JournalEntry } from '../../../schemas/journal.ts';
import type { Signal } from '../../../schemas/signal.ts';
import { isoTime } from '../../../schemas/time.ts';
import { ServiceError } from '../../common/errors.ts';
import { isId, mintId } from '../../common/ids.ts';
import type { Keys } from '../../redis/keys.ts';
import { redisTime } from '../../redis/time.ts';
import {
  AGAIN,
  absent,
  answering,
  below,
  type CommandArgs,
  commit,
  type Guard,
  inRounds,
  is,
  type RegistryStore,
} from '../commit.ts';

const HOUR_MS = 3_600_000;
/**
 * A delivery has ended by then: its schedule takes 75 h 35 min, with jitter 83 h; the rest is for waits behind a
 * breaker.
 */
export const DELIVERY_ENDS_MS = 96 * HOUR_MS;
/**
 * Waiting for one target of an account: a thousand messages are more than people read. Past it signals are counted
 * and notified in summaries.
 */
export const LANE_WAITING_MAX = 1_000;
/** Waiting for all targets of an account: 20,000 records of some 1.5 KB are 30 MB of Redis. */
export const ACCOUNT_WAITING_MAX = 20_000;
/** Attempts that a record shows: ten of its schedule, and those of earlier rounds that were ordered by hand. */
const ATTEMPTS_SHOWN_MAX = 30;

export type DeliveryRecord = {
  id: string;
  account: string;
  alert: { id: string; name: string };
  channel: Channel;
  /** As it is shown: without a URL's path. */
  target: string;
  lane: string;
  /** The only one, or the newest. */
  signal: Signal;
  count: number;
  test: boolean;
  attempts: DeliveryAttempt[];
  /** How the last attempt sent the mail; null: no attempt, or no mail. */
  transport: MailTransport | null;
  /** Attempts since it was enqueued or ordered again. */
  tries: number;
  /** Epoch ms. */
  createdAt: number;
  endsAt: number;
};

/** A row of ClickHouse: what is shown, and what sending it again takes. */
export type KeptDelivery = { delivery: Delivery; signal: Signal };

/** By what connections are counted. Mail goes through our own server, or into one folder: one for all. */
function hostOf(channel: Channel, target: string): string {
  if (channel === 'email') return 'smtp';
  return URL.canParse(target) ? new URL(target).host : 'invalid';
}

/** Callers' text is no part of a key: a lane is named by digests of its host and its target. */
export function laneOf(channel: Channel, target: string): string {
  return `${digestOf(hostOf(channel, target))}.${digestOf(target)}`;
}

/** The digest of a lane's host, which is the same in all accounts. */
export function hostOfLane(lane: string): string {
  return lane.slice(0, lane.indexOf('.'));
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}

export function newRecord(
  alert: AlertRecord,
  made: { id: string; account: string; signal: Signal; count: number; test: boolean; now: number },
): DeliveryRecord {
  const { id, account, signal, count, test, now } = made;
  return {
    id,
    account,
    alert: { id: alert.id, name: alert.name },
    ...addressed(alert),
    signal,
    count,
    test,
    attempts: [],
    transport: null,
    tries: 0,
    createdAt: now,
    endsAt: now + DELIVERY_ENDS_MS,
  };
}

/** Where a delivery of this alert goes now. */
export function addressed({ channel, target }: AlertRecord): Pick<DeliveryRecord, 'channel' | 'target' | 'lane'> {
  return { channel, target: shownTarget(channel, target), lane: laneOf(channel, target) };
}

/** Puts it into the queue, or changes when it is due. */
export function enqueueWrites(keys: Keys, record: DeliveryRecord, due: number): CommandArgs[] {
  const { account, id, lane } = record;
  return [
    ['hset', keys.deliveries(account), id, JSON.stringify(record)],
    ['zadd', keys.deliveryLane(account, lane), due, id],
    ['zadd', keys.deliveryLanes(keys.shardOf(account)), 'LT', due, laneName(account, lane)],
  ];
}

export function dequeueWrites(keys: Keys, { account, id, lane }: DeliveryRecord): CommandArgs[] {
  return [
    ['hdel', keys.deliveries(account), id],
    ['zrem', keys.deliveryLane(account, lane), id],
  ];
}

/** The name of a lane among all of its shard. */
export function laneName(account: string, lane: string): string {
  return `${account}/${lane}`;
}

/** Holds while the agent has not been deleted. */
export function notErased(keys: Keys, account: string, agent: string | null): Guard[] {
  return agent === null ? [] : [below('erased', ['sismember', keys.tombstones(account), agent], 1)];
}

export function withAttempt(
  record: DeliveryRecord,
  attempt: DeliveryAttempt,
  transport: MailTransport | null,
): DeliveryRecord {
  const attempts = [...record.attempts, attempt].slice(-ATTEMPTS_SHOWN_MAX);
  return { ...record, attempts, transport, tries: record.tries + 1 };
}

export type DeliveryState = { status: DeliveryStatus; nextAttemptAt: number | null; at: number };

function shownDelivery(record: DeliveryRecord, { status, nextAttemptAt, at }: DeliveryState): Delivery {
  const { id, alert, channel, target, signal, count, test, attempts, transport, createdAt } = record;
  return {
    id,
    alert_id: alert.id,
    alert_name: alert.name,
    agent_id: signal.agent,
    event_id: signal.event?.id ?? null,
    trigger: signal.trigger,
    severity: signal.severity,
    channel,
    target,
    status,
    count,
    test,
    attempts,
    transport,
    next_attempt_at: nextAttemptAt === null ? null : isoTime(nextAttemptAt),
    created_at: isoTime(createdAt),
    updated_at: isoTime(at),
  };
}

/** The row of ClickHouse for the journal. */
export function deliveryRow(record: DeliveryRecord, state: DeliveryState): NonNullable<JournalEntry['rows']>[number] {
  const shown = shownDelivery(record, state);
  return {
    table: 'deliveries',
    row: {
      account_id: record.account,
      ...shown,
      attempts: JSON.stringify(shown.attempts),
      next_attempt_at: state.nextAttemptAt === null ? null : sqlTime(state.nextAttemptAt),
      created_at: sqlTime(record.createdAt),
      updated_at: sqlTime(state.at),
      signal: JSON.stringify(record.signal),
    },
  };
}

/**
 * A signal without anything about its agent, which was deleted: of those that a summary counts it may be the one to be
 * quoted.
 */
export function withoutAgent({ trigger, account, severity, at }: Signal): Signal {
  const message = 'Signals of an agent that was deleted since.';
  return { id: `${trigger}/erased`, trigger, account, agent: null, severity, at, message };
}

/**
 * Takes everything of a deleted agent out of the queue (at its erasure). A claim that is running finds nothing to
 * record.
 */
export async function dropDeliveriesOf(store: RegistryStore, account: string, agent: string): Promise<number> {
  const { redis, keys } = store;
  const hash = keys.deliveries(account);
  await forgetQuoted(store, account, agent);
  let dropped = 0;
  let cursor = '0';
  do {
    const [next, found] = await redis.hscan(hash, cursor, 'COUNT', 200);
    cursor = next;
    for (let i = 1; i < found.length; i += 2) {
      const record = JSON.parse(found[i]!) as DeliveryRecord;
      if (record.signal.agent !== agent) continue;
      await redis.hdel(hash, record.id);
      await redis.zrem(keys.deliveryLane(account, record.lane), record.id);
      dropped++;
    }
  } while (cursor !== '0');
  return dropped;
}

/** Throttle windows keep the newest signal that they counted; the count stays. */
async function forgetQuoted(store: RegistryStore, account: string, agent: string): Promise<void> {
  const { redis, keys } = store;
  const hash = keys.throttles(account);
  for (const id of await redis.hkeys(hash)) {
    await inRounds(async () => {
      const text = await redis.hget(hash, id);
      const window = text === null ? null : (JSON.parse(text) as { signal: Signal | null });
      if (text === null || window?.signal?.agent !== agent) return true;
      const kept = JSON.stringify({ ...window, signal: withoutAgent(window.signal) });
      const { refused } = await commit(store, {
        account,
        at: Date.now(),
        guards: [is('window', ['hget', hash, id], text)],
        writes: [['hset', hash, id, kept]],
        changes: [],
        audit: [],
        whenFull: true,
      });
      return refused === undefined ? true : AGAIN;
    });
  }
}

/**
 * When what waits is tried: never in the past. A delivery that is due may wait for a slot, or for its target or host
 * to be asked again; `items` as they are stored, with the time that the last attempt set.
 */
async function withNextAttempts(
  { redis, keys }: RegistryStore,
  account: string,
  items: readonly Delivery[],
  nowMs: number,
): Promise<Delivery[]> {
  const isOverdue = ({ status, next_attempt_at: at }: Delivery) =>
    status === 'pending' && at !== null && Date.parse(at) < nowMs;
  const overdue = items.filter(isOverdue);
  if (overdue.length === 0) return [...items];
  const texts = await redis.hmget(keys.deliveries(account), ...overdue.map(({ id }) => id));
  const until = new Map<string, number>();
  await Promise.all(
    overdue.map(async ({ id }, i) => {
      const text = texts[i];
      if (text === null || text === undefined) return;
      const { lane } = JSON.parse(text) as DeliveryRecord;
      const score = await redis.zscore(keys.deliveryLanes(keys.shardOf(account)), laneName(account, lane));
      until.set(id, Number(score ?? 0));
    }),
  );
  return items.map((item) =>
    isOverdue(item) ? { ...item, next_attempt_at: isoTime(Math.max(nowMs, until.get(item.id) ?? 0)) } : item,
  );
}

/** The deliveries that callers may order: a test notification, and a failed delivery again. */
export class Deliveries {
  readonly #store: RegistryStore;
  readonly #keys: Keys;
  readonly #now: () => number | Promise<number>;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#keys = store.keys;
    this.#now = store.now ?? (() => redisTime(store.redis));
  }

  /** See withNextAttempts. */
  upToDate(account: string, items: readonly Delivery[]): Promise<Delivery[]> {
    return answering(async () => withNextAttempts(this.#store, account, items, await this.#now()));
  }

  /** Past throttle and status. null: no such alert. Throws ServiceError unavailable. */
  test(account: string, alertId: string): Promise<Delivery | null> {
    return answering(async () => {
      const alert = await this.#alert(account, alertId);
      if (alert === null) return null;
      const now = await this.#now();
      const id = mintId('delivery', now);
      const isErased =
        alert.agent_id !== null &&
        (await this.#store.redis.sismember(this.#keys.tombstones(account), alert.agent_id)) === 1;
      const signal: Signal = {
        id: `test/${id}`,
        trigger: alert.trigger,
        account,
        // The alert of an agent that was deleted is still there, and its target can be tried.
        agent: isErased ? null : alert.agent_id,
        severity: alert.conditions.severity ?? 'low',
        at: now,
        message: 'This is a test notification: nothing has happened.',
      };
      const record = newRecord(alert, { id, account, signal, count: 1, test: true, now });
      return this.#enqueue(record, [], now);
    });
  }

  /**
   * The same delivery under the same id, its schedule begun again. Throws ServiceError not_redeliverable, unavailable.
   */
  redeliver(account: string, { delivery, signal }: KeptDelivery): Promise<Delivery> {
    return answering(async () => {
      if (delivery.status !== 'failed' && delivery.status !== 'cancelled')
        throw notRedeliverable(`The delivery is ${delivery.status}.`);
      const alert = await this.#alert(account, delivery.alert_id);
      if (alert === null) throw notRedeliverable('Its alert was deleted.');
      if (alert.status !== 'active' && !delivery.test) throw notRedeliverable('Its alert is inactive.');
      const now = await this.#now();
      const { id, count, test, attempts, transport } = delivery;
      const record = { ...newRecord(alert, { id, account, signal, count, test, now }), attempts, transport };
      record.createdAt = Date.parse(delivery.created_at);
      return this.#enqueue(record, [absent('queued', ['hget', this.#keys.deliveries(account), id])], now);
    });
  }

  async #alert(account: string, id: string): Promise<AlertRecord | null> {
    if (!isId('alert', id)) return null;
    const text = await this.#store.redis.hget(this.#keys.alerts(account), id);
    return text === null ? null : (JSON.parse(text) as AlertRecord);
  }

  async #enqueue(record: DeliveryRecord, guards: readonly Guard[], now: number): Promise<Delivery> {
    const { account, lane, signal } = record;
    const state: DeliveryState = { status: 'pending', nextAttemptAt: now, at: now };
    const { refused } = await commit(this.#store, {
      account,
      at: now,
      guards: [
        ...guards,
        ...notErased(this.#keys, account, signal.agent),
        below('full', ['zcard', this.#keys.deliveryLane(account, lane)], LANE_WAITING_MAX),
      ],
      writes: enqueueWrites(this.#keys, record, now),
      changes: [],
      audit: [],
      rows: [deliveryRow(record, state)],
    });
    if (refused === 'full')
      throw new ServiceError('unavailable', 'Too many notifications wait for this target already.', {
        recorded: false,
        retryAfterSeconds: 60,
      });
    if (refused === 'erased') throw notRedeliverable('Its agent was deleted.');
    if (refused !== undefined) throw notRedeliverable('The delivery is pending.');
    return shownDelivery(record, state);
  }
}

/** A claim's guards: the record is unchanged, and the claim has not run out and been taken by another. */
export function claimGuards(keys: Keys, record: DeliveryRecord, claim: { text: string; until: number }): Guard[] {
  const { account, id, lane, signal } = record;
  return [
    ...notErased(keys, account, signal.agent),
    is('record', ['hget', keys.deliveries(account), id], claim.text),
    is('claim', ['zscore', keys.deliveryLane(account, lane), id], String(claim.until)),
  ];
}

function shownTarget(channel: Channel, target: string): string {
  if (channel === 'email') return target;
  return URL.canParse(target) ? new URL(target).origin : 'invalid';
}

function notRedeliverable(message: string): ServiceError {
  return new ServiceError('not_redeliverable', message, { recorded: false });
}

/** `2026-11-20 17:28:00.123`, UTC. */
function sqlTime(epochMs: number): string {
  return isoTime(epochMs).replace('T', ' ').slice(0, -1);
}
