// What an event means for the sequences of its account: which of their steps it is, and what has to be asked of those
// whose own conditions it meets (between judgement and the memory of what has occurred: sequence-memory.ts, and
// src/redis/sequences.lua, which all processes share). Plain data but for what explains a match.
// Invariant: what the sender leaves out or writes twice takes nothing away. An event without its trace, or without one
// value at the path of `per`, belongs to all that its agent does; without one value of `same` it is equal to every one.
// What cannot be evaluated is a step of `after`, and none of `unless`.
import { createHmac } from 'node:crypto';
import { getOrMake } from '../../common/maps.ts';
import { Budget, EXPLAIN_UNITS, fieldUnits, withinBudget } from '../budget.ts';
import type { Rule } from '../compile.ts';
import type { Path } from '../conditions/path.ts';
import { conditionsDetail, conditionsHeld } from '../explain.ts';
import type { Detail, EventView, IndexedRule, SequencePart, SequenceSink } from '../judgement.ts';
import { counterValue } from '../kinds/rate-limit.ts';
import type { SequenceTerms } from '../kinds/sequence.ts';
import {
  ANY_VALUE,
  type MarkedPlace,
  type Memory,
  type SequenceAsk,
  type SequenceMark,
  type SequenceScope,
} from './sequence-answer.ts';
import { amountAt, ZERO } from './summed-amount.ts';

/** `detail`: of a step, where it was found; of either, what could not be evaluated. */
export type Noted = { entry: IndexedRule; detail: Detail | null };
type How = {
  /** By which values are hashed. */
  key: string;
  /** Keys of the payload may be secrets. */
  isSecret: boolean;
  /** Is it asked where a step was? */
  isTold: boolean;
  /** Why a condition counts as met. */
  reasonOf: (entry: IndexedRule) => Detail | undefined;
  charge: (units: number) => void;
};

export function sequencePart(noted: readonly Noted[], event: EventView, how: How): SequencePart {
  const sinks: SequenceSink[] = [];
  const marks = new Map<IndexedRule, SequenceMark & { places: MarkedPlace[] }>();
  for (const { entry, detail } of noted) {
    const unevaluated = detail !== null && 'reason' in detail ? detail : how.reasonOf(entry);
    const { step } = entry;
    if (step === null) sinks.push(sinkOf(entry, event, { unevaluated, how }));
    else if (step.place !== 0 || unevaluated === undefined) {
      const mark = getOrMake(marks, step.of, () => ({ ...placed(step.of, event, 'before', how), places: [] }));
      const path = how.isTold ? pathOf({ entry, detail }, event, how) : '';
      mark.places.push({ place: step.place, path, isOfAnyOutcome: step.isOfAnyOutcome });
    }
  }
  for (const { places } of marks.values()) places.sort((a, b) => b.place - a.place);
  return {
    sinks,
    marks: [...marks.values()],
    isSecret: noted.some(({ entry }) => entry.rule.terms.type === 'data_filter'),
  };
}

function sinkOf(
  entry: IndexedRule,
  event: EventView,
  { unevaluated, how }: { unevaluated: Detail | undefined; how: How },
): SequenceSink {
  return { ask: { ...placed(entry, event, 'now', how), effect: entry.outcome }, entry, event, unevaluated };
}

function placed(entry: IndexedRule, event: EventView, when: 'now' | 'before', how: How): Omit<SequenceAsk, 'effect'> {
  const { same, per, sum } = entry.rule.terms as SequenceTerms;
  const memory = memoryOf(entry.rule);
  const budget = new Budget(fieldUnits(event.payloadText.length));
  const amount = sum === null ? ZERO : amountAt(sum.path, event, budget);
  const texts = same.map((paths) => valueAt(paths[when], event));
  const isHashed = texts.length > 0 && texts.every((text) => text !== '');
  const value = isHashed ? hashed(how.key, JSON.stringify([memory.name, ...texts])) : ANY_VALUE;
  return { memory, scope: scopeOf(per, event), value: texts.length === 0 ? '' : value, amount };
}

/** Where a sequence keeps what has occurred. */
export function memoryOf({ policy: { id }, terms }: Rule): Memory {
  const { meaning, windowMs, steps, atLeast, hasUnless, sum } = terms as SequenceTerms;
  return { name: `${id}/${meaning}`, windowMs, steps, atLeast, hasUnless, most: sum?.gt ?? null };
}

/** Whose memory an event belongs to. */
export function scopeOf(per: SequenceTerms['per'], event: EventView): SequenceScope {
  const { agent_id: agent } = event;
  if (per === 'account') return { own: 'account', agent: null };
  if (per === 'agent') return { own: `agent ${agent}`, agent: null };
  const value = per === 'trace' ? (event.trace_id ?? '') : valueAt(per, event);
  return { own: value === '' ? null : `value ${value}`, agent };
}

/** '': none, more than one, or too much work. */
function valueAt(path: Path, event: EventView): string {
  return withinBudget(() => counterValue(path, event, new Budget(fieldUnits(event.payloadText.length))), '');
}

function hashed(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url').slice(0, 22);
}

function pathOf({ entry, detail }: Noted, event: EventView, { isSecret, charge }: How): string {
  if (detail !== null) return 'path' in detail ? (detail.path ?? '') : '';
  const budget = new Budget(EXPLAIN_UNITS);
  const held = conditionsHeld(entry.rule, event, { budget, isSecret });
  charge(budget.worked);
  return conditionsDetail(held).path ?? '';
}
