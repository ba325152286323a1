// From spans to events, by the table of docs/joining.md (in the judging thread, between the decoders and the
// judgement). A span is asked of the dialects in order of precedence; what none knows is ignored and counted.
// Invariant: tokens are counted once for each call of a model: sums of agents and workflows stand under
// `payload.usage`, where nothing adds them up. An event's time is its span's.

import type { EventType } from '../../schemas/closed-sets.ts';
import { given } from '../common/given.ts';
import { claudeCode } from './dialects/claude-code.ts';
import type { Dialect, ModelCall, Other, SpanReading, ToolCall } from './dialects/dialect.ts';
import { ownEvent } from './dialects/gatehouse.ts';
import { genAi, modelCallOf } from './dialects/gen-ai.ts';
import { type ChatMessage, lastUserText, textOfMessage } from './dialects/messages.ts';
import { openInference } from './dialects/openinference.ts';
import { traceloop } from './dialects/traceloop.ts';
import { vercelAi } from './dialects/vercel-ai.ts';
import { type AttributeValue, type TraceSpan, textOf } from './span.ts';

export type Payload = { [key: string]: AttributeValue };
/** `atMs`: epoch ms. */
export type SpanEventOut = { type: EventType; atMs: number; payload: Payload };

/** A span with a model's name and nothing else that is known. */
const anyModel: Dialect = {
  name: 'model',
  conversation: [],
  read: (span) =>
    textOf(span.attributes, 'gen_ai.request.model', 'gen_ai.response.model') === undefined
      ? undefined
      : modelCallOf(span),
};

/** In order of precedence. Claude Code's spans have some gen_ai names as well, and say less in them. */
const DIALECTS: readonly Dialect[] = [openInference, claudeCode, genAi, vercelAi, traceloop, anyModel];

/** In which conversation, whatever dialect it is. */
const CONVERSATION = [...new Set(DIALECTS.flatMap(({ conversation }) => conversation))];

/** Nothing where the span is of no interest. */
export function eventsOf(span: TraceSpan): SpanEventOut[] {
  const own = ownEvent(span);
  if (own !== undefined)
    return [{ type: own.type, atMs: span.startMs, payload: { ...own.payload, otel: placeOf(span) } }];
  const reading = readingOf(span);
  if (reading === undefined) return [];
  return [...eventsOfReading(span, reading), ...evaluationsOf(span), ...errorOf(span, reading)];
}

function readingOf(span: TraceSpan): SpanReading | undefined {
  for (const dialect of DIALECTS) {
    const reading = dialect.read(span);
    if (reading === 'ignored') return undefined;
    if (reading !== undefined) return reading;
  }
  return undefined;
}

function eventsOfReading(span: TraceSpan, reading: SpanReading): SpanEventOut[] {
  switch (reading.kind) {
    case 'model':
      return [promptOf(span, reading), completionOf(span, reading)];
    case 'tool':
      return [toolEventOf(span, reading)];
    default:
      return [customOf(span, reading)];
  }
}

function promptOf(span: TraceSpan, call: ModelCall): SpanEventOut {
  const { requested, answered, provider, messages, system } = call;
  const payload = {
    model: requested ?? answered,
    provider,
    ...(messages === undefined && system === undefined
      ? { content_captured: false }
      : {
          prompt: lastUserText(messages ?? []),
          system: system ?? systemOf(messages ?? []),
          messages: jsonMessages(messages),
        }),
    otel: placeOf(span),
  };
  return { type: 'prompt', atMs: span.startMs, payload: given(payload) };
}

function completionOf(span: TraceSpan, call: ModelCall): SpanEventOut {
  const { requested, answered, replies, inputTokens, outputTokens, cachedTokens, finishReasons } = call;
  const used =
    inputTokens === undefined && outputTokens === undefined ? undefined : (inputTokens ?? 0) + (outputTokens ?? 0);
  const calls = replies?.flatMap(({ tool_calls }) => tool_calls ?? []) ?? [];
  const texts = replies?.map(textOfMessage).filter((text) => text !== undefined) ?? [];
  const payload = {
    model: answered ?? requested,
    ...(replies === undefined
      ? { content_captured: false }
      : {
          response: texts.length === 0 ? undefined : texts.join('\n'),
          tool_calls: calls.length === 0 ? undefined : (calls as AttributeValue),
        }),
    token_count: inputTokens,
    tokens_used: used,
    cached_tokens: cachedTokens,
    finish_reasons: finishReasons === undefined ? undefined : [...finishReasons],
    otel: placeOf(span),
  };
  return { type: 'completion', atMs: Math.max(span.startMs, span.endMs), payload: given(payload) };
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

/** Of a sum of other spans nothing is under `tokens_used`. */
function customOf(span: TraceSpan, { what, input, output, inputTokens, outputTokens }: Other): SpanEventOut {
  const usage = given({ input_tokens: inputTokens, output_tokens: outputTokens });
  const payload = {
    kind: what,
    name: span.name,
    input,
    output,
    usage: Object.keys(usage).length === 0 ? undefined : usage,
    duration_ms: durationOf(span),
    otel: placeOf(span),
  };
  return { type: 'custom', atMs: span.startMs, payload: given(payload) };
}

/** What an evaluator said, as an event of the span that it judges. */
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

function errorOf(span: TraceSpan, reading: SpanReading): SpanEventOut[] {
  if (!span.isError) return [];
  const exception = span.events.find(({ name }) => name === 'exception')?.attributes;
  const error = {
    type: textOf(span.attributes, 'error.type') ?? (exception && textOf(exception, 'exception.type')),
    message: span.statusMessage || (exception && textOf(exception, 'exception.message')),
  };
  const payload = {
    error: given(error),
    message: error.message,
    ...(reading.kind === 'tool' ? { tool: reading.tool } : {}),
    ...(reading.kind === 'model' ? { model: reading.answered ?? reading.requested } : {}),
    otel: placeOf(span),
  };
  return [{ type: 'error', atMs: Math.max(span.startMs, span.endMs), payload: given(payload) }];
}

/** Where the span stands. */
function placeOf(span: TraceSpan): Payload {
  const { spanId, parentSpanId, scope, attributes } = span;
  return given({
    span_id: spanId,
    parent_span_id: parentSpanId === '' ? undefined : parentSpanId,
    conversation_id: textOf(attributes, ...CONVERSATION),
    scope: scope === '' ? undefined : scope,
    decision_id: textOf(attributes, 'gatehouse.decision.id'),
  });
}

function systemOf(messages: readonly ChatMessage[]): AttributeValue | undefined {
  return messages.find(({ role }) => role === 'system' || role === 'developer')?.content;
}

function jsonMessages(messages: readonly ChatMessage[] | undefined): AttributeValue | undefined {
  return messages === undefined ? undefined : (messages as unknown as AttributeValue);
}

function durationOf({ startMs, endMs }: TraceSpan): number | undefined {
  return endMs > startMs ? Math.round(endMs - startMs) : undefined;
}
