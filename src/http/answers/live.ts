// Following what comes in, live (under GET /v1/stream; docs/dashboard.md). One feed for each distinct question of an
// account, however many follow it; a feed looks when the pipelines have moved, at most every LIVE_EVERY_MS, and ends
// with its last follower. What is read is sent in the order of arrival. A position says what was sent so far, of all
// topics; it means the same on every front.
// Invariant: a follower gets every row behind its position once, in order, or the number that was skipped. A feed's
// position moves only to where everything is stored (progress.ts).
// Failure: a store that cannot be asked is asked again a little later from the same position; followers wait.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ClickHouse } from '../../../clickhouse/client.ts';
import {
  arrivedEvents,
  changedApprovals,
  changedDeliveries,
  flaggedAnomalies,
  newestRevision,
} from '../../../clickhouse/queries/arrivals.ts';
import type { EventFilter } from '../../../clickhouse/queries/event-filter.ts';
import { renderListed } from '../../../clickhouse/queries/event-rows.ts';
import type { PayloadMode } from '../../../schemas/closed-sets.ts';
import type { Position } from '../../../schemas/paging.ts';
import { LIVE_EVERY_MS, LIVE_ROWS_MAX } from '../../common/limits.ts';
import type { Log } from '../../process/log.ts';
import type { Progress } from '../../streams/progress.ts';

export const TOPICS = ['events', 'approvals', 'anomalies', 'deliveries'] as const;
type Topic = (typeof TOPICS)[number];

/** The last row sent, of each topic. */
export type LivePosition = { events: Position; anomalies: Position; approvals: number; deliveries: number };

export type Question = {
  account: string;
  topics: readonly Topic[];
  filter: EventFilter;
  payload: PayloadMode;
};

