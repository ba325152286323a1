// Makes sequences known whose memory is wanted (a ticker of each pipelines process, beside the pipelines): those that
// were made, changed or switched on, and all where Redis was restored.
// A lease an attempt (memory-build.ts), so any number of processes may look at the same ones. What fails is tried again
// at the next look; until then the sequence matches, `state_unknown`.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { Periodic } from '../../src/common/async.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import { memoryName } from '../../src/policy/kinds/sequence.ts';
import { SequenceStore } from '../../src/policy/quotas/sequence-store.ts';
import type { Log } from '../../src/process/log.ts';
import { REGISTRY_SHARDS } from '../../src/redis/keys.ts';
import { traceKeyOf } from '../../src/registry/accounts/trace-key.ts';
import { Agents } from '../../src/registry/agents.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import { readPolicy } from '../../src/registry/policies/policy-record.ts';
import { ReadBarrier } from '../../src/streams/read-barrier.ts';
import { MemoryBuild } from './memory-build.ts';

const LOOK_MS = 500;
/** Each judges what is stored of its window; more would hold up the drains. */
const BUILDS_AT_ONCE = 2;
const LOOKED_AT = 50;
const STORED_MS_MAX = 30_000;
const RETRY_MS = 1_000;

type MemoryWorkerOptions = RegistryStore & {
  clickhouse: ClickHouse;
  metrics: Pick<Metrics, 'inc' | 'set'>;
  log: Log;
  /** False while Redis has lost the registry. */
  mayWork?: () => boolean;
};

export class MemoryWorker {
  readonly name = 'memories of sequences';
  readonly #options: MemoryWorkerOptions;
  readonly #barrier: ReadBarrier;
  readonly #agents: Agents;
  readonly #stop = new AbortController();
  readonly #running = new Map<string, Promise<void>>();
  readonly #ticks = new Periodic(LOOK_MS, () => this.#tick());

  constructor(options: MemoryWorkerOptions) {
    this.#options = options;
    this.#barrier = new ReadBarrier({ redis: options.redis, keys: options.keys, waitMs: STORED_MS_MAX });
    this.#agents = new Agents(options);
  }

  start(): void {
    this.#ticks.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ticks.stop();
    await Promise.all(this.#running.values());
  }

  async #tick(): Promise<void> {
    const { redis, keys, metrics, log, mayWork } = this.#options;
    if (mayWork?.() === false) return;
    try {
      let wanted = 0;
      for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
        const members = await redis.srandmember(keys.sequencesWanted(shard), LOOKED_AT);
        wanted += members.length;
        for (const member of members) this.#begin(member);
      }
      metrics.set('gatehouse_sequences_unknown', {}, wanted);
    } catch (error) {
      log.warn({ err: error }, 'sequences.look_failed');
    }
  }

  #begin(member: string): void {
    if (this.#stop.signal.aborted || this.#running.has(member) || this.#running.size >= BUILDS_AT_ONCE) return;
    const [account, id] = member.split('/') as [string, string];
    const done = this.#build(account, id).finally(() => this.#running.delete(member));
    this.#running.set(member, done);
  }

  /** Never rejects. */
  async #build(account: string, id: string): Promise<void> {
    const { log } = this.#options;
    const startedMs = performance.now();
    try {
      const result = await this.#buildOne(account, id);
      const ms = Math.round(performance.now() - startedMs);
      if (result === 'known') log.info({ account, policy: id, ms }, 'sequence.known');
      else if (result !== 'busy') log.warn({ account, policy: id, reason: result }, 'sequence.not_known_yet');
      if (result === 'known') return;
    } catch (error) {
      log.warn({ err: error, account, policy: id }, 'sequence.build_failed');
    }
    await sleep(RETRY_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }

  async #buildOne(account: string, id: string): Promise<string> {
    const { redis, keys } = this.#options;
    const text = await redis.hget(keys.policies(account), id);
    // It goes from the set with the policy.
    if (text === null) return 'busy';
    const parts = {
      ...this.#options,
      signal: this.#stop.signal,
      erasing: (of: string) => this.#agents.erasing(of),
      whenStored: async (of: string) =>
        (await Promise.all([this.#barrier.waitForEvents(of, null), this.#barrier.waitForApprovals(of, null)])).every(
          Boolean,
        ),
    };
    const traceKey = await traceKeyOf(this.#options, account);
    const result = await new MemoryBuild(parts, { account, policy: readPolicy(text), text, traceKey }).run();
    if (result === 'known') await this.#dropUnused(account);
    return result;
  }

  /** A policy that was changed or deleted leaves its names until then. */
  async #dropUnused(account: string): Promise<void> {
    const { redis, keys } = this.#options;
    const policies = (await redis.hvals(keys.policies(account))).map(readPolicy);
    const names = policies.filter(({ type }) => type === 'sequence').map(memoryName);
    await new SequenceStore(redis, keys).dropUnused(account, new Set(names));
  }
}
