// Following what comes in, live (under GET /v1/stream; docs/dashboard.md). One feed for each distinct question of an
// account, however many follow it; a feed looks when the pipelines have moved, at most every LIVE_EVERY_MS, and ends
// with its last follower. What is read is told in the order of arrival. A place says what was told so far, of all
// topics; it means the same on every front.
// Invariant: a follower is told every row behind its place once, in order, or that some were skipped. A feed's place
// moves only to where everything is stored (progress.ts).
// Failure: a store that cannot be asked is asked again a little later from the same place; followers wait.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../clickhouse/client.ts';
import {
  arrivedEvents,
  changedApprovals,
  changedDeliveries,
  flaggedAnomalies,
  newestRevision,
} from '../../clickhouse/queries/arrivals.ts';
import type { EventFilter } from '../../clickhouse/queries/event-filter.ts';
import { renderEvent } from '../../clickhouse/queries/event-rows.ts';
import type { PayloadMode } from '../../schemas/closed-sets.ts';
import type { Position } from '../../schemas/paging.ts';
import { LIVE_EVERY_MS, LIVE_ROWS_MAX } from '../common/limits.ts';
import type { Log } from '../process/log.ts';
import type { Progress } from '../streams/progress.ts';

export const TOPICS = ['events', 'approvals', 'anomalies', 'deliveries'] as const;
export type Topic = (typeof TOPICS)[number];

/** What was told last, of each topic. */
export type LivePlace = { events: Position; anomalies: Position; approvals: number; deliveries: number };

export type Question = {
  account: string;
  topics: readonly Topic[];
  filter: EventFilter;
  payload: PayloadMode;
};

/** `place` is that behind it. */
export type LiveUpdate =
  | { topic: Topic; text: string; place: LivePlace }
  | { skipped: number; topic: Topic; place: LivePlace };

type LiveParts = {
  clickhouse: ClickHouse;
  progress: Progress;
  /** Agents whose rows are on their way out. */
  erasing: (account: string) => Promise<readonly string[]>;
  log: Log;
};

const RETRY_MS = 2_000;

export class Live {
  readonly #parts: LiveParts;
  readonly #feeds = new Map<string, Feed>();

  constructor(parts: LiveParts) {
    this.#parts = parts;
  }

  /** Feeds that are running, for tests. */
  get feeds(): number {
    return this.#feeds.size;
  }

  /** From `place` on, or from now on; ends with `signal`. Rejects where the stores cannot say what is now. */
  async follow(
    question: Question,
    { place, signal, tell }: { place: LivePlace | undefined; signal: AbortSignal; tell: (told: LiveUpdate) => void },
  ): Promise<LivePlace> {
    const name = JSON.stringify(question);
    const feed = this.#feeds.get(name) ?? new Feed(question, this.#parts);
    this.#feeds.set(name, feed);
    feed.expected++;
    try {
      return await feed.join(place, signal, tell);
    } finally {
      feed.expected--;
      const end = () => {
        if (feed.isUnused && this.#feeds.get(name) === feed) this.#feeds.delete(name);
      };
      if (signal.aborted) end();
      else signal.addEventListener('abort', () => queueMicrotask(end), { once: true });
      end();
    }
  }
}

class Feed {
  /** On their way in. */
  expected = 0;
  readonly #question: Question;
  readonly #parts: LiveParts;
  readonly #followers = new Set<(told: LiveUpdate) => void>();
  #place: LivePlace | undefined;
  #beginning: Promise<LivePlace> | undefined;
  #marks = '';
  /** When the marks were last seen to change, epoch ms. */
  #changedMs = Number.POSITIVE_INFINITY;
  #isRunning = false;

  constructor(question: Question, parts: LiveParts) {
    this.#question = question;
    this.#parts = parts;
  }

  get isUnused(): boolean {
    return this.expected === 0 && this.#followers.size === 0;
  }

