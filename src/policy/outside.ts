// Policies of the type external_check, from the judgement to the decision: what is to be asked about an event, and what
// the answers make of it (between decide.ts and the encoding; ingest/outside-judging.ts asks). Pure.
// Invariant: only an event that no policy of the account blocks is asked about; what is sent is the event as it is
// kept, with what filters redact redacted. Policies that ask one check about the same texts share a call; an event has
// CHECKS_OF_EVENT_MAX calls, and what goes beyond counts as overload. No answer is taken for "nothing found". What a
// check found is replaced in what is kept, where the policy redacts; without a place all that it was asked about.
import type { CheckFailure, OnCheckFailure } from '../../schemas/closed-sets.ts';
import type { Json } from '../../schemas/common.ts';
import type { FoundSpan } from '../../schemas/external-check.ts';
import type { AskedCheck, ExternalCheckDetail } from '../../schemas/match-detail.ts';
import { parseExact } from '../common/exact-json.ts';
import { Budget, EXPLAIN_UNITS, fieldUnits, withinBudget } from './budget.ts';
import { type Path, visitPath } from './conditions/path.ts';
import { decisionOf } from './decide.ts';
import { conditionsHeld } from './explain.ts';
import {
  byOrder,
  type Decision,
  type EventView,
  type IndexedRule,
  isFilter,
  type Judgement,
  type RuleMatch,
} from './judgement.ts';
import { type ExternalCheckTerms, isAskedFor, whenHolds } from './kinds/external-check.ts';
import { isDryRun } from './kinds/policy-kind.ts';
import { OutsideRedaction } from './redaction/outside-redaction.ts';
import { redact } from './redaction/redact-payload.ts';

/** A check that is asked once about an event, for these policies. */
type OutsideQuestion = {
  check: string;
  fields: readonly string[] | null;
  entries: IndexedRule[];
  /** undefined: nothing is sent, and `failure` is the answer. */
  texts: readonly string[] | undefined;
  failure: CheckFailure | undefined;
};
/** `payloadText`, `traceId`: as they are kept. */
export type OutsideAsked = {
  questions: OutsideQuestion[];
  event: EventView;
  payloadText: string;
  traceId: string | undefined;
  /** The value that `payloadText` was parsed to. */
  payload: Json;
  /** A step of a sequence found a secret in it. */
  isOfSecret: boolean;
};
/** The answer of a check to a question. */
export type OutsideAnswer = (
  | {
      verdict: {
        match: boolean | null;
        score: number | null;
        labels: readonly string[];
        spans: readonly FoundSpan[];
      };
    }
  | { failure: CheckFailure }
) & { ms: number };

/** The answer of a check, after the reply, about an event of these policies; plain data. */
export type WatchVerdict = {
  check: string;
  fields: readonly string[] | null;
  policyIds: readonly string[];
  answer: OutsideAnswer;
};

const CHECKS_OF_EVENT_MAX = 3;
/** They stand in the event's row: what more policies would ask is not listed. */
const CHECKS_SHOWN_MAX = 20;
/** Characters are one to three bytes; what is sent is measured again in bytes. */
const TEXT_CHARACTERS_MAX = 64 * 1024;

/** undefined: no check is to be asked about this event. `isWatch`: by those that are asked after the reply. */
export function outsideOf(
  { outside, sequences }: Judgement,
  { outcome, redacted }: Pick<Decision, 'outcome' | 'redacted'>,
  isWatch = false,
): OutsideAsked | undefined {
  if (outside === undefined || outcome === 'blocked') return undefined;
  const entries = outside.entries.filter((entry) => termsOf(entry).isWatch === isWatch);
  if (entries.length === 0) return undefined;
  const { event } = outside;
  const payloadText = redacted?.payloadText ?? event.payloadText;
  const payload = redacted === null ? event.payload : parseExact(payloadText);
  const questions = new Map<string, OutsideQuestion>();
  for (const entry of entries) {
    const { check, fields } = termsOf(entry);
    const key = JSON.stringify([check, fields?.texts ?? null]);
    const known = questions.get(key);
    if (known !== undefined) known.entries.push(entry);
    else {
      const texts = textsOf(payload, fields, payloadText.length);
      if (Array.isArray(texts) && texts.length === 0) continue;
      const isOver = questions.size >= CHECKS_OF_EVENT_MAX;
      const failure = isOver ? 'overload' : typeof texts === 'string' ? texts : undefined;
      const sent = failure === undefined ? (texts as string[]) : undefined;
      questions.set(key, { check, fields: fields?.texts ?? null, entries: [entry], texts: sent, failure });
    }
  }
  if (questions.size === 0) return undefined;
  const traceId = redacted === null ? event.trace_id : redacted.traceId;
  const isOfSecret = sequences?.isSecret === true;
  return { questions: [...questions.values()], event, payload, payloadText, traceId, isOfSecret };
}

