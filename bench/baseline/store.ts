// The baseline's Redis: keys and agents by look-up behind a small cache, counters by INCRBY and EXPIRE, one XADD an
// event. All commands of one request go out as one ioredis pipeline. Streams are kept to a length, since nothing here
// drains them.
import { createHash } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Policy } from './schemas.ts';

/** How long a cached key or agent is believed. */
const CACHE_MS = 5_000;
const CACHED_MAX = 10_000;
const STREAM_ENTRIES_MAX = 100_000;

type Stored = { id: string; agentId: string; body: string };
export type Seed = { keys: Record<string, string>; agents: string[]; policies: Policy[] };

/** Answers of a look-up, believed for a while. */
class Cache<T> {
  readonly #entries = new Map<string, { value: T; until: number }>();
  readonly #look: (key: string) => Promise<T>;

  constructor(look: (key: string) => Promise<T>) {
    this.#look = look;
  }

  async get(key: string): Promise<T> {
    const known = this.#entries.get(key);
    if (known !== undefined && known.until > Date.now()) return known.value;
    const value = await this.#look(key);
    if (this.#entries.size >= CACHED_MAX) this.#entries.clear();
    this.#entries.set(key, { value, until: Date.now() + CACHE_MS });
    return value;
  }
}

export class Store {
  readonly #redis: Redis;
  readonly #accounts: Cache<string | null>;
  readonly #agents: Cache<boolean>;

  constructor(url: string) {
    this.#redis = new Redis(url);
    this.#accounts = new Cache((hash) => this.#redis.hget('keys', hash));
    this.#agents = new Cache(async (agent) => (await this.#redis.sismember('agents', agent)) === 1);
  }

  async seed({ keys, agents, policies }: Seed): Promise<void> {
    for (const [key, account] of Object.entries(keys)) await this.#redis.hset('keys', sha256(key), account);
    if (agents.length > 0) await this.#redis.sadd('agents', ...agents);
    await this.#redis.set('policies', JSON.stringify(policies));
  }

  async policies(): Promise<Policy[]> {
    return JSON.parse((await this.#redis.get('policies')) ?? '[]') as Policy[];
  }

  accountOf(key: string): Promise<string | null> {
    return this.#accounts.get(sha256(key));
  }

  isAgent(id: string): Promise<boolean> {
    return this.#agents.get(id);
  }

  /** Adds to each counter and answers what they then hold. A counter goes with its window. */
  async count(counters: readonly { key: string; by: number; seconds: number }[]): Promise<number[]> {
    if (counters.length === 0) return [];
    const pipeline = this.#redis.pipeline();
    for (const { key, by, seconds } of counters) pipeline.incrby(key, by).expire(key, seconds);
    const answers = await this.#answers(pipeline.exec());
    return counters.map((_, i) => Number(answers[2 * i]));
  }

  /** Resolves when Redis has them all. */
  async append(events: readonly Stored[]): Promise<void> {
    const pipeline = this.#redis.pipeline();
    for (const { id, agentId, body } of events) {
      pipeline.xadd('events', 'MAXLEN', '~', STREAM_ENTRIES_MAX, '*', 'id', id, 'agent', agentId, 'event', body);
    }
    await this.#answers(pipeline.exec());
  }

  async close(): Promise<void> {
    await this.#redis.quit();
  }

  async #answers(running: Promise<[error: Error | null, result: unknown][] | null>): Promise<unknown[]> {
    const answers = (await running) ?? [];
    for (const [error] of answers) if (error) throw error;
    return answers.map(([, result]) => result);
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
