// What is asked of the memory of sequences for a submission (between the rate limits and the decision). Which outcome
// the events have without the sequences is known by then, so that a step of a blocked event is not kept.

import type { Outcome } from '../../schemas/closed-sets.ts';
import type { Decision, Judgement, SequencePart } from '../policy/judgement.ts';
import { isOpenOutside } from '../policy/outside.ts';
import { isRepeatable, type SequenceAnswers, type SequenceEvent } from '../policy/sequences/sequence-answer.ts';
import { laterMarks } from '../policy/sequences/sequence-memory.ts';
import type { Arrivals } from './arrival.ts';
import type { Decided } from './resolve-quotas.ts';

/** How much later than it has to an event may be recorded, or approved, ms. */
const LATE_MS_MAX = 86_400_000;

/** `elements`: of which elements each event is. */
export type SequencesAsked = { events: SequenceEvent[]; elements: (readonly number[])[] };

type Alike = { judgement: Judgement; outcome: Outcome; event: Question; elements: number[] };
type Question = Omit<SequenceEvent, 'id' | 'agent'>;

/**
 * undefined: nothing is asked. Gives the events that are steps their ids. `isSpread`: each for itself; else neighbours
 * that are alike are asked about once, where that is the same.
 */
export function sequencesAsked(
  judgements: readonly (Judgement | null)[],
  judged: readonly (Decided | null)[],
  { agent, arrivals, isSpread = false }: { agent: string; arrivals: Arrivals; isSpread?: boolean },
): SequencesAsked | undefined {
  const groups: Alike[] = [];
  let last: Alike | undefined;
  for (const [element, judgement] of judgements.entries()) {
    const decision = judged[element]?.decision;
    if (decision === undefined || judgement === null || judgement.sequences === null) continue;
    if (last?.judgement === judgement && last.outcome === decision.outcome) {
      last.elements.push(element);
      continue;
    }
    const asked = sequenceEvent(judgement.sequences, decision);
    if (asked === undefined) continue;
    const event = { ...asked, isOpen: isOpenOutside(judgement) };
    const group = { judgement, outcome: decision.outcome, event, elements: [element] };
    groups.push(group);
    last = !isSpread && isRepeatable(event) ? group : undefined;
  }
  if (groups.length === 0) return undefined;
  return {
    events: groups.map(({ event, elements }) => {
      const times = elements.length > 1 ? { times: elements.length } : {};
      return { ...event, id: arrivals.fix(elements.at(-1)!), agent, ...times };
    }),
    elements: groups.map(({ elements }) => elements),
  };
}

/** `decision`: without the sequences. undefined: nothing is asked about the event, nor kept of it. */
export function sequenceEvent(
  { sinks, marks, isObserved }: SequencePart,
  { outcome: made, approval }: Pick<Decision, 'outcome' | 'approval'>,
): Question | undefined {
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
    outcome === 'allowed' && later.length > 0 && judged[elements[i]![0]!]!.decision.outcome === 'allowed';
  return events.filter(isKept).map(({ id }) => id);
}

/** The answers by element; undefined: nothing matches. */
export function matchedSequences(
  { elements }: SequencesAsked,
  answers: readonly SequenceAnswers[],
): Map<number, SequenceAnswers> | undefined {
  const matched = new Map<number, SequenceAnswers>();
  for (const [i, of] of elements.entries())
    if (answers[i]!.some((match) => match !== null)) for (const element of of) matched.set(element, answers[i]!);
  return matched.size === 0 ? undefined : matched;
}