/** The decision with what the checks said. `answers`: of the questions, in their order. */
export function withOutside(
  decision: Decision,
  asked: OutsideAsked,
  answers: readonly OutsideAnswer[],
  of: { entries: readonly IndexedRule[]; mintApprovalId: () => string },
): Decision {
  const { questions, event, isOfSecret } = asked;
  const before = matchesOf(decision, of.entries);
  const isSecret = before.some(isFilter) || isOfSecret;
  const redactions: OutsideRedaction[] = [];
  const found = questions.flatMap((question, i) =>
    question.entries.flatMap((entry): RuleMatch[] => {
      const match = matchOf(entry, answers[i]!, { event, isSecret });
      if (match === undefined || !termsOf(entry).redact) return match === undefined ? [] : [match];
      const texts = match.detail.reason === undefined ? question.texts : undefined;
      redactions.push(redactionOf(termsOf(entry), texts, answers[i]!));
      return [{ ...match, detail: { ...match.detail, redacted: true } }];
    }),
  );
  if (redactions.length === 0) return decided(decision, questions, answers, { found: [...before, ...found], ...of });
  const { payload, payloadText, traceId } = asked;
  const again = redact({ payload, payloadText, trace_id: traceId }, redactions);
  const redacted = { ...again, changed: [...(decision.redacted?.changed ?? []), ...again.changed] };
  const all = { found: [...before.map(withoutValue), ...found], ...of };
  return decided({ ...decision, redacted }, questions, answers, all);
}

type Found = { found: RuleMatch[]; mintApprovalId: () => string };

function decided(
  { redacted, limits }: Decision,
  questions: readonly OutsideQuestion[],
  answers: readonly OutsideAnswer[],
  { found, mintApprovalId }: Found,
): Decision {
  const checks = questions.slice(0, CHECKS_SHOWN_MAX).map((question, i) => askedCheck(question, answers[i]!));
  return decisionOf({ found: found.sort(byOrder), redacted, limits, checks }, mintApprovalId);
}

/** The match of a limit names a value of the payload, in which a check may have found something. */
function withoutValue(match: RuleMatch): RuleMatch {
  if (!('value' in match.detail)) return match;
  const { value: _, ...detail } = match.detail;
  return { ...match, detail };
}

/** `texts` undefined: the check did not say what the policy asks for. */
function redactionOf(
  { fields, when }: ExternalCheckTerms,
  texts: readonly string[] | undefined,
  answer: OutsideAnswer,
): OutsideRedaction {
  const all = texts === undefined || 'failure' in answer ? [] : answer.verdict.spans;
  const wanted = all.filter((span) => isAskedFor(when, span));
  // A verdict that holds for no place by itself holds for all of them.
  const found = (wanted.length === 0 ? all : wanted).map((span) => ({ text: texts![span.text]!, span }));
  return new OutsideRedaction(fields?.paths ?? null, found);
}

/** Whether a check may still block it. */
export function isOpenOutside({ outside }: Judgement): boolean {
  return outside?.entries.some((entry) => !termsOf(entry).isWatch) === true;
}

/** The decision on the event that says what a check said after the reply: its policies match it, and nothing more. */
export function withVerdict(
  decision: Decision,
  { check, fields, policyIds, answer }: WatchVerdict,
  of: { entries: readonly IndexedRule[]; mintApprovalId: () => string },
): Decision {
  const asking = of.entries.filter(({ step, rule }) => step === null && policyIds.includes(rule.policy.id));
  const question = { check, fields, entries: asking, texts: undefined, failure: undefined };
  const found = asking.flatMap((entry) => matchOf(entry, answer, { event: null, isSecret: true }) ?? []);
  return decided(decision, [question], [answer], { found: [...matchesOf(decision, of.entries), ...found], ...of });
}

function matchesOf({ matches }: Decision, entries: readonly IndexedRule[]): RuleMatch[] {
  return matches.map(({ policy_id: id, detail }) => ({
    ...{ entry: entries.find(({ rule, step }) => step === null && rule.policy.id === id)!, detail },
  }));
}

function termsOf({ rule }: IndexedRule): ExternalCheckTerms {
  return rule.terms as ExternalCheckTerms;
}

type Said = { holds: boolean | null; failure: CheckFailure; score?: number; labels?: string[] };

