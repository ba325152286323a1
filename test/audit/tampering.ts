// An audit trail in memory, and hands that tamper with it: what the tamperings of test and bench are made of.
// The rows and blocks are as the tables hold them; the verification is the service's own (src/audit/verify.ts), fed
// from memory instead of ClickHouse. Random, but from a seed: the same seed makes the same trail and the same hands.

import { type Chained, makeBlock } from '../../pipelines/store/chain.ts';
import { joinBlocks } from '../../pipelines/store/chain-flush.ts';
import { agentOf } from '../../schemas/audit-log.ts';
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import { type ChainBlock, HASH_BYTES, ID_BYTES } from '../../schemas/chain.ts';
import type { Remembered } from '../../src/audit/chain-cursor.ts';
import {
  type AuditFields,
  auditLeaf,
  eventLeaf,
  genesis,
  MARKER_TAG,
  packAgent,
  packId,
  packMarker,
  timeOfPacked,
} from '../../src/audit/hash.ts';
import type { RowSource, SeenRow } from '../../src/audit/ledger.ts';
import { REGISTRY_CHAIN, verifyChains } from '../../src/audit/verify.ts';
import { mintId } from '../../src/common/ids.ts';
import { randomFrom } from '../support/seed.ts';

/** A row of a table: what is hashed, and by what it is found. */
type Row = { id: string; agent: string; atMs: number; bytes: Buffer; entry?: AuditFields };
export type Trail = {
  account: string;
  /** By chain. */
  rows: Map<string, Row[]>;
  blocks: Map<string, ChainBlock[]>;
  /** The heads that were kept elsewhere, and those that Redis keeps. */
  checkpoint: Map<string, Remembered>;
  heads: Map<string, Remembered>;
};

export class Random {
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = randomFrom(seed);
  }

  /** 0 to below `count`. */
  below(count: number): number {
    return (this.#next() * count) | 0;
  }

  of<T>(some: readonly T[]): T {
    return some[this.below(some.length)]!;
  }
}

const EVENT_CHAINS = ['events-0', 'events-1', 'events-2'];
const START_MS = Date.parse('2026-11-01T00:00:00Z');

/** Three event chains and a registry, in blocks of a few entries, two of twelve agents erased. */
export function makeTrail(random: Random, size = 300): Trail {
  const account = mintId('account', START_MS - 1);
  const agents = Array.from({ length: 12 }, () => mintId('agent', START_MS));
  const trail: Trail = { account, rows: new Map(), blocks: new Map(), checkpoint: new Map(), heads: new Map() };
  for (const chain of [...EVENT_CHAINS, REGISTRY_CHAIN]) {
    const rows = chain === REGISTRY_CHAIN ? registryRows(random, agents) : eventRows(random, agents, chain, size / 3);
    trail.rows.set(chain, rows);
    makeChain(trail, chain, random);
    const last = trail.blocks.get(chain)!.at(-1)!;
    const head = { n: last.firstN + last.count - 1, hash: last.hash, atMs: Date.now() };
    trail.checkpoint.set(chain, head);
    trail.heads.set(chain, head);
  }
  for (const agent of agents.slice(0, 2)) erase(trail, agent);
  return trail;
}

function eventRows(random: Random, agents: readonly string[], chain: string, count: number): Row[] {
  const own = agents.filter((_, i) => `events-${i % EVENT_CHAINS.length}` === chain);
  return Array.from({ length: count }, (_, i) => {
    const atMs = START_MS + 1_000 + i * 700 + random.below(2_000);
    const id = mintId('event', atMs);
    return { id, agent: random.of(own), atMs, bytes: Buffer.from(`${id} says ${random.below(1e9)}`) };
  });
}

function registryRows(random: Random, agents: readonly string[]): Row[] {
  const make = (action: string, agent: string, i: number): Row => {
    const atMs = START_MS + 1_000 + i * 5_000 + random.below(3_000);
    const id = mintId('auditLog', atMs);
    const details = { name: `agent ${i}` };
    const entry = {
      id,
      action,
      actor: 'key:key_1',
      resource_type: 'agent',
      resource_id: agent,
      details: JSON.stringify(details),
      createdMs: atMs,
    };
    return { id, agent: agentOf(entry, details), atMs, bytes: Buffer.alloc(0), entry };
  };
  const registered = agents.map((agent, i) => make('agent.registered', agent, i));
  const updated = agents.map((agent, i) => make('agent.updated', agent, 20 + i));
  const deleted = agents.slice(0, 2).map((agent, i) => make('agent.deleted', agent, 40 + i));
  return [...registered, ...updated, ...deleted];
}

