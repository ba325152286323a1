// Traceloop (OpenLLMetry): `traceloop.span.kind` for what a program declares, `llm.request.type` for calls of models,
// conversations written flat (`gen_ai.prompt.0.content`); its newer versions write the names of gen-ai.ts.
import { type AttributeValue, countOf, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type SpanReading, textsOf } from './dialect.ts';
import { modelCallOf } from './gen-ai.ts';
import { listUnder, member } from './values.ts';

const MODEL_TYPES = new Set(['chat', 'completion']);

/** A `task` is a step of a workflow. */
const OTHERS: Record<string, string> = {
  workflow: 'invoke_workflow',
  agent: 'invoke_agent',
  embedding: 'embeddings',
  rerank: 'rerank',
};

export const traceloop: Dialect = {
  name: 'traceloop',
  conversation: ['traceloop.association.properties.session_id', 'traceloop.association.properties.conversation_id'],
  read(span) {
    const { attributes } = span;
    const type = textOf(attributes, 'llm.request.type');
    if (type !== undefined && MODEL_TYPES.has(type)) return readModel(span);
    const kind = textOf(attributes, 'traceloop.span.kind');
    if (kind === 'tool') return readTool(span);
    if (type === undefined && kind === undefined) return undefined;
    const what = OTHERS[type ?? kind!];
    if (what === undefined) return 'ignored';
    return {
      ...{ kind: 'custom', what },
      input: jsonOf(attributes, 'traceloop.entity.input'),
      output: jsonOf(attributes, 'traceloop.entity.output'),
    };
  },
};

function readModel(span: TraceSpan): SpanReading {
  const reasons = listUnder(span.attributes, 'gen_ai.completion.')?.map((one) => member(one, 'finish_reason'));
  const known = modelCallOf(span);
  const call = { ...known, finishReasons: known.finishReasons ?? textsOf(reasons as AttributeValue[] | undefined) };
  const total = countOf(span.attributes, 'llm.usage.total_tokens', 'gen_ai.usage.total_tokens');
  const { inputTokens, outputTokens } = call;
  // Some of its instrumentations know the sum and one part.
  if (total === undefined || (inputTokens !== undefined && outputTokens !== undefined)) return call;
  return {
    ...call,
    inputTokens: inputTokens ?? total - (outputTokens ?? 0),
    outputTokens: outputTokens ?? (inputTokens === undefined ? 0 : total - inputTokens),
  };
}

function readTool({ attributes, name }: TraceSpan): SpanReading {
  return {
    kind: 'tool',
    tool: textOf(attributes, 'traceloop.entity.name') ?? (name.replace(/\.tool$/, '') || 'unknown'),
    arguments: jsonOf(attributes, 'traceloop.entity.input'),
    result: jsonOf(attributes, 'traceloop.entity.output'),
  };
}
