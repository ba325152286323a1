// Sends signals that fronts alone know of: keys that met their request limit (`rate_limit_exceeded`; beside admission)
// and checks whose breaker opened (`check_failing`; beside check-calls.ts), each once a minute.
// Who notes it continues: that costs one look-up in a set. Signals leave in the background, and a Redis
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

type About = Pick<Signal, 'trigger' | 'severity' | 'message' | 'apiKey' | 'check'>;
/** `id`: of the key or the check. */
type Note = { account: string; id: string; at: number; about: About };

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
    this.#note(account, apiKey, () => ({
      trigger: 'rate_limit_exceeded',
      severity: 'medium',
      message: `The API key ${apiKey} is over its request limit; requests with it are answered 429.`,
      apiKey: { id: apiKey },
    }));
  }

  noteCheck(account: string, { id, name }: { id: string; name: string }): void {
    this.#note(account, id, () => ({
      trigger: 'check_failing',
      severity: 'high',
      message: `The check "${name}" failed in half of its last calls and is not asked for now; its policies do what they say for overload.`,
      check: { id, name },
    }));
  }

  #note(account: string, id: string, about: () => About): void {
    const at = this.#now();
    const minute = minuteOf(at);
    if (minute !== this.#minute) {
      this.#minute = minute;
      this.#noted.clear();
    }
    if (this.#noted.has(id) || this.#noted.size >= LIMIT_SIGNALS_MAX) return;
    this.#noted.add(id);
    // The oldest note is the one that is worth least.
    if (this.#waiting.length >= LIMIT_SIGNALS_MAX) this.#waiting.shift();
    this.#waiting.push({ account, id, at, about: about() });
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

  async #append({ account, id, at, about }: Note): Promise<void> {
    const partition = this.#keys.partitionOf(account, account);
    const minute = minuteOf(at);
    const signal: Signal = {
      id: `${about.trigger}/${id}/${minute}`,
      ...{ account, agent: null, at, ...about },
    };
    const entry: SignalEntry = { version: SIGNAL_VERSION, signals: [signal] };
    const names = [this.#keys.signals(partition), this.#keys.limitSignalled(partition, id, minute)];
    await once.run(this.#redis, names, [SIGNAL_FIELD, JSON.stringify(entry), MARKER_MS]);
  }
}

function minuteOf(epochMs: number): number {
  return Math.floor(epochMs / MINUTE_MS);
}
