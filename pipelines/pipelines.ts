// All pipelines of a process: members, leases, drains, erasure (composed here, started by the process's main).
// Once a second: sign in, learn one's share, give up surplus streams, try for free ones, renew what is held.
// Every stream of every group is a unit; a unit that is held has one drain. The drains know nothing of each other but
// the slots for inserts, of which there are INSERTS_AT_ONCE_MAX over all of them; those of events leave together
// (insert-coalescer.ts).
// Invariant: a unit is drained only under its lease, and released only after its drain has ended.
// Failure: a drain that breaks is logged, its lease is released, and it is tried again a second later, here or
// elsewhere. Redis away: drains wait; a Redis that does not answer at all for READER_STUCK_MS gets a new connection,
// and readiness fails.

import { randomBytes } from 'node:crypto';
import type { ClickHouse } from '../clickhouse/client.ts';
import { isPlainTable } from '../clickhouse/queries/concurrent-duplicates.ts';
import { ENTRY_FIELD } from '../schemas/entry.ts';
import { Periodic, withTimeout } from '../src/common/async.ts';
import {
  DRAIN_STOP_MS,
  INSERT_BYTES_MAX,
  INSERT_ROWS_MAX,
  INSERTS_AT_ONCE_MAX,
  LEASE_RENEW_MS,
  MEMBER_MS,
  MEMBER_SIGN_IN_MS,
  READ_AHEAD_BYTES_MAX,
  READ_WINDOW_BYTES_MAX,
  READER_STUCK_MS,
  TRIM_INTERVAL_MS,
} from '../src/common/limits.ts';
import type { Metrics } from '../src/metrics/metrics.ts';
import type { Log } from '../src/process/log.ts';
import type { Commands } from '../src/redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../src/redis/keys.ts';
import type { RetentionSettings } from '../src/registry/accounts/account-retention.ts';
import { StreamReader } from '../src/streams/consume.ts';
import { EVENT_GROUPS, ensureGroups, type Group, JOURNAL_GROUPS, SIGNAL_GROUPS } from '../src/streams/groups.ts';
import { acquireLease, type Lease, LeaseLost } from '../src/streams/lease.ts';
import { Members } from '../src/streams/members.ts';
import { StreamPoller } from '../src/streams/stream-poller.ts';
import { trimStream } from '../src/streams/trim.ts';
import { StreamWindow } from '../src/streams/window.ts';
import { Dispatcher } from './alert/dispatch.ts';
import { EventAlerts, SignalAlerts } from './alert/pipeline.ts';
import { AnomalyPipeline } from './anomaly/pipeline.ts';
import { openApprovals } from './approval/open.ts';
import { budgetSettling } from './budgets/settle-budgets.ts';
import { type AnyDrain, Drain, type DrainOptions, type Work } from './drain.ts';
import { InsertCoalescer } from './insert-coalescer.ts';
import { Semaphore } from './semaphore.ts';
import { ChainFlusher } from './store/chain-flush.ts';
import { Eraser } from './store/erase.ts';
import { JournalStore } from './store/journal.ts';
import { EventStore } from './store/pipeline.ts';
import { RowExpiry } from './store/row-expiry.ts';

/**
 * Least time between two batches of an alert's stream: no insert hangs on it, and people wait for the notification.
 */
const ALERT_LINGER_MS = 20;
/**
 * The same after a batch with no signal and no finding, of all that is not stored: an approval opens
 * that much later at most.
 */
const QUIET_LINGER_MS = 100;
/** Batches of alerts at once: enough that one account's does not wait for another's. */
const ALERTS_AT_ONCE_MAX = 16;

export type PipelinesOptions = {
  /** The process's client for commands. */
  redis: Commands;
  keys: Keys;
  clickhouse: ClickHouse;
  metrics: Metrics;
  log: Log;
  lingerMs: number;
  /** Stable name of the process; without one it gets a random one and waits for old leases to run out. */
  processName?: string | undefined;
  /** Left out: nothing is deleted by age. */
  retention?: RetentionSettings;
  /** Which pipelines run here. */
  groups?: readonly Group[];
  /** Called with lanes, as `<account>/<lane>`, in which a delivery has become due, so that the sender need not poll. */
  onEnqueued?: (lanes: readonly string[]) => void;
  /** Takes the mails of these deliveries out of the outbox: their agent is being erased. */
  removeMails?: (deliveryIds: readonly string[]) => Promise<void>;
  /** False while Redis has lost the registry: what events mean then, and whose they are, is not known. Streams wait. */
  mayWork?: () => boolean;
};

/** A stream of a pipeline. `share` names the set of units that is shared out among members. */
type MakeDrain = (options: Omit<DrainOptions<never, never>, 'work'>) => AnyDrain;

