// Copies the audit chain's blocks from Redis to ClickHouse (after the acknowledgement that made them; run by the
// streams' owners). What several batches of several streams have added is one insert, every CHAIN_FLUSH_MS or when
// there is much; neighbouring blocks become one row.
// Invariant: a block leaves Redis after ClickHouse has it, so it is always in at least one of the two.
// It need not be fenced. Every flush of a stream begins at the oldest block that waits, so two of them write rows of
// the same beginnings, and of those the longer one stands (table's version); what was inserted may be removed by
// any process.
// Failure: logged, and tried again at the next poll; when too many blocks wait, the batches do, too (chain.ts).
import { createHash } from 'node:crypto';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { insertBlocks, type StoredBlock } from '../../clickhouse/queries/chain-blocks.ts';
import { CHAIN_FIELD, decodeBlocks } from '../../schemas/chain.ts';
import { CHAIN_BLOCK_ENTRIES_MAX, CHAIN_FLUSH_MS, CHAIN_PENDING_MAX } from '../../src/common/limits.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { Log } from '../../src/process/log.ts';
import type { Commands } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { countedInsert } from '../counted-insert.ts';

type ChainFlusherOptions = { redis: Commands; keys: Keys; clickhouse: ClickHouse; log: Log; metrics: Metrics };

/** Pending entries of a stream read at once: each holds at most a batch's blocks, 1.3 MB. */
const ENTRIES_AT_ONCE = 8;
/**
 * One insert takes so many bytes, over all streams: five times what 5 s at full speed leave. What piled up while
 * inserts failed goes in several.
 */
const INSERT_BYTES = 32 * 1024 * 1024;

export class ChainFlusher {
  readonly #options: ChainFlusherOptions;
  /**
   * A flush before, of this process or of one that died, may have left its token behind without its rows
   * (verify-insert.ts).
   */
  #tried = true;
  #flushedAt = Number.NEGATIVE_INFINITY;
  #running: Promise<void> = Promise.resolve();
  #looking = false;

  constructor(options: ChainFlusherOptions) {
    this.#options = options;
  }

  /** Flushes these streams' blocks if it is time. Never rejects; one poll at a time. */
  async look(streams: readonly string[]): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      if (performance.now() - this.#flushedAt < CHAIN_FLUSH_MS && !(await this.#isMuch(streams))) return;
      this.#flushedAt = performance.now();
      await this.flush(streams);
    } catch (error) {
      this.#options.log.warn({ err: error }, 'chain.flush_failed');
    } finally {
      this.#looking = false;
    }
  }

  /** Many small batches: some stream is on its way to where its batches would have to wait. */
  async #isMuch(streams: readonly string[]): Promise<boolean> {
    const { redis, keys } = this.#options;
    const waiting = await Promise.all(streams.map((stream) => redis.xlen(keys.chainPending(stream))));
    return Math.max(0, ...waiting) > CHAIN_PENDING_MAX / 4;
  }

  /** Resolves when what waited in these streams at the time of the call is in ClickHouse. */
  flush(streams: readonly string[]): Promise<void> {
    const flushed = this.#running.then(() => this.#flushAll(streams));
    this.#running = flushed.catch(() => undefined);
    return flushed;
  }

  async #flushAll(streams: readonly string[]): Promise<void> {
    let left = [...streams];
    while (left.length > 0) {
      const bytesMax = INSERT_BYTES / left.length;
      const taken = (await Promise.all(left.map((stream) => this.#take(stream, bytesMax)))).filter(
        ({ last }) => last !== '',
      );
      const blocks = taken.flatMap((one) => one.blocks);
      if (blocks.length > 0) await this.#insert(blocks);
      await Promise.all(taken.map(({ stream, last }) => this.#remove(stream, last)));
      left = taken.filter(({ isMore }) => isMore).map(({ stream }) => stream);
    }
  }

  /** The oldest that wait in a stream, up to `bytesMax` and one reading. */
  async #take(stream: string, bytesMax: number) {
    const { redis, keys } = this.#options;
    const chain = keys.chainOf(stream);
    const blocks: StoredBlock[] = [];
    let [last, bytes, isMore] = ['', 0, true];
    while (isMore && bytes < bytesMax) {
      const from = last === '' ? '-' : `(${last}`;
      const entries = await redis.xrangeBuffer(keys.chainPending(stream), from, '+', 'COUNT', ENTRIES_AT_ONCE);
      for (const [id, [field, value]] of entries) {
        last = id.toString();
        if (field?.toString() !== CHAIN_FIELD) continue;
        bytes += value!.length;
        for (const block of decodeBlocks(value!)) blocks.push({ ...block, chain });
      }
      isMore = entries.length === ENTRIES_AT_ONCE;
    }
    return { stream, blocks: joinBlocks(blocks), last, isMore };
  }

  async #insert(blocks: readonly StoredBlock[]): Promise<void> {
    const { clickhouse, metrics } = this.#options;
    const token = createHash('sha256');
    // With the hashes: a chain that went back may grow to the same numbers again.
    for (const { account, chain, firstN, count, hash } of blocks)
      token.update(`${account} ${chain} ${firstN} ${count} ${hash.toString('hex')}\n`);
    try {
      const name = `chain:${token.digest('base64url')}`;
      await countedInsert(metrics, 'audit_chain', async () => {
        await insertBlocks(clickhouse, blocks, name);
        if (this.#tried) await insertBlocks(clickhouse, blocks);
      });
      this.#tried = false;
    } catch (error) {
      this.#tried = true;
      throw error;
    }
    metrics.inc('gatehouse_stored_rows_total', { table: 'audit_chain' }, blocks.length);
  }

  async #remove(stream: string, last: string): Promise<void> {
    const [ms, sequence] = last.split('-');
    const behind = `${ms}-${Number(sequence) + 1}`;
    await this.#options.redis.xtrim(this.#options.keys.chainPending(stream), 'MINID', behind);
  }
}

/** Neighbours of one chain become one block, up to CHAIN_BLOCK_ENTRIES_MAX entries. The order within a chain stays. */
export function joinBlocks(blocks: readonly StoredBlock[]): StoredBlock[] {
  const open = new Map<string, StoredBlock[]>();
  const joined: StoredBlock[] = [];
  const close = (some: StoredBlock[]) => joined.push(some.length === 1 ? some[0]! : joinAll(some));
  for (const block of blocks) {
    const name = `${block.chain} ${block.account}`;
    const some = open.get(name);
    const end = some?.at(-1);
    const size = some === undefined ? 0 : end!.firstN + end!.count - some[0]!.firstN;
    const fits = end?.hash.equals(block.previous) && end.firstN + end.count === block.firstN;
    if (some !== undefined && fits && size + block.count <= CHAIN_BLOCK_ENTRIES_MAX) some.push(block);
    else {
      if (some !== undefined) close(some);
      open.set(name, [block]);
    }
  }
  for (const some of open.values()) close(some);
  return joined;
}

function joinAll(blocks: readonly StoredBlock[]): StoredBlock {
  const [first, last] = [blocks[0]!, blocks.at(-1)!];
  return {
    ...first,
    count: last.firstN + last.count - first.firstN,
    hash: last.hash,
    fromMs: Math.min(...blocks.map(({ fromMs }) => fromMs)),
    lastMs: Math.max(...blocks.map(({ lastMs }) => lastMs)),
    leaves: Buffer.concat(blocks.map(({ leaves }) => leaves)),
    agents: Buffer.concat(blocks.map(({ agents }) => agents)),
    ids: Buffer.concat(blocks.map(({ ids }) => ids)),
  };
}
