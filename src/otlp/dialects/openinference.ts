// OpenInference (Arize: Phoenix and its instrumentations): `openinference.span.kind` says what a span is, lists are
// written flat (`llm.input_messages.0.message.role`).
import { entryOf } from '../../common/entry.ts';
import { textOf } from '../span.ts';
import type { Dialect } from './dialect.ts';
import { modelCallOf, otherOf, toolCallOf, toolNameOf } from './readers.ts';

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
    const kind = textOf(span.attributes, 'openinference.span.kind')?.trim().toUpperCase();
    if (kind === 'LLM') return modelCallOf(span);
    if (kind === 'TOOL')
      return toolCallOf(span, { tool: toolNameOf(span.attributes, 'tool.name', 'tool_call.function.name') });
    const what = kind === undefined ? undefined : entryOf(OTHERS, kind);
    return what === undefined ? undefined : otherOf(span, what, { input: ['input.value'], output: ['output.value'] });
  },
};
