// What is asked of the memory of sequences for a submission (between the rate limits and the decision). Which outcome
// the events have without the sequences is known by then, so that a step of a blocked event is not kept.

import type { Judgement } from '../policy/judgement.ts';
import { isOpenOutside } from '../policy/outside.ts';
import type { SequenceAnswers, SequenceEvent } from '../policy/sequences/sequence-answer.ts';
import { laterMarks } from '../policy/sequences/sequence-memory.ts';
import type { Arrivals } from './arrival.ts';
import type { Decided } from './resolve-quotas.ts';

/** How much later than it has to an event may be recorded, or approved, ms. */
const LATE_MS_MAX = 86_400_000;

/** `elements`: of which element each event is. */
export type SequencesAsked = { events: SequenceEvent[]; elements: number[] };

/** undefined: nothing is asked. Gives the events that are steps their ids. */
export function sequencesAsked(
  judgements: readonly (Judgement | null)[],
  judged: readonly (Decided | null)[],
  { agent, arrivals }: { agent: string; arrivals: Arrivals },
): SequencesAsked | undefined {
  const asked: SequencesAsked = { events: [], elements: [] };
  for (const [element, judgement] of judgements.entries()) {
    const decision = judged[element]?.decision;
    const part = judgement?.sequences;
    if (decision === undefined || part === undefined || part === null) continue;
    const { approval } = decision;
    const isMissing = decision.outcome === 'pending' && part.isObserved === true;
    const outcome = isMissing ? 'blocked' : decision.outcome;
    // What is blocked anyway is not asked about.
    const asks = outcome === 'blocked' ? [] : part.sinks.map(({ ask }) => ask);
    if (asks.length + part.marks.length === 0) continue;
    const waitMs = LATE_MS_MAX + (approval === undefined ? 0 : approval.timeoutSeconds * 1000);
    const later = laterMarks(part.marks, outcome);
    const isOpen = isOpenOutside(judgement!);
    asked.events.push({ id: arrivals.fix(element), agent, outcome, asks, marks: part.marks, later, waitMs, isOpen });
    asked.elements.push(element);
  }
  return asked.events.length === 0 ? undefined : asked;
}

/** Ids of those of which something is kept once they are recorded. */
export function toSettle({ events, elements }: SequencesAsked, judged: readonly (Decided | null)[]): string[] {
  const isKept = ({ outcome, later }: SequenceEvent, i: number) =>
    outcome === 'allowed' && later.length > 0 && judged[elements[i]!]!.decision.outcome === 'allowed';
  return events.filter(isKept).map(({ id }) => id);
}

/** The answers by element; undefined: nothing matches. */
export function matchedSequences(
  { elements }: SequencesAsked,
  answers: readonly SequenceAnswers[],
): Map<number, SequenceAnswers> | undefined {
  const matched = new Map<number, SequenceAnswers>();
  for (const [i, element] of elements.entries())
    if (answers[i]!.some((match) => match !== null)) matched.set(element, answers[i]!);
  return matched.size === 0 ? undefined : matched;
}