function leafOf(row: Row): Buffer {
  return row.entry === undefined ? eventLeaf(row.bytes) : auditLeaf(row.entry);
}

/** Makes the chain of these rows, as the store does: a marker, then batches, some of them joined. */
function makeChain(trail: Trail, chain: string, random: Random): void {
  const { account } = trail;
  const entries: Chained[] = trail.rows.get(chain)!.map((row) => {
    const agent = row.entry?.action === 'agent.deleted' ? '' : row.agent;
    return { account, id: packId(row.id), agent: packAgent(agent), leaf: leafOf(row), atMs: row.atMs };
  });
  entries.unshift({
    account,
    ...packMarker({ atMs: START_MS, fromMs: 0, toMs: 0 }),
    agent: MARKER_TAG,
    atMs: START_MS,
  });
  trail.blocks.set(chain, blocksOf(account, chain, entries, random));
}

function blocksOf(account: string, chain: string, entries: readonly Chained[], random: Random): ChainBlock[] {
  let head = { n: 0, hash: genesis(account, chain) };
  const blocks: ChainBlock[] = [];
  for (let i = 0; i < entries.length; ) {
    const some = entries.slice(i, i + 1 + random.below(20));
    i += some.length;
    const block = makeBlock(account, head, some);
    head = { n: block.firstN + block.count - 1, hash: block.hash };
    blocks.push(block);
  }
  const half = blocks.length >> 1;
  return [...joinBlocks(blocks.slice(0, half).map((block) => ({ ...block, chain }))), ...blocks.slice(half)];
}

/** As the service erases: the rows go, and of the ids all but the time. */
export function erase(trail: Trail, agent: string): void {
  const tag = packAgent(agent);
  for (const [chain, rows] of trail.rows)
    trail.rows.set(
      chain,
      rows.filter((row) => row.agent !== agent),
    );
  for (const block of [...trail.blocks.values()].flat()) {
    for (let i = 0; i < block.count; i++) {
      if (block.agents.subarray(i * ID_BYTES, (i + 1) * ID_BYTES).equals(tag))
        block.ids.fill(0, i * ID_BYTES + 6, (i + 1) * ID_BYTES);
    }
  }
}

type TrailOptions = {
  withCheckpoint?: boolean;
  /** As in an account that is older than the retention. */
  expiredBeforeMs?: number;
  settle?: () => Promise<boolean>;
};

export function verifyTrail(
  trail: Trail,
  { withCheckpoint = true, expiredBeforeMs, settle = async () => true }: TrailOptions = {},
  onRead: (chain: string) => void = () => undefined,
): Promise<AuditVerification> {
  const { account, rows, blocks, checkpoint, heads } = trail;
  const chains = [...new Set([...blocks.keys(), ...checkpoint.keys()])].sort();
  const ofEvents = () => [...rows].filter(([chain]) => chain !== REGISTRY_CHAIN).flatMap(([, some]) => some);
  const remembered = chains.map((chain) => {
    const known = [heads.get(chain), withCheckpoint ? checkpoint.get(chain) : undefined];
    return [chain, known.filter((one) => one !== undefined)] as const;
  });
  return verifyChains(
    {
      account,
      chains,
      readPage: async (chain, fromN) => {
        onRead(chain);
        const behind = (blocks.get(chain) ?? []).filter(({ firstN, count }) => firstN + count > fromN);
        return behind.sort((a, b) => a.firstN - b.firstN);
      },
      events: sourceOf(ofEvents),
      registry: sourceOf(() => rows.get(REGISTRY_CHAIN)!),
      chainOf: (row) => [...rows].find(([, some]) => some.some(({ id }) => id === row.id))?.[0] ?? 'events-0',
      remembered: new Map(remembered),
      startOf: async (chain) => ({ n: 0, hash: genesis(account, chain) }),
      settle,
    },
    {
      fromMs: 0,
      toMs: Number.POSITIVE_INFINITY,
      expiredBeforeMs: expiredBeforeMs ?? 0,
      mayHaveExpired: expiredBeforeMs !== undefined,
      mayBeGone: () => false,
      deadlineMs: Number.POSITIVE_INFINITY,
    },
  );
}

