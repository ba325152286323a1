// Where a verification reads from (below verify.ts): the two tables whose rows are chained, and the chains, which lie
// in ClickHouse but for their newest blocks, which wait in Redis.
// Order matters: heads first, then what waits, then ClickHouse. A block moves from Redis to ClickHouse, so read in this
// order none is overlooked, and the chain that is found is never shorter than the head says.
import type { KeyObject } from 'node:crypto';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { chainPage } from '../../clickhouse/queries/chain-blocks.ts';
import {
  eventRowsBetween,
  eventRowsById,
  type RecordedEntry,
  recordedBetween,
  recordedById,
  recordedOfAction,
} from '../../clickhouse/queries/chained-rows.ts';
import { CHAIN_FIELD, type ChainBlock, decodeBlocks } from '../../schemas/chain.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import type { Remembered } from './chain-cursor.ts';
import { cutEventRows } from './event-rows.ts';
import { type KeptNote, readGap } from './gap-note.ts';
import { auditLeaf, unpackId } from './hash.ts';
import type { RowSource, SeenRow } from './ledger.ts';

export type Stores = { redis: Commands; keys: Keys; clickhouse: ClickHouse };

/** Entries of a pending stream read at once: each holds at most a batch's blocks. */
const PENDING_AT_ONCE = 20;

/** The streams whose entries may be about this account. */
export function streamsOf(keys: Keys, account: string): string[] {
  const events = keys.ofPartitions(keys.events);
  return [...events, keys.journal(keys.shardOf(account))];
}

/** Heads of the account's chains, by chain, as Redis keeps them. */
export async function readHeads({ redis, keys }: Stores, account: string): Promise<Map<string, Remembered>> {
  const heads = new Map<string, Remembered>();
  await Promise.all(
    streamsOf(keys, account).map(async (stream) => {
      const text = await redis.hget(keys.chainHeads(stream), account);
      const [, n, hash] = /^([0-9]+):([0-9a-f]{64})$/.exec(text ?? '') ?? [];
      if (n !== undefined && hash !== undefined)
        heads.set(keys.chainOf(stream), { n: Number(n), hash: Buffer.from(hash, 'hex'), atMs: Date.now() });
    }),
  );
  return heads;
}

/** The blocks of an account's chains, in ClickHouse and behind it in Redis. */
export class Blocks {
  readonly #stores: Stores;
  readonly #account: string;
  #pending = new Map<string, ChainBlock[]>();

  constructor(stores: Stores, account: string) {
    this.#stores = stores;
    this.#account = account;
  }

  /** Takes what waits in Redis now. Before ClickHouse is asked. */
  async refresh(): Promise<void> {
    const { keys } = this.#stores;
    const pending = new Map<string, ChainBlock[]>();
    for (const stream of streamsOf(keys, this.#account)) pending.set(keys.chainOf(stream), await this.#waiting(stream));
    this.#pending = pending;
  }

  readonly readPage = async (chain: string, fromN: number): Promise<ChainBlock[]> => {
    const page = await chainPage(this.#stores.clickhouse, { account: this.#account, chain, fromN });
    if (page.length > 0) return page;
    return (this.#pending.get(chain) ?? []).filter(({ firstN, count }) => firstN + count > fromN);
  };

  async #waiting(stream: string): Promise<ChainBlock[]> {
    const found: ChainBlock[] = [];
    // Copies: a view would hold on to the blocks of all other accounts.
    for await (const block of waitingBlocks(this.#stores, stream))
      if (block.account === this.#account) found.push({ ...block, ...copied(block) });
    return found;
  }
}

/** Blocks of every account that wait in Redis, in order; views of what was read at once. */
export async function* waitingBlocks(
  { redis, keys }: Pick<Stores, 'redis' | 'keys'>,
  stream: string,
): AsyncGenerator<ChainBlock> {
  for (let from = '-'; ; ) {
    const entries = await redis.xrangeBuffer(keys.chainPending(stream), from, '+', 'COUNT', PENDING_AT_ONCE);
    for (const [, [field, bytes]] of entries) if (field?.toString() === CHAIN_FIELD) yield* decodeBlocks(bytes!);
    if (entries.length < PENDING_AT_ONCE) return;
    from = `(${entries.at(-1)![0].toString()}`;
  }
}

function copied({ previous, hash, leaves, agents, ids }: ChainBlock) {
  const copy = (bytes: Buffer) => Buffer.from(bytes);
  return { previous: copy(previous), hash: copy(hash), leaves: copy(leaves), agents: copy(agents), ids: copy(ids) };
}

export function eventSource(clickhouse: ClickHouse, account: string): RowSource {
  return {
    rows: (fromMs, toMs, onRow) =>
      eventRowsBetween(clickhouse, { account, fromMs, toMs }, (bytes) => cutEventRows(bytes, onRow)),
    byId: async (packed) => {
      const found: SeenRow[] = [];
      const ids = packed.map((one) => unpackId('event', one));
      await eventRowsById(clickhouse, account, ids, (bytes) => cutEventRows(bytes, (row) => found.push(row)));
      return found;
    },
  };
}

/** `trustedKey`: the one whose notes of closed gaps are believed. */
export function registrySource(clickhouse: ClickHouse, account: string, trustedKey?: KeyObject): RowSource {
  const seen = (entry: RecordedEntry) => seenEntry(entry, account, trustedKey);
  return {
    rows: (fromMs, toMs, onRow) =>
      recordedBetween(clickhouse, { account, fromMs, toMs }, (entry) => onRow(seen(entry))),
    byId: async (packed) => {
      const ids = packed.map((one) => unpackId('auditLog', one));
      return (await recordedById(clickhouse, account, ids)).map(seen);
    },
  };
}

/** The notes of closed gaps in the audit log, as far as the signatures are right. */
export async function keptNotes(
  clickhouse: ClickHouse,
  account: string,
  trustedKey: KeyObject | undefined,
): Promise<KeptNote[]> {
  const entries = await recordedOfAction(clickhouse, account, 'chain.gap_closed');
  return entries.flatMap((entry) => seenEntry(entry, account, trustedKey).closes ?? []);
}

function seenEntry(entry: RecordedEntry, account: string, trustedKey: KeyObject | undefined): SeenRow {
  const { id, action, resource_id, about_agent, createdMs } = entry;
  const row: SeenRow = { id, agent: about_agent, atMs: createdMs, leaf: auditLeaf(entry) };
  if (action === 'agent.deleted') row.deletes = resource_id;
  if (action === 'chain.recovered') {
    const { chain, entries } = JSON.parse(entry.details) as { chain: string; entries: number };
    row.recovers = { chain, entries, atMs: createdMs };
  }
  const note = action === 'chain.gap_closed' ? readGap(account, entry.details, trustedKey) : undefined;
  if (note !== undefined) row.closes = { ...note, entry: id };
  return row;
}