type Unit = {
  share: string;
  stream: string;
  dead: string;
  group: Group;
  groups: readonly string[];
  without?: string;
  makeDrain: MakeDrain;
  shard?: number;
};

type DrainedUnit = { unit: Unit; lease: Lease; drain: AnyDrain; ended: Promise<void>; renewedAt: number };

export class Pipelines {
  readonly #options: PipelinesOptions;
  readonly #owner: string;
  readonly #units: Unit[];
  readonly #members: Members;
  readonly #chains: ChainFlusher;
  readonly #eraser: Eraser;
  readonly #expiry: RowExpiry | undefined;
  /** Events of several streams are one insert, once it is known that the table takes it (store/group-insert.ts). */
  readonly #coalescer: InsertCoalescer;
  #isPlainTable: boolean | undefined;
  readonly #permits = new Semaphore(INSERTS_AT_ONCE_MAX);
  /** Alerts write to Redis alone: they do not queue up behind inserts. */
  readonly #alertPermits = new Semaphore(ALERTS_AT_ONCE_MAX);
  readonly #poller: StreamPoller;
  readonly #held = new Map<Unit, DrainedUnit>();
  readonly #tried = new Set<Unit>();
  readonly #trimmedAt = new Map<string, number>();
  /** The windows of streams that several groups of this process read. */
  readonly #windows = new Map<string, StreamWindow>();
  readonly #ticks = new Periodic(MEMBER_SIGN_IN_MS, () => this.#look());
  #stopping = false;
  #signedInAt = performance.now();
  #wasHealthy = true;

