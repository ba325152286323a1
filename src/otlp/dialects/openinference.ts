// OpenInference (Arize: Phoenix and its instrumentations): `openinference.span.kind` says what a span is, lists are
// written flat (`llm.input_messages.0.message.role`).
import { type Attributes, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type ModelNames, modelFacts, type SpanReading, textsOf } from './dialect.ts';
import { messageOf, messagesOf } from './messages.ts';
import { listUnder, member } from './values.ts';

const NAMES: ModelNames = {
  requested: ['llm.model_name'],
  answered: ['llm.model_name'],
  provider: ['llm.provider', 'llm.system'],
  input: ['llm.token_count.prompt'],
  output: ['llm.token_count.completion'],
  cached: ['llm.token_count.prompt_details.cache_read'],
};

/** Kinds beside models and tools, by the names that the semantic conventions have for them. */
const OTHERS: Record<string, string> = {
  AGENT: 'invoke_agent',
  CHAIN: 'invoke_workflow',
  RETRIEVER: 'retrieval',
  RERANKER: 'rerank',
  EMBEDDING: 'embeddings',
  GUARDRAIL: 'guardrail',
  EVALUATOR: 'evaluator',
};

export const openInference: Dialect = {
  name: 'openinference',
  conversation: ['session.id'],
  read(span) {
    const kind = textOf(span.attributes, 'openinference.span.kind');
    if (kind === undefined) return undefined;
    if (kind === 'LLM') return readModel(span);
    if (kind === 'TOOL') return readTool(span);
    const what = OTHERS[kind];
    if (what === undefined) return 'ignored';
    const { inputTokens, outputTokens } = modelFacts(span.attributes, NAMES);
    const values = { input: jsonOf(span.attributes, 'input.value'), output: jsonOf(span.attributes, 'output.value') };
    return { kind: 'custom', what, ...values, inputTokens, outputTokens };
  },
};

function readModel({ attributes }: TraceSpan): SpanReading {
  const sent = listUnder(attributes, 'llm.input_messages.')?.map((one) => messageOf(one, 'user'));
  const given = listUnder(attributes, 'llm.output_messages.')?.map((one) => messageOf(one, 'assistant'));
  const facts = modelFacts(attributes, NAMES);
  return {
    ...facts,
    requested: requestedModel(attributes) ?? facts.requested,
    messages: sent ?? messagesOf(attributes.get('input.value'), 'user'),
    replies: given ?? messagesOf(attributes.get('output.value'), 'assistant'),
    finishReasons: textsOf(attributes.get('llm.finish_reason')),
  };
}

/** Beside `llm.model_name`, which is the one that answered where that is known. */
function requestedModel(attributes: Attributes): string | undefined {
  const model = member(jsonOf(attributes, 'llm.invocation_parameters'), 'model');
  return typeof model === 'string' ? model : undefined;
}

function readTool({ attributes, name }: TraceSpan): SpanReading {
  return {
    kind: 'tool',
    tool: textOf(attributes, 'tool.name', 'tool_call.function.name') ?? (name || 'unknown'),
    arguments: jsonOf(attributes, 'tool_call.function.arguments', 'input.value', 'tool.parameters'),
    callId: textOf(attributes, 'tool.id', 'tool_call.id'),
    result: jsonOf(attributes, 'output.value'),
  };
}
