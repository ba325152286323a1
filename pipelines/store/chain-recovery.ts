// Chains what was stored and is no longer in its stream (after a drain has dealt with a Redis that it did not know, see
// drain.ts). A Redis that went back lacks the last entries of a stream, whose rows ClickHouse has: they would be called
// `added` for ever, and what is really added would hide among them.
//   chained   the ids of all entries of the stream's chains since then, in ClickHouse and in Redis
//   stored    rows of the stream since then; what is not chained is a stray
//   chain     for each account with strays a marker and the strays, as they are found, become the next entries of its
//             chain; an entry `chain.recovered` of the audit log says so; budgets and sequences are counted again
// In slices of time, each written before the next one is read: memory is bounded, and how much was stored is not.
// Invariant: nothing is excepted from verification. What is changed after the recovery is found; what was before it,
// the audit log names. Killed anywhere, the next owner finds the strays that are left, at worst some under a second
// audit entry.
// Failure: Redis or ClickHouse away, or blocks that are not copied: throws, and is tried again.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { chainedIdsBetween, type Slice, slicesSince, storedBetween } from '../../clickhouse/queries/chain-strays.ts';
import { isoTime } from '../../schemas/time.ts';
import { MARKER_TAG, packAgent, packId, packMarker } from '../../src/audit/hash.ts';
import { keyOf, keysOf, type RowSource } from '../../src/audit/ledger.ts';
import { eventSource, registrySource, waitingBlocks } from '../../src/audit/sources.ts';
import { REGISTRY_CHAIN } from '../../src/audit/verify.ts';
import { CHAIN_PENDING_MAX } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { auditLog, SYSTEM } from '../../src/registry/audit.ts';
import { countAgain } from '../../src/registry/budgets/counted-again.ts';
import { commit } from '../../src/registry/commit.ts';
import type { BinaryCommandArgs } from '../../src/streams/consume.ts';
import { type Chained, type ChainWriter, groupByAccount } from './chain.ts';

type Options = { redis: Commands; keys: Keys; clickhouse: ClickHouse; metrics: Metrics; log: Log };
type Stray = { account: string; id: string; atMs: number };

/** Rows of a slice: 50 MB with the ids that the chains hold. */
const SLICE_ROWS = 100_000;
/** The rows of which one write makes entries: its block is no longer than a batch's. */
const STRAYS_AT_ONCE = 10_000;
const FLUSHED_LOOK_MS = 500;
/** The flusher copies every 5 s (chain-flush.ts). */
const FLUSHED_MS_MAX = 60_000;
const IDS_AT_ONCE = 1_000;

export class ChainRecovery {
  readonly #options: Options;
  readonly #chain: ChainWriter;

  constructor(options: Options, chain: ChainWriter) {
    this.#options = options;
    this.#chain = chain;
  }

  /** A drain begins in a run of Redis that its group does not know. */
  begin(stream: string): void {
    this.#chain.doubt(stream);
  }

  /**
   * The writes that chain what is not chained yet, to be made one after the other, once all that lies in the stream has
   * been compared. `fromMs`: epoch ms before which nothing is lost; null: it is not known, and nothing is chained.
   */
  async *end(stream: string, fromMs: number | null): AsyncGenerator<BinaryCommandArgs[]> {
    this.#chain.forgetBeyond(stream);
    if (fromMs === null) return;
    const { keys, clickhouse, metrics, log } = this.#options;
    const chain = keys.chainOf(stream);
    const waiting = new Set<string>();
    // What waits first: a block moves from Redis to ClickHouse.
    for await (const { ids } of waitingBlocks(this.#options, stream)) for (const key of keysOf(ids)) waiting.add(key);
    let entries = 0;
    for await (const slice of slicesSince(clickhouse, { table: tableOf(chain), fromMs, rowsMax: SLICE_ROWS })) {
      const strays = await this.#strays(stream, slice, waiting);
      entries += strays.length;
      for (const [account, some] of groupByAccount(strays)) {
        for (let i = 0; i < some.length; i += STRAYS_AT_ONCE) {
          await this.#room(stream);
          const chained = await this.#recover(chain, account, some.slice(i, i + STRAYS_AT_ONCE));
          yield await this.#chain.extend(stream, chained);
        }
      }
    }
    metrics.inc('gatehouse_recovered_total', { what: 'rows' }, entries);
    if (entries > 0) log.warn({ entries, since: isoTime(fromMs) }, 'chain.recovered');
  }

  async #strays(stream: string, slice: Slice, waiting: ReadonlySet<string>): Promise<Stray[]> {
    const { keys, clickhouse } = this.#options;
    const chain = keys.chainOf(stream);
    const stored = await storedBetween(clickhouse, tableOf(chain), slice);
    const own = stored.filter((row) => isOf(keys, stream, row) && !waiting.has(keyOf(packId(row.id))));
    if (own.length === 0) return [];
    const chained = new Set<string>();
    await chainedIdsBetween(clickhouse, { chain, ...slice }, (ids) => {
      for (const key of keysOf(ids)) chained.add(key);
    });
    return own.filter(({ id }) => !chained.has(keyOf(packId(id))));
  }

  /** An audit entry is made for each write: so it is not begun where the write would be refused. */
  async #room(stream: string): Promise<void> {
    const { redis, keys } = this.#options;
    for (const untilMs = performance.now() + FLUSHED_MS_MAX; ; await sleep(FLUSHED_LOOK_MS)) {
      if ((await redis.xlen(keys.chainPending(stream))) < CHAIN_PENDING_MAX / 2) return;
      if (performance.now() > untilMs) throw new Error('the blocks of the audit chain are not copied to ClickHouse');
    }
  }

  async #recover(chain: string, account: string, strays: readonly Stray[]): Promise<Chained[]> {
    const { clickhouse, redis, keys } = this.#options;
    const source: RowSource = (chain === REGISTRY_CHAIN ? registrySource : eventSource)(clickhouse, account);
    const at = Date.now();
    const entries: Chained[] = [
      { account, agent: MARKER_TAG, ...packMarker({ atMs: at, fromMs: 0, toMs: 0 }), atMs: at },
    ];
    for (let i = 0; i < strays.length; i += IDS_AT_ONCE) {
      const rows = await source.byId(strays.slice(i, i + IDS_AT_ONCE).map(({ id }) => packId(id)));
      for (const { id, agent, atMs, leaf } of rows) entries.push({ account, id, agent: packAgent(agent), leaf, atMs });
    }
    const times = strays.map(({ atMs }) => atMs).sort((a, b) => a - b);
    const details = {
      ...{ chain, entries: entries.length - 1 },
      ...{ first_at: isoTime(times[0]!), last_at: isoTime(times.at(-1)!) },
    };
    const writes = chain === REGISTRY_CHAIN ? [] : await countAgain({ redis, keys }, account);
    await commit(
      { redis, keys },
      {
        ...{ account, at, guards: [], writes, changes: [], whenFull: true },
        audit: [auditLog({ action: 'chain.recovered', type: 'account', id: account, details }, SYSTEM, at)],
      },
    );
    return entries;
  }
}

function tableOf(chain: string): 'events' | 'audit_log' {
  return chain === REGISTRY_CHAIN ? 'audit_log' : 'events';
}

function isOf(keys: Keys, stream: string, { account, agent }: { account: string; agent: string }): boolean {
  return keys.chainOf(stream) === REGISTRY_CHAIN
    ? keys.journal(keys.shardOf(account)) === stream
    : keys.events(keys.partitionOf(account, agent)) === stream;
}
