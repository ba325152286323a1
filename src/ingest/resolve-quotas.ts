// Turns judgements into decisions: requests the permits of the rate limits that apply, then decides (between judgement
// and encoding). Neighbouring events with one and the same judgement (most of a batch: no match, the same limits) form
// a run. A run requests its permits together and shares one decision, so the cost of a batch follows from its runs, not
// from its events.
// Invariant: the k-th event of a run gets the k-th of its permits, as if each event had asked alone in the order of
// submission.
import { mintId } from '../common/ids.ts';
import { steadyNow } from '../common/steady-clock.ts';
import { checksOf, decide } from '../policy/decide.ts';
import type { Decision, Judgement, RuleMatch } from '../policy/judgement.ts';
import type { SequenceAnswers } from '../policy/sequences/sequence-answer.ts';
import type { QuotaGrant, QuotaRequest, QuotaReturn } from './rate-limit-batcher.ts';

/** `countedAt`: epoch ms, where rate limits counted the event. */
export type Decided = { decision: Decision; countedAt: number | undefined };

/** Neighbours with one judgement; null: a hole. */
export type Run = { judgement: Judgement | null; events: number };

/** The requests to the counters that the rules of all runs leave. */
export function requestsOf(runs: readonly Run[]): QuotaRequest[] {
  const requests: QuotaRequest[] = [];
  for (const [run, { judgement, events }] of runs.entries())
    if (judgement !== null) for (const check of checksOf(judgement)) requests.push({ check, permits: events, run });
  return requests;
}

/** Answers that come behind those of limits. */
type LaterAnswers = {
  /** By element, where a sequence matches. */
  sequences?: ReadonlyMap<number, SequenceAnswers> | undefined;
  /** Matches of budgets, by judgement; each that has some is of one event. */
  budgets?: ReadonlyMap<Judgement, readonly RuleMatch[]> | undefined;
};

/** `counts`: the answers to `requestsOf(runs)`. */
export function decideRuns(
  runs: readonly Run[],
  counts: readonly QuotaGrant[],
  later: LaterAnswers = {},
): (Decided | null)[] {
  const judged: (Decided | null)[] = [];
  let at = 0;
  for (const { judgement, events } of runs) {
    const own = judgement === null ? 0 : checksOf(judgement).length;
    decideRun(judged, { judgement, events }, own === counts.length ? counts : counts.slice(at, at + own), later);
    at += own;
  }
  return judged;
}

/** Permits of events that are blocked by something else than limits, all of which let them pass. */
export function returnsOf(
  runs: readonly Run[],
  counts: readonly QuotaGrant[],
  isReturned: (element: number) => boolean,
): QuotaReturn[] {
  const returns: QuotaReturn[] = [];
  let element = 0;
  let at = 0;
  for (const { judgement, events } of runs) {
    let permits = 0;
    for (const end = element + events; element < end; element++) if (isReturned(element)) permits++;
    for (const check of judgement === null ? [] : checksOf(judgement)) {
      if (permits > 0) returns.push({ check, permits, bucket: counts[at]!.bucket });
      at++;
    }
  }
  return returns;
}

export function runsOf(judgements: readonly (Judgement | null)[]): Run[] {
  const runs: Run[] = [];
  let last: Run | undefined;
  for (const judgement of judgements) {
    if (last !== undefined && last.judgement === judgement) last.events++;
    else {
      last = { judgement, events: 1 };
      runs.push(last);
    }
  }
  return runs;
}

function decideRun(
  judged: (Decided | null)[],
  { judgement, events }: Run,
  counts: readonly QuotaGrant[],
  later: LaterAnswers,
): void {
  const budgets = judgement === null ? undefined : later.budgets?.get(judgement);
  let countedAt: number | undefined;
  let granted = events;
  for (const count of counts) {
    countedAt = Math.max(countedAt ?? 0, count.atMs);
    granted = Math.min(granted, count.granted);
  }
  let shared: Decided | undefined;
  for (let i = 0; i < events; i++) {
    const sequences = later.sequences?.get(judged.length);
    if (judgement === null) judged.push(null);
    else if (i < granted && judgement.found.length === 0 && sequences === undefined && budgets === undefined) {
      shared ??= { decision: decide(judgement, NONE_OVER, mintApprovalId), countedAt };
      judged.push(shared);
    } else {
      const retryAfter = counts.map(({ granted, freeInMs }) => (i < granted ? 0 : secondsOf(freeInMs)));
      judged.push({ decision: decide(judgement, retryAfter, mintApprovalId, { sequences, budgets }), countedAt });
    }
  }
}

/** The seconds of a limit that is over, at least 1: 0 means that it is not over. */
function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}

const NONE_OVER: readonly number[] = [];

export function mintApprovalId(): string {
  return mintId('approval', steadyNow());
}