function sourceOf(rows: () => readonly Row[]): RowSource {
  const seen = (row: Row): SeenRow => {
    const { id, agent, atMs, entry } = row;
    const deletes = entry?.action === 'agent.deleted' ? { deletes: entry.resource_id } : {};
    return { id, agent, atMs, leaf: leafOf(row), ...deletes };
  };
  return {
    rows: async (fromMs, toMs, onRow) => {
      for (const row of rows()) if (row.atMs >= fromMs && row.atMs < toMs) onRow(seen(row));
    },
    byId: async (ids) =>
      rows()
        .filter(({ id }) => ids.some((packed) => packed.equals(packId(id))))
        .map(seen),
  };
}

// -- hands

type Hand = (trail: Trail, random: Random) => void;

const chainsOf = (trail: Trail) => [...trail.rows.keys()];

function editRow(trail: Trail, random: Random): void {
  const row = random.of(trail.rows.get(random.of(chainsOf(trail)))!);
  if (row.entry === undefined) {
    const at = random.below(row.bytes.length);
    row.bytes[at] = row.bytes[at]! ^ (1 << random.below(8));
  } else {
    const field = random.of(['action', 'actor', 'resource_id', 'details'] as const);
    row.entry[field] += 'x';
  }
}

function deleteRow(trail: Trail, random: Random): void {
  const rows = trail.rows.get(random.of(chainsOf(trail)))!;
  rows.splice(random.below(rows.length), 1 + random.below(3));
}

function swapRows(trail: Trail, random: Random): void {
  const rows = trail.rows.get(random.of(EVENT_CHAINS))!;
  const i = random.below(rows.length);
  const [a, b] = [rows[i]!, rows[(i + 1 + random.below(rows.length - 1)) % rows.length]!];
  [a.bytes, b.bytes] = [b.bytes, a.bytes];
}

function insertRow(trail: Trail, random: Random): void {
  const rows = trail.rows.get(random.of(chainsOf(trail)))!;
  const like = random.of(rows);
  const atMs = like.atMs + random.below(1_000);
  const id = random.below(4) === 0 ? like.id : mintId(like.entry === undefined ? 'event' : 'auditLog', atMs);
  const bytes = Buffer.concat([like.bytes, Buffer.from('!')]);
  const entry = like.entry === undefined ? {} : { entry: { ...like.entry, id, createdMs: atMs } };
  rows.splice(random.below(rows.length), 0, { ...like, id, atMs, bytes, ...entry });
}

/** Blocks and rows from some place on, and what Redis remembers with them. */
function cutTail(trail: Trail, random: Random): void {
  const chain = random.of(chainsOf(trail));
  const blocks = trail.blocks.get(chain)!;
  const left = random.below(blocks.length);
  const gone = blocks.splice(left);
  const ids = new Set(gone.flatMap(({ ids }) => pieces(ids, ID_BYTES)));
  trail.rows.set(
    chain,
    trail.rows.get(chain)!.filter(({ id }) => !ids.has(packId(id).toString('latin1'))),
  );
  rememberEnd(trail, chain);
}

function deleteBlock(trail: Trail, random: Random): void {
  const blocks = trail.blocks.get(random.of(chainsOf(trail)))!;
  blocks.splice(random.below(blocks.length), 1);
}

function swapBlocks(trail: Trail, random: Random): void {
  const blocks = trail.blocks.get(random.of(chainsOf(trail)))!;
  const i = random.below(blocks.length);
  const j = (i + 1 + random.below(blocks.length - 1)) % blocks.length;
  const [a, b] = [blocks[i]!, blocks[j]!];
  blocks[i] = { ...b, firstN: a.firstN };
  blocks[j] = { ...a, firstN: b.firstN };
}

function editBlock(trail: Trail, random: Random): void {
  const block = random.of(trail.blocks.get(random.of(chainsOf(trail)))!);
  const bytes = random.of([block.leaves, block.agents, block.hash, block.previous]);
  const at = random.below(bytes.length);
  bytes[at] = bytes[at]! ^ (1 << random.below(8));
}

