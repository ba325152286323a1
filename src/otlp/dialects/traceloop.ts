// Traceloop (OpenLLMetry): `traceloop.span.kind` for what a program declares, `llm.request.type` for calls of models,
// conversations written flat (`gen_ai.prompt.0.content`); its newer versions write the names of gen-ai.ts.
import { entryOf } from '../../common/entry.ts';
import { type AttributeValue, isObject, type TraceSpan, textOf } from '../span.ts';
import type { Dialect, ToolCall } from './dialect.ts';
import { modelCallOf, otherOf, toolCallOf, toolNameOf } from './readers.ts';
import { isEmpty, member } from './values.ts';

const MODEL_TYPES = new Set(['chat', 'completion']);

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
    const type = textOf(attributes, 'llm.request.type')?.toLowerCase();
    if (type !== undefined && MODEL_TYPES.has(type)) return modelCallOf(span);
    const kind = textOf(attributes, 'traceloop.span.kind')?.toLowerCase();
    if (kind === 'tool') return readTool(span);
    const what = entryOf(OTHERS, type ?? kind ?? '');
    if (what === undefined) return undefined;
    return otherOf(span, what, { input: ['traceloop.entity.input'], output: ['traceloop.entity.output'] });
  },
};

function readTool(span: TraceSpan): ToolCall {
  const tool = toolNameOf(span.attributes, 'traceloop.entity.name') ?? span.name.replace(/\.tool$/, '');
  const call = toolCallOf(span, { tool, sent: ['traceloop.entity.input'], given: ['traceloop.entity.output'] });
  return { ...call, arguments: argumentsOf(call.arguments) };
}

/** A decorated function's arguments are in a frame of their own; it stays where it says more than them. */
function argumentsOf(value: AttributeValue | undefined): AttributeValue | undefined {
  if (!isObject(value) || Object.keys(value).some((name) => name !== 'args' && name !== 'kwargs')) return value;
  const [args, kwargs] = [member(value, 'args'), member(value, 'kwargs')];
  if (isEmpty(args) && isObject(kwargs)) return kwargs;
  return isEmpty(kwargs) && Array.isArray(args) ? args : value;
}