  async join(from: LivePlace | undefined, signal: AbortSignal, tell: (told: LiveUpdate) => void): Promise<LivePlace> {
    this.#beginning ??= this.#begin();
    try {
      this.#place ??= await this.#beginning;
    } catch (error) {
      this.#beginning = undefined;
      throw error;
    }
    let place = from ?? this.#place;
    // What this one has not been told yet; the feed may move on meanwhile.
    while (isBehind(place, this.#place) && !signal.aborted) {
      const { told, place: next } = await this.#read(place, this.#place);
      for (const one of told) tell(one);
      place = next;
    }
    if (signal.aborted) return place;
    // Who comes from another front may have been told what this feed has not come to yet.
    const follower = isBehind(this.#place, place) ? tellingBehind(place, tell) : tell;
    this.#followers.add(follower);
    signal.addEventListener('abort', () => this.#followers.delete(follower), { once: true });
    if (!this.#isRunning) void this.#run();
    return place;
  }

  async #begin(): Promise<LivePlace> {
    const { clickhouse } = this.#parts;
    const { account } = this.#question;
    const revisionOf = (topic: 'approvals' | 'deliveries') =>
      this.#has(topic) ? newestRevision(clickhouse, account, topic) : 0;
    const [reached, approvals, deliveries] = await Promise.all([
      this.#reached(),
      revisionOf('approvals'),
      revisionOf('deliveries'),
    ]);
    // Behind all of that millisecond: who joins is told what he lacks up to its end.
    const at = (untilMs: number) => ({ at: untilMs, id: AFTER_ALL_IDS });
    return { events: at(reached.events), anomalies: at(reached.anomalies), approvals, deliveries };
  }

  #has(topic: Topic): boolean {
    return this.#question.topics.includes(topic);
  }

  /** Epoch ms up to which everything is there, and what changes with whatever comes. */
  async #reached(): Promise<{ events: number; anomalies: number; marks: string }> {
    const { progress } = this.#parts;
    const nothing = { untilMs: 0, mark: '' };
    const [events, anomalies, journal] = await Promise.all([
      this.#has('events') ? progress.ofEvents('store') : nothing,
      this.#has('anomalies') ? progress.ofEvents('anomaly') : nothing,
      this.#has('approvals') || this.#has('deliveries') ? progress.ofJournal(this.#question.account) : nothing,
    ]);
    return {
      events: events.untilMs,
      anomalies: anomalies.untilMs,
      marks: [events.mark, anomalies.mark, journal.mark].join('|'),
    };
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#followers.size > 0) {
      const begunMs = performance.now();
      let waitMs = LIVE_EVERY_MS;
      try {
        await this.#look();
      } catch (error) {
        this.#parts.log.warn({ err: error, account: this.#question.account }, 'live.look_failed');
        waitMs = RETRY_MS;
      }
      await sleep(Math.max(0, waitMs - (performance.now() - begunMs)));
    }
    this.#isRunning = false;
  }

