// What the calls of each check came to lately, over all processes (beside the calls; for GET /v1/checks?activity=true):
// in Redis the last calls of a check, and which processes do not ask it at the moment.
//   note     after each call, in memory; written every FLUSH_MS
// Invariant: bounded: a check has CALLS_KEPT calls, of a day at most, also before they are written.
// Failure: figures that cannot be written are dropped; a call waits for none of it.
import { randomUUID } from 'node:crypto';
import { CHECK_FAILURES, type CheckFailure } from '../../schemas/closed-sets.ts';
import type { CheckActivity } from '../../schemas/external-check.ts';
import { isoTime } from '../../schemas/time.ts';
import { Periodic } from '../common/async.ts';
import { CHECK_CALLS_KEPT, CHECK_CALLS_MS_MAX } from '../common/limits.ts';
import { type Commands, sendTogether } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { answering } from './commit.ts';

const FLUSH_MS = 1_000;
/** A process that was killed asks none any more; one that lives says so again in time. */
const OPEN_MS = 15_000;
/** Checks whose calls wait to be written: more than an account has. */
const CHECKS_AT_ONCE = 1_000;

type Result = 'answered' | CheckFailure;
type NotedCall = { atMs: number; result: Result; ms: number };

export class CheckActivities {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #process = randomUUID();
  #calls = new Map<string, string[]>();
  readonly #open = new Set<string>();
  #closed = new Set<string>();
  readonly #flushes = new Periodic(FLUSH_MS, () => this.flush());

  constructor({ redis, keys }: { redis: Commands; keys: Keys }) {
    this.#redis = redis;
    this.#keys = keys;
  }

  start(): void {
    this.#flushes.start();
  }

  async stop(): Promise<void> {
    await this.#flushes.stop();
    for (const id of this.#open) this.breaker(id, false);
    await this.flush();
  }

  note(id: string, result: Result, ms: number): void {
    const calls = this.#calls.get(id) ?? [];
    if (calls.length === 0 && this.#calls.size >= CHECKS_AT_ONCE) return;
    if (calls.length >= CHECK_CALLS_KEPT) calls.shift();
    calls.push(`${Date.now()} ${result} ${Math.round(ms)}`);
    this.#calls.set(id, calls);
  }

  /** `isOpen`: this process does not ask it at the moment. */
  breaker(id: string, isOpen: boolean): void {
    if (isOpen) this.#open.add(id);
    else if (this.#open.delete(id)) this.#closed.add(id);
  }

  /** Never rejects. */
  async flush(): Promise<void> {
    const [calls, closed] = [this.#calls, this.#closed];
    if (calls.size + closed.size + this.#open.size === 0) return;
    this.#calls = new Map();
    this.#closed = new Set();
    const untilMs = Date.now() + OPEN_MS;
    const written = sendTogether(this.#redis, () => [
      ...[...calls].flatMap(([id, of]) => this.#write(id, of)),
      ...[...closed].map((id) => this.#redis.hdel(this.#keys.checkBreakers(id), this.#process)),
      ...[...this.#open].flatMap((id) => [
        this.#redis.hset(this.#keys.checkBreakers(id), this.#process, untilMs),
        this.#redis.pexpire(this.#keys.checkBreakers(id), OPEN_MS),
      ]),
    ]);
    await Promise.allSettled(written);
  }

  #write(id: string, calls: readonly string[]): Promise<unknown>[] {
    const key = this.#keys.checkCalls(id);
    return [
      this.#redis.lpush(key, ...calls),
      this.#redis.ltrim(key, 0, CHECK_CALLS_KEPT - 1),
      this.#redis.pexpire(key, CHECK_CALLS_MS_MAX),
    ];
  }

  /** In the order of the ids. Throws ServiceError unavailable. */
  read(ids: readonly string[]): Promise<CheckActivity[]> {
    return answering(() =>
      Promise.all(
        sendTogether(this.#redis, () =>
          ids.map(async (id) => {
            const [calls, breakers] = await Promise.all([
              this.#redis.lrange(this.#keys.checkCalls(id), 0, -1),
              this.#redis.hvals(this.#keys.checkBreakers(id)),
            ]);
            return activityOf(calls.map(callOf), breakers.filter((untilMs) => Number(untilMs) > Date.now()).length);
          }),
        ),
      ),
    );
  }
}

function callOf(text: string): NotedCall {
  const [atMs, result, ms] = text.split(' ') as [string, Result, string];
  return { atMs: Number(atMs), result, ms: Number(ms) };
}

function activityOf(all: readonly NotedCall[], openOn: number): CheckActivity {
  const calls = all.filter(({ atMs }) => atMs > Date.now() - CHECK_CALLS_MS_MAX);
  const lasted = calls
    .filter(({ result }) => result !== 'overload') // which was not called
    .map(({ ms }) => ms)
    .sort((a, b) => a - b);
  const share = (of: number) => lasted[Math.min(lasted.length - 1, Math.floor(of * lasted.length))] ?? null;
  const failures = CHECK_FAILURES.map((reason) => [reason, calls.filter(({ result }) => result === reason).length]);
  const lastMs = Math.max(0, ...calls.map(({ atMs }) => atMs));
  return {
    calls: calls.length,
    failures: Object.fromEntries(failures) as CheckActivity['failures'],
    p50_ms: share(0.5),
    p95_ms: share(0.95),
    last_call_at: lastMs === 0 ? null : isoTime(lastMs),
    open_on: openOn,
  };
}
