// Walks along one chain and checks that each block is tied to the one before it (the inner half of a verification).
// Blocks come in pages from wherever they are kept; the cursor recomputes every hash, and compares the hashes that
// are remembered elsewhere (the head kept in Redis, a checkpoint kept elsewhere) where it passes them.
// Invariant: what it says about a chain does not depend on the times or the hashes that a block claims for itself.
// What does not fit is reported, and the walk continues from what is there, so that the first of several faults can be
// named.
import { type ChainBlock, HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import { genesis, link, timeOfPacked } from './hash.ts';
import type { Violation } from './violations.ts';

export type ReadPage = (chain: string, fromN: number) => Promise<ChainBlock[]>;

/** A hash that the chain had after entry n, as remembered elsewhere. */
export type Remembered = { n: number; hash: Buffer /** Epoch ms. */; atMs: number };

type CursorOptions = {
  account: string;
  chain: string;
  readPage: ReadPage;
  remembered: readonly Remembered[];
  /** Begins behind this entry instead of at the chain's beginning. */
  start?: { n: number; hash: Buffer } | undefined;
  /** Contents that arrived before this may have expired; null: none may. */
  expiredBeforeMs: number | null;
  onFault: (fault: Violation) => void;
};

/**
 * For so long a chain's end is taken for its end: most chains of an account are short, and each question is a query.
 */
const END_KNOWN_MS = 1_000;

/** A block that was reached, with the time of its earliest entry by its ids. `isEmpty`: its contents have expired. */
export type Reached = { block: ChainBlock; fromMs: number; isEmpty: boolean };

export class ChainCursor {
  readonly chain: string;
  /** Number of the last entry that was reached, and the hash there. */
  n: number;
  hash: Buffer;
  readonly #options: CursorOptions;
  readonly #remembered: Remembered[];
  #page: ChainBlock[] = [];
  #next: Reached | null = null;
  /** Epoch ms of the latest entries that were reached. */
  lastMs = 0;
  /** Epoch ms: what lies behind this position was chained later than that. */
  #chainedAfterMs = 0;
  /** Monotonic ms at which the chain's end was met. */
  #endMetMs = Number.NEGATIVE_INFINITY;

  constructor(options: CursorOptions) {
    this.#options = options;
    this.chain = options.chain;
    this.n = options.start?.n ?? 0;
    this.hash = options.start?.hash ?? genesis(options.account, options.chain);
    this.#remembered = options.remembered.filter(({ n }) => n > this.n).sort((a, b) => a.n - b.n);
    for (const { n, atMs } of options.remembered) if (n <= this.n) this.#noteTime(atMs);
  }

  /** The next block, checked, without passing it; null: that was the last one for now. */
  async peek(): Promise<Reached | null> {
    if (this.#next !== null || performance.now() - this.#endMetMs < END_KNOWN_MS) return this.#next;
    this.#next = await this.#reach();
    if (this.#next === null) this.#endMetMs = performance.now();
    return this.#next;
  }

  /** There may be more by now. */
  goOn(): void {
    this.#endMetMs = Number.NEGATIVE_INFINITY;
  }

  async take(): Promise<Reached | null> {
    const reached = await this.peek();
    this.#next = null;
    return reached;
  }

  /** At the chain's end: if more entries are remembered than there are, entries are missing. */
  end(): void {
    const beyond = this.#remembered.find(({ n }) => n > this.n);
    if (beyond !== undefined) this.#fault('head_mismatch', this.n + 1, this.lastMs);
  }

  async #reach(): Promise<Reached | null> {
    for (;;) {
      if (this.#page.length === 0) this.#page = await this.#options.readPage(this.chain, this.n + 1);
      const block = this.#page.shift();
      if (block === undefined) return null;
      // A block that was copied meanwhile is read twice: once in Redis, once in ClickHouse.
      if (block.firstN + block.count - 1 > this.n) return this.#pass(block);
    }
  }

  #pass(given: ChainBlock): Reached {
    const block = this.#rest(given);
    const { firstN, count } = block;
    const isEmpty = isEmptyBlock(block);
    const fromMs = isEmpty ? this.lastMs : earliest(block.ids);
    const atMs = Number.isFinite(fromMs) ? fromMs : this.lastMs;
    if (firstN > this.n + 1) this.#fault('missing', this.n + 1, this.lastMs);
    else if (firstN < this.n + 1) this.#fault('chain_broken', firstN, atMs);
    const isTied = block.previous.equals(this.hash);
    const hash = isEmpty ? this.#passEmpty(block) : this.#recompute(block);
    if (firstN === this.n + 1 && !isTied) this.#fault(hash.equals(block.hash) ? 'moved' : 'chain_broken', firstN, atMs);
    else if (!hash.equals(block.hash)) this.#fault('chain_broken', firstN, atMs);
    this.n = firstN + count - 1;
    this.hash = hash;
    this.lastMs = Math.max(this.lastMs, atMs);
    return { block, fromMs: atMs, isEmpty };
  }

  /**
   * Gives the entries of a block behind this position. Such a block begins before the position and leads to it by its
   * own hashes: another process has written it again, longer, since its beginning was read, or two have copied the same
   * blocks at once. One that has expired cannot show the way.
   */
  #rest(block: ChainBlock): ChainBlock {
    const { firstN, count, leaves, agents, ids } = block;
    const known = this.n + 1 - firstN;
    if (known > 0 && isEmptyBlock(block))
      return { ...block, firstN: this.n + 1, count: count - known, previous: this.hash };
    if (known <= 0 || leaves.length !== count * HASH_BYTES || ids.length !== count * ID_BYTES) return block;
    let hash = block.previous;
    for (let i = 0; i < known; i++) hash = link(hash, firstN + i, block, i);
    if (!hash.equals(this.hash)) return block;
    return {
      ...{ ...block, firstN: this.n + 1, count: count - known, previous: hash },
      leaves: leaves.subarray(known * HASH_BYTES),
      agents: agents.subarray(known * ID_BYTES),
      ids: ids.subarray(known * ID_BYTES),
    };
  }

  /**
   * Nothing is left to be recomputed; it may be so only where it can have expired. What a block says of its own time is
   * not enough: blocks expire in the order in which they were chained, so nothing that lies behind a younger entry has
   * expired.
   */
  #passEmpty({ firstN, count, hash, lastMs }: ChainBlock): Buffer {
    const { expiredBeforeMs } = this.#options;
    const youngestMs = Math.max(lastMs, this.#chainedAfterMs);
    if (expiredBeforeMs === null || youngestMs >= expiredBeforeMs) this.#fault('missing', firstN, this.lastMs);
    const last = firstN + count - 1;
    while (this.#remembered[0] !== undefined && this.#remembered[0].n <= last) {
      const { n, hash: known, atMs } = this.#remembered.shift()!;
      const isWrong = n === last ? !known.equals(hash) : expiredBeforeMs === null || atMs >= expiredBeforeMs;
      if (isWrong) this.#fault('head_mismatch', n, this.lastMs);
      this.#noteTime(atMs);
    }
    return hash;
  }

  #recompute(block: ChainBlock): Buffer {
    const { firstN, count, leaves, agents, ids } = block;
    if (leaves.length !== count * HASH_BYTES || agents.length !== count * ID_BYTES || ids.length !== count * ID_BYTES) {
      this.#fault('chain_broken', firstN, this.lastMs);
      return block.hash;
    }
    let hash = block.previous;
    for (let i = 0; i < count; i++) {
      const n = firstN + i;
      hash = link(hash, n, block, i);
      this.#noteTime(timeOfPacked(ids.subarray(i * ID_BYTES)));
      while (this.#remembered[0] !== undefined && this.#remembered[0].n <= n) {
        const { n: known, hash: wanted, atMs } = this.#remembered.shift()!;
        this.#noteTime(atMs);
        if (known !== n || !wanted.equals(hash))
          this.#fault('head_mismatch', known, timeOfPacked(ids.subarray(i * ID_BYTES)));
      }
    }
    return hash;
  }

  #noteTime(atMs: number): void {
    if (atMs > this.#chainedAfterMs) this.#chainedAfterMs = atMs;
  }

  #fault(kind: Violation['kind'], position: number, atMs: number): void {
    this.#options.onFault({ chain: this.chain, position, kind, atMs });
  }
}

function isEmptyBlock({ leaves, agents, ids }: ChainBlock): boolean {
  return leaves.length === 0 && agents.length === 0 && ids.length === 0;
}

function earliest(ids: Buffer): number {
  let least = Number.POSITIVE_INFINITY;
  for (let at = 0; at + ID_BYTES <= ids.length; at += ID_BYTES) least = Math.min(least, ids.readUIntBE(at, 6));
  return least;
}
