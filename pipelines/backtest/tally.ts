// Counts what a backtest comes to, event by event, and makes the result of it (inside backtest-run.ts).
// Invariant: what is kept goes on exactly where it stood, and nothing depends on where a page, a turn or a process
// ended: samples are drawn by the random part of an event's id, which is as good as chance and the same every time.
// Bounded: BACKTEST_GROUPS_MAX agents and tools have counts of their own, the rest count as one; of traces with a newly
// blocked event the first BACKTEST_TRACES_MAX are known. No text of a payload is kept but the detail of a match, and
// tools.
import { createHash } from 'node:crypto';
import type { ReplayRow } from '../../clickhouse/queries/replayed-events.ts';
import {
  BACKTEST_LINES_MAX,
  BACKTEST_SAMPLES_MAX,
  type BacktestResult,
  type BacktestSample,
  type OutcomeChange,
} from '../../schemas/backtest.ts';
import { BACKTEST_OUTCOMES, OUTCOMES, type UnknownReason } from '../../schemas/closed-sets.ts';
import type { ConditionUnmet } from '../../schemas/match-detail.ts';
import { exactIsoTime, isoTime } from '../../schemas/time.ts';
import { BACKTEST_GROUPS_MAX, BACKTEST_TRACES_MAX } from '../../src/common/limits.ts';
import type { Replayed } from '../../src/policy/replay/policy-replay.ts';

/** The count of each pair of outcomes, in the order of PAIRS. */
type Counts = number[];
type Group = 'days' | 'agents' | 'tools';
type KeptGroup = [name: string, counts: Counts][];
type KeptSample = BacktestSample & { receivedMs: number };

/** As it is kept: JSON. */
export type KeptTally = {
  events: number;
  matched: number;
  behind: number;
  decidedBefore: number;
  afterTheFact: number;
  all: Counts;
  groups: Record<Group, KeptGroup>;
  unknown: Partial<Record<UnknownReason, number>>;
  traces: string[];
  samples: [pair: string, samples: KeptSample[]][];
};

const PAIRS = OUTCOMES.flatMap((was) => BACKTEST_OUTCOMES.map((now) => ({ was, now })));
const PLACE = new Map(PAIRS.map(({ was, now }, i) => [`${was}>${now}`, i]));
/** Where a group's further members are counted. No agent and no tool is called so. */
const FURTHER = '\u0000';
/** Characters of an id that are random, from the end. */
const RANDOM_CHARACTERS = 13;
const TRACE_BYTES = 9;

const MESSAGES: Record<UnknownReason, string> = {
  redacted_text: 'A pattern or detector would have to see text that was redacted.',
  redacted_condition: 'A condition or the counter of the policy depends on something that was redacted.',
  not_asked: 'The check outside was not asked about these fields when the event came, and is not asked now.',
  past_retention: 'The events of the beginning of the range are not kept any more.',
};

export class Tally {
  #events = 0;
  #matched = 0;
  #behind = 0;
  #decidedBefore = 0;
  #afterTheFact = 0;
  readonly #all: Counts;
  readonly #groups: Record<Group, Map<string, Counts>>;
  readonly #unknown: Map<UnknownReason, number>;
  /** Digests of the traces in which an event is newly blocked. */
  readonly #traces: Set<string>;
  readonly #samples: Map<string, KeptSample[]>;

