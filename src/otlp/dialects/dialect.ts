// What a dialect says of a span (types, and the tables that most dialects are made of).
import { type Attributes, type AttributeValue, countOf, parsed, type TraceSpan, textOf } from '../span.ts';
import type { ChatMessage } from './messages.ts';

/** A call of a model. Counts are of this call alone. */
export type ModelCall = {
  kind: 'model';
  requested?: string | undefined;
  answered?: string | undefined;
  provider?: string | undefined;
  system?: AttributeValue | undefined;
  /** In the order in which the model got them. undefined: the sender does not capture content. */
  messages?: readonly ChatMessage[] | undefined;
  replies?: readonly ChatMessage[] | undefined;
  /** With what was read from and written to caches. */
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  cachedTokens?: number | undefined;
  finishReasons?: readonly string[] | undefined;
};

export type ToolCall = {
  kind: 'tool';
  tool: string;
  arguments?: AttributeValue | undefined;
  callId?: string | undefined;
  result?: AttributeValue | undefined;
};

/** Anything else that is worth an event. `what`: of which kind. */
export type Other = {
  kind: 'custom';
  what: string;
  input?: AttributeValue | undefined;
  output?: AttributeValue | undefined;
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
};

export type SpanReading = ModelCall | ToolCall | Other;

export type Dialect = {
  name: string;
  /** undefined: the span is none of its own. 'ignored': it is, and no event is made of it. */
  read(span: TraceSpan): SpanReading | 'ignored' | undefined;
  /** Of the conversation that the span belongs to. */
  conversation: readonly string[];
};

/** Names of attributes, the newest first. */
export type ModelNames = {
  requested: readonly string[];
  answered: readonly string[];
  provider: readonly string[];
  input: readonly string[];
  output: readonly string[];
  cached: readonly string[];
};

export function modelFacts(attributes: Attributes, names: ModelNames): ModelCall {
  return {
    kind: 'model',
    requested: textOf(attributes, ...names.requested),
    answered: textOf(attributes, ...names.answered),
    provider: textOf(attributes, ...names.provider),
    inputTokens: countOf(attributes, ...names.input),
    outputTokens: countOf(attributes, ...names.output),
    cachedTokens: countOf(attributes, ...names.cached),
  };
}

export function textsOf(value: AttributeValue | undefined): string[] | undefined {
  const list = typeof value === 'string' ? parsed(value) : value;
  if (Array.isArray(list)) return list.filter((one) => typeof one === 'string') as string[];
  return typeof list === 'string' && list !== '' ? [list] : undefined;
}
