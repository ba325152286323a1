// Spans that say what they are in no convention that has a dialect of its own: by the mark that their library sets
// (`langsmith.span.kind`, `mlflow.spanType`, …), and by what they have: a tool's name, or a model's with tokens or
// messages. Behind all other dialects.
import { entryOf } from '../../common/entry.ts';
import { anyJson, jsonOf, type TraceSpan, textOf } from '../span.ts';
import type { Dialect, SpanReading } from './dialect.ts';
import { normalized } from './gen-ai.ts';
import { modelCallOf, modelNameOf, otherOf, toolCallOf, toolNameOf } from './readers.ts';
import { saysUsage } from './usage.ts';
import { member } from './values.ts';

const MARKS = [
  ...['langsmith.span.kind', 'mlflow.spanType', 'langfuse.observation.type', 'lmnr.span.type', 'langwatch.span.type'],
  ...['gen_ai.span.kind', 'fi.span.kind', 'openinference.span.kind', 'traceloop.span.kind'],
];

/** The kind that each mark stands for, or the name of its custom event. */
const KINDS: Record<string, string> = {
  ...{ llm: 'model', generation: 'model', chat_model: 'model', chat: 'model', completion: 'model', model: 'model' },
  ...{ tool: 'tool', function: 'tool', agent: 'invoke_agent', workflow: 'invoke_workflow', chain: 'invoke_workflow' },
  ...{ retriever: 'retrieval', retrieval: 'retrieval', embedding: 'embeddings', embeddings: 'embeddings' },
  ...{ reranker: 'rerank', rerank: 'rerank', guardrail: 'guardrail', evaluator: 'evaluator' },
};

export const byKind: Dialect = {
  name: 'kind',
  conversation: [
    ...['langsmith.trace.session_id', 'langfuse.session.id', 'gcp.vertex.agent.session_id', 'mlflow.trace.session'],
    ...['langwatch.thread.id', 'gen_ai.thread.id'],
  ],
  read(span) {
    const kind = markOf(span);
    if (kind === 'model') return modelCallOf(span);
    if (kind === 'tool' || toolNameOf(span.attributes) !== undefined || isNamelessTool(span)) return toolOf(span);
    return kind === undefined ? bySigns(span) : otherOf(span, kind);
  },
};

function markOf({ attributes }: TraceSpan): string | undefined {
  const marks = MARKS.map((name) => attributes.get(name)).filter((mark) => typeof mark === 'string');
  const braintrust = member(jsonOf(attributes, 'braintrust.span_attributes'), 'type');
  return [...marks, ...(typeof braintrust === 'string' ? [braintrust] : [])]
    .map((mark) => anyJson(mark))
    .map((mark) => (typeof mark === 'string' ? entryOf(KINDS, normalized(mark)) : undefined))
    .find((kind) => kind !== undefined);
}

function isNamelessTool({ attributes }: TraceSpan): boolean {
  return attributes.has('gcp.vertex.agent.tool_call_args') || attributes.has('tool_arguments');
}

/** Here a tool may be named in a word that others use for other things. */
function toolOf(span: TraceSpan): SpanReading {
  return toolCallOf(span, { tool: toolNameOf(span.attributes, 'gen_ai.tool.name', 'tool_name') });
}

/** Older versions of pydantic-ai leave out the operation of an agent's run, whose tokens are a sum. */
const RUNS = ['pydantic_ai.all_messages', 'all_messages_events', 'final_result'];

function bySigns(span: TraceSpan): SpanReading | undefined {
  const { attributes } = span;
  if (RUNS.some((name) => attributes.has(name)))
    return otherOf(span, 'invoke_agent', { input: RUNS.slice(0, 2), output: ['final_result'] });
  const isNamed = modelNameOf(attributes) !== undefined;
  const operation = textOf(attributes, 'gen_ai.operation.name');
  if (!isNamed && operation === undefined) return undefined;
  const call = modelCallOf(span);
  const isKnown = call.sent !== undefined || call.given !== undefined || (isNamed && saysUsage(call.usage));
  // A model's name and nothing else that is known is enough where nothing contradicts it.
  return isKnown || operation === undefined ? call : undefined;
}
