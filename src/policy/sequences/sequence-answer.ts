// What is asked of the memory of sequences for one event, and what it says (types alone; between ingestion, the store
// in Redis and what does the same in memory).
import type { Outcome } from '../../../schemas/closed-sets.ts';
import type { Amount } from './summed-amount.ts';

/** The value of an event that has not one. */
export const ANY_VALUE = '*';

/** Where one policy keeps what has occurred. */
export type Memory = {
  name: string;
  windowMs: number;
  steps: number;
  atLeast: number;
  hasUnless: boolean;
  /** The bound of the sum of the last step's amounts, which a match exceeds; null: they are not added up. */
  most: Amount | null;
};
/** `own`: agent, account, trace or value; null: the event has none. `agent`: in whose stead then; null: none is. */
export type SequenceScope = { own: string | null; agent: string | null };
/** `value`: of `same`, hashed; ANY_VALUE: it has not one. */
export type SequenceAsk = { memory: Memory; scope: SequenceScope; value: string; amount: Amount; effect: Outcome };
/** `path`: where the event is the step; '' if that is not said. */
export type MarkedPlace = { place: number; path: string; isOfAnyOutcome: boolean };
export type SequenceMark = {
  memory: Memory;
  scope: SequenceScope;
  value: string;
  /** If it is the last step. */
  amount: Amount;
  /** The last first: an event does not come before itself. */
  places: readonly MarkedPlace[];
};

/**
 * `outcome`: what all but the sequences make of it. `later`: what it is a step of once it is recorded, and approved if
 * it has to be; that may come within `waitMs`. `isOpen`: what is asked later may block it, e.g. a check outside.
 * `times`: it stands for so many neighbours that are alike, of which it is the last (`isRepeatable`).
 */
export type SequenceEvent = {
  id: string;
  agent: string;
  outcome: Outcome;
  asks: readonly SequenceAsk[];
  marks: readonly SequenceMark[];
  later: readonly SequenceMark[];
  waitMs: number;
  isOpen?: boolean;
  times?: number;
  /** Where it is not that of the call: those of one submission are recorded together or not at all. */
  submission?: string;
};

export type Occurrence = { id: string; atMs: number; path: string };
export type SequenceReason = 'state_unknown' | 'budget';
/**
 * That the sequence matches. `after`: the steps that occurred. `reason`: why it counts as a match all the same.
 * `waitsFor`: an event that is `unless` once it is approved.
 */
export type SequenceMatch = {
  after: readonly Occurrence[];
  reason?: SequenceReason;
  waitsFor?: string;
};
/** One for each ask; null: it does not match. */
export type SequenceAnswers = readonly (SequenceMatch | null)[];

/**
 * Is it the same to ask about neighbours that are alike one by one, and to ask once and keep the last of them? No step
 * goes on from another of theirs, nothing is added up, and none of them is asked about what the others are steps of.
 */
export function isRepeatable({ asks, marks, later, isOpen }: Omit<SequenceEvent, 'id' | 'agent'>): boolean {
  if (later.length > 0 || isOpen === true) return false;
  return marks.every(
    ({ memory, places }) =>
      places.length === 1 &&
      places[0]!.place > 0 &&
      memory.most === null &&
      asks.every((ask) => ask.memory.name !== memory.name),
  );
}
