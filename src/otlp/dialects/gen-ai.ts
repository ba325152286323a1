// The OpenTelemetry semantic conventions for generative AI (open-telemetry/semantic-conventions-genai, all of it in
// development), with the names that they had before.
import { type AttributeValue, anyJsonOf, jsonOf, type SpanEvent, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type ModelCall, type ModelNames, modelFacts, type SpanReading, textsOf } from './dialect.ts';
import { type ChatMessage, messageOf, messagesOf } from './messages.ts';
import { listUnder } from './values.ts';

/** What an operation is; any other is a step within one of these, and nothing is made of it. */
const OPERATIONS: Record<string, SpanReading['kind']> = {
  chat: 'model',
  text_completion: 'model',
  generate_content: 'model',
  completion: 'model',
  execute_tool: 'tool',
  invoke_agent: 'custom',
  create_agent: 'custom',
  invoke_workflow: 'custom',
  plan: 'custom',
  retrieval: 'custom',
  embeddings: 'custom',
};
const MEMORY_OR_CHECK = /memory|guardrail|evaluat/;

export const GEN_AI_NAMES: ModelNames = {
  requested: ['gen_ai.request.model'],
  answered: ['gen_ai.response.model'],
  provider: ['gen_ai.provider.name', 'gen_ai.system'],
  input: ['gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens'],
  output: ['gen_ai.usage.output_tokens', 'gen_ai.usage.completion_tokens'],
  cached: ['gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.cached_tokens'],
};

export const genAi: Dialect = {
  name: 'gen_ai',
  conversation: ['gen_ai.conversation.id'],
  read(span) {
    const operation = textOf(span.attributes, 'gen_ai.operation.name');
    if (operation !== undefined) return readOperation(span, operation);
    return textOf(span.attributes, 'mcp.method.name') === 'tools/call' ? toolCallOf(span) : undefined;
  },
};

function readOperation(span: TraceSpan, operation: string): SpanReading | 'ignored' {
  switch (OPERATIONS[operation]) {
    case 'model':
      return modelCallOf(span);
    case 'tool':
      return toolCallOf(span);
    case 'custom':
      return otherOf(span, operation);
    default:
      return MEMORY_OR_CHECK.test(operation) ? otherOf(span, operation) : 'ignored';
  }
}

export function modelCallOf(span: TraceSpan): ModelCall {
  const { attributes, events } = span;
  return {
    ...modelFacts(attributes, GEN_AI_NAMES),
    system: instructionsOf(
      jsonOf(attributes, 'gen_ai.system_instructions') ?? inEvents(events, 'gen_ai.system_instructions'),
    ),
    messages: sentMessages(span),
    replies: replies(span),
    finishReasons: textsOf(attributes.get('gen_ai.response.finish_reasons')),
  };
}

/** Text where it is nothing but text. */
function instructionsOf(value: AttributeValue | undefined): AttributeValue | undefined {
  return Array.isArray(value) ? messageOf({ parts: value }, 'system').content : value;
}

function sentMessages(span: TraceSpan): ChatMessage[] | undefined {
  const { attributes, events } = span;
  const sent =
    jsonOf(attributes, 'gen_ai.input.messages') ?? inEvents(events, 'gen_ai.input.messages', 'gen_ai.prompt');
  if (sent !== undefined) return messagesOf(sent, 'user');
  const flat = listUnder(attributes, 'gen_ai.prompt.');
  if (flat !== undefined) return flat.map((one) => messageOf(one, 'user'));
  const said = events.flatMap((event) => {
    const role = ROLE_OF_EVENT[event.name];
    return role === undefined ? [] : [messageOf(Object.fromEntries(event.attributes), role)];
  });
  return said.length === 0 ? undefined : said;
}

/** Events that stood for messages before messages were attributes. */
const ROLE_OF_EVENT: Record<string, string> = {
  'gen_ai.system.message': 'system',
  'gen_ai.user.message': 'user',
  'gen_ai.assistant.message': 'assistant',
  'gen_ai.tool.message': 'tool',
};

function replies({ attributes, events }: TraceSpan): ChatMessage[] | undefined {
  const given =
    jsonOf(attributes, 'gen_ai.output.messages') ?? inEvents(events, 'gen_ai.output.messages', 'gen_ai.completion');
  if (given !== undefined) return messagesOf(given, 'assistant');
  const flat = listUnder(attributes, 'gen_ai.completion.');
  if (flat !== undefined) return flat.map((one) => messageOf(one, 'assistant'));
  const choices = events.filter(({ name }) => name === 'gen_ai.choice');
  if (choices.length === 0) return undefined;
  return choices.map((event) => {
    const message = jsonOf(event.attributes, 'message');
    return messageOf(message ?? Object.fromEntries(event.attributes), 'assistant');
  });
}

function inEvents(events: readonly SpanEvent[], ...names: readonly string[]): AttributeValue | undefined {
  for (const { attributes } of events) {
    const found = jsonOf(attributes, ...names);
    if (found !== undefined) return found;
  }
  return undefined;
}

function toolCallOf({ attributes, name }: TraceSpan): SpanReading {
  return {
    kind: 'tool',
    tool: textOf(attributes, 'gen_ai.tool.name') ?? (name.replace(/^(execute_tool|tools\/call) /, '') || 'unknown'),
    arguments: anyJsonOf(attributes, 'gen_ai.tool.call.arguments', 'gen_ai.tool.arguments'),
    callId: textOf(attributes, 'gen_ai.tool.call.id'),
    result: anyJsonOf(attributes, 'gen_ai.tool.call.result', 'gen_ai.tool.result'),
  };
}

function otherOf({ attributes }: TraceSpan, what: string): SpanReading {
  const { inputTokens, outputTokens } = modelFacts(attributes, GEN_AI_NAMES);
  return {
    ...{ kind: 'custom', what, inputTokens, outputTokens },
    input: jsonOf(attributes, 'gen_ai.input.messages', 'gen_ai.retrieval.query.text'),
    output: jsonOf(attributes, 'gen_ai.output.messages', 'gen_ai.retrieval.documents'),
  };
}
