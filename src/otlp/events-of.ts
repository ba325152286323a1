// From spans to events, by the table of docs/joining.md (in the judging thread, between the decoders and the
// judgement). A span is asked of the dialects in order of precedence; what none knows is ignored and counted.
// Invariant: tokens are counted once for each call of a model: sums of agents and workflows stand under
// `payload.usage`, where nothing adds them up, and so does what a span around another says of the same call
// (nested-calls.ts). `content_captured: false` is said where nothing of content came. An event's time is its span's.

import type { EventType } from '../../schemas/closed-sets.ts';
import { given } from '../common/given.ts';
import { claudeCode } from './dialects/claude-code.ts';
import type { Dialect, ModelCall, Other, SpanReading, ToolCall } from './dialects/dialect.ts';
import { ownEvent } from './dialects/gatehouse.ts';
import { genAi } from './dialects/gen-ai.ts';
import { byKind } from './dialects/kinds.ts';
import { type ChatMessage, isMessage, lastUserText, type SpokenContent, textOfMessage } from './dialects/messages.ts';
import { openInference } from './dialects/openinference.ts';
import { traceloop } from './dialects/traceloop.ts';
import { saysUsage, type Usage } from './dialects/usage.ts';
import { member } from './dialects/values.ts';
import { vercelAi } from './dialects/vercel-ai.ts';
import { contentOfEvent, isUnread } from './log-records.ts';
import { countedBeside } from './nested-calls.ts';
import { type AttributeValue, shortened, type TraceSpan, textOf } from './span.ts';

type UsageByReading = ReadonlyMap<SpanReading, Usage>;
export type Payload = { [key: string]: AttributeValue };
/** `atMs`: epoch ms. */
export type SpanEventOut = { type: EventType; atMs: number; payload: Payload };

/** In order of precedence. Claude Code's spans have some gen_ai names as well, and say less in them. */
const DIALECTS: readonly Dialect[] = [openInference, claudeCode, genAi, vercelAi, traceloop, byKind];

/** In which conversation, whatever dialect it is. */
const CONVERSATION = [...new Set(DIALECTS.flatMap(({ conversation }) => conversation))];

/** The events of each span; none where it is of no interest. */
export function eventsOf(spans: readonly TraceSpan[]): SpanEventOut[][] {
  const own = spans.map(ownEvent);
  const readings = spans.map((span, i) => (own[i] === undefined ? readingOf(span) : undefined));
  const counted = countedBeside(spans, readings);
  return spans.map((span, i) => {
    const [mine, reading] = [own[i], readings[i]];
    if (mine !== undefined)
      return [{ type: mine.type, atMs: span.startMs, payload: { ...mine.payload, otel: placeOf(span) } }];
    const found = reading === undefined ? [] : eventsOfReading(span, reading, counted);
    if (span.records !== undefined) return ofRecords(span, reading, found);
    return reading === undefined ? [] : [...found, ...evaluationsOf(span), ...errorOf(span, reading)];
  });
}

/**
 * Log records are part of a call: the part of it that they do not describe is no event, and the usage that the span
 * counts is not counted again. A record that is none of these is kept under its name.
 */
function ofRecords(span: TraceSpan, reading: SpanReading | undefined, found: readonly SpanEventOut[]): SpanEventOut[] {
  const isCounted = span.parentSpanId === '' && reading?.kind === 'model' && saysUsage(reading.usage);
  const reported = found.filter(({ type, payload }) =>
    type === 'completion' ? isCounted || !('content_captured' in payload) : !('content_captured' in payload),
  );
  const events = [...reported, ...evaluationsOf(span), ...errorOf(span, reading)];
  const isNothing = events.length === 0 && found.length === 0;
  const others = span.events.filter((event, i) => isUnread(event) || (isNothing && i === 0));
  const asTheyCame = others.map((event) =>
    customOf(span, { kind: 'custom', what: event.name, input: contentOfEvent(event) }),
  );
  return [...events, ...asTheyCame];
}

function readingOf(span: TraceSpan): SpanReading | undefined {
  for (const dialect of DIALECTS) {
    const reading = dialect.read(span);
    if (reading === 'ignored') return undefined;
    if (reading !== undefined) return reading;
  }
  return undefined;
}

function eventsOfReading(span: TraceSpan, reading: SpanReading, counted: UsageByReading): SpanEventOut[] {
  switch (reading.kind) {
    case 'model':
      return [promptOf(span, reading), completionOf(span, reading, counted.get(reading))];
    case 'tool':
      return [toolEventOf(span, reading)];
    default:
      return [customOf(span, reading)];
  }
}

function promptOf(span: TraceSpan, call: ModelCall): SpanEventOut {
  const { requested, answered, provider, sent } = call;
  const system = call.system ?? systemOf(sent);
  const payload = {
    model: requested ?? answered,
    provider,
    ...(sent === undefined && system === undefined ? { content_captured: false } : {}),
    prompt: sent && lastUserText(sent),
    system,
    messages: sent && listedOf(sent),
    details: sent?.details,
    otel: placeOf(span),
  };
  return { type: 'prompt', atMs: span.startMs, payload: given(payload) };
}

/** As messages; what is none as it came. */
function listedOf({ messages, asCame }: SpokenContent): AttributeValue | undefined {
  return messages.length === 0 ? asCame : [...messages];
}

/** `counted`: what is counted of it, where that is not all that it says. */
function completionOf(span: TraceSpan, call: ModelCall, counted: Usage | undefined): SpanEventOut {
  const { requested, answered, given: said, usage, finishReasons } = call;
  const payload = {
    model: answered ?? requested,
    ...(said === undefined ? { content_captured: false } : answerOf(said)),
    token_count: (counted ?? usage).inputTokens,
    tokens_used: (counted ?? usage).totalTokens,
    usage: counted && saysUsage(usage) ? sumsOf(usage) : undefined,
    cached_tokens: usage.cachedTokens,
    finish_reasons: finishReasons === undefined ? undefined : [...finishReasons],
    otel: placeOf(span),
  };
  return { type: 'completion', atMs: Math.max(span.startMs, span.endMs), payload: given(payload) };
}

