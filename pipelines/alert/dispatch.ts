// The way of a signal (signals in, deliveries in the queue). Read this file first.
//   match      which active alerts of the account it is for
//   suppress   inside a throttle window it is counted; a rate limit is notified once per window and counter
//   deliver    a delivery for each alert that is notified at once
//   record     queue, windows, ClickHouse rows and the position up to which the stream is dispatched: one commit
// Invariant: a signal is dispatched or counted once. A stream's signals are dispatched in order, and the position moves
// in the commit that dispatches them: what is replayed lies behind it, and a former owner's commit is refused, since
// the mark is its guard. Signals of the signal streams can be appended twice by the pipeline that raised them: their
// ids are remembered as well.
// Failure: anything thrown leaves the rest of the batch undispatched; the drain tries it again, and the positions show
// what is done.
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Signal } from '../../schemas/signal.ts';
import { hashedId, momentOfId } from '../../src/common/ids.ts';
import { readAsset } from '../../src/process/assets.ts';
import { Script } from '../../src/redis/script.ts';
import { redisTime } from '../../src/redis/time.ts';
import {
  type DeliveryRecord,
  deliveryRow,
  enqueueWrites,
  laneName,
  newRecord,
  notErased,
} from '../../src/registry/alerts/deliveries.ts';
import {
  AGAIN,
  absent,
  type CommandArgs,
  commit,
  type Guard,
  inRounds,
  is,
  type RegistryStore,
} from '../../src/registry/commit.ts';
import { compareIds } from '../../src/streams/stream-id.ts';
import { matches } from './alert-filter.ts';
import { QueueDepths } from './queue-depths.ts';
import type { Raised } from './signals-of.ts';
import { take, type Window } from './throttle.ts';

/** `place`: `<entry id>/<number in the entry>`. */
export type PlacedSignal = Raised & { place: string };

type DispatcherOptions = RegistryStore & {
  /** Lanes, as `<account>/<lane>`, in which something is due now. */
  onEnqueued?: (lanes: readonly string[]) => void;
};

/** Signals of one account's chunk on their way through the stages; each stage fills in what the next one needs. */
type DispatchRound = {
  account: string;
  stream: string;
  /** Ids are remembered: signals of the signal streams. */
  remember: boolean;
  signals: readonly PlacedSignal[];
  alerts: readonly AlertRecord[];
  now: number;
  mark: string | null;
  matched: { placed: PlacedSignal; alert: AlertRecord }[];
  notified: { signal: Signal; alert: AlertRecord }[];
  /** As read, and as it is to be; by alert id. */
  windows: Map<string, { text: string | null; window: Window | undefined }>;
  deliveries: DeliveryRecord[];
  done: boolean;
};

const STAGES = ['match', 'suppress', 'deliver', 'record'] as const;

/**
 * Deliveries and counts of one commit: some 300 KB of Redis's time, a few ms. One signal's alerts are never torn apart.
 */
const PAIRS_PER_COMMIT = 200;
/**
 * Remembered ids per account: what one batch of the anomaly pipeline can raise, twice and a half. At some 100 bytes
 * each 5 MB.
 */
const DISPATCHED_SIGNALS_MAX = 50_000;
/** A signal is appended twice when a batch is replayed: after a restart, which rarely takes a day. */
const DISPATCHED_SIGNALS_MS = 24 * 3_600_000;

