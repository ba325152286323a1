// The Vercel AI SDK up to version 6 (`ai.*`; 7 writes gen_ai names). `ai.generateText` and its like are the agent's
// loop around calls of the model, `….doGenerate` and `….doStream`; their sums are not counted again.
import { jsonOf, type TraceSpan, textOf } from '../span.ts';
import type { Dialect, ModelCall } from './dialect.ts';
import { saidIn } from './messages.ts';
import { modelCallOf, otherOf, toolCallOf } from './readers.ts';

/** Operations beside calls of models and tools, by a part of their name. */
const WHAT: readonly [string, string][] = [
  ['embed', 'embeddings'],
  ['rerank', 'rerank'],
];

export const vercelAi: Dialect = {
  name: 'vercel-ai',
  conversation: ['ai.telemetry.metadata.sessionId', 'ai.telemetry.metadata.conversationId'],
  read(span) {
    const operation = textOf(span.attributes, 'ai.operationId');
    if (operation === undefined) return undefined;
    if (operation === 'ai.toolCall') return toolCallOf(span);
    if (/\.do(Generate|Stream)$/.test(operation)) return readModel(span);
    const what = WHAT.find(([part]) => operation.includes(part))?.[1] ?? 'invoke_agent';
    return otherOf(span, what, { input: ['ai.prompt'], output: ['ai.response.text', 'ai.response.object'] });
  },
};

/** Its answer is in several attributes; `ai.result` is what versions before 4 call it. */
function readModel(span: TraceSpan): ModelCall {
  const call = modelCallOf(span, { sent: ['ai.prompt.messages', 'ai.prompt'] });
  const { attributes } = span;
  const answer = {
    content: textOf(attributes, 'ai.response.text', 'ai.response.object', 'ai.result.text', 'ai.result.object') ?? '',
    tool_calls: jsonOf(attributes, 'ai.response.toolCalls', 'ai.result.toolCalls') ?? null,
    reasoning: textOf(attributes, 'ai.response.reasoning') ?? null,
    files: jsonOf(attributes, 'ai.response.files') ?? null,
  };
  return { ...call, given: saidIn({ role: 'assistant', ...answer }, 'assistant') ?? call.given };
}
