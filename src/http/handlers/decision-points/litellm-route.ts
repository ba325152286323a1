// LiteLLM's generic guardrail: what goes to a model and what comes back.
// https://docs.litellm.ai/docs/adding_provider/generic_guardrail_api
// Invariant: all that it sends of a call is judged, by its own name, but for what it says of the caller (ABOUT). What a
// policy redacts goes back in `texts`, or is BLOCKED: what LiteLLM takes back of tools, calls, images and the model is
// not verified. Its messages (`structured_messages`) are made of the texts, which it puts into them again.
import { Compile } from 'typebox/compile';
import type { Json } from '../../../../schemas/common.ts';
import { LiteLlmAnswer, LiteLlmCheck } from '../../../../schemas/decision-points.ts';
import { exactJson, parseExact } from '../../../common/exact-json.ts';
import { itemsOf, jsonOf, textAt } from '../../../common/json-text.ts';
import { ObjectText, objectOfPairs } from '../../../common/object-text.ts';
import { validationFailed } from '../../../common/validation.ts';
import { bodyOf } from '../../../ingest/hook-reading.ts';
import { eventBody, route } from '../../route.ts';
import {
  answer,
  POINT_OPERATION,
  POINT_ROUTE,
  type PointCall,
  type PointQuestion,
  type PointVerdict,
  pointQuery,
  redactedBy,
  traceOf,
} from './decision-point.ts';

const PATH = '/beta/litellm_basic_guardrail_api';

/** Who calls, and how LiteLLM is set up. */
const ABOUT = new Set([
  ...['input_type', 'litellm_trace_id', 'litellm_call_id', 'litellm_version', 'litellm_metadata'],
  ...['request_data', 'request_headers', 'additional_provider_specific_params'],
]);

const validator = Compile(LiteLlmCheck);

export const liteLlmRoute = route({
  ...POINT_ROUTE,
  path: PATH,
  query: pointQuery,
  body: eventBody('event', LiteLlmCheck),
  operation: {
    id: 'decideLiteLlmCheck',
    ...POINT_OPERATION,
    summary: "Answer LiteLLM's generic guardrail",
    description:
      'What goes to a model is judged as a `prompt`, what comes back as a `completion`. Where a policy redacts, `texts` are what LiteLLM should use; what it redacts elsewhere is blocked.',
    answers: { 200: { description: 'What was decided', schema: LiteLlmAnswer } },
    bodyExample: { texts: ['Where is my order?'], input_type: 'request', model: 'gpt-4o' },
  },
  submit(call: PointCall, parts, caller) {
    const check = bodyOf(call.body, LiteLlmCheck, validator);
    const question = questionOf(check);
    const sent = ObjectText.of(question.event.payload)!;
    answer(call, parts, { question, answerOf: (verdict) => answerOf(sent, verdict) }, caller);
  },
});

/** Throws ServiceError validation_failed. */
function questionOf(check: ObjectText): PointQuestion {
  const own = check.keys.find((key) => OWN.has(key));
  if (own !== undefined)
    throw validationFailed('The question cannot be read.', [
      { path: `/${own}`, message: 'is made of other members here' },
    ]);
  const isResponse = check.string('input_type') === 'response';
  const last = lastOf(check.raw('texts'));
  const members = check.keys.filter((key) => !ABOUT.has(key)).map((key) => [key, check.raw(key)!] as const);
  const call = check.raw('litellm_call_id');
  const payload = objectOfPairs([
    ...(last === undefined ? [] : [[isResponse ? 'response' : 'prompt', last] as const]),
    ...members,
    ...(call === undefined ? [] : [['call_id', call] as const]),
  ]);
  const trace = traceOf(check.string('litellm_trace_id'));
  return {
    purpose: PATH,
    otherwise: 'litellm',
    event: { type: isResponse ? 'completion' : 'prompt', payload, trace },
  };
}

/** Members of the payload that are made here; by these names LiteLLM sends none. */
const OWN: ReadonlySet<string> = new Set(['prompt', 'response', 'call_id']);

function lastOf(texts: string | undefined): string | undefined {
  const last = texts === undefined ? undefined : itemsOf(texts)?.at(-1);
  return last === undefined ? undefined : textAt(texts!, last);
}

function answerOf(sent: ObjectText, { reason, redacted, result }: PointVerdict): string {
  if (reason !== undefined) return jsonOf({ action: 'BLOCKED', blocked_reason: reason });
  if (redacted === undefined) return jsonOf({ action: 'NONE' });
  const changed = sent.keys.filter((key) => sent.raw(key) !== redacted.raw(key));
  const given = givenBack(sent, redacted);
  const lost = changed.filter((key) => !isGivenBack(key, { sent, redacted, given }));
  if (lost.length > 0) {
    const why = `${redactedBy(result)} redacts part of ${lost.join(', ')}, which LiteLLM cannot be given back.`;
    return jsonOf({ action: 'BLOCKED', blocked_reason: why });
  }
  const texts = redacted.raw('texts');
  if (texts === undefined || !changed.includes('texts')) return jsonOf({ action: 'NONE' });
  return `{"action":"GUARDRAIL_INTERVENED","texts":${texts}}`;
}

/** `last`: JSON of what is left of the last of `texts`. */
type TextsLeft = { left: ReadonlyMap<string, string>; last: string | undefined };
type Redaction = { sent: ObjectText; redacted: ObjectText; given: TextsLeft };

function isGivenBack(key: string, { sent, redacted, given }: Redaction): boolean {
  if (key === 'texts') return redacted.has('texts');
  if (key === 'prompt' || key === 'response') return given.last === redacted.raw(key);
  if (key !== 'structured_messages') return false;
  return isMadeOf(given.left, parseExact(sent.raw(key)!), parseExact(redacted.raw(key) ?? 'null'), []);
}

/** The redacted form of each of `texts`, by the text that was sent; of equal ones the first counts. */
function givenBack(sent: ObjectText, redacted: ObjectText): TextsLeft {
  const [before, after] = [sent, redacted].map((of) => {
    const texts = of.raw('texts') ?? '[]';
    return (itemsOf(texts) ?? []).map((item) => textAt(texts, item));
  }) as [string[], string[]];
  const left = new Map<string, string>();
  for (const [i, text] of before.entries()) {
    const [said, what] = [parseExact(text), after[i] === undefined ? undefined : parseExact(after[i])];
    if (typeof said === 'string' && typeof what === 'string' && !left.has(said)) left.set(said, what);
  }
  return { left, last: after[before.length - 1] };
}

/** Where the text of a message stands: `/0/content`, `/0/content/1/text`. */
const OF_MESSAGE = /^\d+\/content(\/\d+\/text)?$/;

/** Do the two differ in nothing but texts of messages that are given back, each as it is in `texts`? */
function isMadeOf(given: ReadonlyMap<string, string>, sent: Json, left: Json, path: readonly string[]): boolean {
  if (typeof sent === 'string' && typeof left === 'string')
    return sent === left || (OF_MESSAGE.test(path.join('/')) && given.get(sent) === left);
  if (typeof sent !== 'object' || sent === null || typeof left !== 'object' || left === null)
    return exactJson(sent) === exactJson(left);
  const keys = Object.keys(sent);
  if (Array.isArray(sent) !== Array.isArray(left) || jsonOf(keys) !== jsonOf(Object.keys(left))) return false;
  return keys.every((key) => {
    const at = (of: Json) => (of as Record<string, Json>)[key]!;
    return isMadeOf(given, at(sent), at(left), [...path, key]);
  });
}
