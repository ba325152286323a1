// Claude Code's own spans (`claude_code.*`). Its bare `input_tokens` is without what came from caches; the gen_ai names
// that newer versions write beside it are with it.
import { countOf, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type SpanReading, textsOf } from './dialect.ts';
import { modelCallOf } from './gen-ai.ts';
import { messagesOf } from './messages.ts';

const PREFIX = 'claude_code.';

export const claudeCode: Dialect = {
  name: 'claude-code',
  conversation: ['session.id'],
  read(span) {
    if (!span.name.startsWith(PREFIX)) return undefined;
    switch (span.name.slice(PREFIX.length)) {
      case 'llm_request':
        return readModel(span);
      case 'tool':
        return readTool(span);
      case 'interaction':
        return { kind: 'custom', what: 'invoke_agent', input: jsonOf(span.attributes, 'user_prompt') };
      default:
        return 'ignored';
    }
  },
};

function readModel(span: TraceSpan): SpanReading {
  const { attributes } = span;
  const call = modelCallOf(span);
  const cached = countOf(attributes, 'cache_read_tokens');
  const bare = countOf(attributes, 'input_tokens');
  const inputTokens =
    bare === undefined ? undefined : bare + (cached ?? 0) + (countOf(attributes, 'cache_creation_tokens') ?? 0);
  return {
    ...call,
    requested: call.requested ?? textOf(attributes, 'model'),
    answered: call.answered ?? textOf(attributes, 'model'),
    messages: call.messages ?? messagesOf(jsonOf(attributes, 'new_context'), 'user'),
    replies: call.replies ?? messagesOf(jsonOf(attributes, 'response.model_output'), 'assistant'),
    system: call.system ?? jsonOf(attributes, 'system_prompt_preview'),
    inputTokens: call.inputTokens ?? inputTokens,
    outputTokens: call.outputTokens ?? countOf(attributes, 'output_tokens'),
    cachedTokens: call.cachedTokens ?? cached,
    finishReasons: call.finishReasons ?? textsOf(attributes.get('stop_reason')),
  };
}

function readTool({ attributes, events }: TraceSpan): SpanReading {
  const output = events.find(({ name }) => name === 'tool.output');
  return {
    kind: 'tool',
    tool: textOf(attributes, 'tool_name', 'gen_ai.tool.name') ?? 'unknown',
    arguments:
      jsonOf(attributes, 'gen_ai.tool.call.arguments', 'tool_input', 'tool_parameters') ?? argumentsBeside(attributes),
    callId: textOf(attributes, 'gen_ai.tool.call.id', 'tool_use_id'),
    result: output === undefined ? undefined : jsonOf(output.attributes, 'output', 'tool.output', 'content'),
  };
}

/** What is captured of the arguments of its own tools, each under a name of its own. */
function argumentsBeside(attributes: TraceSpan['attributes']): Record<string, string> | undefined {
  const found = Object.entries({ file_path: 'file_path', command: 'full_command', skill: 'skill_name' }).flatMap(
    ([argument, name]) => {
      const value = textOf(attributes, name);
      return value === undefined ? [] : [[argument, value] as const];
    },
  );
  return found.length === 0 ? undefined : Object.fromEntries(found);
}
