// The audit chain's growth (after a batch's inserts, before its acknowledgement): what the batch stored becomes the
// next entries of each account's chain. One writer by lease: the owner of the stream.
//   heads    where each account's chain of this stream stands, from Redis
//   newest   of accounts that this process has not chained yet, or whose head went back: where it is in ClickHouse,
//            and what lies between the two, which is not chained again
//   extend   a leaf and a hash for each row, in the order of the stream
//   writes   heads and blocks, made by the acknowledgement itself (stream-ack.lua): all of it or nothing
// Invariant: the chain holds exactly what was stored. Killed before the ack: the next owner stores the same rows and
// makes the chain grow by what it did not refuse; nothing had been written. Killed after: the batch is not processed
// again. Blocks wait in Redis, in the stream's own slot, until the flusher has copied them (chain-flush.ts): an insert
// of their own for each batch would cost the embedded engine its 30 ms of CPU every time.
// Failure: Redis or ClickHouse away, or too many blocks waiting: throws, and the batch is tried again.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { type ChainEnd, chainEnds, chainPage } from '../../clickhouse/queries/chain-blocks.ts';
import { CHAIN_FIELD, type ChainBlock, encodeBlocks, HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import { genesis, link, MARKER_TAG, packId, packMarker, putEventLeaf, putId } from '../../src/audit/hash.ts';
import { keyOf, keysOf } from '../../src/audit/ledger.ts';
import { REGISTRY_CHAIN } from '../../src/audit/verify.ts';
import { CHAIN_PENDING_MAX } from '../../src/common/limits.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { countAgainNow } from '../../src/registry/budgets/counted-again.ts';
import type { BinaryCommandArgs } from '../../src/streams/consume.ts';

// A Redis that lost its heads, or went back in time: the chain continues behind its newest block in ClickHouse, with a
// marker that says which rows may be unknown to it. What it counted since is lost as well, and is counted again.

/**
 * A row that is to become an entry. `agent`: 128 bits; `id`: the text of one, or 128 bits. `row`: of an event, its leaf
 * is made where it is written; of anything else the `leaf` itself. `atMs`: when it arrived.
 */
export type Chained = { account: string; id: string | Buffer; agent: Buffer; atMs: number } & (
  | { row: Buffer; leaf?: undefined }
  | { row?: undefined; leaf: Buffer }
);

export type ChainOptions = { redis: Commands; keys: Keys; clickhouse: ClickHouse };

type Head = { n: number; hash: Buffer };

/** Fields of one HSET: bounds what a script unpacks. */
const FIELDS_AT_ONCE = 1_000;
/** Accounts whose chains are known to be in step with ClickHouse; past that all are asked for again. */
const KNOWN_MAX = 200_000;

/**
 * So many entries of an account that Redis forgot are remembered, 100 MB. Beyond that they may be chained twice, which
 * is no fault.
 */
const BEYOND_MAX = 1_000_000;

/** A time that the tables can hold, also with the longest retention added. */
const NEVER_MS = Date.parse('2200-01-01T00:00:00Z');

/** Too many blocks wait for ClickHouse: the batch must wait, too. */
class ChainBehind extends Error {
  override name = 'ChainBehind';
}

export class ChainWriter {
  readonly #options: ChainOptions;
  /** Stream and account -> number of the last entry that was chained here. */
  readonly #known = new Map<string, number>();
  /** Stream and account -> packed ids of entries that ClickHouse had beyond the head of a Redis that went back. */
  readonly #beyond = new Map<string, Set<string>>();

  constructor(options: ChainOptions) {
    this.#options = options;
  }

  /** The writes that make these entries part of their chains, for the acknowledgement of their batch. */
  async extend(stream: string, entries: readonly Chained[]): Promise<BinaryCommandArgs[]> {
    if (entries.length === 0) return [];
    const { redis, keys } = this.#options;
    const byAccount = groupByAccount(entries);
    const accounts = [...byAccount.keys()];
    const [kept, pending] = await Promise.all([
      redis.hmget(keys.chainHeads(stream), ...accounts),
      redis.xlen(keys.chainPending(stream)),
    ]);
    if (pending >= CHAIN_PENDING_MAX)
      throw new ChainBehind(`${pending} batches' blocks of the audit chain wait for ClickHouse`);
    const heads = new Map(accounts.map((account, i) => [account, readHead(kept[i] ?? null)]));
    const ends = await this.#ends(stream, heads);
    const blocks: ChainBlock[] = [];
    for (const [account, some] of byAccount) {
      const block = await this.#block(stream, some, { head: heads.get(account)!, end: ends.get(account) });
      if (block !== null) blocks.push(block);
    }
    return blocks.length === 0 ? [] : this.#words(stream, blocks);
  }

  /** Redis may have gone back: where the stream's chains are is to be asked of ClickHouse. */
  doubt(stream: string): void {
    for (const name of this.#known.keys()) if (name.startsWith(`${stream} `)) this.#known.delete(name);
  }

  /** Nothing more of what went back comes again. */
  forgetBeyond(stream: string): void {
    for (const name of this.#beyond.keys()) if (name.startsWith(`${stream} `)) this.#beyond.delete(name);
  }

  /** Ids behind entry `n` of a chain, as ClickHouse has them. */
  async #learnBeyond(stream: string, account: string, { n, end }: { n: number; end: number }): Promise<void> {
    const { clickhouse, keys } = this.#options;
    const ids = this.#beyond.get(`${stream} ${account}`) ?? new Set<string>();
    this.#beyond.set(`${stream} ${account}`, ids);
    for (let fromN = n + 1; fromN <= end; ) {
      const page = await chainPage(clickhouse, { account, chain: keys.chainOf(stream), fromN });
      if (page.length === 0) return;
      for (const block of page) for (const key of keysOf(block.ids)) ids.add(key);
      fromN = page.at(-1)!.firstN + page.at(-1)!.count;
    }
  }

  /** Where chains are in ClickHouse that are not known to be in step with it. */
  async #ends(stream: string, heads: ReadonlyMap<string, Head | null>): Promise<Map<string, ChainEnd>> {
    const doubtful = [...heads].filter(
      ([account, head]) => (head?.n ?? -1) !== this.#known.get(`${stream} ${account}`),
    );
    if (doubtful.length === 0) return new Map();
    const accounts = new Map(doubtful.map(([account, head]) => [account, head?.n ?? 0]));
    return chainEnds(this.#options.clickhouse, this.#options.keys.chainOf(stream), accounts);
  }

  async #block(
    stream: string,
    given: readonly Chained[],
    { head, end }: { head: Head | null; end: ChainEnd | undefined },
  ): Promise<ChainBlock | null> {
    const { account } = given[0]!;
    const chain = this.#options.keys.chainOf(stream);
    const isBehind = end !== undefined && end.n > (head?.n ?? 0);
    if (isBehind && chain !== REGISTRY_CHAIN) await countAgainNow(this.#options, account);
    // Where even the head is lost, so is the stream: nothing of what was chained comes again.
    if (isBehind && head !== null && end.n - head.n <= BEYOND_MAX)
      await this.#learnBeyond(stream, account, { n: head.n, end: end.n });
    const beyond = this.#beyond.get(`${stream} ${account}`);
    const entries = beyond === undefined ? given : given.filter(({ id }) => !beyond.has(packedKey(id)));
    if (entries.length === 0 && !isBehind) return null;
    const start = isBehind ? end : (head ?? { n: 0, hash: genesis(account, chain) });
    const atMs = Date.now();
    const keptFrom = chain === REGISTRY_CHAIN ? NEVER_MS : atMs;
    const marker = isBehind ? [markerEntry(account, { atMs, fromMs: end.fromMs, toMs: atMs })] : [];
    return keptSince(keptFrom, makeBlock(account, start, [...marker, ...entries]));
  }

  #words(stream: string, blocks: readonly ChainBlock[]): BinaryCommandArgs[] {
    const { keys } = this.#options;
    if (this.#known.size > KNOWN_MAX) this.#known.clear();
    const fields: string[] = [];
    for (const { account, firstN, count, hash } of blocks) {
      const n = firstN + count - 1;
      fields.push(account, `${n}:${hash.toString('hex')}`);
      // Should the acknowledgement fail, the head is found elsewhere and ClickHouse is asked again.
      this.#known.set(`${stream} ${account}`, n);
    }
    const words: BinaryCommandArgs[] = [];
    for (let i = 0; i < fields.length; i += FIELDS_AT_ONCE)
      words.push(['hset', keys.chainHeads(stream), ...fields.slice(i, i + FIELDS_AT_ONCE)]);
    words.push(['xadd', keys.chainPending(stream), '*', CHAIN_FIELD, encodeBlocks(blocks)]);
    return words;
  }
}

function packedKey(id: string | Buffer): string {
  return keyOf(typeof id === 'string' ? packId(id) : id);
}

/** `<n>:<hash in hex>`. */
function readHead(text: string | null): Head | null {
  if (text === null) return null;
  const colon = text.indexOf(':');
  return { n: Number(text.slice(0, colon)), hash: Buffer.from(text.slice(colon + 1), 'hex') };
}

export function groupByAccount<T extends { account: string }>(entries: readonly T[]): Map<string, T[]> {
  const byAccount = new Map<string, T[]>();
  for (const entry of entries) {
    const same = byAccount.get(entry.account);
    if (same === undefined) byAccount.set(entry.account, [entry]);
    else same.push(entry);
  }
  return byAccount;
}

function markerEntry(account: string, marker: { atMs: number; fromMs: number; toMs: number }): Chained {
  return { account, agent: MARKER_TAG, ...packMarker(marker), atMs: marker.atMs };
}

/**
 * A block's contents expire by its `lastMs`. Those of the registry never do, as the audit log never does. Those of
 * events not before what was chained earlier, also where the rows are old ones that had been dead-lettered: so what has
 * expired is always a chain's beginning.
 */
function keptSince(ms: number, block: ChainBlock): ChainBlock {
  return { ...block, lastMs: Math.max(block.lastMs, ms) };
}

/** The entries behind `head` as one block. */
export function makeBlock(account: string, head: Head, entries: readonly Chained[]): ChainBlock {
  const count = entries.length;
  const leaves = Buffer.allocUnsafe(count * HASH_BYTES);
  const agents = Buffer.allocUnsafe(count * ID_BYTES);
  const ids = Buffer.allocUnsafe(count * ID_BYTES);
  const packed = { leaves, agents, ids };
  let [fromMs, lastMs] = [Number.POSITIVE_INFINITY, 0];
  // One piece of memory for the hash on its way: `head` keeps its own.
  const hash = Buffer.from(head.hash);
  for (const [i, entry] of entries.entries()) {
    const { id, agent, row, leaf } = entry;
    if (row === undefined) leaves.set(leaf, i * HASH_BYTES);
    else putEventLeaf(row, leaves, i * HASH_BYTES);
    agents.set(agent, i * ID_BYTES);
    if (typeof id === 'string') putId(id, ids, i * ID_BYTES);
    else ids.set(id, i * ID_BYTES);
    fromMs = Math.min(fromMs, entry.atMs);
    lastMs = Math.max(lastMs, entry.atMs);
    link(hash, head.n + i + 1, packed, i, hash);
  }
  return { account, firstN: head.n + 1, count, fromMs, lastMs, previous: head.hash, hash, leaves, agents, ids };
}
