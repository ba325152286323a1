// Messages of a conversation as every dialect hands them on, and their texts. Providers and frameworks write a
// message's content as text, as a list of parts, or under `parts`; tool calls inside it or beside it.
import { type AttributeValue, isObject, parsed } from '../span.ts';
import { member } from './values.ts';

type CalledTool = { id?: string; name: string; arguments?: AttributeValue };
/** `content`: text where it is nothing but text. */
export type ChatMessage = { role: string; content?: AttributeValue; tool_calls?: CalledTool[] };

/** What a list, or JSON text of one, holds of messages; undefined: it is none. */
export function messagesOf(value: AttributeValue | undefined, role: string): ChatMessage[] | undefined {
  const list = value === undefined ? undefined : parsed(value);
  if (Array.isArray(list)) return list.map((one) => messageOf(one, role));
  if (isObject(list)) return [messageOf(list, role)];
  return typeof list === 'string' && list !== '' ? [{ role, content: list }] : undefined;
}

/** `role`: of a message that names none. */
export function messageOf(value: AttributeValue, role: string): ChatMessage {
  if (!isObject(value)) return { role, content: value };
  // OpenInference: {message: {…}}.
  const message = isObject(value['message']) ? value['message'] : value;
  const parts = listOf(message['parts']) ?? listOf(message['contents']) ?? listOf(message['content']);
  const content = parts === undefined ? message['content'] : contentOf(parts);
  const calls = [
    ...callsIn(parts ?? []),
    ...callsIn(listOf(message['tool_calls']) ?? listOf(message['toolCalls']) ?? []),
  ];
  return {
    role: typeof message['role'] === 'string' ? message['role'] : role,
    ...(content === undefined || content === null || content === '' ? {} : { content }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function listOf(value: AttributeValue | undefined): AttributeValue[] | undefined {
  const list = value === undefined ? undefined : parsed(value);
  return Array.isArray(list) ? list : undefined;
}

/** Text where all parts but calls of tools are text; else the parts as they are. */
function contentOf(parts: readonly AttributeValue[]): AttributeValue | undefined {
  const rest = parts.filter((part) => calledTool(part) === undefined);
  const texts = rest.map(textOfPart);
  if (texts.every((text) => text !== undefined)) return texts.length === 0 ? undefined : texts.join('\n');
  return rest;
}

function textOfPart(part: AttributeValue): string | undefined {
  if (typeof part === 'string') return part;
  const inner = member(part, 'message_content') ?? part;
  const text = member(inner, 'text') ?? member(inner, 'content');
  const type = member(inner, 'type');
  return typeof text === 'string' && (type === undefined || type === 'text') ? text : undefined;
}

function callsIn(parts: readonly AttributeValue[]): CalledTool[] {
  return parts.flatMap((part) => calledTool(part) ?? []);
}

/** A call of a tool in one of its forms, or undefined. */
function calledTool(part: AttributeValue): CalledTool | undefined {
  const call = member(part, 'tool_call') ?? part;
  const type = member(call, 'type');
  if (type !== undefined && !CALL_TYPES.has(String(type))) return undefined;
  const of = member(call, 'function') ?? call;
  const name = member(of, 'name') ?? member(of, 'toolName');
  if (typeof name !== 'string') return undefined;
  const args = member(of, 'arguments') ?? member(of, 'args') ?? member(of, 'input');
  const id = member(call, 'id') ?? member(call, 'toolCallId');
  return {
    ...(typeof id === 'string' ? { id } : {}),
    name,
    ...(args === undefined ? {} : { arguments: parsed(args) }),
  };
}

const CALL_TYPES = new Set(['tool_call', 'tool-call', 'tool_use', 'function', 'function_call']);

/** The last thing that a person said; undefined: none did. */
export function lastUserText(messages: readonly ChatMessage[]): string | undefined {
  for (let i = messages.length - 1; i >= 0; i--)
    if (messages[i]!.role === 'user' || messages[i]!.role === 'human') return textOfMessage(messages[i]!);
  return undefined;
}

export function textOfMessage({ content }: ChatMessage): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.map(textOfPart).filter((text) => text !== undefined);
  return texts.length === 0 ? undefined : texts.join('\n');
}
