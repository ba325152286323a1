// Sends signals for keys that met their request limit (`rate_limit_exceeded`, once a minute and key; beside admission).
// Admission notes the key and continues: that costs one look-up in a set. Signals leave in the background, and a Redis
// that is away for a moment is tried again for a minute. One marker per key and minute is shared by all fronts, and
// written with the signal in one step; should it be gone, the signal's id is still the same.
// Best effort: a front that is killed may take a second's notes with it. Bounded: in keys per minute and in notes that
// wait.

import { SIGNAL_FIELD, SIGNAL_VERSION, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import { Periodic } from '../common/async.ts';
import { LIMIT_SIGNALS_FLUSH_MS, LIMIT_SIGNALS_MAX } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';

const once = new Script<number>('signal-once', readAsset('src/redis/signal-once.lua'));

const MINUTE_MS = 60_000;
/** Longer than the minute that it represents, and than a note may wait. */
const MARKER_MS = 2 * MINUTE_MS;

type Note = { account: string; apiKey: string; at: number };

export class LimitSignals {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #now: () => number;
  /** Keys that were noted in this minute. */
  readonly #noted = new Set<string>();
  #minute = 0;
  #waiting: Note[] = [];
  readonly #flushes = new Periodic(LIMIT_SIGNALS_FLUSH_MS, () => this.#send());

  constructor(options: { redis: Commands; keys: Keys; now?: () => number }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#now = options.now ?? Date.now;
  }

  start(): void {
    this.#flushes.start();
  }

  /** Sends what waits, once. */
  async stop(): Promise<void> {
    await this.#flushes.stop();
    await this.flush();
  }

  note(account: string, apiKey: string): void {
    const at = this.#now();
    const minute = minuteOf(at);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#noted.clear();
    }
    if (this.#noted.has(apiKey) || this.#noted.size >= LIMIT_SIGNALS_MAX) return;
    this.#noted.add(apiKey);
    // The oldest note is the one that is worth least.
    if (this.#waiting.length >= LIMIT_SIGNALS_MAX) this.#waiting.shift();
    this.#waiting.push({ account, apiKey, at });
  }

  /** Never rejects: what could not be sent waits for the next flush, at most a minute. */
  flush(): Promise<void> {
    return this.#flushes.run();
  }

  async #send(): Promise<void> {
    const notes = this.#waiting;
    this.#waiting = [];
    for (const [i, note] of notes.entries()) {
      try {
        await this.#append(note);
      } catch {
        const now = this.#now();
        const left = notes.slice(i).filter(({ at }) => now - at < MINUTE_MS);
        this.#waiting = [...left, ...this.#waiting].slice(-LIMIT_SIGNALS_MAX);
        return;
      }
    }
  }

  async #append({ account, apiKey, at }: Note): Promise<void> {
    const partition = this.#keys.partitionOf(account, account);
    const minute = minuteOf(at);
    const signal: Signal = {
      id: `rate_limit_exceeded/${apiKey}/${minute}`,
      trigger: 'rate_limit_exceeded',
      account,
      agent: null,
      severity: 'medium',
      at,
      message: `The API key ${apiKey} is over its request limit; requests with it are answered 429.`,
      apiKey: { id: apiKey },
    };
    const entry: SignalEntry = { version: SIGNAL_VERSION, signals: [signal] };
    const names = [this.#keys.signals(partition), this.#keys.limitSignalled(partition, apiKey, minute)];
    await once.run(this.#redis, names, [SIGNAL_FIELD, JSON.stringify(entry), MARKER_MS]);
  }
}

function minuteOf(epochMs: number): number {
  return Math.floor(epochMs / MINUTE_MS);
}
