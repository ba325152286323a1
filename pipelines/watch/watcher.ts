// The watch over silent agents (beside the streams; in every pipelines process): raises `agent_down`.
// Fronts write down with each append when an agent sent last; nothing is asked of the path of an event beyond that.
//   tick     per partition: mark that it is watched, find agents that are new, say which are due      watch-tick.lua
//   read     of those: status, heartbeat, the account's setting
//   judge    down, or when to look again                                                              silence.ts
//   signal   `agent_down/<agent>/<last seen ms>` into the signal stream
//   settle   what was notified, and when each is checked next                                          watch-settle.lua
// Invariants: one silence has one signal id, in every process and every try; no agent is declared down for a time in
// which we did not watch or took no events in: how long both have continued without a gap is in Redis (`watch`,
// `ingestHeartbeat`). Killed between signal and settle: the same signal again, which the alert pipeline knows by its
// id.
// Redis away: the tick fails and is tried a second later; past WATCH_GAP_MS every silence is counted again.

import type { Signal } from '../../schemas/signal.ts';
import { Periodic } from '../../src/common/async.ts';
import {
  WATCH_GAP_MS,
  WATCH_LOOK_MS_MAX,
  WATCH_LOOKS_MAX,
  WATCH_NEW_MAX,
  WATCH_ROUND_TICKS,
  WATCH_TICK_MS,
  WATCH_TICK_MS_MIN,
} from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { readAsset } from '../../src/process/assets.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Script } from '../../src/redis/script.ts';
import { acceptingSince } from '../../src/streams/ingest-heartbeat.ts';
import { appendSignals } from '../../src/streams/signals.ts';
import { type KnownAgents, readRegistry, type Watched } from './registry.ts';
import { judgeSilence, type SilenceVerdict } from './silence.ts';

// Every process ticks; the first in a second polls the partition, so no lease is needed and the cost
// does not grow with the processes. An agent that no process settles stays due.

type TickReply = [now: number, since: number, looks: string[]] | null;
const tickScript = new Script<TickReply>('watch-tick', readAsset('src/redis/watch-tick.lua'));
const settleScript = new Script<number>('watch-settle', readAsset('src/redis/watch-settle.lua'));

type WatcherOptions = {
  redis: Commands;
  keys: Keys;
  metrics: Pick<Metrics, 'inc'>;
  log: Log;
  /** For tests; else Redis's clock. */
  now?: () => number;
};

type Due = Watched & { seen: number; note: string };
type DueVerdict = Due & { known: KnownAgents | undefined; verdict: SilenceVerdict };

export class Watcher {
  readonly #options: WatcherOptions;
  readonly #ticks = new Periodic(WATCH_TICK_MS, () => this.#tickSafely());
  #isFailing = false;

  constructor(options: WatcherOptions) {
    this.#options = options;
  }

  start(): void {
    this.#ticks.start();
  }

  stop(): Promise<void> {
    return this.#ticks.stop();
  }

  /**
   * One poll of every partition, one after the other: what is held at once is bounded by one. Throws what the client
   * throws.
   */
  async tick(): Promise<void> {
    const { redis, keys } = this.#options;
    const doorsSince = await acceptingSince(redis, keys);
    for (let partition = 0; partition < keys.partitions; partition++) await this.#look(partition, doorsSince);
  }

  async #tickSafely(): Promise<void> {
    try {
      await this.tick();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.log.warn({ err: error }, 'watch.failed');
      this.#isFailing = true;
    }
  }

  async #look(partition: number, doorsSince: (nowMs: number) => number | null): Promise<void> {
    const { redis, keys, now: clock } = this.#options;
    const names = [keys.watch(partition), keys.lastSeen(partition), keys.watchDue(partition)];
    const bounds = [WATCH_TICK_MS_MIN, WATCH_GAP_MS, WATCH_ROUND_TICKS, WATCH_NEW_MAX, WATCH_LOOKS_MAX];
    const notes = keys.watchNotes(partition);
    const reply = await tickScript.run(redis, [...names, notes], [...bounds, clock?.() ?? '']);
    if (reply === null || reply[2].length === 0) return;
    const [now, since, looks] = reply;
    const open = doorsSince(now);
    const watchedSince = open === null ? null : Math.max(since, open);
    const due = dueOf(looks);
    const known = await readRegistry(this.#options, due);
    const judged = due.map((one) => judge(one, known.get(one.agent), { now, watchedSince }));
    await this.#notify(judged, now);
    const settled = judged.flatMap(({ agent, verdict }) => [agent, verdict.nextAt, verdict.note]);
    await settleScript.run(redis, [keys.watchDue(partition), notes], settled);
  }

  async #notify(judged: readonly DueVerdict[], now: number): Promise<void> {
    const { redis, keys, metrics, log } = this.#options;
    const signals = judged.flatMap((one) => (one.verdict.isDown ? [signalOf(one, one.known!, now)] : []));
    if (signals.length === 0) return;
    await appendSignals(redis, keys, signals);
    metrics.inc('gatehouse_agents_down_total', {}, signals.length);
    log.info({ count: signals.length, first: signals[0]!.agent }, 'agents.down');
  }
}

function dueOf(looks: readonly string[]): Due[] {
  const due: Due[] = [];
  for (let i = 0; i + 2 < looks.length; i += 3) {
    const [agent, value, note] = [looks[i]!, looks[i + 1]!, looks[i + 2]!];
    const slash = value.indexOf('/');
    due.push({ agent, account: value.slice(slash + 1), seen: Number(value.slice(0, slash)), note });
  }
  return due;
}

/** A deleted agent is never down; its last sign of life, and with it our interest, goes when its erasure is done. */
function judge(due: Due, known: KnownAgents | undefined, at: { now: number; watchedSince: number | null }): DueVerdict {
  const verdict =
    known === undefined
      ? { isDown: false, note: '', nextAt: at.now + WATCH_LOOK_MS_MAX }
      : judgeSilence({ ...at, ...due, ...known });
  return { ...due, known, verdict };
}

function signalOf({ account, agent, seen }: Due, { name, heartbeatSeconds }: KnownAgents, now: number): Signal {
  const silentSeconds = Math.floor((now - seen) / 1_000);
  return {
    id: `agent_down/${agent}/${seen}`,
    trigger: 'agent_down',
    account,
    agent,
    severity: 'high',
    at: now,
    message: `The agent "${name}" has sent nothing for ${silentSeconds} s; it is expected to be heard every ${heartbeatSeconds} s.`,
    silence: { since: seen, heartbeatSeconds },
  };
}