const oncePerWindow = new Script<number>('once-per-window', readAsset('src/redis/once-per-window.lua'));

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #now: () => number | Promise<number>;
  /** By account: the end of the last dispatch that waits for its account. At most one a stream. */
  readonly #turns = new Map<string, Promise<void>>();
  readonly #stages: Record<(typeof STAGES)[number], (round: DispatchRound) => Promise<void> | void> = {
    match: (round) => this.#match(round),
    suppress: (round) => this.#suppress(round),
    deliver: (round) => this.#deliver(round),
    record: (round) => this.#record(round),
  };

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => redisTime(options.redis));
  }

  /**
   * Dispatches a stream's signals, in their order. `ensureHeld` is asked before each commit. Returns how many
   * deliveries were made.
   */
  async dispatch(
    from: { stream: string; remember: boolean; ensureHeld: () => Promise<void> },
    signals: readonly PlacedSignal[],
  ): Promise<number> {
    const accounts = new Map<string, PlacedSignal[]>();
    for (const placed of signals) {
      const found = accounts.get(placed.signal.account);
      if (found === undefined) accounts.set(placed.signal.account, [placed]);
      else found.push(placed);
    }
    let made = 0;
    for (const [account, all] of accounts) {
      made += await this.#inTurn(account, () => this.#dispatchAccount(account, from, all));
    }
    return made;
  }

  async #dispatchAccount(
    account: string,
    from: { stream: string; remember: boolean; ensureHeld: () => Promise<void> },
    signals: readonly PlacedSignal[],
  ): Promise<number> {
    const texts = await this.#options.redis.hvals(this.#options.keys.alerts(account));
    const alerts = texts.map((text) => JSON.parse(text) as AlertRecord);
    let made = 0;
    for (const chunk of chunksOf(signals, alerts)) {
      await from.ensureHeld();
      made += await this.#dispatchChunk({ account, alerts, signals: chunk, ...from });
    }
    return made;
  }

  /**
   * One stream after the other: all of them change the account's windows, and would only refuse each other's commits.
   */
  async #inTurn<T>(account: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(account) ?? Promise.resolve();
    const turn = before.then(work);
    const ended = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#turns.set(account, ended);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(account) === ended) this.#turns.delete(account);
    }
  }

  async #dispatchChunk(
    from: Pick<DispatchRound, 'account' | 'alerts' | 'signals' | 'stream' | 'remember'>,
  ): Promise<number> {
    const { redis, keys } = this.#options;
    const round = await inRounds(async () => {
      const round: DispatchRound = {
        ...from,
        now: await this.#now(),
        mark: await redis.hget(keys.signalMarks(from.account), from.stream),
        matched: [],
        notified: [],
        windows: new Map(),
        deliveries: [],
        done: false,
      };
      for (const stage of STAGES) await this.#stages[stage](round);
      return round.done ? round : AGAIN;
    });
    const lanes = new Set(round.deliveries.map(({ account, lane }) => laneName(account, lane)));
    if (lanes.size > 0) this.#options.onEnqueued?.([...lanes]);
    return round.deliveries.length;
  }

  async #match(round: DispatchRound): Promise<void> {
    const { mark, signals, alerts } = round;
    const fresh = await this.#undispatched(
      round,
      signals.filter(({ place }) => mark === null || comparePlaces(place, mark) > 0),
    );
    round.matched = fresh.flatMap((placed) =>
      alerts.filter((alert) => matches(alert, placed.signal)).map((alert) => ({ placed, alert })),
    );
  }

  /** Neither about a deleted agent, nor dispatched under another entry, nor twice in this one. */
  async #undispatched({ account, remember }: DispatchRound, signals: readonly PlacedSignal[]): Promise<PlacedSignal[]> {
    if (signals.length === 0) return [];
    const { redis, keys } = this.#options;
    const agents = [...new Set(signals.flatMap(({ signal }) => signal.agent ?? []))];
    const flags = agents.length === 0 ? [] : await redis.smismember(keys.tombstones(account), ...agents);
    const deleted = new Set(agents.filter((_, i) => flags[i] === 1));
    const ids = signals.map(({ signal }) => signal.id);
    const dispatched = remember ? await redis.zmscore(keys.dispatchedSignals(account), ...ids) : [];
    const seen = new Set<string>();
    return signals.filter(({ signal }, i) => {
      if (deleted.has(signal.agent ?? '') || (dispatched[i] ?? null) !== null || seen.has(signal.id)) return false;
      seen.add(signal.id);
      return true;
    });
  }

  async #suppress(round: DispatchRound): Promise<void> {
    const { account, matched, windows, now } = round;
    const { redis, keys } = this.#options;
    const alerts = [...new Set(matched.map(({ alert }) => alert))];
    if (alerts.length === 0) return;
    const texts = await redis.hmget(keys.throttles(account), ...alerts.map(({ id }) => id));
    for (const [i, { id }] of alerts.entries()) {
      const text = texts[i] ?? null;
      windows.set(id, { text, window: text === null ? undefined : (JSON.parse(text) as Window) });
    }
    const depths = await QueueDepths.of(this.#options, account, alerts);
    const firsts = await this.#firstOfWindow(round);
    for (const { placed, alert } of matched) {
      if (!firsts.has(placed)) continue;
      const state = windows.get(alert.id)!;
      const { isNotified, window } = take(state.window, placed.signal, {
        windowMs: alert.throttle_seconds * 1000,
        isSaturated: depths.isSaturated(alert),
        now,
      });
      state.window = window;
      if (!isNotified) continue;
      depths.add(alert);
      round.notified.push({ signal: placed.signal, alert });
    }
  }

  /** Those that no other signal of their counter's window was before. A replayed one finds itself. */
  async #firstOfWindow({ account, matched }: DispatchRound): Promise<Set<PlacedSignal>> {
    const { redis, keys } = this.#options;
    const firsts = new Set<PlacedSignal>();
    for (const placed of new Set(matched.map((pair) => pair.placed))) {
      const { limit, signal } = placed;
      const isFirst =
        limit === undefined ||
        (await oncePerWindow.run(
          redis,
          [keys.rateLimitSignalled(account, limit.counter)],
          [signal.id, Math.max(1, Math.ceil(limit.windowMs))],
        )) === 1;
      if (isFirst) firsts.add(placed);
    }
    return firsts;
  }

  #deliver(round: DispatchRound): void {
    const { account, now } = round;
    round.deliveries = round.notified.map(({ signal, alert }) =>
      newRecord(alert, { id: deliveryId(alert, signal), account, signal, count: 1, test: false, now }),
    );
  }

  async #record(round: DispatchRound): Promise<void> {
    const { account, stream, mark, matched, deliveries, windows, now, signals } = round;
    round.done = true;
    if (matched.length === 0) return;
    const { keys } = this.#options;
    const marks = keys.signalMarks(account);
    const agents = new Set(matched.map(({ placed }) => placed.signal.agent));
    const guards: Guard[] = [
      mark === null ? absent('mark', ['hget', marks, stream]) : is('mark', ['hget', marks, stream], mark),
      ...[...agents].flatMap((agent) => notErased(keys, account, agent)),
    ];
    const writes: CommandArgs[] = [['hset', marks, stream, signals.at(-1)!.place], ...this.#remember(round)];
    for (const [alert, state] of windows) {
      const change = windowChange(this.#options, account, alert, state);
      guards.push(...change.guards);
      writes.push(...change.writes);
    }
    writes.push(...deliveries.flatMap((record) => enqueueWrites(keys, record, now)));
    const { refused } = await commit(this.#options, {
      account,
      at: now,
      guards,
      writes,
      changes: [],
      audit: [],
      rows: deliveries.map((record) => deliveryRow(record, { status: 'pending', nextAttemptAt: now, at: now })),
      whenFull: true,
    });
    round.done = refused === undefined;
  }

  #remember({ account, remember, matched, now }: DispatchRound): CommandArgs[] {
    if (!remember) return [];
    const dispatched = this.#options.keys.dispatchedSignals(account);
    const ids = [...new Set(matched.map(({ placed }) => placed.signal.id))];
    return [
      ['zadd', dispatched, ...ids.flatMap((id) => [now, id])],
      ['zremrangebyscore', dispatched, '-inf', now - DISPATCHED_SIGNALS_MS],
      ['zremrangebyrank', dispatched, 0, -DISPATCHED_SIGNALS_MAX - 1],
      ['pexpire', dispatched, DISPATCHED_SIGNALS_MS],
    ];
  }
}