/** `position` is that behind it. */
export type LiveUpdate =
  | { topic: Topic; text: string; position: LivePosition }
  | { skipped: number; topic: Topic; position: LivePosition };

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

  /** From `position` on, or from now on; ends with `signal`. Rejects where the stores cannot say what is now. */
  async follow(
    question: Question,
    {
      position,
      signal,
      send,
    }: { position: LivePosition | undefined; signal: AbortSignal; send: (update: LiveUpdate) => void },
  ): Promise<LivePosition> {
    const name = JSON.stringify(question);
    const feed = this.#feeds.get(name) ?? new Feed(question, this.#parts);
    this.#feeds.set(name, feed);
    feed.expected++;
    try {
      return await feed.join(position, signal, send);
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
  readonly #followers = new Set<(update: LiveUpdate) => void>();
  #position: LivePosition | undefined;
  #beginning: Promise<LivePosition> | undefined;
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

  async join(
    from: LivePosition | undefined,
    signal: AbortSignal,
    send: (update: LiveUpdate) => void,
  ): Promise<LivePosition> {
    this.#beginning ??= this.#begin();
    try {
      this.#position ??= await this.#beginning;
    } catch (error) {
      this.#beginning = undefined;
      throw error;
    }
    let position = from ?? this.#position;
    // What this one has not been sent yet; the feed may move on meanwhile.
    while (isBehind(position, this.#position) && !signal.aborted) {
      const { updates, position: next } = await this.#read(position, this.#position);
      for (const one of updates) send(one);
      position = next;
    }
    if (signal.aborted) return position;
    // A follower from another front may have got rows that this feed has not read yet.
    const follower = isBehind(this.#position, position) ? sendingBehind(position, send) : send;
    this.#followers.add(follower);
    signal.addEventListener('abort', () => this.#followers.delete(follower), { once: true });
    if (!this.#isRunning) void this.#run();
    return position;
  }

  async #begin(): Promise<LivePosition> {
    const { clickhouse } = this.#parts;
    const { account } = this.#question;
    const revisionOf = (topic: 'approvals' | 'deliveries') =>
      this.#has(topic) ? newestRevision(clickhouse, account, topic) : 0;
    const [reached, approvals, deliveries] = await Promise.all([
      this.#reached(),
      revisionOf('approvals'),
      revisionOf('deliveries'),
    ]);
    // Behind all of that millisecond: a follower that joins gets what it lacks up to its end.
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

  /** Looks until the position has passed the last change that was seen; then not before the next one. */
  async #look(): Promise<void> {
    const { events, anomalies, marks } = await this.#reached();
    const before = this.#position!;
    const isSettled = (['events', 'anomalies'] as const).every(
      (topic) => !this.#has(topic) || before[topic].at >= this.#changedMs,
    );
    if (marks === this.#marks && isSettled) {
      // Nothing has arrived, and all that had arrived was sent: the position moves with the time, so that a resume
      // reads little.
      this.#position = movedTo(before, { events, anomalies });
      return;
    }
    if (marks !== this.#marks) this.#changedMs = Date.now();
    const { updates, position } = await this.#read(before, movedTo(before, { events, anomalies }));
    this.#marks = marks;
    this.#position = position;
    for (const one of updates) for (const send of this.#followers) send(one);
  }

  /** Reads the updates after `from`, of events and anomalies up to `to`. */
  async #read(from: LivePosition, to: LivePosition): Promise<{ updates: LiveUpdate[]; position: LivePosition }> {
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
    const updates: LiveUpdate[] = [];
    let position = from;
    for (const { row, at } of events.rows) {
      position = { ...position, events: at };
      updates.push({ topic: 'events', text: renderListed(row), position });
    }
    if (events.skipped > 0)
      updates.push({ topic: 'events', skipped: events.skipped, position: { ...position, events: to.events } });
    position = isAhead('events') ? { ...position, events: to.events } : position;
    for (const { row, at } of anomalies.rows) {
      position = { ...position, anomalies: at };
      updates.push({ topic: 'anomalies', text: JSON.stringify(row), position });
    }
    if (anomalies.skipped > 0)
      updates.push({
        topic: 'anomalies',
        skipped: anomalies.skipped,
        position: { ...position, anomalies: to.anomalies },
      });
    position = isAhead('anomalies') ? { ...position, anomalies: to.anomalies } : position;
    for (const { row, at } of approvals.rows) {
      position = { ...position, approvals: at };
      updates.push({ topic: 'approvals', text: JSON.stringify(row), position });
    }
    for (const { row, at } of deliveries.rows) {
      position = { ...position, deliveries: at };
      updates.push({ topic: 'deliveries', text: JSON.stringify(row), position });
    }
    // What was changed up to there and is not asked for has been passed, too.
    const passed = (topic: 'approvals' | 'deliveries', rows: number) =>
      rows < max ? Math.max(position[topic], to[topic]) : position[topic];
    position = {
      ...position,
      approvals: passed('approvals', approvals.rows.length),
      deliveries: passed('deliveries', deliveries.rows.length),
    };
    return { updates, position };
  }
}

const NOTHING = { rows: [], skipped: 0 };

function movedTo(position: LivePosition, { events, anomalies }: { events: number; anomalies: number }): LivePosition {
  const later = (from: Position, untilMs: number) => (untilMs > from.at ? { at: untilMs, id: AFTER_ALL_IDS } : from);
  return { ...position, events: later(position.events, events), anomalies: later(position.anomalies, anomalies) };
}

/** Sorts behind every id: what arrived in that millisecond has been sent. */
const AFTER_ALL_IDS = '~';

/** In any topic. */
function isBehind(one: LivePosition, other: LivePosition): boolean {
  return TOPICS.some((topic) => isBefore(one[topic], other[topic]));
}

function isBefore(one: Position | number, other: Position | number): boolean {
  if (typeof one === 'number' || typeof other === 'number') return one < other;
  return one.at < other.at || (one.at === other.at && one.id < other.id);
}

/** Leaves out what was sent up to `from`; no position that it sends lies before that. */
function sendingBehind(from: LivePosition, send: (update: LiveUpdate) => void): (update: LiveUpdate) => void {
  return (update) => {
    const { topic, position } = update;
    if (isBefore(from[topic], position[topic])) send({ ...update, position: latest(from, position) });
  };
}

function latest(one: LivePosition, other: LivePosition): LivePosition {
  const of = <T extends Topic>(topic: T) => (isBefore(one[topic], other[topic]) ? other : one)[topic];
  return { events: of('events'), anomalies: of('anomalies'), approvals: of('approvals'), deliveries: of('deliveries') };
}