  /** Looks until the place has passed the last change that was seen; then not before the next one. */
  async #look(): Promise<void> {
    const { events, anomalies, marks } = await this.#reached();
    const before = this.#place!;
    const isSettled = (['events', 'anomalies'] as const).every(
      (topic) => !this.#has(topic) || before[topic].at >= this.#changedMs,
    );
    if (marks === this.#marks && isSettled) {
      // Nothing has come, and all that had come was told: the place moves with the time, so that a resume reads little.
      this.#place = movedTo(before, { events, anomalies });
      return;
    }
    if (marks !== this.#marks) this.#changedMs = Date.now();
    const { told, place } = await this.#read(before, movedTo(before, { events, anomalies }));
    this.#marks = marks;
    this.#place = place;
    for (const one of told) for (const tell of this.#followers) tell(one);
  }

  /** What lies behind `from`, of events and anomalies up to `to`. */
  async #read(from: LivePlace, to: LivePlace): Promise<{ told: LiveUpdate[]; place: LivePlace }> {
    const { clickhouse, erasing } = this.#parts;
    const { account, payload } = this.#question;
    const filter = { ...this.#question.filter, excludeAgents: await erasing(account) };
    const max = LIVE_ROWS_MAX;
    const since = (topic: 'events' | 'anomalies') => ({ after: from[topic], untilMs: to[topic].at, max, filter });
    const isAhead = (topic: 'events' | 'anomalies') => this.#has(topic) && isBefore(from[topic], to[topic]);
    const [events, anomalies, approvals, deliveries] = await Promise.all([
      isAhead('events') ? arrivedEvents(clickhouse, account, { ...since('events'), payload }) : NOTHING,
      isAhead('anomalies') ? flaggedAnomalies(clickhouse, account, since('anomalies')) : NOTHING,
      this.#has('approvals') ? changedApprovals(clickhouse, account, { after: from.approvals, max, filter }) : NOTHING,
      this.#has('deliveries')
        ? changedDeliveries(clickhouse, account, { after: from.deliveries, max, filter })
        : NOTHING,
    ]);
    const told: LiveUpdate[] = [];
    let place = from;
    for (const { row, at } of events.rows) {
      place = { ...place, events: at };
      told.push({ topic: 'events', text: renderEvent(row), place });
    }
    if (events.skipped > 0)
      told.push({ topic: 'events', skipped: events.skipped, place: { ...place, events: to.events } });
    place = isAhead('events') ? { ...place, events: to.events } : place;
    for (const { row, at } of anomalies.rows) {
      place = { ...place, anomalies: at };
      told.push({ topic: 'anomalies', text: JSON.stringify(row), place });
    }
    if (anomalies.skipped > 0)
      told.push({ topic: 'anomalies', skipped: anomalies.skipped, place: { ...place, anomalies: to.anomalies } });
    place = isAhead('anomalies') ? { ...place, anomalies: to.anomalies } : place;
    for (const { row, at } of approvals.rows) {
      place = { ...place, approvals: at };
      told.push({ topic: 'approvals', text: JSON.stringify(row), place });
    }
    for (const { row, at } of deliveries.rows) {
      place = { ...place, deliveries: at };
      told.push({ topic: 'deliveries', text: JSON.stringify(row), place });
    }
    // What was changed up to there and is not asked for has been passed, too.
    const passed = (topic: 'approvals' | 'deliveries', rows: number) =>
      rows < max ? Math.max(place[topic], to[topic]) : place[topic];
    place = {
      ...place,
      approvals: passed('approvals', approvals.rows.length),
      deliveries: passed('deliveries', deliveries.rows.length),
    };
    return { told, place };
  }
}

const NOTHING = { rows: [], skipped: 0 };

function movedTo(place: LivePlace, { events, anomalies }: { events: number; anomalies: number }): LivePlace {
  const later = (from: Position, untilMs: number) => (untilMs > from.at ? { at: untilMs, id: AFTER_ALL_IDS } : from);
  return { ...place, events: later(place.events, events), anomalies: later(place.anomalies, anomalies) };
}

/** Sorts behind every id: what arrived in that millisecond has been told. */
const AFTER_ALL_IDS = '~';

/** In any topic. */
function isBehind(one: LivePlace, other: LivePlace): boolean {
  return TOPICS.some((topic) => isBefore(one[topic], other[topic]));
}

function isBefore(one: Position | number, other: Position | number): boolean {
  if (typeof one === 'number' || typeof other === 'number') return one < other;
  return one.at < other.at || (one.at === other.at && one.id < other.id);
}

/** Leaves out what was told up to `from`; no place that it tells lies before that. */
function tellingBehind(from: LivePlace, tell: (told: LiveUpdate) => void): (told: LiveUpdate) => void {
  return (told) => {
    const { topic, place } = told;
    if (isBefore(from[topic], place[topic])) tell({ ...told, place: latest(from, place) });
  };
}

function latest(one: LivePlace, other: LivePlace): LivePlace {
  const of = <T extends Topic>(topic: T) => (isBefore(one[topic], other[topic]) ? other : one)[topic];
  return { events: of('events'), anomalies: of('anomalies'), approvals: of('approvals'), deliveries: of('deliveries') };
}
