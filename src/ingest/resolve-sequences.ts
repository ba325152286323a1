// What is asked of the memory of sequences for a submission (between the rate limits and the decision). Which outcome
// the events have without the sequences is known by then, so that a step of a blocked event is not kept.

import type { Decision, Judgement, SequencePart } from '../policy/judgement.ts';
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
    const event = sequenceEvent(part, decision);
    if (event === undefined) continue;
    asked.events.push({ ...event, id: arrivals.fix(element), agent, isOpen: isOpenOutside(judgement!) });
    asked.elements.push(element);
  }
  return asked.events.length === 0 ? undefined : asked;
}

/** `decision`: without the sequences. undefined: nothing is asked about the event, nor kept of it. */
export function sequenceEvent(
  { sinks, marks, isObserved }: SequencePart,
  { outcome: made, approval }: Pick<Decision, 'outcome' | 'approval'>,
): Omit<SequenceEvent, 'id' | 'agent'> | undefined {
  const outcome = made === 'pending' && isObserved === true ? 'blocked' : made;
  // What is blocked anyway is not asked about.
  const asks = outcome === 'blocked' ? [] : sinks.map(({ ask }) => ask);
  if (asks.length + marks.length === 0) return undefined;
  const waitMs = LATE_MS_MAX + (approval === undefined ? 0 : approval.timeoutSeconds * 1000);
  return { outcome, asks, marks, later: laterMarks(marks, outcome), waitMs };
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
