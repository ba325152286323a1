// Appends under an Idempotency-Key (in place of the plain append, for requests that carry a key).
// A record in the partition's own slot says `running` while the first request works and `done` with its outcome
// afterwards; the entry and the outcome are written by one script, so a retry finds both or neither, whatever was lost
// on the way.
// Invariant: per account and key one entry at most. A front that dies frees the key after IDEMPOTENCY_RUNNING_MS;
// should it wake up after that, its marker is gone and its append is refused.
// Redis away: ServiceError `unavailable`, `recorded: 'unknown'` only for a lost answer to the append itself. A key
// whose request got the answer that nothing was recorded is freed as soon as Redis answers again, so that a retry need
// not wait for its marker to end.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ENTRY_FIELD } from '../../schemas/entry.ts';
import { Periodic } from '../common/async.ts';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { IDEMPOTENCY_KEPT_MS, IDEMPOTENCY_RUNNING_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import { acknowledging, type Commands, isCluster } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';
import { type Append, toServiceError } from './append.ts';
import { type PackedEntry, packEntry } from './packing.ts';

const begin = new Script<[state: string, outcome?: string]>(
  'stream-idempotency-begin',
  readAsset('src/redis/stream-idempotency-begin.lua'),
  // An outcome that is given again must not be lost either.
  { acknowledges: true },
);
const sweep = new Script<number>('idempotency-sweep', readAsset('src/redis/idempotency-sweep.lua'));
const appendOnce = new Script<[state: string, evicted?: number]>(
  'stream-append-once',
  keeping(readAsset('src/redis/stream-append-once.lua')),
  { acknowledges: true },
);
const release = new Script<number>('lease-release', readAsset('src/redis/lease-release.lua'));

export type Begun = { state: 'new'; token: string } | { state: 'replay'; outcome: string };
export type OnceKey = { partition: number; account: string; key: string };

/** Keys that wait to be freed, some 300 bytes each; any more end by themselves. */
const TO_FREE_MAX = 10_000;
const FREE_EVERY_MS = 250;
const SWEEP_EVERY_MS = 60_000;
const SWEPT_AT_ONCE = 200;

export class AppendOnce {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #toFree = new Map<string, { request: OnceKey & { token: string }; untilMs: number }>();
  #freeing = false;

  readonly #bytesMax: () => number;
  readonly #onEvicted: (records: number) => void;
  readonly #sweeps = new Periodic(SWEEP_EVERY_MS, () => this.sweep().catch(() => undefined));

  /**
   * Every step is safe to send again: a client that retries will do. `bytesMax`: of Redis's memory for what is kept,
   * over all partitions. `onEvicted`: called with the number of records that an append evicted.
   */
  constructor(options: { redis: Commands; keys: Keys; bytesMax: () => number; onEvicted?: (records: number) => void }) {
    this.#redis = options.redis;
    this.#keys = options.keys;
    this.#bytesMax = options.bytesMax;
    this.#onEvicted = options.onEvicted ?? (() => undefined);
  }

  start(): void {
    this.#sweeps.start();
  }

  stop(): Promise<void> {
    return this.#sweeps.stop();
  }

  /** Takes what has expired out of the sums. Rejects while Redis is away. */
  async sweep(): Promise<void> {
    for (let partition = 0; partition < this.#keys.partitions; partition++) {
      const bytes = this.#keys.idempotencyBytes(partition);
      const accounts = (await this.#redis.hkeys(bytes)).filter((account) => account !== '');
      for (const account of accounts) {
        const keys = [this.#keys.idempotencyOrder(partition, account), bytes];
        while ((await sweep.run(this.#redis, keys, [account, SWEPT_AT_ONCE])) === SWEPT_AT_ONCE);
      }
    }
  }

  /**
   * `fingerprint`: hash of what makes the request this one, without `:`. Throws ServiceError idempotency_conflict,
   * idempotency_in_progress, unavailable.
   */
  async begin(request: OnceKey & { fingerprint: string }): Promise<Begun> {
    const token = `${request.fingerprint}:${randomBytes(12).toString('base64url')}`;
    const args = [...token.split(':'), IDEMPOTENCY_RUNNING_MS];
    const begun = this.#run(begin, [this.#record(request)], args, { recorded: false });
    // Of two that begin at once one sees the other: behind it on the same connection, or else once it is made.
    const isOneConnection = !isCluster(this.#redis) && acknowledging(this.#redis) === this.#redis;
    const elsewhere = !isOneConnection
      ? begun.then(() => this.#isUsedElsewhere(request))
      : this.#isUsedElsewhere(request);
    // Redis may still do what it did not answer to.
    const [[state, outcome], isUsed] = await Promise.all([begun, elsewhere]).catch((error: unknown) => {
      void this.release({ ...request, token });
      throw error;
    });
    switch (state) {
      case 'new':
        if (!isUsed) return { state: 'new', token };
        await this.release({ ...request, token });
        throw usedElsewhere();
      case 'replay':
        return { state: 'replay', outcome: outcome ?? '' };
      case 'conflict':
        throw usedElsewhere();
      case 'running':
        throw new ServiceError(
          'idempotency_in_progress',
          'The first request with this Idempotency-Key is still running.',
        );
      default:
        throw new Error(`stream-idempotency-begin answered ${state}`);
    }
  }

  /** Appends one entry, or none where there are no events, and keeps `outcome`. Throws ServiceError unavailable. */
  append(
    request: OnceKey & { token: string; agent: string; summaries: Append['summaries']; rows: Buffer; outcome: string },
  ): Promise<void> {
    const { summaries, rows } = request;
    return this.appendPacked({ ...request, entry: summaries.length === 0 ? undefined : entryOf(summaries, rows) });
  }

  /** The same with an entry that is packed already; undefined: there are no events. */
  async appendPacked(
    request: OnceKey & { token: string; agent: string; entry: PackedEntry | undefined; outcome: string },
  ): Promise<void> {
    const { partition, agent, token, entry, outcome } = request;
    const [fingerprint, run] = token.split(':');
    const { account, key } = request;
    const keys = [
      this.#keys.events(partition),
      this.#record(request),
      this.#keys.lastSeen(partition),
      this.#keys.idempotencyOrder(partition, account),
      this.#keys.idempotencyBytes(partition),
    ];
    const args = [
      fingerprint!,
      run!,
      outcome,
      IDEMPOTENCY_KEPT_MS,
      agent,
      `${Date.now()}/${account}`,
      account,
      this.#keys.idempotencyEnd(key),
      Math.floor(this.#bytesMax() / this.#keys.partitions),
      ...(entry === undefined ? [] : fieldsOf(entry)),
    ];
    const [state, evicted = 0] = await this.#run(appendOnce, keys, args, {});
    if (evicted > 0) this.#onEvicted(evicted);
    if (state === 'appended') return;
    throw notRecorded('The request took too long');
  }

  /** Frees the key of a request that recorded nothing: now, or once Redis answers. */
  async release(request: OnceKey & { token: string }): Promise<void> {
    try {
      await this.#release(request);
    } catch {
      if (this.#toFree.size >= TO_FREE_MAX) return;
      this.#toFree.set(request.token, { request, untilMs: performance.now() + IDEMPOTENCY_RUNNING_MS });
      if (!this.#freeing) void this.#free();
    }
  }

  #release(request: OnceKey & { token: string }): Promise<number> {
    return release.run(this.#redis, [this.#record(request)], [`running:${request.token}`]);
  }

  async #free(): Promise<void> {
    this.#freeing = true;
    while (this.#toFree.size > 0) {
      await sleep(FREE_EVERY_MS, undefined, { ref: false });
      for (const [token, { request, untilMs }] of this.#toFree) {
        try {
          await this.#release(request);
        } catch {
          if (performance.now() < untilMs) break; // Redis is away: for all of them
        }
        this.#toFree.delete(token);
      }
    }
    this.#freeing = false;
  }

  /** For another agent, whose record lies elsewhere, or for a policy or an alert. */
  async #isUsedElsewhere({ partition, account, key }: OnceKey): Promise<boolean> {
    const records = [this.#keys.registryIdempotency(account, key)];
    for (let other = 0; other < this.#keys.partitions; other++)
      if (other !== partition) records.push(this.#keys.idempotency(other, account, key));
    const found = await Promise.all(records.map((record) => this.#redis.exists(record)));
    return found.some((there) => there > 0);
  }

  #record({ partition, account, key }: OnceKey): string {
    return this.#keys.idempotency(partition, account, key);
  }

  /** `recorded: false`: the step records nothing, so a lost answer does no harm. */
  async #run<Reply>(
    script: Script<Reply>,
    keys: string[],
    args: (string | number | Buffer)[],
    known: { recorded?: false },
  ): Promise<Reply> {
    try {
      return await script.run(this.#redis, keys, args);
    } catch (cause) {
      throw known.recorded === undefined ? toServiceError(cause) : nothingRecorded(cause);
    }
  }
}

/** The error of a step that records nothing: a lost answer to it does no harm. */
export function nothingRecorded(cause: unknown): ServiceError {
  const error = toServiceError(cause);
  return error.recorded === false ? error : notRecorded('Redis did not answer', cause);
}

/** A script that keeps something counts it, and lets the oldest go past the bound. */
export function keeping(lua: string): string {
  const behindHead = lua.indexOf('\n') + 1;
  return lua.slice(0, behindHead) + readAsset('src/redis/idempotency-kept.lua') + lua.slice(behindHead);
}

function usedElsewhere(): ServiceError {
  return new ServiceError('idempotency_conflict', 'This Idempotency-Key was used with another request.');
}

export function entryOf(summaries: Append['summaries'], rows: Buffer): PackedEntry {
  return packEntry(Buffer.from(`[${summaries.join(',')}]`), rows);
}

/** Fields and values. */
function fieldsOf(entry: PackedEntry): (string | number | Buffer)[] {
  return [ENTRY_FIELD.version, entry.version, ENTRY_FIELD.summaries, entry.summaries, ENTRY_FIELD.rows, entry.rows];
}
