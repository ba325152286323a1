// What a dialect says of a span (types alone, but for a small reader of texts).
import { type AttributeValue, parsed, type TraceSpan } from '../span.ts';
import type { SpokenContent } from './messages.ts';
import type { Usage } from './usage.ts';

/** A call of a model. Counts are of this call alone. */
export type ModelCall = {
  kind: 'model';
  requested?: string | undefined;
  answered?: string | undefined;
  provider?: string | undefined;
  system?: AttributeValue | undefined;
  /** The content that the model got, and its answer. undefined: nothing came, the sender does not capture content. */
  sent?: SpokenContent | undefined;
  given?: SpokenContent | undefined;
  usage: Usage;
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
  usage?: Usage;
};

export type SpanReading = ModelCall | ToolCall | Other;

export type Dialect = {
  name: string;
  /** undefined: the span is none of its own. 'ignored': it is, and no event is made of it. */
  read(span: TraceSpan): SpanReading | 'ignored' | undefined;
  /** The names of the conversation that the span belongs to. */
  conversation: readonly string[];
};

export function textsOf(value: AttributeValue | undefined): string[] | undefined {
  const list = typeof value === 'string' ? parsed(value) : value;
  if (Array.isArray(list)) return list.filter((one) => typeof one === 'string') as string[];
  return typeof list === 'string' && list !== '' ? [list] : undefined;
}
