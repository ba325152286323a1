// Blocks of the audit chain in ClickHouse (table `audit_chain`): written by the flusher of the store pipelines, read by
// verification, and asked for the newest ones when a chain's head is not to be found in Redis.
// Bytes from end to end, as RowBinary: a block is mostly hashes.
import { type ChainBlock, HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import { RowBinaryReader, RowBinaryWriter } from '../../src/common/row-binary.ts';
import type { ClickHouse } from '../client.ts';

export type StoredBlock = ChainBlock & { chain: string };
/** Where a chain ends in ClickHouse. */
export type ChainEnd = { account: string; n: number; hash: Buffer; fromMs: number };

const COLUMNS = 'account_id, chain, first_n, count, previous, hash, from_at, last_at, leaves, agents, ids, version';

/** A block takes so many bytes without its arrays: an id, the chain's name, two hashes, numbers. */
const AROUND_BYTES_MAX = 512;

/** Entries and blocks of one page: 2 MiB of contents. */
const PAGE_ENTRIES_MAX = 32_768;
const PAGE_BLOCKS_MAX = 4_096;
/** No block is longer: neither a batch, nor what several batches were joined to. */
export const BLOCK_ENTRIES_MAX = 32_768;
/** Accounts asked for at once; of those whose chains are long fewer, so that only their ends are read. */
const ACCOUNTS_AT_ONCE = 2_000;
const LONG_AT_ONCE = 10;
const LONG_ENTRIES = 100_000;

/** Written again with more entries a block replaces the shorter one; written again as it was it changes nothing. */
export function insertBlocks(clickhouse: ClickHouse, blocks: readonly StoredBlock[], token?: string): Promise<void> {
  return clickhouse.insertBinary('audit_chain', COLUMNS, blocks.map(encode), token);
}

function encode(block: StoredBlock): Buffer {
  const writer = new RowBinaryWriter(AROUND_BYTES_MAX + block.leaves.length + block.agents.length + block.ids.length);
  writer.ascii(block.account);
  writer.ascii(block.chain);
  writer.int64(block.firstN);
  writer.uint32(block.count);
  writer.fixed(block.previous);
  writer.fixed(block.hash);
  writer.int64(block.fromMs);
  writer.int64(block.lastMs);
  writer.fixedArray(block.leaves, HASH_BYTES);
  writer.fixedArray(block.agents, ID_BYTES);
  writer.fixedArray(block.ids, ID_BYTES);
  writer.int64(block.count);
  return writer.bytes();
}

/**
 * Where one chain ends for each of these accounts; accounts that have nothing from there on are left out. `accounts`:
 * account -> number of an entry that the end is not before, 0: not known. It spares reading all of the blocks there
 * ever were.
 */
export async function chainEnds(
  clickhouse: ClickHouse,
  chain: string,
  accounts: ReadonlyMap<string, number>,
): Promise<Map<string, ChainEnd>> {
  const ends = new Map<string, ChainEnd>();
  // The longest together, so that what is read of them all is little.
  const all = [...accounts].sort(([, a], [, b]) => b - a);
  let long = all.filter(([, n]) => n > LONG_ENTRIES).length;
  while (all.length > 0) {
    const some = all.splice(0, long > 0 ? Math.min(long, LONG_AT_ONCE) : ACCOUNTS_AT_ONCE);
    long -= some.length;
    const rows = await clickhouse.query<{ account: string; n: number; hash: string; from_ms: number }>(
      `SELECT account_id AS account, max(first_n + count - 1) AS n, hex(argMax(hash, first_n + count)) AS hash,
         argMax(toUnixTimestamp64Milli(from_at), first_n + count) AS from_ms
       FROM audit_chain WHERE chain = {chain:String} AND account_id IN {accounts:Array(String)} AND first_n >= {least:UInt64}
       GROUP BY account_id`,
      {
        chain,
        accounts: some.map(([account]) => account),
        least: Math.max(0, some.at(-1)![1] - BLOCK_ENTRIES_MAX),
      },
    );
    for (const { account, n, hash, from_ms } of rows)
      ends.set(account, { account, n, hash: Buffer.from(hash, 'hex'), fromMs: from_ms });
  }
  return ends;
}

/** Names of the account's chains that have a block. */
export async function chainNames(clickhouse: ClickHouse, account: string): Promise<string[]> {
  const rows = await clickhouse.query<{ chain: string }>(
    'SELECT DISTINCT chain FROM audit_chain WHERE account_id = {account:String} ORDER BY chain',
    { account },
  );
  return rows.map(({ chain }) => chain);
}

/**
 * Number of the first entry of the first block that holds anything which arrived at `fromMs` or later; null: there is
 * none.
 */
export async function firstBlockSince(
  clickhouse: ClickHouse,
  { account, chain, fromMs }: { account: string; chain: string; fromMs: number },
): Promise<number | null> {
  const [row] = await clickhouse.query<{ n: number; found: number }>(
    `SELECT min(first_n) AS n, count() AS found FROM audit_chain
     WHERE account_id = {account:String} AND chain = {chain:String} AND last_at >= fromUnixTimestamp64Milli({fromMs:Int64}, 'UTC')`,
    { account, chain, fromMs },
  );
  return row === undefined || row.found === 0 ? null : row.n;
}

/** Where the last block ends that begins before entry `n`. */
export async function blockBefore(
  clickhouse: ClickHouse,
  { account, chain, n }: { account: string; chain: string; n: number },
): Promise<{ n: number; hash: Buffer } | null> {
  const [row] = await clickhouse.query<{ n: number; hash: string }>(
    `SELECT first_n + count - 1 AS n, hex(hash) AS hash FROM audit_chain FINAL
     WHERE account_id = {account:String} AND chain = {chain:String} AND first_n < {n:UInt64} ORDER BY first_n DESC LIMIT 1`,
    { account, chain, n },
  );
  return row === undefined ? null : { n: row.n, hash: Buffer.from(row.hash, 'hex') };
}

/**
 * The next blocks of a chain that reach entry `fromN` or lie behind it, in order; none: that was all. The first one may
 * begin before: a block that is written again may have become longer since its beginning was read.
 */
export async function chainPage(
  clickhouse: ClickHouse,
  { account, chain, fromN }: { account: string; chain: string; fromN: number },
): Promise<StoredBlock[]> {
  const heads = await clickhouse.query<{ n: number; count: number }>(
    `SELECT first_n AS n, count FROM audit_chain FINAL
     WHERE account_id = {account:String} AND chain = {chain:String} AND first_n >= {least:UInt64} AND first_n + count > {fromN:UInt64}
     ORDER BY first_n LIMIT ${PAGE_BLOCKS_MAX}`,
    { account, chain, fromN, least: Math.max(0, fromN - BLOCK_ENTRIES_MAX) },
  );
  let [entries, blocks] = [0, 0];
  while (blocks < heads.length && (blocks === 0 || entries + heads[blocks]!.count <= PAGE_ENTRIES_MAX))
    entries += heads[blocks++]!.count;
  if (blocks === 0) return [];
  const bytes = await clickhouse.queryBinary(
    `SELECT ${COLUMNS} FROM audit_chain FINAL WHERE account_id = {account:String} AND chain = {chain:String}
       AND first_n BETWEEN {firstN:UInt64} AND {lastN:UInt64} ORDER BY first_n`,
    { account, chain, firstN: heads[0]!.n, lastN: heads[blocks - 1]!.n },
  );
  return decode(bytes);
}

function decode(bytes: Buffer): StoredBlock[] {
  const reader = new RowBinaryReader(bytes);
  const blocks: StoredBlock[] = [];
  while (!reader.done) {
    const block = {
      account: reader.text(),
      chain: reader.text(),
      firstN: reader.int64(),
      count: reader.uint32(),
      previous: reader.fixed(HASH_BYTES),
      hash: reader.fixed(HASH_BYTES),
      fromMs: reader.int64(),
      lastMs: reader.int64(),
      leaves: reader.fixedArray(HASH_BYTES),
      agents: reader.fixedArray(ID_BYTES),
      ids: reader.fixedArray(ID_BYTES),
    };
    reader.int64();
    blocks.push(block);
  }
  return blocks;
}

/**
 * Takes the ids of an erased agent's entries out of the account's blocks, up to their times; the hashes stay. `agent`:
 * its 128 bits.
 */
export async function blankIds(clickhouse: ClickHouse, account: string, agent: Buffer): Promise<void> {
  const params = { account, agent: agent.toString('hex') };
  const [row] = await clickhouse.query<{ found: number }>(
    'SELECT count() AS found FROM audit_chain WHERE account_id = {account:String} AND has(agents, toFixedString(unhex({agent:String}), 16))',
    params,
  );
  if (row?.found === 0) return;
  await clickhouse.command(
    `ALTER TABLE audit_chain UPDATE ids = arrayMap((id, agent) -> if(agent = toFixedString(unhex({agent:String}), 16), toFixedString(concat(substring(id, 1, 6), repeat('\\0', 10)), 16), id), ids, agents)
     WHERE account_id = {account:String} AND has(agents, toFixedString(unhex({agent:String}), 16)) AND length(ids) = length(agents)`,
    params,
    { mutations_sync: '2' },
  );
}
