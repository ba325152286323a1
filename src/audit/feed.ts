// The feed (under GET /v1/feed and outgoing feeds; docs/feed.md): what was committed behind a place, each row at least
// once. Beside the live stream, which is quicker and for people.
// Its order is that of the audit chains: an entry has its number once its row is stored, so what is stored late or by a
// process that takes over comes late, and none is passed over. An event's anomalies come with it, once the detectors
// have seen all that it stands behind; approvals and deliveries come by the revision that made them so.
// Invariant: a place moves only behind what was handed out, or is gone (erased, past the retention). A chain that has a
// hole is damaged: the hole is handed out as `gap`.
// Failure: a store or a pipeline that is behind: nothing comes, and the place stays.
import type { ClickHouse } from '../../clickhouse/client.ts';
import { changedApprovals, changedDeliveries, newestRevision } from '../../clickhouse/queries/arrivals.ts';
import { auditedByKey, type EventKey, renderListed, rowsByKey } from '../../clickhouse/queries/event-rows.ts';
import {
  type BlockHead,
  blocksBehind,
  type ChainPlace,
  type ChainSlice,
  chainedIds,
  chainPlaces,
  feedAnomalies,
  feedEventKeys,
  feedRecordedRows,
  nextBlocks,
} from '../../clickhouse/queries/feed-entries.ts';
import { decidedEntry, recordedEntry, submittedEntry } from '../../clickhouse/queries/list-audit-logs.ts';
import type { FeedTopic, PayloadMode } from '../../schemas/closed-sets.ts';
import type { FeedPlace } from '../../schemas/feed.ts';
import { exactJson } from '../common/exact-json.ts';
import { PAGE_BYTES_MAX } from '../common/limits.ts';
import type { Keys } from '../redis/keys.ts';
import { isBlank, unpackId } from './hash.ts';
import { REGISTRY_CHAIN } from './verify.ts';

export type FeedItem = { topic: FeedTopic | 'gap'; text: string };
/** `isHeldUp`: what is behind the place waits for pipelines that are behind themselves. */
export type FeedPage = { items: FeedItem[]; place: FeedPlace; hasMore: boolean; isHeldUp?: boolean };

export type FeedQuestion = {
  account: string;
  topics: readonly FeedTopic[];
  payload: PayloadMode;
  /** false: the audit log without `event.submitted`. */
  submissions: boolean;
  /** How many entries of the chains a page has, about, and how many changes of approvals and deliveries. */
  limit: number;
  /** A page has about so many bytes. Left out: PAGE_BYTES_MAX. */
  bytesMax?: number;
};

/** Resolve with false where it was not in time. */
type FeedBarrier = {
  waitForAnomalies(account: string, agent: string | null): Promise<boolean>;
  waitForJournal(account: string): Promise<boolean>;
};

type FeedParts = {
  clickhouse: ClickHouse;
  keys: Keys;
  barrier: FeedBarrier;
  /** Agents whose rows are on their way out. */
  erasing: (account: string) => Promise<readonly string[]>;
};

/** `id`: null where what it held has expired. */
type FeedEntry = { index: number; n: number; id: string | null };
type FeedGap = { chain: string; from: number; to: number };

/** The place is of a later state than what is stored: a backup was restored. */
export class FeedAhead extends Error {
  override name = 'FeedAhead';
}

export class Feed {
  readonly #parts: FeedParts;
  /** As an index of FeedPlace.chains has them. */
  readonly #chains: readonly string[];

  constructor(parts: FeedParts) {
    this.#parts = parts;
    const { keys } = parts;
    const events = keys.ofPartitions((partition) => keys.chainOf(keys.events(partition)));
    this.#chains = [REGISTRY_CHAIN, ...events];
  }

  /** How many chains a place has. */
  get chains(): number {
    return this.#chains.length;
  }

  /** The place behind all that is committed now. */
  async begin({ account, topics }: FeedQuestion): Promise<FeedPlace> {
    const { clickhouse } = this.#parts;
    const revisionOf = (topic: 'approvals' | 'deliveries') =>
      topics.includes(topic) ? newestRevision(clickhouse, account, topic) : 0;
    const [ends, approvals, deliveries] = await Promise.all([
      chainPlaces(clickhouse, account),
      revisionOf('approvals'),
      revisionOf('deliveries'),
    ]);
    const endOf = new Map(ends.map(({ chain, n }) => [chain, n]));
    const followed = this.#followed(topics);
    return { approvals, deliveries, chains: this.#chains.map((chain, i) => (followed(i) && endOf.get(chain)) || 0) };
  }

  /** The page of entries and changes behind the place. Throws FeedAhead. */
  async page(question: FeedQuestion, place: FeedPlace): Promise<FeedPage> {
    const chained = await this.#chained(question, place);
    const changes = await this.#changes(question, place);
    return {
      items: [...chained.items, ...changes.items],
      place: { ...changes.place, chains: chained.chains },
      hasMore: chained.hasMore || changes.hasMore,
      isHeldUp: chained.isHeldUp || changes.isHeldUp,
    };
  }

  #followed(topics: readonly FeedTopic[]): (index: number) => boolean {
    const ofEvents = topics.some((topic) => topic === 'audit_log' || topic === 'events' || topic === 'anomalies');
    return (index) => (index === 0 ? topics.includes('audit_log') : ofEvents);
  }

