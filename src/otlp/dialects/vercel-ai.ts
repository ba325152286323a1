// The Vercel AI SDK up to version 6 (`ai.*`; 7 writes gen_ai names). `ai.generateText` and its like are the agent's
// loop around calls of the model, `….doGenerate` and `….doStream`; their sums are not counted again.
import { anyJsonOf, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type ModelNames, modelFacts, type SpanReading, textsOf } from './dialect.ts';
import { GEN_AI_NAMES } from './gen-ai.ts';
import { type ChatMessage, messageOf, messagesOf } from './messages.ts';

const NAMES: ModelNames = {
  requested: ['gen_ai.request.model', 'ai.model.id'],
  answered: ['ai.response.model', 'gen_ai.response.model'],
  provider: ['ai.model.provider', ...GEN_AI_NAMES.provider],
  input: ['ai.usage.inputTokens', 'ai.usage.promptTokens', ...GEN_AI_NAMES.input],
  output: ['ai.usage.outputTokens', 'ai.usage.completionTokens', ...GEN_AI_NAMES.output],
  cached: ['ai.usage.inputTokenDetails.cacheReadTokens', 'ai.usage.cachedInputTokens'],
};

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
    if (operation === 'ai.toolCall') return readTool(span);
    if (/\.do(Generate|Stream)$/.test(operation)) return readModel(span);
    const { inputTokens, outputTokens } = modelFacts(span.attributes, NAMES);
    const what = WHAT.find(([part]) => operation.includes(part))?.[1] ?? 'invoke_agent';
    return {
      ...{ kind: 'custom', what, inputTokens, outputTokens },
      input: jsonOf(span.attributes, 'ai.prompt'),
      output: jsonOf(span.attributes, 'ai.response.text', 'ai.response.object'),
    };
  },
};

function readModel({ attributes }: TraceSpan): SpanReading {
  return {
    ...modelFacts(attributes, NAMES),
    messages: messagesOf(attributes.get('ai.prompt.messages'), 'user'),
    replies: replyOf(attributes),
    finishReasons: textsOf(
      attributes.get('ai.response.finishReason') ?? attributes.get('gen_ai.response.finish_reasons'),
    ),
  };
}

function replyOf(attributes: TraceSpan['attributes']): ChatMessage[] | undefined {
  const text = textOf(attributes, 'ai.response.text', 'ai.response.object');
  const calls = jsonOf(attributes, 'ai.response.toolCalls');
  if (text === undefined && calls === undefined) return undefined;
  return [messageOf({ content: text ?? '', ...(calls === undefined ? {} : { tool_calls: calls }) }, 'assistant')];
}

function readTool({ attributes }: TraceSpan): SpanReading {
  return {
    kind: 'tool',
    tool: textOf(attributes, 'ai.toolCall.name') ?? 'unknown',
    arguments: anyJsonOf(attributes, 'ai.toolCall.args', 'ai.toolCall.input'),
    callId: textOf(attributes, 'ai.toolCall.id'),
    result: anyJsonOf(attributes, 'ai.toolCall.result', 'ai.toolCall.output'),
  };
}
