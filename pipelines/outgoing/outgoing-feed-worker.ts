// Sends outgoing feeds (a part of each pipelines process; several share the feeds by leases). Once a second: which are
// due? Of each, a page of the feed is one batch; once the receiver has it, its place is kept, and the next is read.
//   caught up   looked at again after OUTGOING_EVERY_MS
//   failed      again after a pause that doubles, to OUTGOING_RETRY_MS.maxMs at most, for as long as it takes
// Invariant: a place is kept once what is before it was taken, and by the owner of the lease alone; so each row is sent
// at least once and in order, and after a kill in between one batch is sent again. FEEDS_AT_ONCE at most, half of
// them to receivers that failed last time, and to those of one account: who hangs or is slow leaves places to others.
// Failure: Redis or ClickHouse away: nothing is sent, and no receiver is blamed.
import { randomBytes } from 'node:crypto';
import type { OutgoingFeedRecord, OutgoingFeedState } from '../../schemas/outgoing-feed.ts';
import { type Feed, FeedAhead, type FeedPage } from '../../src/audit/feed.ts';
import { backoffMs, Periodic, withTimeout } from '../../src/common/async.ts';
import {
  OUTGOING_BATCH_BYTES_MAX,
  OUTGOING_BATCH_ROWS_MAX,
  OUTGOING_EVERY_MS,
  OUTGOING_NOTED_MS,
  OUTGOING_RETRY_MS,
} from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Part } from '../../src/process/lifecycle.ts';
import type { Log } from '../../src/process/log.ts';
import { dueMembers } from '../../src/redis/many-keys.ts';
import { Script } from '../../src/redis/script.ts';
import { redisTime } from '../../src/redis/time.ts';
import { OutgoingFeeds, readOutgoingFeed, readOutgoingState } from '../../src/registry/alerts/outgoing-feeds.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import { acquireLease, type Lease, LeaseLost, whileHeld } from '../../src/streams/lease.ts';
import type { BatchSender, SendResult } from './batch-sender.ts';

/** Each holds a page and its batch: some 20 MB at most. */
const FEEDS_AT_ONCE = 4;
const LOOK_MS = 1_000;
const LOOKED_AT = 50;
/** One that has more than fits gives its place to others after so long. */
const TURN_MS = 10_000;
/** After a page that could not be read. */
const STORE_AWAY_MS = 5_000;
/** So often it is kept that one has caught up which has nothing to send. */
const QUIET_KEPT_MS = 10_000;
/** A stop waits so long for batches that are on their way. */
const STOP_MS = 5_000;

type WorkerOptions = RegistryStore & {
  feed: Pick<Feed, 'page'>;
  sender: Pick<BatchSender, 'send'>;
  metrics: Pick<Metrics, 'inc'>;
  log: Log;
  /** Stable name of the process; without one it gets a random one and waits for old leases to run out. */
  processName?: string | undefined;
  /** False while Redis has lost the registry. */
  mayWork?: () => boolean;
};

type Turn = { account: string; id: string; member: string; lease: Lease; signal: AbortSignal };

const keep = new Script<number>('outgoing-feed-keep', readAsset('src/redis/outgoing-feed-keep.lua'), {
  acknowledges: true,
});

