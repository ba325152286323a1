// Readings of spans by what they are: a call of a model, a call of a tool, anything else (for the dialects, which say
// which of these a span is).
import { type Attributes, type AttributeValue, jsonOf, type TraceSpan, textOf } from '../span.ts';
import { argumentsIn, givenIn, inputOf, outputOf, resultIn, sentIn } from './content.ts';
import { type ModelCall, type Other, type ToolCall, textsOf } from './dialect.ts';
import { isMessage, plain, type SpokenContent } from './messages.ts';
import { saysUsage, usageIn, usageOf } from './usage.ts';
import { isEmpty, member } from './values.ts';

type Names = readonly string[];

const REQUESTED: Names = [
  ...['gen_ai.request.model', 'ai.model.id', 'llm.model_name', 'llm.request.model', 'langfuse.observation.model.name'],
  ...['langfuse.observation.model', 'gen_ai.model', 'llm.model'],
];
const ANSWERED: Names = ['ai.response.model', 'gen_ai.response.model', 'llm.response.model', 'llm.model_name'];
const PROVIDER: Names = ['ai.model.provider', 'gen_ai.provider.name', 'gen_ai.system', 'llm.provider', 'llm.system'];
const REASONS: Names = [
  ...[
    'gen_ai.response.finish_reasons',
    'ai.response.finishReason',
    'llm.finish_reason',
    'gen_ai.response.finish_reason',
  ],
  ...['ai.finishReason', 'llm.response.finish_reason'],
];
const TOOL_NAMES: Names = [
  ...['gen_ai.tool.name', 'ai.toolCall.name', 'tool.name', 'tool_call.function.name', 'mcp.tool.name'],
  ...['spring.ai.tool.definition.name'],
];

export function modelNameOf(attributes: Attributes): string | undefined {
  return textOf(attributes, ...REQUESTED, ...ANSWERED);
}

/** `sent`, `given`: names of attributes that come before those of others. */
export function modelCallOf(
  span: TraceSpan,
  { sent = [], given = [] }: { sent?: Names; given?: Names } = {},
): ModelCall {
  const { attributes } = span;
  const [asked, replied] = [sentIn(span, sent), givenIn(span, given)];
  const usage = usageOf(attributes);
  const system = systemOf(span);
  return {
    kind: 'model',
    requested: requestedIn(attributes) ?? textOf(attributes, ...REQUESTED),
    answered: textOf(attributes, ...ANSWERED),
    provider: textOf(attributes, ...PROVIDER),
    system: system === undefined || isEmpty(system) ? asked?.system : plain(system),
    sent: asked,
    given: replied,
    usage: saysUsage(usage) ? usage : { ...usage, ...usageInAnswer(replied) },
    finishReasons: REASONS.map((name) => textsOf(attributes.get(name))).find((found) => found) ?? reasonsIn(replied),
  };
}

function systemOf({ attributes, events }: TraceSpan): AttributeValue | undefined {
  const names = ['gen_ai.system_instructions', 'gen_ai.system.instructions'];
  return (
    jsonOf(attributes, ...names) ??
    events.map((event) => jsonOf(event.attributes, ...names)).find((found) => found !== undefined)
  );
}

/** OpenInference writes the parameters of the request, `llm.model_name` may be the model that answered. */
function requestedIn(attributes: Attributes): string | undefined {
  const model = member(jsonOf(attributes, 'llm.invocation_parameters'), 'model');
  return typeof model === 'string' ? model : undefined;
}

/** Answers of providers say what they used. */
function usageInAnswer(replied: SpokenContent | undefined): ReturnType<typeof usageIn> {
  const places = [replied?.details, ...(replied?.messages.filter(isMessage) ?? [])];
  for (const place of places)
    for (const name of ['usage', 'usage_metadata', 'usageMetadata']) {
      const found = usageIn(member(place, name));
      if (saysUsage(found)) return found;
    }
  return {};
}

function reasonsIn(replied: SpokenContent | undefined): string[] | undefined {
  const found = (replied?.messages ?? []).flatMap((one) =>
    ['finish_reason', 'finishReason', 'stop_reason'].flatMap((name) => textsOf(member(one, name)) ?? []),
  );
  return found.length === 0 ? undefined : found;
}

export function toolNameOf(attributes: Attributes, ...first: Names): string | undefined {
  return textOf(attributes, ...first, ...TOOL_NAMES);
}

export function toolCallOf(
  span: TraceSpan,
  { tool, sent = [], given = [] }: { tool?: string | undefined; sent?: Names; given?: Names } = {},
): ToolCall {
  const { attributes, name } = span;
  const named = tool ?? toolNameOf(attributes) ?? name.replace(/^(execute_tool|tools\/call|running tool:?) /, '');
  return {
    kind: 'tool',
    tool: named || 'unknown',
    arguments: argumentsIn(span, sent),
    callId: textOf(attributes, 'gen_ai.tool.call.id', 'ai.toolCall.id', 'tool_call.id', 'tool.id', 'tool_call_id'),
    result: resultIn(span, given),
  };
}

export function otherOf(span: TraceSpan, what: string, values: { input?: Names; output?: Names } = {}): Other {
  return {
    ...{ kind: 'custom', what, usage: usageOf(span.attributes) },
    input: inputOf(span, values.input),
    output: outputOf(span, values.output),
  };
}