/** `holds` null: nothing by which it can be told, and `failure` is why. */
function saidOf({ when }: ExternalCheckTerms, answer: OutsideAnswer): Said {
  if ('failure' in answer) return { holds: null, failure: answer.failure };
  const { match, score, labels } = answer.verdict;
  return {
    ...{ holds: when === null ? match : whenHolds(when, score, labels), failure: 'error' },
    ...(score === null ? {} : { score }),
    ...(labels.length === 0 ? {} : { labels: [...labels] }),
  };
}

/** `skip`: it does not match. */
function wordOf({ on }: ExternalCheckTerms, { holds, failure }: Said): OnCheckFailure {
  if (holds !== null) return holds ? 'match' : 'skip';
  return on[failure === 'too_large' ? 'error' : failure];
}

/** undefined: it does not match. */
function matchOf(
  entry: IndexedRule,
  answer: OutsideAnswer,
  { event, isSecret }: { event: EventView | null; isSecret: boolean },
): RuleMatch | undefined {
  const terms = termsOf(entry);
  const { holds, failure, ...verdict } = saidOf(terms, answer);
  const word = wordOf(terms, { holds, failure });
  if (word === 'skip') return undefined;
  const isPending = word === 'pending' && !isDryRun(entry.rule.policy.actions);
  const held = event === null ? [] : conditionsHeld(entry.rule, event, { budget: new Budget(EXPLAIN_UNITS), isSecret });
  const detail: ExternalCheckDetail = {
    ...{ check: terms.check, ...verdict, ms: answer.ms },
    ...(holds === true ? {} : { reason: failure }),
    ...(isPending ? { pending: true } : {}),
    ...(held.length === 0 ? {} : { conditions: held }),
  };
  if (terms.isWatch) return { entry, detail, outcome: 'allowed' };
  return { entry, detail, ...(isPending ? { outcome: 'pending' } : {}) };
}

/**
 * The match of a policy with an event by the answers that checks gave when it came; none is asked again. undefined: it
 * does not match. null: it is unknown, since its check was not asked about the same fields.
 */
export function matchThen(
  entry: IndexedRule,
  event: EventView,
  checks: readonly AskedCheck[],
): RuleMatch | undefined | null {
  const { check, fields } = termsOf(entry);
  if (textsOf(event.payload, fields, event.payloadText.length).length === 0) return undefined;
  const key = JSON.stringify(fields?.texts);
  const then = checks.find((one) => one.check === check && JSON.stringify(one.fields) === key);
  return then === undefined ? null : matchOf(entry, answerThen(then), { event, isSecret: true });
}

function answerThen({ match, score, labels = [], reason, ms }: AskedCheck): OutsideAnswer {
  if (reason !== undefined) return { failure: reason, ms };
  return { verdict: { match: match ?? null, score: score ?? null, labels, spans: [] }, ms };
}

export function askedCheck(
  { check, fields }: Pick<OutsideQuestion, 'check' | 'fields'>,
  answer: OutsideAnswer,
): AskedCheck {
  const about = fields === null ? {} : { fields: [...fields] };
  if ('failure' in answer) return { check, ...about, reason: answer.failure, ms: answer.ms };
  const { match, score, labels } = answer.verdict;
  return {
    ...{ check, ...about },
    ...(match === null ? {} : { match }),
    ...(score === null ? {} : { score }),
    ...(labels.length === 0 ? {} : { labels: [...labels] }),
    ms: answer.ms,
  };
}

/** A word: why there is nothing that could be sent. */
function textsOf(payload: unknown, fields: ExternalCheckTerms['fields'], characters: number): string[] | CheckFailure {
  const texts: string[] = [];
  let length = 0;
  const add = (value: unknown): void => {
    if (length > TEXT_CHARACTERS_MAX) return;
    if (typeof value === 'string') {
      if (value.trim() === '') return;
      texts.push(value.toWellFormed());
      length += value.length;
    } else if (Array.isArray(value)) for (const one of value) add(one);
    else if (typeof value === 'object' && value !== null) for (const one of Object.values(value)) add(one);
  };
  if (fields === null) add(payload);
  else {
    const budget = new Budget(fieldUnits(characters));
    const visit = (value: unknown) => {
      add(value);
      return false;
    };
    const isUnread = (path: Path) => visitPath(payload, path, { budget, visit, unreadable: () => true });
    if (withinBudget(() => fields.paths.some(isUnread), true)) return 'error';
  }
  return length > TEXT_CHARACTERS_MAX ? 'too_large' : texts;
}
