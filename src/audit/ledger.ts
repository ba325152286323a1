// Compares a table's rows with the chains that were made of them (the outer half of a verification): each chained entry
// must have its row, unchanged, and each row its entry.
//
// Works in windows of arrival time, over all chains of a kind at once: leaves are taken off the chains until a window
// is full, the window's rows are read and hashed as they come, and what is left over on either side is kept for later:
// a row may come before its leaf (a retried entry is chained long after it arrived).
// Invariant: memory is bounded by a window, and by how much is wrong; past those bounds it stops and says where.
// An entry whose contents have expired in the chain is not compared; one whose row the retention may have taken is no
// fault where the row is gone.
import { type ChainBlock, HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import type { ChainCursor, Reached } from './chain-cursor.ts';
import type { KeptNote, NotedRange, NotedRanges } from './gap-note.ts';
import { isBlank, MARKER_TAG, type Marker, markerLeaf, packId, timeOfPacked, unpackMarker } from './hash.ts';
import type { Violations } from './violations.ts';

/** A row as it is now. */
export type SeenRow = {
  id: string;
  agent: string;
  atMs: number;
  leaf: Buffer;
  /** The agent whose deletion this entry records. */
  deletes?: string;
  recovers?: Recovery;
  /** It is a note that closes a gap, and its signature is right. */
  closes?: KeptNote;
};

/** The entries that were chained later than they were stored, as an entry of the audit log says (`chain.recovered`). */
export type Recovery = { chain: string; entries: number; atMs: number };

/** The table. Times: from inclusive, to exclusive. */
export type RowSource = {
  rows(fromMs: number, toMs: number, onRow: (row: SeenRow) => void): Promise<void>;
  /** Wherever they are. `id`: packed. */
  byId(ids: readonly Buffer[]): Promise<SeenRow[]>;
};

type LedgerOptions = {
  cursors: readonly ChainCursor[];
  source: RowSource;
  fromMs: number;
  toMs: number;
  /** The chain holds nothing any more of what arrived before this. */
  expiredBeforeMs: number;
  /** May the retention have taken such a row? `agent`: 16 bytes as a key. */
  mayBeGone: (atMs: number, agent: string) => boolean;
  faults: Violations;
  /** Monotonic ms at which it stops at the next window. */
  deadlineMs: number;
  notes: NotedRanges;
  /** Hears of each entry without a row that no note covers; some are found, or erased, after all. */
  onMissing?: ((missing: Missing) => void) | undefined;
};

/** An entry without a row. */
export type Missing = { chain: string; n: number; agent: string; atMs: number };
type Expected = { chain: string; n: number; leaf: Buffer; agent: string; atMs: number; packed: Buffer };
/** Entries of one agent without a row. `noted`: of those that a note covers, how many, and one of them. */
type Gap = { count: number; kept: Expected[]; noted: Map<NotedRange, { count: number; first: Expected }> };

/** Leaves of a window: its rows are read in one or a few queries. */
const WINDOW_ENTRIES = 8_192;
/** Leaves held, whatever the chains say about their times. */
const EXPECTED_MAX = 400_000;
const STRAYS_MAX = 100_000;
const GAPS_MAX = 100_000;
/** So many of an agent's missing entries are inspected one by one. */
const GAP_KEPT_MAX = 200;

export class Ledger {
  /** Chained entries that were inspected, markers not among them. */
  entries = 0;
  /** How many of these have rows as they were chained. */
  intact = 0;
  /** How many of these are past the retention. */
  expired = 0;
  /** Markers that were met. */
  marked = 0;
  /** Agents, packed, whose deletion is on record. */
  readonly deleted = new Set<string>();
  /** The recoveries whose entries are as they were chained. */
  readonly recoveries: Recovery[] = [];
  /** The notes whose entries are as they were chained. */
  readonly closings: KeptNote[] = [];
  /** Rows without an entry so far, by packed id. */
  readonly strays = new Map<string, SeenRow>();
  /** Entries without a row, by packed agent; blank ones have no id any more. */
  readonly gaps = new Map<string, Gap>();
  readonly blanks = new Map<string, Gap>();
  readonly markers = new Map<string, Marker[]>();
  /** Where it stopped, if it did. */
  stoppedAtMs: number | null = null;
  readonly cursors: readonly ChainCursor[];
  readonly #options: LedgerOptions;
  readonly #expected = new Map<string, Expected>();
  /** Everything that arrived before this has been compared. */
  #comparedMs: number;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.cursors = options.cursors;
    this.#comparedMs = Math.max(options.fromMs, options.expiredBeforeMs);
  }

  async run(): Promise<void> {
    const { toMs, deadlineMs, source } = this.#options;
    while (this.#comparedMs < toMs) {
      const tooMuch = this.strays.size > STRAYS_MAX || this.gaps.size > GAPS_MAX || this.#expected.size > EXPECTED_MAX;
      if (tooMuch || performance.now() > deadlineMs) {
        this.stoppedAtMs = this.#comparedMs;
        return;
      }
      const endMs = await this.#fill();
      await source.rows(this.#comparedMs, endMs, (row) => this.#see(row));
      this.#settle(endMs);
      this.#comparedMs = endMs;
    }
  }

  /** Searches for the strays' leaves in what the chains hold by now. Other entries are newer than the comparison. */
  async catchUp(): Promise<void> {
    for (const cursor of this.cursors) {
      cursor.goOn();
      for (let reached = await cursor.take(); reached !== null; reached = await cursor.take())
        this.#takeStrays(cursor.chain, reached.block);
    }
  }

  /** Looks again for the rows of entries that had none: by id, wherever they are now. */
  async lookAgain(isErased: (agent: string) => boolean): Promise<void> {
    const { source, faults } = this.#options;
    for (const [agent, gap] of this.gaps) {
      if (isErased(agent)) continue;
      const found = new Map(
        (await source.byId(gap.kept.map(({ packed }) => packed))).map((row) => [keyOf(packId(row.id)), row]),
      );
      for (const one of gap.kept) {
        const row = found.get(keyOf(one.packed));
        if (row === undefined) continue;
        gap.count--;
        gap.kept = gap.kept.filter((other) => other !== one);
        this.strays.delete(keyOf(one.packed));
        if (row.leaf.equals(one.leaf)) this.intact++;
        else faults.add({ chain: one.chain, position: one.n, kind: 'changed', atMs: one.atMs, id: row.id });
      }
      if (gap.count === 0 && gap.noted.size === 0) this.gaps.delete(agent);
    }
  }

  /**
   * Drops strays whose rows are gone: an erasure that ended since they were seen has removed them, and has taken their
   * ids out of the blocks before the chains were caught up with. It removes rows before ids, so a row that is there now
   * has its id in its chain.
   */
  async forgetErased(): Promise<void> {
    const ids = [...this.strays.values()].map(({ id }) => packId(id));
    const there = new Set((await this.#options.source.byId(ids)).map(({ id }) => id));
    for (const [key, { id }] of this.strays) if (!there.has(id)) this.strays.delete(key);
  }

  /** Pulls blocks until the window is full. Returns where it ends. */
  async #fill(): Promise<number> {
    const { toMs, deadlineMs } = this.#options;
    for (;;) {
      const next = await this.#earliest();
      if (next === null || next.reached.fromMs >= toMs) return toMs;
      // Nothing of what has expired fills the window, and there may be years of it: the next page begins behind it.
      if (next.reached.isEmpty && performance.now() > deadlineMs) return this.#comparedMs;
      if (this.#expected.size >= WINDOW_ENTRIES && next.reached.fromMs > this.#comparedMs) return next.reached.fromMs;
      if (this.#expected.size > EXPECTED_MAX) return this.#comparedMs + 1;
      await next.cursor.take();
      this.#take(next.cursor, next.reached);
    }
  }

  async #earliest(): Promise<{ cursor: ChainCursor; reached: Reached } | null> {
    let first: { cursor: ChainCursor; reached: Reached } | null = null;
    for (const cursor of this.cursors) {
      const reached = await cursor.peek();
      if (reached !== null && (first === null || reached.fromMs < first.reached.fromMs)) first = { cursor, reached };
    }
    return first;
  }

  #take(cursor: ChainCursor, { block, isEmpty }: Reached): void {
    if (isEmpty) {
      this.entries += block.count;
      this.expired += block.count;
      return;
    }
    const count = Math.min(
      block.leaves.length / HASH_BYTES,
      block.agents.length / ID_BYTES,
      block.ids.length / ID_BYTES,
    );
    for (let i = 0; i < count; i++) this.#expect(cursor.chain, block, i);
  }

  #takeStrays(chain: string, block: ChainBlock): void {
    for (let i = 0; i < block.ids.length / ID_BYTES; i++) {
      if (this.strays.has(keyOf(block.ids.subarray(i * ID_BYTES, (i + 1) * ID_BYTES)))) this.#expect(chain, block, i);
    }
  }

  #expect(chain: string, block: ChainBlock, i: number): void {
    const packed = block.ids.subarray(i * ID_BYTES, (i + 1) * ID_BYTES);
    const tag = block.agents.subarray(i * ID_BYTES, (i + 1) * ID_BYTES);
    const leaf = block.leaves.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES);
    const atMs = timeOfPacked(packed);
    const n = block.firstN + i;
    if (tag.equals(MARKER_TAG)) {
      this.#mark(chain, { n, packed, leaf, atMs });
      return;
    }
    const { fromMs, toMs, expiredBeforeMs } = this.#options;
    if (atMs < fromMs || atMs >= toMs) return;
    this.entries++;
    if (atMs < expiredBeforeMs) {
      this.expired++;
      return;
    }
    const expected = { chain, n, leaf, agent: keyOf(tag), atMs, packed };
    const stray = this.strays.get(keyOf(packed));
    if (isBlank(packed)) this.#addTo(this.blanks, expected);
    else if (stray !== undefined) {
      this.strays.delete(keyOf(packed));
      this.#match(expected, stray);
    } else if (atMs < this.#comparedMs) this.#addTo(this.gaps, expected);
    else this.#expected.set(keyOf(packed), expected);
  }

  #mark(chain: string, { n, packed, leaf, atMs }: { n: number; packed: Buffer; leaf: Buffer; atMs: number }): void {
    this.marked++;
    if (!markerLeaf(packed).equals(leaf)) this.#options.faults.add({ chain, position: n, kind: 'chain_broken', atMs });
    const markers = this.markers.get(chain) ?? [];
    this.markers.set(chain, [...markers, unpackMarker(packed)]);
  }

  #see(row: SeenRow): void {
    const key = keyOf(packId(row.id));
    const expected = this.#expected.get(key);
    if (expected === undefined) {
      // The second row of an id must not take the first one's place.
      this.strays.set(this.strays.has(key) ? `${key}${this.strays.size}` : key, row);
      return;
    }
    this.#expected.delete(key);
    this.#match(expected, row);
  }

  #match(expected: Expected, row: SeenRow): void {
    const { chain, n, leaf, atMs } = expected;
    if (!row.leaf.equals(leaf)) {
      this.#options.faults.add({ chain, position: n, kind: 'changed', atMs, id: row.id });
      return;
    }
    this.intact++;
    if (row.recovers !== undefined) this.recoveries.push(row.recovers);
    if (row.closes !== undefined) this.closings.push(row.closes);
    if (row.deletes !== undefined) this.deleted.add(keyOf(packId(row.deletes)));
  }

  /** Settles the entries that arrived before `endMs`: one that has no row by now has none. */
  #settle(endMs: number): void {
    for (const [key, expected] of this.#expected) {
      if (expected.atMs >= endMs) continue;
      this.#expected.delete(key);
      this.#addTo(this.gaps, expected);
    }
  }

  #addTo(gaps: Map<string, Gap>, expected: Expected): void {
    const { chain, n, agent, atMs, leaf, packed } = expected;
    if (this.#options.mayBeGone(atMs, agent)) {
      this.expired++;
      return;
    }
    const gap: Gap = gaps.get(agent) ?? { count: 0, kept: [], noted: new Map() };
    gaps.set(agent, gap);
    // A copy: a view would hold on to its whole page, and gaps are kept to the end.
    const copy = () => ({ ...expected, leaf: Buffer.from(leaf), packed: Buffer.from(packed) });
    const range = this.#options.notes.find(chain, n);
    if (range !== undefined) {
      const same = gap.noted.get(range);
      if (same === undefined) gap.noted.set(range, { count: 1, first: copy() });
      else same.count++;
      return;
    }
    gap.count++;
    if (gap.kept.length < GAP_KEPT_MAX) gap.kept.push(copy());
    this.#options.onMissing?.({ chain, n, agent, atMs });
  }
}

/** Gives the keys of ids that lie one behind the other. */
export function* keysOf(packed: Buffer): Generator<string> {
  for (let at = 0; at + ID_BYTES <= packed.length; at += ID_BYTES) yield keyOf(packed.subarray(at, at + ID_BYTES));
}

/** 16 bytes as a key of a Map. */
export function keyOf(packed: Buffer): string {
  return packed.toString('latin1');
}