/** Two entries of a block change places, with all that belongs to them. */
function swapEntries(trail: Trail, random: Random): void {
  const wide = [...trail.blocks.values()].flat().filter(({ count }) => count > 1);
  const block = random.of(wide);
  const i = random.below(block.count);
  const j = (i + 1 + random.below(block.count - 1)) % block.count;
  for (const [bytes, size] of [
    [block.leaves, HASH_BYTES],
    [block.agents, ID_BYTES],
    [block.ids, ID_BYTES],
  ] as const) {
    const one = Buffer.from(bytes.subarray(i * size, (i + 1) * size));
    bytes.copy(bytes, i * size, j * size, (j + 1) * size);
    one.copy(bytes, j * size);
  }
}

/** A living agent's entry is given out as an erased one's. */
function pretendErasure(trail: Trail, random: Random): void {
  const chain = random.of(EVENT_CHAINS);
  const rows = trail.rows.get(chain)!;
  const [row] = rows.splice(random.below(rows.length), 1);
  const [erased] = trail.rows.get(REGISTRY_CHAIN)!.filter(({ entry }) => entry?.action === 'agent.deleted');
  for (const block of trail.blocks.get(chain)!) {
    const i = pieces(block.ids, ID_BYTES).indexOf(packId(row!.id).toString('latin1'));
    if (i < 0) continue;
    packAgent(erased!.entry!.resource_id).copy(block.agents, i * ID_BYTES);
    block.ids.fill(0, i * ID_BYTES + 6, (i + 1) * ID_BYTES);
  }
}

/**
 * An attacker who can write everything but the checkpoint: a row changed, removed or added, and the chain made again
 * around it, with Redis's head: without the checkpoint it cannot be found.
 */
export function rewrite(trail: Trail, random: Random): void {
  const chain = random.of(EVENT_CHAINS);
  const rows = trail.rows.get(chain)!;
  const entries = entriesOf(trail, chain);
  const i = random.below(rows.length);
  const row = rows[i]!;
  const at = entries.findIndex(({ id }) => id.equals(packId(row.id)));
  const what = random.below(4);
  if (what === 0) {
    rows.splice(i, 1);
    entries.splice(at, 1);
  } else if (what === 1) {
    row.bytes = Buffer.concat([row.bytes, Buffer.from('!')]);
    entries[at]!.leaf = leafOf(row);
  } else if (what === 2) {
    const added = { ...row, id: mintId('event', row.atMs), bytes: Buffer.from('never happened') };
    rows.push(added);
    entries.splice(at, 0, { ...entries[at]!, id: packId(added.id), leaf: leafOf(added) });
  } else {
    const other = at === 1 ? 2 : at - 1;
    [entries[at], entries[other]] = [entries[other]!, entries[at]!];
  }
  trail.blocks.set(chain, blocksOf(trail.account, chain, entries, random));
  rememberEnd(trail, chain);
}

/** As they lie in the blocks. */
type Packed = Extract<Chained, { leaf: Buffer }> & { id: Buffer };

function entriesOf(trail: Trail, chain: string): Packed[] {
  return trail.blocks.get(chain)!.flatMap(({ account, count, leaves, agents, ids }) =>
    Array.from({ length: count }, (_, i) => {
      const id = Buffer.from(ids.subarray(i * ID_BYTES, (i + 1) * ID_BYTES));
      const agent = Buffer.from(agents.subarray(i * ID_BYTES, (i + 1) * ID_BYTES));
      return {
        account,
        id,
        agent,
        leaf: Buffer.from(leaves.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES)),
        atMs: timeOfPacked(id),
      };
    }),
  );
}

function rememberEnd(trail: Trail, chain: string): void {
  const last = trail.blocks.get(chain)!.at(-1);
  if (last === undefined) trail.heads.delete(chain);
  else trail.heads.set(chain, { n: last.firstN + last.count - 1, hash: last.hash, atMs: Date.now() });
}

function pieces(bytes: Buffer, size: number): string[] {
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.toString('latin1', i * size, (i + 1) * size));
}

export const HANDS: Record<string, Hand> = {
  'edit a row': editRow,
  'delete rows': deleteRow,
  'swap rows': swapRows,
  'insert a row': insertRow,
  'cut the tail': cutTail,
  'delete a block': deleteBlock,
  'swap blocks': swapBlocks,
  'edit a block': editBlock,
  'swap entries': swapEntries,
  'pretend an erasure': pretendErasure,
  'rewrite with a re-made chain': rewrite,
};
