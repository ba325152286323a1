// What crosses a process border on the chains' pending streams: blocks of the audit chain on their way from Redis to
// ClickHouse. The store pipelines add blocks with the acknowledgement of each batch; the flusher copies them into table
// `audit_chain`; verification reads both places. Packed bytes, since there is one leaf an event.
// A block whose lengths do not add up throws ChainFormatError.

/** The single field of a pending entry: blocks of one batch, one behind the other. */
export const CHAIN_FIELD = 'b';

/** Bytes of a hash, and of an id or an agent without its prefix. */
export const HASH_BYTES = 32;
export const ID_BYTES = 16;
/** Head of a packed block: length of the account, first number, count, two times, two hashes. */
const HEAD_BYTES = 2 + 6 + 4 + 6 + 6 + 2 * HASH_BYTES;

/** Consecutive entries of one chain. The last three hold one piece for each entry; empty: expired. */
export type ChainBlock = {
  account: string;
  /** Number of the first entry, from 1. */
  firstN: number;
  count: number;
  /** Epoch ms at which the earliest and the latest of the entries arrived. */
  fromMs: number;
  lastMs: number;
  /** The chain's hash before and after. */
  previous: Buffer;
  hash: Buffer;
  leaves: Buffer;
  agents: Buffer;
  ids: Buffer;
};

class ChainFormatError extends Error {
  override name = 'ChainFormatError';
}

export function encodeBlocks(blocks: readonly ChainBlock[]): Buffer {
  return Buffer.concat(blocks.flatMap((block) => [headOf(block), block.leaves, block.agents, block.ids]));
}

function headOf(block: ChainBlock): Buffer {
  const account = Buffer.from(block.account);
  const head = Buffer.alloc(HEAD_BYTES + account.length);
  head.writeUInt16BE(account.length, 0);
  account.copy(head, 2);
  let at = 2 + account.length;
  at = head.writeUIntBE(block.firstN, at, 6);
  at = head.writeUInt32BE(block.count, at);
  at = head.writeUIntBE(block.fromMs, at, 6);
  at = head.writeUIntBE(block.lastMs, at, 6);
  block.previous.copy(head, at);
  block.hash.copy(head, at + HASH_BYTES);
  return head;
}

/** The packed pieces are views of `bytes`. */
export function decodeBlocks(bytes: Buffer): ChainBlock[] {
  const blocks: ChainBlock[] = [];
  let at = 0;
  const take = (length: number) => {
    if (at + length > bytes.length) throw new ChainFormatError('a block of the audit chain is cut short');
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const account = take(take(2).readUInt16BE(0)).toString();
    const firstN = take(6).readUIntBE(0, 6);
    const count = take(4).readUInt32BE(0);
    const fromMs = take(6).readUIntBE(0, 6);
    const lastMs = take(6).readUIntBE(0, 6);
    const [previous, hash] = [take(HASH_BYTES), take(HASH_BYTES)];
    const [leaves, agents, ids] = [take(count * HASH_BYTES), take(count * ID_BYTES), take(count * ID_BYTES)];
    blocks.push({ account, firstN, count, fromMs, lastMs, previous, hash, leaves, agents, ids });
  }
  return blocks;
}
