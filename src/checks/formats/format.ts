// What a format of a check does (types, and what all answers are held to): it writes the request that asks a service
// about texts, and reads its verdict. One file a format; formats.ts lists them. Pure.
// Invariant: an answer that does not fit the format throws Nonsense, and is an error by the policy's word: nothing that
// cannot be read is taken for "nothing found".
import type { EventType } from '../../../schemas/closed-sets.ts';
import type { CheckRecord, FoundSpan } from '../../../schemas/external-check.ts';

/** `payloadText`: the payload as it is kept, where the policy asks about all of it. */
export type CheckQuestion = {
  texts: readonly string[];
  policy: { id: string; name: string };
  event: { type: EventType; agentId: string; traceId: string | undefined; timestamp: string };
  payloadText: string | undefined;
};

/** `match`: the service's own word. null: it has none, as with `score`. `spans`: where it found something. */
export type CheckVerdict = {
  match: boolean | null;
  score: number | null;
  labels: readonly string[];
  spans: readonly FoundSpan[];
};

export type CheckFormat = {
  /** JSON. */
  request(check: Pick<CheckRecord, 'model' | 'prompt' | 'language'>, question: CheckQuestion): string;
  /** Throws Nonsense. `texts`: those that were asked about. */
  verdict(answer: unknown, texts: readonly string[]): CheckVerdict;
};

export class Nonsense extends Error {
  override name = 'Nonsense';
}

/** They are kept with the event, three checks of them in a row of a table. */
const LABELS_MAX = 64;
const LABEL_CHARACTERS_MAX = 100;

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Throws Nonsense. */
export function objectIn(value: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw new Nonsense();
  return value;
}

/** Throws Nonsense. */
export function listIn(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Nonsense();
  return value;
}

/** Throws Nonsense for anything but a number from 0 to 1. */
export function scoreIn(value: unknown): number {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1)) throw new Nonsense();
  return value;
}

/** Each once. Throws Nonsense. */
export function labelsIn(values: Iterable<unknown>): string[] {
  const labels = new Set<string>();
  for (const value of values) {
    if (typeof value !== 'string' || value.length > LABEL_CHARACTERS_MAX || !value.isWellFormed()) throw new Nonsense();
    if (value !== '') labels.add(value);
    if (labels.size > LABELS_MAX) throw new Nonsense();
  }
  return [...labels];
}

export const NO_SPANS: readonly FoundSpan[] = [];

/** `{match, score, labels}`, of which one must be there. Throws Nonsense. */
export function verdictIn(value: unknown): CheckVerdict {
  const { match, score, labels } = objectIn(value);
  if (match === undefined && score === undefined && labels === undefined) throw new Nonsense();
  if (match !== undefined && typeof match !== 'boolean') throw new Nonsense();
  return {
    match: match ?? null,
    score: score === undefined ? null : scoreIn(score),
    labels: labels === undefined ? [] : labelsIn(listIn(labels)),
    spans: NO_SPANS,
  };
}
