// Sends what the delivery queue has due (after dispatch.ts and summaries.ts; before the channels). Every pipelines
// process runs one.
//   claim     due deliveries of a lane, as many as there are slots: they come back by themselves if this process dies
//   look      read the alert again: gone or switched off, it is cancelled; its current target is used. A deleted agent:
//             dropped
//   send      one attempt, bounded in time
//   record    result, queue and ClickHouse row in one commit, if the claim still holds
// Invariant: never more than SENDS_MAX attempts at once, ACCOUNT_SENDS_MAX of one account, HOST_SENDS_MAX to one host,
// ACCOUNT_HOST_SENDS_MAX to one host of an account, LANE_SENDS_MAX to one target; of each at most half to targets that
// failed last time. Only what has a slot is claimed, so a target that hangs holds its own slots and nothing else, and
// any number of them leaves slots to those that answer.
// Failure: Redis away, nothing is claimed, and a result is tried until its claim ends.

import { setMaxListeners } from 'node:events';
import PQueue from 'p-queue';
import type { AgentRecord } from '../../schemas/agent.ts';
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Channel } from '../../schemas/closed-sets.ts';
import { withTimeout } from '../../src/common/async.ts';
import { Deadline } from '../../src/egress/deadline.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Part } from '../../src/process/lifecycle.ts';
import type { Log } from '../../src/process/log.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import { dueMembers } from '../../src/redis/many-keys.ts';
import { Script } from '../../src/redis/script.ts';
import { redisTime } from '../../src/redis/time.ts';
import { addressed, type DeliveryRecord, laneName } from '../../src/registry/alerts/deliveries.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import type { AttemptResult, ChannelSender, Target } from './channel.ts';
import { QueueGauges } from './gauges.ts';
import { linkOf } from './link.ts';
import { type Claim, Results } from './results.ts';
import { Breakers, hostOf } from './schedule.ts';
import { notifySummaries } from './summaries.ts';

// At least once: a claim that ran out is sent again, under the same id. Two processes never hold one claim, and a
// result that comes after its claim has run out is dropped: the worker that has claimed it since writes its own.

/** Attempts at once in a process. */
export const SENDS_MAX = 32;
/** One account has so many at once: half, so that one with many hosts that hang leaves slots to the others. */
export const ACCOUNT_SENDS_MAX = 16;
/**
 * To one host, over all accounts: many accounts share a chat's host, and all of them the mail server, which may hang
 * for all at once.
 */
export const HOST_SENDS_MAX = 8;
/** To one host of an account: half of the host's. */
export const ACCOUNT_HOST_SENDS_MAX = 4;
/** To one target. */
export const LANE_SENDS_MAX = 2;
/** An attempt's time. Standard Webhooks advises 15 to 30 s; what a receiver does longer it should do later. */
const ATTEMPT_MS = 10_000;
/** A sender that has not ended this long after its time is no longer waited for. */
const ATTEMPT_GRACE_MS = 2_000;
/**
 * A claim outlasts an attempt, its grace and several tries to write the result. It is what a kill delays a delivery by.
 */
export const CLAIM_MS = 30_000;
/**
 * How often the queue is inspected. What this process enqueues is sent at once, so only retries and others' orders wait
 * for it.
 */
const POLL_MS = 150;
/**
 * Due lanes read of a shard and look. Where there are more, the next poll reads on: hosts of one account that hang hide
 * no other's.
 */
export const LANES_PER_LOOK = 256;
/** A stop waits so long for attempts to end; then they are left to their claims. */
const STOP_MS = 5_000;

export type WorkerOptions = RegistryStore & {
  senders: Record<Channel, ChannelSender>;
  /** The service's own address, for links. */
  publicUrl?: string | undefined;
  metrics: Metrics;
  log: Log;
  attemptMs?: number;
  stopMs?: number;
  /** 0 to 1, for the jitter. */
  random?: () => number;
};

const claim = new Script<string[]>('delivery-claim', readAsset('src/redis/delivery-claim.lua'));