  async #chained(question: FeedQuestion, { chains }: FeedPlace) {
    const { clickhouse, barrier } = this.#parts;
    const { account, topics, limit } = question;
    const followed = this.#followed(topics);
    const places = this.#chains.map((chain, i) => ({ chain, n: chains[i]! })).filter((_, i) => followed(i));
    if (places.length === 0) return { items: [], chains, hasMore: false, isHeldUp: false };
    const blocks = await blocksBehind(clickhouse, account, { places, reach: limit });
    const ends = new Map(places.map((at) => [at.chain, endBehind(at, blocks)]));
    const fresh = places.filter(({ chain, n }) => ends.get(chain)! > n);
    const gaps = await this.#gaps(
      account,
      places.filter(({ chain, n }) => ends.get(chain) === n),
    );
    const still = { chains: this.#behindGaps(chains, gaps), hasMore: false, isHeldUp: false };
    if (fresh.length === 0) return { items: gaps.map(gapItem), ...still };
    const share = Math.ceil(limit / fresh.length);
    const slices = fresh.map(({ chain, n }) => ({ chain, from: n + 1, to: Math.min(n + share, ends.get(chain)!) }));
    const entries = await this.#entries(account, slices);
    // All that stands in a chain was in its stream before; so once the detectors have seen the streams up to their
    // ends, the anomalies of these entries are stored.
    if (topics.includes('anomalies') && !(await barrier.waitForAnomalies(account, null)))
      return { items: [], chains, hasMore: false, isHeldUp: true };
    const { items, taken } = await this.#items(question, entries);
    const moved = [...this.#behindGaps(chains, gaps)];
    for (const { index, n } of entries.slice(0, taken)) moved[index] = n;
    const hasMore = taken < entries.length || slices.some(({ chain, to }) => to < ends.get(chain)!);
    return { items: [...gaps.map(gapItem), ...items], chains: moved, hasMore, isHeldUp: false };
  }

  async #entries(account: string, slices: readonly ChainSlice[]): Promise<FeedEntry[]> {
    const ids = await chainedIds(this.#parts.clickhouse, account, slices);
    return slices.flatMap(({ chain, from, to }) => {
      const index = this.#chains.indexOf(chain);
      const kind = index === 0 ? 'auditLog' : 'event';
      const entries: FeedEntry[] = [];
      for (let n = from; n <= to; n++) {
        const packed = ids.get(chain)?.get(n);
        // Only what was answered is passed over: an entry whose block did not come is read again.
        if (packed === undefined) break;
        entries.push({ index, n, id: packed.length === 0 || isBlank(packed) ? null : unpackId(kind, packed) });
      }
      return entries;
    });
  }

  /** Numbers that no block has, of chains that go on behind them. */
  async #gaps(account: string, still: readonly ChainPlace[]): Promise<FeedGap[]> {
    if (still.length === 0) return [];
    const { clickhouse } = this.#parts;
    const next = new Map((await nextBlocks(clickhouse, account, still)).map(({ chain, n }) => [chain, n]));
    const places = still.filter(({ chain, n }) => (next.get(chain) ?? 0) > n + 1);
    if (places.length === 0) return [];
    // What came since it was looked for is no hole: a block comes behind all blocks before it.
    const blocks = await blocksBehind(clickhouse, account, { places, reach: 1 });
    const torn = places.filter((at) => endBehind(at, blocks) === at.n);
    return torn.map(({ chain, n }) => ({ chain, from: n + 1, to: next.get(chain)! - 1 }));
  }

  #behindGaps(chains: readonly number[], gaps: readonly FeedGap[]): readonly number[] {
    const behind = new Map(gaps.map(({ chain, to }) => [chain, to]));
    return chains.map((n, i) => behind.get(this.#chains[i]!) ?? n);
  }

  /** `taken`: of so many entries; a page holds its bytes, and one entry in any case. */
  async #items(question: FeedQuestion, entries: readonly FeedEntry[]): Promise<{ items: FeedItem[]; taken: number }> {
    const { of, taken: most } = await this.#rows(question, entries);
    const { bytesMax = PAGE_BYTES_MAX } = question;
    const items: FeedItem[] = [];
    let bytes = 0;
    for (const [i, entry] of entries.slice(0, most).entries()) {
      const some = of(entry);
      for (const { text } of some) bytes += Buffer.byteLength(text);
      if (bytes > bytesMax && i > 0) return { items, taken: i };
      items.push(...some);
    }
    return { items, taken: most };
  }

  async #rows({ account, topics, payload, submissions }: FeedQuestion, entries: readonly FeedEntry[]) {
    const { clickhouse, erasing } = this.#parts;
    const asked = { account, excludeAgents: await erasing(account) };
    const idsOf = (isRegistry: boolean) =>
      entries.flatMap(({ index, id }) => (id !== null && (index === 0) === isRegistry ? [id] : []));
    const [eventIds, has] = [idsOf(false), (topic: FeedTopic) => topics.includes(topic)];
    const keys =
      has('events') || has('audit_log')
        ? await feedEventKeys(clickhouse, asked, eventIds)
        : new Map<string, EventKey>();
    const inOrder = eventIds.flatMap((id) => keys.get(id) ?? []);
    const [recorded, audited, events, anomalies] = await Promise.all([
      feedRecordedRows(clickhouse, asked, idsOf(true)),
      auditedByKey(clickhouse, account, has('audit_log') ? inOrder : []),
      rowsByKey(clickhouse, account, has('events') ? inOrder : [], { payload }),
      feedAnomalies(clickhouse, asked, has('anomalies') ? eventIds : []),
    ]);
    const auditedById = new Map(audited.map((row) => [row.id, row]));
    const eventById = new Map(events.rows.map((row) => [row.id, row]));
    const of = ({ index, id }: FeedEntry): FeedItem[] => {
      if (id === null) return [];
      const entry = recorded.get(id);
      if (index === 0)
        return entry === undefined ? [] : [{ topic: 'audit_log', text: exactJson(recordedEntry(entry)) }];
      const [event, log] = [eventById.get(id), auditedById.get(id)];
      const logged = log === undefined ? [] : submissions ? [submittedEntry(log)] : [];
      if (log !== undefined && log.outcome !== 'allowed') logged.push(decidedEntry(log));
      return [
        ...(event === undefined ? [] : [{ topic: 'events' as const, text: renderListed(event) }]),
        ...logged.map((one) => ({ topic: 'audit_log' as const, text: exactJson(one) })),
        ...(anomalies.get(id) ?? []).map((one) => ({ topic: 'anomalies' as const, text: JSON.stringify(one) })),
      ];
    };
    // Rows of events that did not fit: the page ends before the first of them.
    const cutAt = has('events') && events.heads < inOrder.length ? inOrder[events.heads]!.id : undefined;
    const taken = cutAt === undefined ? entries.length : entries.findIndex(({ id }) => id === cutAt);
    return { of, taken };
  }

  /** The newest revision that is stored first, then what was before it in the journal: so none below it can be late. */
  async #changes({ account, topics, limit: max }: FeedQuestion, place: FeedPlace) {
    const { clickhouse, barrier, erasing } = this.#parts;
    const items: FeedItem[] = [];
    const moved = { approvals: place.approvals, deliveries: place.deliveries };
    let [hasMore, isHeldUp] = [false, false];
    for (const topic of ['approvals', 'deliveries'] as const) {
      const after = place[topic];
      const until = topics.includes(topic) ? await newestRevision(clickhouse, account, topic) : after;
      if (until <= after) continue;
      if (!(await barrier.waitForJournal(account))) {
        isHeldUp = true;
        continue;
      }
      const asked = { after, until, max, filter: { excludeAgents: await erasing(account) } };
      const read = topic === 'approvals' ? changedApprovals : changedDeliveries;
      const { rows } = await read(clickhouse, account, asked);
      for (const { row } of rows) items.push({ topic, text: JSON.stringify(row) });
      const isFull = rows.length >= max;
      moved[topic] = isFull ? rows.at(-1)!.at : until;
      hasMore ||= isFull;
    }
    return { items, place: moved, hasMore, isHeldUp };
  }
}

/** The last entry behind the place that can be read without a hole. Throws FeedAhead. */
function endBehind({ chain, n }: ChainPlace, blocks: readonly BlockHead[]): number {
  let [end, newest] = [n, 0];
  for (const { chain: of, first, count } of blocks) {
    if (of !== chain) continue;
    newest = Math.max(newest, first + count - 1);
    if (first <= end + 1) end = Math.max(end, first + count - 1);
  }
  if (newest < n) throw new FeedAhead(`entry ${n} of chain ${chain} is not there any more`);
  return end;
}

function gapItem(gap: FeedGap): FeedItem {
  return { topic: 'gap', text: JSON.stringify(gap) };
}
