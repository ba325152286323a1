// external_check: its fields say which events a check outside is asked about; it matches by what the check says. `when`
// reads the verdict: a score, labels; without it the check's own word decides. For a check that says nothing, in time
// or at all, the policy has a word that its author must choose: nothing opens unasked. The engine says only that the
// check is to be asked: ingest/outside-judging.ts asks, and outside.ts concludes.
import { ON_CHECK_FAILURE, type OnCheckFailure } from '../../../schemas/closed-sets.ts';
import type { FoundSpan } from '../../../schemas/external-check.ts';
import { isObject } from '../../common/exact-number.ts';
import { type Path, parsePath } from '../conditions/path.ts';
import { below, type Mistakes } from '../policy-error.ts';
import type { PolicyConditions, PolicyKind } from './policy-kind.ts';

/** `labels`: of which the check says one. Both must hold where both are there. */
type CheckWhen = { score: readonly [ScoreOperator, number][]; labels: ReadonlySet<string> | null };
/** `fields`: of the payload, and as the policy writes them; null: all its text. */
export type ExternalCheckTerms = {
  type: 'external_check';
  check: string;
  fields: { paths: readonly Path[]; texts: readonly string[] } | null;
  when: CheckWhen | null;
  on: { timeout: OnCheckFailure; error: OnCheckFailure; overload: OnCheckFailure };
  /** How long an event waits for a person where the check said nothing. */
  timeoutSeconds: number;
  onTimeout: 'deny';
  /** Its findings are redacted in the event that is kept. */
  redact: boolean;
  /** It is asked after the reply, and stops nothing. */
  isWatch: boolean;
};

const SCORE_OPERATORS = ['gt', 'gte', 'lt', 'lte'] as const;
type ScoreOperator = (typeof SCORE_OPERATORS)[number];
const ON = ['on_timeout', 'on_error', 'on_overload'] as const;
const FIELDS_MAX = 20;
const LABELS_MAX = 50;
const PENDING_SECONDS = 3_600;

export const externalCheck: PolicyKind<ExternalCheckTerms> = {
  reserved: ['check', 'fields', 'when', 'redact', 'mode', ...ON],
  compile(conditions, at, { mistakes }) {
    const known = mistakes.details.length;
    const { check } = conditions;
    if (typeof check !== 'string' || check === '')
      mistakes.add(below(at, 'check'), check === undefined ? 'is required: the name of a check' : 'must name a check');
    for (const key of ON) readWord(conditions[key], below(at, key), mistakes);
    const fields = readFields(conditions['fields'], below(at, 'fields'), mistakes);
    const isWatch = readMode(conditions, at, mistakes);
    const redact = readRedact(conditions, at, mistakes);
    const when = readWhen(conditions['when'], below(at, 'when'), mistakes);
    if (mistakes.details.length > known) return undefined;
    const [timeout, error, overload] = ON.map((key) => conditions[key] as OnCheckFailure);
    return {
      ...{ type: 'external_check', check: check as string, fields, when, redact, isWatch },
      on: { timeout: timeout!, error: error!, overload: overload! },
      ...{ timeoutSeconds: PENDING_SECONDS, onTimeout: 'deny' },
    };
  },
};

export function outsideAsks(rules: readonly { terms: { type: string; isWatch?: boolean } }[]) {
  const isAsking = (isWatch: boolean) =>
    rules.some(({ terms }) => terms.type === 'external_check' && terms.isWatch === isWatch);
  return { asks: isAsking(false), watches: isAsking(true) };
}

/** Replacing one string, about 1.5 µs, of the two quotes that it has. */
const QUOTE_UNITS = 300;

/** Units that redacting what checks find takes at most: charged before they are asked, which is done once. */
export function outsideUnits(
  entries: readonly { rule: { terms: { type: string; redact?: boolean } } }[],
  { payloadText }: { payloadText: string },
): number {
  const redacting = entries.filter(({ rule }) => rule.terms.redact).length;
  if (redacting === 0) return 0;
  let quotes = 0;
  for (let at = payloadText.indexOf('"'); at >= 0; at = payloadText.indexOf('"', at + 1)) quotes++;
  return redacting * (payloadText.length + QUOTE_UNITS * quotes);
}

/** The detail of a match for which no one was asked, since a condition could not be evaluated. */
export function outsideDetail<T extends object>(terms: { type: string; redact?: boolean }, detail: T | null) {
  if (terms.type !== 'external_check' || terms.redact !== true) return detail;
  return { ...detail!, redacted: true } as const;
}

/** Those of what was found that the policy asks for; one that says neither what nor how surely is. */
export function isAskedFor(when: CheckWhen | null, { label, score }: Pick<FoundSpan, 'label' | 'score'>): boolean {
  if (when === null) return true;
  if (when.labels !== null && label !== null && !when.labels.has(label)) return false;
  return score === null || when.score.every(([operator, bound]) => compares(operator, score, bound));
}