  constructor(kept?: KeptTally) {
    this.#events = kept?.events ?? 0;
    this.#matched = kept?.matched ?? 0;
    this.#behind = kept?.behind ?? 0;
    this.#decidedBefore = kept?.decidedBefore ?? 0;
    this.#afterTheFact = kept?.afterTheFact ?? 0;
    this.#all = kept?.all ?? noCounts();
    this.#groups = {
      days: new Map(kept?.groups.days),
      agents: new Map(kept?.groups.agents),
      tools: new Map(kept?.groups.tools),
    };
    this.#unknown = new Map(Object.entries(kept?.unknown ?? {}) as [UnknownReason, number][]);
    this.#traces = new Set(kept?.traces);
    this.#samples = new Map(kept?.samples);
  }

  get events(): number {
    return this.#events;
  }

  kept(): KeptTally {
    return {
      ...{ events: this.#events, matched: this.#matched, behind: this.#behind },
      ...{ decidedBefore: this.#decidedBefore, afterTheFact: this.#afterTheFact, all: this.#all },
      groups: {
        days: [...this.#groups.days],
        agents: [...this.#groups.agents],
        tools: [...this.#groups.tools],
      },
      unknown: Object.fromEntries(this.#unknown),
      traces: [...this.#traces],
      samples: [...this.#samples],
    };
  }

  /** `unmet`: why the policy does not match, asked of samples alone. */
  add(row: ReplayRow, replayed: Replayed, unmet: () => ConditionUnmet[] | undefined): void {
    const { was, now, matched, why, left, isObserved } = replayed;
    const pair = `${was}>${now}`;
    const place = PLACE.get(pair)!;
    this.#events++;
    if (matched) this.#matched++;
    if (left === 'decided_before') this.#decidedBefore++;
    if (isObserved) this.#afterTheFact++;
    this.#all[place]!++;
    this.#count('days', isoTime(row.receivedMs).slice(0, 10), place);
    this.#count('agents', row.agentId, place);
    this.#count('tools', row.tool, place);
    if (now === 'unknown') this.#unknown.set(why!, (this.#unknown.get(why!) ?? 0) + 1);
    const isBehind = this.#isBehind(row.traceId, now === 'blocked' && was !== 'blocked');
    if (isBehind) this.#behind++;
    if (was !== now || matched) this.#sample(pair, row, { replayed, isBehind, unmet });
  }

  result(more: Pick<BacktestResult, 'kept_from' | 'is_complete'>): BacktestResult {
    const changed = PAIRS.reduce((sum, pair, i) => sum + (isChange(pair) ? this.#all[i]! : 0), 0);
    const [agents, tools] = [linesOf(this.#groups.agents), linesOf(this.#groups.tools)];
    const unknown: BacktestResult['unknown'] = [...this.#unknown].map(([reason, events]) => unknownOf(reason, events));
    if (more.kept_from !== null) unknown.push(unknownOf('past_retention', null));
    const days = [...this.#groups.days].sort(([a], [b]) => (a < b ? -1 : 1));
    return {
      ...{ events: this.#events, matched: this.#matched, changed, outcomes: outcomesOf(this.#all) },
      by_day: days.map(([day, counts]) => ({ day, outcomes: outcomesOf(counts) })),
      by_agent: agents.lines.map(([agent, counts]) => ({ agent_id: agent, outcomes: outcomesOf(counts) })),
      by_tool: tools.lines.map(([tool, counts]) => ({ tool: tool || null, outcomes: outcomesOf(counts) })),
      more: { agents: agents.more, tools: tools.more },
      ...{ unknown, behind_first_block: this.#behind },
      ...{ decided_before: this.#decidedBefore, after_the_fact: this.#afterTheFact, ...more },
      samples: this.#shown(),
    };
  }

  #count(group: Group, name: string, place: number): void {
    const groups = this.#groups[group];
    const key = groups.has(name) || groups.size < BACKTEST_GROUPS_MAX ? name : FURTHER;
    let counts = groups.get(key);
    if (counts === undefined) {
      counts = noCounts();
      groups.set(key, counts);
    }
    counts[place]!++;
  }

  /** Remembers the first event of a trace that is newly blocked; what follows is behind it. */
  #isBehind(traceId: string, isNewlyBlocked: boolean): boolean {
    if (traceId === '' || (this.#traces.size === 0 && !isNewlyBlocked)) return false;
    const digest = createHash('sha256').update(traceId).digest().subarray(0, TRACE_BYTES).toString('base64url');
    if (this.#traces.has(digest)) return true;
    if (isNewlyBlocked && this.#traces.size < BACKTEST_TRACES_MAX) this.#traces.add(digest);
    return false;
  }

  #sample(
    pair: string,
    row: ReplayRow,
    how: { replayed: Replayed; isBehind: boolean; unmet: () => ConditionUnmet[] | undefined },
  ): void {
    const samples = this.#samples.get(pair) ?? [];
    this.#samples.set(pair, samples);
    const last = samples.at(-1);
    if (samples.length >= BACKTEST_SAMPLES_MAX && rankOf(row.id) > rankOf(last!.event_id)) return;
    samples.push(sampleOf(row, how));
    samples.sort((a, b) => (rankOf(a.event_id) < rankOf(b.event_id) ? -1 : 1));
    samples.splice(BACKTEST_SAMPLES_MAX);
  }

  #shown(): BacktestSample[] {
    return [...this.#samples.values()]
      .flat()
      .sort((a, b) => a.receivedMs - b.receivedMs || (a.event_id < b.event_id ? -1 : 1))
      .map(({ receivedMs, ...sample }) => sample);
  }
}

function noCounts(): Counts {
  return PAIRS.map(() => 0);
}

function isChange({ was, now }: (typeof PAIRS)[number]): boolean {
  return now !== 'unknown' && was !== now;
}

function outcomesOf(counts: Counts): OutcomeChange[] {
  return PAIRS.flatMap((pair, i) => (counts[i]! > 0 ? [{ ...pair, events: counts[i]! }] : []));
}

/** The groups of a report: those with the most changed events first, of equals those with the most events. */
function linesOf(groups: ReadonlyMap<string, Counts>): { lines: KeptGroup; more: number } {
  const weighed = [...groups]
    .filter(([name]) => name !== FURTHER)
    .map(([name, counts]) => {
      const events = counts.reduce((sum, count) => sum + count, 0);
      const same = PAIRS.reduce((sum, { was, now }, i) => sum + (was === now ? counts[i]! : 0), 0);
      return { line: [name, counts] as KeptGroup[number], changed: events - same, events };
    })
    .sort((a, b) => b.changed - a.changed || b.events - a.events || (a.line[0] < b.line[0] ? -1 : 1));
  return {
    lines: weighed.slice(0, BACKTEST_LINES_MAX).map(({ line }) => line),
    more: groups.size - Math.min(weighed.length, BACKTEST_LINES_MAX),
  };
}

function rankOf(id: string): string {
  return id.slice(-RANDOM_CHARACTERS);
}

function sampleOf(
  row: ReplayRow,
  {
    replayed: { was, now, matched, why, detail },
    isBehind,
    unmet,
  }: { replayed: Replayed; isBehind: boolean; unmet: () => ConditionUnmet[] | undefined },
): KeptSample {
  const missing = matched === false ? unmet() : undefined;
  return {
    ...{ receivedMs: row.receivedMs, event_id: row.id, agent_id: row.agentId, type: row.type, tool: row.tool || null },
    ...{ timestamp: exactIsoTime(row.occurredMs), received_at: isoTime(row.receivedMs) },
    ...{ was, now, was_policy_id: row.policyId || null, matched },
    ...(detail === undefined ? {} : { detail }),
    ...(missing === undefined ? {} : { unmet: missing }),
    ...(why === undefined ? {} : { unknown: why }),
    behind_block: isBehind,
  };
}

function unknownOf(reason: UnknownReason, events: number | null): BacktestResult['unknown'][number] {
  return { reason, events, message: MESSAGES[reason] };
}