/**
 * Guards and writes by which an alert's window becomes another. They fail if another process has changed it meanwhile.
 */
export function windowChange(
  { keys }: Pick<RegistryStore, 'keys'>,
  account: string,
  alert: string,
  { text, window }: { text: string | null; window: Window | undefined },
): { guards: Guard[]; writes: CommandArgs[] } {
  const hash = keys.throttles(account);
  const ends = keys.throttleEnds(keys.shardOf(account));
  const name = `${account}/${alert}`;
  const guards = [text === null ? absent('window', ['hget', hash, alert]) : is('window', ['hget', hash, alert], text)];
  if (window === undefined) {
    return {
      guards,
      writes:
        text === null
          ? []
          : [
              ['hdel', hash, alert],
              ['zrem', ends, name],
            ],
    };
  }
  const writes: CommandArgs[] = [['hset', hash, alert, JSON.stringify(window)]];
  // Only an end with something to notify is scheduled.
  writes.push(window.count > 0 ? ['zadd', ends, window.until, name] : ['zrem', ends, name]);
  return { guards, writes };
}

/** The same for the same alert and signal, by whomever and however often it is derived. */
export function deliveryId(alert: AlertRecord, signal: Signal, what = 'signal'): string {
  const { at: ms, event, anomaly } = signal;
  // They sort as the ids that the signal names, where one is of its time.
  const of = [event?.id, anomaly?.id].flatMap((id) => (id === undefined ? [] : [momentOfId(id)]));
  const moment = of.find((one) => one.ms === ms) ?? { ms, slot: 0 };
  return hashedId('delivery', moment, `${alert.id}/${what}/${signal.id}`);
}

/**
 * As many signals to a commit as lead to PAIRS_PER_COMMIT deliveries or counts; what causes no notification is left
 * out.
 */
function chunksOf(signals: readonly PlacedSignal[], alerts: readonly AlertRecord[]): PlacedSignal[][] {
  const chunks: PlacedSignal[][] = [];
  let pairs = Number.POSITIVE_INFINITY;
  for (const placed of signals) {
    const more = alerts.filter((alert) => matches(alert, placed.signal)).length;
    if (more === 0) continue;
    if (pairs + more > PAIRS_PER_COMMIT) {
      chunks.push([]);
      pairs = 0;
    }
    pairs += more;
    chunks.at(-1)!.push(placed);
  }
  return chunks;
}

export function comparePlaces(a: string, b: string): number {
  const [idA, numberA] = a.split('/') as [string, string];
  const [idB, numberB] = b.split('/') as [string, string];
  return compareIds(idA, idB) || Number(numberA) - Number(numberB);
}