  constructor(options: PipelinesOptions) {
    this.#options = options;
    this.#owner = options.processName ?? `p-${randomBytes(8).toString('hex')}`;
    this.#units = unitsOf(options);
    const shares = [...new Set(this.#units.map((unit) => unit.share))];
    this.#members = new Members({
      redis: options.redis,
      key: options.keys.members(),
      name: this.#owner,
      groups: shares,
    });
    this.#chains = new ChainFlusher(options);
    this.#eraser = new Eraser({ ...options, chains: this.#chains });
    const { retention } = options;
    this.#expiry = retention && new RowExpiry({ ...options, retention });
    this.#poller = new StreamPoller(options.redis);
    this.#coalescer = new InsertCoalescer({
      concurrentMax: INSERTS_AT_ONCE_MAX,
      lingerMs: options.lingerMs,
      rowsMax: INSERT_ROWS_MAX,
      bytesMax: INSERT_BYTES_MAX,
      mayJoin: () => this.#isPlainTable ?? false,
    });
  }

  /** Resolves after the first poll; what is free is being drained then. */
  async start(): Promise<void> {
    const { redis, keys } = this.#options;
    const streams = new Map(this.#units.map((unit) => [unit.stream, unit.groups]));
    await Promise.all([...streams].map(([stream, groups]) => ensureGroups(redis, keys, stream, groups)));
    await this.#ticks.run();
    this.#ticks.start();
  }

  /** Finishes the inserts that are running, gives up all leases; at the latest after DRAIN_STOP_MS. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#ticks.stop();
    for (const { drain } of this.#held.values()) drain.stop();
    const ended = Promise.all([...this.#held.values()].map((held) => held.ended));
    await withTimeout<unknown>(ended, DRAIN_STOP_MS, () => undefined);
    await this.#members.signOut().catch(() => undefined);
  }

  /** Readiness: does everything that is held make progress? */
  healthy(): { ok: boolean; reason: string } {
    const silent = performance.now() - this.#signedInAt;
    if (silent > MEMBER_MS) return { ok: false, reason: `Redis has not answered for ${seconds(silent)}` };
    for (const { unit, drain } of this.#held.values()) {
      if (drain.silentMs > READER_STUCK_MS)
        return {
          ok: false,
          reason: `${unit.stream} ${unit.group}: no answer from Redis for ${seconds(drain.silentMs)}`,
        };
      if (drain.failingMs > READER_STUCK_MS)
        return {
          ok: false,
          reason: `${unit.stream} ${unit.group}: a batch has failed for ${seconds(drain.failingMs)}`,
        };
    }
    return { ok: true, reason: '' };
  }

  /** Streams drained here, as `<group> <stream>`. */
  held(): string[] {
    return [...this.#held.keys()].map((unit) => `${unit.group} ${unit.stream}`);
  }

  /** Age of the oldest event in hand that is not stored yet, or 0. */
  storeLagMs(): number {
    const nowMs = Date.now();
    let oldestMs = nowMs;
    for (const { unit, drain } of this.#held.values()) {
      if (unit.group === 'store') oldestMs = Math.min(oldestMs, drain.oldestMs ?? oldestMs);
    }
    return nowMs - oldestMs;
  }

  async #look(): Promise<void> {
    if (this.#stopping) return;
    if (this.#options.mayWork?.() === false) {
      for (const { drain } of this.#held.values()) drain.stop();
      this.#signedInAt = performance.now();
      return;
    }
    try {
      await this.#members.signIn();
      this.#signedInAt = performance.now();
      for (const share of new Set(this.#units.map((unit) => unit.share))) await this.#balance(share);
      await this.#renew();
    } catch (error) {
      this.#options.log.warn({ err: error }, 'pipelines.look_failed');
      // Renewal is what must not be missed for anything else.
      await this.#renew();
      if (performance.now() - this.#signedInAt > READER_STUCK_MS) this.#options.redis.disconnect(true);
    }
    this.#report();
    const shards = [...this.#held.keys()].flatMap((unit) => unit.shard ?? []);
    void this.#eraser.look(shards);
    if (shards.includes(0)) void this.#expiry?.look();
    const stored = [...this.#held.keys()].filter(({ group }) => group === 'store');
    void this.#chains.look(stored.map(({ stream }) => stream));
    if (stored.length > 1) void this.#learnTable();
  }

  async #learnTable(): Promise<void> {
    try {
      this.#isPlainTable ??= await isPlainTable(this.#options.clickhouse);
    } catch {
      // Until it is known every batch goes by itself.
    }
  }

  /** Gives up what is over the share, and tries for what is under it. */
  async #balance(share: string): Promise<void> {
    const units = this.#units.filter((unit) => unit.share === share);
    const held = units.filter((unit) => this.#held.has(unit));
    const wanted = this.#members.share(share, units.length);
    for (const unit of held.slice(wanted)) this.#held.get(unit)!.drain.stop();
    const free = units.filter((unit) => !this.#held.has(unit));
    // All at once where all are wanted, one after the other where they are contended.
    let missing = wanted - held.length;
    while (missing > 0 && free.length > 0) {
      const tried = free.splice(0, missing);
      const got = await Promise.all(tried.map((unit) => this.#acquire(unit)));
      missing -= got.filter(Boolean).length;
    }
  }

  async #acquire(unit: Unit): Promise<boolean> {
    const { redis, keys } = this.#options;
    const leaseKeys = { lease: keys.lease(unit.stream, unit.group), fence: keys.fence(unit.stream, unit.group) };
    const lease = await acquireLease(redis, leaseKeys, { owner: this.#owner, retake: !this.#tried.has(unit) });
    this.#tried.add(unit);
    if (lease === null) return false;
    const drain = this.#drain(unit, lease);
    this.#held.set(unit, { unit, lease, drain, ended: this.#run(unit, lease, drain), renewedAt: performance.now() });
    return true;
  }

  #drain(unit: Unit, lease: Lease): AnyDrain {
    const { redis, keys, lingerMs, log } = this.#options;
    const isAlert = unit.group === 'alert';
    return unit.makeDrain({
      reader: new StreamReader(
        {
          redis,
          keys,
          stream: unit.stream,
          dead: unit.dead,
          group: unit.group,
          groups: unit.groups,
          ...(unit.without ? { without: unit.without } : {}),
          ...(unit.groups.length > 1 ? { window: this.#window(unit.stream) } : {}),
        },
        lease,
      ),
      lease,
      permits: isAlert ? this.#alertPermits : unit.share === 'store' ? this.#coalescer : this.#permits,
      poller: this.#poller,
      bytesMax: Math.min(INSERT_BYTES_MAX, this.#bytesMax(unit.share)),
      lingerMs: isAlert ? ALERT_LINGER_MS : lingerMs,
      quietLingerMs: Math.min(QUIET_LINGER_MS, lingerMs),
      log: log.child({ stream: unit.stream, group: unit.group }),
      trim: () => this.#trim(unit),
    });
  }

  #window(stream: string): StreamWindow {
    const { redis, keys } = this.#options;
    const bytesMax = READ_WINDOW_BYTES_MAX / keys.partitions;
    const window = this.#windows.get(stream) ?? new StreamWindow({ redis, stream, bytesMax });
    this.#windows.set(stream, window);
    return window;
  }

  /** A stream's part of what may be held at once. Summaries and journals are small beside rows. */
  #bytesMax(share: string): number {
    const streams = this.#units.filter((unit) => unit.share === share).length;
    return (READ_AHEAD_BYTES_MAX * (share === 'store' ? 3 / 4 : 1 / 16)) / streams;
  }

  /** Resolves when the drain has ended, however it did, and the lease is released. */
  async #run(unit: Unit, lease: Lease, drain: AnyDrain): Promise<void> {
    const log = this.#options.log.child({ stream: unit.stream, group: unit.group });
    log.debug({ lease: lease.text }, 'stream.taken');
    try {
      await drain.run();
    } catch (error) {
      if (error instanceof LeaseLost) log.warn({ lease: lease.text }, 'lease.lost');
      else log.error({ err: error }, 'drain.broke');
    }
    await lease.release().catch(() => undefined);
    this.#held.delete(unit);
    log.debug({ lease: lease.text }, 'stream.released');
  }

  async #renew(): Promise<void> {
    const due = [...this.#held.values()].filter((held) => performance.now() - held.renewedAt >= LEASE_RENEW_MS);
    await Promise.all(
      due.map(async (held) => {
        try {
          await held.lease.renew();
          held.renewedAt = performance.now();
        } catch (error) {
          if (error instanceof LeaseLost) held.drain.stop();
        }
      }),
    );
  }

  /** False: trimmed a moment ago, ask again later. */
  async #trim(unit: Unit): Promise<boolean> {
    const now = performance.now();
    if (now - (this.#trimmedAt.get(unit.stream) ?? 0) < TRIM_INTERVAL_MS) return false;
    this.#trimmedAt.set(unit.stream, now);
    try {
      const { missing, unknownGroups } = await trimStream(this.#options.redis, unit.stream, unit.groups);
      if (missing) await ensureGroups(this.#options.redis, this.#options.keys, unit.stream, unit.groups);
      if (unknownGroups > 0) this.#options.log.warn({ stream: unit.stream, unknownGroups }, 'stream.unknown_groups');
    } catch (error) {
      this.#options.log.warn({ err: error, stream: unit.stream }, 'stream.trim_failed');
      return false;
    }
    return true;
  }

  #report(): void {
    const { metrics, log } = this.#options;
    const { ok, reason } = this.healthy();
    if (ok !== this.#wasHealthy) log.warn({ reason }, ok ? 'pipelines.recovered' : 'pipelines.stuck');
    this.#wasHealthy = ok;
    metrics.set('gatehouse_store_lag_seconds', {}, this.storeLagMs() / 1000);
    for (const group of EVENT_GROUPS) {
      const count = [...this.#held.keys()].filter((unit) => unit.group === group).length;
      metrics.set('gatehouse_partitions_owned', { group }, count);
    }
  }
}

/** Drains that do this work, whatever their streams. */
function drainsOf<T, Plan>(work: Work<T, Plan>): MakeDrain {
  return (options) => new Drain({ ...options, work });
}

function unitsOf(options: PipelinesOptions): Unit[] {
  const { keys, groups = EVENT_GROUPS } = options;
  const partitions = Array.from({ length: keys.partitions }, (_, partition) => partition);
  const units: Unit[] = [];
  if (groups.includes('store')) units.push(...storeUnits(options, partitions));
  if (groups.includes('anomaly')) {
    for (const partition of partitions) {
      const makeDrain = drainsOf(new AnomalyPipeline({ ...options, partition }));
      units.push({ share: 'anomaly', group: 'anomaly', makeDrain, ...summariesOf(keys, partition) });
    }
  }
  if (groups.includes('alert')) units.push(...alertUnits(options, partitions));
  return units;
}

function storeUnits(options: PipelinesOptions, partitions: readonly number[]): Unit[] {
  const { keys } = options;
  const ofEvents = drainsOf(new EventStore(options));
  const events = partitions.map((partition): Unit => {
    return { share: 'store', group: 'store', makeDrain: ofEvents, ...eventsOf(keys, partition) };
  });
  const ofJournal = drainsOf(new JournalStore(options));
  const journals = Array.from({ length: REGISTRY_SHARDS }, (_, shard): Unit => {
    const streams = { stream: keys.journal(shard), dead: keys.journalDead(shard), groups: JOURNAL_GROUPS };
    return { share: 'journal', group: 'store', makeDrain: ofJournal, ...streams, shard };
  });
  return [...events, ...journals];
}

function alertUnits(options: PipelinesOptions, partitions: readonly number[]): Unit[] {
  const { keys, metrics } = options;
  const dispatcher = new Dispatcher(options);
  const ofEvents = drainsOf(
    new EventAlerts({
      ...{ dispatcher, metrics, openApprovals: (events) => openApprovals(options, events) },
      settle: budgetSettling(options),
    }),
  );
  const ofSignals = drainsOf(new SignalAlerts({ dispatcher, metrics }));
  return partitions.flatMap((partition): Unit[] => {
    const signals = { stream: keys.signals(partition), dead: keys.signalsDead(partition), groups: SIGNAL_GROUPS };
    return [
      { share: 'alert', group: 'alert', makeDrain: ofEvents, ...summariesOf(keys, partition) },
      { share: 'signal', group: 'alert', makeDrain: ofSignals, ...signals },
    ];
  });
}

function eventsOf(keys: Keys, partition: number) {
  return { stream: keys.events(partition), dead: keys.dead(partition), groups: EVENT_GROUPS };
}

/** The same stream without the rows. */
function summariesOf(keys: Keys, partition: number) {
  return { ...eventsOf(keys, partition), without: ENTRY_FIELD.rows };
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
