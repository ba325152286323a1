// Chains what was stored and is no longer in its stream (after a drain has dealt with a Redis that it did not know, see
// drain.ts). A Redis that went back lacks the last entries of a stream, whose rows ClickHouse has: they would be called
// `added` for ever, and what is really added would hide among them.
//   chained   the ids of all entries of the stream's chains since then, in ClickHouse and in Redis
//   stored    rows of the stream since then; what is not chained is a stray
//   chain     for each account with strays a marker and the strays, as they are found, become the next entries of its
//             chain; an entry `chain.recovered` of the audit log says how many, and from when
// Invariant: nothing is excepted from verification. What is changed after the recovery is found; what was before it,
// the audit log names. Killed anywhere, the next owner finds the same strays, at worst under a second audit entry.
// Failure: Redis or ClickHouse away: throws, and is tried again. Bounded: where more rows were stored since than
// ROWS_MAX, as after a restored backup, nothing is chained and the log says so; verification then shows them.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { chainedIdsSince, storedSince } from '../../clickhouse/queries/chain-strays.ts';
import { isoTime } from '../../schemas/time.ts';
import { MARKER_TAG, packAgent, packId, packMarker } from '../../src/audit/hash.ts';
import { keyOf, keysOf, type RowSource } from '../../src/audit/ledger.ts';
import { eventSource, registrySource, waitingBlocks } from '../../src/audit/sources.ts';
import { REGISTRY_CHAIN } from '../../src/audit/verify.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { auditLog, SYSTEM } from '../../src/registry/audit.ts';
import { commit } from '../../src/registry/commit.ts';
import type { BinaryCommandArgs } from '../../src/streams/consume.ts';
import { type Chained, type ChainWriter, groupByAccount } from './chain.ts';

type Options = { redis: Commands; keys: Keys; clickhouse: ClickHouse; metrics: Metrics; log: Log };
type Stray = { account: string; id: string; atMs: number };

/** 100 MB of ids; a minute at full speed. */
const ROWS_MAX = 1_000_000;
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
   * What lies in the stream has been compared: the writes that chain what is not chained. `fromMs`: epoch ms before
   * which nothing is lost; null: it is not known, and nothing is chained.
   */
  async end(stream: string, fromMs: number | null): Promise<BinaryCommandArgs[]> {
    this.#chain.forgetBeyond(stream);
    return fromMs === null ? [] : this.#writes(stream, fromMs);
  }

  async #writes(stream: string, fromMs: number): Promise<BinaryCommandArgs[]> {
    const { keys, clickhouse, metrics, log } = this.#options;
    const chain = keys.chainOf(stream);
    const chained = new Set<string>();
    const note = (ids: Buffer) => {
      for (const key of keysOf(ids)) chained.add(key);
    };
    // What waits first: a block moves from Redis to ClickHouse.
    for await (const { ids } of waitingBlocks(this.#options, stream)) note(ids);
    const found = await storedSince(clickhouse, { table: tableOf(chain), fromMs, rowsMax: ROWS_MAX });
    if (found === null) {
      log.error({ since: isoTime(fromMs), rowsMax: ROWS_MAX }, 'chain.too_much_to_recover');
      return [];
    }
    await chainedIdsSince(clickhouse, { chain, fromMs }, note);
    const strays = found.filter((row) => isOf(keys, stream, row) && !chained.has(keyOf(packId(row.id))));
    const entries: Chained[] = [];
    for (const [account, some] of groupByAccount(strays)) entries.push(...(await this.#recover(chain, account, some)));
    metrics.inc('gatehouse_recovered_total', { what: 'rows' }, strays.length);
    if (entries.length > 0) log.warn({ entries: strays.length, since: isoTime(fromMs) }, 'chain.recovered');
    return this.#chain.extend(stream, entries);
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
    await commit(
      { redis, keys },
      {
        ...{ account, at, guards: [], writes: [], changes: [], whenFull: true },
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