export class DeliveryWorker implements Part {
  readonly name = 'deliveries';
  readonly #options: WorkerOptions;
  readonly #now: () => number | Promise<number>;
  readonly #queue = new PQueue({ concurrency: SENDS_MAX });
  readonly #all = new Places();
  /** How many of them go to targets that failed last time. */
  readonly #failing = new Places();
  readonly #breakers = new Breakers();
  readonly #results: Results;
  readonly #gauges: QueueGauges;
  readonly #stop = new AbortController();
  /**
   * Lanes that may have something due, in the order in which they get a slot; those that failed last time behind the
   * others.
   */
  readonly #ready = new Set<string>();
  readonly #readyFailing = new Set<string>();
  readonly #filling = new Set<Promise<void>>();
  /** How many of a shard's due lanes the looks before have read. */
  readonly #readOf = new Array<number>(REGISTRY_SHARDS).fill(0);
  #stopping = false;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => redisTime(options.redis));
    this.#results = new Results(options);
    this.#gauges = new QueueGauges(options);
    // Each attempt hears it twice; more than these would be a leak.
    setMaxListeners(2 * SENDS_MAX, this.#stop.signal);
  }

  start(): void {
    const turn = async () => {
      await this.look().catch((err) => this.#options.log.warn({ err }, 'deliveries.look_failed'));
      if (!this.#stopping) this.#timer = setTimeout(turn, POLL_MS);
    };
    void turn();
  }

  /** Waits a while for the attempts that are running; what has not ended by then is left to its claim. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#timer);
    await withTimeout(this.idle(), this.#options.stopMs ?? STOP_MS, () => undefined);
    this.#stop.abort();
  }

  /** Starts what is due and has a slot; one poll at a time. Rejects while Redis is away. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Resolves when nothing is being claimed or sent. */
  async idle(): Promise<void> {
    await this.#looking?.catch(() => undefined);
    while (this.#filling.size > 0 || this.#queue.pending > 0) {
      await Promise.all(this.#filling);
      await this.#queue.onIdle();
    }
  }

  /** Something has become due in these lanes, as `<account>/<lane>`. */
  wake(lanes: readonly string[]): void {
    for (const lane of lanes) (this.#breakers.isFailing(lane) ? this.#readyFailing : this.#ready).add(lane);
    this.#pump();
  }

  async #look(): Promise<void> {
    const now = await this.#now();
    const summaries = await notifySummaries(this.#options, now);
    this.wake([...summaries, ...(await this.#dueLanes(now))]);
    await Promise.all(this.#filling);
    await this.#gauges.look(now);
  }

  async #dueLanes(now: number): Promise<string[]> {
    const { redis, keys } = this.#options;
    const shards = await dueMembers(redis, keys.ofShards(keys.deliveryLanes), {
      ...{ now, max: LANES_PER_LOOK, from: this.#readOf },
    });
    shards.forEach((lanes, shard) => {
      this.#readOf[shard] = lanes.length < LANES_PER_LOOK ? 0 : this.#readOf[shard]! + LANES_PER_LOOK;
    });
    return shards.flat();
  }

  /**
   * Gives free slots to lanes that have something due, in turn: a lane that has had one queues up behind the others.
   */
  #pump(): void {
    for (const ready of [this.#ready, this.#readyFailing]) {
      for (const name of ready) {
        if (this.#all.taken >= SENDS_MAX || this.#stopping) return;
        const isFailing = ready === this.#readyFailing;
        if (this.#free(name, isFailing) <= 0) continue;
        ready.delete(name);
        const filling = this.#fill(name, isFailing)
          .catch((err) => this.#options.log.warn({ err }, 'deliveries.claim_failed'))
          .finally(() => this.#filling.delete(filling));
        this.#filling.add(filling);
      }
    }
  }

  /** Claims as much of a lane as there are slots, and sends it. */
  async #fill(name: string, isFailing: boolean): Promise<void> {
    // Slots are taken before the question is asked, and given back where it brings nothing.
    const wanted = this.#stopping ? 0 : this.#free(name, isFailing);
    if (wanted <= 0) return;
    this.#take(name, isFailing, wanted);
    let claimed: Claim[] = [];
    try {
      const now = await this.#now();
      const allowed = this.#breakers.places(name, now);
      const beside = this.#breakers.isHostProbed(name, now) ? this.#all.toHostOf(name) : this.#all.to(name);
      const running = allowed === 1 ? beside - wanted : 0;
      const places = Math.min(wanted, Math.max(0, allowed - running));
      if (places > 0) claimed = await this.#claim(name, { count: places, isProbe: allowed === 1, now });
      else await this.#putOff(name, now);
    } finally {
      this.#take(name, isFailing, claimed.length - wanted);
    }
    for (const one of claimed) void this.#queue.add(() => this.#run(name, isFailing, one));
    this.#pump();
  }

  /** A probe takes the newest: the oldest has failed for longest, and it is the newest that people should hear of. */
  async #claim(
    name: string,
    { count, isProbe, now }: { count: number; isProbe: boolean; now: number },
  ): Promise<Claim[]> {
    const { redis, keys } = this.#options;
    const [account, lane] = name.split('/') as [string, string];
    const until = now + CLAIM_MS;
    const names = [
      keys.deliveryLane(account, lane),
      keys.deliveryLanes(keys.shardOf(account)),
      keys.deliveries(account),
    ];
    const texts = await claim.run(redis, names, [now, until, count, name, isProbe ? 'newest' : 'oldest']);
    return texts.map((text) => ({ text, until, record: JSON.parse(text) as DeliveryRecord }));
  }

  /** A lane whose breaker is open is not inspected until it is asked again: many of them must not hide the others. */
  async #putOff(name: string, now: number): Promise<void> {
    const { redis, keys } = this.#options;
    const until = this.#breakers.openUntil(name, now);
    if (until === undefined) return;
    const shard = keys.shardOf(accountOf(name));
    // A full Redis refuses it: then it is inspected without result.
    await redis.zadd(keys.deliveryLanes(shard), 'XX', 'GT', until, name).catch(() => undefined);
  }

  async #run(name: string, isFailing: boolean, claimed: Claim): Promise<void> {
    try {
      await this.#attempt(name, claimed);
    } catch (err) {
      // Redis is away: the claim runs out, and it is sent again.
      this.#options.log.warn({ err, delivery: claimed.record.id }, 'delivery.left_to_its_claim');
    } finally {
      this.#take(name, isFailing, -1);
    }
    this.wake([name]);
  }

  async #attempt(name: string, claimed: Claim): Promise<void> {
    const { record } = claimed;
    const [alert, agentName, isErased, at] = await Promise.all([
      this.#alert(record),
      this.#agentName(record),
      this.#isErased(record),
      this.#now(),
    ]);
    if (isErased) return this.#results.erased(claimed);
    if (alert === null || (alert.status !== 'active' && !record.test)) return this.#results.cancelled(claimed, at);
    const where = addressed(alert);
    if (where.lane !== record.lane) {
      await this.#results.moved(claimed, { ...record, ...where }, at);
      return this.wake([laneName(record.account, where.lane)]);
    }
    if (at >= record.endsAt) return this.#results.expired(claimed, at);
    const startedAt = performance.now();
    const result = await this.#send({ ...record, ...where }, { alert, agentName }, at);
    if (this.#stop.signal.aborted) return; // cut short by our own leaving: no attempt
    const durationMs = Math.round(performance.now() - startedAt);
    const endedAt = await this.#now();
    this.#breakers.note(name, result, endedAt);
    const attempted = { record: { ...record, ...where }, sentTo: alert.target, result, at, endedAt, durationMs };
    await this.#results.attempted(claimed, attempted);
  }

  async #alert({ account, alert }: DeliveryRecord): Promise<AlertRecord | null> {
    const text = await this.#options.redis.hget(this.#options.keys.alerts(account), alert.id);
    return text === null ? null : (JSON.parse(text) as AlertRecord);
  }

  async #agentName({ account, signal }: DeliveryRecord): Promise<string | null> {
    if (signal.agent === null) return null;
    const text = await this.#options.redis.get(this.#options.keys.agent(account, signal.agent));
    return text === null ? null : (JSON.parse(text) as AgentRecord).name;
  }

  async #isErased({ account, signal }: DeliveryRecord): Promise<boolean> {
    const { redis, keys } = this.#options;
    return signal.agent !== null && (await redis.sismember(keys.tombstones(account), signal.agent)) === 1;
  }

  async #send(
    record: DeliveryRecord,
    { alert, agentName }: { alert: AlertRecord; agentName: string | null },
    at: number,
  ): Promise<AttemptResult> {
    const timeoutMs = this.#options.attemptMs ?? ATTEMPT_MS;
    const { id, createdAt, signal, count, test, tries } = record;
    const { name, trigger, channel } = alert;
    const brief = { id: alert.id, name, trigger, channel };
    const link = linkOf(this.#options.publicUrl, signal);
    const notification = { id, createdAt, alert: brief, signal, agentName, link, count, test };
    // Not AbortSignal.any: each one made of a signal that lives on leaves something behind there, 130 bytes an attempt.
    const deadline = new Deadline(timeoutMs, this.#stop.signal);
    const sent = this.#options.senders[channel]
      .send(targetOf(alert), notification, { number: tries + 1, at, timeoutMs, signal: deadline.signal })
      .catch((err): AttemptResult => {
        this.#options.log.error({ err, delivery: id, channel }, 'channel.broke');
        return { outcome: 'retry', statusCode: null, error: 'internal' };
      });
    let giveUp = (): void => undefined;
    const late = new Promise<AttemptResult>((resolve) => {
      giveUp = () => resolve({ outcome: 'retry', statusCode: null, error: 'timeout' });
    });
    const timer = setTimeout(giveUp, timeoutMs + ATTEMPT_GRACE_MS);
    this.#stop.signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await Promise.race([sent, late]);
    } finally {
      clearTimeout(timer);
      deadline.end();
      this.#stop.signal.removeEventListener('abort', giveUp);
    }
  }

  /** Slots that a lane may take now. */
  #free(name: string, isFailing: boolean): number {
    const free = this.#all.free(name, 1);
    return isFailing ? Math.min(free, this.#failing.free(name, 2)) : free;
  }

  /** Below 0: gives back. */
  #take(name: string, isFailing: boolean, count: number): void {
    this.#all.take(name, count);
    if (isFailing) this.#failing.take(name, count);
  }
}

/** Attempts that run, counted by target, account, host, host of an account, and in all. */
class Places {
  taken = 0;
  readonly #counts = new Map<string, number>();

  /** `share`: by what the bounds are divided. */
  free(name: string, share: number): number {
    const bounds = [SENDS_MAX / share - this.taken];
    for (const [key, max] of boundsOf(name)) bounds.push(Math.ceil(max / share) - (this.#counts.get(key) ?? 0));
    return Math.min(...bounds);
  }

  take(name: string, count: number): void {
    this.taken += count;
    for (const [key] of boundsOf(name)) {
      const left = (this.#counts.get(key) ?? 0) + count;
      if (left > 0) this.#counts.set(key, left);
      else this.#counts.delete(key);
    }
  }

  to(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  toHostOf(name: string): number {
    return this.#counts.get(`host ${hostOf(name)}`) ?? 0;
  }
}

function boundsOf(name: string): [key: string, max: number][] {
  const account = name.slice(0, name.indexOf('/'));
  const host = hostOf(name);
  return [
    [name, LANE_SENDS_MAX],
    [account, ACCOUNT_SENDS_MAX],
    [`host ${host}`, HOST_SENDS_MAX],
    [`host ${host} of ${account}`, ACCOUNT_HOST_SENDS_MAX],
  ];
}

/** The account in a lane's name. */
function accountOf(name: string): string {
  return name.slice(0, name.indexOf('/'));
}

function targetOf({ channel, target, secret, retired }: AlertRecord): Target {
  if (channel === 'email') return { address: target };
  if (secret === undefined) return { url: target };
  return retired === undefined ? { url: target, secret } : { url: target, secret, retired };
}
