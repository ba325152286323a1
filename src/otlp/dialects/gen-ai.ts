// The OpenTelemetry semantic conventions for generative AI (open-telemetry/semantic-conventions-genai, all of it in
// development), with the names that they had before.
import { entryOf } from '../../common/entry.ts';
import { type TraceSpan, textOf } from '../span.ts';
import type { Dialect, SpanReading } from './dialect.ts';
import { modelCallOf, otherOf, toolCallOf, toolNameOf } from './readers.ts';

/** The kind of each operation, or the name of its custom event. For any other its attributes say more. */
const OPERATIONS: Record<string, string> = {
  ...{ chat: 'model', text_completion: 'model', generate_content: 'model', completion: 'model' },
  ...{ execute_tool: 'tool', tool_call: 'tool', call_tool: 'tool', tool: 'tool' },
  ...{ invoke_agent: 'invoke_agent', create_agent: 'create_agent', invoke_workflow: 'invoke_workflow' },
  ...{ plan: 'plan', retrieval: 'retrieval', embeddings: 'embeddings', embedding: 'embeddings', rerank: 'rerank' },
};
const MEMORY_OR_CHECK = /memory|guardrail|evaluat/;

export const genAi: Dialect = {
  name: 'gen_ai',
  conversation: ['gen_ai.conversation.id'],
  read(span) {
    const operation = textOf(span.attributes, 'gen_ai.operation.name');
    if (operation !== undefined) return readOperation(span, normalized(operation));
    return textOf(span.attributes, 'mcp.method.name') === 'tools/call' ? toolCallOf(span) : undefined;
  },
};

export function normalized(name: string): string {
  return name
    .trim()
    .toLowerCase()
    .replaceAll(/[\s-]+/g, '_');
}

function readOperation(span: TraceSpan, operation: string): SpanReading | undefined {
  const what = entryOf(OPERATIONS, operation);
  if (what === 'model') return modelCallOf(span);
  if (MEMORY_OR_CHECK.test(operation)) return whatOf(span, operation);
  // Whatever the operation is called: an agent that is called as a tool is one.
  if (what === 'tool' || toolNameOf(span.attributes) !== undefined) return toolCallOf(span);
  return what === undefined ? undefined : whatOf(span, what);
}

function whatOf(span: TraceSpan, what: string): SpanReading {
  return otherOf(span, what, {
    input: ['gen_ai.input.messages', 'gen_ai.retrieval.query.text'],
    output: ['gen_ai.output.messages', 'gen_ai.retrieval.documents'],
  });
}