/** Roles of those who speak to the model: an answer may come with all that was before it. */
const NOT_THE_MODEL = new Set(['user', 'human', 'system', 'developer', 'tool', 'function']);
/** The members of a message that `response`, `tool_calls` and `finish_reasons` say. */
const SAID_ELSEWHERE = new Set(['role', 'content', 'tool_calls', 'finish_reason', 'index', 'id', 'type']);

/** `messages`: where the text and the calls are not all of it. */
function answerOf({ messages, asCame, details }: SpokenContent): { [key: string]: AttributeValue | undefined } {
  const replies = messages.filter(isMessage).filter(({ role }) => !NOT_THE_MODEL.has(role.toLowerCase()));
  const texts = replies.map(textOfMessage).filter((text) => text !== undefined);
  const calls = replies.flatMap((reply) => reply['tool_calls'] ?? []) as AttributeValue[];
  const isAll = messages.length === replies.length && replies.every(isTextAndCalls);
  return {
    response: texts.length === 0 ? asCame : texts.join('\n'),
    tool_calls: calls.length === 0 ? undefined : calls,
    messages: isAll ? undefined : [...messages],
    details,
  };
}

function isTextAndCalls(reply: ChatMessage): boolean {
  const { content } = reply;
  return (
    (content === undefined || typeof content === 'string') && Object.keys(reply).every((key) => SAID_ELSEWHERE.has(key))
  );
}

function toolEventOf(span: TraceSpan, { tool, arguments: args, callId, result }: ToolCall): SpanEventOut {
  const payload = {
    tool,
    arguments: args,
    call_id: callId,
    result,
    ...(args === undefined && result === undefined ? { content_captured: false } : {}),
    duration_ms: durationOf(span),
    otel: placeOf(span),
  };
  return { type: 'tool_call', atMs: span.startMs, payload: given(payload) };
}

/** The event of another span. The sum of other spans has nothing under `tokens_used`. */
function customOf(span: TraceSpan, { what, input, output, usage = {} }: Other): SpanEventOut {
  const sums = sumsOf(usage);
  const payload = {
    kind: what,
    name: span.name,
    input,
    output,
    usage: Object.keys(sums).length === 0 ? undefined : sums,
    duration_ms: durationOf(span),
    otel: placeOf(span),
  };
  return { type: 'custom', atMs: span.startMs, payload: given(payload) };
}

/** A total is said where it is all that is known. */
function sumsOf({ inputTokens, outputTokens, totalTokens }: Usage): Payload {
  const isAlone = inputTokens === undefined && outputTokens === undefined;
  return given({
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    total_tokens: isAlone ? totalTokens : undefined,
  });
}

/** The results of evaluators, as events of the span that they judge. */
function evaluationsOf(span: TraceSpan): SpanEventOut[] {
  return span.events
    .filter(({ name }) => name === 'gen_ai.evaluation.result')
    .map(({ attributes, timeMs }) => ({
      type: 'custom',
      atMs: timeMs || span.startMs,
      payload: given({
        kind: 'evaluation',
        name: textOf(attributes, 'gen_ai.evaluation.name'),
        score: attributes.get('gen_ai.evaluation.score.value'),
        label: textOf(attributes, 'gen_ai.evaluation.score.label'),
        explanation: textOf(attributes, 'gen_ai.evaluation.explanation'),
        otel: placeOf(span),
      }),
    }));
}

function errorOf(span: TraceSpan, reading: SpanReading | undefined): SpanEventOut[] {
  if (!span.isError) return [];
  const exception = span.events.find(({ name }) => /(^|\.)exception$/.test(name))?.attributes;
  const error = {
    type: textOf(span.attributes, 'error.type') ?? (exception && textOf(exception, 'exception.type')),
    message: span.statusMessage || (exception && textOf(exception, 'exception.message')),
  };
  const payload = {
    error: given(error),
    message: error.message,
    ...(reading?.kind === 'tool' ? { tool: reading.tool } : {}),
    ...(reading?.kind === 'model' ? { model: reading.answered ?? reading.requested } : {}),
    otel: placeOf(span),
  };
  return [{ type: 'error', atMs: Math.max(span.startMs, span.endMs), payload: given(payload) }];
}

/** Where the span stands. */
function placeOf(span: TraceSpan): Payload {
  const { scope, attributes, records } = span;
  const [spanId, parentSpanId] = records === undefined ? [span.spanId, span.parentSpanId] : [span.parentSpanId, ''];
  return given({
    span_id: spanId === '' ? undefined : spanId,
    parent_span_id: parentSpanId === '' ? undefined : parentSpanId,
    conversation_id: word(textOf(attributes, ...CONVERSATION)),
    scope: scope === '' ? undefined : scope,
    log_records: records,
    decision_id: word(textOf(attributes, 'gatehouse.decision.id')),
  });
}

function word(text: string | undefined): string | undefined {
  return text === undefined ? undefined : shortened(text);
}

function systemOf(sent: SpokenContent | undefined): AttributeValue | undefined {
  const isSystem = (one: AttributeValue) => isMessage(one) && (one.role === 'system' || one.role === 'developer');
  return sent?.system ?? member(sent?.messages.find(isSystem), 'content');
}

function durationOf({ startMs, endMs }: TraceSpan): number | undefined {
  return endMs > startMs ? Math.round(endMs - startMs) : undefined;
}
