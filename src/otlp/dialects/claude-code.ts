// Claude Code's own spans (`claude_code.*`). Its bare `input_tokens` is without what came from caches; the gen_ai names
// that newer versions write beside it are with it.
import { countOf, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { type Dialect, type SpanReading, textsOf } from './dialect.ts';
import { modelCallOf, toolCallOf, toolNameOf } from './readers.ts';
import { type Usage, withTotal } from './usage.ts';

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
  const call = modelCallOf(span, { sent: ['new_context'], given: ['response.model_output'] });
  return {
    ...call,
    requested: call.requested ?? textOf(attributes, 'model'),
    answered: call.answered ?? textOf(attributes, 'model'),
    system: call.system ?? jsonOf(attributes, 'system_prompt_preview'),
    usage: bareUsage(attributes, call.usage),
    finishReasons: call.finishReasons ?? textsOf(attributes.get('stop_reason')),
  };
}

function bareUsage(attributes: TraceSpan['attributes'], known: Usage): Usage {
  const cachedTokens = known.cachedTokens ?? countOf(attributes, 'cache_read_tokens');
  const bare = countOf(attributes, 'input_tokens');
  const written = countOf(attributes, 'cache_creation_tokens') ?? 0;
  return withTotal({
    inputTokens: known.inputTokens ?? (bare === undefined ? undefined : bare + (cachedTokens ?? 0) + written),
    outputTokens: known.outputTokens ?? countOf(attributes, 'output_tokens'),
    ...{ cachedTokens, totalTokens: known.totalTokens },
  });
}

function readTool(span: TraceSpan): SpanReading {
  const { attributes, events } = span;
  const output = events.find(({ name }) => name === 'tool.output');
  const call = toolCallOf(span, {
    tool: toolNameOf(attributes, 'tool_name') ?? 'unknown',
    sent: ['gen_ai.tool.call.arguments', 'tool_input', 'tool_parameters'],
  });
  return {
    ...call,
    arguments: call.arguments ?? argumentsBeside(attributes),
    callId: call.callId ?? textOf(attributes, 'tool_use_id'),
    result: output === undefined ? call.result : jsonOf(output.attributes, 'output', 'tool.output', 'content'),
  };
}

/** The arguments of its own tools that are captured, each under a name of its own. */
function argumentsBeside(attributes: TraceSpan['attributes']): Record<string, string> | undefined {
  const found = Object.entries({ file_path: 'file_path', command: 'full_command', skill: 'skill_name' }).flatMap(
    ([argument, name]) => {
      const value = textOf(attributes, name);
      return value === undefined ? [] : [[argument, value] as const];
    },
  );
  return found.length === 0 ? undefined : Object.fromEntries(found);
}