export class OutgoingFeedWorker implements Part {
  readonly name = 'outgoing feeds';
  readonly #options: WorkerOptions;
  readonly #feeds: OutgoingFeeds;
  readonly #owner: string;
  readonly #stop = new AbortController();
  /** Those that are due, in the order in which they get a place. */
  readonly #ready = new Set<string>();
  readonly #running = new Map<string, Promise<void>>();
  /** Those that failed last time, as far as this process knows. */
  readonly #failing = new Set<string>();
  readonly #tried = new Set<string>();
  readonly #ticks = new Periodic(LOOK_MS, () => this.#tick());
  #isStopping = false;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#feeds = new OutgoingFeeds(options);
    this.#owner = options.processName ?? `o-${randomBytes(8).toString('hex')}`;
  }

  start(): void {
    this.#ticks.start();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#ticks.stop();
    await withTimeout<unknown>(Promise.all(this.#running.values()), STOP_MS, () => undefined);
    this.#stop.abort();
    await Promise.all(this.#running.values());
  }

  async #tick(): Promise<void> {
    const { redis, keys, log, mayWork } = this.#options;
    if (this.#isStopping || mayWork?.() === false) return;
    try {
      const now = await redisTime(redis);
      const shards = await dueMembers(redis, keys.ofShards(keys.outgoingFeedTurns), { now, max: LOOKED_AT });
      for (const member of shards.flat()) if (!this.#running.has(member)) this.#ready.add(member);
      this.#pump();
    } catch (error) {
      log.warn({ err: error }, 'outgoing_feeds.look_failed');
    }
  }

  /** Gives free places to those that wait, in turn. */
  #pump(): void {
    for (const member of this.#ready) {
      if (this.#isStopping || this.#running.size >= FEEDS_AT_ONCE) return;
      const failing = [...this.#running.keys()].filter((one) => this.#failing.has(one)).length;
      if (this.#failing.has(member) && failing >= FEEDS_AT_ONCE / 2) continue;
      // One that is slow leaves places to others, too.
      const [account] = member.split('/');
      const ofAccount = [...this.#running.keys()].filter((one) => one.startsWith(`${account}/`)).length;
      if (ofAccount >= FEEDS_AT_ONCE / 2) continue;
      this.#ready.delete(member);
      const done = this.#run(member).finally(() => {
        this.#running.delete(member);
        this.#pump();
      });
      this.#running.set(member, done);
    }
  }

  /** Never rejects. */
  async #run(member: string): Promise<void> {
    const { redis, keys, log } = this.#options;
    const [account, id] = member.split('/') as [string, string];
    const names = { lease: keys.outgoingFeedLease(account, id), fence: keys.outgoingFeedFence(account, id) };
    try {
      const retake = !this.#tried.has(member);
      this.#tried.add(member);
      const lease = await acquireLease(redis, names, { owner: this.#owner, retake });
      if (lease === null) return;
      await whileHeld(lease, (lost) =>
        this.#turn({ account, id, member, lease, signal: AbortSignal.any([lost, this.#stop.signal]) }),
      );
    } catch (error) {
      if (error instanceof LeaseLost) log.info({ account, feed: id }, 'outgoing_feed.lease_lost');
      else log.warn({ err: error, account, feed: id }, 'outgoing_feed.not_sent');
    }
  }

  /** Sends until it has caught up, has failed, or others are to have the place. */
  async #turn(turn: Turn): Promise<void> {
    const { redis, keys } = this.#options;
    const { account, id, signal } = turn;
    for (const untilMs = performance.now() + TURN_MS; !signal.aborted && !this.#isStopping; ) {
      const [text, stateText] = await Promise.all([
        redis.hget(keys.outgoingFeeds(account), id),
        redis.hget(keys.outgoingFeedStates(account), id),
      ]);
      if (text === null) return;
      const record = readOutgoingFeed(text);
      if (record.status !== 'active') return;
      const state = readOutgoingState(stateText, record);
      const readMs = await redisTime(redis);
      const page = await this.#page(turn, record, state);
      if (page === undefined) return;
      if (page === 'ahead') return this.#failed(turn, { state, text }, { error: 'ahead', statusCode: null });
      if (!(await this.#sent(turn, { record, text, state, page, readMs }))) return;
      if (readMs - record.place_at > OUTGOING_NOTED_MS) await this.#feeds.note(account, { text, place: page.place });
      if (!page.hasMore || performance.now() > untilMs) return;
    }
  }

  /** undefined: the store could not be asked. */
  async #page(
    turn: Turn,
    record: OutgoingFeedRecord,
    state: OutgoingFeedState,
  ): Promise<FeedPage | 'ahead' | undefined> {
    const { feed, log } = this.#options;
    const { topics, payload, submissions } = record;
    const limits = { limit: OUTGOING_BATCH_ROWS_MAX, bytesMax: OUTGOING_BATCH_BYTES_MAX };
    try {
      return await feed.page({ account: turn.account, topics, payload, submissions, ...limits }, state.place);
    } catch (error) {
      if (error instanceof FeedAhead) return 'ahead';
      log.warn({ err: error, account: turn.account, feed: turn.id }, 'outgoing_feed.not_read');
      await this.#keep(turn, undefined, STORE_AWAY_MS);
      return undefined;
    }
  }

  /** Was the page taken, and its place kept? */
  async #sent(turn: Turn, { record, text, state, page, readMs }: Page): Promise<boolean> {
    const { sender, metrics } = this.#options;
    const rows = page.items.length;
    if (rows > 0) {
      const result = await sender.send(record, page.items, {
        account: turn.account,
        place: state.place,
        atMs: Date.now(),
        signal: turn.signal,
      });
      if (result === undefined) return false;
      metrics.inc('gatehouse_outgoing_feed_batches_total', { result: result.error === null ? 'taken' : 'failed' });
      if (result.error !== null) {
        await this.#failed(turn, { state, text }, result);
        return false;
      }
      metrics.inc('gatehouse_outgoing_feed_rows_total', {}, rows);
    }
    this.#failing.delete(turn.member);
    const caughtUpAt = page.hasMore || page.isHeldUp ? state.caughtUpAt : readMs;
    const sent = rows === 0 ? {} : { sentRows: state.sentRows + rows, sentAt: readMs };
    const moved = { ...state, ...NO_FAILURE, ...sent, place: page.place, caughtUpAt };
    const isQuiet =
      rows === 0 && !page.hasMore && readMs - (state.caughtUpAt ?? 0) < QUIET_KEPT_MS && state.failures === 0;
    await this.#keep(turn, isQuiet ? undefined : moved, page.hasMore ? 0 : OUTGOING_EVERY_MS);
    return true;
  }

  async #failed(turn: Turn, { state, text }: Tried, { error, statusCode }: SendResult): Promise<void> {
    const { redis, keys, log } = this.#options;
    this.#failing.add(turn.member);
    const failures = state.failures + 1;
    // What was changed meanwhile is tried at once.
    const isChanged = (await redis.hget(keys.outgoingFeeds(turn.account), turn.id)) !== text;
    const waitMs = isChanged ? 0 : backoffMs(failures, OUTGOING_RETRY_MS);
    const now = await redisTime(redis);
    const failed = { failures, failingSince: state.failingSince ?? now, error, statusCode, nextTryAt: now + waitMs };
    await this.#keep(turn, { ...state, ...failed }, waitMs);
    const { account, id: feed } = turn;
    log.warn({ account, feed, error, statusCode, failures, waitMs }, 'outgoing_feed.failed');
  }

  /** `state`: undefined leaves it as it is. Throws LeaseLost. */
  async #keep(
    { account, id, member, lease }: Turn,
    state: OutgoingFeedState | undefined,
    waitMs: number,
  ): Promise<void> {
    const { redis, keys } = this.#options;
    const names = [keys.outgoingFeeds(account), keys.outgoingFeedStates(account)];
    const dueAt = (await redisTime(redis)) + waitMs;
    const kept = await keep.run(
      redis,
      [lease.key, ...names, keys.outgoingFeedTurns(keys.shardOf(account))],
      [lease.text, id, state === undefined ? '' : JSON.stringify(state), member, dueAt],
    );
    if (kept !== 1) throw lease.lose();
  }
}

/** `text`: the record as it was read. */
type Tried = { state: OutgoingFeedState; text: string };
type Page = Tried & { record: OutgoingFeedRecord; page: FeedPage; readMs: number };

const NO_FAILURE = { failures: 0, failingSince: null, error: null, statusCode: null, nextTryAt: null } as const;