/** null: the verdict has no score, and the policy asks for one. */
export function whenHolds(when: CheckWhen, score: number | null, labels: readonly string[]): boolean | null {
  if (when.score.length > 0 && score === null) return null;
  const isLabelled = when.labels === null || labels.some((label) => when.labels!.has(label));
  return isLabelled && when.score.every(([operator, bound]) => compares(operator, score!, bound));
}

function compares(operator: ScoreOperator, score: number, bound: number): boolean {
  if (operator === 'gt') return score > bound;
  if (operator === 'gte') return score >= bound;
  return operator === 'lt' ? score < bound : score <= bound;
}

function readWord(value: unknown, at: string, mistakes: Mistakes): void {
  if (ON_CHECK_FAILURE.includes(value as OnCheckFailure)) return;
  const words = ON_CHECK_FAILURE.join(', ');
  mistakes.add(at, value === undefined ? `is required: one of ${words}` : `must be one of ${words}`);
}

/** Nothing waits for a person that has gone its way. */
function readMode(conditions: PolicyConditions, at: string, mistakes: Mistakes): boolean {
  const { mode } = conditions;
  if (mode === undefined) return false;
  if (mode !== 'watch') mistakes.add(below(at, 'mode'), 'must be `watch`, or left out');
  for (const key of ON)
    if (conditions[key] === 'pending')
      mistakes.add(below(at, key), 'must not be `pending` beside `mode`: nothing waits');
  return true;
}

/** Reads `redact`. No failure may be `pending` beside it: nothing could be redacted, nor shown to who decides. */
function readRedact(conditions: PolicyConditions, at: string, mistakes: Mistakes): boolean {
  const { redact = false, mode } = conditions;
  if (typeof redact !== 'boolean') mistakes.add(below(at, 'redact'), 'must be true or false');
  if (redact !== true) return false;
  if (mode !== undefined) mistakes.add(below(at, 'redact'), 'is not for `mode`: what is recorded stays as it is');
  for (const key of ON)
    if (conditions[key] === 'pending')
      mistakes.add(below(at, key), 'must be `match` or `skip` beside `redact`: a person would have nothing to read');
  return true;
}

function readFields(value: unknown, at: string, mistakes: Mistakes): ExternalCheckTerms['fields'] {
  if (value === undefined) return null;
  if (!Array.isArray(value) || value.length === 0 || value.length > FIELDS_MAX) {
    mistakes.add(at, `must be an array of 1 to ${FIELDS_MAX} paths`);
    return null;
  }
  const paths = value.flatMap((text, i) => {
    const path = typeof text === 'string' ? parsePath(text) : 'must be a path';
    if (typeof path === 'object' && path.root === 'payload') return [path];
    mistakes.add(below(at, i), typeof path === 'string' ? path : 'must lead into the payload');
    return [];
  });
  return { paths, texts: value as string[] };
}

function readWhen(value: unknown, at: string, mistakes: Mistakes): CheckWhen | null {
  if (value === undefined) return null;
  if (!isObject(value)) {
    mistakes.add(at, 'must be an object with `score`, `labels` or both');
    return null;
  }
  const { score, labels, ...others } = value;
  for (const key of Object.keys(others)) mistakes.add(below(at, key), 'unknown: `score` and `labels` can be asked for');
  if (score === undefined && labels === undefined) mistakes.add(at, 'must have `score` or `labels`');
  return {
    score: score === undefined ? [] : readScore(score, below(at, 'score'), mistakes),
    labels: labels === undefined ? null : readLabels(labels, below(at, 'labels'), mistakes),
  };
}

function readScore(value: unknown, at: string, mistakes: Mistakes): [ScoreOperator, number][] {
  const entries = isObject(value) ? Object.entries(value) : [];
  if (entries.length === 0) mistakes.add(at, `must be an object with ${SCORE_OPERATORS.join(', ')}`);
  return entries.flatMap(([operator, operand]) => {
    const isKnown = SCORE_OPERATORS.includes(operator as ScoreOperator);
    const bound = typeof operand === 'number' ? operand : Number.NaN;
    if (!isKnown) mistakes.add(below(at, operator), `unknown: must be one of ${SCORE_OPERATORS.join(', ')}`);
    else if (!(bound >= 0 && bound <= 1)) mistakes.add(below(at, operator), 'must be a number from 0 to 1');
    else return [[operator as ScoreOperator, bound] as [ScoreOperator, number]];
    return [];
  });
}

function readLabels(value: unknown, at: string, mistakes: Mistakes): ReadonlySet<string> {
  const isList = Array.isArray(value) && value.length > 0 && value.length <= LABELS_MAX;
  if (!isList || !value.every((label) => typeof label === 'string' && label !== ''))
    mistakes.add(at, `must be an array of 1 to ${LABELS_MAX} texts`);
  return new Set(Array.isArray(value) ? (value as string[]) : []);
}
